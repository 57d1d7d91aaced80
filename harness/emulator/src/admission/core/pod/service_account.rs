//! The `ServiceAccount` admission plugin: the account must exist, and its token is mounted. Left
//! out: `kubernetes.io/enforce-mountable-secrets`.

use std::sync::LazyLock;

use crate::admission::Admission;
use crate::admission::defaults::pod_template::list_items_mut;
use crate::api_types::error::ApiError;
use crate::api_types::resource::Resource;
use crate::store::{IdGenerator, Key};
use schedlab_api::{
    Value, json,
    object::{annotation, at, list, set, text, uid},
    object_names,
};

/// The account of pods without `serviceAccountName`.
const DEFAULT_ACCOUNT: &str = "default";
/// The annotation of mirror pods: static pods that a kubelet publishes.
const MIRROR_POD_ANNOTATION: &str = "kubernetes.io/config.mirror";
/// The name prefix of token volumes.
const TOKEN_VOLUME_PREFIX: &str = "kube-api-access-";
/// The mount path of the token.
const TOKEN_MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The projected volume with the token, the CA certificate and the namespace.
static TOKEN_VOLUME: LazyLock<Value> = LazyLock::new(|| {
    let authority = json!({"name": object_names::ROOT_CA_CONFIG_MAP, "items": [{"key": "ca.crt", "path": "ca.crt"}]});
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": authority},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
    })
});

/// Sets the service account, the token volume and the image pull secrets of a pod.
pub(super) fn set_service_account(
    admission: &Admission<'_>,
    pod: &mut Value,
) -> Result<(), ApiError> {
    let is_named = !text(pod, &["spec", "serviceAccountName"]).is_empty();
    if annotation(pod, MIRROR_POD_ANNOTATION).is_some() {
        let why = "a mirror pod may not reference service accounts";
        return if is_named { Err(pod_forbidden_error(admission, why)) } else { Ok(()) };
    }
    if !is_named {
        set(pod, &["spec", "serviceAccountName"], DEFAULT_ACCOUNT.into());
        set(pod, &["spec", "serviceAccount"], DEFAULT_ACCOUNT.into());
    }
    let account = find_service_account(admission, text(pod, &["spec", "serviceAccountName"]))?;
    if should_mount_token(account, pod) {
        mount_token(pod);
    }
    let secrets = account.map_or(&[][..], |account| list(account, &["imagePullSecrets"]));
    if list(pod, &["spec", "imagePullSecrets"]).is_empty() && !secrets.is_empty() {
        let names = secrets.iter().map(|secret| json!({"name": (text(secret, &["name"]))}));
        set(pod, &["spec", "imagePullSecrets"], names.collect());
    }
    Ok(())
}

/// Looks up the service account of a pod. `None` if `default` does not exist yet: the API server
/// would wait until the service account controller creates it.
fn find_service_account<'s>(
    admission: &Admission<'s>,
    name: &str,
) -> Result<Option<&'s Value>, ApiError> {
    let space = &*admission.key.namespace;
    let key = Key::new(Resource::new("", "serviceaccounts"), space, name);
    match admission.store.find(&key) {
        Some(account) => Ok(Some(account)),
        None if name == DEFAULT_ACCOUNT => Ok(None),
        None => Err(pod_forbidden_error(
            admission,
            &format!(
                "error looking up service account {space}/{name}: serviceaccount \"{name}\" not found"
            ),
        )),
    }
}

fn pod_forbidden_error(admission: &Admission<'_>, why: &str) -> ApiError {
    ApiError::forbidden(&admission.key.resource, &admission.key.name, why)
}

/// Whether the service account token is mounted into the pod. `automountServiceAccountToken` of the
/// pod overrides that of the account.
fn should_mount_token(account: Option<&Value>, pod: &Value) -> bool {
    let field = "automountServiceAccountToken";
    let of_pod = at(pod, &["spec", field]).and_then(Value::as_bool);
    let of_account = || account.and_then(|account| account.get(field)?.as_bool());
    of_pod.or_else(of_account).unwrap_or(true)
}

/// Mounts the service account token in every container that has no mount at the token's path. An
/// existing token volume is reused: the pod may be a copy of another pod.
fn mount_token(pod: &mut Value) {
    let volumes = list(pod, &["spec", "volumes"]).iter();
    let own = volumes
        .map(|volume| text(volume, &["name"]))
        .find(|name| name.starts_with(TOKEN_VOLUME_PREFIX));
    let is_new = own.is_none();
    let name = own.map_or_else(
        || Value::from(format!("{TOKEN_VOLUME_PREFIX}{}", IdGenerator::suffix_for(uid(pod)))),
        Value::from,
    );
    let mount = json!({"mountPath": TOKEN_MOUNT_PATH, "name": name, "readOnly": true});
    let mut is_mounted = false;
    for kind in ["initContainers", "containers"] {
        let containers = list_items_mut(&mut pod["spec"], kind);
        for container in containers.filter(|container| is_token_path_free(container)) {
            push_item(container, "volumeMounts", mount.clone());
            is_mounted = true;
        }
    }
    if is_new && is_mounted {
        let mut volume = json!({"name": name});
        set(&mut volume, &["projected"], TOKEN_VOLUME.clone());
        push_item(&mut pod["spec"], "volumes", volume);
    }
}

/// Whether no volume is mounted at the token's path.
fn is_token_path_free(container: &Value) -> bool {
    let mounts = list(container, &["volumeMounts"]);
    mounts.iter().all(|mount| text(mount, &["mountPath"]) != TOKEN_MOUNT_PATH)
}

fn push_item(holder: &mut Value, field: &str, item: Value) {
    match holder.get_mut(field).and_then(Value::as_array_mut) {
        Some(items) => items.push(item),
        None => set(holder, &[field], Value::Array(vec![item])),
    }
}
