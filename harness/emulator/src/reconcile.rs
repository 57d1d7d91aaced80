//! What a controller is: a pure function of the cache and the time.
//!
//! [`Controller::reconcile`] gets the key of an object and returns writes and a requeue time.
//! [`Controller::keys_to_reconcile`] maps a change to the keys to reconcile. Controllers keep no
//! state between calls, so they can be stopped at any time and continue from the objects. They do
//! not know what fills the [`InformerCache`] and applies the writes.

pub(crate) mod cache;
pub(crate) mod fields;
pub(crate) mod pod_status;
pub(crate) mod resources;
pub(crate) mod result;

use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;

use crate::api_types::feature_gates::FeatureGates;
use crate::store::{Key, Resource};

pub(crate) use cache::{InformerCache, ObjectChange, controller_of, key_of};
pub(crate) use result::{ApiRequest, ReconcileResult};

/// A controller.
#[derive(Debug)]
pub struct Controller {
    /// The name in events and configuration.
    pub name: &'static str,
    /// The field manager of its writes.
    pub manager: &'static str,
    /// The kinds whose changes it handles.
    pub watches: WatchedKinds,
    /// Maps a change of a watched kind to the keys to reconcile.
    pub keys_to_reconcile: fn(&ObjectChange, &InformerCache) -> Vec<Key>,
    /// Reconciles one object.
    pub reconcile: fn(&Key, &Context) -> ReconcileResult,
}

/// The kinds that a controller watches.
#[derive(Debug)]
pub enum WatchedKinds {
    /// All kinds, including custom ones.
    All,
    /// These kinds.
    Kinds(&'static [&'static LazyLock<Resource>]),
}

impl WatchedKinds {
    /// The listed kinds; empty for `All`.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &Resource> {
        let kinds = match self {
            Self::All => &[][..],
            Self::Kinds(kinds) => kinds,
        };
        kinds.iter().map(|kind| &***kind)
    }

    /// Whether it watches a kind.
    pub(crate) fn contains(&self, resource: &Resource) -> bool {
        match self {
            Self::All => true,
            Self::Kinds(kinds) => kinds.iter().any(|kind| ***kind == *resource),
        }
    }
}

/// The input of a reconciliation.
#[derive(Debug)]
pub struct Context<'a> {
    /// The state of the cluster.
    pub cache: &'a InformerCache,
    /// The current time.
    pub now: Timestamp,
    /// The timing of pods without annotations.
    pub kubelet_defaults: &'a KubeletDefaults,
    /// The version of the cluster and its enabled feature gates.
    pub feature_gates: &'a FeatureGates,
}

/// The timing of pods if neither their annotations nor those of their node define it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletDefaults {
    /// The time from binding to running.
    pub startup: Duration,
    /// The time from running to exit; `None` runs forever.
    pub run_time: Option<Duration>,
    /// The time from the deletion until the containers have ended, at most the grace period.
    pub termination: Duration,
}

impl Default for KubeletDefaults {
    fn default() -> Self {
        Self { startup: Duration::ZERO, run_time: None, termination: Duration::from_secs(1) }
    }
}
