//! Creates the default objects of every namespace: the `default` service account and the
//! `ConfigMap` with the root CA. The certificate is empty, since no container runs.

use crate::reconcile::resources::{CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Store, Write};
use schedlab_api::{
    Value, json,
    object::{is_deleting, name},
    object_names,
};

const ACCOUNT_NAME: &str = "default";
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when \
    using internal endpoints such as the internal service IP or kubernetes.default.svc. No other \
    usage is guaranteed across distributions of Kubernetes clusters.";

/// The service account and root CA controllers.
pub(super) const CONTROLLER: Controller = Controller {
    name: "namespace-defaults",
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&NAMESPACES, &SERVICE_ACCOUNTS, &CONFIG_MAPS]),
    keys_to_reconcile,
    reconcile,
};

/// New namespaces, and namespaces in which a default object was deleted.
fn keys_to_reconcile(change: &ObjectChange, _: &InformerCache) -> Vec<Key> {
    let Key { resource, namespace, name } = &change.key;
    if *resource == *NAMESPACES {
        return change.before.is_none().then(|| change.key.clone()).into_iter().collect();
    }
    let is_ours =
        [(&*SERVICE_ACCOUNTS, ACCOUNT_NAME), (&*CONFIG_MAPS, object_names::ROOT_CA_CONFIG_MAP)]
            .contains(&(resource, &**name));
    let home = || Key::new(NAMESPACES.clone(), "", namespace);
    (is_ours && change.after.is_none()).then(home).into_iter().collect()
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    if ctx.cache.get(key).is_none_or(|namespace| is_deleting(namespace)) {
        return ReconcileResult::nothing_to_do();
    }
    ReconcileResult::from_writes(missing_defaults(&key.name, |key| ctx.cache.get(key).is_some()))
}

/// The writes that create the missing default service accounts and root CAs in a store before its
/// controllers start.
pub(crate) fn missing_defaults_of_store(store: &Store) -> Vec<Write> {
    let namespaces = store.list(&NAMESPACES, None).map(|namespace| name(namespace));
    let requests =
        namespaces.flat_map(|name| missing_defaults(name, |key| store.find(key).is_some()));
    requests.map(|ApiRequest { key, op }| Write::new(key, op, CONTROLLER.manager)).collect()
}

fn missing_defaults(namespace: &str, is_there: impl Fn(&Key) -> bool) -> Vec<ApiRequest> {
    let account = ApiRequest::create(&SERVICE_ACCOUNTS, default_account(namespace));
    let authority = ApiRequest::create(&CONFIG_MAPS, root_ca_config_map(namespace));
    [account, authority].into_iter().filter(|request| !is_there(&request.key)).collect()
}

fn default_account(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT_NAME, "namespace": namespace},
    })
}

fn root_ca_config_map(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": object_names::ROOT_CA_CONFIG_MAP,
            "namespace": namespace,
            "annotations": {"kubernetes.io/description": ROOT_CA_DESCRIPTION},
        },
        "data": {"ca.crt": ""},
    })
}
