//! The scheduler that is tested: ours in this process, a program that we start, or one that runs
//! on the cluster already. What it can do is declared; scenarios that need more are skipped.

mod kueue;
mod queues;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use schedlab_json::Value;
use schedlab_scheduler::{Config, config::names};
use serde::Deserialize;

use crate::text;
use crate::tools::starts_with_program;

pub(crate) use queues::QueueApi;

/// What is known of a target without a file, by the name of its program or scheduler.
const KNOWN: [(&str, &str); 6] = [
    ("deployment", include_str!("target/deployment.yaml")),
    ("kai-scheduler", include_str!("target/kai-scheduler.yaml")),
    ("schedlab-scheduler", include_str!("target/schedlab-scheduler.yaml")),
    ("kube-scheduler", include_str!("target/kube-scheduler.yaml")),
    ("default-scheduler", include_str!("target/kube-scheduler.yaml")),
    ("kueue", include_str!("target/kueue.yaml")),
];

/// The scheduler that manifests name.
const KAI: &str = "kai-scheduler";

/// Tags that name what a scheduler can do, and what each means.
pub const CAPABILITIES: [(&str, &str); 26] = [
    ("quota", "queues have a quota that holds"),
    ("non-preemptible", "who may not be evicted stays within the quota"),
    ("queue-priority", "queues are served by their priority"),
    ("min-runtime", "who has just started is left alone for a time"),
    ("borrowing", "what nobody uses may be used over the quota"),
    ("reclaim", "what was borrowed is taken back"),
    ("fair-share", "what is over is shared by weight"),
    ("time-based-fairness", "who used much before waits for who did not"),
    ("gang", "all pods of a group start or none"),
    ("elastic", "a gang grows beyond its minimum, and shrinks to it"),
    ("sub-groups", "a gang has parts with minimums of their own"),
    ("podgrouper", "gangs are made from jobs and their like"),
    ("consolidation", "pods are moved to make room in one place"),
    ("bin-packing", "one node is filled before the next, and those with GPUs are kept for them"),
    ("shared-gpus", "parts of a GPU are given away"),
    ("sparing-devices", "who is content with any device leaves to others what only they want"),
    ("topology", "a gang stays within a rack or a zone"),
    ("lab", "the operations lab's manifests: queues and gangs together"),
    ("osmo", "pools as OSMO lays them out on queues"),
    ("starvation", "who waits is served in the end, by queue and priority"),
    ("kai-words", "reasons and events in KAI's words"),
    (
        "kai-settings",
        "KAI's settings: configuration, placement strategy, default times, fair shares told",
    ),
    ("webhooks", "its webhooks are asked before queues, pod groups and pods are stored"),
    ("kube-profile", "what the default kube-scheduler does"),
    ("snapshots", "what is submitted in one step it sees in one cycle: placements are compared"),
    ("faults", "it can be stopped, started and killed at a write"),
];

/// Which scheduler, as people say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// Ours, in this process.
    Ours,
    /// A program, with placeholders.
    Process(String),
    /// The scheduler of that name, which runs on the cluster.
    Installed(String),
    /// Ours, installed on the cluster from this image.
    Deployment(String),
}

/// The image that `kind-configs/image scheduler` built last.
const LAST_BUILT: &str = "schedlab/scheduler:dev";

/// From one cycle to the next of ours as a Deployment: scenarios wait for its cycles most of their
/// time.
pub(crate) const DEPLOYED_PERIOD: Duration = Duration::from_millis(500);

impl Which {
    /// The scheduler that runs on the cluster before us.
    pub(crate) fn installed(&self) -> Option<String> {
        match self {
            Self::Installed(name) => Some(name.clone()),
            Self::Ours | Self::Process(_) | Self::Deployment(_) => None,
        }
    }
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "ours" => Ok(Self::Ours),
            Some(("process", command)) if !command.trim().is_empty() => {
                starts_with_program(command)?;
                Ok(Self::Process(command.trim().to_owned()))
            }
            Some(("installed", name)) if !name.is_empty() => Ok(Self::Installed(name.to_owned())),
            None if text == "deployment" => Ok(Self::Deployment(LAST_BUILT.to_owned())),
            Some(("deployment", image)) if !image.is_empty() => {
                Ok(Self::Deployment(image.to_owned()))
            }
            _ => Err("allowed are ours, process:COMMAND, installed:NAME and deployment[:IMAGE]"
                .to_owned()),
        }
    }
}

/// What is put in the folder of a scheduler's process beside the target's files: how it reaches the
/// cluster, and what it prints.
pub(crate) const KUBECONFIG: &str = "kubeconfig";
pub(crate) const LOG: &str = "log";

/// What stands for what in the command of a process.
const PLACEHOLDERS: [&str; 4] = ["{kubeconfig}", "{scheduler-name}", "{profile}", "{dir}"];

/// What stands for a program of the command line in the command of a target file.
const PROGRAM: &str = "{program}";

/// Whether a command has no placeholders but these. What is not written as one is the shell's.
pub(crate) fn only_placeholders(command: &str, known: &[&str]) -> Result<(), String> {
    let named = command.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let is_word =
        |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let mut named = named.map(|(name, _)| name).filter(is_word).map(|name| format!("{{{name}}}"));
    match named.find(|name| !known.contains(&name.as_str())) {
        Some(odd) => {
            let known = known.join(", ");
            Err(format!("there is no placeholder {odd} in a command; there are {known}"))
        }
        None => Ok(()),
    }
}

/// A scheduler to be tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What it is called in reports.
    pub name: String,
    /// How it comes to run.
    pub which: Which,
    /// How it is told of queues.
    pub(crate) queues: QueueApi,
    /// What pods name in `spec.schedulerName`.
    scheduler_name: Option<String>,
    /// From one of its cycles to the next, where that is not what is built in.
    period: Option<Duration>,
    /// Names of what it can do; `None`: everything.
    capabilities: Option<BTreeSet<String>>,
    /// Files that its command names as `{dir}/NAME`, with placeholders.
    pub(crate) files: BTreeMap<String, String>,
}

/// A target file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    scheduler_name: Option<String>,
    /// A [`QueueApi`] by its name.
    queues: String,
    capabilities: Vec<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

fn known_names() -> String {
    KNOWN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn known(name: &str) -> Option<&'static (&'static str, &'static str)> {
    KNOWN.iter().find(|(known, _)| *known == name)
}

impl Target {
    /// Ours, in this process.
    pub fn ours() -> Self {
        Self {
            name: "ours".to_owned(),
            which: Which::Ours,
            queues: QueueApi::Kai,
            scheduler_name: None,
            period: None,
            capabilities: None,
            files: BTreeMap::new(),
        }
    }

    /// Whether it names one that is known, none of them ours in this process, and no file.
    pub(crate) fn is_known(file: &Path) -> bool {
        file.to_str().and_then(known).is_some() && !file.exists()
    }

    /// What a command line asks for; `file` declares it where it is not known, or names one that is.
    pub fn find(which: &Which, file: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = file {
            let named = path.to_str().and_then(known).filter(|_| Self::is_known(path));
            if let Some((name, text)) = named {
                return Self::read(name, text, which);
            }
            let shown = path.display().to_string();
            let others = if path.exists() {
                String::new()
            } else {
                format!("; known without a file are {}", known_names())
            };
            let text = text::read(path)
                .map_err(|unreadable| anyhow!("target file {}{others}", unreadable.of(&shown)))?;
            return Self::read(&shown, &text, which);
        }
        let name = match which {
            Which::Ours => return Ok(Self::ours()),
            Which::Installed(name) => name.clone(),
            Which::Deployment(_) => "deployment".to_owned(),
            Which::Process(command) => {
                let program = command.split_whitespace().next().unwrap_or_default();
                program.rsplit('/').next().unwrap_or_default().to_owned()
            }
        };
        let (_, text) = known(&name).with_context(|| {
            format!(
                "what {name:?} can do is not known: declare it in a target file with --target; \
                 known are {}",
                known_names()
            )
        })?;
        Self::read(&name, text, which)
    }

    fn read(place: &str, text: &str, which: &Which) -> anyhow::Result<Self> {
        let file: File = serde_saphyr::from_str(text)
            .map_err(|error| anyhow::anyhow!("{place}: no target file: {error}"))?;
        let known: Vec<&str> = CAPABILITIES.iter().map(|(name, _)| *name).collect();
        if let Some(unknown) = file.capabilities.iter().find(|one| !known.contains(&one.as_str())) {
            let line = text.lines().position(|line| line.contains(unknown.as_str()));
            anyhow::bail!(
                "{place}:{}: there is no capability {unknown:?}; allowed are {}",
                line.map_or(1, |line| line + 1),
                known.join(", ")
            );
        }
        let named = [("name", Some(&file.name)), ("schedulerName", file.scheduler_name.as_ref())];
        for (field, name) in named {
            let allowed = names::SCHEDULER_NAME;
            if let Some(odd) = name.filter(|name| !names::is_scheduler_name(name)) {
                anyhow::bail!("{place}: {field}: found {odd:?}, allowed: {allowed}");
            }
        }
        if let Some(odd) = file.files.keys().find(|name| !is_plain_name(name)) {
            anyhow::bail!(
                "{place}: files: found {odd:?}, allowed is the name of a file in the scheduler's \
                 folder, without a path, and neither {KUBECONFIG:?} nor {LOG:?}"
            );
        }
        let queues =
            QueueApi::named(&file.queues).map_err(|unknown| anyhow!("{place}: {unknown}"))?;
        let which = match (which, file.command) {
            (Which::Ours, Some(command)) => {
                anyhow::ensure!(
                    !command.contains(PROGRAM),
                    "{place}: command: {PROGRAM} stands for what --scheduler process:PROGRAM \
                     names, and nothing is named"
                );
                Which::Process(command)
            }
            (Which::Process(command), Some(rest)) if !command.contains(' ') => {
                // The program alone: the file knows its arguments.
                Which::Process(rest.replacen(PROGRAM, command, 1))
            }
            // What runs there is known by its own name, or by that of its target.
            (Which::Installed(name), _) if *name == file.name => {
                Which::Installed(file.scheduler_name.clone().unwrap_or(file.name.clone()))
            }
            (which, _) => which.clone(),
        };
        if let Which::Process(command) = &which {
            starts_with_program(command)
                .and_then(|()| only_placeholders(command, &PLACEHOLDERS))
                .map_err(|odd| anyhow!("the command of {place}: {odd}"))?;
        }
        let installed = which.installed();
        let period = matches!(which, Which::Deployment(_)).then_some(DEPLOYED_PERIOD);
        Ok(Self {
            period,
            name: file.name,
            which,
            queues,
            scheduler_name: installed.or(file.scheduler_name),
            capabilities: Some(file.capabilities.into_iter().collect()),
            files: file.files,
        })
    }

    /// How it is set up before a scenario says more.
    pub(crate) fn config(&self, seed: u64) -> Config {
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

    /// Gives it the pods of an object that features write for KAI, in templates, too.
    pub(crate) fn claim_pods(&self, object: &mut Value) {
        if let Some(name) = &self.scheduler_name {
            rename_scheduler(object, name);
        }
    }

    /// Whether its own times can be made shorter: those of a program cannot.
    pub(crate) fn keeps_pace(&self) -> bool {
        self.which == Which::Ours
    }

    /// Whether it runs on the cluster, where an API server finds its webhooks.
    pub(crate) fn is_on_cluster(&self) -> bool {
        matches!(self.which, Which::Installed(_) | Which::Deployment(_))
    }

    /// Whether it tells this process which share it gives each queue.
    pub(crate) fn tells_shares(&self) -> bool {
        self.which == Which::Ours
    }

    /// What it lacks of what is needed.
    pub(crate) fn lacks<'n>(&self, needed: &BTreeSet<&'n str>) -> Vec<&'n str> {
        let Some(can) = &self.capabilities else { return Vec::new() };
        needed.iter().copied().filter(|need| !can.contains(*need)).collect()
    }
}

fn rename_scheduler(value: &mut Value, new: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rename_scheduler(item, new)),
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                if key == "schedulerName" && *value == KAI {
                    *value = new.into();
                } else {
                    rename_scheduler(value, new);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A file of its own in the folder of a scheduler's process, beside those that we put there.
fn is_plain_name(name: &str) -> bool {
    let path = Path::new(name);
    path.file_name().is_some_and(|only| only == path) && ![KUBECONFIG, LOG].contains(&name)
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;

    #[test]
    fn a_target_and_its_scheduler_have_names() {
        let read = |names: &str| {
            let text = format!("{names}\nqueues: none\ncapabilities: []");
            Target::read("t.yaml", &text, &Which::Ours).map(|_| ()).map_err(|e| e.to_string())
        };
        assert_eq!(read("name: x\nschedulerName: y"), Ok(()));
        let allowed =
            "allowed: 1 to 63 letters, digits, -, _ and ., a letter or digit first and last";
        let told = format!("t.yaml: name: found \"\", {allowed}");
        assert_eq!(read("name: ''"), Err(told));
        let told = format!("t.yaml: schedulerName: found \"My Scheduler!\", {allowed}");
        assert_eq!(read("name: x\nschedulerName: My Scheduler!"), Err(told));
    }

    #[test]
    fn a_target_file_says_what_is_wrong_and_where() {
        let text = "name: mine\nqueues: none\ncapabilities:\n- gangs\n";
        let error = Target::read("t.yaml", text, &Which::Ours).unwrap_err().to_string();
        assert!(error.starts_with("t.yaml:4: there is no capability \"gangs\""), "{error}");
        let error =
            Target::read("t.yaml", "name: x\nqueues: volcano\ncapabilities: []", &Which::Ours);
        let allowed = "t.yaml: queues: found \"volcano\", allowed are scheduling.run.ai/v2, \
                       kueue.x-k8s.io/v1beta2, none";
        assert_eq!(error.unwrap_err().to_string(), allowed);
        for name in ["../../x.yaml", "/x.yaml", "sub/x.yaml", "..", "", "kubeconfig", "log"] {
            let text =
                format!("name: x\nqueues: none\ncapabilities: []\nfiles: {{{name:?}: text}}");
            let error = Target::read("t.yaml", &text, &Which::Ours).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("t.yaml: files: found {name:?}, allowed is")),
                "{error}"
            );
        }
        let text = "name: x\nqueues: none\ncapabilities: []\nfiles: {a.yaml: text}";
        assert!(Target::read("t.yaml", text, &Which::Ours).is_ok());
    }

    #[test]
    fn kueue_is_known_by_its_name_and_its_pods_are_the_default_schedulers() {
        let default = Which::Installed("default-scheduler".to_owned());
        let (by_name, by_target) = ("installed:kueue".parse().unwrap(), Path::new("kueue"));
        for target in [
            Target::find(&by_name, None).unwrap(),
            Target::find(&default, Some(by_target)).unwrap(),
        ] {
            assert_eq!((&*target.name, &target.which), ("kueue", &default));
            assert_eq!(target.queues, QueueApi::Kueue);
            assert_eq!(target.config(0).scheduler_name, "default-scheduler");
            assert_eq!(target.lacks(&BTreeSet::from(["quota", "elastic"])), ["elastic"]);
        }
        let second = "installed:second".parse().unwrap();
        let second = Target::find(&second, Some(by_target)).unwrap();
        assert_eq!(second.config(0).scheduler_name, "second");
    }

    #[test]
    fn what_is_known_can_be_read_and_lacks_what_it_does_not_name() {
        let which: Which = "process:/opt/kube-scheduler".parse().unwrap();
        let target = Target::find(&which, None).unwrap();
        assert_eq!(target.lacks(&BTreeSet::from(["gang", "kube-profile"])), ["gang"]);
        let Which::Process(command) = &target.which else { panic!("{target:?}") };
        assert!(command.starts_with("/opt/kube-scheduler --config"), "{command}");
        let ours = Target::find(&"process:schedlab-scheduler".parse().unwrap(), None).unwrap();
        assert!(ours.lacks(&BTreeSet::from(["gang", "reclaim", "quota"])).is_empty());
        let odd = "process:schedlab-scheduler run --kubeconfig {kubecfg} ${HOME}".parse().unwrap();
        let odd = Target::find(&odd, None).unwrap_err().to_string();
        assert!(odd.contains("there is no placeholder {kubecfg}"), "{odd}");
        let strange = Target::find(&"installed:mine".parse().unwrap(), None).unwrap_err();
        assert!(strange.to_string().contains("--target"), "{strange}");
    }

    #[test]
    fn pods_that_are_written_for_kai_are_for_whoever_is_tested() {
        let text = "name: mine\nschedulerName: my-sched\nqueues: none\ncapabilities: []\n";
        let mine = Target::read("t.yaml", text, &Which::Ours).unwrap();
        let named = |name: &str| json!({"spec": {"jobs": [{"template": {"spec": {"schedulerName": name}}}]}});
        for (target, written, there) in [
            (&mine, "kai-scheduler", "my-sched"),
            (&mine, "another", "another"),
            (&Target::ours(), "kai-scheduler", "kai-scheduler"),
        ] {
            let mut object = named(written);
            target.claim_pods(&mut object);
            assert_eq!(object, named(there));
        }
    }
}
