//! The Priority admission plugin for pods, and the validation of priority classes. Pod groups and
//! workloads are in [`pod_group`] and [`workload`].

pub(super) mod pod_group;
pub(super) mod workload;

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

/// The priority of a priority class.
struct ResolvedPriority {
    class_name: String,
    value: i64,
    preemption_policy: String,
}

/// Sets the pod's priority and preemption policy from its class, or from the default class.
pub(super) fn set_priority(admission: &Admission<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let priority = resolve_priority(admission, text(pod, &["spec", "priorityClassName"]))?;
    let (value, policy) = (priority.value, &priority.preemption_policy);
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
    if !priority.class_name.is_empty() {
        object::set(pod, &["spec", "priorityClassName"], priority.class_name.into());
    }
    object::set(pod, &["spec", "priority"], value.into());
    object::set(pod, &["spec", "preemptionPolicy"], priority.preemption_policy.into());
    Ok(())
}

/// The priority of the class with this name, or of the default class if the name is empty.
fn resolve_priority(admission: &Admission<'_>, name: &str) -> Result<ResolvedPriority, ApiError> {
    let classes = Resource::new("scheduling.k8s.io", "priorityclasses");
    let class = if name.is_empty() {
        let defaults = admission.store.list(&classes, None);
        let defaults = defaults.filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| number(class, &["value"])).cloned()
    } else {
        admission.store.find(&Key::new(classes, "", name)).cloned()
    };
    let system =
        SYSTEM_PRIORITY_CLASSES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    if class.is_none() && system.is_none() && !name.is_empty() {
        let why = format!("no PriorityClass with name {name} was found");
        return Err(forbidden_error(admission, &why));
    }
    let mut priority = ResolvedPriority {
        class_name: name.to_owned(),
        value: system.unwrap_or(0),
        preemption_policy: "PreemptLowerPriority".to_owned(),
    };
    if let Some(class) = &class {
        object::name(class).clone_into(&mut priority.class_name);
        priority.value = number(class, &["value"]).unwrap_or(0);
        let own = text(class, &["preemptionPolicy"]);
        if !own.is_empty() {
            own.clone_into(&mut priority.preemption_policy);
        }
    }
    Ok(priority)
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
