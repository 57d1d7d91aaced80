//! Validation of device classes.

use super::{ITEMS_MAX, check_opaque_configuration, check_selectors, items_up_to_limit};
use crate::api_types::error::FieldErrors;
use schedlab_api::Value;

pub(super) fn check_device_class(class: &Value, errors: &mut FieldErrors) {
    let spec = &class["spec"];
    check_selectors(spec, "spec", errors);
    for (path, configuration) in items_up_to_limit(spec, "spec", "config", ITEMS_MAX, errors) {
        check_opaque_configuration(configuration, &path, errors);
    }
}
