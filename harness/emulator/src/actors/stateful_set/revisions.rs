//! A StatefulSet's history: a `ControllerRevision` for each template that it had. `kubectl rollout`
//! shows it, and goes back by it.

use super::Numbered;
use crate::actors::kinds::CONTROLLER_REVISIONS;
use crate::actors::workload::{controlled_by, count_at, revision_of, size};
use crate::actors::{Context, Request};
use crate::object::{at, label, name, namespace, number, set, text, uid};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

/// The history, oldest first.
pub(super) struct Revisions<'v> {
    all: Vec<(&'v Key, &'v Object)>,
}

impl<'v> Revisions<'v> {
    pub(super) fn of(owner: &'v Value, ctx: &'v Context) -> Self {
        let mut all: Vec<_> = ctx.view.controlled(uid(owner), &CONTROLLER_REVISIONS).collect();
        all.sort_by_key(|(key, one)| (revision(one), Key::clone(key)));
        Self { all }
    }

    /// What must be written before the template that the set has now is the newest.
    pub(super) fn take_in(&self, owner: &Value) -> Option<Request> {
        let newest = self.all.last().map_or(0, |(_, one)| revision(one));
        let known = self.all.iter().find(|(_, one)| template(one) == Some(wanted(owner)));
        let Some((key, known)) = known else {
            return Some(Request::create(&CONTROLLER_REVISIONS, made(owner, newest + 1)));
        };
        // A template that comes back is the newest again.
        (revision(known) < newest).then(|| {
            let mut known = Value::clone(known);
            set(&mut known, &["revision"], json!(newest + 1));
            Request::update(key, known)
        })
    }

    /// The template of a revision that is still known.
    pub(super) fn template(&self, revision: &str) -> Option<&'v Value> {
        let found = self.all.iter().find(|(key, _)| *key.name == *revision)?;
        template(found.1)
    }

    /// Forgets what no pod has, and the set has not, beyond its limit.
    pub(super) fn forget(&self, sets: &Numbered) -> Vec<Request> {
        let is_live = |key: &Key| {
            let has = |pod: &Value| label(pod, super::HASH) == Some(&*key.name);
            *key.name == *sets.revision
                || *key.name == *sets.current
                || sets.pods.values().any(|(_, pod)| has(pod))
        };
        let old: Vec<_> = self.all.iter().filter(|(key, _)| !is_live(key)).collect();
        let keep = size(count_at(sets.set, &["spec", "revisionHistoryLimit"], 10));
        let surplus = old.len().saturating_sub(keep);
        old.into_iter().take(surplus).map(|(key, one)| Request::delete(key, one)).collect()
    }
}

/// What the revision of the set's template is called.
pub(super) fn name_of(owner: &Value) -> String {
    format!("{}-{}", name(owner), revision_of(wanted(owner)))
}

fn wanted(owner: &Value) -> &Value {
    &owner["spec"]["template"]
}

fn revision(one: &Value) -> i64 {
    number(one, &["revision"]).unwrap_or(0)
}

fn template(one: &Value) -> Option<&Value> {
    at(one, &["data", "spec", "template"])
}

fn made(owner: &Value, revision: i64) -> Value {
    let mut labels = wanted(owner)["metadata"]["labels"].clone();
    let hash = revision_of(wanted(owner));
    set(&mut labels, &["controller.kubernetes.io/hash"], json!(hash));
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name_of(owner),
            "namespace": namespace(owner),
            "labels": labels,
            // `kubectl rollout history` shows a cause that stands among them.
            "annotations": owner["metadata"]["annotations"],
            "ownerReferences": controlled_by(owner),
        },
        "data": {"spec": {"template": wanted(owner)}},
        "revision": revision,
    })
}

/// The revision that the set's pods have, as far as its status tells.
pub(super) fn current<'s>(owner: &'s Value, revisions: &Revisions, newest: &'s str) -> &'s str {
    let noted = text(owner, &["status", "currentRevision"]);
    if revisions.template(noted).is_some() { noted } else { newest }
}
