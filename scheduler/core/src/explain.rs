//! Why a pod group waits, for a person: the one dominant reason and its remedy, tried out on a
//! copy of the cluster; what each plugin said, grouped by node; and the accounts of its queues.
//! It is the same cycle that [`crate::schedule`] decides, looked at when it is over.

mod new_node;
mod next_snapshot;
mod one_more;
mod queue;
mod queue_text;
mod remedies;
mod text;
mod trial;
mod what_if;

use std::collections::BTreeMap;

use crate::{
    Decision, Plan, Profile, Reason, Snapshot,
    cycle::decide,
    decision::{Misfit, Remedy},
    model::{DeviceClaim, Name, NodeId, PodGroupId, PodId, PodShape, QueueId, SharedGpu},
    queues::Account,
    resources::Resources,
    session::{Fits, Session},
};
use new_node::Size;
#[cfg(test)]
pub(crate) use next_snapshot::next_snapshot;
pub use queue::{Candidate, QueueExplanation, Standing, explain_queue};
pub use queue_text::QueueTold;
use remedies::{Plight, Search};
pub use text::Told;
use trial::placed_others;
use what_if::Missing;

/// What is to be said about one pod group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Which.
    pub group: PodGroupId,
    /// Its pods that have a node already.
    pub active: u32,
    /// Its pods that wait for one, gated ones and such as cannot be scheduled included.
    pub waiting: u32,
    /// How many of its pods must run together at least.
    pub minimum: u64,
    /// What the next cycle does for it.
    pub decided: Vec<Decision>,
    /// Why it waits. `None`: nothing of it does, or all that waits gets a node.
    pub reason: Option<Reason>,
    /// What cures that, and what then stands in the way, until it runs.
    pub remedies: Vec<Step>,
    /// Its queue and those above it.
    pub queues: Vec<(QueueId, Account)>,
    /// What plugins say about the group, whatever nodes there are.
    pub plugins: Vec<(String, Option<Reason>)>,
    /// What they say about the next pod of it on each node; nodes that are alike stand together.
    pub nodes: Option<NodesFor>,
}

/// One remedy, tried out on top of those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What to do.
    pub remedy: Remedy,
    /// How much of it takes, where others that are served before take what it gives.
    pub in_all: Option<Remedy>,
    /// Less of it that suffices, too, beside all that is told before and after it: not by itself,
    /// but because others leave for the group, or get no room before it.
    pub least: Option<Remedy>,
    /// What came of it.
    pub tried: Tried,
}

/// What the cycle after a remedy does for the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It runs: where its first pod goes, and whether others have to leave before.
    Runs {
        /// On which node.
        node: Name,
        /// Now, or when others have left.
        fits: Fits,
        /// With which nodes, if any are added: on others somebody else would run before it.
        new_nodes: NewNodes,
    },
    /// It starts, and soon has to leave for others; then it waits for this.
    Leaves(Reason),
    /// It waits for something else.
    Waits(Reason),
    /// It depends on what the snapshot does not show.
    Untold,
}

/// Nodes with which a group is known to run that are added for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewNodes {
    /// Such as hold one of its pods each, and such as hold all that may be on one, or it is not
    /// known that their size matters.
    #[default]
    OfAnySize,
    /// Such as hold one of the pods each for which there is to be room.
    OnePodEach,
    /// Such as hold all of these that may be on one node.
    Whole,
    /// Such as hold all of these and have besides no less CPU and memory than others have.
    Large,
}

/// One pod and the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesFor {
    /// Which pod.
    pub pod: PodId,
    /// What it asks for.
    pub asks: Resources,
    /// Parts of devices that it asks for, too.
    pub shared_gpu: Option<SharedGpu>,
    /// Claims on devices that are not in what it asks for.
    pub claims: Vec<DeviceClaim>,
    /// Nodes about which the same is said.
    pub groups: Vec<NodeGroup>,
}

/// Nodes about which the same is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// Their names.
    pub nodes: Vec<Name>,
    /// What each filter that refuses them, or would have the pod wait, says.
    pub refusals: Vec<(String, Option<Misfit>)>,
    /// What is free on each of them, and what it offers when empty.
    pub free: Resources,
    /// All that it offers.
    pub allocatable: Resources,
    /// How many pods of the same group are there, of those that this cycle places before it as well.
    pub mates: usize,
    /// Of the device of which most is free: as much of it as is, thousandths or MiB, whichever the
    /// pod asks for. `None`: it asks for no part, or for MiB where it is unknown how many there are.
    pub free_of_one: Option<i64>,
}

/// Explains `group`, as the next cycle sees it.
pub fn explain(snapshot: &Snapshot, profile: &Profile, group: PodGroupId) -> Explanation {
    let (mut session, plan) = decide(snapshot, profile, &mut ());
    let missing = missing(&mut session, group);
    let members = session.members(group);
    let unusable = session.group(group).unusable.len();
    let (waits, minimum) = (members.waiting().count(), members.minimum(session.group(group)));
    let decided = decisions_for(&session, &plan, group);
    let others = placed_others(&session, &plan, group);
    let mut explanation = Explanation {
        group,
        active: held_before(snapshot, group),
        waiting: u32::try_from(waits + unusable)
            .unwrap_or(u32::MAX)
            .saturating_add(members.gated()),
        minimum,
        decided,
        reason: plan.waiting.get(&group).cloned(),
        remedies: Vec::new(),
        queues: accounts(&session, group),
        plugins: plugins(&mut session, group),
        nodes: nodes(&mut session, group),
    };
    if let Some(reason) = &explanation.reason {
        let plight = Plight { reason: reason.clone(), missing, others };
        explanation.remedies =
            Search { snapshot, profile, group, size: Size::Ample }.remedies(plight);
    }
    explanation
}

fn held_before(snapshot: &Snapshot, group: PodGroupId) -> u32 {
    let held = snapshot.pods.iter().filter(|pod| pod.group == Some(group) && pod.node.is_some());
    u32::try_from(held.count()).unwrap_or(u32::MAX)
}

fn decisions_for(session: &Session<'_>, plan: &Plan, group: PodGroupId) -> Vec<Decision> {
    let concerns = |decision: &&Decision| match decision {
        Decision::Bind { pod, .. } | Decision::Pipeline { pod, .. } => {
            session.pod(*pod).group == Some(group)
        }
        Decision::Evict { pod, cause } => {
            session.pod(*pod).group == Some(group) || cause.preemptor() == Some(group)
        }
    };
    plan.decisions.iter().filter(concerns).cloned().collect()
}

fn accounts(session: &Session<'_>, group: PodGroupId) -> Vec<(QueueId, Account)> {
    let Ok(Some(queue)) = session.group(group).queue else { return Vec::new() };
    let ledger = session.ledger();
    ledger.path(queue).map(|queue| (queue, ledger.account(queue).clone())).collect()
}

/// What is asked before any node is looked at.
fn plugins(session: &mut Session<'_>, group: PodGroupId) -> Vec<(String, Option<Reason>)> {
    let list = &session.profile.plugins;
    let enqueue = list.pre_enqueue.iter();
    let mut said: Vec<(String, Option<Reason>)> = enqueue
        .map(|plugin| (format!("{plugin:?}"), plugin.pre_enqueue(session, group).err()))
        .collect();
    let pods = session.next_chunk(group);
    if !pods.is_empty() && said.iter().all(|(_, refusal)| refusal.is_none()) {
        let asked = list.pre_filter.iter();
        said.extend(
            asked.map(|plugin| {
                (format!("{plugin:?}"), plugin.pre_filter(session, group, &pods).err())
            }),
        );
        if session.group(group).is_placed() {
            said.push((TOPOLOGY.to_owned(), no_place(session, &pods)));
        }
    }
    said
}

/// KAI's plugin that keeps pods together; here pods are placed so.
const TOPOLOGY: &str = "topology";

fn no_place(session: &mut Session<'_>, pods: &[PodId]) -> Option<Reason> {
    let start = session.checkpoint();
    let unplaced = session.place_all(pods).err();
    session.undo_to(start);
    unplaced?.no_place.map(|no_place| Reason::NoPlace(*no_place))
}

/// What is said about the first pod for which there is no node, when those before it have theirs.
fn nodes(session: &mut Session<'_>, group: PodGroupId) -> Option<NodesFor> {
    let pods = session.next_chunk(group);
    let start = session.checkpoint();
    let found = session.place_all(&pods).err().map_or(0, |unplaced| unplaced.found as usize);
    session.undo_to(start);
    let are_placed = found < pods.len() && session.place_all(&pods[..found]).is_ok();
    let missing = if are_placed { &pods[found..] } else { &pods };
    let &pod = missing.first()?;
    let groups = node_groups(session, (pod, missing));
    let PodShape { requests, shared_gpu, claims, .. } = session.shape_of(pod);
    let (asks, shared_gpu, claims) = (requests.clone(), *shared_gpu, claims.clone());
    session.undo_to(start);
    Some(NodesFor { pod, asks, shared_gpu, claims, groups })
}

fn node_groups(session: &Session<'_>, (pod, missing): (PodId, &[PodId])) -> Vec<NodeGroup> {
    type Likeness = (Vec<(String, Option<Misfit>)>, Resources, Resources, Option<i64>, usize);
    let mut alike: BTreeMap<Likeness, Vec<Name>> = BTreeMap::new();
    let shared_gpu = session.shape_of(pod).shared_gpu;
    let mut out_of_place = session.out_of_place(missing, pod);
    for (node, verdicts) in session.node_ids().zip(session.verdicts(pod)) {
        let refusals = verdicts.into_iter().filter_map(|(plugin, verdict)| match verdict {
            Ok(Fits::Now) => None,
            Ok(Fits::Later) => Some((plugin, None)),
            Err(misfit) => Some((plugin, Some(misfit))),
        });
        let out_of_place = out_of_place.remove(&node);
        let out_of_place =
            out_of_place.map(|misfit| (TOPOLOGY.to_owned(), Some(Misfit::Place(misfit))));
        let refusals = refusals.chain(out_of_place).collect();
        let (room, of) = (session.room(node), session.node(node));
        let shared = shared_gpu.filter(|shared| shared.is_known_on(of));
        let free_of_one = shared.map(|shared| shared.part_of(of, room.idle_of_one(of)));
        let mates = session.mates_on(pod, node).count();
        let mut free = room.idle.clone();
        let for_all = of.allocatable.extended.iter().filter(|(_, all)| **all == Resources::FOR_ALL);
        free.extended.extend(for_all.map(|(name, all)| (Name::clone(name), *all)));
        let likeness = (refusals, free, of.allocatable.clone(), free_of_one, mates);
        alike.entry(likeness).or_default().push(Name::clone(&of.name));
    }
    let group = |((refusals, free, allocatable, free_of_one, mates), nodes)| NodeGroup {
        nodes,
        refusals,
        free,
        allocatable,
        mates,
        free_of_one,
    };
    let mut groups: Vec<NodeGroup> = alike.into_iter().map(group).collect();
    groups.sort_by(|a, b| (a.refusals.len(), &a.nodes).cmp(&(b.refusals.len(), &b.nodes)));
    groups
}

/// The pods to place next, from the first on for which there is no node.
fn missing(session: &mut Session<'_>, group: PodGroupId) -> Missing {
    let pods = session.next_chunk(group);
    let start = session.checkpoint();
    let unplaced = session.place_all(&pods).err();
    session.undo_to(start);
    let first = unplaced.and_then(|unplaced| pods.iter().position(|pod| *pod == unplaced.pod));
    let (before, missing) = pods.split_at(first.unwrap_or(0));
    let (only_full, worst) = match missing.first().filter(|_| first.is_some()) {
        Some(pod) if before.is_empty() || session.place_all(before).is_ok() => {
            (only_full(session, *pod), session.worst_misfits(*pod))
        }
        Some(_) | None => (Vec::new(), Vec::new()),
    };
    session.undo_to(start);
    let shapes = missing.iter().map(|pod| session.pod(*pod).shape).collect();
    let of = session.group(group);
    let is_in_one = |part: &usize| {
        of.topology_of(Some(*part)).is_some_and(|constraint| constraint.required.is_some())
    };
    let part = |pod: &PodId| of.lineage(session.pod(*pod).sub_group).find(is_in_one);
    let parts = missing.iter().map(part).collect();
    let used = accounts(session, group).into_iter();
    let name = |queue: QueueId| Name::clone(&session.snapshot.queues[queue.0 as usize].name);
    let used = used.map(|(queue, account)| (name(queue), account.allocated)).collect();
    Missing {
        shapes,
        parts,
        only_full,
        worst,
        used,
        beyond_fleet: session.beyond_empty_fleet(&pods),
    }
}

/// Nodes that nothing but what others use of them keeps the pod from.
fn only_full(session: &Session<'_>, pod: PodId) -> Vec<NodeId> {
    let out_of_place = session.out_of_place(&[pod], pod);
    let full = session.only_too_full(pod).into_iter();
    full.filter(|node| !out_of_place.contains_key(node)).collect()
}
