//! Replaces one version of a scheduler by another under load, and back again. Invariants: running
//! pods are not touched, nothing is bound twice, no gang breaks, queue status is recomputed, and
//! objects of the old version still load. Everything is judged by the API; the kind of cluster does
//! not matter here.

mod capture;
mod invariants;
mod monitor;
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
pub use invariants::Check;
use monitor::Monitor;
use running_version::RunningVersion;
use schedlab_clusters::api::Api;
use schedlab_clusters::cleanup::Run;
use schedlab_clusters::real_cluster::SchedulerInstaller;
use schedlab_conformance::report::progress::Progress;
pub use spec::Spec;
use workload::Direction;

/// How long to wait for a version to reach an expected state.
const WAIT_MAX: Duration = Duration::from_mins(1);

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
pub struct Verdict {
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
    /// Results of the checks.
    pub checks: Vec<Check>,
    /// Differences of pods and queues: `-` before, `+` after.
    pub diff: Vec<String>,
}

impl Verdict {
    /// Whether every check passed.
    pub fn passed(&self) -> bool {
        self.transitions.iter().flat_map(|one| &one.checks).all(Check::passed)
    }
}

/// A cluster on which upgrades are tested: it has nodes and CRDs, and no scheduler yet.
#[derive(Debug)]
pub struct UpgradeCluster {
    /// API client with administrator rights.
    pub api: Api,
    /// Kubeconfig for scheduler processes.
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
pub struct NotStarted {
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
pub async fn upgrade(
    environment: &mut UpgradeCluster,
    from: &Spec,
    to: &Spec,
    strategy: Strategy,
    progress: &mut Progress,
) -> anyhow::Result<Verdict> {
    let mut monitor = Monitor::open(&environment.api).await?;
    workload::create_queues(&mut environment.api, &mut monitor).await?;
    let step = progress.begin("the old version at work", Duration::from_secs(10));
    let mut old = RunningVersion::start(environment, from, "old").await?;
    workload::submit_initial(&mut environment.api, &environment.scheduler_name).await?;
    if let Err(why) =
        wait_until_quiet(&mut monitor, &mut old, workload::initial_is_scheduled).await?
    {
        let (version, log) = (from.to_string(), old.log_excerpt().await);
        return Err(NotStarted { version, why, log }.into());
    }
    progress.done(step);
    let mut transitions = Vec::new();
    let (there, new) =
        replace(environment, &mut monitor, old, to, Direction::Forward(strategy), progress).await?;
    let failed = !there.checks.iter().all(Check::passed);
    transitions.push(there);
    if failed {
        // After a failure the way back shows nothing.
        return Ok(Verdict { strategy, transitions });
    }
    let (back, _last) =
        replace(environment, &mut monitor, new, from, Direction::Back(strategy), progress).await?;
    transitions.push(back);
    Ok(Verdict { strategy, transitions })
}

/// Replaces the running scheduler and runs the checks.
async fn replace(
    environment: &mut UpgradeCluster,
    monitor: &mut Monitor,
    old: RunningVersion,
    to: &Spec,
    direction: Direction,
    progress: &mut Progress,
) -> anyhow::Result<(Transition, RunningVersion)> {
    let title = format!("{} {to}", direction.title_prefix());
    let step = format!("{}, {}", direction.name(), direction.strategy());
    let step = progress.begin(&step, Duration::from_secs(15));
    monitor.drain().await?;
    monitor.reset();
    let before = monitor.capture();
    let (mut new, finished) = match direction.strategy() {
        Strategy::Rolling => rolling_replace(environment, monitor, old, to, direction).await?,
        Strategy::StopAndStart => stop_and_start(environment, monitor, old, to, direction).await?,
    };
    let pending_reasons = match workload::over_limit_have_reasons(&monitor.capture(), direction) {
        Err(_) if finished.is_ok() => {
            wait_until_quiet(monitor, &mut new, |state| {
                workload::over_limit_have_reasons(state, direction)
            })
            .await?
        }
        result => result,
    };
    let after = monitor.capture();
    let mut checks = invariants::all(&before, &after, monitor.violations());
    if let Err(why) = finished {
        checks.push(Check::failed("new work is scheduled", vec![why, new.log_excerpt().await]));
    } else {
        checks.push(Check::passed_with("new work is scheduled", "a gang finished, a new pod runs"));
        checks.push(invariants::pending_reasons(pending_reasons));
    }
    progress.done(step);
    Ok((Transition { title, checks, diff: capture::diff(&before, &after) }, new))
}

/// Starts the new version beside the old one and then stops the old one. Either may finish the
/// half-bound gang. The inner error says why new work was not scheduled.
async fn rolling_replace(
    environment: &mut UpgradeCluster,
    monitor: &mut Monitor,
    old: RunningVersion,
    to: &Spec,
    direction: Direction,
) -> anyhow::Result<(RunningVersion, Result<(), String>)> {
    if old.is_replaced() {
        // The Deployment stops the old version as soon as the new one is ready.
        workload::create_half_bound_gang(environment, monitor, direction).await?;
        let mut new = RunningVersion::start(environment, to, direction.name()).await?;
        if let Some(why) = new.ended() {
            // The old version has kept running meanwhile.
            monitor.settle().await?;
            return Ok((new, Err(why)));
        }
        let finished = complete_pending_work(environment, monitor, &mut new, direction).await?;
        return Ok((new, finished));
    }
    let mut new = RunningVersion::start(environment, to, direction.name()).await?;
    if let Err(why) = wait_until_quiet(monitor, &mut new, |_| Ok(())).await? {
        return Ok((new, Err(why)));
    }
    workload::create_half_bound_gang(environment, monitor, direction).await?;
    old.end().await?;
    let finished = complete_pending_work(environment, monitor, &mut new, direction).await?;
    Ok((new, finished))
}

/// Stops the old version before the new one starts: the new one finds a half-bound gang.
async fn stop_and_start(
    environment: &mut UpgradeCluster,
    monitor: &mut Monitor,
    old: RunningVersion,
    to: &Spec,
    direction: Direction,
) -> anyhow::Result<(RunningVersion, Result<(), String>)> {
    old.end().await?;
    workload::clear_queue_status(&environment.api, monitor.view()).await?;
    workload::create_half_bound_gang(environment, monitor, direction).await?;
    let mut new = RunningVersion::start(environment, to, direction.name()).await?;
    let finished = complete_pending_work(environment, monitor, &mut new, direction).await?;
    Ok((new, finished))
}

/// Waits until the half-bound gang is complete and newly submitted pods run.
async fn complete_pending_work(
    environment: &mut UpgradeCluster,
    monitor: &mut Monitor,
    new: &mut RunningVersion,
    direction: Direction,
) -> anyhow::Result<Result<(), String>> {
    let whole =
        wait_until_quiet(monitor, new, |state| workload::gang_is_whole(state, direction)).await?;
    if whole.is_err() {
        return Ok(whole);
    }
    workload::submit_new(&mut environment.api, &environment.scheduler_name, direction).await?;
    wait_until_quiet(monitor, new, |state| workload::new_pod_runs(state, direction)).await
}

/// Waits until a condition holds and nothing changes any more. The inner error says what was still
/// missing when the wait ended.
async fn wait_until_quiet(
    monitor: &mut Monitor,
    scheduler: &mut RunningVersion,
    is_so: impl Fn(&ClusterCapture) -> Result<(), String>,
) -> anyhow::Result<Result<(), String>> {
    let end = Instant::now() + WAIT_MAX;
    let mut last = monitor.capture();
    let mut since = Instant::now();
    loop {
        let so = is_so(&last);
        if so.is_ok() && since.elapsed() >= QUIET_AFTER {
            return Ok(Ok(()));
        }
        if let Some(why) = scheduler.ended() {
            monitor.settle().await?;
            return Ok(Err(why));
        }
        if Instant::now() >= end {
            let why = so.err().unwrap_or_else(|| "the cluster never became quiet".to_owned());
            return Ok(Err(format!("timed out after {} s: {why}", WAIT_MAX.as_secs())));
        }
        let Ok(taken) = tokio::time::timeout(QUIET_AFTER, monitor.next()).await else { continue };
        let now = taken?;
        if now != last {
            last = now;
            since = Instant::now();
        }
    }
}
