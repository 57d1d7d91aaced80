//! Replaces one version of a scheduler by another under load, and back again: running work is
//! not touched, nothing is bound twice, no gang breaks, queue status is recomputed, and what the
//! old version wrote is still read. Everything is judged by what the API shows; which cluster it
//! is plays no part here.

mod checks;
mod process;
mod spec;
mod state;
mod version;
mod watching;
mod work;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::api::Api;
use crate::ground::Installation;
use crate::leftovers::Run;
use crate::progress::Progress;
pub use checks::Check;
pub use spec::Spec;
use state::State;
use version::Version;
use watching::Watching;
use work::Round;

/// How long a version may take for what it is waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long nothing may change for the cluster to count as quiet.
const QUIET: Duration = Duration::from_secs(2);

/// How one version follows the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The new one starts while the old one still runs, as a rolling Deployment does.
    Rolling,
    /// The old one stops first.
    StopAndStart,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rolling => "rolling",
            Self::StopAndStart => "stop and start",
        })
    }
}

/// What came of an upgrade and its way back.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The way.
    pub way: Way,
    /// There, then back.
    pub moves: Vec<Move>,
}

/// One version replaced by another.
#[derive(Clone, Debug, Serialize)]
pub struct Move {
    /// From and to what, in words.
    pub title: String,
    /// What was checked.
    pub checks: Vec<Check>,
    /// What is different afterwards: `-` before, `+` after.
    pub diff: Vec<String>,
}

impl Verdict {
    /// Whether every check held.
    pub fn passed(&self) -> bool {
        self.moves.iter().flat_map(|one| &one.checks).all(Check::held)
    }
}

/// A cluster with its fleet and kinds, and nothing that schedules.
#[derive(Debug)]
pub struct Bench {
    /// As an administrator.
    pub api: Api,
    /// How processes reach it.
    pub kubeconfig: PathBuf,
    /// Name of the scheduler in `spec.schedulerName`.
    pub scheduler_name: String,
    /// Notes what is started.
    pub run: Run,
    /// Where versions are installed that are no processes.
    pub(crate) installation: Option<Installation>,
}

/// Why an upgrade could not be judged.
#[derive(Debug, thiserror::Error)]
#[error("{version}: {why}\n{log}")]
pub struct NotStarted {
    version: String,
    why: String,
    log: String,
}

/// Goes there and back again.
pub async fn upgrade(
    bench: &mut Bench,
    (from, to): (&Spec, &Spec),
    way: Way,
    progress: &mut Progress,
) -> anyhow::Result<Verdict> {
    let mut view = Watching::open(&bench.api).await?;
    work::queues(&mut bench.api, &mut view).await?;
    let step = progress.begin("the old version at work", Duration::from_secs(10));
    let mut old = Version::start(bench, from, "old").await?;
    work::standing(&mut bench.api, &bench.scheduler_name).await?;
    if let Err(why) = wait(&mut view, &mut old, work::stands).await? {
        let (version, log) = (from.to_string(), old.last_words().await);
        return Err(NotStarted { version, why, log }.into());
    }
    progress.done(step);
    let mut moves = Vec::new();
    let (there, new) = replace(bench, &mut view, (old, to), Round::There(way), progress).await?;
    let failed = !there.checks.iter().all(Check::held);
    moves.push(there);
    if failed {
        // What is broken already says nothing of the way back.
        return Ok(Verdict { way, moves });
    }
    let (back, _last) = replace(bench, &mut view, (new, from), Round::Back(way), progress).await?;
    moves.push(back);
    Ok(Verdict { way, moves })
}

/// Replaces the running scheduler and judges what came of it.
async fn replace(
    bench: &mut Bench,
    view: &mut Watching,
    (old, to): (Version, &Spec),
    round: Round,
    progress: &mut Progress,
) -> anyhow::Result<(Move, Version)> {
    let title = format!("{} {to}", round.words());
    let step = format!("{}, {}", round.name(), round.way());
    let step = progress.begin(&step, Duration::from_secs(15));
    view.drain().await?;
    view.forget();
    let before = view.state();
    let (mut new, finished) = match round.way() {
        Way::Rolling => roll(bench, view, (old, to), round).await?,
        Way::StopAndStart => stop_and_start(bench, view, (old, to), round).await?,
    };
    let told = match work::told(&view.state(), round) {
        Err(_) if finished.is_ok() => {
            wait(view, &mut new, |state| work::told(state, round)).await?
        }
        told => told,
    };
    let after = view.state();
    let mut checks = checks::all(&before, &after, view.seen());
    if let Err(why) = finished {
        checks.push(Check::failed("new work is scheduled", vec![why, new.last_words().await]));
    } else {
        checks.push(Check::held_by("new work is scheduled", "a gang finished, a new pod runs"));
        checks.push(checks::told(told));
    }
    progress.done(step);
    Ok((Move { title, checks, diff: state::diff(&before, &after) }, new))
}

/// The new version stands by, or works beside the old one, when that is told to go. Work that is
/// half done just then is finished by either. Answers why new work was not scheduled.
async fn roll(
    bench: &mut Bench,
    view: &mut Watching,
    (old, to): (Version, &Spec),
    round: Round,
) -> anyhow::Result<(Version, Result<(), String>)> {
    if old.is_replaced() {
        // The cluster tells the old one to go as soon as the new one stands by.
        work::half_bound(bench, view, round).await?;
        let mut new = Version::start(bench, to, round.name()).await?;
        if let Some(why) = new.ended() {
            // The old one has gone on meanwhile.
            view.settle().await?;
            return Ok((new, Err(why)));
        }
        let finished = finish(bench, view, &mut new, round).await?;
        return Ok((new, finished));
    }
    let mut new = Version::start(bench, to, round.name()).await?;
    if let Err(why) = wait(view, &mut new, |_| Ok(())).await? {
        return Ok((new, Err(why)));
    }
    work::half_bound(bench, view, round).await?;
    old.end().await?;
    let finished = finish(bench, view, &mut new, round).await?;
    Ok((new, finished))
}

/// Nobody is there for a while: what is half done then, the new version finds so.
async fn stop_and_start(
    bench: &mut Bench,
    view: &mut Watching,
    (old, to): (Version, &Spec),
    round: Round,
) -> anyhow::Result<(Version, Result<(), String>)> {
    old.end().await?;
    work::forget_queue_status(&bench.api, view.view()).await?;
    work::half_bound(bench, view, round).await?;
    let mut new = Version::start(bench, to, round.name()).await?;
    let finished = finish(bench, view, &mut new, round).await?;
    Ok((new, finished))
}

/// Waits until what was half done is done, and what is submitted now as well.
async fn finish(
    bench: &mut Bench,
    view: &mut Watching,
    new: &mut Version,
    round: Round,
) -> anyhow::Result<Result<(), String>> {
    let whole = wait(view, new, |state| work::gang_is_whole(state, round)).await?;
    if whole.is_err() {
        return Ok(whole);
    }
    work::fresh(&mut bench.api, &bench.scheduler_name, round).await?;
    wait(view, new, |state| work::fresh_runs(state, round)).await
}

/// Waits until something is so and nothing changes any more. `Err` inside: it did not come to
/// that, and what was missing last.
async fn wait(
    view: &mut Watching,
    scheduler: &mut Version,
    is_so: impl Fn(&State) -> Result<(), String>,
) -> anyhow::Result<Result<(), String>> {
    let end = Instant::now() + PATIENCE;
    let mut last = view.state();
    let mut since = Instant::now();
    loop {
        let so = is_so(&last);
        if so.is_ok() && since.elapsed() >= QUIET {
            return Ok(Ok(()));
        }
        if let Some(why) = scheduler.ended() {
            view.settle().await?;
            return Ok(Err(why));
        }
        if Instant::now() >= end {
            let why = so.err().unwrap_or_else(|| "it never came to rest".to_owned());
            return Ok(Err(format!("not within {} s: {why}", PATIENCE.as_secs())));
        }
        let Ok(taken) = tokio::time::timeout(QUIET, view.next()).await else { continue };
        let now = taken?;
        if now != last {
            last = now;
            since = Instant::now();
        }
    }
}
