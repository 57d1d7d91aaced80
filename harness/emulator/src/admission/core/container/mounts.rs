//! Validation of volume mounts and volume devices of containers.

use std::collections::BTreeSet;

use super::VolumesByName;
use crate::admission::core::volume_source;
use crate::api_types::error::FieldErrors;
use schedlab_api::{
    Value,
    object::{list, text},
};

const MOUNT_PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];

/// Checks the volume mounts and volume devices of the container at `field_path`.
pub(super) fn check_mounts_and_devices(
    container: &Value,
    field_path: &str,
    volumes: &VolumesByName<'_>,
    errors: &mut FieldErrors,
) {
    let devices = list(container, &["volumeDevices"]);
    let mut paths = BTreeSet::new();
    for (index, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        let (all, field_path) =
            (format!("{field_path}.volumeMounts"), format!("{field_path}.volumeMounts[{index}]"));
        let (name, path) = (text(mount, &["name"]), text(mount, &["mountPath"]));
        if name.is_empty() {
            errors.required(format!("{field_path}.name"), "");
        } else if !volumes.contains_key(name) {
            errors.not_found(format!("{field_path}.name"), &name.into());
        }
        if path.is_empty() {
            errors.required(format!("{field_path}.mountPath"), "");
        }
        if !paths.insert(path) {
            errors.invalid(format!("{field_path}.mountPath"), &path.into(), "must be unique");
        }
        if !name.is_empty() && devices.iter().any(|device| device["name"] == mount["name"]) {
            let rule = "must not already exist in volumeDevices";
            errors.invalid(format!("{field_path}.name"), &name.into(), rule);
        }
        let (sub, expression) = (text(mount, &["subPath"]), text(mount, &["subPathExpr"]));
        volume_source::check_relative_descending_path(sub, &format!("{all}.subPath"), errors);
        if !sub.is_empty() && !expression.is_empty() {
            let rule = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(format!("{field_path}.subPathExpr"), &expression.into(), rule);
        }
        let propagation = text(mount, &["mountPropagation"]);
        if !propagation.is_empty() && !MOUNT_PROPAGATIONS.contains(&propagation) {
            let field_path = format!("{all}.mountPropagation");
            errors.unsupported(field_path, &propagation.into(), &MOUNT_PROPAGATIONS);
        }
    }
    for (index, device) in devices.iter().enumerate() {
        check_volume_device(
            device,
            &format!("{field_path}.volumeDevices[{index}]"),
            volumes,
            errors,
        );
    }
}

fn check_volume_device(
    device: &Value,
    field_path: &str,
    volumes: &VolumesByName<'_>,
    errors: &mut FieldErrors,
) {
    let name = text(device, &["name"]);
    let field = format!("{field_path}.name");
    match volumes.get(name) {
        _ if name.is_empty() => errors.required(field, ""),
        None => errors.not_found(field, &name.into()),
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
        errors.required(format!("{field_path}.devicePath"), "");
    }
}
