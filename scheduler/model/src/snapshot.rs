//! Everything that a decision may depend on, at one point in time.

use std::collections::BTreeMap;

use super::{
    DisruptionBudget, ExcludedNodes, Labels, Name, Node, Pod, PodGroup, PodShape, PodStatus, Queue,
    Time, Topology,
};

/// The cluster at one point in time. Lists are sorted by namespace and name; ids are positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The current time.
    pub now: Time,
    /// Seed for breaking ties where a rule requires randomness.
    pub seed: u64,
    /// Nodes that the scheduler uses, by name.
    pub nodes: Vec<Node>,
    /// Nodes of the cluster that the scheduler excludes.
    pub excluded_nodes: Vec<ExcludedNodes>,
    /// Valid queues by name, with resolved parents.
    pub queues: Vec<Queue>,
    /// Topologies by name.
    pub topologies: Vec<Topology>,
    /// Distinct shapes, in order of first use.
    pub shapes: Vec<PodShape>,
    /// Pod groups by namespace and name.
    pub pod_groups: Vec<PodGroup>,
    /// Pods by namespace and name; those of other schedulers only use capacity.
    pub pods: Vec<Pod>,
    /// Disruption budgets by namespace and name; only profile `kube` uses them.
    pub budgets: Vec<DisruptionBudget>,
    /// Labels by namespace. A missing namespace has only the label with its name.
    pub namespaces: BTreeMap<Name, Labels>,
}

impl Snapshot {
    /// Removes the pods that are releasing their capacity, as if their termination had ended.
    pub fn remove_terminating_pods(&mut self) {
        for pod in &mut self.pods {
            if pod.status == PodStatus::Releasing {
                (pod.status, pod.node) = (PodStatus::Failed, None);
            }
        }
    }
}
