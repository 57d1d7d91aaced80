//! What the three actions that evict have in common: jobs in serving order, for each one a
//! search, the first acceptable solution taken, and no second search for what was hopeless
//! before. What all of them took is decided when the next cycle would keep it ([`super::rehearsal`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    About, Apart, Backlog, Before, Free, Kind, Likeness, Manner, Pool, Rooms, Search, Solution,
    Unit, VictimLine, Wanted,
    hopeless::{Demand, Hopeless},
    protection,
    rehearsal::{Served, Solved},
};
use crate::{
    decision::EvictionCause,
    model::{NodeId, PodGroupId, PodId, QueueId},
    profile::Action,
    queues::{JobLine, Waiting, first_of_each},
    resources::PerResource,
    session::{Mark, Protection, Session},
};

/// Why work is evicted, and by which rules.
pub(crate) trait Purpose {
    /// Which action it is.
    fn action(&self) -> Action;
    /// May the job ask for it at all?
    fn may_start(&self, before: &Before<'_>, wanted: &Wanted) -> bool;
    /// May work of this leaf queue be considered?
    fn may_take_from(&self, before: &Before<'_>, wanted: &Wanted, queue: QueueId) -> bool;
    /// For how long this unit may not be considered; `None`: it may.
    fn protected_for(&self, before: &Before<'_>, wanted: &Wanted, unit: &Unit) -> Option<Duration>;
    /// Is it acceptable as a whole?
    fn accepts(&self, before: &Before<'_>, wanted: &Wanted, solution: &Solution) -> bool;
    /// What a search is out for.
    fn manner(&self) -> Manner {
        Manner::Evict
    }
    /// Does it count where preemptions of a cycle are bounded?
    fn is_preemption(&self) -> bool {
        false
    }
    /// What the unit's pods are told.
    fn cause(&self, before: &Before<'_>, wanted: &Wanted, unit: &Unit) -> EvictionCause;
}

/// What the searches of one action share.
struct Ground {
    pool: Pool,
    rooms: Rooms,
    backlog: Backlog,
    /// Jobs for which others would leave, had not as many done so as may in a cycle.
    bounded: Vec<PodGroupId>,
}

/// So many kinds of jobs are searched for only to tell them what they wait for.
const LOOKED_FOR_MAX: u32 = 16;

/// Serves every waiting job that may start, so that all of them keep what they are promised, with
/// what was `solved` earlier in the cycle; what is solved now is added to it.
pub(crate) fn serve(session: &mut Session<'_>, purpose: &impl Purpose, solved: &mut Solved) {
    let jobs = session.groups().filter_map(|group| waiting(session, group));
    let mut jobs: Vec<Waiting> = jobs.collect();
    if jobs.is_empty() {
        return;
    }
    if let Some(depth) = session.profile.queue_depth.get(&purpose.action()) {
        jobs = first_of_each(jobs, *depth);
    }
    jobs.retain(|job| session.could_fit(job.key.group()));
    // Whoever lost pods in this cycle asks nobody to leave in it: those pods come first in the next.
    let mut spoilers: BTreeSet<PodGroupId> = solved.losers().collect();
    solved.begin(session);
    let mut rounds = 0;
    loop {
        let Some(mut ground) = Ground::of(session, &jobs, purpose) else { return };
        let start = session.checkpoint();
        session.look_ahead(true);
        let in_line = jobs.iter().filter(|job| !spoilers.contains(&job.key.group()));
        let mut served = serve_each(session, &mut ground, in_line.copied(), purpose);
        let spoiler = solved.spoiler(session, start, &served);
        if let Some(spoiler) = spoiler {
            rounds += 1;
            if rounds < solved.rounds_max {
                session.look_ahead(false);
                spoilers.insert(spoiler);
                continue;
            }
            served = solved.without_spoilers(session, served);
        }
        session.look_ahead(false);
        commit(session, &served, purpose);
        session.note_bounded(ground.bounded);
        break solved.add(served);
    }
}

impl Ground {
    /// `None`: there is nothing to search for.
    fn of(session: &Session<'_>, jobs: &[Waiting], purpose: &impl Purpose) -> Option<Self> {
        let free = session.node_ids().map(|node| Free::of(session, node));
        let rooms = Rooms::new(free.collect());
        // Only a job that is served changes what another may.
        let before = Before::of(session, session.ledger(), &rooms);
        let may_start = |job: &Waiting| purpose.may_start(&before, &Wanted::of(session, *job));
        if !jobs.iter().any(may_start) {
            return None;
        }
        let pool = Pool::new(session);
        pool.queues().next()?;
        let kinds = jobs.iter().map(|job| (*job, kind(session, job.key.group())));
        let backlog = Backlog::new(session.ledger(), kinds);
        Some(Self { pool, rooms, backlog, bounded: Vec::new() })
    }
}

/// One job after the other, as if it were alone with those before it.
fn serve_each(
    session: &mut Session<'_>,
    ground: &mut Ground,
    jobs: impl Iterator<Item = Waiting>,
    purpose: &impl Purpose,
) -> Vec<Served> {
    let mut line = JobLine::new(session.ledger(), jobs);
    let mut hopeless = Hopeless::default();
    let (mut served, mut preemptions) = (Vec::new(), 0);
    let mut losers = BTreeSet::new();
    while let Some(job) = line.pop(session.ledger()) {
        if purpose.is_preemption() && !session.may_preempt(preemptions) {
            let rest = std::iter::from_fn(|| line.pop(session.ledger()));
            let rest: Vec<Waiting> = std::iter::once(job).chain(rest).collect();
            note_bounded(session, ground, (&rest, &losers), purpose);
            break;
        }
        let wanted = Wanted::of(session, job);
        let is_lost = losers.contains(&wanted.group);
        if is_lost
            || !purpose.may_start(&Before::of(session, session.ledger(), &ground.rooms), &wanted)
        {
            continue;
        }
        let demand = Demand::of(session, &wanted);
        if let Some(failed) = demand.as_ref().and_then(|demand| hopeless.before(demand)) {
            note(session, &wanted, failed.protection);
            continue;
        }
        let mark = session.changed_nodes().mark();
        let ledger = session.ledger().clone();
        let before = Before::of(session, &ledger, &ground.rooms);
        let start = session.checkpoint();
        let found = search(session, ground, (&before, &wanted), purpose);
        if found.is_some() && is_too_young(session, wanted.group) {
            session.undo_to(start);
            session.note_too_young(wanted.group);
            continue;
        }
        let Some((solution, causes)) = found else {
            let protection = protection(session, ground, (&before, &wanted), purpose);
            note(session, &wanted, protection);
            if let Some(demand) = demand {
                hopeless.remember(demand, protection);
            }
            continue;
        };
        preemptions += usize::from(!solution.victims.is_empty());
        ground.backlog.remove(wanted.queue, wanted.key);
        if let Some(more) = waiting(session, wanted.group) {
            ground.backlog.insert(&more, kind(session, wanted.group));
        }
        let mut touched = BTreeSet::from([wanted.queue]);
        for unit in solution.units() {
            ground.pool.remove(unit);
            losers.insert(unit.group);
            touched.insert(unit.queue);
        }
        for queue in touched {
            line.accounts_changed(session.ledger(), queue);
            ground.backlog.accounts_changed(session.ledger(), queue);
        }
        catch_up(&mut ground.rooms, session, mark);
        served.push(Served { wanted, solution, manner: purpose.manner(), causes });
    }
    served
}

/// Nobody leaves for these in this cycle: those are noted for which somebody would, as far as the
/// first searches tell it.
fn note_bounded(
    session: &mut Session<'_>,
    ground: &mut Ground,
    (jobs, losers): (&[Waiting], &BTreeSet<PodGroupId>),
    purpose: &impl Purpose,
) {
    let ledger = session.ledger().clone();
    let mut known: Vec<(Demand, bool)> = Vec::new();
    let mut searches = 0;
    for job in jobs.iter().filter(|job| !losers.contains(&job.key.group())) {
        let wanted = Wanted::of(session, *job);
        let before = Before::of(session, &ledger, &ground.rooms);
        if !purpose.may_start(&before, &wanted) || is_too_young(session, wanted.group) {
            continue;
        }
        let demand = Demand::of(session, &wanted);
        let same = known.iter().find(|(known, _)| demand.as_ref() == Some(known));
        let would_leave = if let Some((_, would_leave)) = same {
            *would_leave
        } else if searches == LOOKED_FOR_MAX {
            continue;
        } else {
            searches += 1;
            let start = session.checkpoint();
            let found = search(session, ground, (&before, &wanted), purpose);
            session.undo_to(start);
            found.is_some_and(|(solution, _)| !solution.victims.is_empty())
        };
        if would_leave {
            ground.bounded.push(wanted.group);
        }
        known.extend(demand.map(|demand| (demand, would_leave)));
    }
}

fn commit(session: &mut Session<'_>, served: &[Served], purpose: &impl Purpose) {
    if purpose.is_preemption() {
        let preempt = served.iter().filter(|served| !served.solution.victims.is_empty());
        session.count_preemptions(preempt.count());
    }
    let causes: BTreeMap<PodId, &EvictionCause> =
        served.iter().flat_map(|served| &served.causes).map(|(pod, cause)| (*pod, cause)).collect();
    session.commit_evictions(|pod| causes[&pod].clone());
}

fn is_too_young(session: &Session<'_>, group: PodGroupId) -> bool {
    let group = session.group(group);
    protection::preemption_delay_left(session.snapshot.now, group).is_some()
}

/// Searches. What is found is done, and not committed.
fn search(
    session: &mut Session<'_>,
    ground: &mut Ground,
    (before, wanted): (&Before<'_>, &Wanted),
    purpose: &impl Purpose,
) -> Option<(Solution, BTreeMap<PodId, EvictionCause>)> {
    let may_go = |unit: &Unit| purpose.protected_for(before, wanted, unit).is_none();
    let solution = search_among(session, ground, (before, wanted), purpose, may_go)?;
    let causes = causes(session, (before, wanted), purpose, &solution);
    Some((solution, causes))
}

/// For whom each pod leaves. Those who come before the job and take of what becomes free get it
/// first, as far as others may leave for them; the rest is the job's, the last one in any case.
fn causes(
    session: &Session<'_>,
    (before, wanted): (&Before<'_>, &Wanted),
    purpose: &impl Purpose,
    solution: &Solution,
) -> BTreeMap<PodId, EvictionCause> {
    let of = |(group, share): &(PodGroupId, PerResource<i64>)| {
        Some((Wanted::of(session, waiting(session, *group)?), *share))
    };
    let mut ahead: Vec<(Wanted, PerResource<i64>)> = solution.ahead.iter().filter_map(of).collect();
    let mut causes = BTreeMap::new();
    let last = solution.units().last().map(|unit| unit.key);
    for unit in solution.units() {
        let may_leave_for = |theirs: &Wanted| {
            theirs.group != unit.group
                && purpose.may_start(before, theirs)
                && purpose.may_take_from(before, theirs, unit.queue)
                && purpose.protected_for(before, theirs, unit).is_none()
        };
        let mut takers = ahead.iter_mut().filter(|(theirs, _)| may_leave_for(theirs));
        let cause = match takers.next().filter(|_| Some(unit.key) != last) {
            None => purpose.cause(before, wanted, unit),
            Some((theirs, left)) => {
                *left = left.minus(unit.amount);
                purpose.cause(before, theirs, unit)
            }
        };
        ahead.retain(|(_, left)| left.values().iter().any(|left| *left > 0));
        causes.extend(unit.pods.iter().map(|(pod, _)| (*pod, cause.clone())));
    }
    causes
}

/// Of those that would leave for a job that is not served, if minimum run times were over, who is
/// protected for the longest.
fn protection(
    session: &mut Session<'_>,
    ground: &mut Ground,
    (before, wanted): (&Before<'_>, &Wanted),
    purpose: &impl Purpose,
) -> Option<Protection> {
    if !session.has_min_runtimes() {
        return None;
    }
    let left = |unit: &Unit| purpose.protected_for(before, wanted, unit).unwrap_or_default();
    let may_go = |unit: &Unit| left(unit) < Duration::MAX;
    let pool = &ground.pool;
    let queues = pool.queues().filter(|queue| purpose.may_take_from(before, wanted, *queue));
    let mut units = queues.flat_map(|queue| pool.worst_first(queue, None));
    if !units.any(|unit| may_go(unit) && !left(unit).is_zero()) {
        return None;
    }
    drop(units);
    let start = session.checkpoint();
    let solution = search_among(session, ground, (before, wanted), purpose, may_go);
    session.undo_to(start);
    let solution = solution?;
    let protected = solution.units().filter(|unit| !left(unit).is_zero());
    let longest = protected.max_by_key(|unit| left(unit))?;
    let ran = session.snapshot.now.since(session.group(longest.group).last_start?);
    let is_reclaim = purpose.action() == Action::Reclaim;
    let field = if is_reclaim { "reclaimMinRuntime" } else { "preemptMinRuntime" };
    Some(Protection { victim: longest.group, field, minimum: left(longest) + ran })
}

fn note(session: &mut Session<'_>, wanted: &Wanted, protection: Option<Protection>) {
    if let Some(protection) = protection {
        session.note_protection(wanted.group, protection);
    }
}

/// Searches among the units that `may_go`.
fn search_among(
    session: &mut Session<'_>,
    Ground { pool, rooms, backlog, .. }: &mut Ground,
    (before, wanted): (&Before<'_>, &Wanted),
    purpose: &impl Purpose,
    may_go: impl Fn(&Unit) -> bool,
) -> Option<Solution> {
    if !session.fit_empty_fleet(&wanted.pods) {
        return None;
    }
    let about = |pod: PodId| About {
        shape: session.shape_of(pod),
        nodes: &session.snapshot.nodes,
        eligible: session.eligible_nodes(pod),
    };
    rooms.focus(wanted.pods.iter().map(|pod| (*pod, session.pod(*pod).shape)), about);
    let queues = pool.queues().filter(|queue| purpose.may_take_from(before, wanted, *queue));
    let may_go = |unit: &Unit| unit.group != wanted.group && may_go(unit);
    let candidates = VictimLine::new(pool, before.ledger, queues, may_go);
    let accepts = |solution: &Solution| purpose.accepts(before, wanted, solution);
    let manner = purpose.manner();
    let places = session.required_places(wanted.group, &wanted.pods);
    let (places, gone, ahead, is_contested) = (places.as_deref(), Vec::new(), Vec::new(), false);
    let apart = Apart::of(session, rooms, wanted);
    let search = Search {
        session,
        rooms,
        backlog,
        wanted,
        accepts,
        manner,
        places,
        apart,
        tried: BTreeMap::new(),
        gone,
        is_contested,
        ahead,
    };
    search.run(candidates)
}

/// The job, if it has pods to place next.
pub(super) fn waiting(session: &Session<'_>, id: PodGroupId) -> Option<Waiting> {
    let (group, members) = (session.group(id), session.members(id));
    let Ok(Some(queue)) = group.queue else { return None };
    if !members.wait() || group.left_alone || members.ready(group).is_err() {
        return None;
    }
    let request = session.share_of(&session.next_chunk(id));
    Some(Waiting { queue, key: session.waiting_key(id), request })
}

fn kind(session: &Session<'_>, id: PodGroupId) -> Kind {
    let pods = session.next_chunk(id);
    let likeness = Likeness::of(session, id, &pods)?;
    Some((likeness, pods.len(), session.group(id).preemptible))
}

fn catch_up(rooms: &mut Rooms, session: &Session<'_>, mark: Mark) {
    let changed: BTreeSet<NodeId> = match session.changed_nodes().since(mark) {
        Some(nodes) => nodes.iter().copied().collect(),
        None => session.node_ids().collect(),
    };
    for node in changed {
        rooms.set_free(node, Free::of(session, node));
    }
}
