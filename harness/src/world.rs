//! What a scenario's steps act on: one cluster, its scheduler, and what was shown so far.

use std::time::Duration;

use gherkin::Step;
use schedlab_scheduler_core::audit::Rules;

use crate::audit::Audit;
use crate::cluster::Emulated;
use crate::features::Case;

/// One scenario's world.
#[derive(Debug, cucumber::World)]
#[world(init = Self::unplaced)]
pub struct World {
    cluster: Emulated,
    audit: Audit,
    /// What snapshot steps showed.
    shown: Vec<String>,
}

impl World {
    /// Boots an empty cluster for a case, on the current runtime.
    pub fn start(_case: &Case, seed: u64) -> anyhow::Result<Self> {
        let audit = Audit::new(Rules::kai(), "kai-scheduler");
        let cluster = Emulated::start(seed, &audit);
        Ok(Self { cluster, audit, shown: Vec::new() })
    }

    fn unplaced() -> anyhow::Result<Self> {
        anyhow::bail!("a world belongs to a case: the runner starts it")
    }

    /// A step is about to run.
    pub fn before_step(&mut self, _step: &Step) {}

    /// Lets time pass.
    pub async fn pass(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// The first rule that was broken, with its history.
    pub fn breach(&self) -> Option<String> {
        self.audit.breaches().first().map(ToString::to_string)
    }

    /// What must not be left at the end of a case.
    pub fn leftovers(&mut self) -> Option<String> {
        self.audit.at_rest(self.cluster.now());
        self.breach()
    }

    /// Milliseconds of the cluster's time since it began.
    pub fn elapsed_millis(&self) -> u64 {
        self.cluster.elapsed_millis()
    }

    /// What snapshot steps showed, when there was one.
    pub fn shown(&self) -> Option<String> {
        (!self.shown.is_empty()).then(|| self.shown.join("\n"))
    }

    /// Every write, a line each, to compare two runs.
    pub fn history(&self) -> Vec<String> {
        let line = |entry: &std::sync::Arc<schedlab_emulator::store::LogEntry>| {
            format!("{} {} {:?} {}", entry.time, entry.manager, entry.kind, entry.object)
        };
        self.cluster.log().iter().map(line).collect()
    }
}
