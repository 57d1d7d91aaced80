//! An upgrade on one's own fleet and work: the same checks while one version replaces the other, and
//! what each version decides about the same pending work, started from the same state.

use std::collections::BTreeMap;
use std::time::Duration;

use schedlab_api::{Value, annotations, object};
use serde::Serialize;
use tokio::time::Instant;

use super::capture::{ClusterCapture, capture_differences};
use super::invariants::{self, InvariantCheck};
use super::monitor::InvariantMonitor;
use super::running_version::RunningVersion;
use super::workload::UpgradeDirection;
use super::{
    QUIET_AFTER, SchedulerNotStarted, SchedulerSpec, Strategy, Transition, UpgradeCluster,
    UpgradeVerdict,
};
use schedlab_clusters::api::object_title;
use schedlab_conformance::report::progress::Progress;
use schedlab_conformance::text::counted_noun;
use schedlab_emulator::clock::Clock;

/// Maximum wait until a version has decided about all work.
const DECISIONS_WAIT_MAX: Duration = Duration::from_mins(10);

/// The fleet and the work of a user, as objects in the order of their creation.
#[derive(Clone, Debug, Default)]
pub struct OwnWork {
    /// Nodes, queues, pod groups, pods and what they need.
    pub objects: Vec<Value>,
}

/// What a version decided about the pods of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupDecision {
    /// Number of pods by node.
    pub nodes: BTreeMap<String, usize>,
    /// Number of pods that are pending.
    pub pending: usize,
    /// Number of pods that were evicted.
    pub evicted: usize,
}

/// What a version decided, by namespace and name of the pod group, or of a pod without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    groups: BTreeMap<String, GroupDecision>,
}

/// The decisions of two versions about the same work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DecisionComparison {
    /// Number of pod groups.
    pub groups: usize,
    /// Pod groups of which other pods run, wait or were evicted.
    pub outcomes: Vec<DecisionDifference>,
    /// Pod groups that only got other nodes.
    pub other_nodes: Vec<DecisionDifference>,
}

/// A pod group about which two versions decided differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionDifference {
    /// Namespace and name of the pod group.
    pub group: String,
    /// What the old version decided.
    pub from: GroupDecision,
    /// What the new version decided.
    pub to: GroupDecision,
}

impl std::fmt::Display for GroupDecision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = self.nodes.iter().map(|(node, pods)| match pods {
            1 => node.clone(),
            _ => format!("{node} ({pods} pods)"),
        });
        let nodes: Vec<String> = nodes.collect();
        let mut parts = Vec::new();
        if !nodes.is_empty() {
            parts.push(format!("on {}", nodes.join(", ")));
        }
        if self.pending > 0 {
            parts.push(format!("{} pending", counted_noun(self.pending, "pod")));
        }
        if self.evicted > 0 {
            parts.push(format!("{} evicted", counted_noun(self.evicted, "pod")));
        }
        f.write_str(&parts.join("; "))
    }
}

impl DecisionComparison {
    /// Compares the decisions of two versions.
    pub fn new(from: &Decisions, to: &Decisions) -> Self {
        let mut comparison = Self { groups: from.groups.len(), ..Self::default() };
        for (group, old) in &from.groups {
            let new = to.groups.get(group).cloned().unwrap_or_default();
            if *old == new {
                continue;
            }
            let counts =
                |it: &GroupDecision| (it.nodes.values().sum::<usize>(), it.pending, it.evicted);
            let is_same_outcome = counts(old) == counts(&new);
            let difference =
                DecisionDifference { group: group.clone(), from: old.clone(), to: new };
            if is_same_outcome {
                comparison.other_nodes.push(difference);
            } else {
                comparison.outcomes.push(difference);
            }
        }
        comparison
    }
}

/// Number of objects that are created within a second.
const OBJECTS_PER_SECOND: usize = 200;

/// Creates the objects. Returns a line for each that the API server refuses.
///
/// Schedulers order pod groups by their time of creation, in whole seconds. So that it is the same
/// on each cluster, a second begins after every [`OBJECTS_PER_SECOND`] objects.
async fn create(environment: &mut UpgradeCluster, work: &OwnWork) -> Vec<String> {
    let mut refused = Vec::new();
    for (at, object) in work.objects.iter().enumerate() {
        if at % OBJECTS_PER_SECOND == 0 {
            tokio::time::sleep(until_next_second()).await;
        }
        if let Err(error) = environment.api.create(object).await {
            refused.push(format!("{}: {error}", object_title(object)));
        }
    }
    refused
}

/// The time until a second of the clock begins.
fn until_next_second() -> Duration {
    let since = u64::try_from(Clock::real().now().subsec_nanosecond()).unwrap_or_default();
    Duration::from_secs(1).saturating_sub(Duration::from_nanos(since))
}

/// Lets a version decide about the work on a new cluster.
///
/// # Errors
/// [`SchedulerNotStarted`], if the version ends or never comes to rest. Otherwise it cannot be
/// started or stopped, or a request to the cluster fails.
pub async fn decide(
    environment: &mut UpgradeCluster,
    version: &SchedulerSpec,
    work: &OwnWork,
    progress: &mut Progress,
) -> anyhow::Result<Decisions> {
    let step = progress.begin_step(&format!("decisions of {version}"), Duration::from_secs(15));
    let mut monitor = InvariantMonitor::open(&environment.api).await?;
    create(environment, work).await;
    monitor.drain_events().await?;
    let mut running = RunningVersion::start(environment, version, "decides").await?;
    require_rest(&mut monitor, &mut running, version).await?;
    let decisions = Decisions::of(work, &monitor.capture());
    running.terminate().await?;
    progress.finish_step(step);
    Ok(decisions)
}

impl Decisions {
    fn of(work: &OwnWork, capture: &ClusterCapture) -> Self {
        let mut groups: BTreeMap<String, GroupDecision> = BTreeMap::new();
        for pod in work.objects.iter().filter(|it| object::text(it, &["kind"]) == "Pod") {
            let namespace = match object::namespace(pod) {
                "" => "default",
                namespace => namespace,
            };
            let group = object::annotation(pod, annotations::POD_GROUP_NAME);
            let group = group.unwrap_or(object::name(pod));
            let decision = groups.entry(format!("{namespace}/{group}")).or_default();
            match capture.pods.get(&format!("{namespace}/{}", object::name(pod))) {
                None => decision.evicted += 1,
                Some(pod) if pod.node.is_empty() => decision.pending += 1,
                Some(pod) => *decision.nodes.entry(pod.node.clone()).or_default() += 1,
            }
        }
        Self { groups }
    }
}

/// Runs an upgrade and the way back on one's own fleet and work.
///
/// # Errors
/// As [`super::run_upgrade`].
pub async fn run_upgrade_on_own_work(
    environment: &mut UpgradeCluster,
    from: &SchedulerSpec,
    to: &SchedulerSpec,
    strategy: Strategy,
    work: &OwnWork,
    progress: &mut Progress,
) -> anyhow::Result<UpgradeVerdict> {
    let mut monitor = InvariantMonitor::open(&environment.api).await?;
    let step = progress.begin_step("starting the old version", Duration::from_secs(10));
    create(environment, work).await;
    monitor.drain_events().await?;
    let mut old = RunningVersion::start(environment, from, "old").await?;
    require_rest(&mut monitor, &mut old, from).await?;
    progress.finish_step(step);
    let mut transitions = Vec::new();
    for direction in [UpgradeDirection::Forward(strategy), UpgradeDirection::Back(strategy)] {
        let version = if matches!(direction, UpgradeDirection::Forward(_)) { to } else { from };
        let title = format!("{}, {strategy}", direction.name_suffix());
        let step = progress.begin_step(&title, Duration::from_secs(15));
        let (transition, new) = replace(environment, &mut monitor, old, version, direction).await?;
        progress.finish_step(step);
        let failed = !transition.checks.iter().all(InvariantCheck::passed);
        transitions.push(transition);
        if failed {
            // After a failure the way back shows nothing.
            break;
        }
        old = new;
    }
    Ok(UpgradeVerdict { strategy, transitions })
}

async fn replace(
    environment: &mut UpgradeCluster,
    monitor: &mut InvariantMonitor,
    old: RunningVersion,
    to: &SchedulerSpec,
    direction: UpgradeDirection,
) -> anyhow::Result<(Transition, RunningVersion)> {
    monitor.drain_events().await?;
    monitor.clear_violations();
    let before = monitor.capture();
    let name = direction.name_suffix();
    let mut new = match direction.strategy() {
        Strategy::Rolling if old.is_replaced() => {
            RunningVersion::start(environment, to, name).await?
        }
        Strategy::Rolling => {
            let mut new = RunningVersion::start(environment, to, name).await?;
            wait_for_rest(monitor, &mut new).await?.ok();
            old.terminate().await?;
            new
        }
        Strategy::StopAndStart => {
            old.terminate().await?;
            RunningVersion::start(environment, to, name).await?
        }
    };
    let rest = wait_for_rest(monitor, &mut new).await?;
    let after = monitor.capture();
    let mut checks = invariants::check_all(&before, &after, monitor.violations());
    let claim = "the new version comes to rest";
    checks.push(match rest {
        Ok(()) => InvariantCheck::passed_with(claim, &counted_noun(after.pods.len(), "pod")),
        Err(why) => InvariantCheck::failed(claim, vec![why, new.log_excerpt().await]),
    });
    let title = format!("{} {to}", direction.title_prefix());
    Ok((Transition { title, checks, diff: capture_differences(&before, &after) }, new))
}

async fn require_rest(
    monitor: &mut InvariantMonitor,
    version: &mut RunningVersion,
    spec: &SchedulerSpec,
) -> anyhow::Result<()> {
    match wait_for_rest(monitor, version).await? {
        Ok(()) => Ok(()),
        Err(why) => {
            let log = version.log_excerpt().await;
            Err(SchedulerNotStarted { version: spec.to_string(), why, log }.into())
        }
    }
}

/// Waits until nothing changes any more. The inner error says why that is not so.
async fn wait_for_rest(
    monitor: &mut InvariantMonitor,
    version: &mut RunningVersion,
) -> anyhow::Result<Result<(), String>> {
    let end = Instant::now() + DECISIONS_WAIT_MAX;
    // A version that watches many objects needs a while before its first decision.
    let mut last = monitor.capture();
    let mut quiet_since = Instant::now();
    while Instant::now() < end {
        if let Some(why) = version.exit_text() {
            return Ok(Err(why));
        }
        if quiet_since.elapsed() >= 2 * QUIET_AFTER {
            return Ok(Ok(()));
        }
        let Ok(taken) = tokio::time::timeout(QUIET_AFTER, monitor.next_capture()).await else {
            continue;
        };
        let now = taken?;
        if now != last {
            last = now;
            quiet_since = Instant::now();
        }
    }
    Ok(Err(format!("still changing after {} s", DECISIONS_WAIT_MAX.as_secs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A decision about a group of which no pod is evicted, with its number of pods by node.
    fn decision<const N: usize>(nodes: [(&str, usize); N], pending: usize) -> GroupDecision {
        let nodes = nodes.map(|(node, pods)| (node.to_owned(), pods)).into();
        GroupDecision { nodes, pending, evicted: 0 }
    }

    fn decisions<const N: usize>(groups: [(&str, GroupDecision); N]) -> Decisions {
        Decisions { groups: groups.map(|(name, decision)| (name.to_owned(), decision)).into() }
    }

    #[test]
    fn decisions_that_differ_in_nodes_only_are_listed_apart() {
        let from = decisions([
            ("ns/same", decision([("n1", 1)], 0)),
            ("ns/moved", decision([("n1", 2)], 0)),
            ("ns/lost", decision([("n2", 1)], 0)),
        ]);
        let to = decisions([
            ("ns/same", decision([("n1", 1)], 0)),
            ("ns/moved", decision([("n1", 1), ("n2", 1)], 0)),
            ("ns/lost", decision([], 1)),
        ]);
        let comparison = DecisionComparison::new(&from, &to);
        let text = |differences: &[DecisionDifference]| {
            let text = |it: &DecisionDifference| format!("{}: {} → {}", it.group, it.from, it.to);
            differences.iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(text(&comparison.outcomes), ["ns/lost: on n2 → 1 pod pending"]);
        assert_eq!(text(&comparison.other_nodes), ["ns/moved: on n1 (2 pods) → on n1, n2"]);
    }
}
