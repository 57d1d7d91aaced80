//! Validation of device classes.

use super::{ITEMS_MAX, bounded_items, check_opaque, check_selectors};
use crate::api_types::error::FieldErrors;
use schedlab_api::Value;

pub(super) fn check(class: &Value, errors: &mut FieldErrors) {
    let spec = &class["spec"];
    check_selectors(spec, "spec", errors);
    for (path, configuration) in bounded_items(spec, "spec", "config", ITEMS_MAX, errors) {
        check_opaque(configuration, &path, errors);
    }
}
