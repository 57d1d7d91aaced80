//! KAI's flags in `schedulerParams`. Go omits flags that are false or 0.

use std::time::Duration;

use schedlab_api::Value;
use schedlab_scheduler_core::profile::Action;

use super::{
    super::SnapshotFileError, ConfigReader, ObjectFields, is_non_null, malformed, object_fields,
};
use crate::config::{Config, GraceSetting, NodePool};

const EXPECTED_NAME: &str = "the name of a scheduler";
const EXPECTED_NANOSECONDS: &str = "an integer of nanoseconds";
const EXPECTED_VICTIMS: &str = "an integer from -1 (any number)";

/// A flag of which only KAI's default `false` is supported.
const INFERENCE_FLAG: &str = "isInferencePreemptible";

/// Flags that do not affect decisions: those about the form of reports, optimizations, and labels
/// of other components.
const IGNORED_FLAGS: [&str; 7] = [
    "scheduleCSIStorage",
    "useSchedulingSignatures",
    "numOfStatusRecordingWorkers",
    "detailedFitErrors",
    "updatePodEvictionCondition",
    "queueLabelKey",
    "nodeLevelScheduler",
];

/// A boolean flag.
struct BoolFlag {
    name: &'static str,
    set: fn(&mut Config, bool),
    /// The consequence of a value that is not a boolean, for notes.
    instead: &'static str,
}

const BOOL_FLAGS: [BoolFlag; 3] = [
    BoolFlag {
        name: "restrictSchedulingNodes",
        set: Config::restrict_nodes,
        instead: "pods go to nodes of any role",
    },
    BoolFlag {
        name: "fullHierarchyFairness",
        set: |config, is_full| config.full_hierarchy_fairness = is_full,
        instead: "shares are divided on every level",
    },
    BoolFlag {
        name: "allowConsolidatingReclaim",
        set: |config, is_allowed| config.profile.allow_consolidating_reclaim = is_allowed,
        instead: "moved victims do not count as reclaimed",
    },
];

const NUMBER_FLAGS: [&str; 3] =
    ["maxNumberConsolidationPreemptees", "globalDefaultStalenessGracePeriod", "schedulePeriod"];

impl ConfigReader<'_> {
    pub(super) fn apply_flags(&mut self, all: &ObjectFields<'_>) -> Result<(), SnapshotFileError> {
        let of = |name: &str| {
            let mut named = all.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            named.find_map(|(_, value)| is_non_null(value).then_some(*value))
        };
        if let Some(name) = of("schedulerName") {
            self.apply_scheduler_name(name);
        }
        if let Some(pool) = of("partitionParams") {
            self.apply_node_pool(&object_fields(pool, "schedulerParams.partitionParams")?);
        }
        // A complete set of flags has a period: then missing flags are false or 0.
        let is_whole = of(NUMBER_FLAGS[2]).is_some();
        let (zero, no) = (Value::from(0), Value::Bool(false));
        let number = |name: &str| of(name).or(is_whole.then_some(&zero));
        if let Some(value) = number(NUMBER_FLAGS[0]) {
            self.apply_consolidation_victims(value);
        }
        if let Some(value) = number(NUMBER_FLAGS[1]) {
            self.apply_staleness_grace(value);
        }
        if let Some(value) = of(NUMBER_FLAGS[2]) {
            self.apply_schedule_period(value);
        }
        for switch in BOOL_FLAGS {
            if let Some(value) = of(switch.name).or(is_whole.then_some(&no)) {
                self.apply_bool_flag(&switch, value);
            }
        }
        if let Some(other) = of(INFERENCE_FLAG).filter(|value| **value != no) {
            let field = format!("schedulerParams.{INFERENCE_FLAG}");
            self.record_error(
                &malformed(field, other, "false"),
                "priorities decide which workloads are preemptible",
            );
        }
        self.record_unknown_flags(all);
        Ok(())
    }

    fn record_unknown_flags(&mut self, all: &ObjectFields<'_>) {
        let known = IGNORED_FLAGS
            .into_iter()
            .chain(NUMBER_FLAGS)
            .chain(BOOL_FLAGS.map(|switch| switch.name));
        let known: Vec<&str> =
            known.chain(["schedulerName", "partitionParams", INFERENCE_FLAG]).collect();
        for (key, _) in all.iter().filter(|(_, value)| is_non_null(value)) {
            if !known.iter().any(|name| key.eq_ignore_ascii_case(name)) {
                self.record_ignored(&format!("schedulerParams.{key}"));
            }
        }
    }

    fn apply_scheduler_name(&mut self, value: &Value) {
        let Some(name) = value.as_str().filter(|name| !name.is_empty()) else {
            return self.record_error(
                &malformed("schedulerParams.schedulerName", value, EXPECTED_NAME),
                "the name is ignored",
            );
        };
        name.clone_into(&mut self.config.scheduler_name);
    }

    /// Applies the node pool. Go writes its fields capitalized. Without label key the scheduler
    /// serves all nodes.
    fn apply_node_pool(&mut self, all: &ObjectFields<'_>) {
        let of = |name: &str| {
            let mut named = all.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            named.find_map(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
        };
        let (label, value) = (of("nodePoolLabelKey"), of("nodePoolLabelValue"));
        self.config.node_pool = (!label.is_empty()).then_some(NodePool { label, value });
    }

    fn apply_bool_flag(&mut self, switch: &BoolFlag, value: &Value) {
        if let Some(is_on) = value.as_bool() {
            return (switch.set)(self.config, is_on);
        }
        let field = format!("schedulerParams.{}", switch.name);
        self.record_error(&malformed(field, value, "true or false"), switch.instead);
    }

    /// Applies the maximum number of victims of a consolidation; 0 disables consolidation.
    fn apply_consolidation_victims(&mut self, value: &Value) {
        let profile = &mut self.config.profile;
        match value.as_i64() {
            Some(0) => profile.actions.retain(|action| *action != Action::Consolidate),
            Some(-1) => profile.consolidation_victims_max = usize::MAX,
            Some(most) if most > 0 => {
                profile.consolidation_victims_max = usize::try_from(most).unwrap_or(usize::MAX);
            }
            Some(_) | None => {
                let field = format!("schedulerParams.{}", NUMBER_FLAGS[0]);
                self.record_error(&malformed(field, value, EXPECTED_VICTIMS), "16 is used");
            }
        }
    }

    fn apply_staleness_grace(&mut self, value: &Value) {
        let Some(grace) = value.as_i64() else {
            let field = format!("schedulerParams.{}", NUMBER_FLAGS[1]);
            return self
                .record_error(&malformed(field, value, EXPECTED_NANOSECONDS), "60s is used");
        };
        let grace = u64::try_from(grace).map_or(GraceSetting::NEVER, Duration::from_nanos);
        self.config.profile.staleness_grace = grace;
    }

    fn apply_schedule_period(&mut self, value: &Value) {
        let Some(period) = value.as_u64().filter(|period| *period > 0) else {
            let field = format!("schedulerParams.{}", NUMBER_FLAGS[2]);
            return self.record_error(&malformed(field, value, EXPECTED_NANOSECONDS), "1s is used");
        };
        self.config.period = Duration::from_nanos(period);
    }
}
