//! Allocate: waiting work gets free room, queue by queue and job by job in serving order. What a
//! gang misses of its minimum is placed at once or not at all; whoever has its minimum gets one
//! more pod and lines up again, so that elastic jobs grow in turns. Nobody is evicted for it,
//! but by a PostFilter plugin. What could not run whoever left does not speak for its queue in the
//! line, so that it keeps nobody from what the queue deserves: what would not fit on empty nodes,
//! and what would take the queue beyond its share and is refused by its limit or quota. (KAI lets
//! it speak.)

use std::collections::{BTreeMap, VecDeque};

use crate::{
    decision::{InOne, Misfits, Quantity, Reason},
    framework::Line,
    model::{Name, PodGroupId, PodId, Selection, ShapeId},
    queues::Shortfall,
    resources::Resources,
    session::{Session, Unplaced},
};

/// Why pod groups wait.
pub(crate) type Reasons = BTreeMap<PodGroupId, Reason>;

/// Serves all of `groups` that wait; `reasons` tells why some still do.
pub(crate) fn run(session: &mut Session<'_>, groups: Vec<PodGroupId>, reasons: &mut Reasons) {
    let mut waits = |session: &mut Session<'_>, group, why: Why| {
        let reason = why.told(session, group);
        reasons.insert(group, reason);
    };
    let hopeless = serve(session, groups, Some(&mut waits));
    hopeless.explain(session, reasons);
}

/// The same, where nobody asks why: in rehearsals, of which profiles with PostFilter plugins have none.
pub(crate) fn rehearse(session: &mut Session<'_>, groups: Vec<PodGroupId>) {
    serve(session, groups, None);
}

/// Who asks why a group waits.
type Asks<'a> = Option<&'a mut dyn FnMut(&mut Session<'_>, PodGroupId, Why)>;

fn serve(session: &mut Session<'_>, groups: Vec<PodGroupId>, mut asks: Asks<'_>) -> Hopeless {
    let (groups, too_large): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| session.could_fit(*group));
    let mut line = session.profile.plugins.queue_sort.line_up(session, groups);
    let (mut hopeless, mut aside) = (Hopeless::default(), VecDeque::from(too_large));
    loop {
        step_aside(session, &mut *line, &mut aside);
        let Some(group) = line.pop(session).or_else(|| aside.pop_front()) else { break };
        match place_next(session, group, &mut hopeless, asks.is_some()) {
            Outcome::Placed => {
                session.commit();
                line.served(session, group);
                if session.members(group).wait() {
                    line.push(session, group);
                }
            }
            Outcome::Waits(why) => {
                if let Some(tell) = &mut asks {
                    tell(session, group, why);
                }
            }
            Outcome::IsHopeless => {}
        }
    }
    hopeless
}

/// Those that speak badly for their queues, and that PreFilter plugins refuse, have their turns
/// last.
fn step_aside(session: &mut Session<'_>, line: &mut dyn Line, aside: &mut VecDeque<PodGroupId>) {
    while let Some(group) = line.reaching(session) {
        if !session.may_be_placed(group) {
            line.remove(session, group);
            aside.push_back(group);
        }
    }
}

/// What came of a group's turn.
enum Outcome {
    Placed,
    Waits(Why),
    /// Why is told when nothing changes any more.
    IsHopeless,
}

/// Why a group waits.
enum Why {
    /// No node is looked at for it.
    Refused(Reason),
    /// There is none for these pods.
    NoRoom(Vec<PodId>, Unplaced),
}

impl Why {
    /// In a reason; PostFilter plugins have their say.
    fn told(self, session: &mut Session<'_>, group: PodGroupId) -> Reason {
        let (pods, unplaced) = match self {
            Self::Refused(reason) => return reason,
            Self::NoRoom(pods, unplaced) => (pods, unplaced),
        };
        let mut reason = reason(session, group, &pods, unplaced);
        for plugin in &session.profile.plugins.post_filter {
            reason = plugin.post_filter(session, pods[0], reason);
        }
        reason
    }
}

/// Places the next pods of the group. Why there is no room is looked for only where somebody asks at
/// once.
fn place_next(
    session: &mut Session<'_>,
    group: PodGroupId,
    hopeless: &mut Hopeless,
    is_asked: bool,
) -> Outcome {
    let pods = session.next_chunk(group);
    if pods.is_empty() {
        return Outcome::Waits(Why::Refused(nothing_to_gain(session, group)));
    }
    if let Err(reason) = session.pre_filter(group, &pods) {
        return Outcome::Waits(Why::Refused(reason));
    }
    let key = Hopeless::key(session, &pods);
    if let Some(groups) = key.as_ref().and_then(|key| hopeless.0.get_mut(key)) {
        groups.push(group);
        return Outcome::IsHopeless;
    }
    let is_told = is_asked && key.is_none();
    let placed = if is_told { session.place_all(&pods) } else { session.place_all_untold(&pods) };
    let Err(unplaced) = placed else { return Outcome::Placed };
    if let Some(key) = key {
        hopeless.0.insert(key, vec![group]);
        return Outcome::IsHopeless;
    }
    Outcome::Waits(Why::NoRoom(pods, unplaced))
}

/// Groups whose next pods found no room in this action, by the shapes of those. Nobody leaves
/// while it runs, so the same shapes find none again.
#[derive(Default)]
struct Hopeless(BTreeMap<Vec<ShapeId>, Vec<PodGroupId>>);

impl Hopeless {
    fn key(session: &Session<'_>, pods: &[PodId]) -> Option<Vec<ShapeId>> {
        let alike = |pod: &PodId| session.is_like_all_of_its_shape(*pod);
        let stays_hopeless = session.profile.plugins.post_filter.is_empty();
        let known = stays_hopeless && pods.iter().all(alike);
        known.then(|| pods.iter().map(|pod| session.pod(*pod).shape).collect())
    }

    /// Why they wait, as things are when all others have been served.
    fn explain(self, session: &mut Session<'_>, reasons: &mut Reasons) {
        for groups in self.0.into_values() {
            let start = session.checkpoint();
            let pods = session.next_chunk(groups[0]);
            let placed = session.place_all(&pods);
            debug_assert!(placed.is_err(), "there was no room before, and nobody left");
            session.undo_to(start);
            let Err(unplaced) = placed else { continue };
            for group in groups {
                let pods = session.next_chunk(group);
                reasons.insert(group, reason(session, group, &pods, unplaced.clone()));
            }
        }
    }
}

/// Pods wait, but no sub-group to which they belong can reach its minimum.
fn nothing_to_gain(session: &Session<'_>, group: PodGroupId) -> Reason {
    let (of, members) = (session.group(group), session.members(group));
    Reason::NotReady(members.not_ready(of))
}

fn reason(session: &Session<'_>, id: PodGroupId, pods: &[PodId], unplaced: Unplaced) -> Reason {
    let below_minimum = session.members(id).shortfall(session.group(id)) == Shortfall::BelowMinimum;
    let fewer_may_do = !unplaced.misfits.are_of_small_nodes();
    let larger = below_minimum.then(|| larger_than_fleet(session, pods, fewer_may_do)).flatten();
    let Some(mut larger) = larger else { return as_things_are(session, id, pods, unplaced) };
    if let Reason::LargerThanFleet { instead, .. } = &mut larger
        && unplaced.misfits.site.is_some()
    {
        *instead = Some(Box::new(as_things_are(session, id, pods, unplaced)));
    }
    larger
}

fn as_things_are(
    session: &Session<'_>,
    id: PodGroupId,
    pods: &[PodId],
    Unplaced { pod, found, mut misfits, no_place }: Unplaced,
) -> Reason {
    if let Some(no_place) = no_place {
        return Reason::NoPlace(*no_place);
    }
    let (group, members) = (session.group(id), session.members(id));
    let below_minimum = members.shortfall(group) == Shortfall::BelowMinimum;
    let failed = pods.get(found as usize).copied().unwrap_or(pod);
    let at = session.pod(failed).sub_group;
    let sub_group = &group.sub_groups[at];
    let several = group.sub_groups.len() > 1;
    let misses_minimum = below_minimum || members.of_sub_group(at).active < sub_group.min_member;
    if misses_minimum && (sub_group.min_member > 1 || several) {
        if let Some(site) = &mut misfits.site {
            site.asks = largest(session, pods.get(found as usize..).unwrap_or(pods));
        }
        let waiting = u32::try_from(pods.len()).expect("pod ids are 32 bits");
        let kept_apart = session.kept_apart(id, pods).map(Box::new);
        let in_one = in_one(session, id, pods.get(found as usize..).unwrap_or(pods));
        if !in_one.is_empty() {
            misfits.places.get_or_insert_default().in_one = in_one;
        }
        return Reason::GangTooLarge {
            found: found + members.active(),
            required: sub_group.min_member,
            missing: waiting.saturating_sub(found).max(1),
            sub_group: several.then(|| sub_group.name.clone()),
            misfits: Misfits { kept_apart, ..misfits },
        };
    }
    Reason::NoNode { pod: full_name(session, failed), misfits }
}

/// Of the pods those of parts of the gang that have to be in one place each.
fn in_one(session: &Session<'_>, id: PodGroupId, pods: &[PodId]) -> Vec<InOne> {
    let group = session.group(id);
    let parts = (0..group.sub_groups.len()).filter_map(|part| {
        let level = group.topology_of(Some(part))?.required.clone()?;
        let is_inside = |pod: &&PodId| group.is_within(session.pod(**pod).sub_group, Some(part));
        let pods = u32::try_from(pods.iter().filter(is_inside).count()).unwrap_or(u32::MAX);
        (pods > 1).then_some(InOne { pods, level })
    });
    parts.collect()
}

/// What any of the pods asks for at most.
fn largest(session: &Session<'_>, pods: &[PodId]) -> Resources {
    let rooms = pods.iter().map(|pod| session.shape_of(*pod).room_for(1));
    rooms.reduce(|most, room| most.greater(&room)).unwrap_or_default()
}

fn full_name(session: &Session<'_>, pod: PodId) -> Name {
    let pod = session.pod(pod);
    format!("{}/{}", pod.namespace, pod.name).into()
}

/// Several pods together ask for more than all nodes on which they may run offer.
fn larger_than_fleet(session: &Session<'_>, pods: &[PodId], fewer_may_do: bool) -> Option<Reason> {
    if pods.len() < 2 {
        return None;
    }
    let mut requested = Resources::default();
    for pod in pods {
        requested.add(&session.shape_of(*pod).requests);
    }
    let offered = offered_by(session, pods, |pod| session.eligible_nodes(pod));
    let resource = requested.short_in(&offered).resources().next()?;
    if offered == Resources::default() {
        return None;
    }
    let would_do = offered_by(session, pods, |pod| session.eligible_once_open(pod));
    if requested.fits_in(&would_do) {
        return None;
    }
    let of =
        |all: &Resources| Quantity { amount: all.amount(&resource), resource: resource.clone() };
    let beyond = session.beyond_empty_fleet(pods);
    let shapes = &session.snapshot.shapes;
    let mut more = Resources::default();
    for shape in &beyond {
        more.add(&shapes[shape.0 as usize].requests);
    }
    let is_by_name = |shape: &ShapeId| shapes[shape.0 as usize].selection() == Selection::Names;
    let count = |pods: usize| u32::try_from(pods).expect("pod ids are 32 bits");
    Some(Reason::LargerThanFleet {
        pods: count(pods.len()),
        requested: of(&requested),
        offered: of(&offered),
        missing: count(beyond.len()),
        more: of(&more),
        fewer_may_do,
        are_bound: !beyond.is_empty() && beyond.iter().all(is_by_name),
        instead: None,
    })
}

/// What nodes have on which any of the pods may be.
fn offered_by(
    session: &Session<'_>,
    pods: &[PodId],
    may_be: impl Fn(PodId) -> Vec<bool>,
) -> Resources {
    let of_shape: BTreeMap<ShapeId, PodId> =
        pods.iter().map(|pod| (session.pod(*pod).shape, *pod)).collect();
    let mut any = vec![false; session.snapshot.nodes.len()];
    for pod in of_shape.into_values() {
        for (any, this) in any.iter_mut().zip(may_be(pod)) {
            *any |= this;
        }
    }
    let mut offered = Resources::default();
    for (node, _) in session.snapshot.nodes.iter().zip(any).filter(|(_, any)| *any) {
        offered.add(&node.allocatable);
    }
    offered
}
