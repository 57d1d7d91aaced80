//! Defaults of pod specs, in pods and in pod templates.

use schedlab_api::{
    Value, json,
    object::{as_map, fill_count, fill_text, set_default},
};

/// Sets the defaults of a pod spec.
pub(in crate::admission) fn set_pod_spec_defaults(spec: &mut Value) {
    fill_text(spec, &["dnsPolicy"], "ClusterFirst");
    fill_text(spec, &["restartPolicy"], "Always");
    set_default(spec, &["securityContext"], json!({}));
    set_default(spec, &["terminationGracePeriodSeconds"], 30);
    fill_text(spec, &["schedulerName"], "default-scheduler");
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
    let account = spec.get("serviceAccountName").or_else(|| spec.get("serviceAccount")).cloned();
    if let Some(account) = account {
        let spec = as_map(spec);
        spec.insert("serviceAccountName", account.clone());
        spec.insert("serviceAccount", account);
    }
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in list_items_mut(spec, field) {
            set_container_defaults(container);
        }
    }
    for volume in list_items_mut(spec, "volumes") {
        set_volume_defaults(volume);
    }
}

/// The items of the list in a field of `value`; none if the field holds no list.
pub(in crate::admission) fn list_items_mut<'v>(
    value: &'v mut Value,
    field: &str,
) -> impl Iterator<Item = &'v mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn set_container_defaults(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let tag = image.rsplit('/').next().and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
    let is_latest = !image.contains('@') && tag.is_none_or(|tag| tag == "latest");
    let pull = if is_latest { "Always" } else { "IfNotPresent" };
    fill_text(container, &["imagePullPolicy"], pull);
    fill_text(container, &["terminationMessagePath"], "/dev/termination-log");
    fill_text(container, &["terminationMessagePolicy"], "File");
    set_default(container, &["resources"], json!({}));
    for port in list_items_mut(container, "ports") {
        fill_text(port, &["protocol"], "TCP");
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe) {
            set_probe_defaults(probe);
        }
    }
    for variable in list_items_mut(container, "env") {
        set_field_ref_defaults(variable.get_mut("valueFrom"));
    }
}

/// Sets the defaults of `fieldRef` and `resourceFieldRef`: API version `v1` and divisor 0.
fn set_field_ref_defaults(from: Option<&mut Value>) {
    let Some(from) = from else { return };
    if let Some(field) = from.get_mut("fieldRef") {
        fill_text(field, &["apiVersion"], "v1");
    }
    if let Some(resource) = from.get_mut("resourceFieldRef") {
        fill_text(resource, &["divisor"], "0");
    }
}

fn set_probe_defaults(probe: &mut Value) {
    for (field, count) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        fill_count(probe, field, count);
    }
    if let Some(get) = probe.get_mut("httpGet") {
        fill_text(get, &["path"], "/");
        fill_text(get, &["scheme"], "HTTP");
    }
}

fn set_volume_defaults(volume: &mut Value) {
    for source in ["secret", "configMap", "projected", "downwardAPI"] {
        if let Some(source) = volume.get_mut(source) {
            set_default(source, &["defaultMode"], 420);
        }
    }
    for item in volume.get_mut("downwardAPI").into_iter().flat_map(|it| list_items_mut(it, "items"))
    {
        set_field_ref_defaults(Some(item));
    }
    for source in
        volume.get_mut("projected").into_iter().flat_map(|it| list_items_mut(it, "sources"))
    {
        if let Some(token) = source.get_mut("serviceAccountToken") {
            set_default(token, &["expirationSeconds"], 3600);
        }
        for item in
            source.get_mut("downwardAPI").into_iter().flat_map(|it| list_items_mut(it, "items"))
        {
            set_field_ref_defaults(Some(item));
        }
    }
    if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate") {
        set_default(claim, &["metadata"], json!({}));
        set_default(claim, &["spec", "volumeMode"], "Filesystem");
    }
    if let Some(path) = volume.get_mut("hostPath") {
        set_default(path, &["type"], "");
    }
    let has_source = volume.as_object().is_some_and(|volume| volume.len() > 1);
    if !has_source {
        set_default(volume, &["emptyDir"], json!({}));
    }
}
