//! The cluster in which a case is played, and its time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use schedlab_emulator::{
    Emulator, Options, beginning,
    clock::Clock,
    store::{Resource, Store},
};
use schedlab_json::Value;
use schedlab_scheduler::{Binding, Component, Status, crds};
use tokio::{sync::watch, task::JoinHandle};

use super::{
    super::{
        build,
        format::{Case, Job, Task},
    },
    objects,
    scenery::Scenery,
};
use crate::fields::text;

const EPOCH: &str = "2026-01-01T00:00:00Z";

/// A cycle is to come within so long.
const CYCLE_MAX: Duration = Duration::from_secs(30);

/// How often it is looked for pods that are to come back, and how many times between two cycles.
const GLANCE: Duration = Duration::from_millis(100);
const GLANCES: u32 = 6;

/// Runs on a runtime of its own, whose time is virtual.
pub(super) fn in_virtual_time<T>(
    play: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build()?.block_on(play)
}

/// The setting of a case, and the scheduler at work in it.
pub(super) struct Stage<'a> {
    pub(super) case: &'a Case,
    emulator: Emulator,
    status: watch::Receiver<Status>,
    scheduler: JoinHandle<anyhow::Result<()>>,
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.scheduler.abort();
    }
}

impl<'a> Stage<'a> {
    /// Everything as the case begins, each object as old as it says.
    pub(super) async fn set(case: &'a Case) -> anyhow::Result<Self> {
        let emulator = empty()?;
        let scenery = Scenery { case, emulator: &emulator };
        scenery.build().await?;
        let mut config = build::config(case)?;
        config.only(BTreeSet::from([Component::Scheduler]));
        config.binding = Binding::Direct;
        let status = config.status.subscribe();
        let clock = emulator.clock().clone();
        let run = schedlab_scheduler::run(emulator.client(), config, Arc::new(move || clock.now()));
        let scheduler = tokio::spawn(run);
        Ok(Self { case, emulator, status, scheduler })
    }

    /// One cycle, and what follows from it before the next.
    pub(super) async fn round(&mut self) -> anyhow::Result<()> {
        let before = self.status.borrow_and_update().cycles;
        while self.status.borrow_and_update().cycles == before {
            let told = tokio::time::timeout(CYCLE_MAX, self.status.changed()).await;
            told.context("no cycle came")?.context("the scheduler ended")?;
        }
        for _ in 0..GLANCES {
            tokio::time::sleep(GLANCE).await;
            self.bring_back()?;
        }
        match &self.status.borrow().last_failure {
            Some(failure) => Err(anyhow!("the scheduler failed: {failure}")),
            None => Ok(()),
        }
    }

    /// Pods that are gone wait again, as those of a controller do.
    fn bring_back(&self) -> anyhow::Result<()> {
        let there = self.by_name("", "pods");
        let jobs = self.case.jobs.iter().filter(|job| !job.delete_when_released);
        let mut gone: Vec<(&Job, &Task)> = jobs
            .flat_map(|job| job.tasks.iter().map(move |task| (job, task)))
            .filter(|(job, task)| {
                let key = (objects::namespace(job).to_owned(), objects::plain(&task.id));
                !there.contains_key(&key)
            })
            .collect();
        gone.sort_by_key(|(_, task)| &task.id);
        let scenery = Scenery { case: self.case, emulator: &self.emulator };
        gone.into_iter().try_for_each(|(job, task)| {
            scenery.create("", "pods", objects::pod(job, task, None)).map(drop)
        })
    }

    /// All objects of a kind by namespace and name.
    pub(super) fn by_name(&self, group: &str, plural: &str) -> BTreeMap<(String, String), Value> {
        let resource = Resource::new(group, plural);
        let part = |object: &Value, pointer| text(object, pointer).unwrap_or_default().to_owned();
        self.emulator.store().read(|store| {
            let all = store.list(&resource, None);
            let keyed = all.map(|object| {
                let key = (part(object, "/metadata/namespace"), part(object, "/metadata/name"));
                (key, Value::clone(object))
            });
            keyed.collect()
        })
    }

    /// Seconds since 1970.
    pub(super) fn now_secs(&self) -> i64 {
        self.emulator.clock().now().as_second()
    }
}

/// A cluster with what comes with the scheduler.
fn empty() -> anyhow::Result<Emulator> {
    static BEGINNING: OnceLock<Result<Store, String>> = OnceLock::new();
    let epoch: Timestamp = EPOCH.parse()?;
    let mut options = Options::at(Clock::starting_at(epoch));
    options.defaults.termination = Duration::from_millis(300);
    let kinds = || {
        let kinds = crds::all().into_iter();
        let definitions = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
        kinds.map(move |kind| (definitions.clone(), kind))
    };
    let store = BEGINNING
        .get_or_init(|| beginning(&options, kinds()).map_err(|error| error.to_string()))
        .clone()
        .map_err(|error| anyhow!("what comes with the scheduler: {error}"))?;
    Ok(Emulator::start_with(store, options))
}
