//! Queues in the cache.

use std::{collections::BTreeMap, time::Duration};

use schedlab_api::Value;
use schedlab_scheduler_core::{
    model::{Labels, Name, QueueProblem, Time},
    resources::{Amount, PerResource},
};

use super::ClusterCache;
use crate::{
    config::NodePool,
    parse::{
        GoDuration, Malformed, list, name, parse_go_duration, shown, strings, time, uid, version,
    },
    records::{Condition, conditions},
};

/// The fields of a Queue that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueRecord {
    pub(crate) uid: Name,
    /// `spec.displayName`; empty if unset.
    pub(crate) display_name: Name,
    /// The labels of the queue, for metrics.
    pub(crate) labels: Labels,
    pub(crate) parent: Option<Name>,
    pub(crate) priority: i32,
    pub(crate) quota: PerResource<Amount>,
    pub(crate) limit: PerResource<Amount>,
    pub(crate) over_quota_weight_milli: PerResource<i64>,
    pub(crate) created: Time,
    pub(crate) preempt_min_runtime: Option<Duration>,
    pub(crate) reclaim_min_runtime: Option<Duration>,
    pub(crate) malformed: Option<Malformed>,
    /// Fields that are unset while other fields of the same resource are set; they count as 0.
    pub(crate) unset_fields: Vec<String>,
    /// Weights above 0 that are rounded to 0.
    pub(crate) negligible_weights: Vec<String>,
    pub(crate) reported: ReportedQueueStatus,
}

/// The status that was last written to the queue. No decision depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedQueueStatus {
    pub(crate) version: u64,
    pub(crate) children: Vec<Name>,
    pub(crate) allocated: BTreeMap<Name, Name>,
    pub(crate) allocated_non_preemptible: BTreeMap<Name, Name>,
    pub(crate) requested: BTreeMap<Name, Name>,
    pub(crate) pending: BTreeMap<Name, Name>,
    pub(crate) fair_share: BTreeMap<Name, Name>,
    pub(crate) conditions: BTreeMap<Name, Condition>,
}

const EXPECTED_WEIGHT: &str = "-1 (no weight, as with 0), or 0 to 9200000000000000";
const EXPECTED_RUNTIME: &str = "a duration such as 90s or 1h30m, not negative";
const EXPECTED_PRIORITY: &str = "an integer of 32 bits";

/// The allowed values of a quota or limit, in the units of the API.
fn expected_amount(resource: &str) -> &'static str {
    match resource {
        "gpu" => "-1 (unlimited), or 0 to 9200000000000000 devices",
        "memory" => "-1 (unlimited), or 0 to 9200000000000 megabytes",
        _ => "-1 (unlimited), or 0 to 9200000000000000000 millicores",
    }
}

impl QueueRecord {
    pub(crate) fn from_object(object: &Value) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let mut reader = QueueParser { spec, malformed: None };
        let quota = reader.parse_amounts("quota");
        let limit = reader.parse_amounts("limit");
        let over_quota_weight_milli = PerResource {
            gpu: reader.parse_weight("gpu"),
            cpu: reader.parse_weight("cpu"),
            memory: reader.parse_weight("memory"),
        };
        Self {
            uid: uid(object),
            display_name: name(spec, "/displayName").unwrap_or_default(),
            labels: strings(object, "/metadata/labels"),
            parent: name(spec, "/parentQueue"),
            priority: reader.parse_priority(),
            quota,
            limit,
            over_quota_weight_milli,
            created: time(object, "/metadata/creationTimestamp").unwrap_or_default(),
            preempt_min_runtime: reader.parse_runtime("preemptMinRuntime"),
            reclaim_min_runtime: reader.parse_runtime("reclaimMinRuntime"),
            malformed: reader.malformed,
            unset_fields: unset_fields(spec),
            negligible_weights: negligible_weights(spec),
            reported: ReportedQueueStatus {
                version: version(object),
                children: list(object, "/status/childQueues")
                    .iter()
                    .filter_map(Value::as_str)
                    .map(Name::from)
                    .collect(),
                allocated: strings(object, "/status/allocated"),
                allocated_non_preemptible: strings(object, "/status/allocatedNonPreemptible"),
                requested: strings(object, "/status/requested"),
                pending: strings(object, "/status/pending"),
                fair_share: strings(object, "/status/fairShare"),
                conditions: conditions(object),
            },
        }
    }
}

struct QueueParser<'a> {
    spec: &'a Value,
    malformed: Option<Malformed>,
}

impl QueueParser<'_> {
    fn parse_amounts(&mut self, field: &str) -> PerResource<Amount> {
        PerResource {
            gpu: self.parse_amount("gpu", field),
            cpu: self.parse_amount("cpu", field),
            memory: self.parse_amount("memory", field),
        }
    }

    fn parse_amount(&mut self, resource: &str, field: &str) -> Amount {
        match self.parse_number(resource, field) {
            -1.0 => Amount::Unlimited,
            number => Amount::Exactly(self.convert_to_core_units(
                number,
                resource,
                field,
                expected_amount(resource),
            )),
        }
    }

    fn parse_weight(&mut self, resource: &str) -> i64 {
        let number = match self.parse_number(resource, "overQuotaWeight") {
            // As in KAI, where -1 is the weight of an unlimited quota: a queue without positive
            // weight gets nothing above quota.
            -1.0 => 0.0,
            number => number,
        };
        // Weights are kept in thousandths for every resource.
        self.integer_in_range(number * 1000.0, resource, "overQuotaWeight", EXPECTED_WEIGHT)
    }

    fn parse_number(&mut self, resource: &str, field: &str) -> f64 {
        let found = resource_field(self.spec, resource, field);
        match found {
            None | Some(Value::Null) => 0.0,
            Some(value) => value.as_f64().unwrap_or_else(|| {
                self.record_error(resource, field, shown(value), expected_amount(resource));
                0.0
            }),
        }
    }

    /// Converts devices, millicores and megabytes to the units of the core.
    fn convert_to_core_units(
        &mut self,
        number: f64,
        resource: &str,
        field: &str,
        allowed: &'static str,
    ) -> i64 {
        let factor = match resource {
            "gpu" => 1e3,
            "memory" => 1e6,
            _ => 1.0,
        };
        self.integer_in_range(number * factor, resource, field, allowed)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the range is checked before")]
    fn integer_in_range(
        &mut self,
        number: f64,
        resource: &str,
        field: &str,
        allowed: &'static str,
    ) -> i64 {
        // Below 2^63, above which the conversion would saturate.
        if (0.0..=9.2e18).contains(&number) {
            return number.round() as i64;
        }
        let found = resource_field(self.spec, resource, field);
        self.record_error(resource, field, found.map(shown).unwrap_or_default(), allowed);
        0
    }

    fn record_error(&mut self, resource: &str, field: &str, found: String, allowed: &'static str) {
        let field = format!("spec.resources.{resource}.{field}");
        self.malformed.get_or_insert(Malformed::new(field, found, allowed));
    }

    fn parse_priority(&mut self) -> i32 {
        let Some(found) = self.spec.get("priority").filter(|found| !found.is_null()) else {
            return 100;
        };
        found.as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or_else(|| {
            self.malformed.get_or_insert(Malformed::new(
                "spec.priority",
                shown(found),
                EXPECTED_PRIORITY,
            ));
            100
        })
    }

    fn parse_runtime(&mut self, field: &str) -> Option<Duration> {
        let found = self.spec.get(field).filter(|found| !found.is_null())?;
        match found.as_str().and_then(parse_go_duration) {
            Some(GoDuration::Positive(duration)) => Some(duration),
            Some(GoDuration::Negative) | None => {
                let field = format!("spec.{field}");
                self.malformed.get_or_insert(Malformed::new(field, shown(found), EXPECTED_RUNTIME));
                None
            }
        }
    }
}

/// A field of a resource in the spec.
fn resource_field<'s>(spec: &'s Value, resource: &str, field: &str) -> Option<&'s Value> {
    spec.get("resources")?.get(resource)?.get(field)
}

impl ClusterCache {
    /// Replaces the problem of a missing queue by the node pool label that excludes the queue, if
    /// there is such a queue.
    pub(crate) fn explain_missing_queue(&self, problem: QueueProblem) -> QueueProblem {
        let whose = match &problem {
            QueueProblem::Missing { queue } => queue,
            QueueProblem::ParentMissing { parent, .. } => parent,
            QueueProblem::Cycle { .. }
            | QueueProblem::NotALeaf { .. }
            | QueueProblem::Malformed { .. }
            | QueueProblem::OtherNodePool { .. } => return problem,
        };
        let Some(NodePool { label, value }) = &self.pool else { return problem };
        if !self.excluded_queues.contains(whose) {
            return problem;
        }
        let detail = if value.is_empty() {
            format!("label {label}: got one, expected none in this node pool")
        } else {
            format!("label {label}: got none or another, expected {value} in this node pool")
        };
        let (whose, detail) = (Name::clone(whose), detail.into());
        QueueProblem::OtherNodePool {
            apparent_problem: Box::new(problem),
            faulty_queue: whose,
            detail,
        }
    }
}

/// The fields of weights above 0 that are rounded to 0 thousandths.
fn negligible_weights(spec: &Value) -> Vec<String> {
    let weight =
        |resource| resource_field(spec, resource, "overQuotaWeight").and_then(Value::as_f64);
    let is_lost = |weight: f64| weight > 0.0 && (weight * 1000.0).round() < 1.0;
    let lost = ["gpu", "cpu", "memory"].into_iter().filter(|it| weight(*it).is_some_and(is_lost));
    lost.map(|resource| format!("{resource}.overQuotaWeight")).collect()
}

/// The fields that are unset while other fields of the same resource are set; all three fields of a
/// resource that is missing. With an unlimited quota no weight is needed.
fn unset_fields(spec: &Value) -> Vec<String> {
    let mut unset = Vec::new();
    for resource in ["gpu", "cpu", "memory"] {
        for which in ["quota", "overQuotaWeight", "limit"] {
            let of = |field: &str| resource_field(spec, resource, field);
            let needless = which == "overQuotaWeight"
                && of("quota").and_then(Value::as_f64).is_some_and(|quota| quota < 0.0);
            if of(which).is_none_or(Value::is_null) && !needless {
                unset.push(format!("{resource}.{which}"));
            }
        }
    }
    unset
}
