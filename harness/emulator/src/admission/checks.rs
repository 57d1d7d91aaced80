//! Checks that the validations of several kinds share: quantities, resource names, kubelet timing
//! annotations, and the taints that the system sets.

use crate::api_types::error::FieldErrors;
use crate::api_types::kubelet_timing;
use crate::api_types::names;
use schedlab_api::Value;
use schedlab_api::object;
use schedlab_api::quantity::{self, Milli};

/// The effects of taints.
pub(crate) const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The amount of a quantity, in thousandths. A text that is no quantity yields 0: decoding has
/// rejected it already.
pub(crate) fn quantity_milli(quantity: &Value) -> Milli {
    quantity.as_str().and_then(|text| quantity::parse(text).ok()).unwrap_or(0)
}

/// The text of a quantity; empty if the value is no text.
pub(crate) fn quantity_text(quantity: &Value) -> &str {
    quantity.as_str().unwrap_or_default()
}

/// Whether a resource is native, such as `cpu`, and not an extended resource such as
/// `nvidia.com/gpu`.
fn is_native_resource(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether the limit of a resource may exceed its request. It may not for extended resources and
/// huge pages.
pub(crate) fn may_overcommit_resource(name: &str) -> bool {
    is_native_resource(name) && !name.starts_with("hugepages-")
}

/// Whether containers may use this resource name without a domain prefix.
pub(crate) fn is_standard_container_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Checks that the name of a container resource at `path` is standard or fully qualified.
pub(crate) fn check_resource_name(name: &str, path: &str, errors: &mut FieldErrors) {
    let value = Value::from(name);
    let rules = names::qualified_name_violations(name);
    for rule in &rules {
        errors.invalid(path, &value, rule);
    }
    if rules.is_empty() && !name.contains('/') && !is_standard_container_resource(name) {
        errors.invalid(path, &value, "must be a standard resource type or fully qualified");
        errors.invalid(path, &value, "must be a standard resource for containers");
    }
}

/// Checks that an amount is not negative, is whole for an extended resource, and is a multiple of
/// the page size for huge pages.
pub(crate) fn check_quantity(
    path: &str,
    resource_name: &str,
    quantity: &Value,
    errors: &mut FieldErrors,
) {
    let amount = quantity_milli(quantity);
    if amount < 0 {
        errors.invalid(path, quantity, "must be greater than or equal to 0");
    }
    if !is_native_resource(resource_name) && amount % 1000 != 0 {
        errors.invalid(path, quantity, "must be an integer");
    }
    let page = resource_name.strip_prefix("hugepages-").and_then(|size| quantity::parse(size).ok());
    if page.is_some_and(|page| page <= 0 || amount % page != 0) {
        let rule = format!(
            "{} is not positive integer multiple of {resource_name}",
            quantity_text(quantity)
        );
        errors.invalid(path, quantity, &rule);
    }
}

/// Checks the annotations `schedlab.dev/...` that control the emulated kubelet. An API server
/// ignores them; here an invalid value is rejected, because a pod with the wrong run time would be
/// noticed much later.
pub(crate) fn check_timing_annotations(
    old: Option<&Value>,
    new: &Value,
    field: &str,
    errors: &mut FieldErrors,
) {
    for (key, rule) in kubelet_timing::invalid_annotations(new) {
        let found = object::annotation(new, key);
        // An invalid annotation of the old object must not block other updates.
        if old.is_none_or(|old| object::annotation(old, key) != found) {
            errors.invalid(format!("{field}[{key}]"), &found.into(), rule);
        }
    }
}
