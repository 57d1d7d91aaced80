//! Who may have to leave for whom: the running work as units that can be evicted ([`Pool`]), the
//! order in which they are considered ([`VictimLine`]), what protects them ([`protection`]), how
//! many pods would fit once they are gone ([`Rooms`]), and the search that finds an acceptable
//! set ([`serve`]). By which rules is said by each action's [`Purpose`].

mod apart;
mod backlog;
mod candidates;
mod elsewhere;
mod hopeless;
mod likeness;
mod line;
mod pool;
pub(crate) mod protection;
mod rehearsal;
mod returning;
mod room;
mod search;
mod service;
mod trial;
mod units;

use std::collections::BTreeMap;

use crate::{
    Profile, Snapshot,
    model::{PodGroup, PodGroupId, PodId, QueueId, ShapeId},
    queues::{JobKey, Ledger, Waiting},
    resources::PerResource,
    session::{Free, Session},
};

pub(crate) use candidates::{first_to_leave, reclaim_candidates};
pub(crate) use rehearsal::Solved;
pub(crate) use service::{Purpose, serve};
pub(crate) use units::{Piece, Unit};

use apart::Apart;
use backlog::{Backlog, Kind};
use likeness::Likeness;
use line::VictimLine;
use pool::Pool;
use room::{About, Rooms};
use search::{Limits, Search};
use units::UnitKey;

/// What a search starts from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) profile: &'a Profile,
    /// Before anybody was evicted for the job.
    pub(crate) ledger: &'a Ledger,
    /// What is free, or will be, on all nodes together.
    pub(crate) free: PerResource<i64>,
}

/// A job that would have others leave.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) group: PodGroupId,
    pub(crate) queue: QueueId,
    /// Its place among the jobs of its queue.
    pub(crate) key: JobKey,
    pub(crate) preemptible: bool,
    /// Its next pods: a gang's missing minimum, or one elastic pod.
    pub(crate) pods: Vec<PodId>,
    /// What they ask for when limits and quotas are checked.
    pub(crate) request: PerResource<i64>,
    /// And when shares are divided.
    pub(crate) share: PerResource<i64>,
}

/// What a search is out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Others have to leave for the job. A gang that is moved is moved whole.
    Evict,
    /// Others only move, and no further than they must, even a part of a gang.
    Move,
}

/// What it takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Solution {
    /// Gone, in the order in which they were considered.
    pub(crate) victims: Vec<Unit>,
    /// Evicted, and promised a place elsewhere.
    pub(crate) moved: Vec<Unit>,
    /// Who comes before the job and takes of what becomes free, and how much of it.
    pub(crate) ahead: Vec<(PodGroupId, PerResource<i64>)>,
}

impl<'a> Before<'a> {
    fn of(session: &Session<'a>, ledger: &'a Ledger, rooms: &Rooms) -> Self {
        let (snapshot, profile) = (session.snapshot, session.profile);
        Self { snapshot, profile, ledger, free: rooms.free_in_all() }
    }

    pub(crate) fn group(&self, group: PodGroupId) -> &'a PodGroup {
        &self.snapshot.pod_groups[group.0 as usize]
    }
}

impl Wanted {
    fn of(session: &Session<'_>, job: Waiting) -> Self {
        let (id, Waiting { queue, key, request: share }) = (job.key.group(), job);
        let group = session.group(id);
        let pods = session.members(id).next_chunk(group);
        let request = session.request_of(&pods);
        Self { group: id, queue, key, preemptible: group.preemptible, pods, request, share }
    }

    /// Its pods are promised room, if there is some and all queues above them keep their limits.
    fn promise(&self, session: &mut Session<'_>) -> bool {
        Limits::default().suffice(session.ledger(), self) && session.promise_all(&self.pods)
    }

    /// How many pods of each shape.
    fn pods_by_shape(&self, session: &Session<'_>) -> BTreeMap<ShapeId, u64> {
        let mut pods = BTreeMap::new();
        for pod in &self.pods {
            *pods.entry(session.pod(*pod).shape).or_default() += 1;
        }
        pods
    }
}

impl Solution {
    /// Everything that is evicted.
    pub(crate) fn units(&self) -> impl Iterator<Item = &Unit> {
        self.victims.iter().chain(&self.moved)
    }
}
