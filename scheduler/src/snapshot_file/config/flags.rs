//! KAI's flags in `schedulerParams`. Go omits flags that are false or 0.

use std::time::Duration;

use schedlab_api::Value;
use schedlab_scheduler_core::profile::Action;

use super::{super::SnapshotFileError, ConfigReader, Fields, fields, is_set, malformed};
use crate::config::{Config, GraceSetting, NodePool};

const NAME: &str = "the name of a scheduler";
const NANOSECONDS: &str = "an integer of nanoseconds";
const VICTIMS: &str = "an integer from -1 (any number)";

/// A flag of which only KAI's default `false` is supported.
const INFERENCE: &str = "isInferencePreemptible";

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
struct Switch {
    name: &'static str,
    set: fn(&mut Config, bool),
    /// The consequence of a value that is not a boolean, for notes.
    instead: &'static str,
}

const SWITCHES: [Switch; 3] = [
    Switch {
        name: "restrictSchedulingNodes",
        set: Config::restrict_nodes,
        instead: "pods go to nodes of any role",
    },
    Switch {
        name: "fullHierarchyFairness",
        set: |config, is_full| config.full_hierarchy_fairness = is_full,
        instead: "shares are divided on every level",
    },
    Switch {
        name: "allowConsolidatingReclaim",
        set: |config, is_allowed| config.profile.allow_consolidating_reclaim = is_allowed,
        instead: "moved victims do not count as reclaimed",
    },
];

const NUMBERS: [&str; 3] =
    ["maxNumberConsolidationPreemptees", "globalDefaultStalenessGracePeriod", "schedulePeriod"];

impl ConfigReader<'_> {
    pub(super) fn apply_flags(&mut self, all: &Fields<'_>) -> Result<(), SnapshotFileError> {
        let of = |name: &str| {
            let mut named = all.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            named.find_map(|(_, value)| is_set(value).then_some(*value))
        };
        if let Some(name) = of("schedulerName") {
            self.name(name);
        }
        if let Some(pool) = of("partitionParams") {
            self.pool(&fields(pool, "schedulerParams.partitionParams")?);
        }
        // A complete set of flags has a period: then missing flags are false or 0.
        let is_whole = of(NUMBERS[2]).is_some();
        let (zero, no) = (Value::from(0), Value::Bool(false));
        let number = |name: &str| of(name).or(is_whole.then_some(&zero));
        if let Some(value) = number(NUMBERS[0]) {
            self.victims(value);
        }
        if let Some(value) = number(NUMBERS[1]) {
            self.staleness(value);
        }
        if let Some(value) = of(NUMBERS[2]) {
            self.period(value);
        }
        for switch in SWITCHES {
            if let Some(value) = of(switch.name).or(is_whole.then_some(&no)) {
                self.apply_switch(&switch, value);
            }
        }
        if let Some(other) = of(INFERENCE).filter(|value| **value != no) {
            let field = format!("schedulerParams.{INFERENCE}");
            self.record_error(
                &malformed(field, other, "false"),
                "priorities decide which workloads are preemptible",
            );
        }
        self.record_unknown_flags(all);
        Ok(())
    }

    fn record_unknown_flags(&mut self, all: &Fields<'_>) {
        let known =
            IGNORED_FLAGS.into_iter().chain(NUMBERS).chain(SWITCHES.map(|switch| switch.name));
        let known: Vec<&str> =
            known.chain(["schedulerName", "partitionParams", INFERENCE]).collect();
        for (key, _) in all.iter().filter(|(_, value)| is_set(value)) {
            if !known.iter().any(|name| key.eq_ignore_ascii_case(name)) {
                self.record_ignored(&format!("schedulerParams.{key}"));
            }
        }
    }

    fn name(&mut self, value: &Value) {
        let Some(name) = value.as_str().filter(|name| !name.is_empty()) else {
            return self.record_error(
                &malformed("schedulerParams.schedulerName", value, NAME),
                "the name is ignored",
            );
        };
        name.clone_into(&mut self.config.scheduler_name);
    }

    /// Applies the node pool. Go writes its fields capitalized. Without label key the scheduler
    /// serves all nodes.
    fn pool(&mut self, all: &Fields<'_>) {
        let of = |name: &str| {
            let mut named = all.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            named.find_map(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
        };
        let (label, value) = (of("nodePoolLabelKey"), of("nodePoolLabelValue"));
        self.config.node_pool = (!label.is_empty()).then_some(NodePool { label, value });
    }

    fn apply_switch(&mut self, switch: &Switch, value: &Value) {
        if let Some(is_on) = value.as_bool() {
            return (switch.set)(self.config, is_on);
        }
        let field = format!("schedulerParams.{}", switch.name);
        self.record_error(&malformed(field, value, "true or false"), switch.instead);
    }

    /// Applies the maximum number of victims of a consolidation; 0 disables consolidation.
    fn victims(&mut self, value: &Value) {
        let profile = &mut self.config.profile;
        match value.as_i64() {
            Some(0) => profile.actions.retain(|action| *action != Action::Consolidate),
            Some(-1) => profile.consolidation_victims_max = usize::MAX,
            Some(most) if most > 0 => {
                profile.consolidation_victims_max = usize::try_from(most).unwrap_or(usize::MAX);
            }
            Some(_) | None => {
                let field = format!("schedulerParams.{}", NUMBERS[0]);
                self.record_error(&malformed(field, value, VICTIMS), "16 is used");
            }
        }
    }

    fn staleness(&mut self, value: &Value) {
        let Some(grace) = value.as_i64() else {
            let field = format!("schedulerParams.{}", NUMBERS[1]);
            return self.record_error(&malformed(field, value, NANOSECONDS), "60s is used");
        };
        let grace = u64::try_from(grace).map_or(GraceSetting::NEVER, Duration::from_nanos);
        self.config.profile.staleness_grace = grace;
    }

    fn period(&mut self, value: &Value) {
        let Some(period) = value.as_u64().filter(|period| *period > 0) else {
            let field = format!("schedulerParams.{}", NUMBERS[2]);
            return self.record_error(&malformed(field, value, NANOSECONDS), "1s is used");
        };
        self.config.period = Duration::from_nanos(period);
    }
}
