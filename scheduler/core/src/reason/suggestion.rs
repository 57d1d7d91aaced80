//! Suggestions: one step that an operator can take to resolve a reason. A suggestion follows from
//! the reason alone, so that the pod group, its event and an explanation have the same text.

mod add_nodes;
mod admission;
mod fit_errors;
mod free_capacity;
mod gang;
mod larger_nodes;
mod other_domains;
mod queue_order;
mod wait;

use std::{collections::BTreeSet, fmt};

use super::{
    DelayStart, FitError, GroupDifference, PodGroupFailure, PodGroupPreemption, PreemptionOutcome,
    Quantity, Reason,
    excluded_nodes::fmt_relabel,
    fit_error::resource_label,
    topology_fit_error::{
        fmt_free_domain, fmt_only_prefer_level, fmt_prefer_inner_level, fmt_selected_nodes,
        suggestion_for_no_domain,
    },
};
use crate::{
    model::{LabelMismatch, Name, NodeSelection, QueueProblem, format_cycle},
    resources::ResourceName,
};

pub use add_nodes::{AddedNodes, NodeBatch};

use admission::{fmt_admit_pods, fmt_tolerate_taint};
use fit_errors::{suggestion_beyond_capacity, suggestion_for_errors};
pub use free_capacity::{CapacityLocation, DomainHint, SingleDomain};
pub use other_domains::ExclusionSource;

/// One step that an operator can take so that the pod group runs. Variants are documented by the
/// situation in which the step helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suggestion {
    /// The pod group names no queue.
    NameQueue,
    /// The named queue does not exist.
    CreateQueue {
        /// Name of the missing queue.
        queue: Name,
    },
    /// A queue names a parent that does not exist.
    CreateParentQueue {
        /// Name of the missing parent.
        parent: Name,
        /// Name of the queue that names the missing parent.
        queue: Name,
    },
    /// The queue is invalid.
    FixQueue {
        /// Name of the invalid queue.
        queue: Name,
        /// What is wrong with the queue.
        problem: Name,
    },
    /// The named queue has children; only leaf queues accept jobs.
    UseLeafQueue {
        /// Name of the queue that the group names.
        queue: Name,
        /// Name of a leaf queue below it.
        leaf: Name,
    },
    /// The gang has too few pods.
    AddMembers {
        /// Number of missing pods of the gang.
        pods: u32,
        /// Name of the sub-group, when the gang has several.
        sub_group: Option<Name>,
    },
    /// Pods of the gang have scheduling gates.
    RemoveSchedulingGates {
        /// Number of pods whose gates must be removed.
        pods: u32,
        /// Name of the sub-group, when the gang has several.
        sub_group: Option<Name>,
    },
    /// Pods of the gang are invalid.
    FixMembers {
        /// Number of pods to fix.
        pods: u32,
        /// Namespace and name of the first invalid pod.
        first: Name,
        /// How to fix the first invalid pod.
        fix: Name,
    },
    /// The group failed to schedule, and its `schedulingBackoff` allows no second attempt.
    ResetBackoff,
    /// A bound of a queue is too low.
    RaiseBound {
        /// Name of the queue whose bound is too low.
        queue: Name,
        /// The bound to raise.
        bound: QueueBound,
        /// Difference between the new and the present value of the bound.
        by: Quantity,
        /// The new value of the bound.
        to: Quantity,
        /// Whether another bound is too low as well.
        other_bounds_too_low: bool,
    },
    /// Nodes are too full.
    FreeCapacity {
        /// Number of pods that lack capacity.
        pods: u32,
        /// Resources that are short on the nodes that lack the fewest resources.
        short: Vec<ResourceName>,
        /// Nodes on which freed capacity would help.
        location: CapacityLocation,
        /// Domains in which freed capacity would help.
        domains: Option<DomainHint>,
    },
    /// The queue needs a higher quota before its jobs may reclaim.
    RaiseQuotaToReclaim {
        /// Name of the queue that needs a higher quota.
        queue: Name,
        /// For each resource, the amount by which the quota must exceed the allocation; 0 means
        /// that the quota must equal the allocation.
        more: Vec<Quantity>,
    },
    /// An earlier job of the same queue blocks reclaim.
    RaisePriority {
        /// Namespace and name of the earlier job.
        above: Name,
    },
    /// No node is large enough even when empty.
    AddLargerNodes {
        /// Resources that are too small.
        short: Vec<ResourceName>,
        /// Device classes of the GPUs that the pods claim.
        gpu_classes: Vec<Name>,
    },
    /// No GPU has as much memory as the pod requests.
    UseLargerDevices {
        /// Memory of the largest GPU in MiB; 0 when no size is known.
        mib: i64,
    },
    /// The cluster is too small for the gang.
    AddNodes {
        /// Number of pods that do not fit.
        pods: u32,
        /// Amount that the pods request together of the scarce resource.
        more: Quantity,
        /// Whether a lower minimum would help as well.
        or_fewer: bool,
    },
    /// The nodes that the pods name are too small.
    UseOtherNodes {
        /// Whether a lower minimum would help as well.
        or_fewer: bool,
    },
    /// Nodes reject the pod, or the pod does not select them.
    AdmitToNodes {
        /// The most frequent error of the nearest nodes.
        fit_error: FitError,
        /// Number of the nearest nodes with this error.
        nodes: u32,
        /// Number of pods without a node.
        pods: u32,
        /// What added nodes must be like for the pods.
        added: AddedNodes,
        /// Number of the nodes that have other errors as well.
        with_other_errors: u32,
    },
    /// Closed nodes of one domain that must be opened.
    OpenNodes {
        /// The error that closes the nodes.
        closed_by: FitError,
        /// Names of the nodes.
        nodes: Vec<Name>,
    },
    /// The pods cannot run in the domains that they select, and an added node would be in no other
    /// domain.
    UseOtherDomains {
        /// Key of the label whose values are the domains.
        label: Name,
        /// Values of the label that the pods select.
        values: Vec<Name>,
        /// The pods from which these pods must be apart.
        kept_from: ExclusionSource,
    },
    /// The pod does not tolerate a taint, and removing the taint would let other jobs use the nodes
    /// first.
    TolerateTaint {
        /// `key` of the taint.
        key: Name,
        /// `value` of the taint.
        value: Name,
    },
    /// No node has the labels that the pod needs; some excluded nodes could get them.
    RelabelExcludedNode {
        /// Label mismatches of the excluded nodes that have the fewest.
        mismatches: BTreeSet<LabelMismatch>,
        /// Number of those nodes.
        nodes: u32,
        /// Name of one of those nodes.
        first: Name,
        /// Number of pods without a node.
        pods: u32,
    },
    /// The topology, or a level of it, does not exist.
    CreateTopology {
        /// Name of the topology.
        topology: Name,
        /// The missing level.
        level: Name,
    },
    /// The preferred topology level is wider than the required one.
    PreferInnerLevel {
        /// Name of the required level.
        required: Name,
        /// Name of the preferred level.
        preferred: Name,
    },
    /// No domain of the required level can ever hold all the pods.
    OnlyPreferLevel {
        /// Name of the topology.
        topology: Name,
        /// Name of the required level.
        level: Name,
        /// Name of a wider level that could be required instead.
        wider: Option<Name>,
    },
    /// No domain of the required level is large or free enough.
    FreeDomain {
        /// Name of the topology.
        topology: Name,
        /// Name of the required level.
        level: Name,
        /// Number of pods that must be in one domain.
        pods: u32,
        /// The domains that qualify; empty: any domain.
        domains: Vec<Name>,
        /// How the pods select nodes.
        node_selection: NodeSelection,
        /// Whether only preferring the level would help as well.
        or_prefer: bool,
    },
    /// The action must consider more jobs of the queue.
    RaiseQueueDepth {
        /// The current value of `queueDepthPerAction` for the action.
        depth: usize,
    },
    /// Victims of the group are terminating already.
    WaitForRelease {
        /// Names of the nodes to which the group's pods are pipelined.
        nodes: Vec<Name>,
    },
    /// The group's preemption delay elapses by itself.
    WaitForPreemptionDelay {
        /// The whole delay in milliseconds.
        delay_millis: u64,
        /// The moment at which the delay started.
        since: DelayStart,
    },
    /// The limit of jobs per cycle that may evict others is reached.
    RaisePreemptionLimit {
        /// The current limit of preemptions per cycle.
        limit: usize,
    },
    /// The minimum runtime of the group's victims elapses by itself.
    WaitForMinRuntime {
        /// Namespace and name of the pod group that is protected for the longest.
        victim: Name,
        /// The field that protects the victim: `reclaimMinRuntime` or `preemptMinRuntime`.
        field: &'static str,
        /// The minimum runtime in milliseconds.
        minimum_millis: u64,
    },
}

/// A bound in the spec of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueBound {
    /// `quota`: the amount that the queue deserves.
    Quota,
    /// `limit`: the amount that the queue may use at most.
    Limit,
}

fn suggestion_for_members(difference: &GroupDifference) -> Suggestion {
    Suggestion::FixMembers {
        pods: difference.pods,
        first: Name::clone(&difference.pod),
        fix: difference.field.fix(),
    }
}

impl Reason {
    /// The suggestion for this reason.
    pub fn suggestion(&self) -> Suggestion {
        match self {
            Self::Queue(problem) => suggestion_for_queue(problem),
            Self::NotReady(not_ready) => gang::suggestion_for_gang(not_ready),
            Self::PodsDiffer(difference) => suggestion_for_members(difference),
            Self::SchedulingBackoff => Suggestion::ResetBackoff,
            Self::OverLimit { queue, limit, allocated, requested, other_bounds_too_low } => {
                suggest_raising_bound(
                    queue,
                    QueueBound::Limit,
                    [limit, allocated, requested],
                    *other_bounds_too_low,
                )
            }
            Self::NonPreemptibleOverQuota {
                queue,
                quota,
                allocated,
                requested,
                other_bounds_too_low,
            } => suggest_raising_bound(
                queue,
                QueueBound::Quota,
                [quota, allocated, requested],
                *other_bounds_too_low,
            ),
            Self::Unschedulable {
                preemption: PreemptionOutcome::Nominated | PreemptionOutcome::VictimsTerminating,
                ..
            } => Suggestion::WaitForRelease { nodes: Vec::new() },
            Self::PodGroupUnschedulable(failure) => suggestion_for_pod_group(failure),
            Self::NoNode { fit_errors, .. } | Self::Unschedulable { fit_errors, .. } => {
                suggestion_for_errors(fit_errors, 1)
            }
            Self::GangDoesNotFit { missing, fit_errors, .. } => {
                suggestion_for_errors(fit_errors, *missing)
            }
            Self::ExceedsClusterCapacity {
                are_tied_to_named_nodes: true,
                fewer_pods_may_fit,
                ..
            } => Suggestion::UseOtherNodes { or_fewer: *fewer_pods_may_fit },
            Self::ExceedsClusterCapacity {
                missing,
                missing_amount,
                fewer_pods_may_fit,
                underlying,
                ..
            } => underlying.as_deref().and_then(suggestion_beyond_capacity).unwrap_or_else(|| {
                Suggestion::AddNodes {
                    pods: *missing,
                    more: missing_amount.clone().rounded_up_to_resolution(),
                    or_fewer: *fewer_pods_may_fit,
                }
            }),
            Self::NoTopologyDomain(no_domain) => suggestion_for_no_domain(no_domain),
            Self::QueueDepthReached { depth } => Suggestion::RaiseQueueDepth { depth: *depth },
            Self::Pipelined { nodes } => Suggestion::WaitForRelease { nodes: nodes.clone() },
            Self::PreemptionDelay { delay_millis, since, .. } => {
                Suggestion::WaitForPreemptionDelay { delay_millis: *delay_millis, since: *since }
            }
            Self::PreemptionLimitReached { limit, .. } => {
                Suggestion::RaisePreemptionLimit { limit: *limit }
            }
            Self::FairShareExceeded { queue, excess, .. } => {
                Suggestion::RaiseQuotaToReclaim { queue: Name::clone(queue), more: excess.clone() }
            }
            Self::HeadOfLineBlocked { earlier_job, .. } => {
                Suggestion::RaisePriority { above: Name::clone(earlier_job) }
            }
            Self::MinRuntime { victim, field, minimum_millis, .. } => {
                Suggestion::WaitForMinRuntime {
                    victim: Name::clone(victim),
                    field,
                    minimum_millis: *minimum_millis,
                }
            }
        }
    }
}

fn suggestion_for_pod_group(failure: &PodGroupFailure) -> Suggestion {
    match failure.preemption {
        PodGroupPreemption::Nominated { .. } | PodGroupPreemption::VictimsTerminating => {
            Suggestion::WaitForRelease { nodes: Vec::new() }
        }
        PodGroupPreemption::PolicyNever
        | PodGroupPreemption::NoVictims
        | PodGroupPreemption::NotHelpful { .. } => {
            suggestion_for_errors(&failure.fit_errors, failure.missing())
        }
    }
}

fn suggestion_for_queue(problem: &QueueProblem) -> Suggestion {
    match problem {
        QueueProblem::Missing { queue } if queue.is_empty() => Suggestion::NameQueue,
        QueueProblem::Missing { queue } => Suggestion::CreateQueue { queue: Name::clone(queue) },
        QueueProblem::ParentMissing { child, parent, .. } => {
            Suggestion::CreateParentQueue { parent: Name::clone(parent), queue: Name::clone(child) }
        }
        QueueProblem::Cycle { queue, cycle } => Suggestion::FixQueue {
            queue: Name::clone(cycle.first().unwrap_or(queue)),
            problem: format!("its spec.parentQueue forms a cycle: {}", format_cycle(cycle)).into(),
        },
        QueueProblem::NotALeaf { queue, child } => {
            Suggestion::UseLeafQueue { queue: Name::clone(queue), leaf: Name::clone(child) }
        }
        QueueProblem::Malformed { faulty_queue, detail, .. }
        | QueueProblem::OtherNodePool { faulty_queue, detail, .. } => {
            Suggestion::FixQueue { queue: Name::clone(faulty_queue), problem: Name::clone(detail) }
        }
    }
}

fn suggest_raising_bound(
    queue: &Name,
    bound: QueueBound,
    [limit, used, requested]: [&Quantity; 3],
    other_bounds_too_low: bool,
) -> Suggestion {
    let of =
        |amount| Quantity { resource: limit.resource.clone(), amount }.rounded_up_to_resolution();
    let to = of(used.amount.saturating_add(requested.amount));
    let by = of(to.amount.saturating_sub(limit.amount));
    Suggestion::RaiseBound { queue: Name::clone(queue), bound, by, to, other_bounds_too_low }
}

impl QueueBound {
    /// Name of the bound's field in the Queue.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Limit => "limit",
        }
    }
}

/// How messages name the field in which a pod group names its queue. Queue labels of the owner only
/// matter when the pod group is created.
const QUEUE_FIELD: &str = "the pod group's spec.queue";

const RESET_BACKOFF_TEXT: &str = "remove condition UnschedulableOnNodePool from its status, move it to \
     another node pool, or set its schedulingBackoff to -1";

const NAME_QUEUE_TEXT: &str = "set the pod group's spec.queue; label kai.scheduler/queue of a workload \
     only applies to pod groups that are created later";

const OTHER_BOUND_TEXT: &str = "; another bound is too low as well";

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameQueue => f.write_str(NAME_QUEUE_TEXT),
            Self::CreateQueue { queue } => {
                write!(f, "create queue {queue}, or name one that exists in {QUEUE_FIELD}")
            }
            Self::CreateParentQueue { parent, queue } => {
                write!(f, "create queue {parent}, which {queue} names as its parent")
            }
            Self::FixQueue { queue, problem: what } => write!(f, "fix queue {queue}: {what}"),
            Self::UseLeafQueue { queue, leaf } => {
                write!(f, "name a queue below {queue} in {QUEUE_FIELD} instead, such as {leaf}")
            }
            Self::AddMembers { pods, sub_group } => {
                gang::fmt_add_members(f, *pods, sub_group.as_ref())
            }
            Self::RemoveSchedulingGates { pods, sub_group } => {
                gang::fmt_remove_gates(f, *pods, sub_group.as_ref())
            }
            Self::FixMembers { pods, first, fix } => gang::fmt_fix_members(f, *pods, first, fix),
            Self::ResetBackoff => f.write_str(RESET_BACKOFF_TEXT),
            Self::RaiseBound { queue, bound, by, to, other_bounds_too_low } => {
                fmt_raise_bound(f, queue, bound.as_str(), by, to)?;
                f.write_str(if *other_bounds_too_low { OTHER_BOUND_TEXT } else { "" })
            }
            Self::FreeCapacity { pods, short, location, domains } => {
                free_capacity::fmt_free_capacity(f, *pods, location, domains.as_ref())?;
                f.write_str(&list_resources(": short of ", short))
            }
            Self::RaiseQuotaToReclaim { queue, more } => fmt_raise_quota(f, queue, more),
            Self::RaisePriority { above } => fmt_raise_priority(f, above),
            Self::AddLargerNodes { short, gpu_classes } => {
                larger_nodes::fmt_add_larger_nodes(f, short, gpu_classes)
            }
            Self::UseLargerDevices { mib } => larger_nodes::fmt_use_larger_devices(f, *mib),
            Self::AddNodes { pods, more, or_fewer } => {
                larger_nodes::fmt_add_nodes(f, *pods, more, *or_fewer)
            }
            Self::UseOtherNodes { or_fewer } => larger_nodes::fmt_use_other_nodes(f, *or_fewer),
            Self::AdmitToNodes { fit_error, nodes, pods, added, with_other_errors } => {
                fmt_admit_pods(f, fit_error, added, *nodes, *pods)?;
                admission::fmt_other_errors(f, fit_error, *nodes, *with_other_errors)
            }
            Self::OpenNodes { closed_by, nodes } => admission::fmt_open_nodes(f, closed_by, nodes),
            Self::UseOtherDomains { label, values, kept_from } => {
                other_domains::fmt_use_other_domains(f, label, values, *kept_from)
            }
            Self::TolerateTaint { key, value } => fmt_tolerate_taint(f, key, value),
            Self::RelabelExcludedNode { mismatches, nodes, first, pods } => {
                fmt_relabel(f, mismatches, *nodes, first, *pods)
            }
            Self::CreateTopology { topology, level } => {
                write!(f, "create topology {topology} with level {level}, or name one that exists")
            }
            Self::PreferInnerLevel { required, preferred } => {
                fmt_prefer_inner_level(f, required, preferred)
            }
            Self::OnlyPreferLevel { topology, level, wider } => {
                fmt_only_prefer_level(f, level, topology, wider.as_ref())
            }
            Self::FreeDomain {
                topology,
                level,
                pods,
                domains: kept_to,
                node_selection,
                or_prefer,
            } => {
                fmt_free_domain(f, *pods, level, kept_to, topology)?;
                fmt_selected_nodes(f, node_selection, *or_prefer)
            }
            Self::RaiseQueueDepth { depth } => wait::fmt_raise_queue_depth(f, *depth),
            Self::WaitForRelease { nodes } => wait::fmt_wait_for_release(f, nodes),
            Self::WaitForPreemptionDelay { delay_millis, since } => {
                wait::fmt_wait_for_preemption_delay(f, delay_millis.div_ceil(1000), *since)
            }
            Self::RaisePreemptionLimit { limit } => wait::fmt_raise_preemption_limit(f, *limit),
            Self::WaitForMinRuntime { victim, field, minimum_millis } => {
                wait::fmt_wait_for_min_runtime(f, victim, field, minimum_millis.div_ceil(1000))
            }
        }
    }
}

fn fmt_raise_bound(
    f: &mut fmt::Formatter<'_>,
    queue: &str,
    bound: &str,
    by: &Quantity,
    to: &Quantity,
) -> fmt::Result {
    write!(f, "raise the {bound} of queue {queue} by {} to {}", by.with_unit(), to.with_unit())
}

fn fmt_raise_quota(f: &mut fmt::Formatter<'_>, queue: &str, more: &[Quantity]) -> fmt::Result {
    let (used, more): (Vec<_>, Vec<_>) = more.iter().partition(|more| more.amount == 0);
    let used = used.into_iter().map(|used| format!("the {} that it uses", used.resource_name()));
    let more: Vec<String> = more.into_iter().map(Quantity::with_unit).collect();
    let more = (!more.is_empty()).then(|| format!("{} more than it uses", more.join(" and ")));
    let to: Vec<String> = more.into_iter().chain(used).collect();
    write!(f, "raise the quota of queue {queue} to {}", to.join(" and to "))
}

fn fmt_raise_priority(f: &mut fmt::Formatter<'_>, above: &str) -> fmt::Result {
    write!(f, "give it a higher priority than {above} that keeps it preemptible")
}

pub(super) fn count_with_noun(count: u32, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn list_resources(prefix: &str, resources: &[ResourceName]) -> String {
    let names: Vec<Name> = resources.iter().cloned().map(resource_label).collect();
    if names.is_empty() { String::new() } else { format!("{prefix}{}", names.join(", ")) }
}
