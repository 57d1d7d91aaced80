//! Assigns pods to workloads, and symbols to both.

use std::collections::BTreeMap;

use schedlab_api::{
    Value, annotations, labels,
    object::{annotation, label},
};
use schedlab_audit::unschedulable_message;

use super::{ClusterObjects, string_at};
use crate::render::aliases::{Alias, Aliases, generated_name_prefix, owner_without_hash};

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
    fn state_of_pod(pod: &Value) -> Self {
        let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
        match string_at(pod, "/status/phase") {
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ if pod.pointer("/metadata/deletionTimestamp").is_some() => Self::Terminating,
            "Running" => Self::Running,
            _ if !string_at(pod, "/spec/nodeName").is_empty() => Self::Starting,
            _ if gates.is_some_and(|gates| !gates.is_empty()) => Self::Gated,
            _ => Self::Pending,
        }
    }

    pub(super) fn state_word(&self) -> &'static str {
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
    pub(super) fn gpu_cell_text(&self) -> String {
        let leaving = if self.state == PodState::Terminating { "-" } else { "" };
        format!("{}{leaving}", self.symbol.alias_text())
    }

    pub(super) fn holds_resources(&self) -> bool {
        match self.state {
            PodState::Running | PodState::Starting | PodState::Terminating => !self.node.is_empty(),
            PodState::Pending | PodState::Gated | PodState::Succeeded | PodState::Failed => false,
        }
    }
}

/// All pods grouped by workload; workloads and pods are sorted by name. Each workload gets a
/// letter.
pub(super) fn assign_workload_symbols<'a>(cluster: &ClusterObjects<'a>) -> Vec<Workload<'a>> {
    let mut pods = cluster.pods.to_vec();
    // Pods with random suffixes are numbered by creation time and location, which keeps the text
    // the same in every run.
    pods.sort_by_cached_key(|pod| {
        let chance = generated_name_prefix(pod).is_some();
        let name = string_at(pod, "/metadata/name").to_owned();
        let location = (string_at(pod, "/spec/nodeName").to_owned(), gpu_device_indices(pod));
        let created = string_at(pod, "/metadata/creationTimestamp").to_owned();
        (chance.then_some((created, location)), name)
    });
    let mut ordinals = Aliases::default();
    for pod in &pods {
        ordinals.register_pod(pod);
    }
    let queues = queue_by_pod_group(cluster);
    let mut workloads: BTreeMap<(String, String), Vec<(&Value, Alias)>> = BTreeMap::new();
    let owners = pod_counts_by_owner(&pods);
    for pod in pods {
        let (label, mark) = workload_name_and_alias(pod, &ordinals, &owners);
        workloads.entry((label, queue_of_pod(pod, &queues))).or_default().push((pod, mark));
    }
    let workloads = workloads.into_iter().enumerate();
    workloads
        .map(|(at, ((label, queue), pods))| {
            workload_of_pods(letter_for_index(at), label, queue, pods, &ordinals)
        })
        .collect()
}

fn workload_of_pods<'a>(
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
            node: string_at(pod, "/spec/nodeName"),
            devices: gpu_device_indices(pod),
            state: PodState::state_of_pod(pod),
            reason: unschedulable_message(pod).map(|reason| ordinals.replace_names(reason)),
        }
    });
    let mut pods: Vec<PlacedPod<'a>> = pods.collect();
    pods.sort_by(|a, b| a.symbol.cmp(&b.symbol));
    Workload { letter, label, queue, pods }
}

/// The name of a pod's workload, and the pod's alias in it.
fn workload_name_and_alias(
    pod: &Value,
    ordinals: &Aliases,
    owners: &BTreeMap<(String, String), usize>,
) -> (String, Alias) {
    let namespace = string_at(pod, "/metadata/namespace");
    let prefix = if namespace == "default" { String::new() } else { format!("{namespace}/") };
    let shown = ordinals.alias_of(namespace, string_at(pod, "/metadata/name"));
    let alone = |name: &str| {
        let shown = Alias::from_name(name);
        let star = if shown.number.is_some() { "*" } else { "" };
        (format!("{prefix}{}{star}", shown.stem), shown)
    };
    match owner_uid(pod) {
        Some(owner) if owners.get(&(namespace.to_owned(), owner.to_owned())) == Some(&1) => {
            alone(owner)
        }
        Some(owner) => (format!("{prefix}{owner}"), shown),
        None if string_at(pod, "/metadata/generateName").is_empty() => {
            alone(string_at(pod, "/metadata/name"))
        }
        None => (shown.stem.clone(), shown),
    }
}

fn pod_counts_by_owner(pods: &[&Value]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        if let Some(owner) = owner_uid(pod) {
            let key = (string_at(pod, "/metadata/namespace").to_owned(), owner.to_owned());
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

fn owner_uid(pod: &Value) -> Option<&str> {
    let owners = pod.pointer("/metadata/ownerReferences")?.as_array()?;
    let controls = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    let name = owners.iter().find(controls)?.get("name")?.as_str()?;
    Some(owner_without_hash(pod, name))
}

/// The name of the queue of each pod group, by the group's namespace and name.
fn queue_by_pod_group(cluster: &ClusterObjects<'_>) -> BTreeMap<(String, String), String> {
    let queues = cluster.pod_groups.iter().map(|group| {
        let part = |at| string_at(group, at).to_owned();
        ((part("/metadata/namespace"), part("/metadata/name")), part("/spec/queue"))
    });
    queues.collect()
}

fn queue_of_pod(pod: &Value, queues: &BTreeMap<(String, String), String>) -> String {
    let group = annotation(pod, annotations::POD_GROUP_NAME).unwrap_or_default();
    let key = (string_at(pod, "/metadata/namespace").to_owned(), group.to_owned());
    let labelled = || label(pod, labels::QUEUE).unwrap_or_default().to_owned();
    queues.get(&key).cloned().unwrap_or_else(labelled)
}

fn gpu_device_indices(pod: &Value) -> Vec<usize> {
    let listed = annotation(pod, annotations::GPU_DEVICES).unwrap_or_default();
    listed.split(',').filter_map(|index| index.trim().parse().ok()).collect()
}

/// The letter for the workload with this index: a to z, then aa, ab, …
fn letter_for_index(mut index: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'a' + u8::try_from(index % 26).expect("less than 26")));
        match (index / 26).checked_sub(1) {
            Some(rest) => index = rest,
            None => return letters.into_iter().rev().collect(),
        }
    }
}
