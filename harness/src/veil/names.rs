//! How a scenario's names and the cluster's own translate into each other.

use std::collections::BTreeSet;

use memchr::memmem::Finder;
use schedlab_json::{Value, json};

/// Label of everything made for a run, on namespaces and cluster-scoped objects.
pub(crate) const RUN: &str = "schedlab.dev/run";
/// Taint of simulated nodes that keeps daemons and other people's pods away.
pub(crate) const SIMULATED: &str = "schedlab.dev/simulated";
/// Annotation of nodes that kwok plays, with the value `fake`.
pub(crate) const KWOK_NODE: &str = "kwok.x-k8s.io/node";
/// Where kubelets keep their leases: a namespace that all share.
pub(super) const LEASES: &str = "kube-node-lease";

/// Where events about what has no namespace stand: another one that all share.
pub(super) const SHARED: &str = "default";

/// Whether simulated nodes are fenced off from what else runs on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// Nothing else runs there.
    None,
    /// Nodes have a taint that pods of the run tolerate, and pods select them where that is
    /// needed; nothing of it shows.
    Taint,
}

/// What features call the scheduler that is tested.
const TESTED: [&str; 2] = ["kai-scheduler", "default-scheduler"];

/// One scenario's names.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// What stands before every name. It occurs nowhere else.
    pub(crate) prefix: String,
    /// The run that it belongs to.
    pub(crate) run: String,
    /// Names of cluster-scoped objects that all scenarios share.
    pub(crate) shared: BTreeSet<String>,
    /// See [`Fence`].
    pub(crate) fence: Fence,
    /// Whether kwok plays the simulated nodes.
    pub(crate) kwok: bool,
    /// The scheduler that was there before us: pods of the scenario's scheduler go to it.
    pub(crate) scheduler: Option<String>,
    /// The node pool of the scenario, where one that was there serves a pool for each: its nodes,
    /// queues, pods and pod groups are of that pool unless they say another.
    pub(crate) pool: Option<String>,
}

/// Whether these are the kubelets' leases.
pub(super) fn is_lease(plural: &str, namespace: &str) -> bool {
    plural == "leases" && namespace == LEASES
}

/// What stands before every name of a run's scenario of that number.
pub(crate) fn prefix(run: &str, number: usize) -> String {
    format!("{run}x{number}-")
}

/// The prefixes of a run's scenarios that a text names; `name` finds the run's name.
pub(super) fn prefixes_in<'a>(name: &Finder<'_>, text: &'a str) -> Vec<&'a str> {
    let length = name.needle().len();
    let mut found: Vec<&str> = Vec::new();
    for at in name.find_iter(text.as_bytes()) {
        let rest = text.get(at + length..).unwrap_or_default();
        let Some(number) = rest.strip_prefix('x') else { continue };
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        let end = at + length + 1 + digits + 1;
        if let Some(prefix) = text.get(at..end)
            && prefix.ends_with('-')
            && digits > 0
            && !found.contains(&prefix)
        {
            found.push(prefix);
        }
    }
    found
}

impl Names {
    /// Those of a scenario without anything special.
    #[cfg(test)]
    pub(super) fn of_a_test() -> Self {
        Self {
            prefix: "qx1-".to_owned(),
            run: "r".to_owned(),
            shared: BTreeSet::new(),
            fence: Fence::None,
            kwok: false,
            scheduler: None,
            pool: None,
        }
    }

    /// A name as the cluster has it.
    pub(super) fn real(&self, name: &str) -> String {
        if name.is_empty() || self.is_ours(name) {
            return name.to_owned();
        }
        format!("{}{name}", self.prefix)
    }

    /// The name of a cluster-scoped object as the cluster has it.
    pub(super) fn real_object(&self, plural: &str, name: &str) -> String {
        if self.is_shared(plural, name) { name.to_owned() } else { self.real(name) }
    }

    /// A namespace as the cluster has it, for objects of a collection.
    pub(super) fn real_namespace(&self, plural: &str, namespace: &str) -> String {
        if is_lease(plural, namespace) {
            return namespace.to_owned();
        }
        self.real(namespace)
    }

    /// A scheduler as pods name it. Features name the one that is tested by its usual names, or by
    /// its own; any other is nobody.
    pub(super) fn real_scheduler(&self, name: &str) -> String {
        let tested = |there: &&String| TESTED.contains(&name) || *there == name;
        self.scheduler.as_ref().filter(tested).cloned().unwrap_or_else(|| self.real(name))
    }

    /// Whether it is a name of the scenario, as the cluster has it.
    pub(super) fn is_ours(&self, name: &str) -> bool {
        name.starts_with(&self.prefix)
    }

    /// Whether it names an object that scenarios share.
    pub(super) fn is_shared(&self, plural: &str, name: &str) -> bool {
        plural == "priorityclasses" && (self.shared.contains(name) || name.starts_with("system-"))
    }

    /// A text of the cluster as the scenario reads it.
    pub(super) fn plain(&self, text: &str) -> String {
        text.replace(&self.prefix, "")
    }

    /// The taint of simulated nodes.
    pub(super) fn taint(&self) -> Option<Value> {
        let taint = json!({"key": SIMULATED, "value": self.run, "effect": "NoSchedule"});
        (self.fence == Fence::Taint).then_some(taint)
    }

    /// What lets a pod onto the simulated nodes of its run.
    pub(super) fn toleration(&self) -> Option<Value> {
        let toleration = json!({"key": SIMULATED, "operator": "Equal", "value": self.run});
        (self.fence == Fence::Taint).then_some(toleration)
    }

    /// Whether pods say which nodes they may have: a scheduler that was there before us sees the
    /// cluster's own nodes, and places pods there that other people need.
    pub(super) fn picks_nodes(&self) -> bool {
        self.fence == Fence::Taint && self.scheduler.is_some()
    }
}
