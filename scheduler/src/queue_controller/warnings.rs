//! Conditions on queues that warn about common configuration mistakes.

use std::collections::BTreeMap;

use schedlab_scheduler_core::{
    model::Name,
    resources::{Amount, PerResource},
};

use crate::{cache::QueueRecord, records::Condition, snapshot_builder::queue_problem};

/// Display unit of each resource (GPU, CPU, memory), and the number of internal units per display
/// unit.
const DISPLAY_UNITS: [(&str, i64); 3] =
    [("GPUs", 1000), ("CPU cores", 1000), ("bytes of memory", 1)];

type ConditionsByType = BTreeMap<Name, Condition>;

/// Warning conditions of each queue that has any.
pub(super) fn conditions_by_queue(
    queues: &BTreeMap<Name, QueueRecord>,
    capacity: PerResource<i64>,
) -> BTreeMap<Name, ConditionsByType> {
    let over_capacity = quotas_above(queues, None, capacity_bounds(capacity)).map(|sums| {
        format!("Quotas of the top-level queues add up to more than the cluster capacity: {sums}")
    });
    let mut warnings = BTreeMap::new();
    for (name, record) in queues {
        let mut conditions = ConditionsByType::new();
        let mut add = |kind: &str, message: String| {
            let [status, reason] = ["True", kind].map(Name::from);
            conditions.insert(kind.into(), Condition { status, reason, message: message.into() });
        };
        let problem = queue_problem(queues, name);
        if let Some(problem) = &problem {
            add("Unusable", problem.to_string());
        }
        if !record.unset_fields.is_empty() {
            add("PartialConfiguration", unset_fields_message(record));
        }
        if !record.negligible_weights.is_empty() {
            add("WeightTooSmall", negligible_weights_message(record));
        }
        let is_counted = has_finite_quota(record) && problem.is_none();
        if let (None, true, Some(message)) = (&record.parent, is_counted, &over_capacity) {
            add("GuaranteesAboveCapacity", message.clone());
        }
        if let Some(quotas) = quotas_above_limit(record) {
            let message = format!(
                "Quota above the queue's own limit, which applies: {quotas}. Lower the quota, or \
                 raise the limit"
            );
            add("QuotaAboveLimit", message);
        }
        if let Some(sums) = quotas_above(queues, Some(name), record.quota) {
            let message = format!(
                "Quotas of the child queues add up to more than the queue's own quota: {sums}"
            );
            add("GuaranteesAboveQuota", message);
        }
        if !conditions.is_empty() {
            warnings.insert(Name::clone(name), conditions);
        }
    }
    warnings
}

fn capacity_bounds(capacity: PerResource<i64>) -> PerResource<Amount> {
    let [gpu, cpu, memory] = capacity.values().map(Amount::Exactly);
    PerResource { gpu, cpu, memory }
}

fn unset_fields_message(record: &QueueRecord) -> String {
    if record.unset_fields.len() == 9 {
        return "No resources are set: quota and limit are 0, so nothing may run. \
                Set spec.resources, quota and limit to -1 for unlimited"
            .to_owned();
    }
    let counts = match record.unset_fields.as_slice() {
        [only] => format!("{only} is not set and counts as 0"),
        several => format!("{} are not set and count as 0", several.join(", ")),
    };
    let limit =
        if record.unset_fields.iter().any(|field| field.split('.').next_back() == Some("limit")) {
            "; a resource whose limit is 0 cannot be used"
        } else {
            ""
        };
    let is_bound = |field: &String| !field.ends_with(".overQuotaWeight");
    let advice = match (
        record.unset_fields.iter().any(is_bound),
        record.unset_fields.iter().all(is_bound),
    ) {
        (true, true) => "Set -1 for unlimited",
        (false, _) => "Set a weight above 0 for a share of the capacity beyond quotas",
        (true, false) => {
            "Set quota and limit to -1 for unlimited, and a weight above 0 for a share of the \
             capacity beyond quotas"
        }
    };
    format!("Partial configuration: {counts}{limit}. {advice}")
}

fn negligible_weights_message(record: &QueueRecord) -> String {
    let counts = match record.negligible_weights.as_slice() {
        [only] => format!("{only} is below a thousandth and counts as 0"),
        several => format!("{} are below a thousandth and count as 0", several.join(", ")),
    };
    format!(
        "{counts}: the queue gets no capacity beyond quotas. Multiply the weights of all \
         sibling queues, as only their ratios matter"
    )
}

/// Whether the queue has a finite quota above 0, which adds to a sum of quotas.
fn has_finite_quota(record: &QueueRecord) -> bool {
    record.quota.values().iter().any(|quota| quota.limit_or(0) > 0)
}

/// Resources with a quota above the queue's own limit. An unlimited quota is no contradiction; an
/// unset limit has a warning of its own.
fn quotas_above_limit(record: &QueueRecord) -> Option<String> {
    if record.malformed.is_some() {
        return None;
    }
    let mut quotas = Vec::new();
    let fields = ["gpu.limit", "cpu.limit", "memory.limit"];
    for (position, (field, (unit, divisor))) in fields.into_iter().zip(DISPLAY_UNITS).enumerate() {
        let is_set = record.unset_fields.iter().all(|unset| *unset != *field);
        let bounds = (record.quota.values()[position], record.limit.values()[position]);
        if let (true, (Amount::Exactly(quota), Amount::Exactly(limit))) = (is_set, bounds)
            && quota > limit
        {
            quotas.push(format!(
                "{} of {} {unit}",
                format_amount(quota, divisor),
                format_amount(limit, divisor)
            ));
        }
    }
    (!quotas.is_empty()).then(|| quotas.join(", "))
}

/// Resources for which the quotas of the children of `parent` add up to more than `bound`.
fn quotas_above(
    queues: &BTreeMap<Name, QueueRecord>,
    parent: Option<&Name>,
    bound: PerResource<Amount>,
) -> Option<String> {
    let is_counted = |(name, record): &(&Name, &QueueRecord)| {
        record.parent.as_ref() == parent && queue_problem(queues, name).is_none()
    };
    let children: Vec<_> = queues.iter().filter(is_counted).map(|(_, record)| record).collect();
    let mut sums = Vec::new();
    for (position, (unit, divisor)) in DISPLAY_UNITS.into_iter().enumerate() {
        let quotas = children.iter().map(|record| record.quota.values()[position].limit_or(0));
        let sum = quotas.fold(0_i64, i64::saturating_add);
        if let Amount::Exactly(bound) = bound.values()[position]
            && sum > bound
        {
            sums.push(format!(
                "{} of {} {unit}",
                format_amount(sum, divisor),
                format_amount(bound, divisor)
            ));
        }
    }
    (!sums.is_empty()).then(|| sums.join(", "))
}

/// Formats an amount without trailing zeros.
fn format_amount(amount: i64, divisor: i64) -> String {
    let (whole, rest) = (amount / divisor, amount % divisor);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{rest:03}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use schedlab_api::{Value, json};

    use super::*;

    fn warnings_text(queues: &[(&str, Value)]) -> String {
        let record = |(name, spec): &(&str, Value)| {
            (Name::from(*name), QueueRecord::from_object(&json!({ "spec": spec })))
        };
        let capacity = PerResource { gpu: 100_000, cpu: i64::MAX, memory: i64::MAX };
        let warnings = conditions_by_queue(&queues.iter().map(record).collect(), capacity);
        let lines = warnings.iter().flat_map(|(name, conditions)| {
            conditions.iter().map(move |(kind, is)| format!("{name} {kind}: {}\n", is.message))
        });
        lines.collect()
    }

    fn gpus(quota: f64) -> Value {
        let all = json!({ "quota": 0, "overQuotaWeight": 1, "limit": -1 });
        let gpu = json!({ "quota": quota, "overQuotaWeight": 1, "limit": -1 });
        json!({ "gpu": gpu, "cpu": all, "memory": all })
    }

    #[test]
    fn an_over_quota_weight_of_minus_one_counts_as_zero() {
        let mut resources = gpus(1.0);
        resources["gpu"]["overQuotaWeight"] = json!(-1);
        let spec = json!({ "resources": resources });
        assert_eq!(warnings_text(&[("a", spec.clone())]), "");
        let record = QueueRecord::from_object(&json!({ "spec": spec }));
        assert_eq!(record.over_quota_weight_milli.gpu, 0);
    }

    #[test]
    fn weights_below_a_thousandth_yield_a_warning() {
        let weights = |gpu: f64, cpu: f64| {
            let mut resources = gpus(1.0);
            resources["gpu"]["overQuotaWeight"] = json!(gpu);
            resources["cpu"]["overQuotaWeight"] = json!(cpu);
            json!({ "resources": resources })
        };
        let queues = [
            ("a", weights(0.0004, 0.001)),
            ("b", weights(0.0, 0.0005)),
            ("c", weights(1e-9, 1e-9)),
        ];
        insta::assert_snapshot!(warnings_text(&queues), @r"
        a WeightTooSmall: gpu.overQuotaWeight is below a thousandth and counts as 0: the queue gets no capacity beyond quotas. Multiply the weights of all sibling queues, as only their ratios matter
        c WeightTooSmall: gpu.overQuotaWeight, cpu.overQuotaWeight are below a thousandth and count as 0: the queue gets no capacity beyond quotas. Multiply the weights of all sibling queues, as only their ratios matter
        ");
    }

    #[test]
    fn a_valid_queue_has_no_warnings() {
        assert_eq!(warnings_text(&[("a", json!({ "resources": gpus(100.0) }))]), "");
    }

    #[test]
    fn a_quota_above_its_own_limit_yields_a_warning_unless_unlimited() {
        let bound = |quota: f64, limit: f64| json!({ "quota": quota, "limit": limit, "overQuotaWeight": 1 });
        let queue = |gpu: Value, cpu: Value, memory: Value| json!({ "resources": { "gpu": gpu, "cpu": cpu, "memory": memory } });
        let sound = || bound(4.0, 4.0);
        let unset = json!({ "quota": 1, "overQuotaWeight": 1 });
        let queues = [
            ("all", queue(bound(8.5, 4.0), bound(2000.0, 1500.0), bound(3.0, 2.0))),
            ("no-bound", queue(bound(-1.0, 4.0), bound(-1.0, 0.0), bound(4.0, -1.0))),
            ("none", queue(sound(), bound(1.0, 0.0), sound())),
            ("unset", queue(sound(), unset, sound())),
        ];
        insta::assert_snapshot!(warnings_text(&queues), @r"
        all QuotaAboveLimit: Quota above the queue's own limit, which applies: 8.5 of 4 GPUs, 2 of 1.5 CPU cores, 3000000 of 2000000 bytes of memory. Lower the quota, or raise the limit
        none QuotaAboveLimit: Quota above the queue's own limit, which applies: 0.001 of 0 CPU cores. Lower the quota, or raise the limit
        unset PartialConfiguration: Partial configuration: cpu.limit is not set and counts as 0; a resource whose limit is 0 cannot be used. Set -1 for unlimited
        ");
    }

    #[test]
    fn quotas_above_capacity_or_above_the_parent_quota_yield_warnings() {
        let queues = [
            ("a", json!({ "resources": gpus(80.0) })),
            ("a1", json!({ "resources": gpus(80.5), "parentQueue": "a" })),
            ("b", json!({ "resources": gpus(30.0) })),
            ("unlimited", json!({ "resources": gpus(-1.0) })),
            ("unusable", json!({ "resources": gpus(50.0), "priority": "high" })),
        ];
        insta::assert_snapshot!(warnings_text(&queues), @r#"
        a GuaranteesAboveCapacity: Quotas of the top-level queues add up to more than the cluster capacity: 110 of 100 GPUs
        a GuaranteesAboveQuota: Quotas of the child queues add up to more than the queue's own quota: 80.5 of 80 GPUs
        b GuaranteesAboveCapacity: Quotas of the top-level queues add up to more than the cluster capacity: 110 of 100 GPUs
        unusable Unusable: Queue 'unusable' cannot be used: spec.priority: got "high", expected an integer of 32 bits
        "#);
    }

    #[test]
    fn unset_and_unusable_queues_yield_warnings() {
        let mut partial = gpus(1.0);
        partial["cpu"] = json!({ "quota": 1, "overQuotaWeight": 1 });
        let mut every = gpus(0.0);
        every["cpu"] = json!({ "quota": -1, "limit": -1 });
        let queues = [
            ("a", json!({ "resources": partial })),
            ("b", json!({})),
            ("all", json!({ "resources": every })),
            ("c", json!({ "resources": gpus(-5.0), "parentQueue": "x" })),
        ];
        insta::assert_snapshot!(warnings_text(&queues), @r"
        a PartialConfiguration: Partial configuration: cpu.limit is not set and counts as 0; a resource whose limit is 0 cannot be used. Set -1 for unlimited
        b PartialConfiguration: No resources are set: quota and limit are 0, so nothing may run. Set spec.resources, quota and limit to -1 for unlimited
        c Unusable: Queue 'c' cannot be used: spec.resources.gpu.quota: got -5.0, expected -1 (unlimited), or 0 to 9200000000000000 devices
        ");
    }
}
