//! Classes of interchangeable pods: pods of one workload with the same scheduling inputs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_api::{
    Value,
    pointer::{list, text},
    quantity::thousandths,
    resources,
};
use schedlab_emulator::store::LogEntry;

use super::durations::DurationRanks;
use super::scheduling_inputs::{self, PodSelectors, RelatedObjects};
use crate::render::aliases::{Alias, name_without_uid, owner_without_hash, replace_words_with};

/// JSON pointer of the label with the name of the workload that a table row created.
const WORKLOAD_LABEL_POINTER: &str = "/metadata/labels/schedlab.dev~1workload";
const UID_POINTER: &str = "/metadata/uid";

/// The classes of all pods that ever existed: pods are in one class if their scheduling inputs are
/// equal.
#[derive(Debug)]
pub(super) struct WorkloadClasses {
    /// The name of the workload, by the pod's namespace and name.
    workload_by_pod: BTreeMap<(String, String), String>,
    /// The class, by the pod's uid.
    class_by_uid: BTreeMap<String, String>,
    /// The scheduling inputs, by class. Inputs from pod groups and claims are collected over all
    /// pods of a class, because a pod that was deleted before it got a pod group is like the
    /// others.
    inputs_by_class: BTreeMap<String, BTreeSet<String>>,
    /// The name of the workload, by the pod group's namespace and name.
    workload_by_group: BTreeMap<(String, String), String>,
    /// The name of the workload, by the name alone as it occurs in messages. A pod's name takes
    /// precedence over that of a pod group.
    workload_by_name: BTreeMap<String, String>,
}

/// A pod with its scheduling inputs.
struct WorkloadMember<'a> {
    pod: &'a Value,
    workload: String,
    inputs: String,
    /// The scheduling inputs from the pod's pod group and claims.
    related_inputs: Vec<String>,
}

impl WorkloadClasses {
    pub(super) fn from_log(log: &[Arc<LogEntry>]) -> Self {
        let members = collect_workload_members(log);
        let mut inputs_by_workload: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for WorkloadMember { workload, inputs, .. } in &members {
            inputs_by_workload.entry(workload).or_default().insert(inputs);
        }
        let (mut workload_by_pod, mut workload_by_group) = (BTreeMap::new(), BTreeMap::new());
        let mut class_by_uid = BTreeMap::new();
        let mut inputs_by_class: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for WorkloadMember { pod, workload, inputs, related_inputs } in &members {
            let inputs_by_workload = &inputs_by_workload[&**workload];
            let label = if inputs_by_workload.len() == 1 {
                workload.clone()
            } else {
                let part = inputs_by_workload.range(..&**inputs).count() + 1;
                format!("{workload} ({}, part {part})", gpu_count_text(pod))
            };
            let key = |at| (string_field(pod, "/metadata/namespace"), string_field(pod, at));
            workload_by_pod.insert(key("/metadata/name"), workload.clone());
            let group = key("/metadata/annotations/pod-group-name");
            // Uids are random: of several workloads in a group, the first by name represents it.
            let stands = workload_by_group.entry(group).or_insert_with(|| workload.clone());
            if *workload < *stands {
                stands.clone_from(workload);
            }
            let all = inputs_by_class.entry(label.clone()).or_default();
            all.insert(inputs.clone());
            all.extend(related_inputs.iter().cloned());
            class_by_uid.insert(string_field(pod, UID_POINTER), label);
        }
        let mut workload_by_name: BTreeMap<String, String> = BTreeMap::new();
        for ((_, name), workload) in workload_by_pod.iter().chain(&workload_by_group) {
            workload_by_name.entry(name.clone()).or_insert_with(|| String::clone(workload));
        }
        workload_by_name.remove("");
        Self { workload_by_pod, class_by_uid, inputs_by_class, workload_by_group, workload_by_name }
    }

    /// The class of a pod.
    pub(super) fn class_of_pod(&self, pod: &Value) -> &str {
        self.class_by_uid
            .get(text(pod, UID_POINTER).unwrap_or_default())
            .map_or("?", String::as_str)
    }

    /// The scheduling inputs of a pod as text; pods with equal inputs have equal texts on every
    /// cluster.
    pub(super) fn inputs_of_pod(&self, pod: &Value) -> String {
        let wants = self.inputs_by_class.get(self.class_of_pod(pod)).into_iter().flatten();
        wants.map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// The workload to which a message refers by the name of a pod or pod group.
    pub(super) fn workload_of_name(&self, name: &str) -> String {
        let (namespace, bare) = name.split_once('/').unwrap_or(("default", name));
        let key = (namespace.to_owned(), bare.to_owned());
        let known = self.workload_by_group.get(&key).or_else(|| self.workload_by_pod.get(&key));
        known.cloned().unwrap_or_else(|| name_without_uid(bare))
    }

    /// The text with names of pods and pod groups replaced by their workloads.
    pub(super) fn replace_names(&self, text: &str) -> String {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/');
        replace_words_with(text, word, |word| self.replace_name(word))
    }

    fn replace_name(&self, word: &str) -> String {
        // A sentence may end with a name.
        let name = word.trim_end_matches('.');
        let end = word.strip_prefix(name).unwrap_or_default();
        let bare = name.rsplit_once('/').map_or(name, |(_, bare)| bare);
        let shown = self.workload_by_name.get(bare).cloned();
        format!("{}{end}", shown.unwrap_or_else(|| name_without_uid(name)))
    }
}

/// All pods of a log in their last state, sorted by uid.
fn collect_workload_members(log: &[Arc<LogEntry>]) -> Vec<WorkloadMember<'_>> {
    let mut pods: BTreeMap<&str, &Value> = BTreeMap::new();
    for entry in log.iter().filter(|entry| &*entry.key.resource.plural == "pods") {
        pods.insert(text(&entry.object, UID_POINTER).unwrap_or_default(), &entry.object);
    }
    let owners = pod_counts_by_owner(pods.values().copied());
    let (choices, company) =
        (PodSelectors::from_pods(pods.values().copied()), RelatedObjects::from_log(log));
    let wants = |pod: &Value| {
        (scheduling_inputs::pod_inputs(pod, &choices), company.related_inputs_of_pod(pod))
    };
    let all: Vec<(&Value, (Value, Vec<Value>))> =
        pods.into_values().map(|pod| (pod, wants(pod))).collect();
    let mut durations = DurationRanks::default();
    for (_, (inputs, related_inputs)) in &all {
        std::iter::once(inputs)
            .chain(related_inputs)
            .for_each(|value| durations.collect_from(value));
    }
    let ranked = |mut value: Value| {
        durations.replace_by_ranks(&mut value);
        value.to_string()
    };
    let member = |(pod, (inputs, related_inputs)): (_, (_, Vec<Value>))| WorkloadMember {
        pod,
        workload: workload_name(pod, &owners),
        inputs: ranked(inputs),
        related_inputs: related_inputs.into_iter().map(ranked).collect(),
    };
    all.into_iter().map(member).collect()
}

/// The workload of a pod: by its workload label, its owner, or its own name.
fn workload_name(pod: &Value, owners: &BTreeMap<(String, String), usize>) -> String {
    let namespace = string_field(pod, "/metadata/namespace");
    let numbered = |name: &str| {
        let shown = Alias::from_name(name);
        format!("{}{}", shown.stem, if shown.number.is_some() { "*" } else { "" })
    };
    let name = match (text(pod, WORKLOAD_LABEL_POINTER), owner_uid(pod)) {
        (Some(label), _) => label.to_owned(),
        (None, Some(owner)) => {
            let one = owners.get(&(namespace.clone(), owner.to_owned())) == Some(&1);
            if one { numbered(owner) } else { owner.to_owned() }
        }
        (None, None) => match text(pod, "/metadata/generateName") {
            Some(prefix) if !prefix.is_empty() => prefix.trim_end_matches('-').to_owned(),
            Some(_) | None => numbered(&string_field(pod, "/metadata/name")),
        },
    };
    if namespace == "default" { name } else { format!("{namespace}/{name}") }
}

fn pod_counts_by_owner<'a>(
    pods: impl Iterator<Item = &'a Value>,
) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        if let Some(owner) = owner_uid(pod) {
            let key = (string_field(pod, "/metadata/namespace"), owner.to_owned());
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

fn owner_uid(pod: &Value) -> Option<&str> {
    let controls = |owner: &&Value| owner["controller"] == true;
    let owner = list(pod, "/metadata/ownerReferences").iter().find(controls)?;
    Some(owner_without_hash(pod, owner["name"].as_str()?))
}

fn gpu_count_text(pod: &Value) -> String {
    let gpu = |container: &Value| {
        let resources = &container["resources"];
        let values = [&resources["requests"][resources::GPU], &resources["limits"][resources::GPU]];
        values.into_iter().find_map(thousandths).unwrap_or(0)
    };
    let milli: i128 = list(pod, "/spec/containers").iter().map(gpu).sum();
    if milli == 1000 { "1 GPU".to_owned() } else { format!("{} GPUs", milli / 1000) }
}

fn string_field(object: &Value, pointer: &str) -> String {
    text(object, pointer).unwrap_or_default().to_owned()
}
