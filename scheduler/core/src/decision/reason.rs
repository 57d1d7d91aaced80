//! Why a pod group, or one pod, waits: one dominant reason that a person can act on.

use std::{collections::BTreeMap, fmt};

use super::{Misfits, Quantity, misfit::listed};
use crate::{
    model::{Name, QueueProblem},
    session::{NoPlace, NotReady, Unusable},
};

/// Why a pod group, or one pod, waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its queue cannot be used.
    Queue(QueueProblem),
    /// Pods of the gang are missing or gated.
    NotReady(NotReady),
    /// It was tried once, and that is all it wants.
    LeftAlone,
    /// A queue on its path is at its limit.
    OverLimit {
        /// Which queue.
        queue: Name,
        /// Its limit.
        limit: Quantity,
        /// What it uses of that.
        allocated: Quantity,
        /// What the pods to place next ask for.
        requested: Quantity,
        /// Another bound, of it or of one above it, is too low as well.
        with_more: bool,
    },
    /// Work that cannot be preempted must stay inside the quota of every queue on its path.
    NonPreemptibleOverQuota {
        /// Which queue.
        queue: Name,
        /// Its quota.
        quota: Quantity,
        /// What non-preemptible pods use of that.
        allocated: Quantity,
        /// What the pods to place next ask for.
        requested: Quantity,
        /// Another bound is too low as well, as above.
        with_more: bool,
    },
    /// There is no node for the pod.
    NoNode {
        /// Namespace and name of the pod.
        pod: Name,
        /// Why not.
        misfits: Misfits,
    },
    /// There are nodes for some pods of the gang, but not for enough of them.
    GangTooLarge {
        /// For how many pods of the gang there was room.
        found: u32,
        /// How many the gang needs, or this part of it.
        required: u32,
        /// For how many of all that have to start together there was no room.
        missing: u32,
        /// Which part of the gang, where it has several.
        sub_group: Option<Name>,
        /// Why there was no more.
        misfits: Misfits,
    },
    /// Not even the empty cluster could hold the gang.
    LargerThanFleet {
        /// How many pods must run together.
        pods: u32,
        /// What they ask for together.
        requested: Quantity,
        /// What all nodes on which they may run offer.
        offered: Quantity,
        /// How many of them those do not hold beside the others, were they empty.
        missing: u32,
        /// What these ask for together.
        more: Quantity,
        /// Nodes would hold some of them; else none is large enough for one.
        fewer_may_do: bool,
        /// Those are bound to the names of nodes: no other would hold them.
        are_bound: bool,
        /// Why they do not fit as things are, where it matters to them where others are.
        instead: Option<Box<Reason>>,
    },
    /// No place of a topology holds those that are to run together.
    NoPlace(NoPlace),
    /// Others of its queue are before it, and an action looks at so many only.
    BehindOthers {
        /// At how many.
        depth: usize,
    },
    /// Room was promised to it and is being released.
    Promised {
        /// Where its pods will go.
        nodes: Vec<Name>,
    },
    /// It is too young to make others leave, and there is no room without that.
    PreemptionDelay {
        /// Why it does not fit as things are.
        instead: Box<Reason>,
        /// How long it must wait, in milliseconds. Not how long it still takes: a reason that
        /// changed with the clock would be told anew in every cycle.
        delay_millis: u64,
        /// From when on.
        since: Since,
    },
    /// Others would leave for it, and as many have to for others as may in one cycle.
    PreemptionsBound {
        /// Why it does not fit as things are.
        instead: Box<Reason>,
        /// For how many workloads of a cycle others may have to leave.
        most: usize,
    },
    /// Those that would leave for it have not yet run for as long as they may.
    MinRuntime {
        /// Why it does not fit as things are.
        instead: Box<Reason>,
        /// Namespace and name of the pod group that is protected for the longest.
        victim: Name,
        /// What protects it: `reclaimMinRuntime` or `preemptMinRuntime`.
        field: &'static str,
        /// For how long it may run, in milliseconds, not how long it still may, as above.
        minimum_millis: u64,
    },
    /// Others have more than their quotas, and none of them leaves for it: its queue would have more
    /// than its share.
    FairShare {
        /// Why it does not fit as things are.
        instead: Box<Reason>,
        /// The queue that would have more, it or one above it. Not how much that is: it changes with
        /// whatever others ask for.
        queue: Name,
        /// What the pods to place next ask for of that of which the share is too small.
        more: Vec<Quantity>,
    },
    /// Others would leave for it, were not one before it in its queue for which they do not.
    BehindShare {
        /// Why it does not fit as things are.
        instead: Box<Reason>,
        /// Its queue, which would have more than its share with the one before it.
        queue: Name,
        /// Namespace and name of that one.
        first: Name,
    },
    /// The pod fits on no node (profile `kube`).
    Unschedulable {
        /// Why not.
        misfits: Misfits,
        /// What came of the search for claims that nobody uses.
        deallocation: Deallocation,
        /// What came of the search for victims.
        preemption: Preemption,
    },
}

/// What came of the search for claims on devices that nobody uses, in profile `kube`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deallocation {
    /// The pod has no claims.
    NoClaims,
    /// Nothing would be gained by giving one of its claims back.
    NothingIdle,
    /// This claim keeps the pod off a node, and is to be given back.
    Of(Name),
}

/// What came of the search for victims in profile `kube`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// There was no search.
    NotTried,
    /// The pod's policy is `Never`.
    PolicyNever,
    /// Nobody's leaving would help.
    Useless {
        /// On how many nodes nothing could be gained.
        not_helpful: u32,
        /// On how many nodes nobody has a lower priority, or too few.
        no_victims: u32,
    },
    /// The pod was promised room by the search.
    Nominated,
    /// It was nominated before, and those it evicted are still leaving.
    OthersTerminate,
}

/// What kind of reason it is, in KAI's words, for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReasonKind {
    /// The queue is missing or broken.
    QueueDoesNotExist,
    /// Members are missing or gated.
    NotReady,
    /// It is not tried again.
    SchedulingBackoff,
    /// A queue is at its limit.
    OverLimit,
    /// Non-preemptible work does not fit into a quota.
    NonPreemptibleOverQuota,
    /// No room on nodes.
    PodSchedulingErrors,
    /// Room is promised.
    Pipelined,
    /// Too young to make others leave.
    PreemptionDelayNotElapsed,
    /// Who would leave is protected for a while.
    MinRuntimeNotElapsed,
    /// No room on nodes (profile `kube`).
    Unschedulable,
}

impl ReasonKind {
    /// As it is written in conditions.
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
        }
    }
}

impl Reason {
    /// What kind of reason it is.
    pub const fn kind(&self) -> ReasonKind {
        match self {
            Self::Queue(_) => ReasonKind::QueueDoesNotExist,
            Self::NotReady(_) => ReasonKind::NotReady,
            Self::LeftAlone => ReasonKind::SchedulingBackoff,
            Self::OverLimit { .. } => ReasonKind::OverLimit,
            Self::NonPreemptibleOverQuota { .. } => ReasonKind::NonPreemptibleOverQuota,
            Self::NoNode { .. }
            | Self::GangTooLarge { .. }
            | Self::FairShare { .. }
            | Self::BehindShare { .. }
            | Self::PreemptionsBound { .. }
            | Self::LargerThanFleet { .. }
            | Self::BehindOthers { .. }
            | Self::NoPlace(_) => ReasonKind::PodSchedulingErrors,
            Self::Promised { .. } => ReasonKind::Pipelined,
            Self::PreemptionDelay { .. } => ReasonKind::PreemptionDelayNotElapsed,
            Self::MinRuntime { .. } => ReasonKind::MinRuntimeNotElapsed,
            Self::Unschedulable { .. } => ReasonKind::Unschedulable,
        }
    }
}

/// From when on a preemption delay counts: from the later of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The pod group was made.
    Creation,
    /// Pods of it were evicted last.
    Eviction,
}

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Creation => "its creation",
            Self::Eviction => "its last eviction",
        })
    }
}

impl Reason {
    /// The one word that clients match.
    pub const fn code(&self) -> &'static str {
        self.kind().as_str()
    }
}

const LEFT_ALONE: &str = "It was found unschedulable on this node pool once and is not tried here \
                          again, as its schedulingBackoff is 1";

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(problem) => problem.fmt(f),
            Self::NotReady(not_ready) => self::not_ready(f, not_ready),
            Self::LeftAlone => f.write_str(LEFT_ALONE),
            Self::OverLimit { queue, limit, allocated, requested, .. } => {
                over_limit(f, queue, [limit, allocated, requested])
            }
            Self::NonPreemptibleOverQuota { queue, quota, allocated, requested, .. } => {
                over_quota(f, queue, [quota, allocated, requested])
            }
            Self::NoNode { pod, misfits } => {
                write!(f, "Resources were not found for pod {pod} due to: {misfits}")
            }
            Self::GangTooLarge { found, required, sub_group, misfits, .. } => {
                gang_too_large(f, (*found, *required), sub_group.as_deref(), misfits)
            }
            Self::LargerThanFleet { pods, requested, offered, .. } => {
                larger_than_fleet(f, *pods, requested, offered)
            }
            Self::NoPlace(no_place) => no_place.fmt(f),
            Self::BehindOthers { depth } => write!(
                f,
                "Others of its queue are served before it, and only the first {depth} jobs of a \
                 queue are looked at in a cycle"
            ),
            Self::Promised { nodes } => write!(
                f,
                "Room was promised on {} and is being released by pods that are leaving",
                nodes.join(", ")
            ),
            Self::PreemptionDelay { instead, delay_millis, since } => {
                let seconds = delay_millis.div_ceil(1000);
                write!(f, "{instead} It may make others leave {seconds} s after {since}.")
            }
            Self::PreemptionsBound { instead, most } => write!(
                f,
                "{instead} Others would leave for it, but do for at most {most} workloads a cycle \
                 (preemptionPolicy.maxPreemptionsPerCycle)."
            ),
            Self::MinRuntime { instead, victim, field, minimum_millis } => write!(
                f,
                "{instead} Others will leave for it when {victim} has run for {} s, its {field}.",
                minimum_millis.div_ceil(1000)
            ),
            Self::FairShare { instead, queue, more } => fair_share(f, instead, (queue, more)),
            Self::BehindShare { instead, queue, first } => behind_share(f, instead, (queue, first)),
            Self::Unschedulable { misfits, deallocation, preemption } => {
                f.write_str(&misfits.in_kube_words())?;
                let preemption = preemption.words(misfits.nodes);
                if preemption.is_empty() {
                    return Ok(());
                }
                write!(f, " {}, {preemption}", deallocation.words())
            }
        }
    }
}

fn over_limit(
    f: &mut fmt::Formatter<'_>,
    queue: &str,
    [limit, allocated, requested]: [&Quantity; 3],
) -> fmt::Result {
    write!(
        f,
        "{queue} quota has reached the allowable limit of {}. Limit is {}, currently {} allocated \
         and workload requested {}",
        limit.name(),
        limit.brief(),
        allocated.brief(),
        requested.brief()
    )
}

fn over_quota(
    f: &mut fmt::Formatter<'_>,
    queue: &str,
    [quota, allocated, requested]: [&Quantity; 3],
) -> fmt::Result {
    write!(
        f,
        "Non-preemptible workload is over quota. Workload requested {requested}, but {queue} quota \
         is {}, while {} are already allocated for non-preemptible pods. Use a preemptible workload \
         to go over quota.",
        quota.brief(),
        allocated.brief()
    )
}

/// Of what, where that is more than what the job asks for.
fn fair_share(
    f: &mut fmt::Formatter<'_>,
    instead: &Reason,
    (queue, more): (&str, &[Quantity]),
) -> fmt::Result {
    write!(
        f,
        "{instead} Nobody leaves for it, as queue {queue} would have more than its fair share"
    )?;
    if more.iter().any(|more| more.amount == 0) {
        let names: Vec<&str> = more.iter().map(Quantity::name).collect();
        write!(f, " of {}", names.join(" and "))?;
    }
    f.write_str(".")
}

fn behind_share(
    f: &mut fmt::Formatter<'_>,
    instead: &Reason,
    (queue, first): (&str, &str),
) -> fmt::Result {
    write!(
        f,
        "{instead} Nobody leaves for it before {first}, with which queue {queue} would have more \
         than its fair share."
    )
}

fn larger_than_fleet(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    requested: &Quantity,
    offered: &Quantity,
) -> fmt::Result {
    write!(
        f,
        "The workload cannot run on this cluster as it is: {pods} pods that must run together ask \
         for {requested}, and all nodes on which they may run offer {offered}."
    )
}

fn not_ready(f: &mut fmt::Formatter<'_>, not_ready: &NotReady) -> fmt::Result {
    let NotReady { sub_group, required, exist, gated, unusable, only_part: _ } = not_ready;
    write!(f, "Job is not ready for scheduling. Waiting for {required} pods")?;
    match sub_group {
        Some(name) => {
            write!(f, " for SubGroup {name}, currently {exist} exist, {gated} are gated.")?;
        }
        None => write!(f, ", currently {exist} exist, {gated} are gated")?,
    }
    let Some(Unusable { pods, is_outside, first, problem, .. }) = unusable else { return Ok(()) };
    f.write_str(if sub_group.is_some() { " " } else { ", " })?;
    let whose = if *is_outside { "more, of no SubGroup," } else { "of them" };
    let such_as = if *pods > 1 { ", such as" } else { ":" };
    write!(f, "{pods} {whose} cannot be scheduled{such_as} {first}: {problem}")
}

fn gang_too_large(
    f: &mut fmt::Formatter<'_>,
    (found, required): (u32, u32),
    sub_group: Option<&str>,
    misfits: &Misfits,
) -> fmt::Result {
    write!(f, "Resources were found for {found} pods ")?;
    match sub_group {
        Some(name) => write!(
            f,
            "from all sub-groups while sub-group {name} requires {required} pods for gang \
             scheduling. "
        )?,
        None => write!(f, "while {required} are required for gang scheduling. ")?,
    }
    write!(f, "Additional pods cannot be scheduled due to: {misfits}")
}

impl Deallocation {
    const fn words(&self) -> &'static str {
        match self {
            Self::NoClaims => "no new claims to deallocate",
            Self::NothingIdle => "still not schedulable",
            Self::Of(_) => "deallocation of ResourceClaim completed",
        }
    }
}

impl Preemption {
    /// Nothing where it found victims, or was not tried.
    fn words(&self, nodes: u32) -> String {
        match self {
            Self::NotTried | Self::Nominated => String::new(),
            Self::PolicyNever => {
                "preemption: not eligible due to preemptionPolicy=Never.".to_owned()
            }
            Self::OthersTerminate => "preemption: not eligible due to a terminating pod on the \
                                      nominated node."
                .to_owned(),
            Self::Useless { not_helpful, no_victims } => {
                let counts = BTreeMap::from([
                    ("Preemption is not helpful for scheduling".to_owned(), *not_helpful),
                    ("No preemption victims found for incoming pod".to_owned(), *no_victims),
                ]);
                let counts = listed(counts.into_iter().filter(|(_, count)| *count > 0));
                format!("preemption: 0/{nodes} nodes are available: {counts}.")
            }
        }
    }
}
