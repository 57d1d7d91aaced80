//! The loop: news from the watches change the mirror; when a cycle is due the mirror becomes a
//! snapshot, the snapshot a plan, and the plan API calls.

mod events;
mod tell;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::FutureExt as _;
use kube::Client;
use schedlab_scheduler_core::{Plan, model::Time, schedule, schedule_before};
use tokio::time::{Instant, timeout};

use events::Event;

use crate::{
    api::{Api, ApiError},
    apply::{Applier, Outcome},
    binder,
    config::{Clock, Component, Config, Ends, Flavor, Idle},
    metrics::{Metrics, Stopwatch, Timings},
    mirror::{Key, Mirror},
    pacing::Pacing,
    podgrouper::{self, Grouper},
    trace::Beside,
    translate::Translator,
    usage::{Past, Usage},
    watch::{Kind, Need, Watches},
};

/// So many repetitions of a plan are checked, and every so many-th after them.
const CHECKED: u64 = 60;

/// With usage history the order of queues changes by time alone; how often that is looked at.
const USAGE_STEP: Duration = Duration::from_mins(1);

/// Who waits for the process to end, or for its lease, waits no longer for the last write.
const LAST_WRITE_MAX: Duration = Duration::from_secs(5);

/// Schedules until it is dropped. Ends with an error only when it cannot start.
///
/// # Errors
/// The API server cannot be reached or refuses what the scheduler has to read.
pub async fn run(client: Client, config: Config, now: Clock) -> anyhow::Result<()> {
    work(client, config, (now, None), std::future::pending()).await
}

/// The same, tells `metrics` of each cycle, and ends soon after `stop` does: what is not written
/// yet of the usage history is written then.
///
/// # Errors
/// As [`run`].
pub async fn run_until(
    client: Client,
    config: Config,
    (now, metrics): (Clock, Option<Arc<Metrics>>),
    stop: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    work(client, config, (now, metrics), stop).await
}

/// Runs the parts that run here, until one of them ends; those of a single cycle one after the
/// other.
async fn work(
    client: Client,
    config: Config,
    (now, metrics): (Clock, Option<Arc<Metrics>>),
    stop: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    if !config.runs_cycles() && !config.runs(Component::Binder) {
        stop.await;
        return Ok(());
    }
    let api = Api::new(client, config.scheduler_name.clone());
    if !config.binds_requests() {
        return cycles(api, config, (now, metrics), stop).boxed().await;
    }
    if !config.runs_cycles() {
        let binding = binder::run(api, &config, now).boxed();
        return tokio::select! { biased; () = stop => Ok(()), done = binding => done };
    }
    let watched = (Clock::clone(&now), metrics);
    let stop = stop.shared();
    let deciding = cycles(api.clone(), config.clone(), watched, stop.clone()).boxed();
    let binding = binder::run(api, &config, now).boxed();
    match config.ends {
        Ends::Never => {
            tokio::select! {
                biased;
                done = deciding => done,
                done = binding => done,
            }
        }
        Ends::AfterOneCycle => {
            deciding.await?;
            tokio::select! { biased; () = stop => Ok(()), done = binding => done }
        }
    }
}

async fn cycles(
    api: Api,
    config: Config,
    (now, metrics): (Clock, Option<Arc<Metrics>>),
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut stop = std::pin::pin!(stop);
    // A server that takes requests and answers none is waited for as long as nobody says stop.
    tokio::select! {
        biased;
        () = &mut stop => return Ok(()),
        listed = listable(&api, config.flavor) => listed?,
    }
    let mut scheduler = Box::new(Scheduler::new(api, config, now, metrics));
    tokio::select! {
        biased;
        () = stop => {}
        done = scheduler.work() => return done,
    }
    scheduler.keep_usage().await;
    Ok(())
}

/// What the scheduler has to read can be read.
async fn listable(api: &Api, flavor: Flavor) -> anyhow::Result<()> {
    for kind in Kind::watched(flavor) {
        match api.get(&format!("{}?limit=1", kind.path())).await {
            // A kind without a definition is asked for again and again.
            Ok(_) | Err(ApiError::NotFound(_)) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot list {}", kind.path()));
            }
        }
    }
    Ok(())
}

/// Kinds that matter once pods name `need`; those that always do without.
fn kinds(flavor: Flavor, need: Option<Need>) -> impl Iterator<Item = Kind> {
    Kind::watched(flavor).iter().copied().filter(move |kind| kind.need() == need)
}

/// One scheduler at work.
struct Scheduler {
    api: Api,
    config: Config,
    now: Clock,
    metrics: Option<Arc<Metrics>>,
    watches: Watches,
    /// What pods named so far.
    needs: Vec<Need>,
    mirror: Mirror,
    /// Kinds that have been listed; no cycle runs before all are that are watched.
    listed: BTreeSet<Kind>,
    grouper: Grouper,
    /// Of the grouper's writes.
    pacing: Pacing,
    applier: Applier,
    past: Past,
    translator: Translator,
    /// The mirror's revision that the translator has seen.
    translated: Option<u64>,
    last_cycle: Option<Instant>,
    due: Option<Instant>,
    /// When pods are read that watches told of.
    reads_at: Option<Instant>,
    rest: Option<Rest>,
    /// Those of the last cycle, where this scheduler does not end them.
    idle_reservations: BTreeSet<Key>,
}

/// The last cycle changed nothing and wrote nothing: until there are news, or this moment has
/// come, the next ones would only decide the same again.
#[derive(Debug)]
struct Rest {
    plan: Plan,
    until: Option<Instant>,
    /// Cycles that were such repetitions so far.
    repeats: u64,
}

impl Rest {
    /// Whether a debug build decides this repetition anew, to see that nothing else comes of it: it
    /// does so a while, then now and then, for a rest can be a day of cycles.
    fn is_checked(&self) -> bool {
        self.repeats <= CHECKED || self.repeats.is_multiple_of(CHECKED)
    }
}

impl Scheduler {
    fn new(api: Api, config: Config, now: Clock, metrics: Option<Arc<Metrics>>) -> Self {
        let own = config.usage_window.map(|window| Usage::over(window, config.usage_half_life));
        let known = (own, config.usage_database.clone());
        let pool = config.node_pool.as_ref().map(|pool| &*pool.value);
        let clock = Clock::clone(&now);
        let past = Past::new(&api, known, pool, move || clock());
        if let Some(metrics) = &metrics {
            metrics.follow(past.own_alone());
        }
        Self {
            watches: Watches::start(&api.client, kinds(config.flavor, None)),
            mirror: Mirror::new(&config.scheduler_name)
                .of_flavor(config.flavor)
                .of_pool(config.node_pool.clone())
                .of_workers(config.restrict_node_scheduling),
            needs: Vec::new(),
            listed: BTreeSet::new(),
            grouper: Grouper::new(&config),
            pacing: Pacing::up_to(config.writes_at_once),
            applier: Applier::new(api.clone(), &config),
            past,
            translator: Translator::of(&config),
            translated: None,
            last_cycle: None,
            due: None,
            reads_at: None,
            rest: None,
            idle_reservations: BTreeSet::new(),
            api,
            config,
            now,
            metrics,
        }
    }

    /// Until its last cycle.
    async fn work(&mut self) -> anyhow::Result<()> {
        self.remember_usage().await?;
        loop {
            match self.next().await {
                Event::News(news) => self.take(news),
                Event::Usage => self.take_usage(),
                Event::Due => self.cycle().await,
            }
            if self.config.ends == Ends::AfterOneCycle && self.last_cycle.is_some() {
                return Ok(());
            }
        }
    }

    async fn cycle(&mut self) {
        let started = Instant::now();
        self.last_cycle = Some(started);
        self.due = None;
        let now = Time((self.now)().as_millisecond());
        if self.rest.as_ref().is_some_and(|rest| rest.until.is_none_or(|until| started < until)) {
            self.repeat(started, now);
            return;
        }
        let before = self.api.requests();
        let grouped = self.group(now).await;
        self.look(now);
        let opened = Instant::now();
        let mut stopwatch = Stopwatch::default();
        let plan = self.decide(&mut stopwatch);
        let mut outcome = self.apply(&plan).await;
        let applied = Instant::now();
        let uses = self.uses(&plan.queues);
        // Of what was not all done the next cycle tells.
        let is_done = self.config.runs(Component::Scheduler) && outcome == Outcome::default();
        let after = is_done.then(|| self.uses(&plan.queues_after));
        let marked = if outcome.in_doubt { Ok(()) } else { self.mark_groups().await };
        let told = (&uses, after.as_ref().unwrap_or(&uses));
        let told = self.tell_queues(plan.shared.at_least_zero(), told, now).await;
        let groups_told = self.tell_groups(is_done.then_some(&plan)).await;
        for failed in [grouped, marked, told, groups_told].into_iter().filter_map(Result::err) {
            outcome.retry = true;
            outcome.failure = Some(failed.to_string());
        }
        self.tell_status(&plan, &outcome, &uses);
        outcome.retry |= self.tell_idle_reservations();
        let (open, close, whole) = (opened - started, applied.elapsed(), started.elapsed());
        self.measure(&plan, &stopwatch, Timings { open, close, whole });
        self.plan_next(started, &plan, &outcome);
        let is_done = Outcome { held: false, ..outcome } == Outcome::default();
        let is_quiet = self.api.requests() == before && is_done;
        self.rest = is_quiet.then(|| self.rest_after(started, plan));
    }

    async fn apply(&mut self, plan: &Plan) -> Outcome {
        if !self.config.runs(Component::Scheduler) {
            return Outcome::default();
        }
        self.applier.apply(&mut self.mirror, &self.translator.translation, plan).await
    }

    fn decide(&self, stopwatch: &mut Stopwatch) -> Plan {
        let snapshot = &self.translator.translation.snapshot;
        let profile = &self.config.profile;
        if let Some(trace) = &self.config.trace {
            trace.cycle(snapshot.now);
            return schedule_before(snapshot, profile, &mut Beside { other: stopwatch, trace });
        }
        match self.metrics {
            Some(_) => schedule_before(snapshot, profile, stopwatch),
            None => schedule(snapshot, profile),
        }
    }

    /// A cycle that would only decide again what the last one did.
    fn repeat(&mut self, started: Instant, now: Time) {
        let checked = self.rest.as_mut().is_some_and(|rest| {
            rest.repeats += 1;
            rest.is_checked()
        });
        debug_assert!(
            !checked || self.decides_the_same(now),
            "the plan changed by time before its deadline"
        );
        self.config.status.send_modify(|status| status.cycles += 1);
        if self.config.idle == Idle::EveryPeriod {
            self.call_cycle(started);
        }
        if let Some(until) = self.rest.as_ref().and_then(|rest| rest.until) {
            self.call_cycle(until);
        }
    }

    fn decides_the_same(&mut self, now: Time) -> bool {
        let snapshot = &mut self.translator.translation.snapshot;
        snapshot.now = now;
        let mut plan = schedule(snapshot, &self.config.profile);
        self.rest.as_ref().is_some_and(|rest| {
            plan.look_again_in_millis = rest.plan.look_again_in_millis;
            plan == rest.plan
        })
    }

    /// Usage moves with time, and is looked at now and then; the rest has a deadline in the plan.
    fn rest_after(&self, started: Instant, plan: Plan) -> Rest {
        let deadline = plan.look_again_in_millis.map(Duration::from_millis);
        let usage = self.past.moves().then_some(USAGE_STEP);
        let times = deadline.into_iter().chain(usage).chain(self.looks_again_after());
        let until = times.min().map(|time| started + time);
        Rest { plan, until, repeats: 0 }
    }

    fn looks_again_after(&self) -> Option<Duration> {
        let own = self.grouper.looks_again_after(&self.mirror);
        let own = own.filter(|_| self.config.runs(Component::Podgrouper));
        own.into_iter().chain(self.applier.look_again_after()).min()
    }

    async fn group(&mut self, now: Time) -> Result<(), ApiError> {
        if self.config.flavor == Flavor::Kube {
            return Ok(());
        }
        if !self.config.runs(Component::Podgrouper) {
            podgrouper::note_faults(&mut self.mirror);
            return Ok(());
        }
        self.grouper.group(&self.api, (&mut self.mirror, now), &mut self.pacing).await
    }

    /// Pods that got no binding to carry the mark of their group get it by itself.
    async fn mark_groups(&mut self) -> Result<(), ApiError> {
        if self.config.flavor == Flavor::Kube {
            return Ok(());
        }
        podgrouper::mark(&self.api, &mut self.mirror, &mut self.pacing).await
    }

    /// Brings the snapshot up to date.
    fn look(&mut self, now: Time) {
        if self.translated != Some(self.mirror.revision) {
            self.translator.refresh(&mut self.mirror);
            self.translated = Some(self.mirror.revision);
        }
        let snapshot = &mut self.translator.translation.snapshot;
        snapshot.now = now;
        self.past.tell(&mut snapshot.queues, now);
    }

    /// Takes up the usage that an earlier scheduler noted. What cannot be read is told, and begins
    /// anew.
    async fn remember_usage(&mut self) -> anyhow::Result<()> {
        let read = self.past.remember(&self.api).await;
        if let Some(unreadable) = read.context("cannot read the usage history")? {
            let told = unreadable.to_string();
            self.config.status.send_modify(|status| status.last_failure = Some(told));
        }
        Ok(())
    }

    /// Writes what is left to write at the end. Where that fails it is told, and the end is none the
    /// worse: a cluster that is shut down may well have lost its API server by then.
    async fn keep_usage(&mut self) {
        let now = Time((self.now)().as_millisecond());
        let kept = timeout(LAST_WRITE_MAX, self.past.keep(&self.api, now)).await;
        let kept = kept.context("no answer in time").and_then(|kept| Ok(kept?));
        if let Err(error) = kept.context("cannot write the last minute of the usage history") {
            let told = format!("{error:#}");
            self.config.status.send_modify(|status| status.last_failure = Some(told));
        }
    }

    /// When to look again.
    fn plan_next(&mut self, started: Instant, plan: &Plan, outcome: &Outcome) {
        if outcome.in_doubt {
            self.watches.begin(&self.api.client, Kind::Pod);
            self.listed.remove(&Kind::Pod);
            return;
        }
        let changed = self.translated != Some(self.mirror.revision);
        if self.config.idle == Idle::EveryPeriod || outcome.retry || changed {
            self.call_cycle(started);
        }
        if let Some(millis) = plan.look_again_in_millis {
            self.call_cycle(started + Duration::from_millis(millis));
        }
        if self.past.moves() && (!plan.waiting.is_empty() || self.past.is_unwritten()) {
            self.call_cycle(started + USAGE_STEP);
        }
        if let Some(time) = self.looks_again_after() {
            self.call_cycle(started + time);
        }
    }
}
