//! Who acts on a cluster besides its users: kubelets, the node life cycle, garbage collection and
//! the workload controllers.
//!
//! Each is a pure function of what it sees and the time: [`Actor::step`] looks at one object
//! anew, whatever happened to it, and answers with writes and with the next moment to look
//! again. [`Actor::concerns`] tells which objects a change makes worth a look. Nothing is
//! remembered between steps, so an actor may be stopped anywhere and takes up its work from the
//! objects. Who feeds the [`View`] and applies the writes (here [`crate::driver`]) is not known
//! here.
//!
//! Left out: cron jobs, daemon sets, provisioning of volumes,
//! and services.

mod fields;
mod kinds;
mod step;
mod view;

mod device_driver;
mod kubelet;
mod node;
mod node_life;
mod taints;

mod garbage;
mod namespace_defaults;
mod namespaces;
mod pod_gc;

mod adoption;
mod deployment;
mod disruption;
mod job;
mod job_set;
mod pytorch_job;
mod quota;
mod replica_set;
mod resource_claim;
mod stateful_set;
mod train_job;
mod volume;
mod workload;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::Timestamp;

use crate::error::ApiError;
use crate::store::{Key, Resource};

pub use crate::pace::parse_duration;
pub(crate) use crate::pace::{EXIT_CODE, RUN_TIME, STARTUP, TERMINATION};
pub(crate) use device_driver::PUBLISHED;
pub use kubelet::DOWN;
pub(crate) use namespace_defaults::of_store as namespace_defaults;
pub use step::{Request, Step};
pub use view::{Change, Owner, OwnerKind, View, controller, key_of, owners};

/// One of those who act.
#[derive(Debug)]
pub struct Actor {
    /// What it is called in messages.
    pub name: &'static str,
    /// Its identity as a writer.
    pub manager: &'static str,
    /// Changes of which kinds it wants to hear of.
    pub watches: Watched,
    /// Which objects a change of a watched kind makes worth a look.
    pub concerns: fn(&Change, &View) -> Vec<Key>,
    /// Looks at one object.
    pub step: fn(&Key, &Context) -> Step,
}

/// The kinds that an actor watches.
#[derive(Debug)]
pub enum Watched {
    /// All there are, those of custom definitions too.
    All,
    /// These.
    Kinds(&'static [&'static LazyLock<Resource>]),
}

impl Watched {
    /// The kinds that it names.
    pub(crate) fn named(&self) -> impl Iterator<Item = &Resource> {
        let kinds = match self {
            Self::All => &[][..],
            Self::Kinds(kinds) => kinds,
        };
        kinds.iter().map(|kind| &***kind)
    }

    fn has(&self, resource: &Resource) -> bool {
        match self {
            Self::All => true,
            Self::Kinds(kinds) => kinds.iter().any(|kind| ***kind == *resource),
        }
    }
}

/// Who watches a kind, by position in [`ACTORS`].
pub(crate) fn watching(resource: &Resource) -> Vec<usize> {
    let named = ACTORS.iter().enumerate();
    named.filter(|(_, actor)| actor.watches.has(resource)).map(|(at, _)| at).collect()
}

/// What a step may depend on.
#[derive(Debug)]
pub struct Context<'a> {
    /// What is there.
    pub view: &'a View,
    /// The time.
    pub now: Timestamp,
    /// What pods do that do not say it themselves.
    pub defaults: &'a KubeletDefaults,
}

/// How pods behave whose annotations, and whose node's annotations, do not say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletDefaults {
    /// From binding to running.
    pub startup: Duration,
    /// From running to exit; `None` runs for ever.
    pub run_time: Option<Duration>,
    /// From the request to stop until the containers have ended, cut at the grace period.
    pub termination: Duration,
}

impl Default for KubeletDefaults {
    fn default() -> Self {
        Self { startup: Duration::ZERO, run_time: None, termination: Duration::from_secs(1) }
    }
}

/// What an actor says of an object when the API refused a write for it: once, whatever names
/// the objects have that it tries to make.
pub(crate) fn refused(task: (&Actor, &Key), refusal: &Refusal, ctx: &Context) -> Vec<Request> {
    let (actor, key) = task;
    let Some(object) = ctx.view.get(key) else { return Vec::new() };
    let makes_sets = refusal.creates && actor.name == deployment::ACTOR.name;
    let (reason, message) = match (makes_sets, refusal.creates) {
        (true, _) => ("ReplicaSetCreateError", deployment::not_made(refusal)),
        (false, true) => ("FailedCreate", format!("Error creating: {}", refusal.error)),
        (false, false) => ("FailedUpdate", format!("Error writing: {}", refusal.error)),
    };
    let notice = step::Notice { component: actor.name, kind: "Warning", reason, message };
    let gist = refusal.error.message.replace(&*refusal.name, "*");
    let status = if makes_sets {
        deployment::failed(key, refusal, ctx)
    } else if key.resource == *kinds::REPLICA_SETS && actor.name == replica_set::ACTOR.name {
        replica_set::failed(key, refusal, ctx)
    } else {
        None
    };
    [notice.about_as(&gist, object, ctx)].into_iter().chain(status).collect()
}

/// A write that the API refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The object's name.
    pub(crate) name: Arc<str>,
    /// Whether it was to be made.
    pub(crate) creates: bool,
    /// Why.
    pub(crate) error: ApiError,
}

/// Stands in for the kubelets where somebody else, as kwok, lets pods run; it acts on clusters that
/// are not ours only, and only beside such a one.
pub static BESIDE: &Actor = &kubelet::beside::ACTOR;

/// Everyone, in the order in which they act when several have something to do.
pub static ACTORS: &[Actor] = &[
    node::ACTOR,
    node_life::ACTOR,
    kubelet::ACTOR,
    device_driver::ACTOR,
    resource_claim::ACTOR,
    taints::ACTOR,
    pod_gc::ACTOR,
    garbage::ACTOR,
    namespaces::ACTOR,
    namespace_defaults::ACTOR,
    replica_set::ACTOR,
    deployment::ACTOR,
    stateful_set::ACTOR,
    job::ACTOR,
    job_set::ACTOR,
    train_job::ACTOR,
    pytorch_job::ACTOR,
    disruption::ACTOR,
    quota::ACTOR,
    volume::ACTOR,
];

#[cfg(test)]
mod tests;
