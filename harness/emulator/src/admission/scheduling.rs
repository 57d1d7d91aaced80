//! The Priority admission plugin for pods, and the validation of priority classes.

use super::Admission;
use crate::api_types::error::{ApiError, FieldErrors};
use crate::api_types::resource::Resource;
use crate::store::Key;
use schedlab_api::{
    Value,
    object::{self, number, text},
};

/// The highest value of a priority class that is not a system class.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;
const SYSTEM_PRIORITY_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Whether `name` is a built-in priority class, such as `system-node-critical`.
pub(super) fn is_system_priority_class(name: &str) -> bool {
    SYSTEM_PRIORITY_CLASSES.iter().any(|(known, _)| *known == name)
}

/// Sets the pod's priority and preemption policy from its class, or from the default class.
pub(super) fn set_priority(admission: &Admission<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let mut name = text(pod, &["spec", "priorityClassName"]).to_owned();
    let classes = Resource::new("scheduling.k8s.io", "priorityclasses");
    let class = if name.is_empty() {
        let mut defaults: Vec<_> = admission
            .store
            .list(&classes, None)
            .filter(|class| class["globalDefault"] == true)
            .collect();
        defaults.sort_by_key(|class| number(class, &["value"]));
        defaults.first().copied().cloned()
    } else {
        admission.store.find(&Key::new(classes, "", &name)).cloned()
    };
    let system =
        SYSTEM_PRIORITY_CLASSES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    if class.is_none() && system.is_none() && !name.is_empty() {
        let why = format!("no PriorityClass with name {name} was found");
        return Err(forbidden_error(admission, &why));
    }
    let mut policy = "PreemptLowerPriority".to_owned();
    let mut value = system.unwrap_or(0);
    if let Some(class) = &class {
        object::name(class).clone_into(&mut name);
        value = number(class, &["value"]).unwrap_or(0);
        let own = text(class, &["preemptionPolicy"]);
        if !own.is_empty() {
            own.clone_into(&mut policy);
        }
    }
    let pod_value = number(pod, &["spec", "priority"]);
    if let Some(pod_value) = pod_value.filter(|pod_value| *pod_value != value) {
        let why = format!(
            "the integer value of priority ({pod_value}) must not be provided in pod spec; priority \
             admission controller computed {value} from the given PriorityClass name"
        );
        return Err(forbidden_error(admission, &why));
    }
    let pod_policy = text(pod, &["spec", "preemptionPolicy"]);
    if !pod_policy.is_empty() && pod_policy != policy {
        let why = format!(
            "the string value of PreemptionPolicy ({pod_policy}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden_error(admission, &why));
    }
    if !name.is_empty() {
        object::set(pod, &["spec", "priorityClassName"], name.into());
    }
    object::set(pod, &["spec", "priority"], value.into());
    object::set(pod, &["spec", "preemptionPolicy"], policy.into());
    Ok(())
}

fn forbidden_error(admission: &Admission<'_>, why: &str) -> ApiError {
    ApiError::forbidden(&admission.key.resource, &admission.key.name, why)
}

/// Rejects a second priority class with `globalDefault`.
pub(super) fn check_single_default_class(
    admission: &Admission<'_>,
    class: &Value,
) -> Result<(), ApiError> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    let classes = &admission.key.resource;
    let mut others = admission.store.list(classes, None).filter(|other| {
        other["globalDefault"] == true && *object::name(other) != *admission.key.name
    });
    match others.next() {
        None => Ok(()),
        Some(other) => Err(forbidden_error(
            admission,
            &format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                object::name(other)
            ),
        )),
    }
}

pub(super) fn check_priority_class(old: Option<&Value>, new: &Value, errors: &mut FieldErrors) {
    let name = object::name(new);
    let value = number(new, &["value"]).unwrap_or(0);
    let system = SYSTEM_PRIORITY_CLASSES.iter().find(|(known, _)| *known == name);
    if name.starts_with("system-") && system.is_none_or(|(_, known)| *known != value) {
        let why = match system {
            None => format!("{name} is not a known system priority class"),
            Some((_, known)) => format!("value of {name} PriorityClass must be {known}"),
        };
        let rule = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: \
             {why}"
        );
        errors.forbidden("metadata.name", &rule);
    } else if system.is_none() && value > USER_PRIORITY_MAX {
        let rule =
            format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        errors.forbidden("value", &rule);
    }
    let policy = text(new, &["preemptionPolicy"]);
    if !matches!(policy, "" | "PreemptLowerPriority" | "Never") {
        let allowed = ["PreemptLowerPriority", "Never"];
        errors.unsupported("preemptionPolicy", &policy.into(), &allowed);
    }
    let Some(old) = old else {
        return;
    };
    if number(old, &["value"]).unwrap_or(0) != value {
        errors.forbidden("value", "may not be changed in an update.");
    }
    if text(old, &["preemptionPolicy"]) != policy {
        errors.invalid("preemptionPolicy", &policy.into(), "field is immutable");
    }
}
