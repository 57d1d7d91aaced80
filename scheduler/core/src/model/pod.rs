//! A pod, and its shape: everything about it that decides where it fits. Pods of one job
//! share one shape, so work done for a shape serves all of them.

use std::collections::BTreeSet;

use super::{
    ContainerRequests, DeviceClaim, GpuGroup, HOSTNAME, Labels, Name, Node, NodeId, PodGroupId,
    ShapeId, SharedGpu, TaintEffect, Time, VolumeClaim, ZoneShare, gpu::are_instances,
};
use crate::resources::Resources;

/// A pod that exists in the cluster and is not finished long ago.
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
    /// The pod group it belongs to. `None`: another scheduler's pod, which only takes room.
    pub group: Option<PodGroupId>,
    /// Position in the group's `sub_groups`.
    pub sub_group: usize,
    /// What it asks for and where it may run.
    pub shape: ShapeId,
    /// `spec.priority`.
    pub priority: i32,
    /// `spec.preemptionPolicy`.
    pub preemption_policy: PreemptionPolicy,
    /// Where it is in its life.
    pub status: PodStatus,
    /// `spec.nodeName`, when that node exists.
    pub node: Option<NodeId>,
    /// The devices of that node that it shares, where its shape asks for parts of some.
    pub gpu_groups: Vec<GpuGroup>,
    /// What it has of that node's zones, as far as that is known.
    pub zones: Vec<ZoneShare>,
    /// `status.nominatedNodeName`, when that node exists.
    pub nominated: Option<NodeId>,
    /// Label `kai.scheduler/task-priority`, when it is a number.
    pub task_priority: Option<i32>,
    /// The others of its group come after it.
    pub leads: Option<Leader>,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// Start of `status`'s current running period (`status.startTime`), when bound.
    pub started: Option<Time>,
    /// `metadata.deletionTimestamp` minus grace: when it was asked to leave.
    pub released_since: Option<Time>,
    /// A binder could not bind it so far: it has no part in its gang's minimum yet.
    pub unbindable: bool,
}

/// A pod that its labels say leads the others of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    /// The master or launcher of a Kubeflow job.
    Kubeflow,
    /// The head of a Ray cluster.
    Ray,
}

/// The life of a pod as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodStatus {
    /// Waits for a node.
    Pending,
    /// Waits for its scheduling gates to go.
    Gated,
    /// Has a node (bound; its kubelet has not started it yet).
    Bound,
    /// Runs on its node.
    Running,
    /// Has a node that is there, but not among those that are looked at (of another pool, say).
    Away,
    /// Has a deletion timestamp and still holds its node's resources.
    Releasing,
    /// Finished well.
    Succeeded,
    /// Finished badly.
    Failed,
}

/// `spec.preemptionPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreemptionPolicy {
    /// May take the place of lower-priority pods.
    #[default]
    PreemptLowerPriority,
    /// Waits.
    Never,
}

/// What decides where a pod fits. Equal shapes are interned by the translator.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodShape {
    /// Sum of the containers' requests, as Kubernetes adds them up; `pods` is 1.
    pub requests: Resources,
    /// Its containers ask for all that they may use: kubelets give such pods CPUs and memory of
    /// their own (quality of service class `Guaranteed`).
    pub guaranteed: bool,
    /// Its containers in the order in which they start, where there are several.
    pub containers: Vec<ContainerRequests>,
    /// CPU that profile `kube` counts on top when it scores, for containers that ask for none.
    pub unasked_cpu_milli: i64,
    /// Memory that profile `kube` counts on top when it scores, for containers that ask for none.
    pub unasked_memory_bytes: i64,
    /// Parts of GPUs. Those are not in `requests`.
    pub shared_gpu: Option<SharedGpu>,
    /// It asks for MIG instances in the old way, by annotation.
    pub legacy_mig: bool,
    /// Its whole GPUs are those of claims of its own.
    pub gpus_by_claim: bool,
    /// Classes of the GPUs that its claims ask for, of its own or others.
    pub gpu_classes: Vec<Name>,
    /// Claims on devices that others may use, too, or that are allocated. Those are not in
    /// `requests`; what an unallocated claim of the pod's own asks for is.
    pub claims: Vec<DeviceClaim>,
    /// Claims on volumes, as far as they matter: all where it waits, those that one pod at a
    /// time may have where it has a node.
    pub volumes: Vec<VolumeClaim>,
    /// `spec.nodeSelector`.
    pub node_selector: Labels,
    /// `requiredDuringSchedulingIgnoredDuringExecution` node affinity: any term suffices.
    /// `None`: no such affinity; an empty list matches nothing.
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
    /// Ports taken on the node.
    pub host_ports: Vec<HostPort>,
    /// `spec.nodeName` asked for by name through `metadata.name` fields is part of
    /// `node_affinity`; images matter to profile `kube`'s scores only.
    pub images: Vec<Name>,
}

impl PodShape {
    /// It asks for GPUs, parts of them or MIG instances.
    pub fn asks_gpus(&self) -> bool {
        self.requests.gpu_milli > 0
            || self.shared_gpu.is_some()
            || self.asks_mig()
            || self.claims.iter().any(DeviceClaim::is_gpu)
    }

    /// It may not be beside just any pods: it has anti-affinity, or host ports.
    pub fn minds_others(&self) -> bool {
        !(self.pod_anti_affinity.is_empty() && self.host_ports.is_empty())
    }

    /// Labels over which it has to be apart from others, but that of the host.
    pub fn apart_over(&self) -> BTreeSet<Name> {
        let over = self.pod_anti_affinity.iter().map(|term| &term.topology_key);
        over.filter(|key| &***key != HOSTNAME).cloned().collect()
    }

    /// It asks for GPUs as a resource, or for parts of them; not by claims.
    pub fn asks_plain_gpus(&self) -> bool {
        (self.requests.gpu_milli > 0 && !self.gpus_by_claim) || self.shared_gpu.is_some()
    }

    /// It asks for GPUs by claims.
    pub fn asks_claimed_gpus(&self) -> bool {
        (self.requests.gpu_milli > 0 && self.gpus_by_claim)
            || self.claims.iter().any(DeviceClaim::is_gpu)
    }

    /// The node has every label of the node selector, and matches a term of the required affinity.
    pub fn selects(&self, node: &Node) -> bool {
        let labelled = |(key, value)| node.labels.get(key) == Some(value);
        let affinity = self.node_affinity.as_ref();
        self.node_selector.iter().all(labelled)
            && affinity.is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }

    /// It asks for MIG instances as resources.
    pub fn asks_mig(&self) -> bool {
        are_instances(&self.requests)
    }
}

/// All requirements of one term must hold. A term without any matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    pub labels: Vec<Requirement>,
    /// Requirements on fields (`metadata.name` only).
    pub fields: Vec<Requirement>,
}

impl NodeSelectorTerm {
    /// The node has what it asks for.
    pub fn matches(&self, node: &Node) -> bool {
        let labels = |wanted: &Requirement| wanted.holds(node.labels.get(&wanted.key));
        let fields = |wanted: &Requirement| {
            &*wanted.key == "metadata.name" && wanted.holds(Some(&node.name))
        };
        !(self.labels.is_empty() && self.fields.is_empty())
            && self.labels.iter().all(labels)
            && self.fields.iter().all(fields)
    }
}

/// `key operator values`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// Label key or field path.
    pub key: Name,
    /// How to compare.
    pub operator: Operator,
    /// What to compare with.
    pub values: Vec<Name>,
}

impl Requirement {
    /// It holds where the label or field has this value; `None`: there is none.
    pub fn holds(&self, value: Option<&Name>) -> bool {
        let listed = |value: &Name| self.values.contains(value);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.compares(value, |value, bound| value > bound),
            Operator::Lt => self.compares(value, |value, bound| value < bound),
        }
    }

    /// Both are integers, and the comparison holds.
    fn compares(&self, value: Option<&Name>, holds: fn(i64, i64) -> bool) -> bool {
        let value = value.and_then(|value| value.parse().ok());
        let bound = self.values.first().and_then(|bound| bound.parse().ok());
        value.zip(bound).is_some_and(|(value, bound)| holds(value, bound))
    }
}

/// Operators of node and label selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// Value is one of.
    In,
    /// Label absent, or its value none of.
    NotIn,
    /// Label present.
    Exists,
    /// Label absent.
    DoesNotExist,
    /// Integer greater than (nodes only).
    Gt,
    /// Integer less than (nodes only).
    Lt,
}

/// Selects pods by labels; `None` in a term matches nothing, an empty selector everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelSelector {
    /// `matchLabels` and `matchExpressions`, all of which must hold.
    pub requirements: Vec<Requirement>,
}

/// A term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodAffinityTerm {
    /// Which pods.
    pub selector: Option<LabelSelector>,
    /// In which namespaces; unset: in the pod's own.
    pub namespaces: Option<NamespaceSet>,
    /// The node label whose equal values are one domain.
    pub topology_key: Name,
}

/// Namespaces by name and by their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamespaceSet {
    /// `namespaces`.
    pub names: Vec<Name>,
    /// `namespaceSelector`: unset selects none besides, an empty one all.
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
    /// `nodeAffinityPolicy`: do nodes count that the pod's selector and affinity leave out?
    pub node_affinity_policy: Inclusion,
    /// `nodeTaintsPolicy`: do nodes count whose taints keep the pod away?
    pub node_taints_policy: Inclusion,
}

/// Which nodes a spread constraint counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inclusion {
    /// Only those on which the pod may be.
    Honor,
    /// All.
    Ignore,
}

/// What a spread constraint does when it cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhenUnsatisfiable {
    /// Filters nodes.
    DoNotSchedule,
    /// Only scores them.
    ScheduleAnyway,
}

/// A toleration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// `None`: every key (operator `Exists` only).
    pub key: Option<Name>,
    /// `Some`: operator `Equal` with this value; `None`: operator `Exists`.
    pub value: Option<Name>,
    /// `None`: every effect.
    pub effect: Option<TaintEffect>,
}

/// A port taken on the host.
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
    use crate::testing::snapshot_of;

    #[test]
    fn an_operator_holds_for_these_values() {
        let holding = |operator, bounds: &[&str]| {
            let values = bounds.iter().copied().map(Name::from).collect();
            let wanted = Requirement { key: "k".into(), operator, values };
            let found = [None, Some("1"), Some("2"), Some("3"), Some("x")];
            let all = found.into_iter().filter(|value| {
                let value = value.map(Name::from);
                wanted.holds(value.as_ref())
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

    #[test]
    fn gpus_are_asked_for_as_such_in_parts_as_instances_or_by_claims() {
        let told = |text: &str| {
            let snapshot = snapshot_of(&format!("\nnode n1\njob x {text}"));
            let shape = &snapshot.shapes[0];
            let (any, mig) = (shape.asks_gpus(), shape.asks_mig());
            (any, shape.asks_plain_gpus(), shape.asks_claimed_gpus(), mig)
        };
        assert_eq!(told("cpu=1 extended nic=1"), (false, false, false, false));
        assert_eq!(told("gpus=1"), (true, true, false, false));
        assert_eq!(told("part=0.5"), (true, true, false, false));
        assert_eq!(told("gpus=1 by-claim"), (true, false, true, false));
        assert_eq!(told("claim c:1"), (true, false, true, false));
        assert_eq!(told("claim c:all"), (true, false, true, false));
        assert_eq!(told("claim c:0"), (false, false, false, false));
        assert_eq!(told("extended nvidia.com/mig-1g.5gb=1"), (true, false, false, true));
        assert_eq!(told("extended nvidia.com/mig-1g.5gb=0"), (false, false, false, false));
    }
}
