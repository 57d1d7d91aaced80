//! The progress of an experiment that runs, for another thread, and the request to stop it.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// Shows the progress of an experiment and can stop it. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Monitor(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_stopped: AtomicBool,
    progress: Mutex<Progress>,
}

/// The progress of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Virtual seconds since the first arrival.
    pub virtual_secs: f64,
    /// GPUs used by running pods ÷ all GPUs, in percent, at this moment.
    pub utilisation_percent: f64,
    /// GPUs that pending pods request, at this moment.
    pub pending_gpus: f64,
    /// Number of jobs of the trace.
    pub jobs: usize,
    /// Number of jobs that arrived.
    pub arrived: usize,
    /// Number of jobs that started.
    pub started: usize,
    /// Number of jobs that ended.
    pub ended: usize,
}

impl Monitor {
    /// Requests that the experiment ends now.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Relaxed)
    }

    /// The latest progress.
    pub fn progress(&self) -> Progress {
        *self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn report(&self, progress: Progress) {
        *self.0.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }
}

impl Progress {
    /// The part of the work that is done, from 0 to 1: of the arrivals, starts and ends of all jobs.
    pub fn fraction(&self) -> f64 {
        let all = 3 * self.jobs.max(1);
        super::to_f64(self.arrived + self.started + self.ended) / super::to_f64(all)
    }
}
