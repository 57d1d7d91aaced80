//! Whom a claim is about: a queue, a workload, a node … and which pods that means.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use cucumber::Parameter;
use schedlab_emulator::object::annotation;

use crate::audit::claim_names;
use crate::view::{Kind, Pod, View, WORKLOAD};

/// `queue "a"`, `job "train"`, `node "node-1"`, `the cluster`: a set of pods.
#[derive(Clone, Debug, Parameter, PartialEq, Eq)]
#[param(
    name = "subject",
    regex = "(?:queue|namespace|node|claim|workload|pod|gang|job|deployment|statefulset|jobset|trainjob|pytorchjob) (?:\"[^\"]*\"|'[^']*')|the cluster"
)]
pub(crate) struct Subject {
    word: String,
    name: String,
}

/// `job "train"`: a workload, whatever its kind.
#[derive(Clone, Debug, Parameter, PartialEq, Eq)]
#[param(
    name = "workload",
    regex = "(?:workload|pod|gang|job|deployment|statefulset|jobset|trainjob|pytorchjob) (?:\"[^\"]*\"|'[^']*')"
)]
pub(crate) struct Workload(pub(crate) Subject);

impl Workload {
    /// The word for its kind, and its name.
    pub(crate) fn key(&self) -> (&str, &str) {
        (&self.0.word, &self.0.name)
    }

    /// Its pods.
    pub(crate) fn pods<'v>(&self, view: &'v View) -> Vec<Pod<'v>> {
        self.0.pods(view)
    }

    /// Its pods that are there, and those that are gone.
    pub(crate) fn pods_ever<'v>(&'v self, view: &'v View) -> impl Iterator<Item = Pod<'v>> {
        self.0.pods_ever(view)
    }
}

impl Subject {
    /// Its name; empty for the cluster.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The word for its kind.
    pub(crate) fn word(&self) -> &str {
        &self.word
    }

    /// Whether it is a queue.
    pub(crate) fn is_queue(&self) -> bool {
        self.word == "queue"
    }

    /// Whether it is everybody.
    pub(crate) fn is_all(&self) -> bool {
        self.word == "the cluster"
    }

    /// Whether an object of this kind may be meant, if it has the name. A gang may be of any kind
    /// that has pods, as a workload may.
    pub(crate) fn may_be_a(&self, kind: &str) -> bool {
        match self.word.as_str() {
            "workload" | "gang" => {
                !matches!(kind, "Queue" | "Namespace" | "Node" | "ResourceClaim")
            }
            "claim" => kind == "ResourceClaim",
            word => kind.eq_ignore_ascii_case(word),
        }
    }

    /// The pods that are meant, in the order of their names.
    pub(crate) fn pods<'v>(&self, view: &'v View) -> Vec<Pod<'v>> {
        if self.word == "queue" {
            let is_in = |queue: &&str| is_in(queue, &self.name, view);
            let names =
                view.all(Kind::Queues).filter_map(|queue| queue["metadata"]["name"].as_str());
            let queues: BTreeSet<&str> = names.filter(is_in).chain([&*self.name]).collect();
            let is_its =
                |pod: &Pod<'_>| pod.queue(view).is_some_and(|queue| queues.contains(queue));
            return view.pods().filter(is_its).collect();
        }
        view.pods().filter(|pod| self.means(*pod, view)).collect()
    }

    /// The same, and those that are gone.
    pub(crate) fn pods_ever<'v>(&'v self, view: &'v View) -> impl Iterator<Item = Pod<'v>> {
        view.pods_ever().filter(|pod| self.means(*pod, view))
    }

    /// Whether a pod is one of those meant.
    pub(crate) fn means(&self, pod: Pod<'_>, view: &View) -> bool {
        match self.word.as_str() {
            "the cluster" => true,
            "queue" => pod.queue(view).is_some_and(|queue| is_in(queue, &self.name, view)),
            "namespace" => pod.namespace() == self.name,
            "node" => pod.node() == self.name,
            "claim" => claim_names(pod.0).any(|name| name == self.name),
            // Pods that were submitted together are known by the name they were given.
            "pod" => is_named(pod, &self.name) || pod.label(WORKLOAD) == Some(&self.name),
            word => pod.belongs_to(word, &self.name) || is_in_group(pod, &self.name),
        }
    }
}

fn is_named(pod: Pod<'_>, name: &str) -> bool {
    match name.split_once('/') {
        Some((namespace, name)) => pod.namespace() == namespace && pod.name() == name,
        None => pod.name() == name,
    }
}

/// A gang from a manifest is known by its group's name alone.
fn is_in_group(pod: Pod<'_>, name: &str) -> bool {
    annotation(pod.0, "pod-group-name") == Some(name)
}

/// Whether a queue is another or below it.
fn is_in(queue: &str, other: &str, view: &View) -> bool {
    let mut at = Some(queue);
    // A circle of parents ends where it began.
    for _ in 0..64 {
        match at {
            Some(name) if name == other => return true,
            Some(name) => {
                let object = view.at_ever(Kind::Queues, ("", name));
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
            return Ok(Self { word: text.to_owned(), name: String::new() });
        };
        // Names have no quotes in them.
        let name = quoted.trim_matches(['"', '\'']);
        if name.is_empty() {
            return Err(format!("found {text}, allowed is the name of a {word}"));
        }
        Ok(Self { word: word.to_owned(), name: name.to_owned() })
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
        f.write_str(&self.word)?;
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
    fn either_quote_means_the_same_and_a_name_is_not_empty() {
        let subject = |text: &str| text.parse::<Subject>();
        assert_eq!(subject("queue 'a'"), subject("queue \"a\""));
        assert_eq!(subject("the cluster").map(|cluster| cluster.name), Ok(String::new()));
        assert_eq!(
            subject("queue \"\""),
            Err("found queue \"\", allowed is the name of a queue".to_owned())
        );
        assert!("pod ''".parse::<Workload>().is_err());
    }
}
