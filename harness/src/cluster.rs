//! Where scenarios run, and what they do to the scheduler there: the two seams of the harness.

mod emulated;
mod fuse;
mod gate;
mod in_process;
mod lives;
mod pause;
mod place;
mod process;
mod real;
mod record;
mod under;

use std::time::Duration;

use schedlab_json::Value;
use schedlab_scheduler::crds;

use crate::api::{Api, refusal};

pub use emulated::Emulated;
pub(crate) use emulated::epoch;
pub use in_process::InProcess;
pub(crate) use pause::Held;
pub(crate) use place::{Door, Place};
pub(crate) use process::{Process, Start};
pub(crate) use real::play;
pub use real::{Real, collections};
pub(crate) use under::Under;

/// Where scenarios run. What a Kubernetes client can do is done through `client()`; this holds
/// only the rest.
pub trait Cluster {
    /// A client of this cluster, as an administrator.
    fn client(&self) -> kube::Client;

    /// Lets the cluster run until it is quiet, or until `limit` of its own time has passed.
    fn settle(&self, limit: Duration) -> impl Future<Output = Result<(), Unsettled>>;
}

/// What steps do to the scheduler.
pub trait SchedulerUnderTest {
    /// Starts it; one that runs goes on.
    fn start(&mut self);

    /// Ends it between two requests.
    fn stop(&mut self);

    /// Kills it in place of its `n`-th write from now on: that write does not happen.
    fn kill_before_write(&mut self, n: u32, then: AfterKill);
}

/// What happens to a scheduler that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterKill {
    /// It stays dead until a step starts it.
    StayDead,
    /// It starts anew a second later.
    Restart,
    /// It starts anew a second later, to be killed again after as many writes.
    RestartAndKillAgain,
}

/// A cluster that kept changing for longer than it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster did not come to rest within {} s of its time", limit.as_secs())]
pub struct Unsettled {
    /// How long it was given.
    pub limit: Duration,
}

/// What comes with the scheduler, by group and collection: kinds and priority classes.
fn scheduler_objects() -> impl Iterator<Item = (&'static str, &'static str, Value)> {
    let kinds = crds::all().into_iter();
    let kinds = kinds.map(|kind| ("apiextensions.k8s.io", "customresourcedefinitions", kind));
    let classes = crds::priority_classes().into_iter();
    let classes = classes.map(|class| ("scheduling.k8s.io", "priorityclasses", class));
    kinds.chain(classes)
}

/// Brings what comes with the scheduler.
pub(crate) async fn install(api: &Api) -> anyhow::Result<()> {
    for (group, plural, object) in scheduler_objects() {
        api.post(&format!("/apis/{group}/v1/{plural}"), &object).await.map_err(refusal)?;
    }
    Ok(())
}
