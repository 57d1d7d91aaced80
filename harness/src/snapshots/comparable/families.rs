//! Pods of which any will do: of one workload, and asking for the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_emulator::{quantity::thousandths, store::LogEntry};
use schedlab_json::Value;

use super::durations::Durations;
use super::wants::{self, Choices, Company};
use crate::fields::{list, text};
use crate::snapshots::ordinals::{Shown, without_hash, without_uid, words_replaced};

/// Label of the workload that a table made.
const WORKLOAD: &str = "/metadata/labels/schedlab.dev~1workload";
const UID: &str = "/metadata/uid";

/// The family of every pod that there ever was.
#[derive(Debug)]
pub(super) struct Families {
    /// By namespace and the pod's name.
    of_pods: BTreeMap<(String, String), String>,
    /// By uid.
    labels: BTreeMap<String, String>,
    /// What a scheduler goes by, by family. What goes with its pods is known of all together: one
    /// that did not live long enough to get a group is like the others.
    wants: BTreeMap<String, BTreeSet<String>>,
    /// By namespace and the pod group's name.
    of_groups: BTreeMap<(String, String), String>,
    /// By the name alone, as texts say it; a pod's name comes before a group's.
    of_names: BTreeMap<String, String>,
}

/// A pod, and what a scheduler goes by.
struct Member<'a> {
    pod: &'a Value,
    workload: String,
    want: String,
    /// What its group and its claims add.
    beside: Vec<String>,
}

impl Families {
    pub(super) fn of(log: &[Arc<LogEntry>]) -> Self {
        let members = members(log);
        let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for Member { workload, want, .. } in &members {
            kinds.entry(workload).or_default().insert(want);
        }
        let (mut of_pods, mut of_groups) = (BTreeMap::new(), BTreeMap::new());
        let mut labels = BTreeMap::new();
        let mut wants: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for Member { pod, workload, want, beside } in &members {
            let kinds = &kinds[&**workload];
            let label = if kinds.len() == 1 {
                workload.clone()
            } else {
                let part = kinds.range(..&**want).count() + 1;
                format!("{workload} ({}, part {part})", gpus(pod))
            };
            let key = |at| (field(pod, "/metadata/namespace"), field(pod, at));
            of_pods.insert(key("/metadata/name"), workload.clone());
            let group = key("/metadata/annotations/pod-group-name");
            // Uids are chance: of several workloads in a group the first by name stands for it.
            let stands = of_groups.entry(group).or_insert_with(|| workload.clone());
            if *workload < *stands {
                stands.clone_from(workload);
            }
            let all = wants.entry(label.clone()).or_default();
            all.insert(want.clone());
            all.extend(beside.iter().cloned());
            labels.insert(field(pod, UID), label);
        }
        let mut of_names: BTreeMap<String, String> = BTreeMap::new();
        for ((_, name), workload) in of_pods.iter().chain(&of_groups) {
            of_names.entry(name.clone()).or_insert_with(|| String::clone(workload));
        }
        of_names.remove("");
        Self { of_pods, labels, wants, of_groups, of_names }
    }

    /// The family of a pod.
    pub(super) fn label(&self, pod: &Value) -> &str {
        self.labels.get(text(pod, UID).unwrap_or_default()).map_or("?", String::as_str)
    }

    /// What a scheduler goes by, as text: equal pods have equal texts on every cluster.
    pub(super) fn want(&self, pod: &Value) -> String {
        let wants = self.wants.get(self.label(pod)).into_iter().flatten();
        wants.map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// The workload that a scheduler means by a pod's or a group's name.
    pub(super) fn of_workload(&self, name: &str) -> String {
        let (namespace, bare) = name.split_once('/').unwrap_or(("default", name));
        let key = (namespace.to_owned(), bare.to_owned());
        let known = self.of_groups.get(&key).or_else(|| self.of_pods.get(&key));
        known.cloned().unwrap_or_else(|| without_uid(bare))
    }

    /// A text with its pods and groups replaced by their workloads.
    pub(super) fn tidy(&self, text: &str) -> String {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/');
        words_replaced(text, word, |word| self.tidy_word(word))
    }

    fn tidy_word(&self, word: &str) -> String {
        // A sentence may end in a name.
        let name = word.trim_end_matches('.');
        let end = word.strip_prefix(name).unwrap_or_default();
        let bare = name.rsplit_once('/').map_or(name, |(_, bare)| bare);
        let shown = self.of_names.get(bare).cloned();
        format!("{}{end}", shown.unwrap_or_else(|| without_uid(name)))
    }
}

/// All pods of a log, in the order of their uids, as they were last.
fn members(log: &[Arc<LogEntry>]) -> Vec<Member<'_>> {
    let mut pods: BTreeMap<&str, &Value> = BTreeMap::new();
    for entry in log.iter().filter(|entry| &*entry.key.resource.plural == "pods") {
        pods.insert(text(&entry.object, UID).unwrap_or_default(), &entry.object);
    }
    let owners = owner_counts(pods.values().copied());
    let (choices, company) = (Choices::of(pods.values().copied()), Company::of(log));
    let wants = |pod: &Value| (wants::of_pod(pod, &choices), company.wants(pod));
    let all: Vec<(&Value, (Value, Vec<Value>))> =
        pods.into_values().map(|pod| (pod, wants(pod))).collect();
    let mut durations = Durations::default();
    for (_, (want, beside)) in &all {
        std::iter::once(want).chain(beside).for_each(|value| durations.note(value));
    }
    let ranked = |mut value: Value| {
        durations.rank(&mut value);
        value.to_string()
    };
    let member = |(pod, (want, beside)): (_, (_, Vec<Value>))| Member {
        pod,
        workload: workload(pod, &owners),
        want: ranked(want),
        beside: beside.into_iter().map(ranked).collect(),
    };
    all.into_iter().map(member).collect()
}

/// The workload a pod is of: by the label that tables give, by its owner, by its own name.
fn workload(pod: &Value, owners: &BTreeMap<(String, String), usize>) -> String {
    let namespace = field(pod, "/metadata/namespace");
    let numbered = |name: &str| {
        let shown = Shown::plain(name);
        format!("{}{}", shown.stem, if shown.number.is_some() { "*" } else { "" })
    };
    let name = match (text(pod, WORKLOAD), owner(pod)) {
        (Some(label), _) => label.to_owned(),
        (None, Some(owner)) => {
            let one = owners.get(&(namespace.clone(), owner.to_owned())) == Some(&1);
            if one { numbered(owner) } else { owner.to_owned() }
        }
        (None, None) => match text(pod, "/metadata/generateName") {
            Some(prefix) if !prefix.is_empty() => prefix.trim_end_matches('-').to_owned(),
            Some(_) | None => numbered(&field(pod, "/metadata/name")),
        },
    };
    if namespace == "default" { name } else { format!("{namespace}/{name}") }
}

fn owner_counts<'a>(pods: impl Iterator<Item = &'a Value>) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        if let Some(owner) = owner(pod) {
            let key = (field(pod, "/metadata/namespace"), owner.to_owned());
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

fn owner(pod: &Value) -> Option<&str> {
    let controls = |owner: &&Value| owner["controller"] == true;
    let owner = list(pod, "/metadata/ownerReferences").iter().find(controls)?;
    Some(without_hash(pod, owner["name"].as_str()?))
}

fn gpus(pod: &Value) -> String {
    let gpu = |container: &Value| {
        let asked = &container["resources"];
        let values = [&asked["requests"]["nvidia.com/gpu"], &asked["limits"]["nvidia.com/gpu"]];
        values.into_iter().find_map(thousandths).unwrap_or(0)
    };
    let milli: i128 = list(pod, "/spec/containers").iter().map(gpu).sum();
    if milli == 1000 { "1 GPU".to_owned() } else { format!("{} GPUs", milli / 1000) }
}

fn field(object: &Value, at: &str) -> String {
    text(object, at).unwrap_or_default().to_owned()
}
