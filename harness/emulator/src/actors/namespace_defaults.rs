//! What every namespace has: the service account of pods that name none, and the certificate by
//! which its pods would know the API server. That one is empty: no container runs.

use super::kinds::{CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS};
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{is_deleting, name};
use crate::store::{Key, Store, Write};
use schedlab_json::{Value, json};

const ACCOUNT: &str = "default";
const AUTHORITY: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when \
    using internal endpoints such as the internal service IP or kubernetes.default.svc. No other \
    usage is guaranteed across distributions of Kubernetes clusters.";

/// The controllers of service accounts and of the root certificate.
pub(super) const ACTOR: Actor = Actor {
    name: "namespace-defaults",
    manager: "kube-controller-manager",
    watches: Watched::Kinds(&[&NAMESPACES, &SERVICE_ACCOUNTS, &CONFIG_MAPS]),
    concerns,
    step,
};

/// New namespaces, and those in which one of the two is gone.
fn concerns(change: &Change, _: &View) -> Vec<Key> {
    let Key { resource, namespace, name } = &change.key;
    if *resource == *NAMESPACES {
        return change.before.is_none().then(|| change.key.clone()).into_iter().collect();
    }
    let is_ours =
        [(&*SERVICE_ACCOUNTS, ACCOUNT), (&*CONFIG_MAPS, AUTHORITY)].contains(&(resource, &**name));
    let home = || Key::new(NAMESPACES.clone(), "", namespace);
    (is_ours && change.after.is_none()).then(home).into_iter().collect()
}

fn step(key: &Key, ctx: &Context) -> Step {
    if ctx.view.get(key).is_none_or(|namespace| is_deleting(namespace)) {
        return Step::rest();
    }
    Step::of(lacking(&key.name, |key| ctx.view.get(key).is_some()))
}

/// What the namespaces of a store lack on which nobody has acted yet.
pub(crate) fn of_store(store: &Store) -> Vec<Write> {
    let namespaces = store.list(&NAMESPACES, None).map(|namespace| name(namespace));
    let requests = namespaces.flat_map(|name| lacking(name, |key| store.find(key).is_some()));
    requests.map(|Request { key, op }| Write::new(key, op, ACTOR.manager)).collect()
}

fn lacking(namespace: &str, is_there: impl Fn(&Key) -> bool) -> Vec<Request> {
    let account = Request::create(&SERVICE_ACCOUNTS, account(namespace));
    let authority = Request::create(&CONFIG_MAPS, authority(namespace));
    [account, authority].into_iter().filter(|request| !is_there(&request.key)).collect()
}

fn account(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": namespace},
    })
}

fn authority(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": AUTHORITY,
            "namespace": namespace,
            "annotations": {"kubernetes.io/description": DESCRIPTION},
        },
        "data": {"ca.crt": ""},
    })
}
