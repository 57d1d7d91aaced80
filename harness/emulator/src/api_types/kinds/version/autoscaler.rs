//! Conversion of `HorizontalPodAutoscaler` between `autoscaling/v2` and `v1`, which has only a CPU
//! target. As in the API server, annotations keep other metrics and the behavior.
//!
//! Left out: the older format of metrics that the API server writes in the annotation, and status
//! fields that a running autoscaler reports.

use schedlab_api::{Value, json, object};

const METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CPU_TARGET_PATH: [&str; 2] = ["spec", "targetCPUUtilizationPercentage"];

/// Converts a stored autoscaler to version 1.
pub(super) fn convert_to_v1(scaler: &mut Value) {
    let mut others = Vec::new();
    for metric in list_items(object::remove(scaler, &["spec", "metrics"])) {
        match cpu_target(&metric).cloned() {
            Some(target) if object::at(scaler, &CPU_TARGET_PATH).is_none() => {
                object::set(scaler, &CPU_TARGET_PATH, target);
            }
            Some(_) | None => others.push(metric),
        }
    }
    if !others.is_empty() {
        store_in_annotation(scaler, METRICS_ANNOTATION, &Value::Array(others));
    }
    if let Some(behavior) = object::remove(scaler, &["spec", "behavior"]) {
        store_in_annotation(scaler, BEHAVIOR_ANNOTATION, &behavior);
    }
    for field in ["currentMetrics", "conditions"] {
        object::remove(scaler, &["status", field]);
    }
    object::set_default(scaler, &["status", "currentReplicas"], 0);
}

/// Converts an autoscaler of version 1 to its stored form.
pub(super) fn convert_from_v1(scaler: &mut Value) {
    let target = object::remove(scaler, &CPU_TARGET_PATH).filter(|target| !target.is_null());
    let mut metrics: Vec<Value> = target.as_ref().map(cpu_metric).into_iter().collect();
    metrics.extend(list_items(take_from_annotation(scaler, METRICS_ANNOTATION)));
    if !metrics.is_empty() {
        object::set(scaler, &["spec", "metrics"], metrics.into());
    }
    if let Some(behavior) = take_from_annotation(scaler, BEHAVIOR_ANNOTATION) {
        object::set(scaler, &["spec", "behavior"], behavior);
    }
}

fn list_items(value: Option<Value>) -> Vec<Value> {
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

fn store_in_annotation(scaler: &mut Value, key: &str, value: &Value) {
    object::set(scaler, &["metadata", "annotations", key], value.to_string().into());
}

/// Takes a JSON value out of an annotation; an annotation that is no JSON stays.
fn take_from_annotation(scaler: &mut Value, key: &str) -> Option<Value> {
    let what = serde_json::from_str(object::annotation(scaler, key)?).ok()?;
    object::remove(scaler, &["metadata", "annotations", key]);
    if object::map(scaler, &["metadata", "annotations"]).is_some_and(schedlab_api::Map::is_empty) {
        object::remove(scaler, &["metadata", "annotations"]);
    }
    Some(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_unknown_to_autoscaling_v1_are_kept_in_annotations() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory",
            "target": {"type": "Utilization", "averageUtilization": 70}}});
        let stored = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3,
            "metrics": [cpu_metric(&json!(50)), memory], "behavior": {"scaleDown": {}}}});
        let mut shown = stored.clone();
        convert_to_v1(&mut shown);
        object::remove(&mut shown, &["status"]);
        assert_eq!(shown["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}));
        convert_from_v1(&mut shown);
        assert_eq!(shown, stored);
    }
}
