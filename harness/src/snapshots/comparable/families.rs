//! Pods of which any will do: of one workload, and asking for the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_emulator::{quantity::thousandths, store::LogEntry};
use schedlab_json::{Value, json};

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
    /// What a scheduler goes by, by uid.
    wants: BTreeMap<String, String>,
    /// By namespace and the pod group's name.
    of_groups: BTreeMap<(String, String), String>,
    /// By the name alone, as texts say it; a pod's name comes before a group's.
    of_names: BTreeMap<String, String>,
}

impl Families {
    pub(super) fn of(log: &[Arc<LogEntry>]) -> Self {
        let mut pods: BTreeMap<&str, &Value> = BTreeMap::new();
        for entry in log.iter().filter(|entry| &*entry.key.resource.plural == "pods") {
            pods.insert(text(&entry.object, UID).unwrap_or_default(), &entry.object);
        }
        let owners = owner_counts(pods.values().copied());
        let traits = |(uid, pod)| (uid, (pod, workload(pod, &owners), want(pod)));
        let pods: BTreeMap<&str, (&Value, String, String)> = pods.into_iter().map(traits).collect();
        let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (_, workload, want) in pods.values() {
            kinds.entry(workload).or_default().insert(want);
        }
        let (mut of_pods, mut of_groups) = (BTreeMap::new(), BTreeMap::new());
        let mut labels = BTreeMap::new();
        for (pod, workload, want) in pods.values() {
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
            labels.insert(field(pod, UID), label);
        }
        let wants = pods.iter().map(|(uid, (_, _, want))| (String::from(*uid), want.clone()));
        let wants = wants.collect();
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
    pub(super) fn want(&self, pod: &Value) -> &str {
        self.wants.get(text(pod, UID).unwrap_or_default()).map_or("?", String::as_str)
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

fn want(pod: &Value) -> String {
    let asked = |container: &Value| container["resources"].clone();
    let asked: Vec<Value> = list(pod, "/spec/containers").iter().map(asked).collect();
    json!({
        "asks": asked,
        "nodes": pod["spec"]["nodeSelector"],
        "affinity": pod["spec"]["affinity"],
        "priority": pod["spec"]["priority"],
        "queue": pod["metadata"]["labels"]["kai.scheduler/queue"],
    })
    .to_string()
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
