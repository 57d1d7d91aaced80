//! The waiting jobs of all queues, in the order in which they are served.

use std::collections::BTreeMap;

use super::{Direction, Ledger, Offer, Race};
use crate::{
    model::{PodGroupId, QueueId},
    profile::JobRule,
    resources::PerResource,
};

/// Place of a job inside its queue; the smallest is served first, the largest evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobKey {
    /// What the rules say, the first one first. Less is better.
    ranks: [i64; JobRule::ALL.len()],
    age_rank: u32,
    group: PodGroupId,
}

/// How a job stands to its minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortfall {
    /// Fewer pods have a node than it needs.
    BelowMinimum,
    /// Exactly as many.
    AtMinimum,
    /// It has elastic surplus.
    AboveMinimum,
}

/// A job that waits for its next pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its leaf queue.
    pub queue: QueueId,
    /// Its place in that queue.
    pub key: JobKey,
    /// What its next pods (a gang's missing minimum, or one elastic pod) ask for together, as
    /// when shares are divided.
    pub request: PerResource<i64>,
}

/// The jobs of all queues. Taking one and putting one back cost a logarithm a level of the tree.
#[derive(Clone, Debug)]
pub struct JobLine {
    jobs: Vec<BTreeMap<JobKey, PerResource<i64>>>,
    race: Race,
}

impl JobKey {
    /// By `rules`, then by `age_rank`, which orders groups by creation, then uid: see
    /// [`age_ranks`](super::age_ranks).
    pub fn new(
        rules: &[JobRule],
        priority: i32,
        shortfall: Shortfall,
        age_rank: u32,
        group: PodGroupId,
    ) -> Self {
        let mut ranks = [0; JobRule::ALL.len()];
        for (rank, rule) in ranks.iter_mut().zip(rules) {
            *rank = match rule {
                JobRule::Priority => -i64::from(priority),
                JobRule::Elastic => shortfall as i64,
            };
        }
        Self { ranks, age_rank, group }
    }

    /// Whose place it is.
    pub const fn group(&self) -> PodGroupId {
        self.group
    }
}

/// The first `depth` jobs of each queue.
pub fn first_of_each(mut jobs: Vec<Waiting>, depth: usize) -> Vec<Waiting> {
    let mut taken: BTreeMap<QueueId, usize> = BTreeMap::new();
    jobs.sort_by_key(|job| job.key);
    jobs.retain(|job| {
        let taken = taken.entry(job.queue).or_default();
        *taken += 1;
        *taken <= depth
    });
    jobs
}

impl JobLine {
    /// All of `jobs`, by the accounts as they are.
    pub fn new(ledger: &Ledger, jobs: impl IntoIterator<Item = Waiting>) -> Self {
        let race = Race::new(ledger, Direction::ToServe);
        let mut line = Self { jobs: vec![BTreeMap::new(); ledger.len()], race };
        for job in jobs {
            line.jobs[job.queue.0 as usize].insert(job.key, job.request);
        }
        for queue in 0..ledger.len() {
            let queue = QueueId(u32::try_from(queue).expect("queue ids are 32 bits"));
            if !line.jobs[queue.0 as usize].is_empty() {
                line.accounts_changed(ledger, queue);
            }
        }
        line
    }

    /// A first job that would take its queue, or one above it, beyond its share, and so speaks
    /// badly for it. Each is told once for each place that its queue takes.
    pub fn reaching(&mut self, ledger: &Ledger) -> Option<Waiting> {
        let queue = self.race.reaching(ledger)?;
        let (key, request) = self.jobs[queue.0 as usize].first_key_value()?;
        Some(Waiting { queue, key: *key, request: *request })
    }

    /// Takes a job out before its turn.
    pub fn remove(&mut self, ledger: &Ledger, job: &Waiting) {
        self.jobs[job.queue.0 as usize].remove(&job.key);
        self.accounts_changed(ledger, job.queue);
    }

    /// Takes out the job that is next.
    pub fn pop(&mut self, ledger: &Ledger) -> Option<Waiting> {
        let queue = self.race.best()?;
        let (key, request) = self.jobs[queue.0 as usize].pop_first()?;
        self.accounts_changed(ledger, queue);
        Some(Waiting { queue, key, request })
    }

    /// Puts a job (back) in.
    pub fn push(&mut self, ledger: &Ledger, job: Waiting) {
        self.jobs[job.queue.0 as usize].insert(job.key, job.request);
        self.accounts_changed(ledger, job.queue);
    }

    /// To be called when something was placed for, or evicted from, `queue`.
    pub fn accounts_changed(&mut self, ledger: &Ledger, queue: QueueId) {
        let first = self.jobs[queue.0 as usize].first_key_value();
        let offer =
            first.map(|(_, request)| Offer { job: *request, victims: PerResource::default() });
        self.race.update(ledger, queue, offer);
    }
}
