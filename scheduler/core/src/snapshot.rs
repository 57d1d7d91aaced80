//! Everything that a decision may depend on, at one moment.

use std::collections::BTreeMap;

use crate::model::{
    DisruptionBudget, Labels, LeftOut, Name, Node, Pod, PodGroup, PodShape, Queue, Time, Topology,
};

/// The cluster at one moment. Lists are sorted by (namespace and) name; ids are positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The moment.
    pub now: Time,
    /// Breaks ties where a rule asks for chance.
    pub seed: u64,
    /// Nodes by name.
    pub nodes: Vec<Node>,
    /// Nodes that are there beside those, and that no pod is placed on.
    pub left_out: Vec<LeftOut>,
    /// Queues by name, parents resolved, none broken.
    pub queues: Vec<Queue>,
    /// Topologies by name.
    pub topologies: Vec<Topology>,
    /// Distinct shapes, in order of first use.
    pub shapes: Vec<PodShape>,
    /// Pod groups by namespace and name.
    pub pod_groups: Vec<PodGroup>,
    /// Pods by namespace and name: ours and, as room taken, everybody's.
    pub pods: Vec<Pod>,
    /// Disruption budgets by namespace and name; only profile `kube` knows any.
    pub budgets: Vec<DisruptionBudget>,
    /// Labels of namespaces, by name. One that is not here has no label but its name's.
    pub namespaces: BTreeMap<Name, Labels>,
}
