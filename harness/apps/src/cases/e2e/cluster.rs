//! The emulated cluster of a case, in virtual time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use schedlab_api::{Value, crds, pointer::text};
use schedlab_emulator::{
    Emulator, Options,
    clock::Clock,
    initial_store,
    store::{Resource, Store},
};
use schedlab_scheduler::{Binding, Component, Progress};
use tokio::{sync::watch, task::JoinHandle};

use super::{
    super::{
        build,
        format::{Case, Job, Task},
    },
    objects,
    setup::CaseSetup,
};

const EMULATOR_EPOCH: &str = "2026-01-01T00:00:00Z";

/// Maximum wait for the scheduler's next cycle.
const CYCLE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The interval at which deleted pods are looked for, and the number of such polls between two
/// cycles.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const POLLS_PER_CYCLE: u32 = 6;

/// Runs a future on a runtime of its own, whose clock is paused and skips waiting times.
pub(super) fn run_in_virtual_time<T>(
    play: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build()?.block_on(play)
}

/// A cluster with the objects of a case and a running scheduler.
pub(super) struct CaseCluster<'a> {
    pub(super) case: &'a Case,
    emulator: Emulator,
    status: watch::Receiver<Progress>,
    scheduler: JoinHandle<anyhow::Result<()>>,
}

impl Drop for CaseCluster<'_> {
    fn drop(&mut self) {
        self.scheduler.abort();
    }
}

impl<'a> CaseCluster<'a> {
    /// Creates all initial objects and starts the scheduler.
    pub(super) async fn start(case: &'a Case) -> anyhow::Result<Self> {
        let emulator = emulator_with_crds()?;
        let scenery = CaseSetup { case, emulator: &emulator };
        scenery.create_all_objects().await?;
        let mut config = build::scheduler_config_of_case(case)?;
        config.run_only(BTreeSet::from([Component::Scheduler]));
        config.binding = Binding::Direct;
        let status = config.progress.subscribe();
        let clock = emulator.clock().clone();
        let run = schedlab_scheduler::run(emulator.client(), config, Arc::new(move || clock.now()));
        let scheduler = tokio::spawn(run);
        Ok(Self { case, emulator, status, scheduler })
    }

    /// Waits for one scheduling cycle and for its effects on the cluster.
    pub(super) async fn run_cycle(&mut self) -> anyhow::Result<()> {
        let before = self.status.borrow_and_update().cycles;
        while self.status.borrow_and_update().cycles == before {
            let changed = tokio::time::timeout(CYCLE_WAIT_MAX, self.status.changed()).await;
            changed
                .context("the scheduler ran no cycle within the time limit")?
                .context("the scheduler exited")?;
        }
        for _ in 0..POLLS_PER_CYCLE {
            tokio::time::sleep(POLL_INTERVAL).await;
            self.recreate_deleted_pods()?;
        }
        match &self.status.borrow().last_failure {
            Some(failure) => Err(anyhow!("the scheduler failed: {failure}")),
            None => Ok(()),
        }
    }

    /// Recreates pods that were deleted, as the controller of a workload would.
    fn recreate_deleted_pods(&self) -> anyhow::Result<()> {
        let there = self.objects_by_name("", "pods");
        let jobs = self.case.jobs.iter().filter(|job| !job.delete_when_released);
        let mut gone: Vec<(&Job, &Task)> = jobs
            .flat_map(|job| job.tasks.iter().map(move |task| (job, task)))
            .filter(|(job, task)| {
                let key =
                    (objects::namespace_of_job(job).to_owned(), objects::to_object_name(&task.id));
                !there.contains_key(&key)
            })
            .collect();
        gone.sort_by_key(|(_, task)| &task.id);
        let scenery = CaseSetup { case: self.case, emulator: &self.emulator };
        gone.into_iter().try_for_each(|(job, task)| {
            scenery.create_object("", "pods", objects::pod_object(job, task, None)).map(drop)
        })
    }

    /// All objects of a kind, by namespace and name.
    pub(super) fn objects_by_name(
        &self,
        group: &str,
        plural: &str,
    ) -> BTreeMap<(String, String), Value> {
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

    /// The emulator's time in seconds since 1970.
    pub(super) fn now_secs(&self) -> i64 {
        self.emulator.clock().now().as_second()
    }
}

/// An emulated cluster with the scheduler's CRDs.
fn emulator_with_crds() -> anyhow::Result<Emulator> {
    static BEGINNING: OnceLock<Result<Store, String>> = OnceLock::new();
    let epoch: Timestamp = EMULATOR_EPOCH.parse()?;
    let mut options = Options::with_clock(Clock::starting_at(epoch));
    options.kubelet_defaults.termination = Duration::from_millis(300);
    let kinds = || {
        let kinds = crds::all_crds().into_iter();
        let definitions = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
        kinds.map(move |kind| (definitions.clone(), kind))
    };
    let store = BEGINNING
        .get_or_init(|| initial_store(&options, kinds()).map_err(|error| error.to_string()))
        .clone()
        .map_err(|error| anyhow!("cannot create the scheduler's CRDs: {error}"))?;
    Ok(Emulator::start_with(store, options))
}
