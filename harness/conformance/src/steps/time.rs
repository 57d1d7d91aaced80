//! Time passes only when a step lets it.

use anyhow::anyhow;
use cucumber::{given, when};

use super::StepResult;
use super::parameters::DurationValue;
use crate::world::World;

/// Lets this much of the cluster's time pass.
/// ```gherkin
/// When 10 minutes pass
/// ```
#[given(expr = "{duration} pass(es)")]
#[when(expr = "{duration} pass(es)")]
async fn time_passes(world: &mut World, span: DurationValue) -> StepResult {
    world.run_for(span.0).await?;
    Ok(())
}

/// Lets the scheduler run this number of cycles.
/// ```gherkin
/// When 5 cycles pass
/// ```
#[when(expr = "{int} cycle(s) pass(es)")]
async fn cycles_pass(world: &mut World, cycles: u32) -> StepResult {
    if cycles == 0 {
        return Err(anyhow!("got 0 cycles, expected at least one").into());
    }
    world.run_for_cycles(cycles).await?;
    Ok(())
}

/// Waits until nothing changes any more and every pod has started or terminated.
/// ```gherkin
/// Given everything has settled
/// ```
#[given(expr = "everything has settled")]
#[when(expr = "everything has settled")]
async fn cluster_is_settled(world: &mut World) -> StepResult {
    world.settle().await?;
    Ok(())
}
