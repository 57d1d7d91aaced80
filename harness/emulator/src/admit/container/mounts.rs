//! Where volumes are in containers.

use std::collections::BTreeSet;

use super::Volumes;
use crate::admit::source;
use crate::error::FieldErrors;
use crate::object::{list, text};
use schedlab_json::Value;

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];

/// Checks what is mounted, and what is there as a device, in the container that stands at `place`.
pub(super) fn check(
    container: &Value,
    (place, volumes): (&str, &Volumes<'_>),
    errors: &mut FieldErrors,
) {
    let devices = list(container, &["volumeDevices"]);
    let mut paths = BTreeSet::new();
    for (index, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        let (all, place) =
            (format!("{place}.volumeMounts"), format!("{place}.volumeMounts[{index}]"));
        let (name, path) = (text(mount, &["name"]), text(mount, &["mountPath"]));
        if name.is_empty() {
            errors.required(format!("{place}.name"), "");
        } else if !volumes.contains_key(name) {
            errors.missing(format!("{place}.name"), &name.into());
        }
        if path.is_empty() {
            errors.required(format!("{place}.mountPath"), "");
        }
        if !paths.insert(path) {
            errors.invalid(format!("{place}.mountPath"), &path.into(), "must be unique");
        }
        if !name.is_empty() && devices.iter().any(|device| device["name"] == mount["name"]) {
            let rule = "must not already exist in volumeDevices";
            errors.invalid(format!("{place}.name"), &name.into(), rule);
        }
        let (sub, expression) = (text(mount, &["subPath"]), text(mount, &["subPathExpr"]));
        source::check_inside(sub, &format!("{all}.subPath"), errors);
        if !sub.is_empty() && !expression.is_empty() {
            let rule = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(format!("{place}.subPathExpr"), &expression.into(), rule);
        }
        let propagation = text(mount, &["mountPropagation"]);
        if !propagation.is_empty() && !PROPAGATIONS.contains(&propagation) {
            let place = format!("{all}.mountPropagation");
            errors.unsupported(place, &propagation.into(), &PROPAGATIONS);
        }
    }
    for (index, device) in devices.iter().enumerate() {
        check_device(device, (&format!("{place}.volumeDevices[{index}]"), volumes), errors);
    }
}

fn check_device(device: &Value, (place, volumes): (&str, &Volumes<'_>), errors: &mut FieldErrors) {
    let name = text(device, &["name"]);
    let field = format!("{place}.name");
    match volumes.get(name) {
        _ if name.is_empty() => errors.required(field, ""),
        None => errors.missing(field, &name.into()),
        Some(volume)
            if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() =>
        {
            let rule = "can only use volume source type of PersistentVolumeClaim or Ephemeral for \
                        block mode";
            errors.invalid(field, &name.into(), rule);
        }
        Some(_) => {}
    }
    if text(device, &["devicePath"]).is_empty() {
        errors.required(format!("{place}.devicePath"), "");
    }
}
