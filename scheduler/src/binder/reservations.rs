//! Reservation pods for shared GPUs, as in KAI's binder: one per shared GPU. It requests a whole
//! GPU, so that the device plugin gives that device to nobody else, and reports the device index in
//! an annotation. It is deleted when no pod shares the GPU any more.

use std::{collections::BTreeMap, time::Duration};

use schedlab_api::{Value, annotations, json, labels, object_names, resources};
use schedlab_scheduler_core::model::{GpuGroup, Name};
use tokio::time::Instant;

use super::{attempt::Attempt, bind_request::BindRequest};
use crate::{
    api::{ApiClient, ApiError, object_path},
    cache::bind_backoff,
    config::GpuReservation,
    parse::{annotation, at, name, strings, text, uid, version},
    records::{ObjectKey, gpu_groups},
    watch::WatchEvent,
};

/// Time limit for a reservation pod to report its device, as in KAI.
const DEVICE_REPORT_TIMEOUT: Duration = Duration::from_secs(40);

/// Shared GPUs, with the pods that share or reserve them.
pub(super) struct Reservations {
    settings: GpuReservation,
    /// Pods with GPU group labels, including reservation pods.
    pods: BTreeMap<ObjectKey, SharingPod>,
    /// Start of waiting for devices, by request.
    waiting: BTreeMap<ObjectKey, Instant>,
    /// Reservation pods that could not be deleted, with the next try.
    undeleted: BTreeMap<ObjectKey, DeleteRetry>,
}

/// Number of failed deletions of a reservation pod, and time of the next try.
struct DeleteRetry {
    failures: u32,
    due: Instant,
}

struct SharingPod {
    uid: Name,
    /// The pod's node; GPU groups of the same name on two nodes are two devices.
    node: Name,
    version: u64,
    groups: Vec<GpuGroup>,
    /// The pod has a node and is not finished.
    holds_device: bool,
    index: Option<Name>,
}

/// State of the device reservations of a request.
pub(super) enum Reservation {
    /// The device indices of the request are known; empty if the request needs none.
    Ready(Vec<Name>),
    /// Reservation pods exist and have not reported their devices yet.
    Pending,
    /// No device can be reserved for the request.
    Failed(Attempt),
    /// A reservation pod could not be read; the lookup is retried.
    Unconfirmed(ApiError),
}

/// Result of looking up the GPU groups of a request.
enum DeviceLookup {
    /// All device indices are known.
    Known(Vec<Name>),
    /// These groups have no reservation pod yet.
    Missing(Vec<GpuGroup>),
    /// Reservation pods exist and have not reported their device yet.
    Pending,
    /// A reservation pod ended or timed out.
    Failed(String),
}

impl SharingPod {
    fn shares_group(&self, node: &Name, group: &GpuGroup) -> bool {
        self.node == *node && self.groups.contains(group)
    }
}

impl Reservations {
    pub(super) fn new(settings: GpuReservation) -> Self {
        let (pods, waiting, undeleted) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { settings, pods, waiting, undeleted }
    }

    pub(super) fn on_event(&mut self, news: WatchEvent) {
        match news {
            WatchEvent::Listed(_, objects) => {
                self.pods.clear();
                for object in &objects {
                    self.upsert_pod(object);
                }
            }
            WatchEvent::Changed(_, object) => {
                if let Some(object) = object.decode() {
                    self.upsert_pod(&object);
                }
            }
            WatchEvent::Deleted(_, gone) => {
                self.pods.remove(&ObjectKey::from_raw(&gone));
            }
        }
    }

    /// Records a pod from a list or watch event. A pod that is recorded as bound counts as bound
    /// until it finishes, as an older event may arrive late.
    fn upsert_pod(&mut self, pod: &Value) {
        let key = ObjectKey::from_object(pod);
        let groups = gpu_groups(&strings(pod, "/metadata/labels"));
        let uid = uid(pod);
        let known = self.pods.get(&key).filter(|known| known.uid == uid);
        if known.is_some_and(|known| known.version >= version(pod)) {
            return;
        }
        if groups.is_empty() {
            self.pods.remove(&key);
            return;
        }
        let finished = matches!(text(pod, "/status/phase"), Some("Succeeded" | "Failed"));
        let bound = name(pod, "/spec/nodeName").filter(|node| !node.is_empty());
        let held = known.filter(|known| known.holds_device);
        let holds = !finished && (bound.is_some() || held.is_some());
        let node = bound.or_else(|| held.map(|held| Name::clone(&held.node)));
        let node = node.unwrap_or_else(|| "".into());
        let index = annotation(pod, annotations::RESERVED_GPU_INDEX)
            .filter(|index| !index.is_empty())
            .map(Name::from);
        self.pods.insert(
            key,
            SharingPod { uid, node, version: version(pod), groups, holds_device: holds, index },
        );
    }

    /// Records a pod that was just bound, before its watch event arrives.
    pub(super) fn record_bound(&mut self, key: &ObjectKey, request: &BindRequest, pod: &Value) {
        self.waiting.remove(key);
        let uid = uid(pod);
        let (node, groups) = (Name::clone(&request.node), request.gpu_groups.clone());
        let sharer = SharingPod {
            uid,
            node,
            version: version(pod),
            groups,
            holds_device: true,
            index: None,
        };
        self.pods.insert(key.clone(), sharer);
    }

    fn is_reservation(&self, key: &ObjectKey) -> bool {
        *key.namespace == *self.settings.namespace
            && key.name.starts_with(object_names::GPU_RESERVATION_PREFIX)
    }

    /// Reservation pod of a GPU group on a node.
    fn reservation_of(&self, node: &Name, group: &GpuGroup) -> Option<(&ObjectKey, &SharingPod)> {
        let mut all = self.pods.iter();
        all.find(|(key, pod)| self.is_reservation(key) && pod.shares_group(node, group))
    }

    /// Looks up the device indices of a request.
    fn look_up_devices(&mut self, key: &ObjectKey, request: &BindRequest) -> DeviceLookup {
        let (mut known, mut missing) = (Vec::new(), Vec::new());
        let mut awaited = None;
        for group in &request.gpu_groups {
            match self.reservation_of(&request.node, group) {
                None => missing.push(GpuGroup::clone(group)),
                Some((pod, SharingPod { holds_device: false, .. })) => {
                    return DeviceLookup::Failed(format!("GPU reservation pod {pod} has ended"));
                }
                Some((_, SharingPod { index: Some(index), .. })) => known.push(Name::clone(index)),
                Some((pod, _)) => awaited = Some(pod.clone()),
            }
        }
        if missing.is_empty() && awaited.is_none() {
            self.waiting.remove(key);
            return DeviceLookup::Known(known);
        }
        let since = *self.waiting.entry(key.clone()).or_insert_with(Instant::now);
        if since.elapsed() >= DEVICE_REPORT_TIMEOUT {
            self.waiting.remove(key);
            let pod = awaited.map(|pod| format!(": {pod}")).unwrap_or_default();
            let why = format!("failed waiting for GPU reservation pod to allocate{pod}");
            return DeviceLookup::Failed(why);
        }
        if missing.is_empty() { DeviceLookup::Pending } else { DeviceLookup::Missing(missing) }
    }

    /// Looks up the device indices of a request, and creates missing reservation pods.
    pub(super) async fn reserve_devices(
        &mut self,
        api: &ApiClient,
        key: &ObjectKey,
        request: &BindRequest,
    ) -> Reservation {
        if request.validation_error(&key.name).is_some() {
            // The attempt reports the validation error.
            return Reservation::Ready(Vec::new());
        }
        let devices = self.look_up_devices(key, request);
        if matches!(devices, DeviceLookup::Pending) {
            return Reservation::Pending;
        }
        if let DeviceLookup::Known(devices) = devices {
            return Reservation::Ready(devices);
        }
        let pod = match api.get(&object_path("v1", &key.namespace, "pods", &key.name)).await {
            Ok(pod) => Some(pod),
            Err(ApiError::NotFound(_)) => None,
            Err(error) => return Reservation::Unconfirmed(error),
        };
        let result = match devices {
            DeviceLookup::Missing(groups) => {
                let waits = |pod: &&Value| text(pod, "/spec/nodeName").is_none_or(str::is_empty);
                // A pod that is bound or missing needs no reservation.
                let Some(pod) = pod.as_ref().filter(waits) else {
                    return Reservation::Ready(Vec::new());
                };
                self.create_reservation_pods(api, request, &groups, pod).await
            }
            DeviceLookup::Failed(why) => match self.delete_failed_pods(api, request).await {
                Ok(()) => Err(why),
                Err(error) => Err(format!("{why}; {error}")),
            },
            DeviceLookup::Known(_) | DeviceLookup::Pending => Ok(()),
        };
        match result {
            Ok(()) => Reservation::Pending,
            Err(why) => {
                // The next attempt starts with a fresh time limit.
                self.waiting.remove(key);
                Reservation::Failed(Attempt { pod, result: Err(why) })
            }
        }
    }

    async fn create_reservation_pods(
        &self,
        api: &ApiClient,
        request: &BindRequest,
        groups: &[GpuGroup],
        pod: &Value,
    ) -> Result<(), String> {
        for group in groups {
            let started = self.create_reservation_pod(api, request, group, pod).await;
            started.map_err(|error| format!("cannot reserve a GPU: {error}"))?;
        }
        Ok(())
    }

    /// Time of the next timeout of a waiting request that is not in `postponed`, or of the next
    /// deletion retry.
    pub(super) fn next_deadline(
        &self,
        postponed: &BTreeMap<ObjectKey, Instant>,
    ) -> Option<Instant> {
        let waiting = self.waiting.iter().filter(|(key, _)| !postponed.contains_key(key));
        let patience = waiting.map(|(_, since)| *since + DEVICE_REPORT_TIMEOUT);
        patience.chain(self.undeleted.values().map(|again| again.due)).min()
    }

    /// Forgets since when requests wait that do not exist any more.
    pub(super) fn forget_ended_requests(&mut self, requests: &BTreeMap<ObjectKey, BindRequest>) {
        self.waiting.retain(|key, _| requests.contains_key(key));
    }

    /// Creates the reservation pod of a GPU group on the node of the request.
    async fn create_reservation_pod(
        &self,
        api: &ApiClient,
        request: &BindRequest,
        group: &GpuGroup,
        pod: &Value,
    ) -> Result<(), ApiError> {
        let GpuReservation { namespace, image, service_account, runtime_class, .. } =
            &self.settings;
        let gpu = json!({ (resources::GPU): "1" });
        let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        let mut spec = json!({
            "nodeName": &*request.node,
            "tolerations": at(pod, "/spec/tolerations").cloned().unwrap_or_else(|| json!([])),
            "containers": [{
                "name": "resource-reservation",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "resources": { "limits": gpu, "requests": gpu },
                "env": [field("POD_NAME", "metadata.name"),
                        field("POD_NAMESPACE", "metadata.namespace")],
            }],
        });
        for (key, value) in
            [("serviceAccountName", service_account), ("runtimeClassName", runtime_class)]
        {
            if let Some(value) = value {
                spec[key] = json!(value);
            }
        }
        let object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": reservation_pod_name(&request.node, group),
                "namespace": namespace,
                "labels": { "app": "kai-resource-reservation", (labels::GPU_GROUP): &**group },
                "annotations": { "karpenter.sh/do-not-disrupt": "true" },
            },
            "spec": spec,
        });
        let made: Result<Value, ApiError> =
            api.create(&object_path("v1", namespace, "pods", ""), &object).await;
        match made {
            // It exists already; a watch event will follow.
            Ok(_) | Err(ApiError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes reservation pods whose device no pod shares. Failed deletions are retried with
    /// exponential backoff; returns the failures of this call.
    pub(super) async fn delete_idle_pods(
        &mut self,
        api: &ApiClient,
        requests: &BTreeMap<ObjectKey, BindRequest>,
    ) -> Vec<(ObjectKey, ApiError)> {
        let idle = self.idle_reservation_pods(requests);
        self.undeleted.retain(|key, _| idle.contains_key(key));
        let now = Instant::now();
        let mut failed = Vec::new();
        for (key, uid) in idle {
            let before = self.undeleted.get(&key);
            if before.is_some_and(|again| again.due > now) {
                continue;
            }
            let failures = before.map_or(0, |again| again.failures).saturating_add(1);
            match self.delete(api, key.clone(), uid).await {
                Ok(()) => drop(self.undeleted.remove(&key)),
                Err(error) => {
                    let retry =
                        DeleteRetry { failures, due: Instant::now() + bind_backoff(failures) };
                    self.undeleted.insert(key.clone(), retry);
                    failed.push((key, error));
                }
            }
        }
        failed
    }

    /// Reservation pods whose device no pod shares or requests, with their UIDs.
    fn idle_reservation_pods(
        &self,
        requests: &BTreeMap<ObjectKey, BindRequest>,
    ) -> BTreeMap<ObjectKey, Name> {
        let is_wanted = |node: &Name, group: &GpuGroup| {
            let mut sharers = self.pods.iter().filter(|(key, _)| !self.is_reservation(key));
            let asks =
                |request: &BindRequest| request.node == *node && request.gpu_groups.contains(group);
            sharers.any(|(_, pod)| pod.holds_device && pod.shares_group(node, group))
                || requests.values().any(asks)
        };
        let reservations = self.pods.iter().filter(|(key, _)| self.is_reservation(key));
        let idle = reservations
            .filter(|(_, pod)| !pod.groups.iter().any(|group| is_wanted(&pod.node, group)));
        idle.map(|(key, pod)| (key.clone(), Name::clone(&pod.uid))).collect()
    }

    /// Deletes the reservation pods of a request that got no device.
    async fn delete_failed_pods(
        &mut self,
        api: &ApiClient,
        request: &BindRequest,
    ) -> Result<(), ApiError> {
        let of_order = request.gpu_groups.iter();
        let of_order = of_order.filter_map(|group| self.reservation_of(&request.node, group));
        let failed = of_order.filter(|(_, pod)| !pod.holds_device || pod.index.is_none());
        let failed: Vec<_> =
            failed.map(|(key, pod)| (key.clone(), Name::clone(&pod.uid))).collect();
        for (key, uid) in failed {
            self.delete(api, key, uid).await?;
        }
        Ok(())
    }

    /// Deletes a reservation pod.
    async fn delete(&mut self, api: &ApiClient, key: ObjectKey, uid: Name) -> Result<(), ApiError> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": { "uid": &*uid },
        });
        match api.delete(&object_path("v1", &key.namespace, "pods", &key.name), &options).await {
            Ok(_) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => {
                self.pods.remove(&key);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// The name of a reservation pod. It depends on node and GPU group only, so that two binders cannot
/// create two pods for one GPU.
fn reservation_pod_name(node: &str, group: &str) -> String {
    let bytes = node.bytes().chain([b'/']).chain(group.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{}{hash:016x}", object_names::GPU_RESERVATION_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GpuReservation;

    #[test]
    fn an_outdated_watch_event_does_not_unbind_a_pod() {
        let mut all = Reservations::new(GpuReservation::with_image("i"));
        let key = ObjectKey { namespace: "ns".into(), name: "p".into() };
        let pod = json!({ "metadata": { "namespace": "ns", "name": "p", "uid": "u", "resourceVersion": "5" } });
        let request = BindRequest::read(&json!({ "spec": { "selectedGPUGroups": ["g"] } }));
        all.record_bound(&key, &request, &pod);
        all.upsert_pod(&pod);
        assert!(all.pods.get(&key).is_some_and(|pod| pod.holds_device), "as it was before");
        let mut later = pod;
        later["metadata"]["resourceVersion"] = json!("6");
        all.upsert_pod(&later);
        assert!(!all.pods.contains_key(&key), "it shares nothing any more");
    }
}
