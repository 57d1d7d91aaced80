//! What people get wrong when they set up queues, told on the queue as a condition.

use std::collections::BTreeMap;

use schedlab_scheduler_core::{
    model::Name,
    resources::{Amount, PerResource},
};

use crate::{
    mirror::{Condition, QueueRecord},
    translate::queue_problem,
};

/// What amounts are told in, in the order of resources, and how much of the amount is one of it.
const UNITS: [(&str, i64); 3] = [("GPUs", 1000), ("CPU cores", 1000), ("bytes of memory", 1)];

type Conditions = BTreeMap<Name, Condition>;

/// The conditions of each queue that has any.
pub(super) fn of(
    queues: &BTreeMap<Name, QueueRecord>,
    capacity: PerResource<i64>,
) -> BTreeMap<Name, Conditions> {
    let over_capacity = above(queues, None, bounds(capacity)).map(|sums| {
        format!("Quotas of the top queues add up to more than the cluster has: {sums}")
    });
    let mut warnings = BTreeMap::new();
    for (name, record) in queues {
        let mut conditions = Conditions::new();
        let mut add = |kind: &str, message: String| {
            let [status, reason] = ["True", kind].map(Name::from);
            conditions.insert(kind.into(), Condition { status, reason, message: message.into() });
        };
        let problem = queue_problem(queues, name);
        if let Some(problem) = &problem {
            add("Unusable", problem.to_string());
        }
        if !record.unset.is_empty() {
            add("PartialConfiguration", unset(record));
        }
        if !record.weightless.is_empty() {
            add("WeightTooSmall", weightless(record));
        }
        let is_counted = deserves(record) && problem.is_none();
        if let (None, true, Some(message)) = (&record.parent, is_counted, &over_capacity) {
            add("GuaranteesAboveCapacity", message.clone());
        }
        if let Some(quotas) = above_limit(record) {
            let message = format!(
                "Quota above the queue's own limit, which holds: {quotas}. Lower the quota, or \
                 raise the limit"
            );
            add("QuotaAboveLimit", message);
        }
        if let Some(sums) = above(queues, Some(name), record.quota) {
            let message = format!("Quotas of the queues below add up to more than its own: {sums}");
            add("GuaranteesAboveQuota", message);
        }
        if !conditions.is_empty() {
            warnings.insert(Name::clone(name), conditions);
        }
    }
    warnings
}

fn bounds(capacity: PerResource<i64>) -> PerResource<Amount> {
    let [gpu, cpu, memory] = capacity.values().map(Amount::Exactly);
    PerResource { gpu, cpu, memory }
}

fn unset(record: &QueueRecord) -> String {
    if record.unset.len() == 9 {
        return "No resources are set: quota and limit are 0, so nothing may run. \
                Set spec.resources, quota and limit to -1 for unlimited"
            .to_owned();
    }
    let counts = match record.unset.as_slice() {
        [only] => format!("{only} is not set and counts as 0"),
        several => format!("{} are not set and count as 0", several.join(", ")),
    };
    let limit = if record.unset.iter().any(|field| field.split('.').next_back() == Some("limit")) {
        "; a resource whose limit is 0 cannot be used"
    } else {
        ""
    };
    let is_bound = |field: &String| !field.ends_with(".overQuotaWeight");
    let advice = match (record.unset.iter().any(is_bound), record.unset.iter().all(is_bound)) {
        (true, true) => "Set -1 for unlimited",
        (false, _) => "Set a weight above 0 for a part of what quotas leave over",
        (true, false) => {
            "Set quota and limit to -1 for unlimited, and a weight above 0 for a part of what quotas \
             leave over"
        }
    };
    format!("Partial configuration: {counts}{limit}. {advice}")
}

fn weightless(record: &QueueRecord) -> String {
    let counts = match record.weightless.as_slice() {
        [only] => format!("{only} is below a thousandth and counts as 0"),
        several => format!("{} are below a thousandth and count as 0", several.join(", ")),
    };
    format!(
        "{counts}: the queue gets nothing of what quotas leave over. Multiply the weights of all \
         queues beside each other, as only their proportions matter"
    )
}

/// A guarantee that adds to a sum; without a bound it is told of no amount.
fn deserves(record: &QueueRecord) -> bool {
    record.quota.values().iter().any(|quota| quota.or(0) > 0)
}

/// The resources of which the queue deserves more than it may have. A quota without a bound is as
/// much as the limit allows; a limit that is not set is told as such.
fn above_limit(record: &QueueRecord) -> Option<String> {
    if record.malformed.is_some() {
        return None;
    }
    let mut quotas = Vec::new();
    let fields = ["gpu.limit", "cpu.limit", "memory.limit"];
    for (position, (field, (unit, divisor))) in fields.into_iter().zip(UNITS).enumerate() {
        let is_set = record.unset.iter().all(|unset| *unset != *field);
        let bounds = (record.quota.values()[position], record.limit.values()[position]);
        if let (true, (Amount::Exactly(quota), Amount::Exactly(limit))) = (is_set, bounds)
            && quota > limit
        {
            quotas.push(format!("{} of {} {unit}", shown(quota, divisor), shown(limit, divisor)));
        }
    }
    (!quotas.is_empty()).then(|| quotas.join(", "))
}

/// The resources of which the queues below `parent` deserve more than there is.
fn above(
    queues: &BTreeMap<Name, QueueRecord>,
    parent: Option<&Name>,
    bound: PerResource<Amount>,
) -> Option<String> {
    let is_counted = |(name, record): &(&Name, &QueueRecord)| {
        record.parent.as_ref() == parent && queue_problem(queues, name).is_none()
    };
    let children: Vec<_> = queues.iter().filter(is_counted).map(|(_, record)| record).collect();
    let mut sums = Vec::new();
    for (position, (unit, divisor)) in UNITS.into_iter().enumerate() {
        let quotas = children.iter().map(|record| record.quota.values()[position].or(0));
        let sum = quotas.fold(0_i64, i64::saturating_add);
        if let Amount::Exactly(bound) = bound.values()[position]
            && sum > bound
        {
            sums.push(format!("{} of {} {unit}", shown(sum, divisor), shown(bound, divisor)));
        }
    }
    (!sums.is_empty()).then(|| sums.join(", "))
}

/// A number with as many decimals as it needs.
fn shown(amount: i64, divisor: i64) -> String {
    let (whole, rest) = (amount / divisor, amount % divisor);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{rest:03}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use schedlab_json::{Value, json};

    use super::*;

    fn told(queues: &[(&str, Value)]) -> String {
        let record = |(name, spec): &(&str, Value)| {
            (Name::from(*name), QueueRecord::read(&json!({ "spec": spec })))
        };
        let capacity = PerResource { gpu: 100_000, cpu: i64::MAX, memory: i64::MAX };
        let warnings = of(&queues.iter().map(record).collect(), capacity);
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
    fn a_weight_of_minus_one_is_none() {
        let mut resources = gpus(1.0);
        resources["gpu"]["overQuotaWeight"] = json!(-1);
        let spec = json!({ "resources": resources });
        assert_eq!(told(&[("a", spec.clone())]), "");
        let record = QueueRecord::read(&json!({ "spec": spec }));
        assert_eq!(record.over_quota_weight_milli.gpu, 0);
    }

    #[test]
    fn weights_that_are_too_small_to_count_are_told() {
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
        insta::assert_snapshot!(told(&queues), @r"
        a WeightTooSmall: gpu.overQuotaWeight is below a thousandth and counts as 0: the queue gets nothing of what quotas leave over. Multiply the weights of all queues beside each other, as only their proportions matter
        c WeightTooSmall: gpu.overQuotaWeight, cpu.overQuotaWeight are below a thousandth and count as 0: the queue gets nothing of what quotas leave over. Multiply the weights of all queues beside each other, as only their proportions matter
        ");
    }

    #[test]
    fn a_sound_queue_has_no_warnings() {
        assert_eq!(told(&[("a", json!({ "resources": gpus(100.0) }))]), "");
    }

    #[test]
    fn a_quota_above_its_own_limit_is_told_unless_it_has_no_bound() {
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
        insta::assert_snapshot!(told(&queues), @r"
        all QuotaAboveLimit: Quota above the queue's own limit, which holds: 8.5 of 4 GPUs, 2 of 1.5 CPU cores, 3000000 of 2000000 bytes of memory. Lower the quota, or raise the limit
        none QuotaAboveLimit: Quota above the queue's own limit, which holds: 0.001 of 0 CPU cores. Lower the quota, or raise the limit
        unset PartialConfiguration: Partial configuration: cpu.limit is not set and counts as 0; a resource whose limit is 0 cannot be used. Set -1 for unlimited
        ");
    }

    #[test]
    fn guarantees_above_capacity_or_above_the_parent_are_told() {
        let queues = [
            ("a", json!({ "resources": gpus(80.0) })),
            ("a1", json!({ "resources": gpus(80.5), "parentQueue": "a" })),
            ("b", json!({ "resources": gpus(30.0) })),
            ("unlimited", json!({ "resources": gpus(-1.0) })),
            ("unusable", json!({ "resources": gpus(50.0), "priority": "high" })),
        ];
        insta::assert_snapshot!(told(&queues), @r#"
        a GuaranteesAboveCapacity: Quotas of the top queues add up to more than the cluster has: 110 of 100 GPUs
        a GuaranteesAboveQuota: Quotas of the queues below add up to more than its own: 80.5 of 80 GPUs
        b GuaranteesAboveCapacity: Quotas of the top queues add up to more than the cluster has: 110 of 100 GPUs
        unusable Unusable: Queue 'unusable' cannot be used: spec.priority: found "high", allowed: an integer of 32 bits
        "#);
    }

    #[test]
    fn unset_and_unusable_queues_are_told() {
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
        insta::assert_snapshot!(told(&queues), @r"
        a PartialConfiguration: Partial configuration: cpu.limit is not set and counts as 0; a resource whose limit is 0 cannot be used. Set -1 for unlimited
        b PartialConfiguration: No resources are set: quota and limit are 0, so nothing may run. Set spec.resources, quota and limit to -1 for unlimited
        c Unusable: Queue 'c' cannot be used: spec.resources.gpu.quota: found -5.0, allowed: -1 (unlimited), or 0 to 9200000000000000 devices
        ");
    }
}
