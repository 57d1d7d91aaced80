//! What a scenario's steps act on: one cluster, its scheduler, and what was shown so far.

mod claims;
mod evictions;
mod pace;
mod queues;
mod read;
mod setup;
mod submit;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_emulator::store::LogEntry;
use schedlab_json::Value;
use schedlab_scheduler::Config;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::api::Api;
use crate::audit::Audit;
use crate::cluster::{Cluster as _, Emulated, Place, Real, Under};
use crate::features::Case;
use crate::ground::Ground;
use crate::target::Target;
use crate::view::{Phase, Pod, View};

pub(crate) use claims::{Claim, TimeWord};
pub use pace::Pace;

/// How long a step waits for pods to start or to leave before it takes them as they are.
const MOTION_MAX: Duration = Duration::from_mins(10);

/// How long something may be written in every other cycle before that is a failure: somebody
/// writes the same again and again.
const BUSY_MAX: Duration = Duration::from_mins(3);
const BUSY_MAX_REAL: Duration = Duration::from_mins(10);

/// How long the writes of one decision may take to come one after another.
const MOMENT_REAL: Duration = Duration::from_secs(5);

/// How long the watches may lag behind what was written.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// One scenario's world.
#[derive(Debug, cucumber::World)]
#[world(init = Self::unplaced)]
pub struct World {
    /// Kubernetes, as an administrator.
    pub(crate) api: Api,
    /// What the cluster says of itself.
    pub(crate) view: View,
    cluster: Place,
    /// Which scheduler is tested.
    target: Target,
    /// How long the feature's durations are here.
    pace: Pace,
    scheduler: Scheduler,
    /// The scheduler dies before so many-th of its writes, whatever the scenario says.
    dies_before: Option<u32>,
    /// Where a step last said that the scheduler shall die at a write, and how often it had before.
    deaths_before: Option<(String, usize)>,
    /// Watches every write once the scheduler has started.
    audit: Option<Audit>,
    case: Case,
    /// What was submitted, by the name of the workload, so that it can go and come again.
    submitted: BTreeMap<String, Vec<Value>>,
    /// Paths of what steps deleted.
    deleted: BTreeSet<String>,
    /// What the target was last told of the queues, where it has an API of its own for them.
    retold: Vec<Value>,
    /// Work that arrives by itself, by name.
    streams: BTreeMap<String, Option<JoinHandle<anyhow::Error>>>,
    /// The line of the step that is run.
    line: usize,
    /// What the claim of this step found when it last did not hold.
    found: Option<String>,
    /// What snapshot steps showed.
    shown: Vec<String>,
    /// Writes and time at which the cluster was last at rest.
    rest: Option<(u64, Instant)>,
}

#[derive(Debug)]
enum Scheduler {
    /// It starts when time first passes.
    Awaited(Box<Config>),
    /// It was started; it may have been stopped or killed since.
    Started(Box<Under>),
    /// The scenario has none.
    Absent,
}

impl World {
    /// Boots an empty cluster for a case, on the current runtime.
    pub async fn emulated(case: &Case, seed: u64) -> anyhow::Result<Self> {
        let cluster = Place::Emulated(Emulated::start(seed));
        Self::on(cluster, case, &Target::ours(), (seed, Pace::default())).await
    }

    /// Gives a case a part of a real cluster, on the current runtime.
    pub async fn real(
        case: &Case,
        ground: &Arc<Ground>,
        target: &Target,
        (seed, pace): (u64, Pace),
    ) -> anyhow::Result<Self> {
        let cluster = Place::Real(Box::new(Real::start(ground).await?));
        Self::on(cluster, case, target, (seed, pace)).await
    }

    async fn on(
        cluster: Place,
        case: &Case,
        target: &Target,
        (seed, pace): (u64, Pace),
    ) -> anyhow::Result<Self> {
        let api = Api::new(cluster.client());
        let view = match &cluster {
            Place::Emulated(emulated) => View::within(emulated.emulator())?,
            Place::Real(_) => View::open(&api).await?,
        };
        let config = target.config(seed);
        Ok(Self {
            api,
            view,
            cluster,
            target: target.clone(),
            pace,
            scheduler: Scheduler::Awaited(Box::new(config)),
            dies_before: None,
            deaths_before: None,
            audit: None,
            case: case.clone(),
            line: case.place.line,
            submitted: BTreeMap::new(),
            deleted: BTreeSet::new(),
            retold: Vec::new(),
            streams: BTreeMap::new(),
            found: None,
            shown: Vec::new(),
            rest: None,
        })
    }

    fn unplaced() -> anyhow::Result<Self> {
        anyhow::bail!("a world belongs to a case: the runner starts it")
    }

    /// Lets time pass.
    pub(crate) async fn pass(&mut self, time: Duration) -> anyhow::Result<()> {
        self.wait(self.pace.of(time)).await
    }

    /// Lets the scheduler run so many cycles.
    pub(crate) async fn pass_cycles(&mut self, cycles: u32) -> anyhow::Result<()> {
        self.wait(self.period() * cycles).await
    }

    async fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        self.begin();
        let end = Instant::now() + time;
        while self.change_before(end).await? {}
        self.cluster.have_cycles().await;
        Ok(())
    }

    /// Takes in everything that was written until now.
    pub(crate) async fn catch_up(&mut self) -> anyhow::Result<()> {
        self.streams_flow().await?;
        self.view.drain().await?;
        let Some(marks) = self.cluster.marks() else { return Ok(()) };
        let end = Instant::now() + CATCH_UP_MAX;
        while !self.view.has_seen(&marks) {
            if !self.change_before(end).await? {
                break;
            }
        }
        self.view.drain().await
    }

    /// Waits for one change and takes it in; `false` when none came until then, or the scheduler
    /// ended by itself.
    async fn change_before(&mut self, end: Instant) -> anyhow::Result<bool> {
        self.streams_flow().await?;
        let ended = self.scheduler_ended();
        tokio::select! {
            biased;
            taken = self.view.next() => taken.map(|()| true),
            () = ended => Ok(false),
            () = tokio::time::sleep_until(end) => Ok(false),
        }
    }

    /// Lets the cluster run until nothing changes any more and no pod is on its way.
    pub(crate) async fn settle(&mut self) -> anyhow::Result<()> {
        self.begin();
        if self.is_at_rest() {
            return Ok(());
        }
        let end = Instant::now() + self.pace.of(MOTION_MAX);
        let busy_max = if self.is_real() { BUSY_MAX_REAL } else { BUSY_MAX };
        loop {
            let settled = self.cluster.settle(busy_max).await;
            settled.with_context(|| self.last_writes())?;
            let writes = self.cluster.writes();
            self.catch_up().await?;
            // While the watches were caught up with, somebody may have gone on.
            let goes_on = self.is_real() && writes != self.cluster.writes();
            let moves = (self.in_motion() || goes_on) && self.dead_scheduler().is_none();
            if !moves || Instant::now() >= end {
                break;
            }
            if !goes_on {
                self.change_before(end).await?;
            }
        }
        if let (Some(audit), true) = (&self.audit, self.scheduler_runs()) {
            audit.at_rest(self.cluster.now());
        }
        self.rest = Some((self.cluster.writes(), Instant::now()));
        Ok(())
    }

    /// Whether nothing has happened since everything settled. In virtual time a moment later is
    /// another moment: a cycle may have been due.
    fn is_at_rest(&self) -> bool {
        match (&self.cluster, self.rest) {
            (_, None) => false,
            (Place::Emulated(_), rest) => rest == Some((self.cluster.writes(), Instant::now())),
            (Place::Real(_), Some((writes, _))) => writes == self.cluster.writes(),
        }
    }

    /// How long what is written as one may take: in virtual time no time passes meanwhile.
    pub(crate) fn moment(&self) -> Duration {
        if self.is_real() { MOMENT_REAL } else { Duration::ZERO }
    }

    /// Whether its time is real.
    fn is_real(&self) -> bool {
        matches!(self.cluster, Place::Real(_))
    }

    /// Pods of others on its nodes, in words.
    pub(crate) async fn guests(&self) -> Option<String> {
        self.cluster.guests().await
    }

    /// Takes away everything that the scenario made. Answers what is left.
    pub(crate) async fn close(mut self) -> Vec<String> {
        // One that does not run need not be ended.
        let _ = self.stop_scheduler();
        self.streams.values().flatten().for_each(JoinHandle::abort);
        self.cluster.close().await
    }

    /// Whether a pod on a living node has not started yet or has not gone yet.
    fn in_motion(&self) -> bool {
        let on_its_way = |pod: Pod<'_>| matches!(pod.phase(), Phase::Starting | Phase::Terminating);
        self.view.pods().any(|pod| on_its_way(pod) && self.view.node_lives(pod.node()))
    }

    /// The first rule that was broken, with its history.
    pub(crate) fn breach(&self) -> Option<String> {
        self.audit.as_ref()?.breaches().first().map(ToString::to_string)
    }

    /// What must not be left at the end of a case.
    pub(crate) async fn leftovers(&mut self) -> Option<String> {
        if let Err(error) = self.settle().await {
            return Some(format!("at the end of the scenario: {error:#}"));
        }
        self.breach().or_else(|| self.outlived())
    }

    /// When the cluster's time began.
    pub(crate) fn born(&self) -> jiff::Timestamp {
        self.cluster.born()
    }

    /// How long the feature's durations are here.
    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// Milliseconds of the cluster's time since it began.
    pub(crate) fn elapsed_millis(&self) -> u64 {
        self.cluster.elapsed_millis()
    }

    /// Adds to what is compared with the snapshot.
    pub(crate) fn show(&mut self, title: &str, text: &str) {
        self.shown.push(format!("## {title}\n\n{}\n", text.trim_end()));
    }

    /// What snapshot steps showed, one after another.
    pub(crate) fn shown(&self) -> &[String] {
        &self.shown
    }

    /// Every change so far.
    pub(crate) fn log(&self) -> Vec<Arc<LogEntry>> {
        self.cluster.log()
    }

    /// Every write, a line each, to compare two runs.
    pub(crate) fn history(&self) -> Vec<String> {
        let line = |entry: &Arc<LogEntry>| {
            format!("{} {} {:?} {}", entry.time, entry.manager, entry.kind, entry.object)
        };
        self.cluster.log().iter().map(line).collect()
    }

    /// The last writes, for somebody who wonders why there is no end to them.
    fn last_writes(&self) -> String {
        let log = self.cluster.log();
        let last = log.iter().rev().take(10).rev().map(|entry| {
            let key = &entry.key;
            format!(
                "  {} {} {} {}/{}",
                entry.time, entry.manager, key.resource.plural, key.namespace, key.name
            )
        });
        format!("the last writes were:\n{}", last.collect::<Vec<_>>().join("\n"))
    }

    /// A file beside the feature's folder.
    pub(crate) fn fixture(&self, name: &str) -> PathBuf {
        self.case.base().join("fixtures").join(name)
    }

    /// `file:line` of a table's row, the header being 0.
    pub(crate) fn place(&self, table_line: usize, row: usize) -> String {
        let lines = self.case.tables.get(&table_line);
        let line = lines.and_then(|lines| lines.get(row)).copied().unwrap_or(table_line + row);
        format!("{}:{line}", self.case.place.file)
    }
}
