//! The step functions by area. Their doc comments are the step catalogue that `schedlab steps`
//! prints: one or two sentences, then an example.

mod admission_policies;
mod case_files;
pub mod catalogue;
mod devices;
mod evictions;
mod faults;
mod fields;
mod fleet;
mod gangs;
mod parameters;
mod placement;
mod pods;
mod queues;
mod reasons;
mod scaling;
mod scheduler;
mod snapshots;
mod subjects;
mod time;
mod unknown_names;
mod usage;
mod workloads;

use std::fmt;
use std::sync::LazyLock;

use cucumber::step::Collection;
use gherkin::Step;

use crate::report::ClaimKind;
use crate::world::World;
use catalogue::{OtherClaim, StepDoc};

pub(crate) use unknown_names::{mentions_in_sentence, never_existed_message, unknown_name_message};

/// The title of the area, the file and the source text of all step functions, in reading order.
pub(crate) const STEP_SOURCES: &[(&str, &str, &str)] = &[
    ("fleet", "steps/fleet.rs", include_str!("steps/fleet.rs")),
    ("case files", "steps/case_files.rs", include_str!("steps/case_files.rs")),
    ("scheduler", "steps/scheduler.rs", include_str!("steps/scheduler.rs")),
    ("queues", "steps/queues.rs", include_str!("steps/queues.rs")),
    ("workloads", "steps/workloads.rs", include_str!("steps/workloads.rs")),
    ("scaling", "steps/scaling.rs", include_str!("steps/scaling.rs")),
    ("devices", "steps/devices.rs", include_str!("steps/devices.rs")),
    ("faults", "steps/faults.rs", include_str!("steps/faults.rs")),
    (
        "admission policies",
        "steps/admission_policies.rs",
        include_str!("steps/admission_policies.rs"),
    ),
    ("time", "steps/time.rs", include_str!("steps/time.rs")),
    ("pods", "steps/pods.rs", include_str!("steps/pods.rs")),
    ("placement", "steps/placement.rs", include_str!("steps/placement.rs")),
    ("queue usage", "steps/usage.rs", include_str!("steps/usage.rs")),
    ("reasons and events", "steps/reasons.rs", include_str!("steps/reasons.rs")),
    ("fields", "steps/fields.rs", include_str!("steps/fields.rs")),
    ("evictions", "steps/evictions.rs", include_str!("steps/evictions.rs")),
    ("snapshots", "steps/snapshots.rs", include_str!("steps/snapshots.rs")),
];

/// Result of a step function.
pub type StepResult = Result<(), StepError>;

/// The error of a step. It is displayed with all of its causes.
#[derive(Debug)]
pub struct StepError(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for StepError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// Whether a step adds to the text that is compared with a snapshot.
pub fn is_snapshot_step(step: &Step, steps: &Collection<World>) -> bool {
    other_claim(step, steps).is_some_and(|claim| claim.kind == ClaimKind::Snapshot)
}

/// What a step claims besides behaviour; `None` if it claims behaviour only, or matches no step.
pub(crate) fn other_claim<'c>(step: &Step, steps: &Collection<World>) -> Option<&'c OtherClaim> {
    static CATALOGUE: LazyLock<Vec<StepDoc>> = LazyLock::new(catalogue::all_step_docs);
    let (_, _, location, _) = steps.find(step).ok().flatten()?;
    let location = location?;
    CATALOGUE.iter().find(|doc| doc.is_at(location))?.claim.as_ref()
}
