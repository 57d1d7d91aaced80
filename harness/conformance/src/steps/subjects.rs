//! The subject of an assertion: a queue, a workload, a node …, and the pods that it selects.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use cucumber::Parameter;
use schedlab_api::{annotations, object::annotation};
use schedlab_audit::claim_names;

use crate::world::observed::{ObservedCluster, Pod, WORKLOAD_LABEL, WatchedKind};

/// `queue "a"`, `job "train"`, `node "node-1"`, `the cluster`: selects a set of pods.
#[derive(Clone, Debug, Parameter, PartialEq, Eq)]
#[param(
    name = "subject",
    regex = "(?:queue|namespace|node|claim|workload|pod|gang|job|deployment|statefulset|jobset|trainjob|pytorchjob|raycluster|rayjob|leaderworkerset|podgroup) (?:\"[^\"]*\"|'[^']*')|the cluster"
)]
pub(crate) struct Subject {
    kind_word: String,
    name: String,
}

/// `job "train"`: a workload of any kind.
#[derive(Clone, Debug, Parameter, PartialEq, Eq)]
#[param(
    name = "workload",
    regex = "(?:workload|pod|gang|job|deployment|statefulset|jobset|trainjob|pytorchjob|raycluster|rayjob|leaderworkerset|podgroup) (?:\"[^\"]*\"|'[^']*')"
)]
pub(crate) struct Workload(pub Subject);

impl Workload {
    /// The kind of the workload, as written in the step.
    pub(crate) fn kind(&self) -> &str {
        &self.0.kind_word
    }

    /// The name of the workload.
    pub(crate) fn subject_name(&self) -> &str {
        &self.0.name
    }

    /// The current pods of the workload.
    pub(crate) fn pods<'v>(&self, view: &'v ObservedCluster) -> Vec<Pod<'v>> {
        self.0.pods(view)
    }

    /// The workload's current and deleted pods.
    pub(crate) fn pods_ever_seen<'v>(
        &'v self,
        view: &'v ObservedCluster,
    ) -> impl Iterator<Item = Pod<'v>> {
        self.0.pods_ever_seen(view)
    }
}

impl Subject {
    /// The name of the subject; empty for the cluster.
    pub(crate) fn subject_name(&self) -> &str {
        &self.name
    }

    /// The word before the name, such as `queue`; `the cluster` for the cluster.
    pub(crate) fn kind_word(&self) -> &str {
        &self.kind_word
    }

    /// Whether the subject is a queue.
    pub(crate) fn is_queue(&self) -> bool {
        self.kind_word == "queue"
    }

    /// Whether the subject is the whole cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.kind_word == "the cluster"
    }

    /// Whether the subject may be an object of this kind. A gang or workload may be any kind that
    /// has pods.
    pub(crate) fn may_be_of_kind(&self, kind: &str) -> bool {
        match self.kind_word.as_str() {
            "workload" | "gang" => {
                !matches!(kind, "Queue" | "Namespace" | "Node" | "ResourceClaim")
            }
            "claim" => kind == "ResourceClaim",
            word => kind.eq_ignore_ascii_case(word),
        }
    }

    /// The current pods that the subject selects, sorted by name.
    pub(crate) fn pods<'v>(&self, view: &'v ObservedCluster) -> Vec<Pod<'v>> {
        if self.kind_word == "queue" {
            let is_in = |queue: &&str| is_queue_below(queue, &self.name, view);
            let names = view
                .objects_of_kind(WatchedKind::Queues)
                .filter_map(|queue| queue["metadata"]["name"].as_str());
            let queues: BTreeSet<&str> = names.filter(is_in).chain([&*self.name]).collect();
            let is_its =
                |pod: &Pod<'_>| pod.queue_name(view).is_some_and(|queue| queues.contains(queue));
            return view.current_pods().filter(is_its).collect();
        }
        view.current_pods().filter(|pod| self.includes_pod(*pod, view)).collect()
    }

    /// The pods that the subject selects or selected: current and deleted ones.
    pub(crate) fn pods_ever_seen<'v>(
        &'v self,
        view: &'v ObservedCluster,
    ) -> impl Iterator<Item = Pod<'v>> {
        view.pods_ever_seen().filter(|pod| self.includes_pod(*pod, view))
    }

    /// Whether the subject selects a pod.
    pub(crate) fn includes_pod(&self, pod: Pod<'_>, view: &ObservedCluster) -> bool {
        match self.kind_word.as_str() {
            "the cluster" => true,
            "queue" => {
                pod.queue_name(view).is_some_and(|queue| is_queue_below(queue, &self.name, view))
            }
            "namespace" => pod.pod_namespace() == self.name,
            "node" => pod.node_name() == self.name,
            "claim" => claim_names(pod.0).any(|name| name == self.name),
            // Pods submitted together share the workload's name as a label.
            "pod" => {
                has_pod_name(pod, &self.name) || pod.label_value(WORKLOAD_LABEL) == Some(&self.name)
            }
            "podgroup" => pod.scheduling_group() == Some(&self.name),
            word => pod.belongs_to(word, &self.name) || is_in_pod_group(pod, &self.name),
        }
    }
}

fn has_pod_name(pod: Pod<'_>, name: &str) -> bool {
    match name.split_once('/') {
        Some((namespace, name)) => pod.pod_namespace() == namespace && pod.pod_name() == name,
        None => pod.pod_name() == name,
    }
}

/// Whether a pod belongs to the pod group with this name. A gang from a manifest is identified by
/// the name of its pod group alone.
fn is_in_pod_group(pod: Pod<'_>, name: &str) -> bool {
    annotation(pod.0, annotations::POD_GROUP_NAME) == Some(name)
}

/// Whether a queue is `ancestor` or a descendant of it.
fn is_queue_below(queue: &str, ancestor: &str, view: &ObservedCluster) -> bool {
    let mut at = Some(queue);
    // Bounds the walk when the parents form a cycle.
    for _ in 0..64 {
        match at {
            Some(name) if name == ancestor => return true,
            Some(name) => {
                let object = view.get_ever_seen(WatchedKind::Queues, "", name);
                at = object.and_then(|queue| queue["spec"]["parentQueue"].as_str());
            }
            None => return false,
        }
    }
    false
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((word, quoted)) = text.split_once(' ').filter(|(word, _)| *word != "the") else {
            return Ok(Self { kind_word: text.to_owned(), name: String::new() });
        };
        // Names contain no quotes.
        let name = quoted.trim_matches(['"', '\'']);
        if name.is_empty() {
            return Err(format!("got {text}, expected the name of a {word}"));
        }
        Ok(Self { kind_word: word.to_owned(), name: name.to_owned() })
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind_word)?;
        if self.name.is_empty() { Ok(()) } else { write!(f, " {:?}", self.name) }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_and_double_quotes_are_equal_and_empty_names_are_rejected() {
        let subject = |text: &str| text.parse::<Subject>();
        assert_eq!(subject("queue 'a'"), subject("queue \"a\""));
        assert_eq!(subject("the cluster").map(|cluster| cluster.name), Ok(String::new()));
        assert_eq!(
            subject("queue \"\""),
            Err("got queue \"\", expected the name of a queue".to_owned())
        );
        assert!("pod ''".parse::<Workload>().is_err());
    }
}
