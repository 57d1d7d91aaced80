//! The pending jobs of all queues, in the order in which they are served.

use std::collections::BTreeMap;

use super::{OrderPurpose, QueueAccounts, QueueCandidate, QueueOrder};
use crate::{
    model::{PodGroupId, QueueId},
    profile::JobOrderRule,
    resources::PerResource,
};

/// Position of a job within its queue: the smallest key is served first, the largest is evicted
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobKey {
    /// One rank per rule, in the order of the rules; lower is better.
    ranks: [i64; JobOrderRule::ALL.len()],
    age_rank: u32,
    group: PodGroupId,
}

/// How many pods a job has compared to its minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MinimumStatus {
    /// The job has fewer pods than its minimum.
    BelowMinimum,
    /// The job has exactly its minimum.
    AtMinimum,
    /// The job has more pods than its minimum (elastic surplus).
    AboveMinimum,
}

/// A pending job with pods to place next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedJob {
    /// Leaf queue of the job.
    pub queue: QueueId,
    /// Position of the job within its queue.
    pub key: JobKey,
    /// What the job's next pods (those that a gang lacks of its minimum, or one elastic pod)
    /// request together, as counted for fair shares.
    pub request: PerResource<i64>,
}

/// The pending jobs of all queues, in the order in which they are served. Removing or adding one
/// costs a logarithm per level of the queue tree.
#[derive(Clone, Debug)]
pub struct JobsByQueue {
    jobs: Vec<BTreeMap<JobKey, PerResource<i64>>>,
    order: QueueOrder,
}

impl JobKey {
    /// Creates the key by `rules`, then by `age_rank`, the order of creation and uid: see
    /// [`age_ranks`](super::age_ranks).
    pub fn new(
        rules: &[JobOrderRule],
        priority: i32,
        minimum_status: MinimumStatus,
        age_rank: u32,
        group: PodGroupId,
    ) -> Self {
        let mut ranks = [0; JobOrderRule::ALL.len()];
        for (rank, rule) in ranks.iter_mut().zip(rules) {
            *rank = match rule {
                JobOrderRule::Priority => -i64::from(priority),
                JobOrderRule::Elastic => minimum_status as i64,
            };
        }
        Self { ranks, age_rank, group }
    }

    /// The pod group of the job.
    pub const fn group(&self) -> PodGroupId {
        self.group
    }
}

/// The first `depth` jobs of each queue.
pub fn first_jobs_per_queue(mut jobs: Vec<QueuedJob>, depth: usize) -> Vec<QueuedJob> {
    let mut count: BTreeMap<QueueId, usize> = BTreeMap::new();
    jobs.sort_by_key(|job| job.key);
    jobs.retain(|job| {
        let count = count.entry(job.queue).or_default();
        *count += 1;
        *count <= depth
    });
    jobs
}

impl JobsByQueue {
    /// All of `jobs`, ordered by the current accounts.
    pub fn new(accounts: &QueueAccounts, jobs: impl IntoIterator<Item = QueuedJob>) -> Self {
        let order = QueueOrder::new(accounts, OrderPurpose::Allocate);
        let mut queued = Self { jobs: vec![BTreeMap::new(); accounts.len()], order };
        for job in jobs {
            queued.jobs[job.queue.0 as usize].insert(job.key, job.request);
        }
        for queue in 0..accounts.len() {
            let queue = QueueId(u32::try_from(queue).expect("queue ids are 32 bits"));
            if !queued.jobs[queue.0 as usize].is_empty() {
                queued.on_accounts_changed(accounts, queue);
            }
        }
        queued
    }

    /// The first job of a queue that would take its queue, or an ancestor, beyond its share. The
    /// same job is returned again only after its queue's position among the siblings changed.
    pub fn next_over_share(&mut self, accounts: &QueueAccounts) -> Option<QueuedJob> {
        let queue = self.order.next_over_share(accounts)?;
        let (key, request) = self.jobs[queue.0 as usize].first_key_value()?;
        Some(QueuedJob { queue, key: *key, request: *request })
    }

    /// Removes a job before its turn.
    pub fn remove_job(&mut self, accounts: &QueueAccounts, job: &QueuedJob) {
        self.jobs[job.queue.0 as usize].remove(&job.key);
        self.on_accounts_changed(accounts, job.queue);
    }

    /// Removes and returns the next job.
    pub fn pop_next_job(&mut self, accounts: &QueueAccounts) -> Option<QueuedJob> {
        let queue = self.order.best_queue()?;
        let (key, request) = self.jobs[queue.0 as usize].pop_first()?;
        self.on_accounts_changed(accounts, queue);
        Some(QueuedJob { queue, key, request })
    }

    /// Adds a job.
    pub fn push_job(&mut self, accounts: &QueueAccounts, job: QueuedJob) {
        self.jobs[job.queue.0 as usize].insert(job.key, job.request);
        self.on_accounts_changed(accounts, job.queue);
    }

    /// Updates the order of the queues after pods of `queue` were placed or evicted.
    pub fn on_accounts_changed(&mut self, accounts: &QueueAccounts, queue: QueueId) {
        let first = self.jobs[queue.0 as usize].first_key_value();
        let candidate = first
            .map(|(_, request)| QueueCandidate { job: *request, victims: PerResource::default() });
        self.order.set_candidate(accounts, queue, candidate);
    }
}
