//! BindRequests in place of bindings: a binder carries them out, ours or KAI's. While one is open
//! its pod counts as bound; one that failed for good frees the place again.

use schedlab_json::{Value, json};
use schedlab_scheduler_core::model::{GpuPart, Node, NodeId, PodId, PodShape};

use super::{
    Applier, Cycle,
    writes::{Call, Chain, Then, Write},
};
use crate::{
    api::{Merge, path},
    config::Binding,
    mirror::{Key, Mirror, RequestRecord, written_shares},
    watch::Kind,
};

const API: &str = "scheduling.run.ai/v1alpha2";

/// Attempts of the binder before the pod is scheduled anew.
const ATTEMPTS_MAX: i32 = 3;

/// Longest value of a label.
const LABEL_MAX: usize = 63;

impl Applier {
    /// Deletes requests of our pods that nobody will carry out any more.
    pub(super) async fn clear_requests(&mut self, mirror: &mut Mirror) {
        let over =
            mirror.requests.iter().filter(|(key, request)| self.is_over(mirror, key, request));
        let delete = |(key, request): (&Key, &RequestRecord)| {
            let options = json!({
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": { "uid": &*request.uid },
            });
            let path = path(API, &key.namespace, "bindrequests", &key.name);
            vec![Write { call: Call::Delete { path, options }, then: Then::Cleared(key.clone()) }]
        };
        let chains = over.map(delete).collect();
        self.write(mirror, chains).await;
    }

    fn is_over(&self, mirror: &Mirror, key: &Key, request: &RequestRecord) -> bool {
        let Some(pod) = mirror.pods.get(key).filter(|pod| pod.ours) else { return false };
        let is_lost = pod.is_requested() && !mirror.nodes.contains_key(&request.node);
        let nobody_binds = pod.is_requested() && self.binding == Binding::Direct;
        request.is_spent || request.is_of_another(pod) || is_lost || nobody_binds
    }

    /// Asks for a pod to be bound.
    pub(super) fn request(&self, cycle: &Cycle<'_>, pod: PodId, node: NodeId) -> Chain {
        let key = cycle.key(pod);
        let of = &cycle.snapshot.pods[pod.0 as usize];
        let shape = &cycle.snapshot.shapes[of.shape.0 as usize];
        let node = &cycle.snapshot.nodes[node.0 as usize];
        let groups = cycle.plan.gpu_groups.get(&pod);
        let mut labels = schedlab_json::Map::new();
        if node.name.len() <= LABEL_MAX {
            labels.insert("selected-node".to_owned(), json!(&*node.name));
        }
        if let Some(pool) = self.node_pool.as_ref().filter(|pool| !pool.value.is_empty()) {
            labels.insert(pool.label.clone(), json!(pool.value));
        }
        let mut spec = json!({
            "podName": &*key.name,
            "selectedNode": &*node.name,
            "receivedResourceType": if groups.is_some() { "Fraction" } else { "Regular" },
            "receivedGPU": received(shape, node),
            "backoffLimit": ATTEMPTS_MAX,
        });
        if let Some(groups) = groups {
            spec["selectedGPUGroups"] = groups.iter().map(|group| json!(&**group)).collect();
        }
        if let Some(zones) = cycle.plan.zones.get(&pod) {
            spec["predictedNUMAZones"] = written_shares(zones);
        }
        let object = json!({
            "apiVersion": API,
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
        let labels = self.in_pool(cycle, pod).map(|(label, value)| {
            let mut change = json!({ "metadata": { "labels": {} } });
            change["metadata"]["labels"][label] = json!(value);
            let path = path("v1", &key.namespace, "pods", &key.name);
            Write::patch(Kind::Pod, path, Merge::Plain, change)
        });
        let path = path(API, &key.namespace, "bindrequests", "");
        let make = Write { call: Call::Make { path, object }, then: Then::Requested(key) };
        labels.into_iter().chain([make]).collect()
    }
}

/// How many devices, and which part of each, with two decimals as KAI writes it.
fn received(shape: &PodShape, node: &Node) -> Value {
    let (count, milli) = match &shape.shared_gpu {
        None => {
            let count = shape.requests_and_claims_on(node).gpu_milli / 1000;
            (count, if count > 0 { 1000 } else { 0 })
        }
        Some(shared) => {
            let count = i64::from(shared.devices.max(1));
            let milli = match shared.part {
                GpuPart::Milli(milli) => milli,
                GpuPart::MemoryMib(_) => shared.milli_of(node.gpu_memory_mib) / count,
            };
            (count, milli)
        }
    };
    let hundredths = (milli + 5) / 10;
    let portion = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    json!({ "count": count, "portion": portion })
}
