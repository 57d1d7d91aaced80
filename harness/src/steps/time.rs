//! Time passes only when a step lets it.

use anyhow::anyhow;
use cucumber::{given, when};

use super::StepResult;
use super::parameters::Span;
use crate::world::World;

/// Lets so much of the cluster's time pass.
/// ```gherkin
/// When 10 minutes pass
/// ```
#[given(expr = "{duration} pass(es)")]
#[when(expr = "{duration} pass(es)")]
async fn time_passes(world: &mut World, span: Span) -> StepResult {
    world.pass(span.0).await?;
    Ok(())
}

/// Lets the scheduler run so many cycles.
/// ```gherkin
/// When 5 cycles pass
/// ```
#[when(expr = "{int} cycle(s) pass(es)")]
async fn cycles_pass(world: &mut World, cycles: u32) -> StepResult {
    if cycles == 0 {
        return Err(anyhow!("found 0 cycles, allowed is at least one").into());
    }
    world.pass_cycles(cycles).await?;
    Ok(())
}

/// Lets the cluster run until nothing changes any more and every pod has started or gone.
/// ```gherkin
/// Given everything has settled
/// ```
#[given(expr = "everything has settled")]
#[when(expr = "everything has settled")]
async fn settled(world: &mut World) -> StepResult {
    world.settle().await?;
    Ok(())
}
