//! One run of one case: a world, its steps, and what must hold after each and at the end.

use std::any::Any;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use cucumber::step::Collection;
use futures::FutureExt as _;
use gherkin::{Step, StepType};
use schedlab_emulator::clock::Clock;
use tokio::runtime;

use super::{
    CaseReport, FailureKind, Outcome, REVIEWED_SEED, Settings, StepReport, blank, fail, panics,
};
use crate::features::Case;
use crate::interrupt::Interrupted;
use crate::reviewed::{self, Verdict};
use crate::snapshots::{showing, symmetric, symmetric_but_shares};
use crate::steps::{shows, stranger};
use crate::world::World;

/// What came of one run.
pub(super) struct Attempt {
    /// The verdict.
    pub(super) report: CaseReport,
    /// Every write, a line each; empty unless runs are to be compared.
    pub(super) history: Vec<String>,
    /// How often its scheduler was killed at a write.
    pub(super) deaths: usize,
}

/// So long the cluster goes on after a scenario of which only the rules are judged.
const AFTERMATH: Duration = Duration::from_mins(2);

struct Broken {
    kind: FailureKind,
    line: usize,
    message: String,
}

/// What is asked of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Everything that the scenario says.
    All,
    /// That no rule is broken, though its scheduler dies before so many-th of its writes. What the
    /// scenario says of the time that things take, or of what was written, need not hold then.
    Rules {
        /// Counted from 1.
        dies_before: u32,
    },
}

/// Runs a case once, from nothing.
pub(super) fn attempt(case: &Case, steps: &Collection<World>, settings: &Settings) -> Attempt {
    once(case, steps, settings, Asked::All)
}

/// Runs a case once, from nothing, and judges what is asked.
pub(super) fn once(
    case: &Case,
    steps: &Collection<World>,
    settings: &Settings,
    asked: Asked,
) -> Attempt {
    let stopwatch = Clock::real();
    let began = stopwatch.now();
    panics::note();
    let mut builder = runtime::Builder::new_current_thread();
    let runtime = match &settings.ground {
        None => builder.enable_time().start_paused(true).build(),
        Some(_) => builder.enable_all().build(),
    };
    let runtime = runtime.expect("this machine can wait for time and sockets");
    let mut attempt = runtime.block_on(run(case, steps, settings, asked));
    drop(runtime);
    let wall = stopwatch.now().duration_since(began);
    attempt.report.wall = Duration::try_from(wall).unwrap_or_default();
    attempt
}

async fn run(case: &Case, steps: &Collection<World>, settings: &Settings, asked: Asked) -> Attempt {
    let world = match &settings.ground {
        None => World::emulated(case, settings.seed).await,
        Some(ground) => {
            let pace = settings.pace(case);
            World::real(case, ground, &settings.target, (settings.seed, pace)).await
        }
    };
    let mut world = match world {
        Ok(world) => world,
        Err(error) => {
            let mut report = blank(case);
            let message = format!("the cluster could not start: {error:#}");
            fail(&mut report, FailureKind::NotStarted, case.place.line, message, settings);
            return Attempt { report, history: Vec::new(), deaths: 0 };
        }
    };
    let mut attempt = match asked {
        Asked::All => play(&mut world, case, steps, settings).await,
        Asked::Rules { dies_before } => {
            world.let_it_die_before(dies_before);
            keep_rules(&mut world, case, steps, settings).await
        }
    };
    attempt.deaths = world.scheduler_deaths();
    if let (Some(guests), Some(failure)) = (world.guests().await, &mut attempt.report.failure) {
        failure.message = format!("{}\n{guests}", failure.message);
    }
    let left = world.close().await;
    if !left.is_empty() && attempt.report.outcome == Outcome::Passed {
        let message = format!("the scenario's objects could not be removed:\n{}", left.join("\n"));
        fail(&mut attempt.report, FailureKind::Step, case.place.line, message, settings);
    }
    attempt
}

async fn play(
    world: &mut World,
    case: &Case,
    steps: &Collection<World>,
    settings: &Settings,
) -> Attempt {
    let mut report = blank(case);
    let mut broken = None;
    for (index, step) in case.steps.iter().enumerate() {
        if settings.interrupted.is_raised() {
            return Attempt { report, history: Vec::new(), deaths: 0 };
        }
        broken = match run_step(world, step, steps, settings).await {
            Ended::Held => None,
            Ended::Broken(broken) => Some(broken),
            Ended::Interrupted => return Attempt { report, history: Vec::new(), deaths: 0 },
        };
        report.steps[index].outcome =
            if broken.is_some() { Outcome::Failed } else { Outcome::Passed };
        if broken.is_some() {
            break;
        }
    }
    if broken.is_none() {
        let leftovers = async { Ok::<_, Interrupted>(world.leftovers().await) };
        let Ok(left) = settings.interrupted.unless(leftovers).await else {
            return Attempt { report, history: Vec::new(), deaths: 0 };
        };
        let line = case.place.line;
        broken = left.map(|message| Broken { kind: FailureKind::Step, line, message });
    }
    report.virtual_millis = world.elapsed_millis();
    report.showing = Some(showing(&world.log()));
    match broken {
        Some(Broken { kind, line, message }) => {
            fail(&mut report, kind, line, message, settings);
        }
        None => compare_snapshot(case, (world, steps), settings, &mut report),
    }
    let history = if settings.repeat.get() > 1 { world.history() } else { Vec::new() };
    Attempt { report, history, deaths: 0 }
}

/// Goes through all steps, whether or not what they claim holds, and gives what comes of them time.
async fn keep_rules(
    world: &mut World,
    case: &Case,
    steps: &Collection<World>,
    settings: &Settings,
) -> Attempt {
    let mut report = blank(case);
    report.outcome = Outcome::Passed;
    let judged = |kind| matches!(kind, FailureKind::Audit | FailureKind::Panic);
    for step in &case.steps {
        match run_step(world, step, steps, settings).await {
            Ended::Broken(Broken { kind, line, message }) if judged(kind) => {
                fail(&mut report, kind, line, message, settings);
                break;
            }
            Ended::Held | Ended::Broken(_) => {}
            Ended::Interrupted => {
                report.outcome = Outcome::NotRun;
                break;
            }
        }
    }
    if report.outcome == Outcome::Passed {
        // The last write may be the one that it died before.
        let rested = world.pass(AFTERMATH).await;
        let broken = world.breach().map(|breach| (FailureKind::Audit, breach));
        let stuck = || rested.err().map(|error| (FailureKind::Timeout, format!("{error:#}")));
        if let Some((kind, message)) = broken.or_else(stuck) {
            fail(&mut report, kind, case.place.line, message, settings);
        }
    }
    report.virtual_millis = world.elapsed_millis();
    Attempt { report, history: Vec::new(), deaths: 0 }
}

/// How a step ended.
enum Ended {
    Held,
    Broken(Broken),
    Interrupted,
}

async fn run_step(
    world: &mut World,
    step: &Step,
    steps: &Collection<World>,
    settings: &Settings,
) -> Ended {
    let broken =
        |(kind, message)| Ended::Broken(Broken { kind, line: step.position.line, message });
    let (function, _, _, context) =
        steps.find(step).ok().flatten().expect("every step was matched before the case ran");
    world.at_line(step.position.line);
    let here = world.here();
    let words = context.matches.iter().map(|(_, word)| word.clone()).collect::<Vec<_>>();
    let future = AssertUnwindSafe(function(world, context)).catch_unwind();
    let future = settings.interrupted.unless(async { Ok::<_, Interrupted>(future.await) });
    let ended = tokio::time::timeout(settings.timeout, future).await;
    let panicked = panics::take();
    match ended {
        Ok(Err(_)) => return Ended::Interrupted,
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(payload))) => return broken(own_failure(&*payload, panicked, (&here, &words))),
        Err(_) => {
            let found = world.found().map(|found| format!("\nlast found: {found}"));
            let message = format!(
                "the step took more than {} s of the cluster's time (--timeout){}\n{}",
                settings.timeout.as_secs_f64(),
                found.unwrap_or_default(),
                world.state_of_affairs()
            );
            return broken((FailureKind::Timeout, with_panics(message, &panicked)));
        }
    }
    if !panicked.is_empty() {
        return broken((FailureKind::Panic, with_panics(String::new(), &panicked)));
    }
    if let Some(breach) = world.breach() {
        return broken((FailureKind::Audit, breach));
    }
    if let Some(message) = world.dead_scheduler() {
        return broken((FailureKind::Panic, message));
    }
    let stranger = is_claim(step, steps).then(|| stranger(world, &step.value)).flatten();
    stranger.map_or(Ended::Held, |message| broken((FailureKind::Step, message)))
}

/// Whether a step says what is, and not what comes to be.
fn is_claim(step: &Step, steps: &Collection<World>) -> bool {
    let as_claim = || Step { ty: StepType::Then, ..step.clone() };
    match step.ty {
        StepType::Then => true,
        StepType::Given => matches!(steps.find(&as_claim()), Ok(Some(_))),
        StepType::When => false,
    }
}

/// What a step that did not hold says; a real panic says where, too. `words` are the values in
/// the sentence that stands `here`.
fn own_failure(
    payload: &(dyn Any + Send),
    mut panicked: Vec<panics::Panic>,
    (here, words): (&str, &[String]),
) -> (FailureKind, String) {
    let message = panics::text(payload);
    let own = panicked.iter().position(|panic| panic.message == message);
    let own = own.map(|index| panicked.remove(index));
    let place = own.filter(|panic| !panic.place.contains("harness/src/steps"));
    let message = match (out_of_range(&message, words), place) {
        (Some(words), _) => format!("{here}: {words}"),
        (None, Some(panic)) => format!("panic at {}: {message}", panic.place),
        (None, None) => message,
    };
    (FailureKind::Step, with_panics(message, &panicked))
}

/// A part of the sentence that its type cannot hold; cucumber tells it in Rust's words.
fn out_of_range(message: &str, words: &[String]) -> Option<String> {
    let (name, rest) = message.split_once(" can not be parsed to ")?;
    let (_, told) = rest.split_once(": ")?;
    if let Ok(words) = serde_json::from_str::<String>(told) {
        return Some(format!("{name}: {words}"));
    }
    let (kind, _) = rest.split_once(": ParseIntError")?;
    let fits = |word: &&String| match kind {
        "i32" => word.parse::<i32>().is_ok(),
        _ => word.parse::<u32>().is_ok(),
    };
    let is_number = |word: &&String| word.trim_start_matches('-').parse::<f64>().is_ok();
    let found = words.iter().filter(is_number).find(|word| !fits(word))?;
    let (least, most) = match kind {
        "i32" => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (0, i64::from(u32::MAX)),
    };
    Some(format!("{name}: found {found}, allowed is a whole number from {least} to {most}"))
}

fn with_panics(mut message: String, panicked: &[panics::Panic]) -> String {
    for panic in panicked {
        if !message.is_empty() {
            message.push('\n');
        }
        let _ = write!(message, "a task panicked at {}: {}", panic.place, panic.message);
    }
    message
}

/// Compares what the case's snapshot steps showed with the reviewed file.
fn compare_snapshot(
    case: &Case,
    (world, steps): (&World, &Collection<World>),
    settings: &Settings,
    report: &mut CaseReport,
) {
    report.outcome = Outcome::Passed;
    let parts = world.shown();
    if parts.is_empty() {
        return;
    }
    let text = parts.join("\n");
    let path = case.snapshot();
    let file = &case.place.file;
    let as_reviewed = settings.ground.is_none() && settings.seed == REVIEWED_SEED;
    let compared = match settings.ground {
        None if as_reviewed => reviewed::compare(&path, file, &case.name, &text, settings.update),
        // Another seed gives pods other names and breaks ties in another way, as real time does.
        None => reviewed::compare_form(&path, &text, symmetric),
        Some(_) if settings.target.tells_shares() => {
            reviewed::compare_form(&path, &text, symmetric)
        }
        Some(_) => reviewed::compare_form(&path, &text, symmetric_but_shares),
    };
    let (outcome, message) = match compared {
        Ok(Verdict::Same | Verdict::Written) => return,
        Ok(Verdict::New(message)) => (Outcome::Pending, message),
        Ok(Verdict::Differs(message)) => (Outcome::Failed, message),
        Err(error) => (Outcome::Failed, format!("{error:#}")),
    };
    // A form has no parts that could be looked for.
    let holds = |part: &String| as_reviewed && reviewed::has(&path, part);
    let held: Vec<bool> = parts.iter().map(holds).collect();
    let showing = case.steps.iter().map(|step| shows(step, steps));
    let showing = showing.zip(&mut report.steps).filter(|(shows, _)| *shows).map(|(_, step)| step);
    let line = mark(showing.zip(held), outcome).unwrap_or(case.place.line);
    fail(report, FailureKind::Snapshot, line, message, settings);
    report.outcome = outcome;
}

/// Steps whose part is as reviewed held, the others did not; where only the order of parts or their
/// number differs, the last did not. Answers the line of the first that did not.
fn mark<'r>(
    showing: impl Iterator<Item = (&'r mut StepReport, bool)>,
    outcome: Outcome,
) -> Option<usize> {
    let (held, mut broken): (Vec<_>, Vec<_>) = showing.partition(|(_, held)| *held);
    if broken.is_empty() {
        broken.extend(held.into_iter().next_back());
    }
    for (step, _) in &mut broken {
        step.outcome = outcome;
    }
    broken.first().map(|(step, _)| step.line)
}
