//! The scheduler: configuration, start, stop and crashes. It starts by itself when time first
//! passes.

use std::time::Duration;

use anyhow::anyhow;
use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use schedlab_api::labels;
use schedlab_scheduler::{Binding, Config, DefaultPriorities, GpuReservation, NodePool};
use schedlab_scheduler_core::profile::Placement;

use super::StepResult;
use super::parameters::{
    Count, DurationValue, KValueMilli, PositiveDuration, PositiveInt, StableCycles, Timing,
};
use crate::schedulers::AfterKill;
use crate::text::counted_noun;
use crate::world::World;

/// The scheduler's profile: "kai" (queues, gangs, fair share; the default) or "kube" (what the
/// default kube-scheduler does). Workloads of later steps name it in `spec.schedulerName`.
/// ```gherkin
/// Given the scheduler profile "kube"
/// ```
#[given(expr = "the scheduler profile {string}")]
#[expect(clippy::needless_pass_by_value, reason = "cucumber passes parameters by value")]
fn scheduler_uses_profile(world: &mut World, name: String) -> StepResult {
    let Config { seed, feature_gates, .. } = world.config_mut()?.clone();
    let config = match name.as_str() {
        "kai" => Config::kai(),
        "kube" => Config::kube(),
        other => {
            return Err(anyhow!("got profile {other:?}, expected kai or kube").into());
        }
    };
    world.set_config_before_start(Config { seed, feature_gates, ..config })?;
    Ok(())
}

/// Keys of the scheduler's configuration file (docs/reference/configuration.md); other settings
/// keep their values.
/// ```gherkin
/// Given the scheduler's configuration:
///   """yaml
///   plugins: {elastic: {priority: 1750}}
///   """
/// ```
#[given(expr = "the scheduler's configuration:")]
fn scheduler_uses_configuration(world: &mut World, step: &Step) -> StepResult {
    let here = world.step_location();
    let (shown, text) = (format!("{here}: the configuration below"), step.docstring.clone());
    world.apply_configuration_text(shown, text.unwrap_or_default())?;
    Ok(())
}

/// The placement strategy: "bin-pack" (the default: the fullest node), "spread" (the emptiest node)
/// or "least-fragmentation" (the node where usable GPU capacity is fragmented least).
/// ```gherkin
/// Given the placement strategy "spread"
/// ```
#[given(expr = "the placement strategy {string}")]
#[expect(clippy::needless_pass_by_value, reason = "cucumber passes parameters by value")]
fn scheduler_uses_strategy(world: &mut World, name: String) -> StepResult {
    let placement = match name.as_str() {
        "bin-pack" => Placement::BinPack,
        "spread" => Placement::Spread,
        "least-fragmentation" => Placement::LeastFragmentation,
        other => {
            return Err(anyhow!(
                "got placement strategy {other:?}, expected bin-pack, spread or least-fragmentation"
            )
            .into());
        }
    };
    let profile = &mut world.config_mut()?.profile;
    profile.gpu_placement = placement;
    profile.cpu_placement = placement;
    Ok(())
}

/// The time from one scheduling cycle to the next; 1 second by default.
/// ```gherkin
/// Given a scheduling period of 1 minute
/// ```
#[given(expr = "a scheduling period of {duration}")]
fn scheduler_cycles_every(world: &mut World, period: PositiveDuration) -> StepResult {
    world.config_mut()?.period = period.0;
    Ok(())
}

/// The scheduler writes BindRequests, and its binder executes them.
/// ```gherkin
/// Given pods are bound by requests
/// ```
#[given(expr = "pods are bound by requests")]
fn pods_are_bound_by_requests(world: &mut World) -> StepResult {
    world.config_mut()?.binding = Binding::Requests;
    Ok(())
}

/// Pods are bound by BindRequests, and the binder creates reservation pods for shared GPUs. The
/// namespace `kai-resource-reservation` must exist.
/// ```gherkin
/// Given GPUs that pods share are reserved
/// ```
#[given(expr = "GPUs that pods share are reserved")]
fn shared_gpus_are_reserved(world: &mut World) -> StepResult {
    let config = world.config_mut()?;
    config.binding = Binding::Requests;
    config.enable_gpu_reservation(GpuReservation::with_image("registry.k8s.io/pause:3.10"));
    Ok(())
}

/// Containers that request no GPU see none, and pods that set the visible devices themselves are
/// rejected; takes effect through the scheduler's webhooks.
/// ```gherkin
/// Given containers see only the GPUs that they ask for
/// ```
#[given(expr = "containers see only the GPUs that they ask for")]
fn containers_see_only_requested_gpus(world: &mut World) -> StepResult {
    world.config_mut()?.block_nvidia_visible_devices = true;
    Ok(())
}

/// A config map in namespace `default` sets the default priorities by owner kind: a JSON list under
/// the key `types`.
/// ```gherkin
/// Given config map "priorities" says the priorities of kinds
/// ```
#[given(expr = "config map {string} says the priorities of kinds")]
fn config_map_sets_default_priorities(world: &mut World, name: String) -> StepResult {
    let namespace = Some("default".to_owned());
    world.config_mut()?.default_priorities = Some(DefaultPriorities { namespace, name });
    Ok(())
}

/// The API server calls the scheduler's webhooks for queues, pod groups and pods. Works on the
/// emulator and where the scheduler is installed with them: tag the scenario `@webhooks`.
/// ```gherkin
/// Given the scheduler's webhooks are asked
/// ```
#[given(expr = "the scheduler's webhooks are asked")]
async fn scheduler_serves_webhooks(world: &mut World) -> StepResult {
    world.register_webhooks().await?;
    Ok(())
}

/// The scheduler serves a shard: only nodes and pods with this value of the label
/// `kai.scheduler/node-pool`. An empty value means nodes and pods without the label.
/// ```gherkin
/// Given the scheduler serves node pool "a100"
/// ```
#[given(expr = "the scheduler serves node pool {string}")]
fn scheduler_has_node_pool(world: &mut World, value: String) -> StepResult {
    let label = labels::NODE_POOL.to_owned();
    world.config_mut()?.node_pool = Some(NodePool { label, value });
    Ok(())
}

/// Past usage counts in the fair share: over this window of time, and weighted with this `kValue`
/// of KAI.
/// ```gherkin
/// Given fairness over time with a window of 24 hours and k 1
/// ```
#[given(expr = "fairness over time with a window of {duration} and k {float}")]
fn scheduler_uses_time_based_fairness(
    world: &mut World,
    window: PositiveDuration,
    k: KValueMilli,
) -> StepResult {
    let config = world.config_mut()?;
    config.usage_window = Some(window.0);
    config.profile.k_value_milli = k.0;
    Ok(())
}

/// Past usage counts half as much after this time. The step `fairness over time` must come before,
/// because it sets the window.
/// ```gherkin
/// Given past use counts for half after 6 hours
/// ```
#[given(expr = "past use counts for half after {duration}")]
fn usage_half_life_is(world: &mut World, time: PositiveDuration) -> StepResult {
    let here = world.step_location();
    let config = world.config_mut()?;
    if config.usage_window.is_none() {
        return Err(anyhow!(
            "{here}: got no step `fairness over time` before this one, expected one: without a \
             window past usage does not count"
        )
        .into());
    }
    config.usage_half_life = Some(time.0);
    Ok(())
}

/// Limits preemption: at most this number of workloads per cycle may preempt or reclaim.
/// ```gherkin
/// Given at most 1 preemption a cycle
/// ```
#[given(expr = "at most {int} preemption(s) a cycle")]
fn preemptions_are_limited(world: &mut World, most: PositiveInt) -> StepResult {
    world.config_mut()?.profile.preemptions_max = Some(most.0 as usize);
    Ok(())
}

/// Limits preemption: within a queue the preemptor's priority must be higher by at least this much.
/// ```gherkin
/// Given preemption by a priority that is higher by at least 50
/// ```
#[given(expr = "preemption by a priority that is higher by at least {int}")]
fn priority_difference_is_required(world: &mut World, least: PositiveInt) -> StepResult {
    world.config_mut()?.profile.priority_difference_min = i32::try_from(least.0)?;
    Ok(())
}

/// Evicted pods get at least this grace period, even if their own is shorter.
/// ```gherkin
/// Given evicted pods have at least 2 minutes to end
/// ```
#[given(expr = "evicted pods have at least {duration} to end")]
fn eviction_grace_is(world: &mut World, grace: DurationValue) -> StepResult {
    world.config_mut()?.set_eviction_grace(grace.0);
    Ok(())
}

/// The scheduler's defaults for queues and pod groups that set no value: "staleness grace",
/// "preempt min runtime", "reclaim min runtime".
/// ```gherkin
/// Given a default "staleness grace" of 30 seconds
/// ```
#[given(expr = "a default {string} of {duration}")]
#[expect(clippy::needless_pass_by_value, reason = "cucumber passes parameters by value")]
fn default_duration_is(world: &mut World, name: String, time: DurationValue) -> StepResult {
    let profile = &mut world.config_mut()?.profile;
    let field: &mut Duration = match name.as_str() {
        "staleness grace" => &mut profile.staleness_grace,
        "preempt min runtime" => &mut profile.preempt_min_runtime,
        "reclaim min runtime" => &mut profile.reclaim_min_runtime,
        other => {
            let allowed = "staleness grace, preempt min runtime or reclaim min runtime";
            return Err(anyhow!("got default {other:?}, expected {allowed}").into());
        }
    };
    *field = time.0;
    Ok(())
}

/// Stops the scheduler; none runs until one is started.
/// ```gherkin
/// When the scheduler is stopped
/// ```
#[given(expr = "the scheduler is stopped")]
#[when(expr = "the scheduler is stopped")]
fn scheduler_is_stopped(world: &mut World) -> StepResult {
    world.stop_scheduler()?;
    Ok(())
}

/// Starts a scheduler that was stopped or has crashed, without its former state.
/// ```gherkin
/// When the scheduler is started
/// ```
#[given(expr = "the scheduler is started")]
#[when(expr = "the scheduler is started")]
fn scheduler_is_started(world: &mut World) -> StepResult {
    world.start_scheduler()?;
    Ok(())
}

/// Stops the scheduler between two requests and starts it again, without its former state.
/// ```gherkin
/// When the scheduler is restarted
/// ```
#[when(expr = "the scheduler is restarted")]
fn scheduler_is_restarted(world: &mut World) -> StepResult {
    world.stop_scheduler()?;
    world.start_scheduler()?;
    Ok(())
}

/// Kills the scheduler instead of its Nth write from now on: that write does not happen, and the
/// scheduler stays down until it is started. A scenario that ends before that write fails, unless
/// it asserts how often the scheduler died.
/// ```gherkin
/// When the scheduler dies before its write number 3
/// ```
#[given(expr = "the scheduler dies before its write number {int}")]
#[when(expr = "the scheduler dies before its write number {int}")]
fn scheduler_dies_before_write(world: &mut World, write: PositiveInt) -> StepResult {
    world.kill_scheduler_before_write(write.0, AfterKill::StayDead)?;
    Ok(())
}

/// Kills the scheduler instead of its Nth write from now on, and starts a new scheduler a second
/// later.
/// ```gherkin
/// When the scheduler dies before its write number 3 and is restarted
/// ```
#[given(expr = "the scheduler dies before its write number {int} and is restarted")]
#[when(expr = "the scheduler dies before its write number {int} and is restarted")]
fn scheduler_dies_and_returns(world: &mut World, write: PositiveInt) -> StepResult {
    world.kill_scheduler_before_write(write.0, AfterKill::Restart)?;
    Ok(())
}

/// Every scheduler from now on is killed after this number of writes, and a new one starts a second
/// later.
/// ```gherkin
/// When the scheduler dies after every 4 writes
/// ```
#[given(expr = "the scheduler dies after every {int} write(s)")]
#[when(expr = "the scheduler dies after every {int} write(s)")]
fn scheduler_dies_repeatedly(world: &mut World, writes: PositiveInt) -> StepResult {
    let next = writes.0.saturating_add(1);
    world.kill_scheduler_before_write(next, AfterKill::RestartAndKillAgain)?;
    Ok(())
}

/// How often the scheduler was killed before a write. Not judged with another scheduler than ours,
/// which may need fewer writes.
/// ```gherkin
/// Then the scheduler has died 1 time
/// ```
#[then(expr = "{when}the scheduler has died {count} time(s){stays}")]
async fn scheduler_has_died(
    world: &mut World,
    when: Timing,
    count: Count,
    stays: StableCycles,
) -> StepResult {
    if !world.judges_write_count() {
        world.clear_expected_crash();
        return Ok(world.wait_unjudged(when.0).await?);
    }
    let claim = |world: &World| match world.scheduler_crash_count() {
        crashes if count.matches(crashes) => Ok(()),
        crashes => {
            Err(format!("got {}, expected {count}", counted_noun(crashes, "scheduler crash")))
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    world.clear_expected_crash();
    Ok(())
}
