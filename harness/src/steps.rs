//! The steps, by what they are about. Their doc comments are the vocabulary that
//! `schedlab steps` shows: one sentence or two, then an example.

mod failure;
mod parameters;
mod time;

use cucumber::step::Collection;
use gherkin::Step;

use crate::world::World;

pub(crate) use failure::StepResult;

/// The sources of all steps, by area, in reading order.
pub(crate) const SOURCES: &[(&str, &str)] = &[("time", include_str!("steps/time.rs"))];

/// Whether a step shows something that is compared with a snapshot.
pub(crate) fn shows(step: &Step, steps: &Collection<World>) -> bool {
    let location = steps.find(step).ok().flatten().and_then(|(_, _, location, _)| location);
    location.is_some_and(|location| location.path.ends_with("steps/snapshots.rs"))
}
