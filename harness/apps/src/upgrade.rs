//! Replaces one version of a scheduler by another under load, and back again. Invariants: running
//! pods are not touched, nothing is bound twice, no gang breaks, queue status is recomputed, and
//! objects of the old version still load. Everything is judged by the API; the kind of cluster does
//! not matter here.

mod capture;
mod invariants;
mod monitor;
mod own_work;
mod process;
mod running_version;
mod spec;
mod workload;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use capture::ClusterCapture;
pub use invariants::InvariantCheck;
use monitor::InvariantMonitor;
pub use own_work::{
    DecisionComparison, DecisionDifference, Decisions, GroupDecision, OwnWork, decide,
    run_upgrade_on_own_work,
};
use running_version::RunningVersion;
use schedlab_clusters::api::Api;
use schedlab_clusters::cleanup::Run;
use schedlab_clusters::real_cluster::SchedulerInstaller;
use schedlab_conformance::report::progress::Progress;
pub use spec::SchedulerSpec;
use workload::UpgradeDirection;

/// Maximum wait until a version of the scheduler reaches an expected state.
const STATE_WAIT_MAX: Duration = Duration::from_mins(1);

/// Time without changes after which the cluster counts as quiet.
const QUIET_AFTER: Duration = Duration::from_secs(2);

/// How the new version replaces the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The new version starts while the old one still runs, as in a rolling Deployment.
    Rolling,
    /// The old version stops before the new one starts.
    StopAndStart,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rolling => "rolling",
            Self::StopAndStart => "stop and start",
        })
    }
}

/// The verdict on an upgrade and on the way back.
#[derive(Clone, Debug, Serialize)]
pub struct UpgradeVerdict {
    /// How one version replaced the other.
    #[serde(rename = "way")]
    pub strategy: Strategy,
    /// The upgrade, then the way back.
    #[serde(rename = "moves")]
    pub transitions: Vec<Transition>,
}

/// One replacement of a scheduler version by another.
#[derive(Clone, Debug, Serialize)]
pub struct Transition {
    /// Title, such as `upgrade to image:…`.
    pub title: String,
    /// Results of the checks after the replacement.
    pub checks: Vec<InvariantCheck>,
    /// Differences of pods and queues between before and after the replacement: `-` before, `+`
    /// after.
    pub diff: Vec<String>,
}

impl UpgradeVerdict {
    /// Whether every check passed.
    pub fn passed(&self) -> bool {
        self.transitions.iter().flat_map(|one| &one.checks).all(InvariantCheck::passed)
    }
}

/// A cluster on which upgrades are tested: it has nodes and CRDs, and no scheduler yet.
#[derive(Debug)]
pub struct UpgradeCluster {
    /// API client with administrator rights.
    pub api: Api,
    /// Path of the kubeconfig for scheduler processes.
    pub kubeconfig: PathBuf,
    /// Name of the scheduler in `spec.schedulerName`.
    pub scheduler_name: String,
    /// The run that registers started resources for cleanup.
    pub run: Run,
    /// Installs versions that run on the cluster; `None` where versions run as processes only.
    pub installation: Option<SchedulerInstaller>,
}

/// The error for an old version that did not start.
#[derive(Debug, thiserror::Error)]
#[error("{version}: {why}\n{log}")]
pub struct SchedulerNotStarted {
    version: String,
    why: String,
    log: String,
}

/// Runs an upgrade and the way back.
///
/// # Errors
/// [`SchedulerNotStarted`], if the old version does not schedule the first workloads. Otherwise a scheduler
/// cannot be started or stopped, or a request to the cluster fails. Failed checks are no error: they
/// are in the verdict.
pub async fn run_upgrade(
    environment: &mut UpgradeCluster,
    from: &SchedulerSpec,
    to: &SchedulerSpec,
    strategy: Strategy,
    progress: &mut Progress,
) -> anyhow::Result<UpgradeVerdict> {
    let mut monitor = InvariantMonitor::open(&environment.api).await?;
    workload::create_queues(&mut environment.api, &mut monitor).await?;
    let step =
        progress.begin_step("starting the old version and its workload", Duration::from_secs(10));
    let mut old = RunningVersion::start(environment, from, "old").await?;
    monitor.drain_events().await?;
    let (api, name) = (&mut environment.api, &environment.scheduler_name);
    workload::submit_initial_workload(api, name, &monitor.capture()).await?;
    if let Err(why) =
        wait_until_quiet(&mut monitor, &mut old, workload::check_initial_is_scheduled).await?
    {
        let (version, log) = (from.to_string(), old.log_excerpt().await);
        return Err(SchedulerNotStarted { version, why, log }.into());
    }
    progress.finish_step(step);
    let mut transitions = Vec::new();
    let (there, new) = replace_version(
        environment,
        &mut monitor,
        old,
        to,
        UpgradeDirection::Forward(strategy),
        progress,
    )
    .await?;
    let failed = !there.checks.iter().all(InvariantCheck::passed);
    transitions.push(there);
    if failed {
        // After a failure the way back shows nothing.
        return Ok(UpgradeVerdict { strategy, transitions });
    }
    let (back, _last) = replace_version(
        environment,
        &mut monitor,
        new,
        from,
        UpgradeDirection::Back(strategy),
        progress,
    )
    .await?;
    transitions.push(back);
    Ok(UpgradeVerdict { strategy, transitions })
}

/// Replaces the running scheduler version by another and runs the checks.
async fn replace_version(
    environment: &mut UpgradeCluster,
    monitor: &mut InvariantMonitor,
    old: RunningVersion,
    to: &SchedulerSpec,
    direction: UpgradeDirection,
    progress: &mut Progress,
) -> anyhow::Result<(Transition, RunningVersion)> {
    let title = format!("{} {to}", direction.title_prefix());
    let step = format!("{}, {}", direction.name_suffix(), direction.strategy());
    let step = progress.begin_step(&step, Duration::from_secs(15));
    monitor.drain_events().await?;
    monitor.clear_violations();
    let before = monitor.capture();
    let (mut new, finished) = match direction.strategy() {
        Strategy::Rolling => rolling_replace(environment, monitor, old, to, direction).await?,
        Strategy::StopAndStart => {
            stop_old_then_start_new(environment, monitor, old, to, direction).await?
        }
    };
    let pending_reasons =
        match workload::check_over_limit_pods_have_reasons(&monitor.capture(), direction) {
            Err(_) if finished.is_ok() => {
                wait_until_quiet(monitor, &mut new, |state| {
                    workload::check_over_limit_pods_have_reasons(state, direction)
                })
                .await?
            }
            result => result,
        };
    let after = monitor.capture();
    let mut checks = invariants::check_all(&before, &after, monitor.violations());
    if let Err(why) = finished {
        checks.push(InvariantCheck::failed(
            "new work is scheduled",
            vec![why, new.log_excerpt().await],
        ));
    } else {
        checks.push(InvariantCheck::passed_with(
            "new work is scheduled",
            "a gang finished, a new pod runs",
        ));
        checks.push(invariants::check_pending_reasons(pending_reasons));
    }
    progress.finish_step(step);
    Ok((Transition { title, checks, diff: capture::capture_differences(&before, &after) }, new))
}

/// Starts the new version beside the old one and then stops the old one. Either may finish the
/// half-bound gang. The inner error says why new work was not scheduled.
async fn rolling_replace(
    environment: &mut UpgradeCluster,
    monitor: &mut InvariantMonitor,
    old: RunningVersion,
    to: &SchedulerSpec,
    direction: UpgradeDirection,
) -> anyhow::Result<(RunningVersion, Result<(), String>)> {
    if old.is_replaced() {
        // The Deployment stops the old version as soon as the new one is ready.
        workload::create_half_bound_gang(environment, monitor, direction).await?;
        let mut new = RunningVersion::start(environment, to, direction.name_suffix()).await?;
        if let Some(why) = new.exit_text() {
            // The old version has kept running meanwhile.
            monitor.wait_until_quiet().await?;
            return Ok((new, Err(why)));
        }
        let finished = complete_pending_work(environment, monitor, &mut new, direction).await?;
        return Ok((new, finished));
    }
    let mut new = RunningVersion::start(environment, to, direction.name_suffix()).await?;
    if let Err(why) = wait_until_quiet(monitor, &mut new, |_| Ok(())).await? {
        return Ok((new, Err(why)));
    }
    workload::create_half_bound_gang(environment, monitor, direction).await?;
    old.terminate().await?;
    let finished = complete_pending_work(environment, monitor, &mut new, direction).await?;
    Ok((new, finished))
}

/// Stops the old version before the new one starts. The new version finds a half-bound gang.
async fn stop_old_then_start_new(
    environment: &mut UpgradeCluster,
    monitor: &mut InvariantMonitor,
    old: RunningVersion,
    to: &SchedulerSpec,
    direction: UpgradeDirection,
) -> anyhow::Result<(RunningVersion, Result<(), String>)> {
    old.terminate().await?;
    workload::clear_queue_status(&environment.api, monitor.view()).await?;
    workload::create_half_bound_gang(environment, monitor, direction).await?;
    let mut new = RunningVersion::start(environment, to, direction.name_suffix()).await?;
    let finished = complete_pending_work(environment, monitor, &mut new, direction).await?;
    Ok((new, finished))
}

/// Waits until the half-bound gang is complete and newly submitted pods run.
async fn complete_pending_work(
    environment: &mut UpgradeCluster,
    monitor: &mut InvariantMonitor,
    new: &mut RunningVersion,
    direction: UpgradeDirection,
) -> anyhow::Result<Result<(), String>> {
    let whole =
        wait_until_quiet(monitor, new, |state| workload::check_gang_is_whole(state, direction))
            .await?;
    if whole.is_err() {
        return Ok(whole);
    }
    workload::submit_new_workload(&mut environment.api, &environment.scheduler_name, direction)
        .await?;
    wait_until_quiet(monitor, new, |state| workload::check_new_pod_runs(state, direction)).await
}

/// Waits until a condition holds and nothing changes any more. The inner error says what was still
/// missing when the wait ended.
async fn wait_until_quiet(
    monitor: &mut InvariantMonitor,
    scheduler: &mut RunningVersion,
    is_so: impl Fn(&ClusterCapture) -> Result<(), String>,
) -> anyhow::Result<Result<(), String>> {
    let end = Instant::now() + STATE_WAIT_MAX;
    let mut last = monitor.capture();
    let mut since = Instant::now();
    loop {
        let so = is_so(&last);
        if so.is_ok() && since.elapsed() >= QUIET_AFTER {
            return Ok(Ok(()));
        }
        if let Some(why) = scheduler.exit_text() {
            monitor.wait_until_quiet().await?;
            return Ok(Err(why));
        }
        if Instant::now() >= end {
            let why = so.err().unwrap_or_else(|| "the cluster never became quiet".to_owned());
            return Ok(Err(format!("timed out after {} s: {why}", STATE_WAIT_MAX.as_secs())));
        }
        let Ok(taken) = tokio::time::timeout(QUIET_AFTER, monitor.next_capture()).await else {
            continue;
        };
        let now = taken?;
        if now != last {
            last = now;
            since = Instant::now();
        }
    }
}
