//! A pod, and its shape: everything that decides where it fits. Pods of one job share a shape, so
//! that work done for a shape serves all of them.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    ClaimRequests, ContainerRequests, DeviceClaim, FractionalGpu, GpuGroup, HOSTNAME, Labels, Name,
    Node, NodeId, NumaAllocation, PodGroupId, ShapeId, TaintEffect, Time, VolumeClaim,
    gpu::has_mig_instances,
};
use crate::resources::Resources;

/// A pod of the cluster. Pods that finished long ago are not part of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.namespace`.
    pub namespace: Name,
    /// `metadata.name`.
    pub name: Name,
    /// `metadata.uid`.
    pub uid: Name,
    /// `metadata.labels`.
    pub labels: Labels,
    /// The pod's group. `None` for pods of other schedulers, which only use capacity.
    pub group: Option<PodGroupId>,
    /// Position of the pod's sub-group in the group's `sub_groups`.
    pub sub_group: usize,
    /// What the pod requests and where it may run.
    pub shape: ShapeId,
    /// `spec.priority`.
    pub priority: i32,
    /// `spec.preemptionPolicy`.
    pub preemption_policy: PreemptionPolicy,
    /// Phase of the pod's life.
    pub status: PodStatus,
    /// `spec.nodeName`, if that node is in the snapshot.
    pub node: Option<NodeId>,
    /// The shared GPUs of `node` that the pod uses, when its shape requests fractions.
    pub gpu_groups: Vec<GpuGroup>,
    /// Namespaces and names of the claims created for this pod, in the order of `own_claims` of its
    /// shape.
    pub own_claims: Vec<Name>,
    /// Amounts that the pod has from the NUMA zones of `node`, as far as known.
    pub numa_allocations: Vec<NumaAllocation>,
    /// `status.nominatedNodeName`, if that node is in the snapshot.
    pub nominated_node: Option<NodeId>,
    /// Label `kai.scheduler/task-priority`, if it is a number.
    pub task_priority: Option<i32>,
    /// Set for a leader pod, which is placed before the other pods of its group.
    pub leader_role: Option<LeaderRole>,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// `status.startTime`, when bound.
    pub started: Option<Time>,
    /// When the pod's deletion was requested: `metadata.deletionTimestamp` minus the grace period.
    pub releasing_since: Option<Time>,
    /// Whether all attempts to bind the pod failed so far, so that it does not count for its gang's
    /// minimum yet.
    pub binding_failed: bool,
}

impl Pod {
    /// Creates a pending pod. Its uid is its name.
    pub fn pending(namespace: &str, name: &str, group: PodGroupId, shape: ShapeId) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: name.into(),
            labels: Labels::new(),
            group: Some(group),
            sub_group: 0,
            shape,
            priority: 0,
            preemption_policy: PreemptionPolicy::default(),
            status: PodStatus::Pending,
            node: None,
            gpu_groups: Vec::new(),
            own_claims: Vec::new(),
            numa_allocations: Vec::new(),
            nominated_node: None,
            task_priority: None,
            leader_role: None,
            created: Time::default(),
            started: None,
            releasing_since: None,
            binding_failed: false,
        }
    }
}

/// The role of a pod that leads its group, found by the pod's labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderRole {
    /// The pod is the master or launcher of a Kubeflow job.
    Kubeflow,
    /// The pod is the head of a Ray cluster.
    Ray,
}

/// Phase of a pod as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodStatus {
    /// The pod has no node.
    Pending,
    /// The pod has scheduling gates.
    Gated,
    /// The pod is bound, but its kubelet has not started it.
    Bound,
    /// The pod runs on its node.
    Running,
    /// The pod is on a node that exists but is excluded from scheduling, for example because the
    /// node belongs to another node pool.
    OnExcludedNode,
    /// The pod has a deletion timestamp and still uses its node's resources.
    Releasing,
    /// `status.phase` is `Succeeded`.
    Succeeded,
    /// `status.phase` is `Failed`.
    Failed,
}

/// `spec.preemptionPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreemptionPolicy {
    /// The pod may preempt pods of lower priority.
    #[default]
    PreemptLowerPriority,
    /// The pod never preempts other pods.
    Never,
}

/// Everything that decides on which nodes a pod fits. Equal shapes are stored once in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodShape {
    /// Resource requests of the pod, added up over containers as Kubernetes does; `pods` is 1.
    pub requests: Resources,
    /// Whether requests equal limits in all containers, so that a kubelet gives the pod exclusive
    /// CPUs and memory (`QoS` class `Guaranteed`).
    pub guaranteed: bool,
    /// The pod's containers in starting order; empty when there is only one.
    pub containers: Vec<ContainerRequests>,
    /// CPU that scores of profile `kube` assume for containers without a request.
    pub default_cpu_milli: i64,
    /// Memory that scores of profile `kube` assume for containers without a request.
    pub default_memory_bytes: i64,
    /// The request for GPU fractions, which is not part of `requests`.
    pub fractional_gpu: Option<FractionalGpu>,
    /// Whether the pod requests MIG instances by annotation, which is no longer supported.
    pub legacy_mig: bool,
    /// Whether the whole GPUs in `requests` come from claims of the pod's own.
    pub gpus_via_dra: bool,
    /// Device classes of the GPUs that the pod's claims request.
    pub gpu_classes: Vec<Name>,
    /// Claims that other pods may share or that are allocated; these are not part of `requests`. An
    /// unallocated claim of the pod's own is part of it.
    pub claims: Vec<DeviceClaim>,
    /// What the pod's own claims request. Their devices are part of `requests`.
    pub own_claims: Vec<Arc<ClaimRequests>>,
    /// Volume claims that restrict the nodes of the pod: all its claims while the pod is pending,
    /// `ReadWriteOncePod` claims once it has a node.
    pub volumes: Vec<VolumeClaim>,
    /// `spec.nodeSelector`.
    pub node_selector: Labels,
    /// Required node affinity: any term suffices. `None`: the pod has none; an empty list matches
    /// no node.
    pub node_affinity: Option<Vec<NodeSelectorTerm>>,
    /// Preferred node affinity with weights 1 to 100.
    pub node_preferences: Vec<(i32, NodeSelectorTerm)>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// Required pod affinity.
    pub pod_affinity: Vec<PodAffinityTerm>,
    /// Required pod anti-affinity.
    pub pod_anti_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod affinity (positive weight) and anti-affinity (negative weight).
    pub pod_preferences: Vec<(i32, PodAffinityTerm)>,
    /// `spec.topologySpreadConstraints`.
    pub topology_spread: Vec<TopologySpread>,
    /// Host ports that the pod uses.
    pub host_ports: Vec<HostPort>,
    /// Container images; only scores of profile `kube` use them.
    pub images: Vec<Name>,
}

impl PodShape {
    /// Whether the shape requests GPUs, GPU fractions or MIG instances.
    pub fn requests_gpus(&self) -> bool {
        self.requests.gpu_milli > 0
            || self.fractional_gpu.is_some()
            || self.requests_mig()
            || self.claims.iter().any(|it| it.claims_gpus() && it.plugin_resources.is_none())
    }

    /// Whether the shape has anti-affinity or host ports, so that its pods cannot run next to every
    /// pod.
    pub fn may_exclude_neighbors(&self) -> bool {
        !(self.pod_anti_affinity.is_empty() && self.host_ports.is_empty())
    }

    /// Topology keys of the shape's required anti-affinity, without the hostname.
    pub fn anti_affinity_labels(&self) -> BTreeSet<Name> {
        let over = self.pod_anti_affinity.iter().map(|term| &term.topology_key);
        over.filter(|key| &***key != HOSTNAME).cloned().collect()
    }

    /// Whether the shape requests GPUs or GPU fractions as resources, not by claims.
    pub fn requests_plain_gpus(&self) -> bool {
        (self.requests.gpu_milli > 0 && !self.gpus_via_dra) || self.fractional_gpu.is_some()
    }

    /// Whether the shape requests GPUs by claims.
    pub fn requests_dra_gpus(&self) -> bool {
        (self.requests.gpu_milli > 0 && self.gpus_via_dra)
            || self.claims.iter().any(|it| it.claims_gpus() && it.plugin_resources.is_none())
    }

    /// Whether the node matches the shape's node selector and required node affinity.
    pub fn selects_node(&self, node: &Node) -> bool {
        let labelled = |(key, value)| node.labels.get(key) == Some(value);
        let affinity = self.node_affinity.as_ref();
        self.node_selector.iter().all(labelled)
            && affinity.is_none_or(|terms| terms.iter().any(|term| term.matches_node(node)))
    }

    /// Whether the shape requests MIG instances as resources.
    pub fn requests_mig(&self) -> bool {
        has_mig_instances(&self.requests)
    }
}

/// A node selector term: all requirements must match. A term without requirements matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    pub labels: Vec<Requirement>,
    /// Requirements on fields (`metadata.name` only).
    pub fields: Vec<Requirement>,
}

impl NodeSelectorTerm {
    /// Whether the node matches the term.
    pub fn matches_node(&self, node: &Node) -> bool {
        let labels = |requirement: &Requirement| {
            requirement.matches_value(node.labels.get(&requirement.key))
        };
        let fields = |requirement: &Requirement| {
            &*requirement.key == "metadata.name" && requirement.matches_value(Some(&node.name))
        };
        !(self.labels.is_empty() && self.fields.is_empty())
            && self.labels.iter().all(labels)
            && self.fields.iter().all(fields)
    }
}

/// A requirement `key operator values` of a node or label selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// Label key or field path.
    pub key: Name,
    /// How the value is compared.
    pub operator: Operator,
    /// Values that the label or field is compared with.
    pub values: Vec<Name>,
}

impl Requirement {
    /// Whether a label or field with this value satisfies the requirement; `None` when the label is
    /// absent.
    pub fn matches_value(&self, value: Option<&Name>) -> bool {
        let listed = |value: &Name| self.values.contains(value);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.compare_integers(value, |value, bound| value > bound),
            Operator::Lt => self.compare_integers(value, |value, bound| value < bound),
        }
    }

    /// Whether the value and the operand are integers and satisfy the comparison.
    fn compare_integers(&self, value: Option<&Name>, is_satisfied: fn(i64, i64) -> bool) -> bool {
        let value = value.and_then(|value| value.parse().ok());
        let bound = self.values.first().and_then(|bound| bound.parse().ok());
        value.zip(bound).is_some_and(|(value, bound)| is_satisfied(value, bound))
    }
}

/// Operators of node and label selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// The label's value is listed.
    In,
    /// The label is absent, or its value is not listed.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label's value is an integer greater than the operand (nodes only).
    Gt,
    /// The label's value is an integer less than the operand (nodes only).
    Lt,
}

/// A selector of pods by labels. Where a term has no selector (`None`), it selects no pods; an
/// empty selector selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelSelector {
    /// `matchLabels` and `matchExpressions`, all of which must hold.
    pub requirements: Vec<Requirement>,
}

/// A term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodAffinityTerm {
    /// Selects the pods that the term is about.
    pub selector: Option<LabelSelector>,
    /// Namespaces of the selected pods; `None`: that of the pod that has the term.
    pub namespaces: Option<NamespaceSet>,
    /// Nodes with equal values of this label are one domain.
    pub topology_key: Name,
}

/// A set of namespaces, given by names and by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamespaceSet {
    /// `namespaces` of the term.
    pub names: Vec<Name>,
    /// `namespaceSelector`: `None` adds no namespaces, an empty selector all.
    pub selector: Option<LabelSelector>,
}

/// `topologySpreadConstraints[]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologySpread {
    /// `maxSkew`.
    pub max_skew: i32,
    /// `topologyKey`.
    pub topology_key: Name,
    /// `whenUnsatisfiable`.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// `labelSelector`.
    pub selector: Option<LabelSelector>,
    /// `minDomains`.
    pub min_domains: Option<i32>,
    /// `nodeAffinityPolicy`: whether nodes count that the pod's selector and affinity exclude.
    pub node_affinity_policy: Inclusion,
    /// `nodeTaintsPolicy`: whether nodes count whose taints the pod does not tolerate.
    pub node_taints_policy: Inclusion,
}

/// Which nodes a topology spread constraint counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inclusion {
    /// Only nodes on which the pod may run.
    Honor,
    /// All nodes.
    Ignore,
}

/// What a topology spread constraint does when it is violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhenUnsatisfiable {
    /// The constraint filters nodes.
    DoNotSchedule,
    /// The constraint only scores nodes.
    ScheduleAnyway,
}

/// A toleration of taints by a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// Key of the tolerated taints; `None`: every key (operator `Exists` only).
    pub key: Option<Name>,
    /// Value of the tolerated taints (operator `Equal`); `None`: any value (operator `Exists`).
    pub value: Option<Name>,
    /// Effect of the tolerated taints; `None`: every effect.
    pub effect: Option<TaintEffect>,
}

/// A host port that a pod requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// `hostIP`, `0.0.0.0` when absent.
    pub ip: Name,
    /// `protocol`.
    pub protocol: Name,
    /// `hostPort`.
    pub port: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_match_the_documented_values() {
        let holding = |operator, bounds: &[&str]| {
            let values = bounds.iter().copied().map(Name::from).collect();
            let requirement = Requirement { key: "k".into(), operator, values };
            let found = [None, Some("1"), Some("2"), Some("3"), Some("x")];
            let all = found.into_iter().filter(|value| {
                let value = value.map(Name::from);
                requirement.matches_value(value.as_ref())
            });
            all.map(|value| value.unwrap_or("-")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(holding(Operator::In, &["1", "3"]), "1 3");
        assert_eq!(holding(Operator::NotIn, &["1", "3"]), "- 2 x");
        assert_eq!(holding(Operator::Exists, &[]), "1 2 3 x");
        assert_eq!(holding(Operator::DoesNotExist, &[]), "-");
        assert_eq!(holding(Operator::Gt, &["1"]), "2 3");
        assert_eq!(holding(Operator::Lt, &["3"]), "1 2");
        assert_eq!(holding(Operator::Gt, &["y"]), "");
    }
}
