//! BindRequests instead of bindings: our binder or KAI's carries them out. While one is open, its
//! pod counts as bound; one that has failed for good frees the node again.

use schedlab_api::{Value, api_versions, json};
use schedlab_scheduler_core::model::{GpuFraction, Node, NodeId, PodId, PodShape};

use super::{
    Applier, Cycle,
    writes::{OnSuccess, Request, Write, WriteSequence},
};
use crate::{
    api::{PatchKind, object_path},
    cache::{BindRequestRecord, ClusterCache},
    config::Binding,
    records::{ObjectKey, placements_to_json},
    watch::Kind,
};

/// Attempts of the binder before the pod is scheduled again (`backoffLimit`).
const BIND_ATTEMPTS_MAX: i32 = 3;

/// Maximum number of characters of a label value.
const LABEL_VALUE_LEN_MAX: usize = 63;

impl Applier {
    /// Deletes the BindRequests of our pods that the binder will not carry out.
    pub(super) async fn delete_obsolete_bind_requests(&mut self, cache: &mut ClusterCache) {
        let over = cache
            .bind_requests
            .iter()
            .filter(|(key, request)| self.is_obsolete(cache, key, request));
        let delete = |(key, request): (&ObjectKey, &BindRequestRecord)| {
            let options = json!({
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": { "uid": &*request.uid },
            });
            let path =
                object_path(api_versions::BIND_REQUEST, &key.namespace, "bindrequests", &key.name);
            vec![Write {
                request: Request::Delete { path, options },
                on_success: OnSuccess::BindRequestDeleted(key.clone()),
            }]
        };
        let chains = over.map(delete).collect();
        self.write(cache, chains).await;
    }

    fn is_obsolete(
        &self,
        cache: &ClusterCache,
        key: &ObjectKey,
        request: &BindRequestRecord,
    ) -> bool {
        let Some(pod) = cache.pods.get(key).filter(|pod| pod.is_ours) else { return false };
        let is_lost = pod.is_bind_requested() && !cache.nodes.contains_key(&request.node);
        let has_no_binder = pod.is_bind_requested() && self.binding == Binding::Direct;
        request.is_exhausted || request.is_for_earlier_pod(pod) || is_lost || has_no_binder
    }

    /// Creates the BindRequest of a pod.
    pub(super) fn create_bind_request(
        &self,
        cycle: &Cycle<'_>,
        pod: PodId,
        node: NodeId,
    ) -> WriteSequence {
        let key = cycle.key(pod);
        let of = &cycle.snapshot.pods[pod.0 as usize];
        let shape = &cycle.snapshot.shapes[of.shape.0 as usize];
        let node = &cycle.snapshot.nodes[node.0 as usize];
        let groups = cycle.plan.gpu_groups.get(&pod);
        let mut labels = schedlab_api::Map::new();
        if node.name.len() <= LABEL_VALUE_LEN_MAX {
            labels.insert("selected-node".to_owned(), json!(&*node.name));
        }
        if let Some(pool) = self.node_pool.as_ref().filter(|pool| !pool.value.is_empty()) {
            labels.insert(pool.label.clone(), json!(pool.value));
        }
        let mut spec = json!({
            "podName": &*key.name,
            "selectedNode": &*node.name,
            "receivedResourceType": if groups.is_some() { "Fraction" } else { "Regular" },
            "receivedGPU": received_gpu(shape, node),
            "backoffLimit": BIND_ATTEMPTS_MAX,
        });
        if let Some(groups) = groups {
            spec["selectedGPUGroups"] = groups.iter().map(|group| json!(&**group)).collect();
        }
        if let Some(zones) = cycle.plan.numa_allocations.get(&pod) {
            spec["predictedNUMAZones"] = placements_to_json(zones);
        }
        let object = json!({
            "apiVersion": api_versions::BIND_REQUEST,
            "kind": "BindRequest",
            "metadata": {
                "name": &*key.name,
                "namespace": &*key.namespace,
                "labels": labels,
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Pod", "name": &*key.name, "uid": &*of.uid,
                }],
            },
            "spec": spec,
        });
        let labels = self.missing_pool_label(cycle, pod).map(|(label, value)| {
            let mut change = json!({ "metadata": { "labels": {} } });
            change["metadata"]["labels"][label] = json!(value);
            let path = object_path("v1", &key.namespace, "pods", &key.name);
            Write::patch(Kind::Pod, path, PatchKind::Merge, change)
        });
        let path = object_path(api_versions::BIND_REQUEST, &key.namespace, "bindrequests", "");
        let make = Write {
            request: Request::Create { path, object },
            on_success: OnSuccess::BindRequestCreated(key),
        };
        labels.into_iter().chain([make]).collect()
    }
}

/// `spec.receivedGPU` of a BindRequest: number of GPUs and portion of each, with two decimals as in
/// KAI.
fn received_gpu(shape: &PodShape, node: &Node) -> Value {
    let (count, milli) = match &shape.fractional_gpu {
        None => {
            let count = shape.requests_and_claims_on(node).gpu_milli / 1000;
            (count, if count > 0 { 1000 } else { 0 })
        }
        Some(shared) => {
            let count = i64::from(shared.devices.max(1));
            let milli = match shared.fraction {
                GpuFraction::Milli(milli) => milli,
                GpuFraction::MemoryMib(_) => shared.charged_milli(node.gpu_memory_mib) / count,
            };
            (count, milli)
        }
    };
    let hundredths = (milli + 5) / 10;
    let portion = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    json!({ "count": count, "portion": portion })
}
