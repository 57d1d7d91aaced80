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
    DelayStart, FitError, PodGroupPreemption, PreemptionOutcome, Quantity, Reason,
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

use admission::{fmt_admit, fmt_tolerate};
use fit_errors::{suggestion_beyond_capacity, suggestion_for_errors};
pub use free_capacity::{CapacityLocation, DomainHint, SingleDomain};
pub use other_domains::ExclusionSource;

/// One step that would let the pod group run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suggestion {
    /// The pod group names no queue.
    NameQueue,
    /// The named queue does not exist.
    CreateQueue {
        /// Name of the queue.
        queue: Name,
    },
    /// A queue names a parent that does not exist.
    CreateParentQueue {
        /// Name of the missing parent.
        parent: Name,
        /// The queue that names it.
        queue: Name,
    },
    /// The queue is invalid.
    FixQueue {
        /// Name of the queue.
        queue: Name,
        /// What is wrong with it.
        problem: Name,
    },
    /// The named queue has children; only leaf queues accept jobs.
    UseLeafQueue {
        /// The queue that is named.
        queue: Name,
        /// One of its descendants.
        leaf: Name,
    },
    /// The gang has too few pods.
    AddMembers {
        /// Number of missing pods.
        pods: u32,
        /// The sub-group, when the gang has several.
        sub_group: Option<Name>,
    },
    /// Pods of the gang are behind scheduling gates.
    RemoveSchedulingGates {
        /// Number of pods whose gates must be removed.
        pods: u32,
        /// The sub-group, when the gang has several.
        sub_group: Option<Name>,
    },
    /// Pods of the gang are invalid.
    FixMembers {
        /// Number of pods to fix.
        pods: u32,
        /// Namespace and name of the first one.
        first: Name,
        /// How to fix the first one.
        fix: Name,
    },
    /// Its `schedulingBackoff` allows no second attempt.
    ResetBackoff,
    /// A bound of a queue is too low.
    RaiseBound {
        /// Name of the queue.
        queue: Name,
        /// The bound to raise.
        bound: QueueBound,
        /// The difference.
        by: Quantity,
        /// The new value.
        to: Quantity,
        /// Another bound is too low as well.
        other_bounds_too_low: bool,
    },
    /// Nodes are too full.
    FreeCapacity {
        /// Number of pods that lack capacity.
        pods: u32,
        /// Resources that are short on the nodes that lack the fewest.
        short: Vec<ResourceName>,
        /// Nodes on which capacity would help.
        location: CapacityLocation,
        /// Domains in which capacity would help.
        domains: Option<DomainHint>,
    },
    /// Its queue needs a higher quota before it may reclaim.
    RaiseQuotaToReclaim {
        /// Name of the queue.
        queue: Name,
        /// By resource, what the quota must exceed the allocation by; 0 means as much as is
        /// allocated.
        more: Vec<Quantity>,
    },
    /// An earlier job of its queue blocks reclaim.
    RaisePriority {
        /// Namespace and name of the earlier job.
        above: Name,
    },
    /// No node is large enough even when empty.
    AddLargerNodes {
        /// Resources that are too small.
        short: Vec<ResourceName>,
        /// Device classes of the GPUs that its pods claim.
        gpu_classes: Vec<Name>,
    },
    /// No GPU has as much memory as is requested.
    UseLargerDevices {
        /// Memory of the largest GPU in MiB; 0 when no size is known.
        mib: i64,
    },
    /// The cluster is too small for the gang.
    AddNodes {
        /// Number of pods that do not fit.
        pods: u32,
        /// What they request together of the scarce resource.
        more: Quantity,
        /// A lower minimum would help as well.
        or_fewer: bool,
    },
    /// The nodes that the pods name are too small.
    UseOtherNodes {
        /// A lower minimum would help as well.
        or_fewer: bool,
    },
    /// Nodes reject the pod, or the pod does not select them.
    AdmitToNodes {
        /// The commonest error of the nearest nodes.
        fit_error: FitError,
        /// Number of nodes with it.
        nodes: u32,
        /// Number of pods without a node.
        pods: u32,
        /// What added nodes must be like for them.
        added: AddedNodes,
        /// Number of these nodes that have other errors as well.
        with_other_errors: u32,
    },
    /// Closed nodes of one domain that must be opened.
    OpenNodes {
        /// Why they are closed.
        closed_by: FitError,
        /// Names of the nodes.
        nodes: Vec<Name>,
    },
    /// The pods cannot run in the domains that they select, and an added node would be in none
    /// other.
    UseOtherDomains {
        /// Label of the domains.
        label: Name,
        /// Values that the pods select.
        values: Vec<Name>,
        /// The pods they must be apart from.
        kept_from: ExclusionSource,
    },
    /// Removing the taint would let other jobs use the nodes first.
    TolerateTaint {
        /// `key` of the taint.
        key: Name,
        /// `value` of the taint.
        value: Name,
    },
    /// No node has the labels for the pod; some excluded nodes could get them.
    RelabelExcludedNode {
        /// Label mismatches of the nodes with the fewest.
        mismatches: BTreeSet<LabelMismatch>,
        /// Number of those nodes.
        nodes: u32,
        /// One of them.
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
        /// The required level.
        required: Name,
        /// The preferred level.
        preferred: Name,
    },
    /// No domain of the required level can ever hold all its pods.
    OnlyPreferLevel {
        /// Name of the topology.
        topology: Name,
        /// The required level.
        level: Name,
        /// A wider level that could be required instead.
        wider: Option<Name>,
    },
    /// No domain of the required level is large or free enough.
    FreeDomain {
        /// Name of the topology.
        topology: Name,
        /// The required level.
        level: Name,
        /// Number of pods.
        pods: u32,
        /// The domains that qualify; any when empty.
        domains: Vec<Name>,
        /// How the pods select nodes.
        node_selection: NodeSelection,
        /// Only preferring the level would help as well.
        or_prefer: bool,
    },
    /// The action must consider more jobs of its queue.
    RaiseQueueDepth {
        /// The current `queueDepthPerAction`.
        depth: usize,
    },
    /// Victims are terminating already.
    WaitForRelease {
        /// Nodes it is pipelined to.
        nodes: Vec<Name>,
    },
    /// Its preemption delay elapses by itself.
    WaitForPreemptionDelay {
        /// The whole delay in milliseconds.
        delay_millis: u64,
        /// Start of the delay.
        since: DelayStart,
    },
    /// More jobs per cycle must be allowed to evict others.
    RaisePreemptionLimit {
        /// The current limit.
        limit: usize,
    },
    /// Its victims' minimum runtime elapses by itself.
    WaitForMinRuntime {
        /// Namespace and name of the pod group that is protected for the longest.
        victim: Name,
        /// The field that protects it.
        field: &'static str,
        /// The minimum runtime in milliseconds.
        minimum_millis: u64,
    },
}

/// A bound of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueBound {
    /// `quota`: what it deserves.
    Quota,
    /// `limit`: what it may use at most.
    Limit,
}

impl Reason {
    /// What would resolve it.
    pub fn suggestion(&self) -> Suggestion {
        match self {
            Self::Queue(problem) => suggestion_for_queue(problem),
            Self::NotReady(not_ready) => gang::suggestion_for(not_ready),
            Self::SchedulingBackoff => Suggestion::ResetBackoff,
            Self::OverLimit { queue, limit, allocated, requested, other_bounds_too_low } => {
                raise_bound(
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
            } => raise_bound(
                queue,
                QueueBound::Quota,
                [quota, allocated, requested],
                *other_bounds_too_low,
            ),
            Self::Unschedulable {
                preemption: PreemptionOutcome::Nominated | PreemptionOutcome::VictimsTerminating,
                ..
            } => Suggestion::WaitForRelease { nodes: Vec::new() },
            Self::PodGroupUnschedulable(failure) => match failure.preemption {
                PodGroupPreemption::Nominated { .. } | PodGroupPreemption::VictimsTerminating => {
                    Suggestion::WaitForRelease { nodes: Vec::new() }
                }
                PodGroupPreemption::PolicyNever
                | PodGroupPreemption::NoVictims
                | PodGroupPreemption::NotHelpful => {
                    suggestion_for_errors(&failure.fit_errors, failure.missing())
                }
            },
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
                    more: missing_amount.clone().rounded_up(),
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

fn raise_bound(
    queue: &Name,
    bound: QueueBound,
    [limit, used, requested]: [&Quantity; 3],
    other_bounds_too_low: bool,
) -> Suggestion {
    let of = |amount| Quantity { resource: limit.resource.clone(), amount }.rounded_up();
    let to = of(used.amount.saturating_add(requested.amount));
    let by = of(to.amount.saturating_sub(limit.amount));
    Suggestion::RaiseBound { queue: Name::clone(queue), bound, by, to, other_bounds_too_low }
}

impl QueueBound {
    /// The field of the Queue.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Limit => "limit",
        }
    }
}

/// The pod group's field is what counts: labels of the owner only matter when the group is created.
const QUEUE_FIELD: &str = "the pod group's spec.queue";

const RESET_BACKOFF: &str = "remove condition UnschedulableOnNodePool from its status, move it to \
     another node pool, or set its schedulingBackoff to -1";

const NAME_QUEUE: &str = "set the pod group's spec.queue; label kai.scheduler/queue of a workload \
     only applies to pod groups that are created later";

const OTHER_BOUND: &str = "; another bound is too low as well";

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameQueue => f.write_str(NAME_QUEUE),
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
            Self::ResetBackoff => f.write_str(RESET_BACKOFF),
            Self::RaiseBound { queue, bound, by, to, other_bounds_too_low } => {
                fmt_raise_bound(f, queue, bound.as_str(), by, to)?;
                f.write_str(if *other_bounds_too_low { OTHER_BOUND } else { "" })
            }
            Self::FreeCapacity { pods, short, location, domains } => {
                free_capacity::fmt_free_capacity(f, *pods, location, domains.as_ref())?;
                f.write_str(&list_resources(": short of ", short))
            }
            Self::RaiseQuotaToReclaim { queue, more } => fmt_raise_quota(f, queue, more),
            Self::RaisePriority { above } => fmt_raise_priority(f, above),
            Self::AddLargerNodes { short, gpu_classes } => {
                larger_nodes::fmt_larger_nodes(f, short, gpu_classes)
            }
            Self::UseLargerDevices { mib } => larger_nodes::fmt_larger_devices(f, *mib),
            Self::AddNodes { pods, more, or_fewer } => {
                larger_nodes::fmt_add_nodes(f, *pods, more, *or_fewer)
            }
            Self::UseOtherNodes { or_fewer } => larger_nodes::fmt_other_nodes(f, *or_fewer),
            Self::AdmitToNodes { fit_error, nodes, pods, added, with_other_errors } => {
                fmt_admit(f, fit_error, added, *nodes, *pods)?;
                admission::fmt_other_errors(f, fit_error, *nodes, *with_other_errors)
            }
            Self::OpenNodes { closed_by, nodes } => admission::fmt_open(f, closed_by, nodes),
            Self::UseOtherDomains { label, values, kept_from } => {
                other_domains::fmt_other_domains(f, label, values, *kept_from)
            }
            Self::TolerateTaint { key, value } => fmt_tolerate(f, key, value),
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
            Self::RaiseQueueDepth { depth } => wait::fmt_queue_depth(f, *depth),
            Self::WaitForRelease { nodes } => wait::fmt_release(f, nodes),
            Self::WaitForPreemptionDelay { delay_millis, since } => {
                wait::fmt_preemption_delay(f, delay_millis.div_ceil(1000), *since)
            }
            Self::RaisePreemptionLimit { limit } => wait::fmt_preemption_limit(f, *limit),
            Self::WaitForMinRuntime { victim, field, minimum_millis } => {
                wait::fmt_min_runtime(f, victim, field, minimum_millis.div_ceil(1000))
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
    let used = used.into_iter().map(|used| format!("the {} that it uses", used.name()));
    let more: Vec<String> = more.into_iter().map(Quantity::with_unit).collect();
    let more = (!more.is_empty()).then(|| format!("{} more than it uses", more.join(" and ")));
    let to: Vec<String> = more.into_iter().chain(used).collect();
    write!(f, "raise the quota of queue {queue} to {}", to.join(" and to "))
}

fn fmt_raise_priority(f: &mut fmt::Formatter<'_>, above: &str) -> fmt::Result {
    write!(f, "give it a higher priority than {above} that keeps it preemptible")
}

pub(super) fn pluralize(pods: u32, what: &str) -> String {
    if pods == 1 { format!("1 {what}") } else { format!("{pods} {what}s") }
}

fn list_resources(above: &str, short: &[ResourceName]) -> String {
    let names: Vec<Name> = short.iter().cloned().map(resource_label).collect();
    if names.is_empty() { String::new() } else { format!("{above}{}", names.join(", ")) }
}
