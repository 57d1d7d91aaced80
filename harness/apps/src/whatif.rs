//! What would happen if a captured cluster were changed: work submitted, nodes added or removed,
//! queues changed. The scheduler decides about the cluster as it is and as it would be, in virtual
//! time; nothing is written to any cluster.

mod answer;
mod apply;
mod change;
mod lifecycle;
mod nodes;
mod submitted;
mod text;

use std::time::Duration;

use jiff::Timestamp;
use schedlab_casefiles::{Case, CaseError};
use schedlab_scheduler::{
    replay::forecast::{ForecastOptions, forecast},
    snapshot_file::Overrides,
};

pub use answer::{
    Answer, EvictedGroup, ForecastEnd, PendingReason, PlanStep, QueueDifference, StartedGroup,
    SubmittedGroup,
};
pub use apply::DisplacedPod;
pub use change::{
    Amount, ChangeError, Changes, NamedAmount, NewNodes, PriorityChange, QueueChange, QueueField,
};
use lifecycle::{RunTimes, lifecycles};

/// How far a cluster is played on.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Play on for so long, with run times where they are known. `None`: until the cluster is at
    /// rest, and no pod ends.
    pub horizon: Option<Duration>,
    /// Maximum number of cycles; `None`: no maximum.
    pub cycles_max: Option<u32>,
    /// Settings of the scheduler that override those of the case.
    pub overrides: Overrides,
}

/// Virtual time within which a cluster comes to rest after a change.
const REST_WITHIN: Duration = Duration::from_mins(10);

/// Asks what would happen to a case if `changes` were made.
///
/// ```
/// use schedlab_api::json;
/// use schedlab_apps::whatif::{Changes, Options, what_if};
/// use schedlab_casefiles::Case;
/// use std::sync::Arc;
///
/// let mut case = Case::default();
/// let amounts = json!({ "cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8" });
/// let objects = [
///     ("nodes", json!({ "metadata": { "name": "node-1" },
///         "status": { "allocatable": amounts,
///                     "conditions": [{ "type": "Ready", "status": "True" }] } })),
///     ("queues", json!({ "metadata": { "name": "team" },
///         "spec": { "resources": { "gpu": { "quota": 8, "limit": -1, "overQuotaWeight": 1 },
///             "cpu": { "quota": -1, "limit": -1 }, "memory": { "quota": -1, "limit": -1 } } } })),
/// ];
/// for (list, object) in objects {
///     case.cluster.objects.insert(list.to_owned(), vec![Arc::new(object)]);
/// }
/// let pod = json!({ "apiVersion": "v1", "kind": "Pod",
///     "metadata": { "name": "train", "namespace": "default",
///                   "labels": { "kai.scheduler/queue": "team" } },
///     "spec": { "schedulerName": "kai-scheduler", "containers": [{ "name": "train", "image": "train",
///         "resources": { "limits": { "nvidia.com/gpu": "4" } } }] } });
/// let changes = Changes { submitted: vec![pod], ..Changes::default() };
/// let answer = what_if(&case, &changes, &Options::default())?;
/// assert_eq!(answer.started[0].nodes, ["node-1"]);
/// assert!(answer.evicted.is_empty());
/// # Ok::<(), schedlab_apps::whatif::WhatIfError>(())
/// ```
///
/// # Errors
/// A change names a queue, node, model, workload or priority class that the case does not have, a
/// submitted object is refused, or a setting of the case is invalid.
pub fn what_if(case: &Case, changes: &Changes, options: &Options) -> Result<Answer, WhatIfError> {
    let mut loader = case.cluster.loader(&options.overrides).map_err(CaseError::from)?;
    let start = captured_millis(case).unwrap_or_else(|| loader.time_after_last_event_millis());
    let submitted = if changes.submitted.is_empty() {
        Vec::new()
    } else {
        let now = Timestamp::from_millisecond(start).unwrap_or_default();
        submitted::expand(case, &changes.submitted, loader.config(), now)?
    };
    let changed = apply::apply(case, changes, submitted)?;
    let run_times = if options.horizon.is_some() { RunTimes::Known } else { RunTimes::Ignored };
    let forecast_options = |case: &Case| ForecastOptions {
        start_millis: Some(start),
        horizon: options.horizon.unwrap_or(REST_WITHIN),
        cycles_max: options.cycles_max.unwrap_or(u32::MAX),
        lifecycles: lifecycles(case, run_times),
    };
    let without = loader.forecast_base();
    loader.update(&case.cluster, &changed.case.cluster);
    let with = loader.forecast_base();
    let (without, with) = std::thread::scope(|scope| {
        let without = scope.spawn(|| forecast(without, &forecast_options(case)));
        let with = forecast(with, &forecast_options(&changed.case));
        (without.join(), with)
    });
    let without = without.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let mut answer = Answer::compare(&changed, &without, &with);
    if let Some(horizon) = options.horizon {
        let is_cut = options.cycles_max.is_some_and(|most| answer.end.cycles >= most);
        if !answer.end.at_rest && !is_cut {
            answer.end.after_secs = horizon.as_secs_f64();
        }
        answer.notes.extend(lifecycle::unknown_run_times_note(&changed.case));
    }
    Ok(answer)
}

/// When the case was captured.
fn captured_millis(case: &Case) -> Option<i64> {
    case.manifest.captured_at.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

/// Why a question about a cluster has no answer.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// A change cannot be made.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A setting of the case is invalid.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The emulated cluster of the submitted objects failed.
    #[error("{0:#}")]
    Submitted(anyhow::Error),
}

impl From<anyhow::Error> for WhatIfError {
    fn from(error: anyhow::Error) -> Self {
        error.downcast().map_or_else(Self::Submitted, Self::Change)
    }
}

#[cfg(test)]
mod tests;
