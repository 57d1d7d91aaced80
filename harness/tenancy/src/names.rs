//! Translates between a scenario's plain names and names in the cluster.

use std::collections::BTreeSet;

use memchr::memmem::Finder;
use schedlab_api::{Value, json, object_names};

/// Taint of simulated nodes that keeps away DaemonSet pods and pods that do not belong to the run.
pub const SIMULATED_TAINT: &str = "schedlab.dev/simulated";
/// Annotation of nodes that kwok simulates; its value is `fake`.
pub const KWOK_NODE_ANNOTATION: &str = "kwok.x-k8s.io/node";

/// The namespace of events about cluster-scoped objects. All scenarios share it.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

/// Whether simulated nodes are isolated from other workloads of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeIsolation {
    /// Nodes are not isolated, because nothing else runs on the cluster.
    None,
    /// Nodes have a taint that pods of the run tolerate, and pods select them by label where
    /// necessary. Scenarios see none of this.
    Taint,
}

/// Scheduler names in features that stand for the scheduler under test.
const SCHEDULER_ALIASES: [&str; 2] = ["kai-scheduler", "default-scheduler"];

/// How the names of one scenario's objects map to names in the cluster.
#[derive(Clone, Debug)]
pub struct TenantNames {
    /// Prefix of every name of the scenario in the cluster. The prefix occurs nowhere else.
    pub prefix: String,
    /// The id of the run.
    pub run: String,
    /// Names of priority classes that all scenarios share.
    pub shared_priority_classes: BTreeSet<String>,
    /// Whether simulated nodes are isolated from other workloads of the cluster.
    pub node_isolation: NodeIsolation,
    /// Whether kwok simulates the nodes.
    pub uses_kwok: bool,
    /// The installed scheduler that gets the pods of the scenario's scheduler, if there is one.
    pub installed_scheduler: Option<String>,
    /// The scenario's node pool, if an installed scheduler serves one pool per scenario. Nodes,
    /// queues, pods and pod groups get this pool unless they name another.
    pub node_pool: Option<String>,
}

/// Whether an object is a node lease.
pub(super) fn is_node_lease(plural: &str, namespace: &str) -> bool {
    plural == "leases" && namespace == object_names::NODE_LEASE_NAMESPACE
}

/// The prefix of the names of a run's scenario with this number.
pub fn scenario_name_prefix(run: &str, number: usize) -> String {
    format!("{run}x{number}-")
}

/// The prefixes of scenarios of a run that occur in a text. `name` finds the run's short name.
pub(super) fn prefixes_in_text<'a>(name: &Finder<'_>, text: &'a str) -> Vec<&'a str> {
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

impl TenantNames {
    /// Names without any special setting.
    #[cfg(test)]
    pub(super) fn for_test() -> Self {
        Self {
            prefix: "qx1-".to_owned(),
            run: "r".to_owned(),
            shared_priority_classes: BTreeSet::new(),
            node_isolation: NodeIsolation::None,
            uses_kwok: false,
            installed_scheduler: None,
            node_pool: None,
        }
    }

    /// The name in the cluster for a namespace, or for an object that scenarios never share.
    pub(super) fn with_prefix(&self, name: &str) -> String {
        if name.is_empty() || self.has_prefix(name) {
            return name.to_owned();
        }
        format!("{}{name}", self.prefix)
    }

    /// The name in the cluster for a cluster-scoped object.
    pub(super) fn object_in_cluster(&self, plural: &str, name: &str) -> String {
        if self.is_shared_object(plural, name) { name.to_owned() } else { self.with_prefix(name) }
    }

    /// The name in the cluster for the namespace of an object in this collection.
    pub(super) fn namespace_in_cluster(&self, plural: &str, namespace: &str) -> String {
        if is_node_lease(plural, namespace) {
            return namespace.to_owned();
        }
        self.with_prefix(namespace)
    }

    /// The scheduler name in the cluster. Features refer to the scheduler under test by one of its
    /// aliases or by its own name. Any other name gets the prefix, so that no scheduler serves it.
    pub(super) fn scheduler_in_cluster(&self, name: &str) -> String {
        let is_under_test = |there: &&String| SCHEDULER_ALIASES.contains(&name) || *there == name;
        self.installed_scheduler
            .as_ref()
            .filter(is_under_test)
            .cloned()
            .unwrap_or_else(|| self.with_prefix(name))
    }

    /// Whether a name in the cluster belongs to this scenario.
    pub(super) fn has_prefix(&self, name: &str) -> bool {
        name.starts_with(&self.prefix)
    }

    /// Whether all scenarios share the object of this collection and name.
    pub(super) fn is_shared_object(&self, plural: &str, name: &str) -> bool {
        plural == "priorityclasses"
            && (self.shared_priority_classes.contains(name) || name.starts_with("system-"))
    }

    /// A text from the cluster, with the scenario's prefix removed.
    pub(super) fn without_prefix(&self, text: &str) -> String {
        text.replace(&self.prefix, "")
    }

    /// The taint of simulated nodes; `None` if nodes are not isolated.
    pub(super) fn simulated_taint(&self) -> Option<Value> {
        let taint = json!({"key": SIMULATED_TAINT, "value": self.run, "effect": "NoSchedule"});
        (self.node_isolation == NodeIsolation::Taint).then_some(taint)
    }

    /// The toleration for the taint of the run's simulated nodes; `None` if nodes are not isolated.
    pub(super) fn simulated_toleration(&self) -> Option<Value> {
        let toleration = json!({"key": SIMULATED_TAINT, "operator": "Equal", "value": self.run});
        (self.node_isolation == NodeIsolation::Taint).then_some(toleration)
    }

    /// Whether pods need a node selector. An installed scheduler also sees the cluster's own nodes,
    /// and would otherwise place pods there.
    pub(super) fn needs_node_selector(&self) -> bool {
        self.node_isolation == NodeIsolation::Taint && self.installed_scheduler.is_some()
    }
}
