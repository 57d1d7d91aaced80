//! What searches read that is derived from the whole cluster: evictable units and pending jobs. The
//! actions of a cycle share it. It is derived anew once the cycle made a decision.

use super::{
    EvictionCandidates, PendingJobs, SearchMode,
    solve::{job_class, queued_job},
};
use crate::{framework::Session, queues::QueuedJob};

/// What the searches of a cycle derived so far.
#[derive(Default)]
pub(super) struct SearchInputs {
    /// Number of decisions of the cycle when the following were derived.
    decisions: usize,
    waiting_jobs: Option<Vec<QueuedJob>>,
    candidates: Option<EvictionCandidates>,
    /// The jobs that take part in simulations, and what was derived from them.
    pending: Option<(Vec<QueuedJob>, PendingJobs)>,
}

impl SearchInputs {
    /// Drops what does not hold after the decisions since the last call.
    pub(super) fn update(&mut self, session: &Session<'_>) {
        let decisions = session.decisions().len();
        if self.decisions != decisions {
            *self = Self { decisions, ..Self::default() };
        }
    }

    /// The waiting jobs, in name order.
    pub(super) fn waiting_jobs(&mut self, session: &Session<'_>) -> &[QueuedJob] {
        self.waiting_jobs.get_or_insert_with(|| {
            session.waiting_groups().filter_map(|group| queued_job(session, group)).collect()
        })
    }

    /// The evictable units for searches in this mode.
    pub(super) fn take_candidates(
        &mut self,
        session: &Session<'_>,
        mode: SearchMode,
    ) -> EvictionCandidates {
        let known = self.candidates.take().filter(|candidates| candidates.are_for(mode));
        known.unwrap_or_else(|| EvictionCandidates::new(session, mode))
    }

    /// The pending jobs that take part in simulations: those of `jobs`.
    pub(super) fn take_pending(
        &mut self,
        session: &Session<'_>,
        jobs: &[QueuedJob],
    ) -> PendingJobs {
        match self.pending.take() {
            Some((of, pending)) if of == jobs => pending,
            Some(_) | None => {
                let classes = jobs.iter().map(|job| (*job, job_class(session, job.key.group())));
                PendingJobs::new(session.accounts(), classes)
            }
        }
    }

    /// Gives back what the action did not change.
    pub(super) fn return_unchanged(
        &mut self,
        candidates: EvictionCandidates,
        jobs: &[QueuedJob],
        pending: PendingJobs,
    ) {
        self.candidates = Some(candidates);
        self.pending = Some((jobs.to_vec(), pending));
    }
}
