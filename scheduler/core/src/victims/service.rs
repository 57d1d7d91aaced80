//! What the three actions that evict have in common: jobs in serving order, for each one a
//! search, the first acceptable solution decided at once, and no second search for what was
//! hopeless before.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    About, Backlog, Before, Free, Manner, Pool, Rooms, Search, Solution, Unit, VictimLine, Wanted,
    protection,
};
use crate::{
    decision::EvictionCause,
    model::{PodGroupId, PodId, QueueId, ShapeId},
    profile::Action,
    queues::{JobLine, Waiting, first_of_each},
    session::{Mark, Session},
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
}

/// Serves every waiting job that may start.
pub(crate) fn serve(session: &mut Session<'_>, purpose: &impl Purpose) {
    let jobs = session.groups().filter_map(|group| waiting(session, group));
    let mut jobs: Vec<Waiting> = jobs.collect();
    if jobs.is_empty() {
        return;
    }
    let fleet = session.fleet();
    jobs.retain(|job| !session.exceeds(&fleet, job.key.group()));
    if let Some(depth) = session.profile.queue_depth.get(&purpose.action()) {
        jobs = first_of_each(jobs, *depth);
    }
    let free = session.node_ids().map(|node| Free::of(session, node));
    let rooms = Rooms::new(free.collect());
    // Only a job that is served changes what another may.
    let may_start =
        |job: &Waiting| may_search(session, &rooms, &Wanted::of(session, *job), purpose);
    if !jobs.iter().any(may_start) {
        return;
    }
    let pool = Pool::new(session);
    if pool.queues().next().is_none() {
        return;
    }
    let mut line = JobLine::new(session.ledger(), jobs.iter().copied());
    let backlog = Backlog::new(session.ledger(), &jobs);
    let mut ground = Ground { pool, rooms, backlog };
    let mut hopeless = Hopeless::default();
    session.look_ahead(true);
    while let Some(job) = line.pop(session.ledger()) {
        if purpose.is_preemption() && !session.may_preempt() {
            break;
        }
        let wanted = Wanted::of(session, job);
        if !may_search(session, &ground.rooms, &wanted, purpose)
            || hopeless.covers(session, &wanted)
        {
            continue;
        }
        let mark = session.changed_nodes().mark();
        let Some(solution) = search(session, &mut ground, &wanted, purpose) else {
            hopeless.remember(session, &wanted);
            continue;
        };
        if purpose.is_preemption() && !solution.victims.is_empty() {
            session.count_preemption();
        }
        ground.backlog.remove(wanted.queue, wanted.key);
        if let Some(more) = waiting(session, wanted.group) {
            ground.backlog.insert(&more);
        }
        let mut touched = BTreeSet::from([wanted.queue]);
        for unit in solution.units() {
            ground.pool.remove(unit);
            touched.insert(unit.queue);
        }
        for queue in touched {
            line.accounts_changed(session.ledger(), queue);
            ground.backlog.accounts_changed(session.ledger(), queue);
        }
        catch_up(&mut ground.rooms, session, mark);
    }
    session.look_ahead(false);
}

fn may_search(
    session: &Session<'_>,
    rooms: &Rooms,
    wanted: &Wanted,
    purpose: &impl Purpose,
) -> bool {
    let group = session.group(wanted.group);
    protection::preemption_delay_left(session.snapshot.now, group).is_none()
        && purpose.may_start(&Before::of(session, session.ledger(), rooms), wanted)
}

/// Searches, and commits what it finds.
fn search(
    session: &mut Session<'_>,
    Ground { pool, rooms, backlog }: &mut Ground,
    wanted: &Wanted,
    purpose: &impl Purpose,
) -> Option<Solution> {
    let ledger = session.ledger().clone();
    let before = Before::of(session, &ledger, rooms);
    let about = |pod: PodId| About {
        shape: session.shape_of(pod),
        nodes: &session.snapshot.nodes,
        eligible: session.eligible_nodes(pod),
    };
    rooms.focus(wanted.pods.iter().map(|pod| (*pod, session.pod(*pod).shape)), about);
    let needed = wanted.pods_by_shape(session);
    if needed.iter().any(|(shape, count)| rooms.most(*shape) < *count) {
        return None;
    }
    let queues = pool.queues().filter(|queue| purpose.may_take_from(&before, wanted, *queue));
    let may_go = |unit: &Unit| {
        unit.group != wanted.group && purpose.protected_for(&before, wanted, unit).is_none()
    };
    let candidates = VictimLine::new(pool, &ledger, queues, may_go);
    let accepts = |solution: &Solution| purpose.accepts(&before, wanted, solution);
    let manner = purpose.manner();
    let places = session.required_places(wanted.group, &wanted.pods);
    let (places, gone) = (places.as_deref(), Vec::new());
    let search = Search { session, rooms, backlog, wanted, accepts, manner, places, gone };
    let solution = search.run(candidates)?;
    let causes: BTreeMap<PodId, EvictionCause> = solution
        .units()
        .map(|unit| (unit, purpose.cause(&before, wanted, unit)))
        .flat_map(|(unit, cause)| unit.pods.iter().map(move |(pod, _)| (*pod, cause.clone())))
        .collect();
    session.commit_evictions(|pod| causes[&pod].clone());
    Some(solution)
}

/// The job, if it has pods to place next.
fn waiting(session: &Session<'_>, id: PodGroupId) -> Option<Waiting> {
    let (group, members) = (session.group(id), session.members(id));
    let Ok(Some(queue)) = group.queue else { return None };
    if !members.wait() || group.left_alone || members.ready(group).is_err() {
        return None;
    }
    let request = session.request_of(&session.next_chunk(id));
    Some(Waiting { queue, key: session.job_key(id, members.shortfall(group)), request })
}

fn catch_up(rooms: &mut Rooms, session: &Session<'_>, mark: Mark) {
    let set = |rooms: &mut Rooms, node| rooms.set_free(node, Free::of(session, node));
    match session.changed_nodes().since(mark) {
        Some(nodes) => nodes.iter().for_each(|node| set(rooms, *node)),
        None => session.node_ids().for_each(|node| set(rooms, node)),
    }
}

/// Jobs for which nothing was found in this action. One of the same queue that asks for no less
/// is not searched for again.
#[derive(Default)]
struct Hopeless(BTreeMap<(QueueId, bool, Vec<ShapeId>), Vec<Failed>>);

struct Failed {
    priority: i32,
    /// Of each shape.
    pods: Vec<u64>,
}

impl Hopeless {
    fn covers(&self, session: &Session<'_>, wanted: &Wanted) -> bool {
        if session.group(wanted.group).is_placed() {
            return false;
        }
        let (shapes, pods) = wanted.pods_by_shape(session).into_iter().unzip();
        let Some(failed) = self.0.get(&(wanted.queue, wanted.preemptible, shapes)) else {
            return false;
        };
        let priority = session.group(wanted.group).priority;
        let pods: Vec<u64> = pods;
        failed.iter().any(|failed| {
            priority <= failed.priority
                && failed.pods.iter().zip(&pods).all(|(then, now)| then <= now)
        })
    }

    fn remember(&mut self, session: &Session<'_>, wanted: &Wanted) {
        if session.group(wanted.group).is_placed() {
            return;
        }
        let (shapes, pods) = wanted.pods_by_shape(session).into_iter().unzip();
        let priority = session.group(wanted.group).priority;
        let key = (wanted.queue, wanted.preemptible, shapes);
        self.0.entry(key).or_default().push(Failed { priority, pods });
    }
}
