//! The configuration file: YAML; every key is optional, unknown keys are errors. Keys are named as
//! in KAI's `SchedulingShard`. Doc comments become descriptions in the JSON Schema, which
//! `schedlab-scheduler config-schema` prints.

mod actions;
mod apply;
mod location;
mod metric_labels;
mod plugins;
mod usage;

use std::{collections::BTreeMap, fmt, time::Duration};

use schedlab_api::plain_type_names;
use schemars::{JsonSchema, Schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use thiserror::Error;

use actions::Actions;
use location::Location;
use plugins::{PluginName, PluginSetting};
pub(crate) use usage::UsageDbSetting;

use super::{Binding, Component, names};

/// Configuration of schedlab-scheduler.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a map of configuration keys")]
pub struct ConfigFile {
    /// Schedules the pods with this `spec.schedulerName` [default: kai-scheduler].
    pub scheduler_name: Option<String>,
    /// Components that run in this process [default: all].
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    pub components: Option<Vec<Component>>,
    /// How pods are bound to nodes [default: requests if `components` is set, else direct].
    pub binding: Option<Binding>,
    /// Reservation pods for shared GPUs, created by the binder [default: none].
    pub gpu_reservation: Option<ReservationSetting>,
    /// Hides GPUs from containers that request none, and denies pods that set
    /// `NVIDIA_VISIBLE_DEVICES` themselves. Needs webhooks for all pods (`webhooks
    /// --block-nvidia-visible-devices`) [default: false].
    pub block_nvidia_visible_devices: Option<bool>,
    /// Runtime class for pods that request GPUs and name none, for example nvidia. Needs webhooks
    /// for all pods (`webhooks --gpu-pod-runtime-class-name`) [default: the cluster's].
    pub gpu_pod_runtime_class_name: Option<String>,
    /// `ConfigMap` with default priority class and preemptibility per owner kind, in the format of
    /// KAI's podGrouper [default: none].
    pub default_priorities_config_map: Option<DefaultPrioritiesSetting>,
    /// Serves only the nodes and pods of this pool, like a `SchedulingShard` [default: all].
    pub node_pool: Option<PoolSetting>,
    /// Restricts pods with GPUs to nodes with label `node-role.kubernetes.io/gpu-worker`, and pods
    /// without to nodes with `node-role.kubernetes.io/cpu-worker`; nodes with neither are ignored
    /// [default: false].
    pub restrict_node_scheduling: Option<bool>,
    /// Divides fair shares at every level of the queue tree. If false, queues with any parent are
    /// siblings, and queues without one are ignored [default: true].
    pub full_hierarchy_fairness: Option<bool>,
    /// Time from the start of one cycle to the next, for example 1s or 500ms [default: 1s].
    #[schemars(with = "Option<String>")]
    pub period: Option<DurationSetting>,
    /// Window of the scheduler's own usage history for time-based fairness, for example 24h
    /// [default: none].
    #[schemars(with = "Option<String>")]
    pub usage_window: Option<DurationSetting>,
    /// Half-life of past usage, for example 6h [default: no decay within the window].
    #[schemars(with = "Option<String>")]
    pub usage_half_life: Option<DurationSetting>,
    /// External usage database. While it gives no current answer, the scheduler's own history is
    /// used, if usageWindow is set [default: none].
    #[serde(rename = "usageDBConfig")]
    pub usage_db_config: Option<UsageDbSetting>,
    /// Queue labels to export as labels of the queue controller's metrics: metric label by queue
    /// label [default: none].
    #[serde(default)]
    pub queue_label_to_metric_label: BTreeMap<String, String>,
    /// Values of these metric labels for queues without the label, by queue label [default: empty].
    #[serde(default)]
    pub queue_label_to_default_metric_value: BTreeMap<String, String>,
    /// Maximum number of concurrent writes to the API server [default: 32].
    pub writes_at_once: Option<std::num::NonZeroU16>,
    /// Keeps a trace of the decisions of the last cycles, per plugin, of at most this many lines.
    /// It is served at /get-trace of the health address [default: none].
    #[schemars(range(min = 1, max = 1_000_000))]
    pub trace_decisions: Option<u32>,
    /// Actions of a cycle: an ordered list, or settings by name
    /// [default: all, in the order listed here].
    pub actions: Option<Actions>,
    /// Plugin settings by KAI's names; plugins not listed are enabled and in KAI's order.
    #[serde(default)]
    pub plugins: BTreeMap<PluginName, PluginSetting>,
    /// Preferred nodes of pods [default: binpack].
    #[serde(default)]
    pub placement_strategy: PlacementStrategy,
    /// Maximum number of jobs per leaf queue that an action considers [default: all].
    #[serde(default)]
    pub queue_depth_per_action: QueueDepth,
    /// Time for which running jobs are protected, if their queue does not set one [default: 0s].
    #[serde(default)]
    pub min_runtime: MinRuntime,
    /// Weight of past usage in fair shares [default: 1].
    #[schemars(range(min = 0))]
    pub k_value: Option<f64>,
    /// Limits preemption [default: no limits].
    #[serde(default)]
    pub preemption_policy: PreemptionSetting,
    /// Grace period of stale gangs whose PodGroup sets none; a negative value such as -1s means
    /// never [default: 60s].
    #[schemars(with = "Option<String>")]
    pub staleness_grace_period: Option<GraceSetting>,
    /// Factor by which the reclaimer's ratio of allocation to fair share must stay below that of
    /// the victim's queue, for reclaimers above their fair share [default: 1].
    #[schemars(range(min = 1))]
    pub reclaim_saturation_multiplier: Option<f64>,
    /// Victims that are placed elsewhere in the same cycle do not count as reclaimed
    /// [default: true].
    pub allow_consolidating_reclaim: Option<bool>,
    /// Maximum number of victim jobs of one consolidation [default: 16].
    pub max_consolidation_victims: Option<usize>,
}

/// Settings of reservation pods, which are created like those of KAI's binder.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReservationSetting {
    /// KAI's reservation image, or one that writes the same annotation.
    pub image: String,
    /// Namespace of the pods; it has to exist [default: kai-resource-reservation].
    pub namespace: Option<String>,
    /// Service account of the pods, which must be allowed to patch pods in that namespace
    /// [default: the namespace's].
    pub service_account: Option<String>,
    /// Runtime class of the reservation pods, for example nvidia [default: the cluster's].
    pub runtime_class: Option<String>,
    /// Runtime class that component admission sets on pods that share GPUs and name none
    /// [default: the cluster's].
    pub pod_runtime_class: Option<String>,
}

/// A `ConfigMap` whose key `types` holds a JSON list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefaultPrioritiesSetting {
    /// Its name.
    pub name: String,
    /// Its namespace [default: the scheduler's].
    pub namespace: Option<String>,
}

/// A node pool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolSetting {
    /// Key of the label on nodes and pods [default: kai.scheduler/node-pool].
    pub label: Option<String>,
    /// Value of the label; empty: nodes and pods without the label.
    pub value: String,
}

/// Limits preemption, for users who prefer waiting to losing work.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreemptionSetting {
    /// Maximum number of workloads per cycle for which others are evicted, by preemption or reclaim
    /// [default: unlimited].
    pub max_preemptions_per_cycle: Option<usize>,
    /// Minimum difference of priorities for preemption within a queue [default: 1].
    #[schemars(range(min = 1))]
    pub min_priority_difference: Option<i32>,
    /// Minimum termination grace period of evicted pods, so that a preStop hook or SIGTERM handler
    /// can save a checkpoint, for example 120s [default: the pod's own].
    #[schemars(with = "Option<String>")]
    pub grace_period: Option<DurationSetting>,
}

/// Preferred nodes of pods.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementStrategy {
    /// For pods that request GPUs: the node, and for GPU fractions the device.
    pub gpu: Option<Strategy>,
    /// For pods without GPUs: the node.
    pub cpu: Option<Strategy>,
}

/// Which node or device is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// The fullest.
    BinPack,
    /// The emptiest.
    Spread,
    /// The one where placing the pod fragments the least GPU capacity that pods of the cluster
    /// could still use.
    LeastFragmentation,
}

/// Maximum number of jobs per leaf queue that each action considers.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub struct QueueDepth {
    /// For allocate.
    pub allocate: Option<usize>,
    /// For consolidation.
    pub consolidation: Option<usize>,
    /// For reclaim.
    pub reclaim: Option<usize>,
    /// For preempt.
    pub preempt: Option<usize>,
}

/// Time for which running jobs are protected.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MinRuntime {
    /// From preemption.
    #[schemars(with = "Option<String>")]
    pub preempt_min_runtime: Option<DurationSetting>,
    /// From reclaim.
    #[schemars(with = "Option<String>")]
    pub reclaim_min_runtime: Option<DurationSetting>,
}

/// A non-negative duration such as 90s, 500ms or 1h30m.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationSetting(pub Duration);

impl From<Duration> for DurationSetting {
    fn from(time: Duration) -> Self {
        Self(time)
    }
}

impl<'de> Deserialize<'de> for DurationSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| parse_duration(text).map(Self);
        deserializer.deserialize_str(TextVisitor {
            parse,
            allowed: "a duration such as 90s, 500ms or 1h30m",
        })
    }
}

/// A grace period; a negative duration means never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraceSetting(pub Duration);

impl GraceSetting {
    /// The duration that stands for never: 100 years.
    pub(crate) const NEVER: Duration = Duration::from_hours(100 * 365 * 24);

    fn parse(text: &str) -> Option<Self> {
        let Some(negative) = text.strip_prefix('-') else {
            return parse_duration(text).map(Self);
        };
        let time = parse_duration(negative)?;
        Some(Self(if time.is_zero() { time } else { Self::NEVER }))
    }
}

impl<'de> Deserialize<'de> for GraceSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let allowed = "a duration such as 90s, 500ms or 1h30m, or -1s for never";
        deserializer.deserialize_str(TextVisitor { parse: Self::parse, allowed })
    }
}

/// Deserializes a value from a string. A visitor, so that errors carry their location in the file.
struct TextVisitor<T> {
    parse: fn(&str) -> Option<T>,
    allowed: &'static str,
}

impl<T> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.allowed)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// Parses a duration; `None`: the text is negative or not a duration.
fn parse_duration(text: &str) -> Option<Duration> {
    let span: jiff::Span = text.parse().ok()?;
    span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok()
}

/// Why a configuration file cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// The text is not YAML, or a key or type is wrong.
    #[error("{}", syntax_message(.0))]
    Syntax(serde_yaml::Error),
    /// A value is invalid.
    #[error("{field}: got {found}, expected {allowed}")]
    Value {
        /// Field path.
        field: &'static str,
        /// The invalid value.
        found: String,
        /// Valid values.
        allowed: &'static str,
    },
    /// An error with its location in the file.
    #[error("{error} at {location}")]
    Located {
        /// The error.
        error: Box<FileError>,
        /// Line and column.
        location: String,
    },
}

/// Formats a number, with an exponent if it is very large.
fn format_number(number: f64) -> String {
    if number.abs() > 1e15 { format!("{number:e}") } else { number.to_string() }
}

/// Message of a YAML error. The parser omits the location at the very beginning of a file.
fn syntax_message(error: &serde_yaml::Error) -> String {
    let message = plain_type_names(&error.to_string());
    match Location::from_error(error).filter(|_| !message.contains(" at line ")) {
        Some(place) => format!("{message} at {place}"),
        None => message,
    }
}

impl FileError {
    /// Adds the location of the invalid field in the YAML text, if the field is found there.
    #[must_use]
    pub fn with_location(self, yaml: &str) -> Self {
        let location = match &self {
            Self::Value { field, .. } => Location::of_field(field, yaml),
            Self::Syntax(_) | Self::Located { .. } => None,
        };
        match location {
            Some(place) => Self::Located { error: Box::new(self), location: place.to_string() },
            None => self,
        }
    }
}

impl ConfigFile {
    /// Parses and validates the text of a configuration file.
    ///
    /// # Errors
    /// The text is not YAML, a key is unknown, or a value is invalid.
    pub fn parse(yaml: &str) -> Result<Self, FileError> {
        location::check_unique_keys(yaml).map_err(FileError::Syntax)?;
        let file: Option<Self> = serde_yaml::from_str(yaml).map_err(FileError::Syntax)?;
        let file = file.unwrap_or_default();
        file.check_bounds().map_err(|error| error.with_location(yaml))?;
        Ok(file)
    }

    /// Checks values beyond their types, such as ranges.
    pub(crate) fn check_bounds(&self) -> Result<(), FileError> {
        let bounds = [
            ("kValue", self.k_value, 0.0, "0 to 1000"),
            ("reclaimSaturationMultiplier", self.reclaim_saturation_multiplier, 1.0, "1 to 1000"),
        ];
        for (field, value, least, allowed) in bounds {
            let wrong = value.filter(|value| !(least..=1000.0).contains(value));
            if let Some(found) = wrong {
                return Err(FileError::Value { field, found: format_number(found), allowed });
            }
        }
        if let Some(found) = self.components.as_deref().and_then(Component::list_error) {
            let (field, allowed) = ("components", Component::ALLOWED);
            return Err(FileError::Value { field, found, allowed });
        }
        self.check_names()?;
        if let Some(found) = self.actions.as_ref().and_then(Actions::list_error) {
            let allowed = "a non-empty list without duplicates";
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
        metric_labels::check_metric_labels(self)?;
        plugins::check_plugins(self)?;
        let times = [
            ("preemptionPolicy.gracePeriod", self.preemption_policy.grace_period),
            ("period", self.period),
            ("usageWindow", self.usage_window),
            ("usageHalfLife", self.usage_half_life),
        ];
        let of_database = self.usage_db_config.iter().flat_map(UsageDbSetting::positive_durations);
        for (field, time) in times.into_iter().chain(of_database) {
            if time.is_some_and(|time| time.0.is_zero()) {
                let (found, allowed) = ("0".to_owned(), "a duration above 0");
                return Err(FileError::Value { field, found, allowed });
            }
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), FileError> {
        let wrong = |field, found: &str, allowed| {
            Err(FileError::Value { field, found: format!("{found:?}"), allowed })
        };
        let not = |name: &Option<String>, is_name: fn(&str) -> bool| {
            name.as_deref().filter(|name| !is_name(name)).map(str::to_owned)
        };
        if let Some(found) = not(&self.scheduler_name, names::is_scheduler_name) {
            return wrong("schedulerName", &found, names::SCHEDULER_NAME_RULE);
        }
        if let Some(found) = not(&self.gpu_pod_runtime_class_name, names::is_object_name) {
            return wrong("gpuPodRuntimeClassName", &found, names::OBJECT_NAME_RULE);
        }
        let Some(PoolSetting { label, value }) = &self.node_pool else { return Ok(()) };
        if let Some(found) = not(label, names::is_label_key) {
            return wrong("nodePool.label", &found, names::LABEL_KEY_RULE);
        }
        if !names::is_label_value(value) {
            return wrong("nodePool.value", value, names::LABEL_VALUE_RULE);
        }
        Ok(())
    }

    /// The JSON Schema of the configuration file.
    pub fn schema() -> Schema {
        schemars::schema_for!(Self)
    }
}

#[cfg(test)]
mod tests;
