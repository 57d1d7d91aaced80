//! The service account of a new pod: it must be there, and what it gives is mounted. Secrets that
//! an account keeps its pods from (`kubernetes.io/enforce-mountable-secrets`) are not looked at.

use std::sync::LazyLock;

use super::super::Admission;
use super::super::template::items_mut;
use crate::error::ApiError;
use crate::kinds::Resource;
use crate::object::{annotation, at, list, set, text, uid};
use crate::store::{Key, Names};
use schedlab_json::{Value, json};

/// The account of pods that name none.
const DEFAULT: &str = "default";
/// Of pods that a kubelet shows and does not take orders about.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How the names of volumes with a token begin.
const VOLUME: &str = "kube-api-access-";
/// Where containers find the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A token, whom to trust with it, and the namespace.
static TOKEN: LazyLock<Value> = LazyLock::new(|| {
    let authority =
        json!({"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]});
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

/// Gives a pod its account, and what comes with it.
pub(super) fn complete(admission: &Admission<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let is_named = !text(pod, &["spec", "serviceAccountName"]).is_empty();
    if annotation(pod, MIRROR).is_some() {
        let why = "a mirror pod may not reference service accounts";
        return if is_named { Err(refusal(admission, why)) } else { Ok(()) };
    }
    if !is_named {
        set(pod, &["spec", "serviceAccountName"], DEFAULT.into());
        set(pod, &["spec", "serviceAccount"], DEFAULT.into());
    }
    let account = find(admission, text(pod, &["spec", "serviceAccountName"]))?;
    if mounts_token(account, pod) {
        mount_token(pod);
    }
    let secrets = account.map_or(&[][..], |account| list(account, &["imagePullSecrets"]));
    if list(pod, &["spec", "imagePullSecrets"]).is_empty() && !secrets.is_empty() {
        let names = secrets.iter().map(|secret| json!({"name": (text(secret, &["name"]))}));
        set(pod, &["spec", "imagePullSecrets"], names.collect());
    }
    Ok(())
}

/// The account, or nothing where it is that of every namespace and still to come: a real server
/// waits for it.
fn find<'s>(admission: &Admission<'s>, name: &str) -> Result<Option<&'s Value>, ApiError> {
    let space = &*admission.key.namespace;
    let key = Key::new(Resource::new("", "serviceaccounts"), space, name);
    match admission.store.find(&key) {
        Some(account) => Ok(Some(account)),
        None if name == DEFAULT => Ok(None),
        None => Err(refusal(
            admission,
            &format!(
                "error looking up service account {space}/{name}: serviceaccount \"{name}\" not found"
            ),
        )),
    }
}

fn refusal(admission: &Admission<'_>, why: &str) -> ApiError {
    ApiError::forbidden(&admission.key.resource, &admission.key.name, why)
}

/// The pod's word counts more than its account's.
fn mounts_token(account: Option<&Value>, pod: &Value) -> bool {
    let field = "automountServiceAccountToken";
    let of_pod = at(pod, &["spec", field]).and_then(Value::as_bool);
    let of_account = || account.and_then(|account| account.get(field)?.as_bool());
    of_pod.or_else(of_account).unwrap_or(true)
}

/// Mounts the token in every container that mounts nothing in its place. A pod that has such a
/// volume already, being a copy of another pod, keeps it.
fn mount_token(pod: &mut Value) {
    let volumes = list(pod, &["spec", "volumes"]).iter();
    let own = volumes.map(|volume| text(volume, &["name"])).find(|name| name.starts_with(VOLUME));
    let is_new = own.is_none();
    let name = own.map_or_else(
        || Value::from(format!("{VOLUME}{}", Names::suffix_of(uid(pod)))),
        Value::from,
    );
    let mount = json!({"mountPath": MOUNT_PATH, "name": name, "readOnly": true});
    let mut is_mounted = false;
    for kind in ["initContainers", "containers"] {
        let containers = items_mut(&mut pod["spec"], kind);
        for container in containers.filter(|container| has_room(container)) {
            push(container, "volumeMounts", mount.clone());
            is_mounted = true;
        }
    }
    if is_new && is_mounted {
        let mut volume = json!({"name": name});
        set(&mut volume, &["projected"], TOKEN.clone());
        push(&mut pod["spec"], "volumes", volume);
    }
}

/// Whether nothing stands in the token's place.
fn has_room(container: &Value) -> bool {
    let mounts = list(container, &["volumeMounts"]);
    mounts.iter().all(|mount| text(mount, &["mountPath"]) != MOUNT_PATH)
}

fn push(holder: &mut Value, field: &str, item: Value) {
    match holder.get_mut(field).and_then(Value::as_array_mut) {
        Some(items) => items.push(item),
        None => set(holder, &[field], Value::Array(vec![item])),
    }
}
