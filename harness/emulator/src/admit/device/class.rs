//! Classes of devices.

use super::{ITEMS_MAX, bounded, check_opaque, check_selectors};
use crate::error::FieldErrors;
use schedlab_json::Value;

pub(super) fn check(class: &Value, errors: &mut FieldErrors) {
    let spec = &class["spec"];
    check_selectors(spec, "spec", errors);
    for (place, configuration) in bounded(spec, ("spec", "config"), ITEMS_MAX, errors) {
        check_opaque(configuration, &place, errors);
    }
}
