//! Why a pod group, or one pod, is pending: one dominant reason that an operator can act on. The
//! texts of these types are written only in their `Display` implementations.

mod device_fit_error;
mod excluded_nodes;
mod fit_error;
mod fit_error_rank;
mod format;
mod gang_readiness;
mod group_difference;
mod no_topology_domain;
mod node_requirements;
mod pod_group_failure;
mod suggestion;
mod topology_fit_error;
mod volume_fit_error;

use std::{collections::BTreeMap, fmt};

use crate::model::{Name, QueueProblem};
pub use device_fit_error::{DeviceFitError, NoAllocationCause};
use fit_error::join_counts;
pub use fit_error::{
    DomainRequirements, EvenWhenEmpty, ExcludedNodeCounts, FitError, FitErrors, NodeRefusal,
    NodesToOpen,
};
pub(crate) use fit_error_rank::{has_other_errors, worst_fit_error};
pub use format::{Decimal, Quantity};
pub use gang_readiness::{GangReadiness, UnschedulableMembers};
pub use group_difference::{DifferentField, GroupDifference};
pub use no_topology_domain::{InvalidLevel, NoTopologyDomain};
pub use node_requirements::{MutualExclusion, NodeRequirements, PinnedLabel, PlacementNeed};
pub use pod_group_failure::{PodGroupFailure, PodGroupPreemption};
pub use suggestion::{
    AddedNodes, CapacityLocation, DomainHint, ExclusionSource, NodeBatch, QueueBound, SingleDomain,
    Suggestion,
};
pub use topology_fit_error::TopologyFitError;
pub use volume_fit_error::VolumeFitError;

/// Why a pod group, or one pod, is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The group's queue cannot be used.
    Queue(QueueProblem),
    /// Pods of the gang are missing or gated.
    NotReady(GangReadiness),
    /// A pod of the group differs where all of them must be equal (profile `kube`).
    PodsDiffer(GroupDifference),
    /// The group failed to schedule once, and its `schedulingBackoff` allows no second attempt.
    SchedulingBackoff,
    /// The group's queue, or one of its ancestors, has reached its limit.
    OverLimit {
        /// Name of the queue at its limit.
        queue: Name,
        /// The queue's limit.
        limit: Quantity,
        /// Amount that the queue has allocated.
        allocated: Quantity,
        /// Amount that the next pods request.
        requested: Quantity,
        /// Whether another bound, of this queue or of an ancestor, is too low as well.
        other_bounds_too_low: bool,
    },
    /// Non-preemptible work must stay within the quota of every queue on its path.
    NonPreemptibleOverQuota {
        /// Name of the queue that is over its quota.
        queue: Name,
        /// The queue's quota.
        quota: Quantity,
        /// Amount that the queue's non-preemptible pods have allocated.
        allocated: Quantity,
        /// Amount that the next pods request.
        requested: Quantity,
        /// Whether another bound, of this queue or of an ancestor, is too low as well.
        other_bounds_too_low: bool,
    },
    /// The pod fits on no node.
    NoNode {
        /// Namespace and name of the pod.
        pod: Name,
        /// The errors of all nodes.
        fit_errors: FitErrors,
    },
    /// Some pods of the gang fit, but fewer than must start together.
    GangDoesNotFit {
        /// Number of pods of the gang that fit.
        fitting: u32,
        /// Minimum number of pods of the gang, or of its sub-group.
        required: u32,
        /// Number of pods that must start together and do not fit.
        missing: u32,
        /// Name of the sub-group, when the gang has several.
        sub_group: Option<Name>,
        /// The errors of all nodes for the first pod that does not fit.
        fit_errors: FitErrors,
    },
    /// The gang would not fit even on the empty cluster.
    ExceedsClusterCapacity {
        /// Number of pods that must run together.
        pods: u32,
        /// Amount that these pods request together.
        requested: Quantity,
        /// Amount that all eligible nodes offer.
        offered: Quantity,
        /// Number of pods that do not fit next to the others on the empty nodes.
        missing: u32,
        /// Amount that the `missing` pods request together.
        missing_amount: Quantity,
        /// Whether some of the pods would fit; when false, no node is large enough for one.
        fewer_pods_may_fit: bool,
        /// Whether the pods select nodes by name, so that no other node would hold them.
        are_tied_to_named_nodes: bool,
        /// Why the pods do not fit at present, when the placement of other pods matters to them.
        underlying: Option<Box<Reason>>,
    },
    /// No topology domain holds the pods that must run together.
    NoTopologyDomain(NoTopologyDomain),
    /// Other jobs of the queue come first, and the action considers only a limited number per
    /// queue.
    QueueDepthReached {
        /// Number of jobs that the action considers per queue.
        depth: usize,
    },
    /// The group's pods are pipelined: they wait for capacity that is being released.
    Pipelined {
        /// Names of the nodes to which the pods are pipelined.
        nodes: Vec<Name>,
    },
    /// The group does not fit without evictions, and its preemption delay has not elapsed.
    PreemptionDelay {
        /// Why the group does not fit without evictions.
        underlying: Box<Reason>,
        /// The whole preemption delay in milliseconds. Not the remaining time: a reason that
        /// changes with the clock would be reported anew in every cycle.
        delay_millis: u64,
        /// The moment at which the delay started.
        since: DelayStart,
    },
    /// The group could evict victims, but the limit of preemptions per cycle is reached.
    PreemptionLimitReached {
        /// Why the group does not fit without evictions.
        underlying: Box<Reason>,
        /// Number of jobs per cycle that may evict others.
        limit: usize,
    },
    /// The possible victims of the group have not completed their minimum runtime.
    MinRuntime {
        /// Why the group does not fit without evictions.
        underlying: Box<Reason>,
        /// Namespace and name of the pod group that is protected longest.
        victim: Name,
        /// The field that protects the victim: `reclaimMinRuntime` or `preemptMinRuntime`.
        field: &'static str,
        /// The whole minimum runtime in milliseconds. Not the remaining time: a reason that changes
        /// with the clock would be reported anew in every cycle.
        minimum_millis: u64,
    },
    /// Other queues are over quota, but the group may not reclaim from them, because its own queue
    /// would exceed its fair share.
    FairShareExceeded {
        /// Why the group does not fit without evictions.
        underlying: Box<Reason>,
        /// The queue that would exceed its fair share: the group's queue or an ancestor. By how
        /// much is left out, because it changes with the requests of others.
        queue: Name,
        /// Amounts that the next pods request of the resources that would be exceeded.
        excess: Vec<Quantity>,
    },
    /// The group could evict others, but an earlier job of its queue comes first, and that job may
    /// not.
    HeadOfLineBlocked {
        /// Why the group does not fit without evictions.
        underlying: Box<Reason>,
        /// The queue that would exceed its fair share with the earlier job.
        queue: Name,
        /// Namespace and name of the earlier job.
        earlier_job: Name,
    },
    /// The pod fits on no node (profile `kube`).
    Unschedulable {
        /// The errors of all nodes.
        fit_errors: FitErrors,
        /// Result of the search for unused claims.
        deallocation: DeallocationOutcome,
        /// Result of the search for victims.
        preemption: PreemptionOutcome,
    },
    /// The PodGroup of Kubernetes cannot be placed (profile `kube`).
    PodGroupUnschedulable(PodGroupFailure),
}

/// Result of the search for unused device claims (profile `kube`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeallocationOutcome {
    /// The pod has no device claims.
    NoClaims,
    /// Deallocating one of its claims would not help.
    NoUnusedClaim,
    /// This unused claim keeps the pod off a node and is to be deallocated.
    Deallocated(Name),
}

/// Result of the search for victims (profile `kube`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreemptionOutcome {
    /// No victims were searched.
    NotTried,
    /// The pod's `preemptionPolicy` is `Never`.
    PolicyNever,
    /// No eviction would help the pod.
    NotHelpful {
        /// Number of nodes on which eviction cannot help.
        not_helpful: u32,
        /// Number of nodes without enough pods of lower priority.
        no_victims: u32,
    },
    /// Victims were found and the pod is nominated for their node.
    Nominated,
    /// The pod is nominated already, and its victims are still terminating.
    VictimsTerminating,
}

/// Machine-readable kind of a reason, in KAI's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReasonKind {
    /// The queue is missing or invalid.
    QueueDoesNotExist,
    /// Members are missing or gated.
    NotReady,
    /// The group is not tried again on this node pool.
    SchedulingBackoff,
    /// A queue is at its limit.
    OverLimit,
    /// Non-preemptible work does not fit into a queue's quota.
    NonPreemptibleOverQuota,
    /// No node fits the pod (profile `kai`).
    PodSchedulingErrors,
    /// The group waits for capacity that is being released.
    Pipelined,
    /// The group's preemption delay has not elapsed.
    PreemptionDelayNotElapsed,
    /// The group's possible victims are protected by a minimum runtime.
    MinRuntimeNotElapsed,
    /// No node fits the pod (profile `kube`).
    Unschedulable,
    /// The pods of a group cannot be placed together (profile `kube`).
    SchedulerError,
}

impl ReasonKind {
    /// The kind as written in conditions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueDoesNotExist => "QueueDoesNotExist",
            Self::NotReady => "NotReady",
            Self::SchedulingBackoff => "SchedulingBackoff",
            Self::OverLimit => "OverLimit",
            Self::NonPreemptibleOverQuota => "NonPreemptibleOverQuota",
            Self::PodSchedulingErrors => "PodSchedulingErrors",
            Self::Pipelined => "Pipelined",
            Self::PreemptionDelayNotElapsed => "PreemptionDelayNotElapsed",
            Self::MinRuntimeNotElapsed => "MinRuntimeNotElapsed",
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
        }
    }
}

impl Reason {
    /// The machine-readable kind of this reason.
    pub const fn kind(&self) -> ReasonKind {
        match self {
            Self::Queue(_) => ReasonKind::QueueDoesNotExist,
            Self::NotReady(_) => ReasonKind::NotReady,
            Self::PodsDiffer(_) => ReasonKind::SchedulerError,
            Self::SchedulingBackoff => ReasonKind::SchedulingBackoff,
            Self::OverLimit { .. } => ReasonKind::OverLimit,
            Self::NonPreemptibleOverQuota { .. } => ReasonKind::NonPreemptibleOverQuota,
            Self::NoNode { .. }
            | Self::GangDoesNotFit { .. }
            | Self::FairShareExceeded { .. }
            | Self::HeadOfLineBlocked { .. }
            | Self::PreemptionLimitReached { .. }
            | Self::ExceedsClusterCapacity { .. }
            | Self::QueueDepthReached { .. }
            | Self::NoTopologyDomain(_) => ReasonKind::PodSchedulingErrors,
            Self::Pipelined { .. } => ReasonKind::Pipelined,
            Self::PreemptionDelay { .. } => ReasonKind::PreemptionDelayNotElapsed,
            Self::MinRuntime { .. } => ReasonKind::MinRuntimeNotElapsed,
            Self::Unschedulable { .. } | Self::PodGroupUnschedulable(_) => {
                ReasonKind::Unschedulable
            }
        }
    }
}

/// The moment at which a preemption delay starts: the later of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayStart {
    /// The delay starts at the creation of the pod group.
    Creation,
    /// The delay starts at the last eviction of one of the group's pods.
    Eviction,
}

impl fmt::Display for DelayStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Creation => "its creation",
            Self::Eviction => "its last eviction",
        })
    }
}

impl Reason {
    /// The reason code in conditions and events, on which clients match.
    pub const fn code(&self) -> &'static str {
        self.kind().as_str()
    }
}

const SCHEDULING_BACKOFF: &str = "It was unschedulable on this node pool and is not tried again \
     here, because its schedulingBackoff is 1";

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(problem) => problem.fmt(f),
            Self::NotReady(not_ready) => fmt_not_ready(f, not_ready),
            Self::PodsDiffer(difference) => difference.fmt(f),
            Self::SchedulingBackoff => f.write_str(SCHEDULING_BACKOFF),
            Self::OverLimit { queue, limit, allocated, requested, .. } => {
                fmt_over_limit(f, queue, [limit, allocated, requested])
            }
            Self::NonPreemptibleOverQuota { queue, quota, allocated, requested, .. } => {
                fmt_over_quota(f, queue, [quota, allocated, requested])
            }
            Self::NoNode { pod, fit_errors } => {
                write!(f, "Resources were not found for pod {pod} due to: {fit_errors}")
            }
            Self::GangDoesNotFit { fitting, required, sub_group, fit_errors, .. } => {
                fmt_gang_does_not_fit(f, *fitting, *required, sub_group.as_deref(), fit_errors)
            }
            Self::ExceedsClusterCapacity { pods, requested, offered, .. } => {
                fmt_exceeds_cluster_capacity(f, *pods, requested, offered)
            }
            Self::NoTopologyDomain(no_domain) => no_domain.fmt(f),
            Self::QueueDepthReached { depth } => write!(
                f,
                "Other jobs of its queue come first, and only the first {depth} jobs of a queue \
                 are considered per cycle"
            ),
            Self::Pipelined { nodes } => write!(
                f,
                "Pipelined to {}: waiting for terminating pods to release capacity",
                nodes.join(", ")
            ),
            Self::PreemptionDelay { underlying, delay_millis, since } => {
                let seconds = delay_millis.div_ceil(1000);
                write!(f, "{underlying} It may evict other pods {seconds} s after {since}.")
            }
            Self::PreemptionLimitReached { underlying, limit } => write!(
                f,
                "{underlying} It could evict other pods, but the limit of {limit} preempting \
                 workloads per cycle is reached (preemptionPolicy.maxPreemptionsPerCycle)."
            ),
            Self::MinRuntime { underlying, victim, field, minimum_millis } => write!(
                f,
                "{underlying} It may evict other pods once {victim} has run for {} s, its {field}.",
                minimum_millis.div_ceil(1000)
            ),
            Self::FairShareExceeded { underlying, queue, excess } => {
                fmt_fair_share_exceeded(f, underlying, queue, excess)
            }
            Self::HeadOfLineBlocked { underlying, queue, earlier_job } => {
                fmt_head_of_line_blocked(f, underlying, queue, earlier_job)
            }
            Self::PodGroupUnschedulable(failure) => failure.fmt(f),
            Self::Unschedulable { fit_errors, deallocation, preemption } => {
                f.write_str(&fit_errors.kube_message())?;
                let preemption = preemption.kube_message(fit_errors.nodes);
                if preemption.is_empty() {
                    return Ok(());
                }
                write!(f, " {}{preemption}", deallocation.kube_message())
            }
        }
    }
}

fn fmt_over_limit(
    f: &mut fmt::Formatter<'_>,
    queue: &str,
    [limit, allocated, requested]: [&Quantity; 3],
) -> fmt::Result {
    write!(
        f,
        "{queue} quota has reached the allowable limit of {}. Limit is {}, currently {} allocated \
         and workload requested {}",
        limit.resource_name(),
        limit.with_short_unit(),
        allocated.with_short_unit(),
        requested.with_short_unit()
    )
}

fn fmt_over_quota(
    f: &mut fmt::Formatter<'_>,
    queue: &str,
    [quota, allocated, requested]: [&Quantity; 3],
) -> fmt::Result {
    write!(
        f,
        "Non-preemptible workload is over quota. Workload requested {requested}, but {queue} quota \
         is {}, while {} are already allocated for non-preemptible pods. Use a preemptible \
         workload to go over quota.",
        quota.with_short_unit(),
        allocated.with_short_unit()
    )
}

/// Names the exceeded resources only when they are not exactly those that the job requests.
fn fmt_fair_share_exceeded(
    f: &mut fmt::Formatter<'_>,
    underlying: &Reason,
    queue: &str,
    excess: &[Quantity],
) -> fmt::Result {
    write!(
        f,
        "{underlying} It may not reclaim, because queue {queue} would exceed its fair share"
    )?;
    if excess.iter().any(|excess| excess.amount == 0) {
        let names: Vec<&str> = excess.iter().map(Quantity::resource_name).collect();
        write!(f, " of {}", names.join(" and "))?;
    }
    f.write_str(".")
}

fn fmt_head_of_line_blocked(
    f: &mut fmt::Formatter<'_>,
    underlying: &Reason,
    queue: &str,
    earlier_job: &str,
) -> fmt::Result {
    write!(
        f,
        "{underlying} It may not reclaim before {earlier_job}, with which queue {queue} would \
         exceed its fair share."
    )
}

fn fmt_exceeds_cluster_capacity(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    requested: &Quantity,
    offered: &Quantity,
) -> fmt::Result {
    write!(
        f,
        "The workload cannot run on this cluster as it is: {pods} pods that must run together \
         request {requested}, and all nodes on which they may run offer {offered}."
    )
}

fn fmt_not_ready(f: &mut fmt::Formatter<'_>, not_ready: &GangReadiness) -> fmt::Result {
    let GangReadiness { sub_group, required, exist, gated, unschedulable, only_sub_group: _ } =
        not_ready;
    write!(f, "Job is not ready for scheduling. Waiting for {required} pods")?;
    match sub_group {
        Some(name) => {
            write!(f, " for SubGroup {name}, currently {exist} exist, {gated} are gated.")?;
        }
        None => write!(f, ", currently {exist} exist, {gated} are gated")?,
    }
    let Some(UnschedulableMembers { pods, is_outside, first, problem, .. }) = unschedulable else {
        return Ok(());
    };
    f.write_str(if sub_group.is_some() { " " } else { ", " })?;
    let membership = if *is_outside { "more, of no SubGroup," } else { "of them" };
    let such_as = if *pods > 1 { ", such as" } else { ":" };
    write!(f, "{pods} {membership} cannot be scheduled{such_as} {first}: {problem}")
}

fn fmt_gang_does_not_fit(
    f: &mut fmt::Formatter<'_>,
    fitting: u32,
    required: u32,
    sub_group: Option<&str>,
    fit_errors: &FitErrors,
) -> fmt::Result {
    write!(f, "Resources were found for {fitting} pods ")?;
    match sub_group {
        Some(name) => write!(
            f,
            "from all sub-groups while sub-group {name} requires {required} pods for gang \
             scheduling. "
        )?,
        None => write!(f, "while {required} are required for gang scheduling. ")?,
    }
    write!(f, "Additional pods cannot be scheduled due to: {fit_errors}")
}

impl DeallocationOutcome {
    /// The text that kube-scheduler puts before that of preemption. Since 1.37 it says nothing of
    /// claims if none was deallocated.
    const fn kube_message(&self) -> &'static str {
        match self {
            Self::NoClaims | Self::NoUnusedClaim => "",
            Self::Deallocated(_) => "deallocation of ResourceClaim completed, ",
        }
    }
}

impl PreemptionOutcome {
    /// The text that kube-scheduler appends about preemption; empty when victims were found or no
    /// search was made.
    fn kube_message(&self, nodes: u32) -> String {
        match self {
            Self::NotTried | Self::Nominated => String::new(),
            Self::PolicyNever => {
                "preemption: not eligible due to preemptionPolicy=Never.".to_owned()
            }
            Self::VictimsTerminating => "preemption: not eligible due to a terminating pod on the \
                                      nominated node."
                .to_owned(),
            Self::NotHelpful { not_helpful, no_victims } => {
                let counts = BTreeMap::from([
                    ("Preemption is not helpful for scheduling".to_owned(), *not_helpful),
                    ("No preemption victims found for incoming pod".to_owned(), *no_victims),
                ]);
                let counts = join_counts(counts.into_iter().filter(|(_, count)| *count > 0));
                format!("preemption: 0/{nodes} nodes are available: {counts}.")
            }
        }
    }
}
