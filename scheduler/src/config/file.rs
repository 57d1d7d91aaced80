//! The configuration file: YAML, every key optional, an unknown one an error. Its JSON Schema is
//! printed by `schedlab-scheduler config-schema`. Names are those of KAI's `SchedulingShard`.

mod actions;
mod apply;
mod metric_labels;
mod place;
mod plugins;
mod usage;

use std::{collections::BTreeMap, fmt, time::Duration};

use schedlab_json::types_in_words;
use schemars::{JsonSchema, Schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use thiserror::Error;

use actions::Actions;
use place::Place;
use plugins::{PluginName, PluginSetting};
pub(crate) use usage::UsageDbSetting;

use super::{Binding, Component, names};

/// What may stand in the file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "keys of a configuration")]
pub struct ConfigFile {
    /// Pods with this `spec.schedulerName` are scheduled [default: kai-scheduler].
    pub scheduler_name: Option<String>,
    /// Which parts run here, and no others [default: all].
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    pub components: Option<Vec<Component>>,
    /// How pods get to their nodes [default: direct where all parts run in one process, else
    /// requests].
    pub binding: Option<Binding>,
    /// Reservation pods for GPUs that pods share, started by the binder [default: none].
    pub gpu_reservation: Option<ReservationSetting>,
    /// Containers that ask for no GPU see none, and pods that set `NVIDIA_VISIBLE_DEVICES` themselves
    /// are refused, where component admission is asked about all pods [default: false].
    pub block_nvidia_visible_devices: Option<bool>,
    /// Runtime class of pods that ask for GPUs and name none, as nvidia, where component admission is
    /// asked about all pods [default: the cluster's].
    pub gpu_pod_runtime_class_name: Option<String>,
    /// The `ConfigMap` that says which priority class and preemptibility kinds of owners have, as
    /// KAI's podGrouper reads it [default: none].
    pub default_priorities_config_map: Option<DefaultPrioritiesSetting>,
    /// Only the nodes and pods of this pool, as a shard does [default: all].
    pub node_pool: Option<PoolSetting>,
    /// Work with GPUs goes to nodes with label `node-role.kubernetes.io/gpu-worker` only, work without
    /// to those with `node-role.kubernetes.io/cpu-worker`; others are left out [default: false].
    pub restrict_node_scheduling: Option<bool>,
    /// Shares are divided at every level of the queues; else those with a parent stand side by side,
    /// whatever it is, and those without do not exist [default: true].
    pub full_hierarchy_fairness: Option<bool>,
    /// Time from one cycle to the next, as 1s or 500ms [default: 1s].
    #[schemars(with = "Option<String>")]
    pub period: Option<Time>,
    /// Window of the usage history for time-based fairness, as 24h [default: none].
    #[schemars(with = "Option<String>")]
    pub usage_window: Option<Time>,
    /// After so long past usage counts for half, as 6h [default: alike over the whole window].
    #[schemars(with = "Option<String>")]
    pub usage_half_life: Option<Time>,
    /// Knows what queues used; where it does not answer, the own history counts, if there is a
    /// usageWindow [default: none].
    #[serde(rename = "usageDBConfig")]
    pub usage_db_config: Option<UsageDbSetting>,
    /// Labels of queues, by which name metrics of the queue controller tell them [default: none].
    #[serde(default)]
    pub queue_label_to_metric_label: BTreeMap<String, String>,
    /// What those labels are where a queue lacks them [default: empty].
    #[serde(default)]
    pub queue_label_to_default_metric_value: BTreeMap<String, String>,
    /// Most writes to the API server under way at once [default: 32].
    pub writes_at_once: Option<std::num::NonZeroU16>,
    /// How the last cycles decided, plugin by plugin, is kept in so many lines at most and served
    /// at /get-trace of the health address [default: none].
    #[schemars(range(min = 1, max = 1_000_000))]
    pub trace_decisions: Option<u32>,
    /// What a cycle does: a list, in order, or settings by name [default: all, in the order of their
    /// names here].
    pub actions: Option<Actions>,
    /// Plugins by KAI's names; those that are not named are on and in KAI's order.
    #[serde(default)]
    pub plugins: BTreeMap<PluginName, PluginSetting>,
    /// Where pods go first [default: binpack].
    #[serde(default)]
    pub placement_strategy: PlacementStrategy,
    /// Most jobs of a leaf queue that an action looks at [default: all].
    #[serde(default)]
    pub queue_depth_per_action: QueueDepth,
    /// Protects running work where no queue says otherwise [default: 0s].
    #[serde(default)]
    pub min_runtime: MinRuntime,
    /// Weight of past usage in fair shares [default: 1].
    #[schemars(range(min = 0))]
    pub k_value: Option<f64>,
    /// Holds preemption back; nothing of it is on by default.
    #[serde(default)]
    pub preemption_policy: PreemptionSetting,
    /// Grace of stale gangs that set none; a negative one, as -1s, never ends [default: 60s].
    #[schemars(with = "Option<String>")]
    pub staleness_grace_period: Option<Grace>,
    /// How much further from its fair share than the victim's queue a reclaimer must stay
    /// [default: 1].
    #[schemars(range(min = 1))]
    pub reclaim_saturation_multiplier: Option<f64>,
    /// Work that only moves for a reclaimer does not count as taken by it [default: true].
    pub allow_consolidating_reclaim: Option<bool>,
    /// Most victim jobs of one consolidation [default: 16].
    pub max_consolidation_victims: Option<usize>,
}

/// How reservation pods are made, as KAI's binder makes them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReservationSetting {
    /// KAI's image for them, or one that writes the same annotation.
    pub image: String,
    /// Where they stand; it has to exist [default: kai-resource-reservation].
    pub namespace: Option<String>,
    /// Their service account, which may patch pods there [default: the namespace's].
    pub service_account: Option<String>,
    /// Their runtime class, as nvidia [default: the cluster's].
    pub runtime_class: Option<String>,
    /// That of pods that share GPUs and name none, where component admission is asked [default:
    /// the cluster's].
    pub pod_runtime_class: Option<String>,
}

/// A `ConfigMap` whose key `types` holds a JSON list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefaultPrioritiesSetting {
    /// Its name.
    pub name: String,
    /// Where it stands [default: the scheduler's namespace].
    pub namespace: Option<String>,
}

/// Which nodes and pods.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolSetting {
    /// The label that names the pool, on nodes and on pods [default: kai.scheduler/node-pool].
    pub label: Option<String>,
    /// Its value; empty: nodes and pods without the label.
    pub value: String,
}

/// Holds preemption back: for users who would rather wait than lose work.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreemptionSetting {
    /// For how many workloads of a cycle others may have to leave, in their queue or in others
    /// [default: all].
    pub max_preemptions_per_cycle: Option<usize>,
    /// By how much a priority must be higher to take a place in its own queue [default: 1].
    #[schemars(range(min = 1))]
    pub min_priority_difference: Option<i32>,
    /// The least time that an evicted pod has to end, so that its preStop hook or its handler of
    /// SIGTERM can save a checkpoint, as 120s [default: as long as the pod says].
    #[schemars(with = "Option<String>")]
    pub grace_period: Option<Time>,
}

/// Where pods go first.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementStrategy {
    /// Pods that ask for GPUs: which node, and which device where they ask for a part.
    pub gpu: Option<Strategy>,
    /// Pods that ask for none.
    pub cpu: Option<Strategy>,
}

/// Onto the fullest node, onto the emptiest, or where the least is broken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Onto the fullest.
    BinPack,
    /// Onto the emptiest.
    Spread,
    /// Where the least is broken up of what the pods of the cluster could still use of its GPUs.
    LeastFragmentation,
}

/// Most jobs of a leaf queue that each action looks at.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub struct QueueDepth {
    /// Of allocate.
    pub allocate: Option<usize>,
    /// Of consolidation.
    pub consolidation: Option<usize>,
    /// Of reclaim.
    pub reclaim: Option<usize>,
    /// Of preempt.
    pub preempt: Option<usize>,
}

/// For how long running work is protected.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MinRuntime {
    /// From preemption.
    #[schemars(with = "Option<String>")]
    pub preempt_min_runtime: Option<Time>,
    /// From reclaim.
    #[schemars(with = "Option<String>")]
    pub reclaim_min_runtime: Option<Time>,
}

/// A time as 90s, 500ms or 1h30m.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl From<Duration> for Time {
    fn from(time: Duration) -> Self {
        Self(time)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = |text: &str| time_of(text).map(Self);
        deserializer.deserialize_str(Written { read, allowed: "a time as 90s, 500ms or 1h30m" })
    }
}

/// A time, or never, which is a negative one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace(pub Duration);

impl Grace {
    /// As good as never.
    pub(crate) const NEVER: Duration = Duration::from_hours(100 * 365 * 24);

    fn read(text: &str) -> Option<Self> {
        let Some(negative) = text.strip_prefix('-') else {
            return time_of(text).map(Self);
        };
        let time = time_of(negative)?;
        Some(Self(if time.is_zero() { time } else { Self::NEVER }))
    }
}

impl<'de> Deserialize<'de> for Grace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let allowed = "a time as 90s, 500ms or 1h30m, or -1s for never";
        deserializer.deserialize_str(Written { read: Self::read, allowed })
    }
}

/// Reads a text that stands for something, as a visitor, so that an error knows its place in the
/// file.
struct Written<T> {
    read: fn(&str) -> Option<T>,
    allowed: &'static str,
}

impl<T> Visitor<'_> for Written<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.allowed)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// `None`: it is negative, or no time.
fn time_of(text: &str) -> Option<Duration> {
    let span: jiff::Span = text.parse().ok()?;
    span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok()
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// It is no YAML of that form.
    #[error("{}", placed(.0))]
    Form(serde_yaml::Error),
    /// A value is out of its bounds.
    #[error("{field}: found {found}, allowed: {allowed}")]
    Value {
        /// Which.
        field: &'static str,
        /// What stands there.
        found: String,
        /// What may stand there.
        allowed: &'static str,
    },
    /// The same, and where in the file.
    #[error("{wrong} at {place}")]
    Placed {
        /// What is wrong.
        wrong: Box<FileError>,
        /// Line and column.
        place: String,
    },
}

/// With an exponent where there would be a hundred digits.
fn number(of: f64) -> String {
    if of.abs() > 1e15 { format!("{of:e}") } else { of.to_string() }
}

/// An error of the YAML reader, which leaves the place out at the very beginning of a file.
fn placed(error: &serde_yaml::Error) -> String {
    let told = types_in_words(&error.to_string());
    match Place::of_error(error).filter(|_| !told.contains(" at line ")) {
        Some(place) => format!("{told} at {place}"),
        None => told,
    }
}

impl FileError {
    /// With the place of its field in the text of the file.
    #[must_use]
    pub fn in_file(self, yaml: &str) -> Self {
        let place = match &self {
            Self::Value { field, .. } => Place::of(field, yaml),
            Self::Form(_) | Self::Placed { .. } => None,
        };
        match place {
            Some(place) => Self::Placed { wrong: Box::new(self), place: place.to_string() },
            None => self,
        }
    }
}

impl ConfigFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// It is no YAML, or something in it is unknown or out of bounds.
    pub fn parse(yaml: &str) -> Result<Self, FileError> {
        place::each_key_once(yaml).map_err(FileError::Form)?;
        let file: Option<Self> = serde_yaml::from_str(yaml).map_err(FileError::Form)?;
        let file = file.unwrap_or_default();
        file.stays_in_bounds().map_err(|error| error.in_file(yaml))?;
        Ok(file)
    }

    /// What no type says.
    pub(crate) fn stays_in_bounds(&self) -> Result<(), FileError> {
        let bounds = [
            ("kValue", self.k_value, 0.0, "0 to 1000"),
            ("reclaimSaturationMultiplier", self.reclaim_saturation_multiplier, 1.0, "1 to 1000"),
        ];
        for (field, value, least, allowed) in bounds {
            let wrong = value.filter(|value| !(least..=1000.0).contains(value));
            if let Some(found) = wrong {
                return Err(FileError::Value { field, found: number(found), allowed });
            }
        }
        if let Some(found) = self.components.as_deref().and_then(Component::misfit) {
            let (field, allowed) = ("components", Component::ALLOWED);
            return Err(FileError::Value { field, found, allowed });
        }
        self.names_are_names()?;
        if let Some(found) = self.actions.as_ref().and_then(Actions::misfit) {
            let allowed = "one or more, each once";
            return Err(FileError::Value { field: "actions", found, allowed });
        }
        let difference = self.preemption_policy.min_priority_difference;
        if let Some(found) = difference.filter(|difference| *difference < 1) {
            let (field, allowed) = ("preemptionPolicy.minPriorityDifference", "1 or more");
            return Err(FileError::Value { field, found: found.to_string(), allowed });
        }
        let lines = self.trace_decisions;
        if let Some(found) = lines.filter(|lines| !(1..=1_000_000).contains(lines)) {
            let (field, allowed) = ("traceDecisions", "1 to 1000000");
            return Err(FileError::Value { field, found: found.to_string(), allowed });
        }
        metric_labels::check(self)?;
        plugins::check(self)?;
        let times = [
            ("preemptionPolicy.gracePeriod", self.preemption_policy.grace_period),
            ("period", self.period),
            ("usageWindow", self.usage_window),
            ("usageHalfLife", self.usage_half_life),
        ];
        let of_database = self.usage_db_config.iter().flat_map(UsageDbSetting::times);
        for (field, time) in times.into_iter().chain(of_database) {
            if time.is_some_and(|time| time.0.is_zero()) {
                let (found, allowed) = ("0".to_owned(), "a time above 0");
                return Err(FileError::Value { field, found, allowed });
            }
        }
        Ok(())
    }

    fn names_are_names(&self) -> Result<(), FileError> {
        let wrong = |field, found: &str, allowed| {
            Err(FileError::Value { field, found: format!("{found:?}"), allowed })
        };
        let not = |name: &Option<String>, is_name: fn(&str) -> bool| {
            name.as_deref().filter(|name| !is_name(name)).map(str::to_owned)
        };
        if let Some(found) = not(&self.scheduler_name, names::is_scheduler_name) {
            return wrong("schedulerName", &found, names::SCHEDULER_NAME);
        }
        if let Some(found) = not(&self.gpu_pod_runtime_class_name, names::is_object_name) {
            return wrong("gpuPodRuntimeClassName", &found, names::OBJECT_NAME);
        }
        let Some(PoolSetting { label, value }) = &self.node_pool else { return Ok(()) };
        if let Some(found) = not(label, names::is_label_key) {
            return wrong("nodePool.label", &found, names::LABEL_KEY);
        }
        if !names::is_label_value(value) {
            return wrong("nodePool.value", value, names::LABEL_VALUE);
        }
        Ok(())
    }

    /// The JSON Schema of the file.
    pub fn schema() -> Schema {
        schemars::schema_for!(Self)
    }
}

#[cfg(test)]
mod tests;
