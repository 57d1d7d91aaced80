//! The target: the scheduler under test. It is ours in this process, a program that we start, or
//! one that is installed on the cluster. Its capabilities are declared; scenarios that need others
//! are skipped.

mod programs;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use schedlab_api::Value;
use schedlab_scheduler::{Config, Flavor, config::names};
use serde::Deserialize;

use super::adapters::{GangApi, Inexpressible, QueueApi, Queues, Translator};
use super::capabilities::CAPABILITIES_AND_MEANINGS;
use super::times::OwnTimes;
use super::words::{Dialect, Words};
use crate::text;
use schedlab_clusters::scheduler_source::{DEPLOYED_CYCLE_PERIOD, SchedulerSource};

pub(crate) use programs::Readiness;
pub(crate) use programs::{Prerequisites, TargetProgram};

/// Built-in target files, by the name of the scheduler or of its program.
const BUILT_IN_TARGETS: [(&str, &str); 10] = [
    ("kai", include_str!("target/kai.yaml")),
    ("deployment", include_str!("target/deployment.yaml")),
    ("kai-scheduler", include_str!("target/kai-scheduler.yaml")),
    ("schedlab-scheduler", include_str!("target/schedlab-scheduler.yaml")),
    ("kube-scheduler", include_str!("target/kube-scheduler.yaml")),
    ("default-scheduler", include_str!("target/kube-scheduler.yaml")),
    ("kueue", include_str!("target/kueue.yaml")),
    ("volcano", include_str!("target/volcano.yaml")),
    ("yunikorn", include_str!("target/yunikorn.yaml")),
    ("coscheduling", include_str!("target/coscheduling.yaml")),
];

/// The scheduler name that features use in manifests.
const KAI_SCHEDULER_NAME: &str = "kai-scheduler";

/// The name of the kubeconfig that schedlab creates in the folder of a scheduler process, beside
/// the target's files.
pub(super) const KUBECONFIG_FILE_NAME: &str = "kubeconfig";
/// The extension of files with the output of a program, in the same folder as the kubeconfig.
const LOG_EXTENSION: &str = "log";

/// Placeholders that the command of a scheduler process may contain.
const PLACEHOLDERS: [&str; 7] = [
    "{kubeconfig}",
    "{scheduler-name}",
    "{profile}",
    "{feature-gates}",
    "{dir}",
    TARGET_FOLDER_PLACEHOLDER,
    PORT_PLACEHOLDER,
];

/// Placeholder for the folder of the built target.
pub(super) const TARGET_FOLDER_PLACEHOLDER: &str = "{folder}";

/// Placeholder for a free port. Each NAME is another port.
const PORT_PLACEHOLDER: &str = "{port:NAME}";

/// Placeholder in the command of a target file for the PROGRAM of `--scheduler process:PROGRAM`.
const PROGRAM_PLACEHOLDER: &str = "{program}";

/// Fails if a command contains an unknown placeholder. Other braces are left to the shell.
///
/// # Errors
/// The message names the placeholder and those that are allowed.
pub fn check_placeholders(command: &str, allowed: &[&str]) -> Result<(), String> {
    let named = command.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let is_word = |name: &&str| {
        let is_part = |c: char| c.is_ascii_lowercase() || matches!(c, '-' | ':');
        !name.is_empty() && name.chars().all(is_part)
    };
    let mut named = named.map(|(name, _)| name).filter(is_word).map(|name| format!("{{{name}}}"));
    let is_allowed = |name: &str| {
        allowed.contains(&name) || allowed.contains(&PORT_PLACEHOLDER) && name.starts_with("{port:")
    };
    match named.find(|name| !is_allowed(name)) {
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
    /// The API in which the scheduler's gangs are described.
    pub(crate) gangs: GangApi,
    /// The name of a queue above those without a parent, if the scheduler needs one.
    root_queue: Option<String>,
    /// The value of `spec.schedulerName` in the scheduler's pods; `None` is the built-in default.
    scheduler_name: Option<String>,
    /// The time between two scheduling cycles; `None` is the built-in default.
    period: Option<Duration>,
    /// The names of the scheduler's capabilities; `None` means all.
    capabilities: Option<BTreeSet<String>>,
    /// The capabilities that the scheduler does not have, with the reasons.
    unsupported: BTreeMap<String, UnsupportedCapability>,
    /// The version of the scheduler, if it is known.
    pub version: Option<String>,
    /// In which words the scheduler reports reasons and events.
    words: Words,
    /// The scheduler's own times; `None` means that they can be scaled.
    times: Option<OwnTimes>,
    /// Files to which the scheduler's command refers as `{dir}/NAME`, with placeholders in their
    /// text.
    pub files: BTreeMap<String, String>,
    /// The programs of the scheduler, in the order in which they are started; empty unless schedlab
    /// starts it.
    pub programs: Vec<TargetProgram>,
    /// What must exist on the cluster before the programs start.
    pub prerequisites: Prerequisites,
    /// The folder of the built target, in which programs and CRDs are.
    pub folder: Option<PathBuf>,
}

/// Why a scheduler does not have a capability.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnsupportedCapability {
    /// The reason, in one sentence without a full stop.
    pub reason: String,
    /// Where the scheduler's own documentation says so, or what it offers instead.
    #[serde(default)]
    pub documentation: Option<String>,
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
    /// The name of the [`GangApi`] of the scheduler; by default that which belongs to the queues.
    #[serde(default)]
    gangs: Option<String>,
    /// The name of a queue above those without a parent (KAI's Queues only).
    #[serde(default)]
    root_queue: Option<String>,
    capabilities: Vec<String>,
    /// The capabilities that the scheduler does not have, with the reasons.
    #[serde(default)]
    unsupported: BTreeMap<String, UnsupportedCapability>,
    /// The version of the scheduler, for reports.
    #[serde(default)]
    version: Option<String>,
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
    /// The programs of a scheduler that consists of several, instead of `command`.
    #[serde(default)]
    programs: Vec<TargetProgram>,
    #[serde(default)]
    prerequisites: Prerequisites,
    /// The folder of the built target: NAME/VERSION below the folder of all built targets.
    #[serde(default)]
    folder: Option<PathBuf>,
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
            gangs: GangApi::Kai,
            root_queue: None,
            scheduler_name: None,
            period: None,
            capabilities: None,
            unsupported: BTreeMap::new(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            words: Words::Schedlab,
            times: None,
            files: BTreeMap::new(),
            programs: Vec::new(),
            prerequisites: Prerequisites::default(),
            folder: None,
        }
    }

    /// The target for no scheduler at all. It has all capabilities of our scheduler, so that all
    /// scenarios run: one that passes does not test the scheduler.
    fn no_scheduler() -> Self {
        let (name, source) = ("no scheduler".to_owned(), SchedulerSource::NoScheduler);
        Self { name, source, version: None, ..Self::ours() }
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
        check_capability_names(&file, text)
            .map_err(|(line, problem)| anyhow!("{location}:{line}: {problem}"))?;
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
                 folder, without a path, and neither {KUBECONFIG_FILE_NAME:?} nor a log"
            );
        }
        let apis = TargetApis::parse(&file).map_err(|problem| anyhow!("{location}: {problem}"))?;
        let times = OwnTimes::parse(&file.times)
            .map_err(|invalid| anyhow!("{location}: times: {invalid}"))?;
        let (requested, source) = (source, source::resolve_source(location, &file, source)?);
        let programs = source::programs(&file, requested, &source);
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
            queues: apis.queues,
            gangs: apis.gangs,
            root_queue: file.root_queue,
            unsupported: file.unsupported,
            scheduler_name: installed.or(file.scheduler_name),
            capabilities: Some(file.capabilities.into_iter().collect()),
            version: file.version,
            words: file.words,
            times: (file.words != Words::Schedlab).then_some(times),
            files: file.files,
            programs,
            prerequisites: file.prerequisites,
            folder: file.folder.as_deref().map(programs::target_folder),
        })
    }

    /// The CRDs and priority classes that the programs of the target need.
    ///
    /// # Errors
    /// A file with CRDs cannot be read.
    pub fn cluster_objects(&self) -> anyhow::Result<(Vec<Value>, Vec<Value>)> {
        if self.programs.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let folder = self.folder.as_deref().unwrap_or(Path::new(""));
        let definitions = self
            .prerequisites
            .read_crds(folder)
            .with_context(|| format!("target {}: crds", self.name))?;
        Ok((definitions, self.prerequisites.priority_class_objects()))
    }

    /// The kind of an object that a CRD of the target defines; `None` if another one defines it, or
    /// if the CRDs cannot be read.
    pub(crate) fn own_kind_of(&self, object: &Value) -> Option<String> {
        let (group, _) = object["apiVersion"].as_str()?.split_once('/')?;
        let kind = object["kind"].as_str()?;
        let (definitions, _) = self.cluster_objects().ok()?;
        let defines = |definition: &Value| {
            definition["spec"]["group"] == group && definition["spec"]["names"]["kind"] == kind
        };
        definitions.iter().any(defines).then(|| kind.to_owned())
    }

    /// The objects that each scenario gets before the programs of the target start.
    ///
    /// # Errors
    /// The manifests of the target are not YAML.
    pub(crate) fn scenario_objects(&self) -> anyhow::Result<Vec<Value>> {
        if self.programs.is_empty() {
            return Ok(Vec::new());
        }
        let name = self.scheduler_name.as_deref().unwrap_or(KAI_SCHEDULER_NAME);
        self.prerequisites
            .scenario_objects(|text| text.replace("{scheduler-name}", name))
            .with_context(|| format!("target {}", self.name))
    }

    /// The commands of the target's programs, with the folder of the built target.
    pub fn program_commands(&self) -> impl Iterator<Item = String> {
        let folder = self.folder.as_ref().map(|folder| folder.display().to_string());
        self.programs.iter().map(move |program| match &folder {
            Some(folder) => program.command.replace(TARGET_FOLDER_PLACEHOLDER, folder),
            None => program.command.clone(),
        })
    }

    /// The feature gate of Kubernetes that the API of the target's gangs needs.
    pub fn gang_feature_gate(&self) -> Option<&'static str> {
        self.gangs.feature_gate()
    }

    /// The scheduler's initial configuration, before a scenario changes it.
    pub fn scheduler_config(&self, seed: u64) -> Config {
        let mut config = match self.queues {
            QueueApi::Kai => Config::kai(),
            QueueApi::Kueue | QueueApi::Volcano | QueueApi::YuniKorn | QueueApi::None => {
                Config::kube()
            }
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

    /// How often the scheduler acts by itself in real time.
    pub fn real_times(&self) -> OwnTimes {
        let period = self.period.unwrap_or(Duration::from_secs(1));
        self.times.unwrap_or(OwnTimes { cycle: period, backoff: period })
    }

    /// The flavor whose objects describe jobs to the scheduler: KAI's queues and pod groups, or
    /// pods alone. `None` if it reads queues of another API.
    pub fn flavor_of_jobs(&self) -> Option<Flavor> {
        match self.queues {
            QueueApi::Kai => Some(Flavor::Kai),
            QueueApi::None => Some(Flavor::Kube),
            QueueApi::Kueue | QueueApi::Volcano | QueueApi::YuniKorn => None,
        }
    }

    /// Whether the scheduler uses the words of this dialect in reasons and events.
    pub(crate) fn uses_words_of(&self, dialect: Dialect) -> bool {
        self.words.include(dialect)
    }

    /// Whether the scheduler uses all words of ours in reasons and events (`words: schedlab`).
    pub fn uses_our_words(&self) -> bool {
        self.words == Words::Schedlab
    }

    /// Whether the scheduler places pods as the snapshots show, which show what ours does.
    pub(crate) fn matches_snapshots(&self) -> bool {
        self.uses_our_words()
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

    /// The name of a queue above those without a parent, if the scheduler needs one.
    pub(crate) fn root_queue(&self) -> Option<&str> {
        self.root_queue.as_deref()
    }

    /// A translator of workloads without queues and gangs of its own; `None` if the scheduler reads
    /// KAI's objects.
    pub(crate) fn translator(&self, scheduler: String) -> Option<Translator> {
        let (queue_api, gang_api) = (self.queues, self.gangs);
        let translates = queue_api.adapter().is_some() || gang_api.adapter().is_some();
        translates.then(|| Translator {
            queue_api,
            gang_api,
            scheduler,
            queues: Queues::default(),
            known_groups: Vec::new(),
        })
    }

    /// Why the scheduler does not have a capability, as its target file or an adapter says it.
    pub fn unsupported_reason(&self, capability: &str) -> Option<String> {
        if let Some(found) = self.unsupported.get(capability) {
            let documentation = found.documentation.as_ref();
            let documentation = documentation.map_or(String::new(), |place| format!(" ({place})"));
            return Some(format!("{}{documentation}", found.reason));
        }
        let apis = TargetApis { queues: self.queues, gangs: self.gangs };
        let found = apis.inexpressible().find(|(name, _)| *name == capability);
        found.map(|(_, reason)| reason.to_owned())
    }

    /// The message that the scheduler lacks capabilities, with the reason of each that has one.
    pub(crate) fn missing_capabilities_text(&self, missing: &[&str]) -> String {
        let text = |name: &&str| match self.unsupported_reason(name) {
            Some(reason) => format!("{name}: {reason}"),
            None => (*name).to_owned(),
        };
        let missing: Vec<String> = missing.iter().map(text).collect();
        let separator = if missing.iter().any(|text| text.contains(": ")) { "; " } else { ", " };
        format!("{} lacks {}", self.name, missing.join(separator))
    }

    /// The names of the declared capabilities; `None` means all.
    pub fn declared_capabilities(&self) -> Option<impl Iterator<Item = &str>> {
        Some(self.capabilities.as_ref()?.iter().map(String::as_str))
    }

    /// The capabilities in `required` that the scheduler lacks.
    pub(crate) fn missing_capabilities<'n>(&self, required: &BTreeSet<&'n str>) -> Vec<&'n str> {
        let Some(capabilities) = &self.capabilities else { return Vec::new() };
        required.iter().copied().filter(|need| !capabilities.contains(*need)).collect()
    }
}

/// The APIs of a target.
#[derive(Clone, Copy, Debug)]
struct TargetApis {
    queues: QueueApi,
    gangs: GangApi,
}

impl TargetApis {
    /// The APIs of a target file. Fails if the file claims a capability that they cannot express.
    fn parse(file: &TargetFile) -> Result<Self, String> {
        let queues = QueueApi::from_api_name(&file.queues)?;
        let gangs = match &file.gangs {
            None => queues.usual_gang_api(),
            Some(name) => GangApi::from_api_name(name)?,
        };
        if let Some(root) = file.root_queue.as_ref().filter(|_| queues != QueueApi::Kai) {
            let kai = schedlab_api::api_versions::QUEUE;
            return Err(format!(
                "rootQueue: got {root:?}, expected no value unless queues is {kai}"
            ));
        }
        let apis = Self { queues, gangs };
        let claimed = |(name, _): &Inexpressible| file.capabilities.iter().any(|one| one == name);
        match apis.inexpressible().find(claimed) {
            None => Ok(apis),
            Some((name, reason)) => Err(format!(
                "capabilities: got {name:?}, expected only what the target's APIs can express: \
                 {reason}"
            )),
        }
    }

    /// The capabilities that the APIs cannot express, with the reasons.
    fn inexpressible(self) -> impl Iterator<Item = Inexpressible> {
        let of_queues = self.queues.adapter().map_or(&[][..], |adapter| adapter.inexpressible());
        let of_gangs = self.gangs.adapter().map_or(&[][..], |adapter| adapter.inexpressible());
        of_queues.iter().chain(of_gangs).copied()
    }
}

/// Checks the capabilities that a target file names. The error has the line and the problem.
fn check_capability_names(file: &TargetFile, text: &str) -> Result<(), (usize, String)> {
    let known: Vec<&str> = CAPABILITIES_AND_MEANINGS.iter().map(|(name, _)| *name).collect();
    let line_of =
        |word: &str| text.lines().position(|line| line.contains(word)).map_or(1, |n| n + 1);
    let fields = [
        ("capabilities", file.capabilities.iter().collect::<Vec<_>>()),
        ("unsupported", file.unsupported.keys().collect()),
    ];
    for (field, names) in fields {
        if let Some(unknown) = names.into_iter().find(|one| !known.contains(&one.as_str())) {
            let near = text::nearest_word(unknown, known.iter().copied());
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            let problem = format!("{field}: got {unknown:?}, expected {}{near}", known.join(", "));
            return Err((line_of(unknown), problem));
        }
    }
    match file.unsupported.keys().find(|name| file.capabilities.contains(name)) {
        None => Ok(()),
        Some(both) => {
            let problem =
                format!("unsupported: got {both:?}, expected no capability of `capabilities`");
            Err((line_of(both), problem))
        }
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
        && ![KUBECONFIG_FILE_NAME, LOG_EXTENSION].contains(&name)
        && path.extension().is_none_or(|extension| extension != LOG_EXTENSION)
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
            "name: x\nqueues: slurm\ncapabilities: []",
            &SchedulerSource::Ours,
        );
        let allowed = "t.yaml: queues: got \"slurm\", expected scheduling.run.ai/v2, \
                       kueue.x-k8s.io/v1beta2, scheduling.volcano.sh/v1beta1, \
                       yunikorn-configs, none";
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
            target.missing_capabilities(&BTreeSet::from(["quota", "least-allocated"])),
            ["quota"]
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
    fn a_target_declares_its_words_and_times() {
        let read = |fields: &str| {
            let text = format!("name: x\nqueues: none\ncapabilities: []\n{fields}");
            Target::parse_target_file("t.yaml", &text, &SchedulerSource::Ours)
        };
        let silent = read("").unwrap();
        assert!(!silent.uses_words_of(Dialect::Kubernetes) && !silent.matches_snapshots());
        assert_eq!(silent.own_times(), Some(OwnTimes::default()));
        let kai = read("words: kai\ntimes: {cycle: 2s}").unwrap();
        assert!(kai.uses_words_of(Dialect::Kai) && !kai.uses_words_of(Dialect::Schedlab));
        assert_eq!(kai.scheduler_config(1).period, Duration::from_secs(2));
        let ours = read("words: schedlab").unwrap();
        assert!(ours.uses_words_of(Dialect::Schedlab) && ours.matches_snapshots());
        assert_eq!(ours.own_times(), None, "the configuration sets its times");
        let error = read("times: {cycle: soon}").unwrap_err().to_string();
        let expected = "t.yaml: times: cycle: got \"soon\", expected a time such as 1s, up to 10m";
        assert_eq!(error, expected);
        let error = read("words: klingon").unwrap_err().to_string();
        assert!(error.contains("klingon") && error.contains("schedlab"), "{error}");
    }

    #[test]
    fn a_capability_that_an_api_cannot_express_cannot_be_claimed() {
        let read = |text: &str| {
            Target::parse_target_file("t.yaml", text, &SchedulerSource::Ours)
                .map_err(|error| error.to_string())
        };
        let kueue = "name: x\nqueues: kueue.x-k8s.io/v1beta2\n";
        assert_eq!(
            read(&format!("{kueue}capabilities: [elastic]")).unwrap_err(),
            "t.yaml: capabilities: got \"elastic\", expected only what the target's APIs can \
             express: a group of pods has a size and no smaller minimum"
        );
        let pod_groups = "gangs: scheduling.k8s.io/v1beta1";
        let target = read(&format!("{kueue}{pod_groups}\ncapabilities: [elastic]")).unwrap();
        assert_eq!(target.gangs, GangApi::Kubernetes);
        let error = read(&format!("{kueue}gangs: podgroups\ncapabilities: []")).unwrap_err();
        assert!(error.starts_with("t.yaml: gangs: got \"podgroups\", expected"), "{error}");
        let both = "capabilities: [quota]\nunsupported: {quota: {reason: no}}";
        assert_eq!(
            read(&format!("{kueue}{both}")).unwrap_err(),
            "t.yaml:3: unsupported: got \"quota\", expected no capability of `capabilities`"
        );
        let error = read(&format!("{kueue}rootQueue: all\ncapabilities: []")).unwrap_err();
        assert!(error.starts_with("t.yaml: rootQueue: got \"all\", expected no value"), "{error}");
    }

    #[test]
    fn kinds_that_crds_of_the_target_define_are_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let definition = "kind: CustomResourceDefinition\n\
                          spec: {group: scheduling.run.ai, names: {kind: PodGroup}}\n";
        std::fs::write(folder.path().join("crds.yaml"), definition).unwrap();
        let text = format!(
            "name: x\nqueues: none\ncapabilities: []\nfolder: {}\nprerequisites: {{crds: [crds.yaml]}}\n\
             programs: [{{name: a, command: a}}]\n",
            folder.path().display()
        );
        let target = Target::parse_target_file("t.yaml", &text, &SchedulerSource::Ours).unwrap();
        let own = |version: &str, kind: &str| {
            target.own_kind_of(&json!({"apiVersion": version, "kind": kind}))
        };
        assert_eq!(own("scheduling.run.ai/v2alpha2", "PodGroup").as_deref(), Some("PodGroup"));
        assert_eq!(own("scheduling.run.ai/v2", "Queue"), None);
        assert_eq!(own("scheduling.k8s.io/v1beta1", "PodGroup"), None);
        assert_eq!(own("v1", "Pod"), None);
        assert_eq!(Target::ours().own_kind_of(&json!({"kind": "Pod"})), None);
    }

    #[test]
    fn a_missing_capability_has_its_reason() {
        let text = "name: x\nqueues: kueue.x-k8s.io/v1beta2\ncapabilities: []\n\
                    unsupported: {topology: {reason: no racks, documentation: docs/racks}}";
        let target = Target::parse_target_file("t.yaml", text, &SchedulerSource::Ours).unwrap();
        let missing = ["elastic", "topology", "quota"];
        assert_eq!(
            target.missing_capabilities_text(&missing),
            "x lacks elastic: a group of pods has a size and no smaller minimum; topology: no racks \
             (docs/racks); quota"
        );
        assert_eq!(target.missing_capabilities_text(&["quota", "gang"]), "x lacks quota, gang");
    }

    /// Capabilities about schedlab or about KAI's own objects, of which no other project has a page.
    const WITHOUT_DOCUMENTATION: [&str; 6] = [
        "reported-shares",
        "configuration",
        "bind-requests",
        "webhooks",
        "node-pools",
        "pod-groups",
    ];

    #[test]
    fn unsupported_capabilities_of_other_projects_name_their_documentation() {
        for (name, text) in BUILT_IN_TARGETS {
            let source = SchedulerSource::Process("x".to_owned());
            let target = Target::parse_target_file(name, text, &source).unwrap();
            for (capability, found) in &target.unsupported {
                let is_named = match &found.documentation {
                    Some(at) => at.contains("://"),
                    None => WITHOUT_DOCUMENTATION.contains(&capability.as_str()),
                };
                assert!(is_named && !found.reason.ends_with('.'), "{name}: {capability}");
            }
        }
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
