//! Defaults and validation of `HorizontalPodAutoscaler`.

use crate::api_types::error::FieldErrors;
use schedlab_api::{
    Value, json,
    object::{list, number, set, set_default, text},
};

/// Sets the defaults of a `HorizontalPodAutoscaler`: `minReplicas` is 1, and without metrics the
/// target is 80 % CPU utilization.
pub(super) fn set_autoscaler_defaults(scaler: &mut Value) {
    set_default(scaler, &["spec", "minReplicas"], 1);
    if list(scaler, &["spec", "metrics"]).is_empty() {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        set(scaler, &["spec", "metrics"], json!([cpu]));
    }
}

pub(super) fn check_autoscaler(scaler: &Value, errors: &mut FieldErrors) {
    let count = |field: &str| number(scaler, &["spec", field]).unwrap_or(0);
    let (least, most) = (count("minReplicas"), count("maxReplicas"));
    if least < 1 {
        let rule = "must be greater than or equal to 1";
        errors.invalid("spec.minReplicas", &least.into(), rule);
    }
    if most < 1 {
        errors.invalid("spec.maxReplicas", &most.into(), "must be greater than 0");
    }
    if most < least {
        let rule = "must be greater than or equal to `minReplicas`";
        errors.invalid("spec.maxReplicas", &most.into(), rule);
    }
    let target = |field: &str| text(scaler, &["spec", "scaleTargetRef", field]);
    for field in ["kind", "name"] {
        if target(field).is_empty() {
            errors.required(format!("spec.scaleTargetRef.{field}"), "");
        }
    }
    let version = target("apiVersion");
    if !version.contains('/') && target("kind") != "ReplicationController" {
        let rule = "apiVersion must specify API group";
        errors.invalid("spec.scaleTargetRef.apiVersion", &version.into(), rule);
    }
}
