//! Pod counts and states. An assertion may begin with a temporal operator (`now`, `eventually
//! within T`, `for T`, `never within T`, `after T`) and end in `and stays so for N cycles`; without
//! an operator everything settles first.

use std::cell::RefCell;
use std::{collections::BTreeMap, fmt};

use cucumber::{given, then};
use tokio::time::Instant;

use super::StepResult;
use super::gangs::{Gang, gangs_of_pods};
use super::parameters::{DurationValue, PodCounts, StableCycles, Timing, WorkloadState};
use super::subjects::{Subject, Workload};
use super::usage;
use crate::text::counted_noun;
use crate::world::observed::{Phase, Pod};
use crate::world::{Assertion, Temporal, World};

/// Pods by state, of a queue (and the queues below it), a workload, a node, a namespace or the
/// cluster. States: running, pending, gated, starting, terminating, succeeded, failed; only those
/// named are compared. `N pods` alone counts all pods that are not finished.
/// ```gherkin
/// Then queue "team-a" has 8 running and 4 pending pods
/// Then eventually within 10 minutes job "train" has 3 running pods and stays so for 5 cycles
/// Then for 2 hours the cluster has at most 32 running pods
/// Then never within 1 hour queue "team-a" has at least 9 running pods
/// ```
#[then(expr = "{when}{subject} has {pods}{stays}")]
async fn subject_has_pod_counts(
    world: &mut World,
    when: Timing,
    subject: Subject,
    counts: PodCounts,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| check_pod_counts(&subject.pods(&world.view), &subject, &counts);
    let ended = world.expect(when.0, stays.0, &claim).await;
    ended.map_err(|error| with_queue_numbers(world, &subject, &error))?;
    Ok(())
}

/// Precondition: once everything has settled, there must be these numbers of pods.
/// ```gherkin
/// Given queue "team-a" has 8 running pods
/// ```
#[given(expr = "{subject} has {pods}")]
async fn given_subject_has_pod_counts(
    world: &mut World,
    subject: Subject,
    counts: PodCounts,
) -> StepResult {
    subject_has_pod_counts(world, Timing(Temporal::Settled), subject, counts, StableCycles(0)).await
}

/// Adds the queue's quota, fair share, limit and usage to the error of an assertion about a queue,
/// after the first line.
fn with_queue_numbers(world: &World, subject: &Subject, error: &anyhow::Error) -> anyhow::Error {
    let message = format!("{error:#}");
    let (found, rest) = message.split_once('\n').unwrap_or((&message, ""));
    let lines = [found].into_iter().map(str::to_owned);
    let lines = lines.chain(usage::queue_number_lines(world, subject)).chain([rest.to_owned()]);
    anyhow::Error::msg(lines.collect::<Vec<_>>().join("\n").trim_end().to_owned())
}

fn check_pod_counts(pods: &[Pod<'_>], subject: &Subject, counts: &PodCounts) -> Result<(), String> {
    let found = PodsByPhase::from_pods(pods);
    let wrong = counts.0.iter().find(|(count, phase)| !count.matches(found.count(*phase)));
    let Some((count, phase)) = wrong else { return Ok(()) };
    let state = phase.map_or(String::new(), |phase| format!("{phase} "));
    let pods = counted_noun(found.count(*phase), &format!("{state}pod"));
    Err(format!("got {pods} of {subject}, expected {count}: {found}"))
}

/// Names of pods, grouped by phase.
struct PodsByPhase<'v> {
    names: BTreeMap<Phase, Vec<&'v str>>,
    /// Why the first failed pod failed, as its status says; empty if it says nothing.
    failure: &'v str,
}

impl<'v> PodsByPhase<'v> {
    fn from_pods(pods: &[Pod<'v>]) -> Self {
        let mut names: BTreeMap<Phase, Vec<&str>> = BTreeMap::new();
        for pod in pods {
            names.entry(pod.current_phase()).or_default().push(pod.pod_name());
        }
        let failed = pods.iter().filter(|pod| pod.current_phase() == Phase::Failed);
        let failure = failed.map(|pod| pod.failure_reason()).find(|reason| !reason.is_empty());
        Self { names, failure: failure.unwrap_or_default() }
    }

    /// Number of pods in this phase; for `None`, the number of pods in any phase that are not
    /// finished.
    fn count(&self, phase: Option<Phase>) -> usize {
        let counted = self.names.iter().filter(|(is, _)| match phase {
            Some(phase) => **is == phase,
            None => !matches!(is, Phase::Succeeded | Phase::Failed),
        });
        counted.map(|(_, names)| names.len()).sum()
    }
}

/// Displays the pods as `8 running (a-0, a-1, …), 1 failed (b: OutOfcpu: …)`.
impl fmt::Display for PodsByPhase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names.is_empty() {
            return f.write_str("no pods");
        }
        for (at, (phase, names)) in self.names.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let some = names.iter().take(4).copied().collect::<Vec<_>>().join(", ");
            let more = if names.len() > 4 { ", …" } else { "" };
            write!(f, "{comma}{} {phase} ({some}{more}", names.len())?;
            if *phase == Phase::Failed && !self.failure.is_empty() {
                write!(f, ": {}", self.failure)?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

/// All pods of a workload are in this state, and there is at least one; `gone`: there is none.
/// ```gherkin
/// Then gang "train" is pending
/// Then after 30 seconds pod "a" is gone
/// ```
#[then(expr = "{when}{workload} is {state}{stays}")]
async fn workload_is_in_state(
    world: &mut World,
    when: Timing,
    which: Workload,
    state: WorkloadState,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| {
        let pods = which.pods(&world.view);
        let holds = match state.0 {
            None => pods.is_empty(),
            Some(phase) => !pods.is_empty() && pods.iter().all(|pod| pod.current_phase() == phase),
        };
        let name = state.0.map_or("gone".to_owned(), |phase| phase.to_string());
        if holds {
            Ok(())
        } else {
            Err(format!("{which} is not {name}: {}", PodsByPhase::from_pods(&pods)))
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// Precondition: once everything has settled, the workload must be in this state.
/// ```gherkin
/// Given gang "train" is running
/// ```
#[given(expr = "{workload} is {state}")]
async fn given_workload_is_in_state(
    world: &mut World,
    which: Workload,
    state: WorkloadState,
) -> StepResult {
    workload_is_in_state(world, Timing(Temporal::Settled), which, state, StableCycles(0)).await
}

/// A gang is complete or absent: as many pods as its minimum have a node or have succeeded, or none
/// does. `for` and `and stays so` ignore transient states, because the binds of one decision come
/// one after another.
/// ```gherkin
/// Then for 10 minutes gang "train" is whole or absent
/// ```
#[then(expr = "{when}{workload} is whole or absent{stays}")]
async fn gang_is_whole(
    world: &mut World,
    when: Timing,
    which: Workload,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| {
        let pods = which.pods(&world.view);
        let gangs = gangs_of_pods(&world.view, &pods);
        if !gangs.is_empty() && gangs.iter().all(|gang| gang.min_members() <= 1) {
            let count = pods.len();
            return Err(match gangs.len() {
                1 => format!("{which} is not a gang: its group of {count} needs only one pod"),
                groups => format!(
                    "{which} is not a gang: each of the {groups} groups of its {count} pods needs \
                     only one pod"
                ),
            });
        }
        match gangs.iter().find_map(Gang::partial_placement_message) {
            None => Ok(()),
            Some(have) => {
                Err(format!("{which} is partly placed: {have}: {}", PodsByPhase::from_pods(&pods)))
            }
        }
    };
    if let Temporal::EventuallyWithin(_) = when.0 {
        let hold = ignoring_transient_states(&claim);
        world.expect_and_hold(when.0, stays.0, &claim, &hold).await?;
        return Ok(());
    }
    let lasts = matches!(when.0, Temporal::For(_));
    let first = if lasts { Temporal::Settled } else { when.0 };
    world.expect(first, 0, &claim).await?;
    if lasts || stays.0 > 0 {
        let then = if lasts { when.0 } else { Temporal::Now };
        world.expect(then, stays.0, &ignoring_transient_states(&claim)).await?;
    }
    Ok(())
}

/// An assertion like `claim`, except that it fails only if time advances while `claim` does not
/// hold.
fn ignoring_transient_states(claim: Assertion<'_>) -> impl Fn(&World) -> Result<(), String> {
    let broken: RefCell<Option<(Instant, String)>> = RefCell::default();
    move |world| {
        let now = Instant::now();
        let mut broken = broken.borrow_mut();
        if let Some((_, found)) =
            broken.take_if(|(since, _)| *since + world.write_burst_window() < now)
        {
            return Err(found);
        }
        match claim(world) {
            Ok(()) => *broken = None,
            Err(found) => {
                broken.get_or_insert((now, found));
            }
        }
        Ok(())
    }
}

/// The first pod of one workload started before the first of another.
/// ```gherkin
/// Then job "urgent" started before job "batch"
/// ```
#[then(expr = "{workload} started before {workload}")]
async fn pods_started_before(world: &mut World, first: Workload, second: Workload) -> StepResult {
    let claim = |world: &World| {
        let (a, b) = (first_start_time(world, &first)?, first_start_time(world, &second)?);
        if a < b { Ok(()) } else { Err(format!("{first} started at {a}, {second} at {b}")) }
    };
    world.expect(Temporal::Settled, 0, &claim).await?;
    Ok(())
}

/// The first pod of one workload started at least this much later than the first of another.
/// ```gherkin
/// Then job "owner" started at least 30 seconds after job "borrower"
/// ```
#[then(expr = "{workload} started at least {duration} after {workload}")]
async fn pods_started_later(
    world: &mut World,
    late: Workload,
    by: DurationValue,
    early: Workload,
) -> StepResult {
    let claim = |world: &World| {
        let (a, b) = (first_start_time(world, &early)?, first_start_time(world, &late)?);
        let apart = std::time::Duration::try_from(b.duration_since(a)).unwrap_or_default();
        if apart >= world.time_scale().scaled_duration(by.0) {
            Ok(())
        } else {
            Err(format!("{early} started at {a}, {late} at {b}"))
        }
    };
    world.expect(Temporal::Settled, 0, &claim).await?;
    Ok(())
}

/// When the first pod of a workload started, whether or not that pod still exists.
fn first_start_time(world: &World, which: &Workload) -> Result<jiff::Timestamp, String> {
    let pods: Vec<Pod<'_>> = which.pods_ever_seen(&world.view).collect();
    let starts = pods.iter().filter_map(|pod| pod.start_time().parse().ok());
    starts
        .min()
        .ok_or_else(|| format!("{which} has not started: {}", PodsByPhase::from_pods(&pods)))
}
