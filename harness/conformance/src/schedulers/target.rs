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
mod tests;
