//! What cures a reason to wait: one step that a person can take. It follows from the reason
//! alone, so that the same words stand on the pod group, in its event and in an explanation.

mod added;
mod admit;
mod behind;
mod gang;
mod larger;
mod misfits;
mod places;
mod room;
mod wait;

use std::{collections::BTreeSet, fmt};

use super::{
    Misfit, Preemption, Quantity, Reason, Since,
    left_out::label,
    misfit::short_name,
    place_misfit::{make_place, of_no_place, on_selected, only_prefer, prefer_inside},
};
use crate::{
    model::{Lack, Name, QueueProblem, Selection},
    resources::ResourceName,
    words::round,
};

pub use added::Added;
pub(crate) use added::Batch;
use admit::{admit, tolerate};
use misfits::{of_larger, of_misfits};
pub use places::KeptFrom;
pub use room::{InOne, Places, Room};

/// What would let the pod group run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The pod group names no queue.
    NameQueue,
    /// The queue does not exist.
    CreateQueue {
        /// Its name.
        queue: Name,
    },
    /// The queue above it does not exist.
    CreateParent {
        /// The queue that is missing.
        parent: Name,
        /// The one that names it.
        queue: Name,
    },
    /// Something in the queue has to be put right.
    MendQueue {
        /// Which queue.
        queue: Name,
        /// What, as the problem names it.
        what: Name,
    },
    /// Work goes into queues without children.
    UseLeaf {
        /// The queue that takes none.
        queue: Name,
        /// One below it.
        leaf: Name,
    },
    /// Members of the gang are missing.
    AddMembers {
        /// How many.
        pods: u32,
        /// To which part of the gang, where it has several.
        sub_group: Option<Name>,
    },
    /// Members of the gang are behind gates.
    OpenGates {
        /// How many have to be let through.
        pods: u32,
        /// In which part of the gang, where it has several.
        sub_group: Option<Name>,
    },
    /// Members of the gang cannot be scheduled as they stand.
    MendMembers {
        /// How many have to be.
        pods: u32,
        /// Namespace and name of the first.
        first: Name,
        /// What cures that one.
        cure: Name,
    },
    /// It wants to be tried once only.
    TryAgain,
    /// A bound of a queue is too low.
    Raise {
        /// Of which queue.
        queue: Name,
        /// Which bound.
        bound: Bound,
        /// By how much.
        by: Quantity,
        /// To how much.
        to: Quantity,
        /// Another bound is too low as well.
        with_more: bool,
    },
    /// Nodes are too full.
    MakeRoom {
        /// For how many pods room is missing.
        pods: u32,
        /// What is short on nodes that are short of least.
        short: Vec<ResourceName>,
        /// Where it would help.
        room: Room,
        /// And in which places.
        places: Option<Places>,
    },
    /// The queue has to deserve more, for others to leave.
    Deserve {
        /// Its name.
        queue: Name,
        /// How much more than it uses; nothing: as much as it uses.
        more: Vec<Quantity>,
    },
    /// One before it in its queue keeps it from making others leave.
    GoFirst {
        /// Namespace and name of that one.
        before: Name,
    },
    /// No node is large enough, even empty.
    LargerNodes {
        /// In what they are too small.
        short: Vec<ResourceName>,
        /// Classes of the GPUs that claims of its pods ask for.
        gpu_classes: Vec<Name>,
    },
    /// No device has as much memory as is asked for of one.
    LargerDevices {
        /// How much the largest has, in MiB; 0: that is not known of any.
        mib: i64,
    },
    /// The fleet is too small for the gang.
    LargerFleet {
        /// How many pods it does not hold.
        pods: u32,
        /// What they ask for together of what is short.
        more: Quantity,
        /// To let fewer pods suffice would do, too.
        or_fewer: bool,
    },
    /// Nodes to whose names pods are bound are too small for them.
    OtherNodes {
        /// To let fewer pods suffice would do, too.
        or_fewer: bool,
    },
    /// Nodes keep the pod away, or it keeps away from them.
    Admit {
        /// Why most of those do that are nearest.
        misfit: Misfit,
        /// How many of them.
        nodes: u32,
        /// How many pods have none.
        pods: u32,
        /// What nodes have to be like that are added for those.
        added: Added,
        /// More than that keeps them from so many of the nodes.
        with_more: u32,
    },
    /// These nodes keep the pods away that have to be in one place.
    Open {
        /// Why.
        misfit: Misfit,
        /// Their names.
        nodes: Vec<Name>,
    },
    /// In the places that they select its pods cannot be, and no node that is added is in another.
    OtherPlaces {
        /// The label of the places.
        label: Name,
        /// Those that they select.
        values: Vec<Name>,
        /// From whom they have to be apart.
        from: KeptFrom,
    },
    /// Others would have the nodes first, were the taint taken off them.
    Tolerate {
        /// `key` of the taint.
        key: Name,
        /// `value` of the taint.
        value: Name,
    },
    /// No node is labelled for the pod; others are left out.
    LetIn {
        /// What those lack that lack least.
        lacks: BTreeSet<Lack>,
        /// How many of them there are.
        nodes: u32,
        /// One of them.
        first: Name,
        /// How many pods have none.
        pods: u32,
    },
    /// The topology, or a level of it, does not exist.
    CreateTopology {
        /// Its name.
        topology: Name,
        /// The level.
        level: Name,
    },
    /// The preferred level is wider than the required one.
    PreferInside {
        /// The level that is required.
        required: Name,
        /// The level that is preferred.
        preferred: Name,
    },
    /// No place of the required level holds all of its pods, whoever leaves.
    OnlyPrefer {
        /// The topology.
        topology: Name,
        /// The level that is required.
        level: Name,
        /// A wider one that would do, too.
        wider: Option<Name>,
    },
    /// No place of the topology is large enough, or free enough.
    MakePlace {
        /// The topology.
        topology: Name,
        /// The level on which one place is required.
        level: Name,
        /// For how many pods.
        pods: u32,
        /// One of these, if there are any.
        kept_to: Vec<Name>,
        /// How they select nodes there.
        selection: Selection,
        /// To prefer the level would do, too.
        or_prefer: bool,
    },
    /// More jobs of its queue have to be looked at.
    DeeperQueue {
        /// How many are now.
        depth: usize,
    },
    /// Others are leaving already.
    Wait {
        /// Where room was promised.
        nodes: Vec<Name>,
    },
    /// Its time comes by itself.
    WaitLonger {
        /// When it may make others leave, in milliseconds.
        delay_millis: u64,
        /// From when on.
        since: Since,
    },
    /// More workloads of a cycle may have others leave.
    PreemptMore {
        /// How many may now.
        most: usize,
    },
    /// Others may leave when they have run for long enough.
    Outlast {
        /// Namespace and name of the pod group that is protected for the longest.
        victim: Name,
        /// What protects it.
        field: &'static str,
        /// For how long it may run, in milliseconds.
        minimum_millis: u64,
    },
}

/// Which bound of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// What it deserves.
    Quota,
    /// What it may use at most.
    Limit,
}

impl Reason {
    /// What cures it.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Queue(problem) => of_queue(problem),
            Self::NotReady(not_ready) => gang::of(not_ready),
            Self::LeftAlone => Remedy::TryAgain,
            Self::OverLimit { queue, limit, allocated, requested, with_more } => {
                raise((queue, Bound::Limit, *with_more), [limit, allocated, requested])
            }
            Self::NonPreemptibleOverQuota { queue, quota, allocated, requested, with_more } => {
                raise((queue, Bound::Quota, *with_more), [quota, allocated, requested])
            }
            Self::Unschedulable {
                preemption: Preemption::Nominated | Preemption::OthersTerminate,
                ..
            } => Remedy::Wait { nodes: Vec::new() },
            Self::NoNode { misfits, .. } | Self::Unschedulable { misfits, .. } => {
                of_misfits(misfits, 1)
            }
            Self::GangTooLarge { missing, misfits, .. } => of_misfits(misfits, *missing),
            Self::LargerThanFleet { are_bound: true, fewer_may_do, .. } => {
                Remedy::OtherNodes { or_fewer: *fewer_may_do }
            }
            Self::LargerThanFleet { missing, more, fewer_may_do, instead, .. } => {
                instead.as_deref().and_then(of_larger).unwrap_or_else(|| Remedy::LargerFleet {
                    pods: *missing,
                    more: more.clone().rounded_up(),
                    or_fewer: *fewer_may_do,
                })
            }
            Self::NoPlace(no_place) => of_no_place(no_place),
            Self::BehindOthers { depth } => Remedy::DeeperQueue { depth: *depth },
            Self::Promised { nodes } => Remedy::Wait { nodes: nodes.clone() },
            Self::PreemptionDelay { delay_millis, since, .. } => {
                Remedy::WaitLonger { delay_millis: *delay_millis, since: *since }
            }
            Self::PreemptionsBound { most, .. } => Remedy::PreemptMore { most: *most },
            Self::FairShare { queue, more, .. } => {
                Remedy::Deserve { queue: Name::clone(queue), more: more.clone() }
            }
            Self::BehindShare { first, .. } => Remedy::GoFirst { before: Name::clone(first) },
            Self::MinRuntime { victim, field, minimum_millis, .. } => Remedy::Outlast {
                victim: Name::clone(victim),
                field,
                minimum_millis: *minimum_millis,
            },
        }
    }
}

fn of_queue(problem: &QueueProblem) -> Remedy {
    match problem {
        QueueProblem::Missing { queue } if queue.is_empty() => Remedy::NameQueue,
        QueueProblem::Missing { queue } => Remedy::CreateQueue { queue: Name::clone(queue) },
        QueueProblem::ParentMissing { child, parent, .. } => {
            Remedy::CreateParent { parent: Name::clone(parent), queue: Name::clone(child) }
        }
        QueueProblem::Cycle { queue, circle } => Remedy::MendQueue {
            queue: Name::clone(circle.first().unwrap_or(queue)),
            what: format!("its spec.parentQueue leads round in a circle, {}", round(circle)).into(),
        },
        QueueProblem::NotALeaf { queue, child } => {
            Remedy::UseLeaf { queue: Name::clone(queue), leaf: Name::clone(child) }
        }
        QueueProblem::Malformed { whose, detail, .. }
        | QueueProblem::OtherPool { whose, detail, .. } => {
            Remedy::MendQueue { queue: Name::clone(whose), what: Name::clone(detail) }
        }
    }
}

fn raise(
    (queue, bound, with_more): (&Name, Bound, bool),
    [limit, used, asked]: [&Quantity; 3],
) -> Remedy {
    let of = |amount| Quantity { resource: limit.resource.clone(), amount }.rounded_up();
    let to = of(used.amount.saturating_add(asked.amount));
    let by = of(to.amount.saturating_sub(limit.amount));
    Remedy::Raise { queue: Name::clone(queue), bound, by, to, with_more }
}

impl Bound {
    /// As it stands in a Queue.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Limit => "limit",
        }
    }
}

/// Who made the pod group does not matter: a group that exists keeps the queue that stands there.
const QUEUE_FIELD: &str = "the pod group's spec.queue";

const TRY_AGAIN: &str = "take condition UnschedulableOnNodePool off its status, move it to another \
                         node pool, or set its schedulingBackoff to -1";

const NAME_QUEUE: &str = "name a queue in the pod group's spec.queue; label kai.scheduler/queue of \
                          a workload is for pod groups that are yet to be made";

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameQueue => f.write_str(NAME_QUEUE),
            Self::CreateQueue { queue } => {
                write!(f, "create queue {queue}, or name one that exists in {QUEUE_FIELD}")
            }
            Self::CreateParent { parent, queue } => {
                write!(f, "create queue {parent}, which {queue} names as its parent")
            }
            Self::MendQueue { queue, what } => write!(f, "mend queue {queue}: {what}"),
            Self::UseLeaf { queue, leaf } => {
                write!(f, "name a queue below {queue} in {QUEUE_FIELD} instead, such as {leaf}")
            }
            Self::AddMembers { pods, sub_group } => gang::add(f, *pods, sub_group.as_ref()),
            Self::OpenGates { pods, sub_group } => gang::open(f, *pods, sub_group.as_ref()),
            Self::MendMembers { pods, first, cure } => gang::mend(f, *pods, (first, cure)),
            Self::TryAgain => f.write_str(TRY_AGAIN),
            Self::Raise { queue, bound, by, to, with_more } => {
                let (bound, by, to) = (bound.as_str(), by.counted(), to.counted());
                write!(f, "raise the {bound} of queue {queue} by {by} to {to}")?;
                f.write_str(if *with_more { "; another bound is too low as well" } else { "" })
            }
            Self::MakeRoom { pods, short, room, places } => {
                room::make(f, *pods, (room, places.as_ref()))?;
                f.write_str(&of_what(": short of ", short))
            }
            Self::Deserve { queue, more } => deserve(f, queue, more),
            Self::GoFirst { before } => go_first(f, before),
            Self::LargerNodes { short, gpu_classes } => larger::nodes(f, short, gpu_classes),
            Self::LargerDevices { mib } => larger::devices(f, *mib),
            Self::LargerFleet { pods, more, or_fewer } => larger::fleet(f, *pods, more, *or_fewer),
            Self::OtherNodes { or_fewer } => larger::other_nodes(f, *or_fewer),
            Self::Admit { misfit, nodes, pods, added, with_more } => {
                admit(f, (misfit, added), (*nodes, *pods))?;
                admit::more(f, (misfit, *nodes, *with_more))
            }
            Self::Open { misfit, nodes } => admit::open(f, misfit, nodes),
            Self::OtherPlaces { label, values, from } => places::other(f, (label, values), *from),
            Self::Tolerate { key, value } => tolerate(f, key, value),
            Self::LetIn { lacks, nodes, first, pods } => label(f, lacks, (*nodes, first, *pods)),
            Self::CreateTopology { topology, level } => {
                write!(f, "create topology {topology} with level {level}, or name one that exists")
            }
            Self::PreferInside { required, preferred } => prefer_inside(f, required, preferred),
            Self::OnlyPrefer { topology, level, wider } => {
                only_prefer(f, (level, topology), wider.as_ref())
            }
            Self::MakePlace { topology, level, pods, kept_to, selection, or_prefer } => {
                make_place(f, *pods, (level, kept_to, topology))?;
                on_selected(f, (selection, *or_prefer))
            }
            Self::DeeperQueue { depth } => wait::for_turn(f, *depth),
            Self::Wait { nodes } => wait::for_room(f, nodes),
            Self::WaitLonger { delay_millis, since } => {
                wait::longer(f, delay_millis.div_ceil(1000), *since)
            }
            Self::PreemptMore { most } => wait::for_cycle(f, *most),
            Self::Outlast { victim, field, minimum_millis } => {
                wait::outlast(f, victim, field, minimum_millis.div_ceil(1000))
            }
        }
    }
}

fn deserve(f: &mut fmt::Formatter<'_>, queue: &str, more: &[Quantity]) -> fmt::Result {
    let (used, more): (Vec<_>, Vec<_>) = more.iter().partition(|more| more.amount == 0);
    let used = used.into_iter().map(|used| format!("the {} that it uses", used.name()));
    let more: Vec<String> = more.into_iter().map(Quantity::counted).collect();
    let more = (!more.is_empty()).then(|| format!("{} more than it uses", more.join(" and ")));
    let to: Vec<String> = more.into_iter().chain(used).collect();
    write!(f, "raise the quota of queue {queue} to {}", to.join(" and to "))
}

fn go_first(f: &mut fmt::Formatter<'_>, before: &str) -> fmt::Result {
    write!(f, "give it a higher priority than {before}, with which it stays preemptible")
}

pub(super) fn counted(pods: u32, what: &str) -> String {
    if pods == 1 { format!("1 {what}") } else { format!("{pods} {what}s") }
}

fn of_what(before: &str, short: &[ResourceName]) -> String {
    let names: Vec<Name> = short.iter().cloned().map(short_name).collect();
    if names.is_empty() { String::new() } else { format!("{before}{}", names.join(", ")) }
}
