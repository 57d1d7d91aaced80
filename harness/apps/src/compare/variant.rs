//! Variants: what A and B change of the common fleet, queues and scheduler.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use schedlab_conformance::text::did_you_mean_suffix;
use schedlab_scheduler::{Config, ConfigSource, Flavor};

use crate::experiment::{ProcessArgs, ProcessScheduler, SimulatedScheduler};
use crate::inputs::{self, InputFiles, TraceError, TraceNode, TraceQueue};
use crate::simulate::Profile;

/// One side of a comparison.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    /// The option, for the report.
    pub(super) label: String,
    pub(super) nodes: Vec<TraceNode>,
    /// The files, for messages.
    pub(super) files: InputFiles,
    pub(super) queues: Vec<TraceQueue>,
    pub(super) profile: Profile,
    pub(super) config: ConfigSource,
    /// A scheduler in processes of its own, instead of ours.
    pub(super) process: Option<Box<ProcessScheduler>>,
}

/// What a value of `--a` or `--b` is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Profile(Profile),
    Fleet(PathBuf),
    Queues(PathBuf),
    Config(PathBuf),
}

/// The label of a side without an option.
const UNCHANGED: &str = "as given";

/// What values a side may have, for messages.
const ALLOWED: &str = "kai, kube, or files of queues, of the scheduler's configuration or of a \
     fleet, separated by commas, and at last process:COMMAND";

impl Variant {
    /// The variant that changes nothing.
    pub(super) fn unchanged(files: InputFiles, profile: Profile) -> anyhow::Result<Self> {
        let fleet = inputs::read_fleet(&files.nodes)?;
        let queues = match &files.queues {
            Some(path) => inputs::read_queues(path)?,
            None => fleet.queues,
        };
        let (nodes, config) = (fleet.nodes, ConfigSource::default());
        let label = UNCHANGED.to_owned();
        Ok(Self { label, nodes, files, queues, profile, config, process: None })
    }

    /// This variant with the changes that `--a` or `--b` names.
    ///
    /// # Errors
    /// A value is no variant, its file is invalid, or its scheduler cannot be started.
    pub(super) fn changed(
        &self,
        option: &str,
        text: &str,
        process: &ProcessArgs,
    ) -> anyhow::Result<Self> {
        let mut changed = Self { label: text.to_owned(), ..self.clone() };
        let (values, program) = split_off_program(text);
        let values = match program {
            Some(_) => values.trim_end_matches(','),
            None => values,
        };
        let has_values = program.is_none() || !values.is_empty();
        let mut kinds = BTreeSet::new();
        for value in values.split(',').filter(|_| has_values) {
            let change = Change::of(value).map_err(|error| anyhow::anyhow!("{option}: {error}"))?;
            if !kinds.insert(change.kind()) {
                let kind = change.kind();
                anyhow::bail!("{option}: got a second {kind}, {value}, expected at most one");
            }
            changed.apply(change)?;
        }
        if let Some(program) = program {
            let source = program.parse().map_err(|error| anyhow::anyhow!("{option}: {error}"))?;
            let loaded = ProcessScheduler::load(&source, process);
            let scheduler = loaded.map_err(|error| anyhow::anyhow!("{option}: {error:#}"))?;
            changed.process = Some(Box::new(scheduler));
        }
        Ok(changed)
    }

    fn apply(&mut self, change: Change) -> anyhow::Result<()> {
        match change {
            Change::Profile(profile) => self.profile = profile,
            Change::Fleet(path) => {
                let fleet = inputs::read_fleet(&path)?;
                self.nodes = fleet.nodes;
                self.files.nodes = path;
                if !fleet.queues.is_empty() {
                    self.queues = fleet.queues;
                }
            }
            Change::Queues(path) => {
                self.queues = inputs::read_queues(&path)?;
                self.files.queues = Some(path);
            }
            Change::Config(path) => self.config = ConfigSource::read(Some(&path))?,
        }
        Ok(())
    }

    /// The flavor whose objects describe jobs to the scheduler.
    pub(super) fn flavor(&self) -> Flavor {
        let ours = || self.profile.config().flavor;
        self.process.as_ref().map_or_else(ours, |scheduler| scheduler.flavor())
    }

    /// The scheduler.
    ///
    /// # Errors
    /// A setting has no effect in the profile.
    pub(super) fn scheduler(&self, seed: u64) -> anyhow::Result<SimulatedScheduler> {
        if let Some(scheduler) = &self.process {
            return Ok(SimulatedScheduler::Process { scheduler: scheduler.clone(), seed });
        }
        let mut config = self.profile.config();
        self.config.apply(&mut config, |_| {})?;
        Ok(SimulatedScheduler::Ours(Box::new(Config { seed, ..config })))
    }
}

/// Splits the program of a scheduler from the changes before it: a command may have commas.
fn split_off_program(text: &str) -> (&str, Option<&str>) {
    let starts = std::iter::once(0).chain(text.match_indices(',').map(|(at, _)| at + 1));
    let mut parts = starts.filter_map(|at| text.split_at_checked(at));
    match parts.find(|(_, rest)| ProcessScheduler::is_named_by(rest)) {
        Some((values, program)) => (values, Some(program)),
        None => (text, None),
    }
}

impl Change {
    /// The change that a value names: a profile, or a file by its content.
    fn of(value: &str) -> anyhow::Result<Self> {
        if let Ok(profile) = value.parse() {
            return Ok(Self::Profile(profile));
        }
        let path = Path::new(value);
        let is_binary = path.extension().is_some_and(|end| end == "zip" || end == "gz");
        if is_binary || path.is_dir() {
            return Ok(Self::Fleet(path.to_owned()));
        }
        match fs::read_to_string(path) {
            Ok(text) => Self::of_text(path, &text),
            Err(error) if path.exists() => anyhow::bail!("{value}: cannot read the file: {error}"),
            Err(_) => {
                let near = near_value(path);
                anyhow::bail!("got {value:?}, which is no file, expected {ALLOWED}{near}")
            }
        }
    }

    /// What the change is about, for messages.
    fn kind(&self) -> &'static str {
        match self {
            Self::Profile(_) => "profile",
            Self::Fleet(_) => "fleet",
            Self::Queues(_) => "file of queues",
            Self::Config(_) => "configuration",
        }
    }

    /// The change that a file with this text is.
    fn of_text(path: &Path, text: &str) -> anyhow::Result<Self> {
        let path_buf = path.to_owned();
        let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension == Some("csv") {
            let has = |wanted: &str| first.split(',').any(|column| column.trim() == wanted);
            return match (has("quota"), has("sn")) {
                (true, _) => Ok(Self::Queues(path_buf)),
                (false, true) => Ok(Self::Fleet(path_buf)),
                (false, false) => anyhow::bail!(
                    "{}:1: got the columns {first}, expected quota among those of queues, or sn \
                     among those of nodes",
                    path.display()
                ),
            };
        }
        let has_line = |start: &str| text.lines().any(|line| line.trim_start().starts_with(start));
        let is_object = has_line("kind:") || has_line("\"kind\":");
        if is_object {
            let is_queues = has_kind(text, "Queue") && !has_kind(text, "Node");
            return Ok(if is_queues { Self::Queues(path_buf) } else { Self::Fleet(path_buf) });
        }
        if first.starts_with('{') && !matches!(extension, Some("yaml" | "yml")) {
            let has = |field: &str| first.contains(&format!("\"{field}\""));
            if has("quota") {
                return Ok(Self::Queues(path_buf));
            }
            // An object over several lines is a snapshot.
            if first == "{" || ["gpus", "cpu_milli", "memory_mib"].into_iter().any(has) {
                return Ok(Self::Fleet(path_buf));
            }
            anyhow::bail!(
                "{}: got {first}, expected \"quota\" of a queue, or \"gpus\" of a node",
                path.display()
            );
        }
        Ok(if has_line("pools:") { Self::Fleet(path_buf) } else { Self::Config(path_buf) })
    }
}

/// The suffix of a message that names the nearest profile, or file in the same folder.
fn near_value(path: &Path) -> String {
    let (folder, name) = (path.parent(), path.file_name().unwrap_or_default().to_string_lossy());
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten();
    let mut known: Vec<String> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    known.sort();
    let profiles = ["kai", "kube"].into_iter().filter(|_| folder.is_none());
    did_you_mean_suffix(&name, profiles.chain(known.iter().map(String::as_str)))
}

/// Whether a text of Kubernetes objects, in YAML or JSON, has one of this kind.
fn has_kind(text: &str, kind: &str) -> bool {
    let wanted = format!("kind:{kind}");
    let bare = |line: &str| line.trim().trim_start_matches("- ").replace(['"', ',', ' '], "");
    text.lines().any(|line| bare(line) == wanted)
}

/// Checks a variant with these jobs, and that it has nodes and queues.
pub(super) fn check(variant: &Variant, jobs: &[inputs::TraceJob]) -> Result<(), TraceError> {
    let trace = inputs::Trace {
        nodes: variant.nodes.clone(),
        queues: variant.queues.clone(),
        jobs: jobs.to_vec(),
    };
    inputs::check(&variant.files, &trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_comes_last_and_may_have_commas() {
        let program = "process:s --zones a,b";
        assert_eq!(split_off_program(&format!("q.jsonl,{program}")), ("q.jsonl,", Some(program)));
        assert_eq!(split_off_program(program), ("", Some(program)));
        assert_eq!(split_off_program("kube,q.jsonl"), ("kube,q.jsonl", None));
    }

    #[test]
    fn a_file_is_known_by_its_content() {
        let change = |name: &str, text: &str| Change::of_text(Path::new(name), text).unwrap();
        let queues = |name: &str| Change::Queues(name.into());
        let fleet = |name: &str| Change::Fleet(name.into());
        assert_eq!(change("q.csv", "name,quota\na,1\n"), queues("q.csv"));
        assert_eq!(change("n.csv", "sn,cpu_milli,memory_mib,gpu\n"), fleet("n.csv"));
        assert_eq!(change("q.jsonl", "{\"name\": \"a\", \"quota\": 1}\n"), queues("q.jsonl"));
        assert_eq!(change("n.jsonl", "{\"name\": \"a\", \"gpus\": 1}\n"), fleet("n.jsonl"));
        assert_eq!(change("q.yaml", "kind: List\nitems:\n- kind: Queue\n"), queues("q.yaml"));
        assert_eq!(change("n.json", "{\n \"items\": [{\n \"kind\": \"Node\",\n"), fleet("n.json"));
        assert_eq!(change("f.yaml", "pools:\n- name: a\n"), fleet("f.yaml"));
        let config = Change::Config("s.yaml".into());
        assert_eq!(change("s.yaml", "placementStrategy: {gpu: spread}\n"), config);
        assert_eq!(Change::of("kube").unwrap(), Change::Profile(Profile::Kube));
        let error = |name: &str, text: &str| {
            Change::of_text(Path::new(name), text).unwrap_err().to_string()
        };
        assert_eq!(
            error("q.csv", "name,quotas\na,1\n"),
            "q.csv:1: got the columns name,quotas, expected quota among those of queues, or sn \
             among those of nodes"
        );
        assert_eq!(
            error("q.jsonl", "{\"name\": \"a\", \"qouta\": 1}\n"),
            "q.jsonl: got {\"name\": \"a\", \"qouta\": 1}, expected \"quota\" of a queue, or \
             \"gpus\" of a node"
        );
    }

    fn error_of(folder: &Path, change: &str) -> String {
        let files = InputFiles {
            nodes: folder.join("nodes.jsonl"),
            jobs: PathBuf::new(),
            format: None,
            queues: None,
        };
        fs::write(&files.nodes, "{\"name\": \"n\", \"gpus\": 8}\n").unwrap();
        let given = Variant::unchanged(files, Profile::Kai).unwrap();
        let changed = given.changed("--b", change, &ProcessArgs { target: None, speed: 300.0 });
        changed.unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_value_names_the_nearest_profile_or_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = error_of(folder.path(), "kia");
        assert!(error.starts_with("--b: got \"kia\", which is no file, expected kai,"), "{error}");
        assert!(error.ends_with("; did you mean `kai`?"), "{error}");
        fs::write(folder.path().join("planned.jsonl"), "").unwrap();
        let misspelt = folder.path().join("planed.jsonl");
        let error = error_of(folder.path(), &misspelt.display().to_string());
        assert!(error.ends_with("; did you mean `planned.jsonl`?"), "{error}");
    }

    #[test]
    fn a_side_has_at_most_one_value_of_a_kind_and_no_empty_value() {
        let folder = tempfile::tempdir().unwrap();
        let error = |change: &str| error_of(folder.path(), change);
        assert_eq!(error("kai,kube"), "--b: got a second profile, kube, expected at most one");
        assert!(error("").starts_with("--b: got \"\", which is no file"), "{}", error(""));
        assert!(error("kai,").starts_with("--b: got \"\", which is no file"), "{}", error("kai,"));
    }
}
