//! The scheduler: how it is set up, and how it comes and goes. It starts by itself when time
//! first passes.

use std::time::Duration;

use anyhow::anyhow;
use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use schedlab_scheduler::{Binding, Config, DefaultPriorities, GivenFile, GpuReservation, NodePool};
use schedlab_scheduler_core::profile::Placement;

use super::StepResult;
use super::parameters::{AtLeastOne, Count, KMilli, SomeTime, Span, Stays, When};
use crate::cluster::AfterKill;
use crate::world::World;

/// Which scheduler: "kai" (queues, gangs, fair share; the default) or "kube" (what default
/// kube-scheduler does). Workloads of later steps name it in `spec.schedulerName`.
/// ```gherkin
/// Given the scheduler profile "kube"
/// ```
#[given(expr = "the scheduler profile {string}")]
#[expect(clippy::needless_pass_by_value, reason = "steps are handed what the sentence says")]
fn profile(world: &mut World, name: String) -> StepResult {
    let seed = world.config_mut()?.seed;
    let config = match name.as_str() {
        "kai" => Config::kai(),
        "kube" => Config::kube(),
        other => {
            return Err(anyhow!("there is no profile {other:?}; allowed are kai and kube").into());
        }
    };
    world.configure(Config { seed, ..config })?;
    Ok(())
}

/// Keys of the scheduler's configuration file (docs/reference/configuration.md); what they do not say stays.
/// ```gherkin
/// Given the scheduler's configuration:
///   """yaml
///   plugins: {elastic: {priority: 1750}}
///   """
/// ```
#[given(expr = "the scheduler's configuration:")]
fn configuration(world: &mut World, step: &Step) -> StepResult {
    let here = world.here();
    let config = world.config_mut()?;
    let (shown, text) = (format!("{here}: the configuration below"), step.docstring.clone());
    GivenFile::parse(shown, text.unwrap_or_default())?.apply(config, |_| {})?;
    Ok(())
}

/// Where pods go first: "bin-pack" (the default: the fullest node), "spread" (the emptiest) or
/// "least-fragmentation" (where the least is broken up of what pods could still use of GPUs).
/// ```gherkin
/// Given the placement strategy "spread"
/// ```
#[given(expr = "the placement strategy {string}")]
#[expect(clippy::needless_pass_by_value, reason = "steps are handed what the sentence says")]
fn strategy(world: &mut World, name: String) -> StepResult {
    let placement = match name.as_str() {
        "bin-pack" => Placement::BinPack,
        "spread" => Placement::Spread,
        "least-fragmentation" => Placement::LeastFragmentation,
        other => {
            return Err(anyhow!(
                "there is no strategy {other:?}; allowed are bin-pack, spread and \
                         least-fragmentation"
            )
            .into());
        }
    };
    let profile = &mut world.config_mut()?.profile;
    profile.gpu_placement = placement;
    profile.cpu_placement = placement;
    Ok(())
}

/// The time from one scheduling cycle to the next, 1 second when not said.
/// ```gherkin
/// Given a scheduling period of 1 minute
/// ```
#[given(expr = "a scheduling period of {duration}")]
fn cycle_every(world: &mut World, period: SomeTime) -> StepResult {
    world.config_mut()?.period = period.0;
    Ok(())
}

/// The scheduler writes BindRequests, and its binder carries them out.
/// ```gherkin
/// Given pods are bound by requests
/// ```
#[given(expr = "pods are bound by requests")]
fn by_requests(world: &mut World) -> StepResult {
    world.config_mut()?.binding = Binding::Requests;
    Ok(())
}

/// Pods are bound by requests, and the binder starts reservation pods for GPUs that pods share.
/// Their namespace `kai-resource-reservation` has to be there.
/// ```gherkin
/// Given GPUs that pods share are reserved
/// ```
#[given(expr = "GPUs that pods share are reserved")]
fn reserved(world: &mut World) -> StepResult {
    let config = world.config_mut()?;
    config.binding = Binding::Requests;
    config.reserve_gpus(GpuReservation::with_image("registry.k8s.io/pause:3.10"));
    Ok(())
}

/// Containers that ask for no GPU see none, and pods that say which they see are refused; once the
/// scheduler's webhooks are asked.
/// ```gherkin
/// Given containers see only the GPUs that they ask for
/// ```
#[given(expr = "containers see only the GPUs that they ask for")]
fn devices_blocked(world: &mut World) -> StepResult {
    world.config_mut()?.block_nvidia_visible_devices = true;
    Ok(())
}

/// A config map of namespace `default` says which priority kinds of owners have: a JSON list under
/// the key `types`.
/// ```gherkin
/// Given config map "priorities" says the priorities of kinds
/// ```
#[given(expr = "config map {string} says the priorities of kinds")]
fn default_priorities(world: &mut World, name: String) -> StepResult {
    let namespace = Some("default".to_owned());
    world.config_mut()?.default_priorities = Some(DefaultPriorities { namespace, name });
    Ok(())
}

/// The API server asks the scheduler's webhooks about queues, pod groups and pods. They are found on
/// the emulator, and where the scheduler is installed with them: tag the scenario `@webhooks`.
/// ```gherkin
/// Given the scheduler's webhooks are asked
/// ```
#[given(expr = "the scheduler's webhooks are asked")]
async fn webhooks(world: &mut World) -> StepResult {
    world.ask_webhooks().await?;
    Ok(())
}

/// A shard: only the nodes and pods whose label `kai.scheduler/node-pool` says so. An empty name:
/// those without the label.
/// ```gherkin
/// Given the scheduler serves node pool "a100"
/// ```
#[given(expr = "the scheduler serves node pool {string}")]
fn node_pool(world: &mut World, value: String) -> StepResult {
    let label = "kai.scheduler/node-pool".to_owned();
    world.config_mut()?.node_pool = Some(NodePool { label, value });
    Ok(())
}

/// Past use counts in the fair share: over this window, with KAI's k in front.
/// ```gherkin
/// Given fairness over time with a window of 24 hours and k 1
/// ```
#[given(expr = "fairness over time with a window of {duration} and k {float}")]
fn fairness(world: &mut World, window: SomeTime, k: KMilli) -> StepResult {
    let config = world.config_mut()?;
    config.usage_window = Some(window.0);
    config.profile.k_value_milli = k.0;
    Ok(())
}

/// Past use counts for half after so long, within a window that an earlier step gave.
/// ```gherkin
/// Given past use counts for half after 6 hours
/// ```
#[given(expr = "past use counts for half after {duration}")]
fn half_life(world: &mut World, time: SomeTime) -> StepResult {
    let here = world.here();
    let config = world.config_mut()?;
    if config.usage_window.is_none() {
        return Err(anyhow!(
            "{here}: found no fairness over time before this step, allowed is one: what was used \
             without a window is forgotten at once"
        )
        .into());
    }
    config.usage_half_life = Some(time.0);
    Ok(())
}

/// Holds preemption back: at most so many workloads of a cycle make others leave.
/// ```gherkin
/// Given at most 1 preemption a cycle
/// ```
#[given(expr = "at most {int} preemption(s) a cycle")]
fn preemptions(world: &mut World, most: AtLeastOne) -> StepResult {
    world.config_mut()?.profile.preemptions_max = Some(most.0 as usize);
    Ok(())
}

/// Holds preemption back: inside its queue a priority must be higher by so much.
/// ```gherkin
/// Given preemption by a priority that is higher by at least 50
/// ```
#[given(expr = "preemption by a priority that is higher by at least {int}")]
fn priority_difference(world: &mut World, least: AtLeastOne) -> StepResult {
    world.config_mut()?.profile.priority_difference_min = i32::try_from(least.0)?;
    Ok(())
}

/// Evicted pods have at least this time to save their work, whatever their own grace says.
/// ```gherkin
/// Given evicted pods have at least 2 minutes to end
/// ```
#[given(expr = "evicted pods have at least {duration} to end")]
fn eviction_grace(world: &mut World, grace: Span) -> StepResult {
    world.config_mut()?.give_grace(grace.0);
    Ok(())
}

/// The scheduler's own defaults where no queue or group says otherwise: "staleness grace",
/// "preempt min runtime", "reclaim min runtime".
/// ```gherkin
/// Given a default "staleness grace" of 30 seconds
/// ```
#[given(expr = "a default {string} of {duration}")]
#[expect(clippy::needless_pass_by_value, reason = "steps are handed what the sentence says")]
fn default_time(world: &mut World, name: String, time: Span) -> StepResult {
    let profile = &mut world.config_mut()?.profile;
    let field: &mut Duration = match name.as_str() {
        "staleness grace" => &mut profile.staleness_grace,
        "preempt min runtime" => &mut profile.preempt_min_runtime,
        "reclaim min runtime" => &mut profile.reclaim_min_runtime,
        other => {
            let allowed = "staleness grace, preempt min runtime, reclaim min runtime";
            return Err(anyhow!("there is no default {other:?}; allowed are {allowed}").into());
        }
    };
    *field = time.0;
    Ok(())
}

/// No scheduler runs from now on, until one is started.
/// ```gherkin
/// When the scheduler is stopped
/// ```
#[given(expr = "the scheduler is stopped")]
#[when(expr = "the scheduler is stopped")]
fn stopped(world: &mut World) -> StepResult {
    world.stop_scheduler()?;
    Ok(())
}

/// A scheduler that was stopped or has died runs again, knowing nothing of before.
/// ```gherkin
/// When the scheduler is started
/// ```
#[given(expr = "the scheduler is started")]
#[when(expr = "the scheduler is started")]
fn started(world: &mut World) -> StepResult {
    world.start_scheduler()?;
    Ok(())
}

/// Stops the scheduler between two requests and starts it again, knowing nothing of before.
/// ```gherkin
/// When the scheduler is restarted
/// ```
#[when(expr = "the scheduler is restarted")]
fn restarted(world: &mut World) -> StepResult {
    world.stop_scheduler()?;
    world.start_scheduler()?;
    Ok(())
}

/// The scheduler will be killed in place of its Nth write from now on: that write does not
/// happen, and it stays dead until it is started. A scenario at whose end it did not come to that write
/// fails, unless it says how often the scheduler died.
/// ```gherkin
/// When the scheduler dies before its write number 3
/// ```
#[given(expr = "the scheduler dies before its write number {int}")]
#[when(expr = "the scheduler dies before its write number {int}")]
fn dies(world: &mut World, write: AtLeastOne) -> StepResult {
    world.kill_scheduler_before_write(write.0, AfterKill::StayDead)?;
    Ok(())
}

/// As above, and a new one starts a second later.
/// ```gherkin
/// When the scheduler dies before its write number 3 and is restarted
/// ```
#[given(expr = "the scheduler dies before its write number {int} and is restarted")]
#[when(expr = "the scheduler dies before its write number {int} and is restarted")]
fn dies_and_returns(world: &mut World, write: AtLeastOne) -> StepResult {
    world.kill_scheduler_before_write(write.0, AfterKill::Restart)?;
    Ok(())
}

/// Every scheduler from now on is killed after so many writes, and a new one starts a second
/// later.
/// ```gherkin
/// When the scheduler dies after every 4 writes
/// ```
#[given(expr = "the scheduler dies after every {int} write(s)")]
#[when(expr = "the scheduler dies after every {int} write(s)")]
fn dies_again(world: &mut World, writes: AtLeastOne) -> StepResult {
    let next = writes.0.saturating_add(1);
    world.kill_scheduler_before_write(next, AfterKill::RestartAndKillAgain)?;
    Ok(())
}

/// How often the scheduler was killed at a write: whether there were that many writes.
/// ```gherkin
/// Then the scheduler has died 1 time
/// ```
#[then(expr = "{when}the scheduler has died {count} time(s){stays}")]
async fn died(world: &mut World, when: When, count: Count, stays: Stays) -> StepResult {
    let claim = |world: &World| match world.scheduler_deaths() {
        deaths if count.means(deaths) => Ok(()),
        deaths => Err(format!("expected {count} deaths of the scheduler, found {deaths}")),
    };
    world.expect(when.0, stays.0, &claim).await?;
    world.deaths_are_told();
    Ok(())
}
