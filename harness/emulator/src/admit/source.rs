//! Where the content of a volume comes from, in pods and in persistent volumes: one source each,
//! and what must be said of it.

use super::container::amount;
use super::storage;
use crate::error::FieldErrors;
use crate::names;
use crate::object::{list, number, text};
use schedlab_json::Value;

/// Sources of pods' volumes, in the order in which the real server looks for them.
pub(super) const OF_PODS: [&str; 16] = [
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
/// The same of persistent volumes.
pub(super) const OF_VOLUMES: [&str; 21] = [
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
/// What must be said of a source.
const NEEDED: [(&str, &[&str]); 13] = [
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
const HOST_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// Checks the sources of the volume that stands at `place`, and answers which one counts.
pub(super) fn check(
    volume: &Value,
    (place, sources): (&str, &[&'static str]),
    errors: &mut FieldErrors,
) -> Option<&'static str> {
    let mut there = sources.iter().filter(|source| !volume[**source].is_null());
    let first = there.next()?;
    check_one(&volume[*first], (first, &format!("{place}.{first}")), errors);
    for source in there {
        errors.forbidden(format!("{place}.{source}"), "may not specify more than 1 volume type");
    }
    Some(first)
}

fn check_one(source: &Value, (kind, place): (&str, &str), errors: &mut FieldErrors) {
    let needed = NEEDED.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, it)| it);
    for field in needed {
        let found = &source[*field];
        if found.is_null() || found == "" || found.as_array().is_some_and(Vec::is_empty) {
            errors.required(format!("{place}.{field}"), "");
        }
    }
    match kind {
        "hostPath" => {
            check_upward(source, place, errors);
            let kind = text(source, &["type"]);
            if !HOST_TYPES.contains(&kind) {
                errors.unsupported(format!("{place}.type"), &kind.into(), &HOST_TYPES);
            }
        }
        "local" => check_upward(source, place, errors),
        "nfs" => {
            let path = text(source, &["path"]);
            if !path.starts_with('/') {
                let rule = "must be an absolute path";
                errors.invalid(format!("{place}.path"), &path.into(), rule);
            }
        }
        "csi" => check_driver(text(source, &["driver"]), &format!("{place}.driver"), errors),
        "emptyDir" if amount(&source["sizeLimit"]) < 0 => {
            let rule = "SizeLimit field must be a valid resource quantity";
            errors.forbidden(format!("{place}.sizeLimit"), rule);
        }
        "secret" => {
            if text(source, &["secretName"]).is_empty() {
                errors.required(format!("{place}.secretName"), "");
            }
            check_files(source, place, errors);
        }
        "configMap" => check_files(source, place, errors),
        "downwardAPI" => check_facts(source, place, errors),
        "projected" => check_projected(source, place, errors),
        "ephemeral" if !source["volumeClaimTemplate"].is_null() => {
            let field = format!("{place}.volumeClaimTemplate.spec");
            storage::check_claim(&source["volumeClaimTemplate"]["spec"], &field, errors);
        }
        _ => {}
    }
}

/// A driver is known by a domain.
pub(super) fn check_driver(driver: &str, place: &str, errors: &mut FieldErrors) {
    if driver.is_empty() {
        errors.required(place, "");
    } else if let Some(rule) = names::dns_subdomain(&driver.to_lowercase()) {
        errors.invalid(place, &driver.into(), &rule);
    }
}

fn check_upward(source: &Value, place: &str, errors: &mut FieldErrors) {
    let path = text(source, &["path"]);
    if path.split('/').any(|part| part == "..") {
        errors.invalid(format!("{place}.path"), &path.into(), "must not contain '..'");
    }
}

/// Keys of a secret or a config map, which is named in one way wherever it is one of several.
fn check_named_files(source: &Value, place: &str, errors: &mut FieldErrors) {
    if text(source, &["name"]).is_empty() {
        errors.required(format!("{place}.name"), "");
    }
    check_files(source, place, errors);
}

/// Keys that become files.
fn check_files(source: &Value, place: &str, errors: &mut FieldErrors) {
    check_mode(source, &format!("{place}.defaultMode"), errors);
    for (index, item) in list(source, &["items"]).iter().enumerate() {
        let place = format!("{place}.items[{index}]");
        if text(item, &["key"]).is_empty() {
            errors.required(format!("{place}.key"), "");
        }
        check_file(item, &format!("{place}.path"), errors);
        check_mode(item, &format!("{place}.mode"), errors);
    }
}

/// Of a file, or of all.
fn check_mode(owner: &Value, place: &str, errors: &mut FieldErrors) {
    let field = place.rsplit('.').next().unwrap_or_default();
    if let Some(mode) = number(owner, &[field]).filter(|mode| !(0..=0o777).contains(mode)) {
        let rule = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.invalid(place, &mode.into(), rule);
    }
}

fn check_file(item: &Value, place: &str, errors: &mut FieldErrors) {
    let path = text(item, &["path"]);
    if path.is_empty() {
        errors.required(place, "");
    } else {
        check_inside(path, place, errors);
    }
}

/// A path leads down from where it begins.
pub(super) fn check_inside(path: &str, place: &str, errors: &mut FieldErrors) {
    if path.starts_with('/') {
        errors.invalid(place, &path.into(), "must be a relative path");
    } else if path.split('/').any(|part| part == "..") {
        errors.invalid(place, &path.into(), "must not contain '..'");
    }
}

/// What a pod is told of itself in files.
fn check_facts(source: &Value, place: &str, errors: &mut FieldErrors) {
    check_mode(source, &format!("{place}.defaultMode"), errors);
    for item in list(source, &["items"]) {
        check_file(item, &format!("{place}.path"), errors);
        if item["fieldRef"].is_null() && item["resourceFieldRef"].is_null() {
            errors.required(place, "one of fieldRef and resourceFieldRef is required");
        }
    }
}

fn check_projected(source: &Value, place: &str, errors: &mut FieldErrors) {
    check_mode(source, &format!("{place}.defaultMode"), errors);
    for (index, part) in list(source, &["sources"]).iter().enumerate() {
        let place = format!("{place}.sources[{index}]");
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
        let there: Vec<&str> = kinds.into_iter().filter(|kind| !part[*kind].is_null()).collect();
        for kind in &there {
            let (part, place) = (&part[*kind], format!("{place}.{kind}"));
            match *kind {
                "downwardAPI" => check_facts(part, &place, errors),
                "serviceAccountToken" => {}
                _ => check_named_files(part, &place, errors),
            }
        }
        if there.len() > 1 {
            errors.forbidden(place, "may not specify more than 1 volume type per source");
        }
    }
}
