//! How many pods are in which state. Every claim may begin with a time word (`now`,
//! `eventually within T`, `for T`, `never within T`, `after T`) and end in `and stays so for N
//! cycles`; without a time word everything settles first.

use std::cell::RefCell;
use std::{collections::BTreeMap, fmt};

use cucumber::{given, then};
use tokio::time::Instant;

use super::StepResult;
use super::gangs::{Gang, gangs};
use super::parameters::{Span, State, Stays, Tally, When};
use super::subjects::{Subject, Workload};
use crate::view::{Phase, Pod};
use crate::world::{Claim, TimeWord, World};

/// Pods by state: of a queue (and those below it), a workload, a node, a namespace or the
/// cluster. States: running, pending, gated, starting, terminating, succeeded, failed; only
/// those named are compared. `N pods` alone counts all that are not finished.
/// ```gherkin
/// Then queue "team-a" has 8 running and 4 pending pods
/// Then eventually within 10 minutes job "train" has 3 running pods and stays so for 5 cycles
/// Then for 2 hours the cluster has at most 32 running pods
/// Then never within 1 hour queue "team-a" has at least 9 running pods
/// ```
#[then(expr = "{when}{subject} has {tally}{stays}")]
async fn counts(
    world: &mut World,
    when: When,
    subject: Subject,
    tally: Tally,
    stays: Stays,
) -> StepResult {
    let claim = |world: &World| holds(&subject.pods(&world.view), &subject, &tally);
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// The same as a starting point: everything settles, and then this must hold.
/// ```gherkin
/// Given queue "team-a" has 8 running pods
/// ```
#[given(expr = "{subject} has {tally}")]
async fn counted(world: &mut World, subject: Subject, tally: Tally) -> StepResult {
    counts(world, When(TimeWord::Settled), subject, tally, Stays(0)).await
}

fn holds(pods: &[Pod<'_>], subject: &Subject, tally: &Tally) -> Result<(), String> {
    let found = ByPhase::of(pods);
    let wrong = tally.0.iter().find(|(count, phase)| !count.means(found.count(*phase)));
    let Some((count, phase)) = wrong else { return Ok(()) };
    let state = phase.map_or(String::new(), |phase| format!("{phase} "));
    let there = found.count(*phase);
    Err(format!("expected {count} {state}pods of {subject}, found {there}: {found}"))
}

/// Names of pods by where they are in their lives.
struct ByPhase<'v>(BTreeMap<Phase, Vec<&'v str>>);

impl<'v> ByPhase<'v> {
    fn of(pods: &[Pod<'v>]) -> Self {
        let mut by_phase: BTreeMap<Phase, Vec<&str>> = BTreeMap::new();
        for pod in pods {
            by_phase.entry(pod.phase()).or_default().push(pod.name());
        }
        Self(by_phase)
    }

    /// How many are in this phase; `None`: in any but the last ones.
    fn count(&self, phase: Option<Phase>) -> usize {
        let counted = self.0.iter().filter(|(is, _)| match phase {
            Some(phase) => **is == phase,
            None => !matches!(is, Phase::Succeeded | Phase::Failed),
        });
        counted.map(|(_, names)| names.len()).sum()
    }
}

/// `8 running (a-0, a-1, …), 1 pending (b)`.
impl fmt::Display for ByPhase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no pods");
        }
        for (at, (phase, names)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let some = names.iter().take(4).copied().collect::<Vec<_>>().join(", ");
            let more = if names.len() > 4 { ", …" } else { "" };
            write!(f, "{comma}{} {phase} ({some}{more})", names.len())?;
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
async fn is_in_state(
    world: &mut World,
    when: When,
    which: Workload,
    state: State,
    stays: Stays,
) -> StepResult {
    let claim = |world: &World| {
        let pods = which.pods(&world.view);
        let holds = match state.0 {
            None => pods.is_empty(),
            Some(phase) => !pods.is_empty() && pods.iter().all(|pod| pod.phase() == phase),
        };
        let name = state.0.map_or("gone".to_owned(), |phase| phase.to_string());
        if holds { Ok(()) } else { Err(format!("{which} is not {name}: {}", ByPhase::of(&pods))) }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// The same as a starting point: everything settles, and then this must hold.
/// ```gherkin
/// Given gang "train" is running
/// ```
#[given(expr = "{workload} is {state}")]
async fn stands(world: &mut World, which: Workload, state: State) -> StepResult {
    is_in_state(world, When(TimeWord::Settled), which, state, Stays(0)).await
}

/// A gang is never in between: as many pods as its minimum hold a node or have succeeded, or none
/// does. `for` and `and stays so` mean what lasts: binds of one moment come one after another.
/// ```gherkin
/// Then for 10 minutes gang "train" is whole or absent
/// ```
#[then(expr = "{when}{workload} is whole or absent{stays}")]
async fn whole(world: &mut World, when: When, which: Workload, stays: Stays) -> StepResult {
    let claim = |world: &World| {
        let pods = which.pods(&world.view);
        let gangs = gangs(&world.view, &pods);
        if !gangs.is_empty() && gangs.iter().all(|gang| gang.least() <= 1) {
            let alone = match gangs.len() {
                1 => format!("its group of {} needs", pods.len()),
                groups => format!("{} pods in {groups} groups, each of which needs", pods.len()),
            };
            return Err(format!("{which} is no gang: {alone} one pod only"));
        }
        match gangs.iter().find_map(Gang::torn) {
            None => Ok(()),
            Some(have) => Err(format!("{which} is torn: {have}: {}", ByPhase::of(&pods))),
        }
    };
    let lasts = matches!(when.0, TimeWord::For(_));
    let first = if lasts { TimeWord::Settled } else { when.0 };
    world.expect(first, 0, &claim).await?;
    if lasts || stays.0 > 0 {
        let then = if lasts { when.0 } else { TimeWord::Now };
        world.expect(then, stays.0, &lasting(&claim)).await?;
    }
    Ok(())
}

/// The same claim, which fails only when time moves on from a moment that it did not hold in.
fn lasting(claim: Claim<'_>) -> impl Fn(&World) -> Result<(), String> {
    let broken: RefCell<Option<(Instant, String)>> = RefCell::default();
    move |world| {
        let now = Instant::now();
        let mut broken = broken.borrow_mut();
        if let Some((since, found)) = &*broken
            && *since + world.moment() < now
        {
            return Err(found.clone());
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
async fn before(world: &mut World, first: Workload, second: Workload) -> StepResult {
    let claim = |world: &World| {
        let (a, b) = (start(world, &first)?, start(world, &second)?);
        if a < b { Ok(()) } else { Err(format!("{first} started at {a}, {second} at {b}")) }
    };
    world.expect(TimeWord::Settled, 0, &claim).await?;
    Ok(())
}

/// The first pod of one workload started so much later than the first of another.
/// ```gherkin
/// Then job "owner" started at least 30 seconds after job "borrower"
/// ```
#[then(expr = "{workload} started at least {duration} after {workload}")]
async fn later(world: &mut World, late: Workload, by: Span, early: Workload) -> StepResult {
    let claim = |world: &World| {
        let (a, b) = (start(world, &early)?, start(world, &late)?);
        let apart = std::time::Duration::try_from(b.duration_since(a)).unwrap_or_default();
        if apart >= world.pace().of(by.0) {
            Ok(())
        } else {
            Err(format!("{early} started at {a}, {late} at {b}"))
        }
    };
    world.expect(TimeWord::Settled, 0, &claim).await?;
    Ok(())
}

/// When its first pod started, whether or not that is still there.
fn start(world: &World, which: &Workload) -> Result<jiff::Timestamp, String> {
    let pods: Vec<Pod<'_>> = which.pods_ever(&world.view).collect();
    let starts = pods.iter().filter_map(|pod| pod.started().parse().ok());
    starts.min().ok_or_else(|| format!("{which} has not started: {}", ByPhase::of(&pods)))
}
