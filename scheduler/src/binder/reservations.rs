//! Reservation pods, as KAI's binder starts them: one for each GPU that pods share. It asks for a
//! whole GPU, so that no device plugin gives that one away, and says which one it got. It goes
//! when nobody shares the GPU any more.

use std::{collections::BTreeMap, time::Duration};

use schedlab_json::{Value, json};
use schedlab_scheduler_core::model::{GpuGroup, Name};
use tokio::time::Instant;

use super::{attempt::Attempt, backoff, order::Order};
use crate::{
    api::{Api, ApiError, path},
    config::GpuReservation,
    mirror::{Key, RESERVATION_PREFIX, gpu_groups},
    parse::{annotated, at, name, strings, text, uid, version},
    watch::News,
};

/// In this annotation a reservation pod says which device it got.
const INDEX: &str = "run.ai/reserve_for_gpu_index";

/// A reservation pod that got no device by then is given up, as KAI does.
const PATIENCE: Duration = Duration::from_secs(40);

/// The devices that are shared, and by whom.
pub(super) struct Reservations {
    settings: GpuReservation,
    /// Pods that share or reserve a device.
    pods: BTreeMap<Key, Sharer>,
    /// Since when requests wait for their devices.
    waiting: BTreeMap<Key, Instant>,
    /// Reservation pods that could not be deleted.
    undeleted: BTreeMap<Key, Again>,
}

/// When something is tried again that has failed so often.
struct Again {
    failures: i32,
    due: Instant,
}

struct Sharer {
    uid: Name,
    /// Where its devices are: groups of the same name on two nodes are two devices.
    node: Name,
    version: u64,
    groups: Vec<GpuGroup>,
    /// It has a node, and is not finished.
    holds: bool,
    index: Option<Name>,
}

/// Whether a request may be carried out.
pub(super) enum Reserved {
    /// With these devices.
    Ready(Vec<Name>),
    /// When its devices are known.
    Later,
    /// It gets none.
    Never(Attempt),
    /// Nobody knows how its pod stands.
    Unknown(ApiError),
}

/// What is known of the devices that a request names.
enum Devices {
    /// Their indices.
    Known(Vec<Name>),
    /// Nobody reserves these yet.
    Missing(Vec<GpuGroup>),
    /// Their reservation pods have not said which they got.
    Awaited,
    /// They will not say it any more.
    Failed(String),
}

impl Sharer {
    fn has(&self, node: &Name, group: &GpuGroup) -> bool {
        self.node == *node && self.groups.contains(group)
    }
}

impl Reservations {
    pub(super) fn new(settings: GpuReservation) -> Self {
        let (pods, waiting, undeleted) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { settings, pods, waiting, undeleted }
    }

    pub(super) fn take(&mut self, news: News) {
        match news {
            News::All(_, objects) => {
                self.pods.clear();
                for object in &objects {
                    self.upsert(object);
                }
            }
            News::Changed(_, object) => {
                if let Some(object) = object.object() {
                    self.upsert(&object);
                }
            }
            News::Gone(_, gone) => {
                self.pods.remove(&Key::of_unread(&gone));
            }
        }
    }

    /// Takes a pod; one that was bound stays so until it ends.
    fn upsert(&mut self, pod: &Value) {
        let key = Key::of(pod);
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
        let held = known.filter(|known| known.holds);
        let holds = !finished && (bound.is_some() || held.is_some());
        let node = bound.or_else(|| held.map(|held| Name::clone(&held.node)));
        let node = node.unwrap_or_else(|| "".into());
        let index = annotated(pod, INDEX).filter(|index| !index.is_empty()).map(Name::from);
        self.pods.insert(key, Sharer { uid, node, version: version(pod), groups, holds, index });
    }

    /// A pod was bound just now.
    pub(super) fn note_bound(&mut self, key: &Key, order: &Order, pod: &Value) {
        self.waiting.remove(key);
        let uid = uid(pod);
        let (node, groups) = (Name::clone(&order.node), order.gpu_groups.clone());
        let sharer = Sharer { uid, node, version: version(pod), groups, holds: true, index: None };
        self.pods.insert(key.clone(), sharer);
    }

    fn is_reservation(&self, key: &Key) -> bool {
        *key.namespace == *self.settings.namespace && key.name.starts_with(RESERVATION_PREFIX)
    }

    /// The reservation pod of a group of that node.
    fn of_group(&self, node: &Name, group: &GpuGroup) -> Option<(&Key, &Sharer)> {
        let mut all = self.pods.iter();
        all.find(|(key, pod)| self.is_reservation(key) && pod.has(node, group))
    }

    /// The devices of a request.
    fn devices(&mut self, key: &Key, order: &Order) -> Devices {
        let (mut known, mut missing) = (Vec::new(), Vec::new());
        let mut awaited = None;
        for group in &order.gpu_groups {
            match self.of_group(&order.node, group) {
                None => missing.push(GpuGroup::clone(group)),
                Some((pod, Sharer { holds: false, .. })) => {
                    return Devices::Failed(format!("GPU reservation pod {pod} has ended"));
                }
                Some((_, Sharer { index: Some(index), .. })) => known.push(Name::clone(index)),
                Some((pod, _)) => awaited = Some(pod.clone()),
            }
        }
        if missing.is_empty() && awaited.is_none() {
            self.waiting.remove(key);
            return Devices::Known(known);
        }
        let since = *self.waiting.entry(key.clone()).or_insert_with(Instant::now);
        if since.elapsed() >= PATIENCE {
            self.waiting.remove(key);
            let pod = awaited.map(|pod| format!(": {pod}")).unwrap_or_default();
            let why = format!("failed waiting for GPU reservation pod to allocate{pod}");
            return Devices::Failed(why);
        }
        if missing.is_empty() { Devices::Awaited } else { Devices::Missing(missing) }
    }

    /// Sees to it that the devices of a request are reserved.
    pub(super) async fn reserve(&mut self, api: &Api, (key, order): (&Key, &Order)) -> Reserved {
        if order.problem(&key.name).is_some() {
            // The attempt tells it.
            return Reserved::Ready(Vec::new());
        }
        let devices = self.devices(key, order);
        if matches!(devices, Devices::Awaited) {
            return Reserved::Later;
        }
        if let Devices::Known(devices) = devices {
            return Reserved::Ready(devices);
        }
        let pod = match api.get(&path("v1", &key.namespace, "pods", &key.name)).await {
            Ok(pod) => Some(pod),
            Err(ApiError::NotFound(_)) => None,
            Err(error) => return Reserved::Unknown(error),
        };
        let ended = match devices {
            Devices::Missing(groups) => {
                let waits = |pod: &&Value| text(pod, "/spec/nodeName").is_none_or(str::is_empty);
                // For one that is bound, or is not there, nothing has to be reserved.
                let Some(pod) = pod.as_ref().filter(waits) else {
                    return Reserved::Ready(Vec::new());
                };
                self.start_all(api, (order, &groups), pod).await
            }
            Devices::Failed(why) => match self.end_failed(api, order).await {
                Ok(()) => Err(why),
                Err(error) => Err(format!("{why}; {error}")),
            },
            Devices::Known(_) | Devices::Awaited => Ok(()),
        };
        match ended {
            Ok(()) => Reserved::Later,
            Err(why) => {
                // The next attempt has all the time again.
                self.waiting.remove(key);
                Reserved::Never(Attempt { pod, ended: Err(why) })
            }
        }
    }

    async fn start_all(
        &self,
        api: &Api,
        (order, groups): (&Order, &[GpuGroup]),
        pod: &Value,
    ) -> Result<(), String> {
        for group in groups {
            let started = self.start(api, (order, group), pod).await;
            started.map_err(|error| format!("cannot reserve a GPU: {error}"))?;
        }
        Ok(())
    }

    /// When somebody has waited for long enough, of those that are not put off till later, or
    /// something is to be deleted again.
    pub(super) fn deadline(&self, put_off: &BTreeMap<Key, Instant>) -> Option<Instant> {
        let waiting = self.waiting.iter().filter(|(key, _)| !put_off.contains_key(key));
        let patience = waiting.map(|(_, since)| *since + PATIENCE);
        patience.chain(self.undeleted.values().map(|again| again.due)).min()
    }

    /// Requests that do not exist any more do not wait.
    pub(super) fn retain(&mut self, orders: &BTreeMap<Key, Order>) {
        self.waiting.retain(|key, _| orders.contains_key(key));
    }

    /// Starts the reservation pod of a group, on the node of a pod that is to share it.
    async fn start(
        &self,
        api: &Api,
        (order, group): (&Order, &GpuGroup),
        pod: &Value,
    ) -> Result<(), ApiError> {
        let GpuReservation { namespace, image, service_account, runtime_class, .. } =
            &self.settings;
        let gpu = json!({ "nvidia.com/gpu": "1" });
        let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        let mut spec = json!({
            "nodeName": &*order.node,
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
                "name": reservation_name(&order.node, group),
                "namespace": namespace,
                "labels": { "app": "kai-resource-reservation", "runai-gpu-group": &**group },
                "annotations": { "karpenter.sh/do-not-disrupt": "true" },
            },
            "spec": spec,
        });
        let made: Result<Value, ApiError> =
            api.create(&path("v1", namespace, "pods", ""), &object).await;
        match made {
            // It stands already; the watch tells.
            Ok(_) | Err(ApiError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Ends reservation pods that keep a device for nobody. What fails is tried again by itself,
    /// each time twice as long after the last one; the answer says what failed now.
    pub(super) async fn end_idle(
        &mut self,
        api: &Api,
        orders: &BTreeMap<Key, Order>,
    ) -> Vec<(Key, ApiError)> {
        let idle = self.idle(orders);
        self.undeleted.retain(|key, _| idle.contains_key(key));
        let now = Instant::now();
        let mut failed = Vec::new();
        for (key, uid) in idle {
            let before = self.undeleted.get(&key);
            if before.is_some_and(|again| again.due > now) {
                continue;
            }
            let failures = before.map_or(0, |again| again.failures).saturating_add(1);
            match self.end(api, (key.clone(), uid)).await {
                Ok(()) => drop(self.undeleted.remove(&key)),
                Err(error) => {
                    let again = Again { failures, due: Instant::now() + backoff(failures) };
                    self.undeleted.insert(key.clone(), again);
                    failed.push((key, error));
                }
            }
        }
        failed
    }

    /// Those that keep a device for nobody, with their uids.
    fn idle(&self, orders: &BTreeMap<Key, Order>) -> BTreeMap<Key, Name> {
        let is_wanted = |node: &Name, group: &GpuGroup| {
            let mut sharers = self.pods.iter().filter(|(key, _)| !self.is_reservation(key));
            let asks = |order: &Order| order.node == *node && order.gpu_groups.contains(group);
            sharers.any(|(_, pod)| pod.holds && pod.has(node, group)) || orders.values().any(asks)
        };
        let reservations = self.pods.iter().filter(|(key, _)| self.is_reservation(key));
        let idle = reservations
            .filter(|(_, pod)| !pod.groups.iter().any(|group| is_wanted(&pod.node, group)));
        idle.map(|(key, pod)| (key.clone(), Name::clone(&pod.uid))).collect()
    }

    /// Ends those of a request that was given up for want of a device.
    async fn end_failed(&mut self, api: &Api, order: &Order) -> Result<(), ApiError> {
        let of_order = order.gpu_groups.iter();
        let of_order = of_order.filter_map(|group| self.of_group(&order.node, group));
        let failed = of_order.filter(|(_, pod)| !pod.holds || pod.index.is_none());
        let failed: Vec<_> =
            failed.map(|(key, pod)| (key.clone(), Name::clone(&pod.uid))).collect();
        for one in failed {
            self.end(api, one).await?;
        }
        Ok(())
    }

    /// Ends a reservation pod.
    async fn end(&mut self, api: &Api, (key, uid): (Key, Name)) -> Result<(), ApiError> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": { "uid": &*uid },
        });
        match api.delete(&path("v1", &key.namespace, "pods", &key.name), &options).await {
            Ok(_) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => {
                self.pods.remove(&key);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// The same for the same device, so that two binders cannot reserve two for one group.
fn reservation_name(node: &str, group: &str) -> String {
    let bytes = node.bytes().chain([b'/']).chain(group.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{RESERVATION_PREFIX}{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GpuReservation;

    #[test]
    fn what_is_told_late_does_not_unbind_a_pod() {
        let mut all = Reservations::new(GpuReservation::with_image("i"));
        let key = Key { namespace: "ns".into(), name: "p".into() };
        let pod = json!({ "metadata": { "namespace": "ns", "name": "p", "uid": "u", "resourceVersion": "5" } });
        let order = Order::read(&json!({ "spec": { "selectedGPUGroups": ["g"] } }));
        all.note_bound(&key, &order, &pod);
        all.upsert(&pod);
        assert!(all.pods.get(&key).is_some_and(|pod| pod.holds), "as it was before");
        let mut later = pod;
        later["metadata"]["resourceVersion"] = json!("6");
        all.upsert(&later);
        assert!(!all.pods.contains_key(&key), "it shares nothing any more");
    }
}
