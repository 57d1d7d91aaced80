//! Time passes only when a step lets it.

use cucumber::when;

use super::StepResult;
use super::parameters::Span;
use crate::world::World;

/// Lets so much of the cluster's time pass.
/// ```gherkin
/// When 10 minutes pass
/// ```
#[when(expr = "{duration} pass(es)")]
async fn time_passes(world: &mut World, span: Span) -> StepResult {
    world.pass(span.0).await;
    Ok(())
}
