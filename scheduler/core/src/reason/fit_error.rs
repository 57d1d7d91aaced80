//! Why a pod does not fit on a node, and the counts of these errors over all nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{
    DeviceFitError, MutualExclusion, NodeRequirements, SingleDomain, TopologyFitError,
    VolumeFitError,
    fit_error_rank::{has_other_errors, worst_fit_error},
};
use crate::{
    model::{LabelMismatch, MIG_ENABLED, Name, NodeSelection},
    resources::{ResourceName, Shortage},
};

/// Why a pod does not fit on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FitError {
    /// The node has too little of some resource.
    InsufficientResources {
        /// The resources that are short.
        shortage: Shortage,
        /// Whether the resources are short even on the empty node.
        even_when_empty: EvenWhenEmpty,
    },
    /// Each GPU of the node has less memory than the pod requests.
    InsufficientGpuMemory {
        /// Memory of a GPU in MiB; 0 when unknown.
        mib: i64,
    },
    /// The pod does not tolerate a taint of the node.
    Taint {
        /// `key` of the taint.
        key: Name,
        /// `value` of the taint.
        value: Name,
        /// Whether the node also has an untolerated taint that is not set by Kubernetes for the
        /// node's state.
        has_other_errors: bool,
    },
    /// The node is cordoned.
    Unschedulable,
    /// The node's condition `Ready` is not `True`.
    NotReady,
    /// The node selector or the required node affinity does not match.
    NodeAffinity {
        /// `key=value` when the pod selects nodes by this one label only.
        label: Option<Name>,
    },
    /// The pod's required pod affinity is not satisfied.
    PodAffinity,
    /// The pod's required pod affinity selects pods of its own gang, which are placed after it.
    PodAffinityToOwnGang,
    /// The pod's required pod anti-affinity is not satisfied.
    PodAntiAffinity,
    /// The required anti-affinity of a pod on the node excludes this pod.
    ExistingPodsAntiAffinity,
    /// A requested host port is in use.
    HostPort {
        /// The host port, when the pod requests exactly one.
        port: Option<u16>,
    },
    /// A topology spread constraint over this key would be violated.
    TopologySpread(Name),
    /// A topology spread constraint is violated only because the key has fewer values than
    /// `minDomains`.
    TooFewDomains {
        /// `topologyKey` of the constraint.
        key: Name,
        /// Number of values of the key among eligible nodes.
        domains: u32,
        /// `minDomains` of the constraint.
        min_domains: u32,
    },
    /// The node lacks the label with this key, which a topology spread constraint requires.
    TopologySpreadLabelMissing(Name),
    /// The pod requests a fraction of a GPU, and the node offers whole GPUs only.
    WholeGpusOnly,
    /// The node offers its GPUs as MIG instances only.
    MigInstancesOnly,
    /// The pod requests MIG instances, and the node's label says that MIG is disabled.
    MigDisabled,
    /// The pod requests MIG instances by annotation, which is no longer supported.
    LegacyMig,
    /// A pod on the node uses MIG instances by annotation, so that the instances in use are
    /// unknown.
    LegacyMigPodOnNode,
    /// A claim of the pod is allocated on another node.
    ClaimOnOtherNode(Name),
    /// A claim of the pod is reserved for the maximum number of pods.
    ClaimUsersExhausted(Name),
    /// A shared GPU claim belongs to another queue, or to none.
    ClaimQueueMismatch {
        /// Namespace and name of the claim.
        claim: Name,
        /// The pod's queue.
        queue: Name,
        /// Value of the claim's queue label; `None` when it has none.
        label: Option<Name>,
    },
    /// The kubelet cannot align the pod's resources with the node's NUMA zones and would reject it.
    NumaMisaligned {
        /// Whether the kubelet could not align the pod even on the empty node.
        even_when_empty: EvenWhenEmpty,
    },
    /// The pod requests GPUs as a resource, and the node offers them to resource claims only.
    GpusOnlyViaDra,
    /// The pod requests GPUs by a claim, and the node publishes none for claims.
    GpusNotViaDra,
    /// The pod requests GPUs, and the node is not labelled as a GPU worker.
    NotGpuWorker,
    /// The pod requests no GPUs, and the node is not labelled as a CPU worker.
    NotCpuWorker,
    /// The node is in no topology domain that suits the pod.
    Topology(TopologyFitError),
    /// A volume of the pod cannot be used on the node.
    Volume(VolumeFitError),
    /// The pod's device claims cannot be satisfied on the node.
    Devices(DeviceFitError),
    /// The pod's charge on this node exceeds the bounds of its queues. Holds the queues' message.
    QueueBoundExceeded(Name),
}

/// Whether a pod would not fit even if no other pod were on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvenWhenEmpty {
    /// The pod would not fit even then: the node is too small.
    Yes,
    /// The pod would fit then: the node is too full.
    No,
}

impl FitError {
    /// Whether pods with this error may need a node each.
    pub const fn requires_separate_nodes(&self) -> bool {
        matches!(
            self,
            Self::PodAntiAffinity | Self::ExistingPodsAntiAffinity | Self::HostPort { .. }
        )
    }

    /// Whether the node is closed to the pod and an operator could open it.
    pub const fn is_node_closed(&self) -> bool {
        self.is_worker_role_mismatch()
            || matches!(self, Self::Taint { .. } | Self::Unschedulable | Self::NotReady)
    }

    /// Whether the node lacks the worker role that the pod needs.
    pub(crate) const fn is_worker_role_mismatch(&self) -> bool {
        matches!(self, Self::NotGpuWorker | Self::NotCpuWorker)
    }

    /// Whether the pod, or one of its volumes, selects other nodes.
    pub(crate) const fn is_selection_mismatch(&self) -> bool {
        matches!(
            self,
            Self::NodeAffinity { .. }
                | Self::Volume(VolumeFitError::NodeAffinity | VolumeFitError::Zone)
        )
    }

    /// Whether the node has too little left, and would have enough if it were empty.
    pub(crate) const fn is_node_too_full(&self) -> bool {
        matches!(self, Self::InsufficientResources { even_when_empty: EvenWhenEmpty::No, .. })
    }

    /// Whether the node would have too little even if it were empty.
    pub(crate) const fn is_node_too_small(&self) -> bool {
        matches!(self, Self::InsufficientResources { even_when_empty: EvenWhenEmpty::Yes, .. })
    }

    /// Whether evicting pods from the node could resolve the error.
    pub const fn is_resolvable_by_eviction(&self) -> bool {
        match self {
            Self::InsufficientResources { even_when_empty, .. }
            | Self::NumaMisaligned { even_when_empty } => {
                matches!(even_when_empty, EvenWhenEmpty::No)
            }
            Self::Topology(fit_error) => fit_error.is_resolvable_by_eviction(),
            Self::Volume(fit_error) => fit_error.is_resolvable_by_eviction(),
            Self::Devices(fit_error) => fit_error.is_resolvable_by_eviction(),
            Self::PodAntiAffinity
            | Self::ExistingPodsAntiAffinity
            | Self::HostPort { .. }
            | Self::QueueBoundExceeded(_)
            | Self::ClaimOnOtherNode(_)
            | Self::ClaimUsersExhausted(_)
            | Self::TopologySpread(_)
            | Self::TooFewDomains { .. } => true,
            Self::InsufficientGpuMemory { .. }
            | Self::Taint { .. }
            | Self::Unschedulable
            | Self::NotReady
            | Self::NodeAffinity { .. }
            | Self::PodAffinity
            | Self::PodAffinityToOwnGang
            | Self::WholeGpusOnly
            | Self::MigInstancesOnly
            | Self::MigDisabled
            | Self::LegacyMig
            | Self::LegacyMigPodOnNode
            | Self::ClaimQueueMismatch { .. }
            | Self::GpusOnlyViaDra
            | Self::GpusNotViaDra
            | Self::NotGpuWorker
            | Self::NotCpuWorker
            | Self::TopologySpreadLabelMissing(_) => false,
        }
    }

    /// The texts that kube-scheduler prints for the error; one for each resource that is short.
    fn kube_messages(&self) -> Vec<String> {
        match self {
            Self::InsufficientResources { shortage, .. } => {
                shortage.short_resources().map(|it| insufficient_text(&it)).collect()
            }
            Self::Taint { .. } => vec!["node(s) had untolerated taint(s)".to_owned()],
            Self::Volume(fit_error) => vec![fit_error.kube_message()],
            Self::Devices(fit_error) => vec![fit_error.kube_message().to_owned()],
            Self::InsufficientGpuMemory { .. }
            | Self::Unschedulable
            | Self::NotReady
            | Self::NodeAffinity { .. }
            | Self::PodAffinity
            | Self::PodAffinityToOwnGang
            | Self::PodAntiAffinity
            | Self::ExistingPodsAntiAffinity
            | Self::HostPort { .. }
            | Self::TopologySpread(_)
            | Self::TooFewDomains { .. }
            | Self::TopologySpreadLabelMissing(_)
            | Self::WholeGpusOnly
            | Self::MigInstancesOnly
            | Self::MigDisabled
            | Self::LegacyMig
            | Self::LegacyMigPodOnNode
            | Self::ClaimOnOtherNode(_)
            | Self::ClaimUsersExhausted(_)
            | Self::ClaimQueueMismatch { .. }
            | Self::NumaMisaligned { .. }
            | Self::GpusOnlyViaDra
            | Self::GpusNotViaDra
            | Self::Topology(_)
            | Self::NotGpuWorker
            | Self::NotCpuWorker
            | Self::QueueBoundExceeded(_) => vec![self.to_string()],
        }
    }
}

fn insufficient_text(resource: &ResourceName) -> String {
    match resource {
        ResourceName::Gpu => "Insufficient nvidia.com/gpu".to_owned(),
        ResourceName::Cpu => "Insufficient cpu".to_owned(),
        ResourceName::Memory => "Insufficient memory".to_owned(),
        ResourceName::Pods => "Too many pods".to_owned(),
        ResourceName::Extended(name) => format!("Insufficient {name}"),
    }
}

const WHOLE_GPUS_ONLY_TEXT: &str = "node(s) offer whole GPUs only (MIG strategy single)";
const MIG_INSTANCES_ONLY_TEXT: &str = "node(s) offer MIG instances only (MIG strategy mixed)";
const SPREAD_MISMATCH_TEXT: &str = "node(s) didn't match pod topology spread constraints";

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InsufficientResources { shortage, .. } => {
                let names: Vec<Name> = shortage.short_resources().map(resource_label).collect();
                write!(f, "node(s) didn't have enough resources: {}", names.join(", "))
            }
            Self::InsufficientGpuMemory { .. } => {
                f.write_str("node(s) didn't have enough resources: GPU memory")
            }
            Self::Taint { key, value, .. } => {
                write!(f, "node(s) had untolerated taint {{{key}: {value}}}")
            }
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::NotReady => f.write_str("node(s) were not ready"),
            Self::NodeAffinity { .. } => {
                f.write_str("node(s) didn't match Pod's node affinity/selector")
            }
            Self::PodAffinity | Self::PodAffinityToOwnGang => {
                f.write_str("node(s) didn't match pod affinity rules")
            }
            Self::PodAntiAffinity => f.write_str("node(s) didn't match pod anti-affinity rules"),
            Self::ExistingPodsAntiAffinity => {
                f.write_str("node(s) didn't satisfy existing pods anti-affinity rules")
            }
            Self::HostPort { .. } => {
                f.write_str("node(s) didn't have free ports for the requested pod ports")
            }
            Self::TopologySpread(_) | Self::TooFewDomains { .. } => {
                f.write_str(SPREAD_MISMATCH_TEXT)
            }
            Self::TopologySpreadLabelMissing(_) => f.write_str(
                "node(s) didn't match pod topology spread constraints (missing required label)",
            ),
            Self::WholeGpusOnly => f.write_str(WHOLE_GPUS_ONLY_TEXT),
            Self::MigInstancesOnly => f.write_str(MIG_INSTANCES_ONLY_TEXT),
            Self::MigDisabled => {
                write!(f, "node(s) offer no MIG instances (label {MIG_ENABLED} is not true)")
            }
            Self::LegacyMig => f.write_str("node(s) accept no pods that request MIG by annotation"),
            Self::LegacyMigPodOnNode => {
                f.write_str("node(s) had pods that use MIG instances by annotation")
            }
            Self::ClaimOnOtherNode(claim) => {
                write!(f, "node(s) don't have the devices of claim {claim}")
            }
            Self::ClaimUsersExhausted(claim) => {
                write!(f, "node(s) rejected: claim {claim} is used by the maximum number of pods")
            }
            Self::ClaimQueueMismatch { claim, queue, label } => {
                fmt_claim_queue_mismatch(f, claim, queue, label.as_ref())
            }
            Self::NumaMisaligned { .. } => f.write_str(
                "node cannot NUMA-align the pod's resources under its Topology Manager policy",
            ),
            Self::GpusOnlyViaDra => f.write_str("node(s) offer GPUs to resource claims only"),
            Self::GpusNotViaDra => f.write_str("node(s) publish no GPUs for resource claims"),
            Self::NotGpuWorker => f.write_str("node(s) were not labelled as GPU workers"),
            Self::NotCpuWorker => f.write_str("node(s) were not labelled as CPU workers"),
            Self::Topology(fit_error) => fit_error.fmt(f),
            Self::Volume(fit_error) => fit_error.fmt(f),
            Self::Devices(fit_error) => fit_error.fmt(f),
            Self::QueueBoundExceeded(why) => write!(f, "node(s) exceed a queue bound: {why}"),
        }
    }
}

fn fmt_claim_queue_mismatch(
    f: &mut fmt::Formatter<'_>,
    claim: &Name,
    queue: &Name,
    label: Option<&Name>,
) -> fmt::Result {
    write!(f, "node(s) rejected: DRA claim {claim} is a shared GPU claim ")?;
    match label {
        Some(label) => write!(
            f,
            "with wrong queue label (expected queue: {queue}, claim queue label: {label})"
        ),
        None => f.write_str("but does not have a queue label (kai.scheduler/queue)"),
    }
}

pub(super) fn resource_label(resource: ResourceName) -> Name {
    match resource {
        ResourceName::Gpu => "GPUs".into(),
        ResourceName::Cpu => "CPU cores".into(),
        ResourceName::Memory => "memory".into(),
        ResourceName::Pods => "pods".into(),
        ResourceName::Extended(name) => name,
    }
}

/// Why a pod fits on no node: the errors of all nodes, with the number of nodes that have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FitErrors {
    /// Number of nodes that were checked.
    pub nodes: u32,
    /// Number of nodes by their refusal of the pod. Each node is counted once.
    pub refusals: BTreeMap<NodeRefusal, u32>,
    /// What an added node must be like for the pod. `None` when neither the placement of other pods
    /// nor the source of GPUs matters to the pod.
    pub node_requirements: Option<Box<NodeRequirements>>,
    /// What keeps the pod and others of its gang on different nodes or domains, when there are too
    /// few nodes or domains, whichever pods are evicted.
    pub mutual_exclusion: Option<Box<MutualExclusion>>,
    /// How the pod selects nodes.
    pub node_selection: NodeSelection,
    /// For a pod that selects nodes by name: whether all of those nodes are too small even when
    /// empty. `None` when the pod does not select by name, or none of the nodes exists.
    pub named_nodes_too_small: Option<bool>,
    /// What the pods need of topology domains besides capacity; `None`: nothing.
    pub domain_requirements: Option<Box<DomainRequirements>>,
    /// Excluded nodes, when no included node could run the pod. `None` when some included node
    /// could, or no node is excluded.
    pub excluded_nodes: Option<Box<ExcludedNodeCounts>>,
}

/// What pods need of topology domains besides capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainRequirements {
    /// For pods that must be in one domain: the closed nodes to open in the domain that needs the
    /// fewest. `None` when no domain would hold the pods even if all nodes were open.
    pub nodes_to_open: Option<NodesToOpen>,
    /// For each required topology domain: the number of pending pods of the gang that must be in
    /// it, and its level.
    pub single_domains: Vec<SingleDomain>,
}

/// Nodes that are closed to pods for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesToOpen {
    /// The error that closes the nodes.
    pub closed_by: FitError,
    /// Names of the closed nodes.
    pub nodes: Vec<Name>,
}

/// Numbers of excluded nodes by their label mismatches, each with the name of the first such node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExcludedNodeCounts(pub BTreeMap<BTreeSet<LabelMismatch>, (u32, Name)>);

/// Why one node rejects a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeRefusal {
    /// The error of the first plugin that rejects the pod; this error is reported.
    pub first: FitError,
    /// The error of the node that is hardest to resolve.
    pub worst: FitError,
    /// Whether pods of the pod's own gang cause the worst error, so that it would remain if all
    /// other pods left.
    pub is_by_own_gang: bool,
    /// Whether the node would still reject the pod if it were opened.
    pub has_other_errors: bool,
}

impl NodeRefusal {
    /// The refusal of a node with these errors; `None` if there are none. `is_caused_by_peers` tells
    /// whether the worst error is caused by the pod's own gang.
    pub(crate) fn new(
        fit_errors: impl IntoIterator<Item = FitError>,
        is_caused_by_peers: impl Fn(&FitError) -> bool,
    ) -> Option<Self> {
        let mut fit_errors = fit_errors.into_iter();
        let first = fit_errors.next()?;
        let others: Vec<FitError> = fit_errors.collect();
        let worst = worst_fit_error(&first, others.iter().cloned());
        let is_by_own_gang = is_caused_by_peers(&worst);
        let has_other_errors = has_other_errors(&worst, std::iter::once(&first).chain(&others));
        Some(Self { first, worst, is_by_own_gang, has_other_errors })
    }
}

impl FitErrors {
    /// Counts one more node with all its errors. `is_caused_by_peers` tells whether the worst error
    /// is caused by the pod's own gang.
    pub fn count_node(
        &mut self,
        fit_errors: impl IntoIterator<Item = FitError>,
        is_caused_by_peers: impl Fn(&FitError) -> bool,
    ) {
        self.nodes += 1;
        if let Some(refusal) = NodeRefusal::new(fit_errors, is_caused_by_peers) {
            *self.refusals.entry(refusal).or_default() += 1;
        }
    }

    /// Counts one node that was counted with this refusal as one whose worst error the pod's own
    /// gang causes.
    pub(crate) fn mark_as_caused_by_peers(&mut self, refusal: NodeRefusal) {
        if let Some(nodes) = self.refusals.get_mut(&refusal) {
            *nodes -= 1;
            if *nodes == 0 {
                self.refusals.remove(&refusal);
            }
        }
        let by_own_gang = NodeRefusal { is_by_own_gang: true, ..refusal };
        *self.refusals.entry(by_own_gang).or_default() += 1;
    }

    /// Adds the errors of further nodes.
    pub(crate) fn merge(&mut self, other: Self) {
        self.nodes += other.nodes;
        for (refusal, nodes) in other.refusals {
            *self.refusals.entry(refusal).or_default() += nodes;
        }
        match (&mut self.node_requirements, other.node_requirements) {
            (Some(requirements), Some(other)) => requirements.merge(*other),
            (requirements, other) => *requirements = requirements.take().or(other),
        }
        if self.node_selection == NodeSelection::All {
            self.node_selection = other.node_selection;
        }
        let named = [self.named_nodes_too_small, other.named_nodes_too_small].into_iter().flatten();
        self.named_nodes_too_small = named.reduce(|one, other| one && other);
        self.domain_requirements = self.domain_requirements.take().or(other.domain_requirements);
        self.excluded_nodes = self.excluded_nodes.take().or(other.excluded_nodes);
    }

    /// The text that kube-scheduler prints for the errors of all nodes.
    pub(super) fn kube_message(&self) -> String {
        let mut by_words: BTreeMap<String, u32> = BTreeMap::new();
        for (NodeRefusal { first, .. }, count) in &self.refusals {
            for words in first.kube_messages() {
                *by_words.entry(words).or_default() += count;
            }
        }
        let total = self.nodes;
        if total == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        format!("0/{total} nodes are available: {}.", join_counts(by_words.into_iter()))
    }
}

/// Joins counts with their texts, sorted: `3 Insufficient cpu, 1 Too many pods`.
pub(super) fn join_counts(counts: impl Iterator<Item = (String, u32)>) -> String {
    let mut texts: Vec<String> = counts.map(|(words, count)| format!("{count} {words}")).collect();
    texts.sort();
    texts.join(", ")
}

impl fmt::Display for FitErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no nodes with enough resources were found: ")?;
        if self.nodes == 0 {
            return match &self.excluded_nodes {
                None => f.write_str("there are no nodes."),
                Some(excluded) => write!(f, "there are no {excluded}."),
            };
        }
        let mut by_words: BTreeMap<String, u32> = BTreeMap::new();
        for (NodeRefusal { first, .. }, count) in &self.refusals {
            *by_words.entry(first.to_string()).or_default() += count;
        }
        let counts = join_counts(by_words.into_iter());
        write!(f, "{counts}.")?;
        match &self.excluded_nodes {
            None => Ok(()),
            Some(excluded) => write!(f, " {}.", excluded.appended_sentence()),
        }
    }
}
