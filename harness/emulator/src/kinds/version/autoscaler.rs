//! Horizontal pod autoscalers as `autoscaling/v1` has them, with a target for CPU alone. Other
//! metrics and the behavior go along in annotations, as with the real server.
//!
//! Left out: the older form that the real server gives metrics inside its annotation, and what
//! an autoscaler that runs would report.

use crate::object;
use schedlab_json::{Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const TARGET: [&str; 2] = ["spec", "targetCPUUtilizationPercentage"];

/// A stored autoscaler, as version 1 shows it.
pub(super) fn to_v1(scaler: &mut Value) {
    let mut others = Vec::new();
    for metric in list_of(object::remove(scaler, &["spec", "metrics"])) {
        match cpu_target(&metric).cloned() {
            Some(target) if object::at(scaler, &TARGET).is_none() => {
                object::set(scaler, &TARGET, target);
            }
            Some(_) | None => others.push(metric),
        }
    }
    if !others.is_empty() {
        carry(scaler, METRICS, &Value::Array(others));
    }
    if let Some(behavior) = object::remove(scaler, &["spec", "behavior"]) {
        carry(scaler, BEHAVIOR, &behavior);
    }
    for field in ["currentMetrics", "conditions"] {
        object::remove(scaler, &["status", field]);
    }
    object::set_default(scaler, &["status", "currentReplicas"], 0);
}

/// An autoscaler that was sent in version 1, as it is stored.
pub(super) fn from_v1(scaler: &mut Value) {
    let target = object::remove(scaler, &TARGET).filter(|target| !target.is_null());
    let mut metrics: Vec<Value> = target.as_ref().map(cpu_metric).into_iter().collect();
    metrics.extend(list_of(carried(scaler, METRICS)));
    if !metrics.is_empty() {
        object::set(scaler, &["spec", "metrics"], metrics.into());
    }
    if let Some(behavior) = carried(scaler, BEHAVIOR) {
        object::set(scaler, &["spec", "behavior"], behavior);
    }
}

fn list_of(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        Some(_) | None => Vec::new(),
    }
}

fn cpu_metric(target: &Value) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": target});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn cpu_target(metric: &Value) -> Option<&Value> {
    let is_cpu = object::text(metric, &["type"]) == "Resource"
        && object::text(metric, &["resource", "name"]) == "cpu";
    object::at(metric, &["resource", "target", "averageUtilization"]).filter(|_| is_cpu)
}

fn carry(scaler: &mut Value, key: &str, what: &Value) {
    object::set(scaler, &["metadata", "annotations", key], what.to_string().into());
}

/// What an annotation carries; one that carries nothing readable stays.
fn carried(scaler: &mut Value, key: &str) -> Option<Value> {
    let what = serde_json::from_str(object::annotation(scaler, key)?).ok()?;
    object::remove(scaler, &["metadata", "annotations", key]);
    if object::map(scaler, &["metadata", "annotations"]).is_some_and(schedlab_json::Map::is_empty) {
        object::remove(scaler, &["metadata", "annotations"]);
    }
    Some(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_version_1_does_not_know_goes_along_in_annotations() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory",
            "target": {"type": "Utilization", "averageUtilization": 70}}});
        let stored = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3,
            "metrics": [cpu_metric(&json!(50)), memory], "behavior": {"scaleDown": {}}}});
        let mut shown = stored.clone();
        to_v1(&mut shown);
        object::remove(&mut shown, &["status"]);
        assert_eq!(shown["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}));
        from_v1(&mut shown);
        assert_eq!(shown, stored);
    }
}
