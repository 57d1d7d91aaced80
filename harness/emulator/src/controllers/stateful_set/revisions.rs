//! The revision history of a StatefulSet: a `ControllerRevision` per template. `kubectl rollout`
//! shows it and rolls back to it.

use super::StatefulSetState;
use crate::controllers::workload::{
    clamped_count_at, controller_references, template_hash, to_usize,
};
use crate::reconcile::resources::CONTROLLER_REVISIONS;
use crate::reconcile::{ApiRequest, Context};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{at, label, name, namespace, number, set, text, uid},
};

/// The `ControllerRevisions` of a StatefulSet, oldest first.
pub(super) struct Revisions<'v> {
    all: Vec<(&'v Key, &'v Object)>,
}

impl<'v> Revisions<'v> {
    pub(super) fn from_cache(owner: &'v Value, ctx: &'v Context) -> Self {
        let mut all: Vec<_> = ctx.cache.controlled_by(uid(owner), &CONTROLLER_REVISIONS).collect();
        all.sort_by_key(|(key, one)| (revision_number(one), Key::clone(key)));
        Self { all }
    }

    /// Records the current pod template as the newest revision, unless it is the newest already.
    pub(super) fn record_template(&self, owner: &Value) -> Option<ApiRequest> {
        let newest = self.all.last().map_or(0, |(_, one)| revision_number(one));
        let known =
            self.all.iter().find(|(_, one)| revision_template(one) == Some(pod_template(owner)));
        let Some((key, known)) = known else {
            return Some(ApiRequest::create(
                &CONTROLLER_REVISIONS,
                new_revision(owner, newest + 1),
            ));
        };
        // A reused template becomes the newest revision.
        (revision_number(known) < newest).then(|| {
            let mut known = Value::clone(known);
            set(&mut known, &["revision"], json!(newest + 1));
            ApiRequest::update(key, known)
        })
    }

    /// The pod template of the revision with a name, if the revision is still stored.
    pub(super) fn revision_template(&self, revision: &str) -> Option<&'v Value> {
        let found = self.all.iter().find(|(key, _)| *key.name == *revision)?;
        revision_template(found.1)
    }

    /// Deletes unused revisions beyond the history limit.
    pub(super) fn delete_unused(&self, sets: &StatefulSetState) -> Vec<ApiRequest> {
        let is_live = |key: &Key| {
            let has = |pod: &Value| label(pod, super::REVISION_LABEL) == Some(&*key.name);
            *key.name == *sets.revision
                || *key.name == *sets.current
                || sets.pods.values().any(|(_, pod)| has(pod))
        };
        let old: Vec<_> = self.all.iter().filter(|(key, _)| !is_live(key)).collect();
        let keep = to_usize(clamped_count_at(sets.set, &["spec", "revisionHistoryLimit"], 10));
        let surplus = old.len().saturating_sub(keep);
        old.into_iter().take(surplus).map(|(key, one)| ApiRequest::delete(key, one)).collect()
    }
}

/// The name of the revision of the set's current pod template (`updateRevision`).
pub(super) fn update_revision_name(owner: &Value) -> String {
    format!("{}-{}", name(owner), template_hash(pod_template(owner)))
}

fn pod_template(owner: &Value) -> &Value {
    &owner["spec"]["template"]
}

fn revision_number(controller_revision: &Value) -> i64 {
    number(controller_revision, &["revision"]).unwrap_or(0)
}

fn revision_template(controller_revision: &Value) -> Option<&Value> {
    at(controller_revision, &["data", "spec", "template"])
}

fn new_revision(owner: &Value, revision: i64) -> Value {
    let mut labels = pod_template(owner)["metadata"]["labels"].clone();
    let hash = template_hash(pod_template(owner));
    set(&mut labels, &["controller.kubernetes.io/hash"], json!(hash));
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": update_revision_name(owner),
            "namespace": namespace(owner),
            "labels": labels,
            // They contain the change cause that `kubectl rollout history` shows.
            "annotations": owner["metadata"]["annotations"],
            "ownerReferences": controller_references(owner),
        },
        "data": {"spec": {"template": pod_template(owner)}},
        "revision": revision,
    })
}

/// The name of `currentRevision` in the set's status; that of the newest revision if the recorded
/// one does not exist.
pub(super) fn current_revision<'s>(
    owner: &'s Value,
    revisions: &Revisions,
    newest: &'s str,
) -> &'s str {
    let noted = text(owner, &["status", "currentRevision"]);
    if revisions.revision_template(noted).is_some() { noted } else { newest }
}
