//! Validation of the binding conditions of devices.

use std::collections::BTreeSet;

use super::bounded_items;
use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{Value, object::list};

const CONDITIONS_MAX: usize = 4;
const FIELDS: [&str; 2] = ["bindingConditions", "bindingFailureConditions"];

/// Checks the binding conditions of the device or the allocation result at `path`.
pub(super) fn check(owner: &Value, path: &str, errors: &mut FieldErrors) {
    for field in FIELDS {
        for (path, condition) in bounded_items(owner, path, field, CONDITIONS_MAX, errors) {
            for rule in names::qualified_name_violations(condition.as_str().unwrap_or_default()) {
                errors.invalid(&*path, condition, &rule);
            }
        }
    }
    let [conditions, failures] = FIELDS.map(|field| list(owner, &[field]));
    for (field, all) in FIELDS.into_iter().zip([conditions, failures]) {
        let mut seen = BTreeSet::new();
        for (index, condition) in all.iter().enumerate() {
            let path = format!("{path}.{field}[{index}]");
            if !seen.insert(condition.as_str()) {
                errors.duplicate(&*path, condition);
            }
            if field == FIELDS[1] && conditions.contains(condition) {
                let rule = "bindingFailureConditions must not overlap with bindingConditions";
                errors.invalid(path, condition, rule);
            }
        }
    }
    let missing = match (conditions.is_empty(), failures.is_empty()) {
        (true, false) => FIELDS,
        (false, true) => [FIELDS[1], FIELDS[0]],
        (true, true) | (false, false) => return,
    };
    let [absent, present] = missing;
    let rule = format!("{absent} are required to use {present}");
    errors.invalid(format!("{path}.{absent}"), &owner[absent], &rule);
}
