//! Assigns pods to workloads, and symbols to both.

use std::collections::BTreeMap;

use schedlab_api::{
    Value, annotations, labels,
    object::{annotation, label},
};
use schedlab_audit::unschedulable_message;

use super::{ClusterObjects, string};
use crate::render::aliases::{Alias, Aliases, generated_prefix, without_hash};

/// A workload in a placement: the pods of one owner, or pods with the same name except for the
/// number.
pub(super) struct Workload<'a> {
    pub(super) letter: String,
    pub(super) label: String,
    pub(super) queue: String,
    pub(super) pods: Vec<PlacedPod<'a>>,
}

pub(super) struct PlacedPod<'a> {
    pub(super) object: &'a Value,
    pub(super) symbol: Alias,
    pub(super) node: &'a str,
    pub(super) devices: Vec<usize>,
    pub(super) state: PodState,
    pub(super) reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PodState {
    Running,
    Starting,
    Terminating,
    Pending,
    Gated,
    Succeeded,
    Failed,
}

impl PodState {
    fn from_pod(pod: &Value) -> Self {
        let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
        match string(pod, "/status/phase") {
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ if pod.pointer("/metadata/deletionTimestamp").is_some() => Self::Terminating,
            "Running" => Self::Running,
            _ if !string(pod, "/spec/nodeName").is_empty() => Self::Starting,
            _ if gates.is_some_and(|gates| !gates.is_empty()) => Self::Gated,
            _ => Self::Pending,
        }
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Starting => "starting",
            Self::Terminating => "leaving",
            Self::Pending => "pending",
            Self::Gated => "gated",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

impl PlacedPod<'_> {
    pub(super) fn cell(&self) -> String {
        let leaving = if self.state == PodState::Terminating { "-" } else { "" };
        format!("{}{leaving}", self.symbol.text())
    }

    pub(super) fn holds_resources(&self) -> bool {
        match self.state {
            PodState::Running | PodState::Starting | PodState::Terminating => !self.node.is_empty(),
            PodState::Pending | PodState::Gated | PodState::Succeeded | PodState::Failed => false,
        }
    }
}

/// All pods by workload, both sorted by name.
pub(super) fn assign_symbols<'a>(cluster: &ClusterObjects<'a>) -> Vec<Workload<'a>> {
    let mut pods = cluster.pods.to_vec();
    // Pods with random suffixes are numbered by creation time and location, which keeps the text
    // the same in every run.
    pods.sort_by_cached_key(|pod| {
        let chance = generated_prefix(pod).is_some();
        let name = string(pod, "/metadata/name").to_owned();
        let location = (string(pod, "/spec/nodeName").to_owned(), devices(pod));
        let created = string(pod, "/metadata/creationTimestamp").to_owned();
        (chance.then_some((created, location)), name)
    });
    let mut ordinals = Aliases::default();
    for pod in &pods {
        ordinals.register(pod);
    }
    let queues = queues(cluster);
    let mut workloads: BTreeMap<(String, String), Vec<(&Value, Alias)>> = BTreeMap::new();
    let owners = owner_counts(&pods);
    for pod in pods {
        let (label, mark) = workload_and_alias(pod, &ordinals, &owners);
        workloads.entry((label, queue_of(pod, &queues))).or_default().push((pod, mark));
    }
    let workloads = workloads.into_iter().enumerate();
    workloads
        .map(|(at, ((label, queue), pods))| workload(letter(at), label, queue, pods, &ordinals))
        .collect()
}

fn workload<'a>(
    letter: String,
    label: String,
    queue: String,
    pods: Vec<(&'a Value, Alias)>,
    ordinals: &Aliases,
) -> Workload<'a> {
    let single = pods.len() == 1;
    let numbers: Vec<Option<usize>> = pods.iter().map(|(_, shown)| shown.number).collect();
    let mut distinct = numbers.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let by_name = distinct.len() == numbers.len() && !numbers.contains(&None);
    let pods = pods.into_iter().enumerate().map(|(at, (pod, shown))| {
        let number = if by_name { shown.number } else { Some(at) };
        let number = if single && shown.number.is_none() { None } else { number };
        PlacedPod {
            object: pod,
            symbol: Alias { stem: letter.clone(), number },
            node: string(pod, "/spec/nodeName"),
            devices: devices(pod),
            state: PodState::from_pod(pod),
            reason: unschedulable_message(pod).map(|reason| ordinals.replace_names(reason)),
        }
    });
    let mut pods: Vec<PlacedPod<'a>> = pods.collect();
    pods.sort_by(|a, b| a.symbol.cmp(&b.symbol));
    Workload { letter, label, queue, pods }
}

/// The workload's label, and the pod's alias in it.
fn workload_and_alias(
    pod: &Value,
    ordinals: &Aliases,
    owners: &BTreeMap<(String, String), usize>,
) -> (String, Alias) {
    let namespace = string(pod, "/metadata/namespace");
    let prefix = if namespace == "default" { String::new() } else { format!("{namespace}/") };
    let shown = ordinals.alias_of(namespace, string(pod, "/metadata/name"));
    let alone = |name: &str| {
        let shown = Alias::from_name(name);
        let star = if shown.number.is_some() { "*" } else { "" };
        (format!("{prefix}{}{star}", shown.stem), shown)
    };
    match owner(pod) {
        Some(owner) if owners.get(&(namespace.to_owned(), owner.to_owned())) == Some(&1) => {
            alone(owner)
        }
        Some(owner) => (format!("{prefix}{owner}"), shown),
        None if string(pod, "/metadata/generateName").is_empty() => {
            alone(string(pod, "/metadata/name"))
        }
        None => (shown.stem.clone(), shown),
    }
}

fn owner_counts(pods: &[&Value]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        if let Some(owner) = owner(pod) {
            let key = (string(pod, "/metadata/namespace").to_owned(), owner.to_owned());
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

fn owner(pod: &Value) -> Option<&str> {
    let owners = pod.pointer("/metadata/ownerReferences")?.as_array()?;
    let controls = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    let name = owners.iter().find(controls)?.get("name")?.as_str()?;
    Some(without_hash(pod, name))
}

/// The queue of each pod group, by namespace and name.
fn queues(cluster: &ClusterObjects<'_>) -> BTreeMap<(String, String), String> {
    let queues = cluster.pod_groups.iter().map(|group| {
        let part = |at| string(group, at).to_owned();
        ((part("/metadata/namespace"), part("/metadata/name")), part("/spec/queue"))
    });
    queues.collect()
}

fn queue_of(pod: &Value, queues: &BTreeMap<(String, String), String>) -> String {
    let group = annotation(pod, annotations::POD_GROUP_NAME).unwrap_or_default();
    let key = (string(pod, "/metadata/namespace").to_owned(), group.to_owned());
    let labelled = || label(pod, labels::QUEUE).unwrap_or_default().to_owned();
    queues.get(&key).cloned().unwrap_or_else(labelled)
}

fn devices(pod: &Value) -> Vec<usize> {
    let listed = annotation(pod, annotations::GPU_DEVICES).unwrap_or_default();
    listed.split(',').filter_map(|index| index.trim().parse().ok()).collect()
}

/// a to z, then aa, ab, …
fn letter(mut at: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'a' + u8::try_from(at % 26).expect("less than 26")));
        match (at / 26).checked_sub(1) {
            Some(rest) => at = rest,
            None => return letters.into_iter().rev().collect(),
        }
    }
}
