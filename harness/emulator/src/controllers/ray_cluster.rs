//! The RayCluster controller: creates the pods of a head and of worker groups.
//!
//! As in `KubeRay`, a terminating pod still counts, a finished one is deleted and replaced, and
//! `workersToDelete` names the workers that leave. With `enableInTreeAutoscaling` only those leave.
//!
//! Left out: services, the autoscaler, environment and init containers of Ray, upgrades, GCS fault
//! tolerance, and hosts of a replica that leave together.

mod pods;
mod status;

use super::workload::{is_managed_elsewhere, owner_keys};
use crate::reconcile::fields::flag_at;
use crate::reconcile::resources::{PODS, RAY_CLUSTERS};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value,
    object::{is_deleting, uid},
};

const COMPONENT: &str = "raycluster-controller";
/// The value of `spec.managedBy` that means `KubeRay`.
pub(super) const MANAGED_BY: &str = "ray.io/kuberay-operator";

/// The RayCluster controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: COMPONENT,
    watches: WatchedKinds::Kinds(&[&RAY_CLUSTERS, &PODS]),
    keys_to_reconcile: |change: &ObjectChange, cache: &InformerCache| {
        owner_keys(change, cache, &RAY_CLUSTERS, &PODS)
    },
    reconcile,
};

/// A RayCluster and its pods.
struct RayClusterState<'v> {
    key: &'v Key,
    object: &'v Object,
    pods: Vec<(&'v Key, &'v Object)>,
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some((key, cluster)) = ctx.cache.entry(key) else {
        return ReconcileResult::nothing_to_do();
    };
    if is_deleting(cluster) || is_managed_elsewhere(cluster, &["spec", "managedBy"], MANAGED_BY) {
        return ReconcileResult::nothing_to_do();
    }
    let pods = ctx.cache.controlled_by(uid(cluster), &PODS).collect();
    let cluster = RayClusterState { key, object: cluster, pods };
    let writes = if is_suspended(cluster.object) {
        let left = cluster.pods.iter().filter(|(_, pod)| !is_deleting(pod));
        left.map(|(key, pod)| ApiRequest::delete(key, pod)).collect()
    } else {
        pods::sync_pods(&cluster, ctx)
    };
    if writes.is_empty() {
        ReconcileResult::from_writes(status::sync_status(&cluster, ctx))
    } else {
        ReconcileResult::from_writes(writes)
    }
}

/// Whether `spec.suspend` of a RayCluster is true.
fn is_suspended(cluster: &Value) -> bool {
    flag_at(cluster, &["spec", "suspend"])
}
