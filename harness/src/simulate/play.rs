//! Plays a trace: a fleet in the emulator, a scheduler beside it, and a player who submits work
//! when its time comes, takes away what leaves, and starts over what was evicted. All of it on
//! one paused runtime, whose clock jumps to the next thing that happens; beside it the audit, on a
//! thread of its own.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use schedlab_emulator::{
    Emulator, KubeletDefaults, Options as ClusterOptions,
    clock::Clock,
    store::{DeleteOptions, Key, Op, Resource, Write},
};
use schedlab_json::Value;
use schedlab_scheduler::{Config, Flavor, Idle};
use schedlab_scheduler_core::audit::Rules;
use tokio::{sync::Notify, time::Instant};

use super::{
    objects::{self, Scheduler},
    tally::{Note, Tally},
    trace::{End, Trace},
};
use crate::audit::{Apart, Audit, Breach};

/// With nothing left to come and nothing running that ends, a cluster that did not change for so
/// long will not change any more.
const QUIET: Duration = Duration::from_mins(5);

/// The store keeps this much of its log, as a real API server does. Time passes only when
/// everyone who watches has seen all, so less would do.
const LOG_KEPT: Duration = Duration::from_mins(5);

/// What was counted.
pub(super) struct Played {
    pub(super) tally: Tally,
    pub(super) breaches: Vec<Breach>,
    pub(super) shares_rounded_up: usize,
}

pub(super) fn play(trace: &Trace, config: Config) -> anyhow::Result<Played> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("no runtime to play the trace on")?;
    runtime.block_on(async {
        let (audit, mut player) = Player::start(trace, config)?;
        player.play().await?;
        let tally = std::mem::replace(&mut *player.tally(), Tally::new(&[], &player.scheduler));
        player.judging.end();
        audit.at_rest(player.emulator.clock().now());
        let shares_rounded_up = if player.scheduler.shares_gpus {
            0
        } else {
            trace.jobs.iter().filter(|job| job.share().is_some()).count()
        };
        Ok(Played { tally, breaches: audit.breaches(), shares_rounded_up })
    })
}

struct Player<'a> {
    trace: &'a Trace,
    scheduler: Scheduler,
    emulator: Emulator,
    judging: Apart,
    tally: Arc<Mutex<Tally>>,
    news: Arc<Notify>,
    /// What is to be done when, and to which job.
    agenda: BinaryHeap<Reverse<(Duration, Act)>>,
    attempts: Vec<u32>,
    origin: Instant,
    schedules: tokio::task::JoinHandle<anyhow::Result<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Submit(usize),
    TakeAway(usize),
}

impl<'a> Player<'a> {
    fn start(trace: &'a Trace, config: Config) -> anyhow::Result<(Audit, Self)> {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().context("a constant")?;
        let clock = Clock::starting_at(epoch);
        let emulator = Emulator::start(ClusterOptions {
            seed: config.seed,
            defaults: KubeletDefaults::default(),
            workload_kinds: false,
            log_keep: Some(LOG_KEPT),
            ..ClusterOptions::at(clock.clone())
        });
        let flavor = config.flavor;
        let (rules, shares_gpus) = match flavor {
            Flavor::Kai => (Rules::kai(), true),
            Flavor::Kube => (Rules::kube(), false),
        };
        let config = Config { idle: Idle::UntilEvent, ..config };
        let scheduler = Scheduler { name: config.scheduler_name.clone(), shares_gpus };
        let tally = Arc::new(Mutex::new(Tally::new(&trace.jobs, &scheduler)));
        let (audit, news) = (Audit::new(rules, &scheduler.name), Arc::new(Notify::new()));
        let judging = Apart::start(&audit).context("no thread for the audit")?;
        emulator.on_write(judging.observer());
        watch(&emulator, &tally, &news);
        let player = |schedules| Self {
            trace,
            scheduler,
            emulator: emulator.clone(),
            judging,
            tally,
            news,
            agenda: agenda(trace),
            attempts: vec![0; trace.jobs.len()],
            origin: Instant::now(),
            schedules,
        };
        furnish(&emulator, trace, flavor)?;
        let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
        let running = schedlab_scheduler::run(emulator.client(), config, now);
        Ok((audit, player(tokio::spawn(running))))
    }

    async fn play(&mut self) -> anyhow::Result<()> {
        loop {
            self.react()?;
            if self.schedules.is_finished() {
                (&mut self.schedules).await??;
                anyhow::bail!("the scheduler stopped");
            }
            if let Some(Reverse((at, _))) = self.agenda.peek() {
                let next = self.origin + *at;
                tokio::select! {
                    biased;
                    () = self.news.notified() => continue,
                    () = tokio::time::sleep_until(next) => {}
                }
                self.act()?;
            } else if self.tally().finite > 0 {
                self.news.notified().await;
            } else if self.stays_quiet().await {
                return Ok(());
            }
        }
    }

    /// What happens meanwhile is answered at once, not when the wait is over.
    async fn stays_quiet(&self) -> bool {
        let before = self.emulator.revision();
        tokio::select! {
            biased;
            () = self.news.notified() => false,
            () = tokio::time::sleep(QUIET) => self.emulator.revision() == before,
        }
    }

    /// Does what is due.
    fn act(&mut self) -> anyhow::Result<()> {
        let now = self.origin.elapsed();
        while let Some(Reverse((at, act))) = self.agenda.peek().copied() {
            if at > now {
                break;
            }
            self.agenda.pop();
            match act {
                Act::Submit(job) => self.submit(job)?,
                Act::TakeAway(job) => self.take_away(job)?,
            }
        }
        Ok(())
    }

    /// Answers what the cluster did.
    fn react(&mut self) -> anyhow::Result<()> {
        let notes = std::mem::take(&mut self.tally().outbox);
        for note in notes {
            match note {
                Note::Finished(pod) => self.delete(&pod)?,
                Note::Displaced(job) => {
                    self.attempts[job] += 1;
                    self.submit(job)?;
                }
            }
        }
        Ok(())
    }

    fn submit(&mut self, at: usize) -> anyhow::Result<()> {
        let job = &self.trace.jobs[at];
        for (resource, object) in objects::job(job, self.attempts[at], &self.scheduler) {
            if resource == objects::pods() {
                let name = object.pointer("/metadata/name").and_then(Value::as_str);
                self.tally().expect(name.unwrap_or_default(), at);
            }
            let created = self.emulator.create(&resource, object);
            created.with_context(|| format!("job {} cannot be submitted", job.name))?;
        }
        Ok(())
    }

    fn take_away(&mut self, at: usize) -> anyhow::Result<()> {
        let job = &self.trace.jobs[at];
        let name = objects::job_name(job, self.attempts[at]);
        if job.pods == 1 {
            return self.delete(&name);
        }
        (0..job.pods).try_for_each(|member| self.delete(&format!("{name}-{member}")))
    }

    /// Deletes a pod at once; one that is gone already is no error.
    fn delete(&self, pod: &str) -> anyhow::Result<()> {
        let key = Key {
            resource: objects::pods(),
            namespace: objects::NAMESPACE.into(),
            name: pod.into(),
        };
        let options = DeleteOptions { grace_secs: Some(0), ..DeleteOptions::default() };
        let delete = Write::new(key, Op::Delete(options), "simulate");
        match self.emulator.store().write(delete) {
            Ok(_) => Ok(()),
            Err(error) if error.code == 404 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("pod {pod} cannot be deleted")),
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch(emulator: &Emulator, tally: &Arc<Mutex<Tally>>, news: &Arc<Notify>) {
    let (tally, news) = (Arc::clone(tally), Arc::clone(news));
    emulator.on_write(Box::new(move |entry| {
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.observe(entry);
        if !tally.outbox.is_empty() || tally.finite == 0 {
            news.notify_one();
        }
    }));
}

/// Everything that is there before the first job: kinds, priority classes, queues, nodes.
fn furnish(emulator: &Emulator, trace: &Trace, flavor: Flavor) -> anyhow::Result<()> {
    let create = |group: &str, plural: &str, object: Value| {
        let what = object.pointer("/metadata/name").map(ToString::to_string).unwrap_or_default();
        emulator
            .create(&Resource::new(group, plural), object)
            .with_context(|| format!("{plural} {what} cannot be created"))
    };
    for class in schedlab_scheduler::crds::priority_classes() {
        create("scheduling.k8s.io", "priorityclasses", class)?;
    }
    if flavor == Flavor::Kai {
        for kind in schedlab_scheduler::crds::all() {
            create("apiextensions.k8s.io", "customresourcedefinitions", kind)?;
        }
        for queue in &trace.queues {
            create("scheduling.run.ai", "queues", objects::queue(queue))?;
        }
    }
    for node in &trace.nodes {
        create("", "nodes", objects::node(node))?;
    }
    Ok(())
}

fn agenda(trace: &Trace) -> BinaryHeap<Reverse<(Duration, Act)>> {
    let mut agenda = BinaryHeap::new();
    for (at, job) in trace.jobs.iter().enumerate() {
        let comes = Duration::from_secs_f64(job.arrives_secs);
        agenda.push(Reverse((comes, Act::Submit(at))));
        match job.end {
            End::LeavesAfterSecs(secs) => {
                let leaves = comes + Duration::from_secs_f64(secs);
                agenda.push(Reverse((leaves, Act::TakeAway(at))));
            }
            End::RunsSecs(_) | End::Never => {}
        }
    }
    agenda
}
