//! The status of a LeaderWorkerSet.

use super::{LeaderWorkerSetState, SET_NAME_LABEL, WORKER_INDEX_LABEL};
use crate::controllers::workload::api_count;
use crate::reconcile::fields::{Condition, set_condition};
use crate::reconcile::{ApiRequest, Context};
use schedlab_api::{
    Value, json,
    object::{name, number, set},
};

/// The status update of a LeaderWorkerSet without pods to create or delete.
pub(super) fn sync_status(owner: &LeaderWorkerSetState, ctx: &Context) -> Option<ApiRequest> {
    let mut seen = Value::clone(owner.object);
    let replicas = owner.replicas();
    let ready = api_count(owner.groups.iter().filter(|group| group.is_ready(owner.group_size())));
    let updated = api_count(owner.groups.iter().filter(|group| owner.is_current(group)));
    let generation = number(owner.object, &["metadata", "generation"]).unwrap_or(0);
    let counts = [
        ("replicas", api_count(&owner.groups)),
        ("readyReplicas", ready),
        ("updatedReplicas", updated),
        ("observedGeneration", generation),
    ];
    for (field, count) in counts {
        set(&mut seen, &["status", field], json!(count));
    }
    let selector = format!("{SET_NAME_LABEL}={},{WORKER_INDEX_LABEL}=0", name(owner.object));
    set(&mut seen, &["status", "hpaPodSelector"], json!(selector));
    let is_updating = updated < api_count(&owner.groups);
    let is_available = !is_updating && ready == replicas;
    let states = [
        ("UpdateInProgress", is_updating, "GroupsUpdating", "Rolling Upgrade is in progress"),
        ("Progressing", !is_available, "GroupsProgressing", "Replicas are progressing"),
        ("Available", is_available, "AllGroupsReady", "All replicas are ready"),
    ];
    for (kind, holds, reason, message) in states {
        let status = if holds { "True" } else { "False" };
        set_condition(&mut seen, &Condition { kind, status, reason, message }, ctx.now);
    }
    ApiRequest::status_update(owner.key, owner.object, seen)
}
