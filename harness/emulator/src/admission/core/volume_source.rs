//! Validation of volume sources in pods and persistent volumes: exactly one source, with its
//! required fields.

use crate::admission::checks::quantity_milli;
use crate::admission::core::volume;
use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, number, text},
};

/// Volume sources of pods, in the order in which the API server checks them.
pub(in crate::admission) const POD_VOLUME_SOURCES: [&str; 16] = [
    "emptyDir",
    "hostPath",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "cephfs",
    "downwardAPI",
    "configMap",
    "projected",
    "csi",
    "ephemeral",
    "image",
];
/// Volume sources of persistent volumes, in the order in which the API server checks them.
pub(in crate::admission) const PERSISTENT_VOLUME_SOURCES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "csi",
];
/// The required fields of each volume source.
const REQUIRED_SOURCE_FIELDS: [(&str, &[&str]); 13] = [
    ("awsElasticBlockStore", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("configMap", &["name"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("flexVolume", &["driver"]),
    ("glusterfs", &["endpoints", "path"]),
    ("hostPath", &["path"]),
    ("image", &["reference"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("local", &["path"]),
    ("nfs", &["server", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
];
const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// Checks that the volume at `field_path` has at most one of `sources`, and that the source is
/// valid. Returns the first source that is set.
pub(in crate::admission) fn check_volume_sources(
    volume: &Value,
    field_path: &str,
    sources: &[&'static str],
    errors: &mut FieldErrors,
) -> Option<&'static str> {
    let mut present = sources.iter().filter(|source| !volume[**source].is_null());
    let first = present.next()?;
    check_source(&volume[*first], first, &format!("{field_path}.{first}"), errors);
    for source in present {
        errors
            .forbidden(format!("{field_path}.{source}"), "may not specify more than 1 volume type");
    }
    Some(first)
}

fn check_source(source: &Value, kind: &str, field_path: &str, errors: &mut FieldErrors) {
    let needed =
        REQUIRED_SOURCE_FIELDS.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, it)| it);
    for field in needed {
        let found = &source[*field];
        if found.is_null() || found == "" || found.as_array().is_some_and(Vec::is_empty) {
            errors.required(format!("{field_path}.{field}"), "");
        }
    }
    match kind {
        "hostPath" => {
            check_has_no_parent_steps(source, field_path, errors);
            let kind = text(source, &["type"]);
            if !HOST_PATH_TYPES.contains(&kind) {
                errors.unsupported(format!("{field_path}.type"), &kind.into(), &HOST_PATH_TYPES);
            }
        }
        "local" => check_has_no_parent_steps(source, field_path, errors),
        "nfs" => {
            let path = text(source, &["path"]);
            if !path.starts_with('/') {
                let rule = "must be an absolute path";
                errors.invalid(format!("{field_path}.path"), &path.into(), rule);
            }
        }
        "csi" => check_csi_driver_name(
            text(source, &["driver"]),
            &format!("{field_path}.driver"),
            errors,
        ),
        "emptyDir" if quantity_milli(&source["sizeLimit"]) < 0 => {
            let rule = "SizeLimit field must be a valid resource quantity";
            errors.forbidden(format!("{field_path}.sizeLimit"), rule);
        }
        "secret" => {
            if text(source, &["secretName"]).is_empty() {
                errors.required(format!("{field_path}.secretName"), "");
            }
            check_file_mode_and_items(source, field_path, errors);
        }
        "configMap" => check_file_mode_and_items(source, field_path, errors),
        "downwardAPI" => check_downward_api(source, field_path, errors),
        "projected" => check_projected(source, field_path, errors),
        "ephemeral" if !source["volumeClaimTemplate"].is_null() => {
            let field = format!("{field_path}.volumeClaimTemplate.spec");
            volume::check_claim_spec(&source["volumeClaimTemplate"]["spec"], &field, errors);
        }
        _ => {}
    }
}

/// Checks a CSI driver name: a DNS subdomain, case-insensitive.
pub(in crate::admission) fn check_csi_driver_name(
    driver: &str,
    field_path: &str,
    errors: &mut FieldErrors,
) {
    if driver.is_empty() {
        errors.required(field_path, "");
    } else if let Some(rule) = names::dns_subdomain_violation(&driver.to_lowercase()) {
        errors.invalid(field_path, &driver.into(), &rule);
    }
}

fn check_has_no_parent_steps(source: &Value, field_path: &str, errors: &mut FieldErrors) {
    let path = text(source, &["path"]);
    if path.split('/').any(|part| part == "..") {
        errors.invalid(format!("{field_path}.path"), &path.into(), "must not contain '..'");
    }
}

/// Checks a Secret or ConfigMap in a projected volume. There its name is in the field `name` (in a
/// plain volume the name of a Secret is in `secretName`).
fn check_projected_key_files(source: &Value, field_path: &str, errors: &mut FieldErrors) {
    if text(source, &["name"]).is_empty() {
        errors.required(format!("{field_path}.name"), "");
    }
    check_file_mode_and_items(source, field_path, errors);
}

/// Checks `defaultMode` and `items` of a ConfigMap or Secret volume.
fn check_file_mode_and_items(source: &Value, field_path: &str, errors: &mut FieldErrors) {
    check_file_mode(source, &format!("{field_path}.defaultMode"), errors);
    for (index, item) in list(source, &["items"]).iter().enumerate() {
        let field_path = format!("{field_path}.items[{index}]");
        if text(item, &["key"]).is_empty() {
            errors.required(format!("{field_path}.key"), "");
        }
        check_file_path(item, &format!("{field_path}.path"), errors);
        check_file_mode(item, &format!("{field_path}.mode"), errors);
    }
}

/// Checks the file mode in the field of `owner` that `field_path` ends with.
fn check_file_mode(owner: &Value, field_path: &str, errors: &mut FieldErrors) {
    let field = field_path.rsplit('.').next().unwrap_or_default();
    if let Some(mode) = number(owner, &[field]).filter(|mode| !(0..=0o777).contains(mode)) {
        let rule = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.invalid(field_path, &mode.into(), rule);
    }
}

fn check_file_path(item: &Value, field_path: &str, errors: &mut FieldErrors) {
    let path = text(item, &["path"]);
    if path.is_empty() {
        errors.required(field_path, "");
    } else {
        check_relative_descending_path(path, field_path, errors);
    }
}

/// Checks that a path is relative and contains no `..`.
pub(in crate::admission) fn check_relative_descending_path(
    path: &str,
    field_path: &str,
    errors: &mut FieldErrors,
) {
    if path.starts_with('/') {
        errors.invalid(field_path, &path.into(), "must be a relative path");
    } else if path.split('/').any(|part| part == "..") {
        errors.invalid(field_path, &path.into(), "must not contain '..'");
    }
}

/// Checks the items of a downward API volume.
fn check_downward_api(source: &Value, field_path: &str, errors: &mut FieldErrors) {
    check_file_mode(source, &format!("{field_path}.defaultMode"), errors);
    for item in list(source, &["items"]) {
        check_file_path(item, &format!("{field_path}.path"), errors);
        if item["fieldRef"].is_null() && item["resourceFieldRef"].is_null() {
            errors.required(field_path, "one of fieldRef and resourceFieldRef is required");
        }
    }
}

fn check_projected(source: &Value, field_path: &str, errors: &mut FieldErrors) {
    check_file_mode(source, &format!("{field_path}.defaultMode"), errors);
    for (index, part) in list(source, &["sources"]).iter().enumerate() {
        let field_path = format!("{field_path}.sources[{index}]");
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
        let present: Vec<&str> = kinds.into_iter().filter(|kind| !part[*kind].is_null()).collect();
        for kind in &present {
            let (part, field_path) = (&part[*kind], format!("{field_path}.{kind}"));
            match *kind {
                "downwardAPI" => check_downward_api(part, &field_path, errors),
                "serviceAccountToken" => {}
                _ => check_projected_key_files(part, &field_path, errors),
            }
        }
        if present.len() > 1 {
            errors.forbidden(field_path, "may not specify more than 1 volume type per source");
        }
    }
}
