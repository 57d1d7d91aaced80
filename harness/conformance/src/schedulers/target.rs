//! The target: the scheduler under test. It is ours in this process, a program that we start, or
//! one that is installed on the cluster. Its capabilities are declared; scenarios that need others
//! are skipped.

mod kueue;
mod queues;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use schedlab_api::Value;
use schedlab_scheduler::{Config, config::names};
use serde::Deserialize;

use super::capabilities::CAPABILITIES_AND_MEANINGS;
use super::times::OwnTimes;
use super::words::{Dialect, Words};
use crate::text;
use schedlab_clusters::external_tools::check_command_starts_with_program;
use schedlab_clusters::scheduler_source::{DEPLOYED_CYCLE_PERIOD, SchedulerSource};

pub(crate) use queues::QueueApi;

/// Built-in target files, by the name of the scheduler or of its program.
const BUILT_IN_TARGETS: [(&str, &str); 6] = [
    ("deployment", include_str!("target/deployment.yaml")),
    ("kai-scheduler", include_str!("target/kai-scheduler.yaml")),
    ("schedlab-scheduler", include_str!("target/schedlab-scheduler.yaml")),
    ("kube-scheduler", include_str!("target/kube-scheduler.yaml")),
    ("default-scheduler", include_str!("target/kube-scheduler.yaml")),
    ("kueue", include_str!("target/kueue.yaml")),
];

/// The scheduler name that features use in manifests.
const KAI_SCHEDULER_NAME: &str = "kai-scheduler";

/// The name of the kubeconfig that schedlab creates in the folder of a scheduler process, beside
/// the target's files.
pub(super) const KUBECONFIG_FILE_NAME: &str = "kubeconfig";
/// The name of the file with the output of a scheduler process, in the same folder as the
/// kubeconfig.
pub(super) const LOG_FILE_NAME: &str = "log";

/// Placeholders that the command of a scheduler process may contain.
const PLACEHOLDERS: [&str; 5] =
    ["{kubeconfig}", "{scheduler-name}", "{profile}", "{feature-gates}", "{dir}"];

/// Placeholder in the command of a target file for the PROGRAM of `--scheduler process:PROGRAM`.
const PROGRAM_PLACEHOLDER: &str = "{program}";

/// Fails if a command contains an unknown placeholder. Other braces are left to the shell.
///
/// # Errors
/// The message names the placeholder and those that are allowed.
pub fn check_placeholders(command: &str, allowed: &[&str]) -> Result<(), String> {
    let named = command.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let is_word =
        |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let mut named = named.map(|(name, _)| name).filter(is_word).map(|name| format!("{{{name}}}"));
    match named.find(|name| !allowed.contains(&name.as_str())) {
        Some(unknown) => {
            let known = allowed.join(", ");
            Err(format!("unknown placeholder: got {unknown}, expected one of {known}"))
        }
        None => Ok(()),
    }
}

/// A scheduler under test, with its capabilities and the API of its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name of the scheduler in reports.
    pub name: String,
    /// Where the scheduler comes from.
    pub source: SchedulerSource,
    /// The API in which the scheduler's queues are configured.
    pub(crate) queues: QueueApi,
    /// The value of `spec.schedulerName` in the scheduler's pods; `None` is the built-in default.
    scheduler_name: Option<String>,
    /// The time between two scheduling cycles; `None` is the built-in default.
    period: Option<Duration>,
    /// The names of the scheduler's capabilities; `None` means all.
    capabilities: Option<BTreeSet<String>>,
    /// In which words the scheduler reports reasons and events.
    words: Words,
    /// The scheduler's own times; `None` means that they can be scaled.
    times: Option<OwnTimes>,
    /// Files to which the scheduler's command refers as `{dir}/NAME`, with placeholders in their
    /// text.
    pub files: BTreeMap<String, String>,
}

/// The format of a target file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TargetFile {
    name: String,
    #[serde(default)]
    scheduler_name: Option<String>,
    /// The name of the [`QueueApi`] of the scheduler.
    queues: String,
    capabilities: Vec<String>,
    /// In which words the scheduler reports reasons and events.
    #[serde(default)]
    words: Words,
    /// The scheduler's own times, such as `{cycle: 1s, backoff: 10s}`.
    #[serde(default)]
    times: BTreeMap<String, String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

fn built_in_target_names() -> String {
    BUILT_IN_TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn find_built_in_target(name: &str) -> Option<&'static (&'static str, &'static str)> {
    BUILT_IN_TARGETS.iter().find(|(known, _)| *known == name)
}

impl Target {
    /// The target for our scheduler in this process.
    pub fn ours() -> Self {
        Self {
            name: "ours".to_owned(),
            source: SchedulerSource::Ours,
            queues: QueueApi::Kai,
            scheduler_name: None,
            period: None,
            capabilities: None,
            words: Words::Schedlab,
            times: None,
            files: BTreeMap::new(),
        }
    }

    /// The target for no scheduler at all. It has all capabilities of our scheduler, so that all
    /// scenarios run: one that passes does not test the scheduler.
    fn no_scheduler() -> Self {
        let (name, source) = ("no scheduler".to_owned(), SchedulerSource::NoScheduler);
        Self { name, source, ..Self::ours() }
    }

    /// Whether `file` is the name of a built-in target and not a file.
    pub fn is_built_in(file: &Path) -> bool {
        file.to_str().and_then(find_built_in_target).is_some() && !file.exists()
    }

    /// The target for the options of a command line. `file` is a target file or the name of a
    /// built-in target; without it, the name of the scheduler or of its program selects a built-in
    /// target.
    ///
    /// # Errors
    /// The file cannot be read or is invalid, or there is no built-in target of that name.
    pub fn load_target(source: &SchedulerSource, file: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = file {
            let built_in_target =
                path.to_str().and_then(find_built_in_target).filter(|_| Self::is_built_in(path));
            if let Some((name, text)) = built_in_target {
                return Self::parse_target_file(name, text, source);
            }
            let shown = path.display().to_string();
            let known_targets = if path.exists() {
                String::new()
            } else {
                format!("; built-in targets are {}", built_in_target_names())
            };
            let text = text::read_text_file(path).map_err(|unreadable| {
                anyhow!("target file {}{known_targets}", unreadable.message_with_file(&shown))
            })?;
            return Self::parse_target_file(&shown, &text, source);
        }
        let name = match source {
            SchedulerSource::Ours => return Ok(Self::ours()),
            SchedulerSource::NoScheduler => return Ok(Self::no_scheduler()),
            SchedulerSource::Installed(name) => name.clone(),
            SchedulerSource::Deployment(_) => "deployment".to_owned(),
            SchedulerSource::Process(command) => {
                let program = command.split_whitespace().next().unwrap_or_default();
                program.rsplit('/').next().unwrap_or_default().to_owned()
            }
        };
        let (_, text) = find_built_in_target(&name).with_context(|| {
            format!(
                "the capabilities of {name:?} are unknown: declare them in a target file with \
                 --target; built-in targets are {}",
                built_in_target_names()
            )
        })?;
        Self::parse_target_file(&name, text, source)
    }

    fn parse_target_file(
        location: &str,
        text: &str,
        source: &SchedulerSource,
    ) -> anyhow::Result<Self> {
        let file: TargetFile = serde_saphyr::from_str(text)
            .map_err(|error| anyhow::anyhow!("{location}: invalid target file: {error}"))?;
        let known: Vec<&str> = CAPABILITIES_AND_MEANINGS.iter().map(|(name, _)| *name).collect();
        if let Some(unknown) = file.capabilities.iter().find(|one| !known.contains(&one.as_str())) {
            let line = text.lines().position(|line| line.contains(unknown.as_str()));
            anyhow::bail!(
                "{location}:{}: capabilities: got {unknown:?}, expected {}",
                line.map_or(1, |line| line + 1),
                known.join(", ")
            );
        }
        let named = [("name", Some(&file.name)), ("schedulerName", file.scheduler_name.as_ref())];
        for (field, name) in named {
            let allowed = names::SCHEDULER_NAME_RULE;
            if let Some(invalid) = name.filter(|name| !names::is_scheduler_name(name)) {
                anyhow::bail!("{location}: {field}: got {invalid:?}, expected {allowed}");
            }
        }
        if let Some(invalid) = file.files.keys().find(|name| !is_plain_file_name(name)) {
            anyhow::bail!(
                "{location}: files: got {invalid:?}, expected the name of a file in the scheduler's \
                 folder, without a path, and neither {KUBECONFIG_FILE_NAME:?} nor {LOG_FILE_NAME:?}"
            );
        }
        let queues = QueueApi::from_api_name(&file.queues)
            .map_err(|unknown| anyhow!("{location}: {unknown}"))?;
        let times = OwnTimes::parse(&file.times)
            .map_err(|invalid| anyhow!("{location}: times: {invalid}"))?;
        let source = match (source, file.command) {
            (SchedulerSource::Ours, Some(command)) => {
                anyhow::ensure!(
                    !command.contains(PROGRAM_PLACEHOLDER),
                    "{location}: command: {PROGRAM_PLACEHOLDER} needs --scheduler process:PROGRAM"
                );
                SchedulerSource::Process(command)
            }
            (SchedulerSource::Process(command), Some(rest)) if !command.contains(' ') => {
                // Only the program is given: the target file contains its arguments.
                SchedulerSource::Process(rest.replacen(PROGRAM_PLACEHOLDER, command, 1))
            }
            // An installed scheduler is selected by its own name or by the name of its target.
            (SchedulerSource::Installed(name), _) if *name == file.name => {
                SchedulerSource::Installed(file.scheduler_name.clone().unwrap_or(file.name.clone()))
            }
            (which, _) => which.clone(),
        };
        if let SchedulerSource::Process(command) = &source {
            check_command_starts_with_program(command)
                .and_then(|()| check_placeholders(command, &PLACEHOLDERS))
                .map_err(|problem| anyhow!("{location}: command: {problem}"))?;
        }
        let installed = source.installed_scheduler_name();
        let period = match (&source, file.words) {
            (SchedulerSource::Deployment(_), _) => Some(DEPLOYED_CYCLE_PERIOD),
            (_, Words::Schedlab) => None,
            _ => Some(times.cycle),
        };
        Ok(Self {
            period,
            name: file.name,
            source,
            queues,
            scheduler_name: installed.or(file.scheduler_name),
            capabilities: Some(file.capabilities.into_iter().collect()),
            words: file.words,
            times: (file.words != Words::Schedlab).then_some(times),
            files: file.files,
        })
    }

    /// The scheduler's initial configuration, before a scenario changes it.
    pub fn scheduler_config(&self, seed: u64) -> Config {
        let mut config = match self.queues {
            QueueApi::Kai => Config::kai(),
            QueueApi::Kueue | QueueApi::None => Config::kube(),
        };
        if let Some(name) = &self.scheduler_name {
            config.scheduler_name.clone_from(name);
        }
        config.period = self.period.unwrap_or(config.period);
        Config { seed, ..config }
    }

    /// Assigns pods and pod templates in an object to this scheduler, if features wrote them for
    /// KAI's scheduler.
    pub(crate) fn set_scheduler_name(&self, object: &mut Value) {
        if let Some(name) = &self.scheduler_name {
            rename_scheduler_in(object, name);
        }
    }

    /// The scheduler's own times, which its target file declares and which cannot be shortened.
    /// `None` for our scheduler, whose times its configuration sets.
    pub(crate) fn own_times(&self) -> Option<OwnTimes> {
        self.times
    }

    /// Whether the scheduler uses the words of this dialect in reasons and events.
    pub(crate) fn uses_words_of(&self, dialect: Dialect) -> bool {
        self.words.include(dialect)
    }

    /// Whether the scheduler places pods as the snapshots show, which show what ours does.
    pub(crate) fn matches_snapshots(&self) -> bool {
        self.words == Words::Schedlab
    }

    /// Whether the target is our scheduler in this process, whose placements are reviewed byte for
    /// byte.
    pub(crate) fn is_ours(&self) -> bool {
        self.source == SchedulerSource::Ours
    }

    /// Whether steps can stop, start and kill the scheduler: it is in this process, or a program
    /// that schedlab starts.
    pub(crate) fn can_be_stopped(&self) -> bool {
        match self.source {
            SchedulerSource::Ours | SchedulerSource::NoScheduler | SchedulerSource::Process(_) => {
                true
            }
            SchedulerSource::Installed(_) | SchedulerSource::Deployment(_) => false,
        }
    }

    /// Whether the scheduler runs on the cluster, where an API server can reach its webhooks.
    pub(crate) fn is_on_cluster(&self) -> bool {
        matches!(self.source, SchedulerSource::Installed(_) | SchedulerSource::Deployment(_))
    }

    /// Whether the scheduler reports the fair share of each queue to this process.
    pub(crate) fn reports_fair_shares(&self) -> bool {
        self.source == SchedulerSource::Ours
    }

    /// The capabilities in `required` that the scheduler lacks.
    pub(crate) fn missing_capabilities<'n>(&self, required: &BTreeSet<&'n str>) -> Vec<&'n str> {
        let Some(capabilities) = &self.capabilities else { return Vec::new() };
        required.iter().copied().filter(|need| !capabilities.contains(*need)).collect()
    }
}

fn rename_scheduler_in(value: &mut Value, new: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rename_scheduler_in(item, new)),
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                if key == "schedulerName" && *value == KAI_SCHEDULER_NAME {
                    *value = new.into();
                } else {
                    rename_scheduler_in(value, new);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether `name` is a plain file name that does not collide with our own files.
fn is_plain_file_name(name: &str) -> bool {
    let path = Path::new(name);
    path.file_name().is_some_and(|only| only == path)
        && ![KUBECONFIG_FILE_NAME, LOG_FILE_NAME].contains(&name)
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn names_in_a_target_file_are_validated() {
        let read = |names: &str| {
            let text = format!("{names}\nqueues: none\ncapabilities: []");
            Target::parse_target_file("t.yaml", &text, &SchedulerSource::Ours)
                .map(|_| ())
                .map_err(|e| e.to_string())
        };
        assert_eq!(read("name: x\nschedulerName: y"), Ok(()));
        let allowed = "expected 1 to 63 letters, digits, -, _ or ., starting and ending with a letter or digit";
        let expected = format!("t.yaml: name: got \"\", {allowed}");
        assert_eq!(read("name: ''"), Err(expected));
        let expected = format!("t.yaml: schedulerName: got \"My Scheduler!\", {allowed}");
        assert_eq!(read("name: x\nschedulerName: My Scheduler!"), Err(expected));
    }

    #[test]
    fn errors_in_a_target_file_have_a_location() {
        let text = "name: mine\nqueues: none\ncapabilities:\n- gangs\n";
        let error = Target::parse_target_file("t.yaml", text, &SchedulerSource::Ours)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("t.yaml:4: capabilities: got \"gangs\""), "{error}");
        let error = Target::parse_target_file(
            "t.yaml",
            "name: x\nqueues: volcano\ncapabilities: []",
            &SchedulerSource::Ours,
        );
        let allowed = "t.yaml: queues: got \"volcano\", expected scheduling.run.ai/v2, \
                       kueue.x-k8s.io/v1beta2, none";
        assert_eq!(error.unwrap_err().to_string(), allowed);
        for name in ["../../x.yaml", "/x.yaml", "sub/x.yaml", "..", "", "kubeconfig", "log"] {
            let text =
                format!("name: x\nqueues: none\ncapabilities: []\nfiles: {{{name:?}: text}}");
            let error = Target::parse_target_file("t.yaml", &text, &SchedulerSource::Ours)
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with(&format!("t.yaml: files: got {name:?}, expected")),
                "{error}"
            );
        }
        let text = "name: x\nqueues: none\ncapabilities: []\nfiles: {a.yaml: text}";
        assert!(Target::parse_target_file("t.yaml", text, &SchedulerSource::Ours).is_ok());
    }

    #[test]
    fn the_kueue_target_uses_the_default_scheduler() {
        let default = SchedulerSource::Installed("default-scheduler".to_owned());
        let (by_name, by_target) = ("installed:kueue".parse().unwrap(), Path::new("kueue"));
        for target in [
            Target::load_target(&by_name, None).unwrap(),
            Target::load_target(&default, Some(by_target)).unwrap(),
        ] {
            assert_eq!((&*target.name, &target.source), ("kueue", &default));
            assert_eq!(target.queues, QueueApi::Kueue);
            assert_eq!(target.scheduler_config(0).scheduler_name, "default-scheduler");
            assert_eq!(
                target.missing_capabilities(&BTreeSet::from(["quota", "elastic"])),
                ["elastic"]
            );
        }
        let second = "installed:second".parse().unwrap();
        let second = Target::load_target(&second, Some(by_target)).unwrap();
        assert_eq!(second.scheduler_config(0).scheduler_name, "second");
    }

    #[test]
    fn built_in_targets_lack_undeclared_capabilities() {
        let which: SchedulerSource = "process:/opt/kube-scheduler".parse().unwrap();
        let target = Target::load_target(&which, None).unwrap();
        assert_eq!(
            target.missing_capabilities(&BTreeSet::from(["gang", "kube-profile"])),
            ["gang"]
        );
        let SchedulerSource::Process(command) = &target.source else { panic!("{target:?}") };
        assert!(command.starts_with("/opt/kube-scheduler --config"), "{command}");
        let ours =
            Target::load_target(&"process:schedlab-scheduler".parse().unwrap(), None).unwrap();
        assert!(
            ours.missing_capabilities(&BTreeSet::from(["gang", "reclaim", "quota"])).is_empty()
        );
        let error =
            "process:schedlab-scheduler run --kubeconfig {kubecfg} ${HOME}".parse().unwrap();
        let error = Target::load_target(&error, None).unwrap_err().to_string();
        assert!(error.contains("unknown placeholder: got {kubecfg}"), "{error}");
        let error = Target::load_target(&"installed:mine".parse().unwrap(), None).unwrap_err();
        assert!(error.to_string().contains("--target"), "{error}");
    }

    #[test]
    fn pods_for_kai_get_the_targets_scheduler_name() {
        let text = "name: mine\nschedulerName: my-sched\nqueues: none\ncapabilities: []\n";
        let mine = Target::parse_target_file("t.yaml", text, &SchedulerSource::Ours).unwrap();
        let named = |name: &str| json!({"spec": {"jobs": [{"template": {"spec": {"schedulerName": name}}}]}});
        for (target, written, there) in [
            (&mine, "kai-scheduler", "my-sched"),
            (&mine, "another", "another"),
            (&Target::ours(), "kai-scheduler", "kai-scheduler"),
        ] {
            let mut object = named(written);
            target.set_scheduler_name(&mut object);
            assert_eq!(object, named(there));
        }
    }
}
