//! What the three actions that evict have in common: jobs in serving order, for each one a
//! search, the first acceptable solution taken, and no second search for what was hopeless
//! before. What all of them took is decided when the next cycle would keep it ([`super::kept`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    About, Backlog, Before, Free, Kind, Likeness, Manner, Pool, Rooms, Search, Solution, Unit,
    VictimLine, Wanted,
    kept::{Served, spoiler},
    protection,
};
use crate::{
    decision::EvictionCause,
    model::{PodGroupId, PodId, QueueId},
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

/// Serves every waiting job that may start, so that all of them keep what they are promised, with
/// what was solved `earlier` in the cycle; what is solved is added to it.
pub(crate) fn serve(session: &mut Session<'_>, purpose: &impl Purpose, earlier: &mut Vec<Served>) {
    let jobs = session.groups().filter_map(|group| waiting(session, group));
    let mut jobs: Vec<Waiting> = jobs.collect();
    if jobs.is_empty() {
        return;
    }
    if let Some(depth) = session.profile.queue_depth.get(&purpose.action()) {
        jobs = first_of_each(jobs, *depth);
    }
    jobs.retain(|job| {
        let pods = session.next_chunk(job.key.group());
        session.fit_empty_fleet(&pods)
    });
    let mut spoilers = BTreeSet::new();
    loop {
        let Some(mut ground) = Ground::of(session, &jobs, purpose) else { return };
        let start = session.checkpoint();
        session.look_ahead(true);
        let in_line = jobs.iter().filter(|job| !spoilers.contains(&job.key.group()));
        let mut served = serve_each(session, &mut ground, in_line.copied(), purpose);
        let spoiler = spoiler(session, start, &ground.backlog, (earlier, &served));
        session.look_ahead(false);
        let Some(spoiler) = spoiler else {
            commit(session, &served, purpose);
            break earlier.append(&mut served);
        };
        spoilers.insert(spoiler);
    }
}

impl Ground {
    /// `None`: there is nothing to search for.
    fn of(session: &Session<'_>, jobs: &[Waiting], purpose: &impl Purpose) -> Option<Self> {
        let free = session.node_ids().map(|node| Free::of(session, node));
        let rooms = Rooms::new(free.collect());
        // Only a job that is served changes what another may.
        let may_start =
            |job: &Waiting| may_search(session, &rooms, &Wanted::of(session, *job), purpose);
        if !jobs.iter().any(may_start) {
            return None;
        }
        let pool = Pool::new(session);
        pool.queues().next()?;
        let kinds = jobs.iter().map(|job| (*job, kind(session, job.key.group())));
        let backlog = Backlog::new(session.ledger(), kinds);
        Some(Self { pool, rooms, backlog })
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
    while let Some(job) = line.pop(session.ledger()) {
        if purpose.is_preemption() && !session.may_preempt(preemptions) {
            break;
        }
        let wanted = Wanted::of(session, job);
        if !may_search(session, &ground.rooms, &wanted, purpose) {
            continue;
        }
        let demand = Demand::of(session, &wanted);
        if demand.as_ref().is_some_and(|demand| hopeless.covers(demand)) {
            continue;
        }
        let mark = session.changed_nodes().mark();
        let Some((solution, causes)) = search(session, ground, &wanted, purpose) else {
            if let Some(demand) = demand {
                hopeless.remember(demand);
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
            touched.insert(unit.queue);
        }
        for queue in touched {
            line.accounts_changed(session.ledger(), queue);
            ground.backlog.accounts_changed(session.ledger(), queue);
        }
        catch_up(&mut ground.rooms, session, mark);
        served.push(Served { wanted, solution, causes });
    }
    served
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

/// Searches. What is found is done, and not committed.
fn search(
    session: &mut Session<'_>,
    Ground { pool, rooms, backlog }: &mut Ground,
    wanted: &Wanted,
    purpose: &impl Purpose,
) -> Option<(Solution, BTreeMap<PodId, EvictionCause>)> {
    if !session.fit_empty_fleet(&wanted.pods) {
        return None;
    }
    let ledger = session.ledger().clone();
    let before = Before::of(session, &ledger, rooms);
    let about = |pod: PodId| About {
        shape: session.shape_of(pod),
        nodes: &session.snapshot.nodes,
        eligible: session.eligible_nodes(pod),
    };
    rooms.focus(wanted.pods.iter().map(|pod| (*pod, session.pod(*pod).shape)), about);
    let queues = pool.queues().filter(|queue| purpose.may_take_from(&before, wanted, *queue));
    let may_go = |unit: &Unit| {
        unit.group != wanted.group && purpose.protected_for(&before, wanted, unit).is_none()
    };
    let candidates = VictimLine::new(pool, &ledger, queues, may_go);
    let accepts = |solution: &Solution| purpose.accepts(&before, wanted, solution);
    let manner = purpose.manner();
    let places = session.required_places(wanted.group, &wanted.pods);
    let (places, gone, is_contested) = (places.as_deref(), Vec::new(), false);
    let search =
        Search { session, rooms, backlog, wanted, accepts, manner, places, gone, is_contested };
    let solution = search.run(candidates)?;
    let causes = solution
        .units()
        .map(|unit| (unit, purpose.cause(&before, wanted, unit)))
        .flat_map(|(unit, cause)| unit.pods.iter().map(move |(pod, _)| (*pod, cause.clone())))
        .collect();
    Some((solution, causes))
}

/// The job, if it has pods to place next.
pub(super) fn waiting(session: &Session<'_>, id: PodGroupId) -> Option<Waiting> {
    let (group, members) = (session.group(id), session.members(id));
    let Ok(Some(queue)) = group.queue else { return None };
    if !members.wait() || group.left_alone || members.ready(group).is_err() {
        return None;
    }
    let request = session.share_of(&session.next_chunk(id));
    Some(Waiting { queue, key: session.job_key(id, members.shortfall(group)), request })
}

fn kind(session: &Session<'_>, id: PodGroupId) -> Kind {
    let pods = session.next_chunk(id);
    let likeness = Likeness::of(session, id, &pods)?;
    Some((likeness, pods.len(), session.group(id).preemptible))
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
struct Hopeless(BTreeMap<(QueueId, bool, Likeness), Vec<Failed>>);

/// What a job asks for, as far as others ask for the like.
struct Demand {
    /// Its queue, whether it is preemptible, and its pods.
    alike: (QueueId, bool, Likeness),
    how_much: Failed,
}

struct Failed {
    priority: i32,
    /// Of each shape.
    pods: Vec<u64>,
}

impl Demand {
    /// `None`: it is like no other.
    fn of(session: &Session<'_>, wanted: &Wanted) -> Option<Self> {
        let likeness = Likeness::of(session, wanted.group, &wanted.pods)?;
        let priority = session.group(wanted.group).priority;
        let pods = wanted.pods_by_shape(session).into_values().collect();
        let alike = (wanted.queue, wanted.preemptible, likeness);
        Some(Self { alike, how_much: Failed { priority, pods } })
    }
}

impl Hopeless {
    fn covers(&self, Demand { alike, how_much }: &Demand) -> bool {
        self.0.get(alike).into_iter().flatten().any(|failed| {
            how_much.priority <= failed.priority
                && failed.pods.iter().zip(&how_much.pods).all(|(then, now)| then <= now)
        })
    }

    fn remember(&mut self, Demand { alike, how_much }: Demand) {
        self.0.entry(alike).or_default().push(how_much);
    }
}
