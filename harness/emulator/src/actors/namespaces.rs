//! Namespace deletion: what is in a namespace that goes, goes; then the namespace.

use super::kinds::NAMESPACES;
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{is_deleting, list, set};
use crate::store::{Key, Op, Subresource};
use schedlab_json::{Value, json};

/// The namespace controller.
pub(super) const ACTOR: Actor = Actor {
    name: "namespaces",
    manager: "kube-controller-manager",
    watches: Watched::All,
    concerns,
    step,
};

fn concerns(change: &Change, view: &View) -> Vec<Key> {
    if change.key.resource == *NAMESPACES {
        return change.after.as_ref().map(|_| change.key.clone()).into_iter().collect();
    }
    if change.key.namespace.is_empty() {
        return Vec::new();
    }
    let name = change.key.namespace.clone();
    let home = Key { resource: NAMESPACES.clone(), namespace: "".into(), name };
    let goes = view.get(&home).is_some_and(|namespace| is_deleting(namespace));
    if goes { vec![home] } else { Vec::new() }
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(namespace) = ctx.view.get(key).filter(|namespace| is_deleting(namespace)) else {
        return Step::rest();
    };
    let mut contents = ctx.view.contents(&key.name).peekable();
    if contents.peek().is_some() {
        let there = contents.filter_map(|key| Some((key, ctx.view.get(key)?)));
        let staying = there.filter(|(_, object)| !is_deleting(object));
        return Step::of(staying.map(|(key, object)| Request::delete(key, object)));
    }
    if list(namespace, &["spec", "finalizers"]).is_empty() {
        return Step::rest();
    }
    let mut empty = Value::clone(namespace);
    set(&mut empty, &["spec", "finalizers"], json!([]));
    let op = Op::Update(Subresource::Finalize, empty);
    Step::of([Request { key: key.clone(), op }])
}
