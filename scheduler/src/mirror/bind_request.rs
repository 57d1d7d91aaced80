//! A BindRequest as the mirror keeps it: while it is open its pod counts as bound to the node.

use schedlab_json::Value;
use schedlab_scheduler_core::model::{GpuGroup, Name, Time, ZoneShare};

use super::{Key, Mirror, Place, PodRecord, gpu, numa};
use crate::parse::{at, int32, list, name, text, time, uid, version};

/// What is kept of a BindRequest. It has the name of its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestRecord {
    pub(crate) uid: Name,
    /// The pod's, where the owner reference names it.
    pub(crate) pod_uid: Option<Name>,
    pub(crate) node: Name,
    pub(crate) gpu_groups: Vec<GpuGroup>,
    /// What the pod is to have of that node's zones.
    pub(crate) zones: Vec<ZoneShare>,
    /// The binder has given up.
    pub(crate) is_spent: bool,
    /// The binder has bound its pod.
    pub(crate) has_succeeded: bool,
    created: Time,
    pub(crate) version: u64,
}

impl RequestRecord {
    pub(crate) fn read(object: &Value) -> Self {
        let owners = list(object, "/metadata/ownerReferences").iter();
        let mut pods = owners.filter(|owner| owner["kind"] == "Pod");
        let newer = list(object, "/spec/selectedFractionalGpuGroups").iter();
        let mut groups: Vec<GpuGroup> =
            newer.filter_map(|group| text(group, "/id")).map(GpuGroup::from).collect();
        if groups.is_empty() {
            let named = list(object, "/spec/selectedGPUGroups").iter();
            groups = named.filter_map(Value::as_str).map(GpuGroup::from).collect();
        }
        let phase = text(object, "/status/phase");
        let attempts = int32(object, "/status/failedAttempts").unwrap_or(0);
        let limit = int32(object, "/spec/backoffLimit").unwrap_or(0);
        Self {
            uid: uid(object),
            pod_uid: pods.find_map(|owner| name(owner, "/uid")),
            node: name(object, "/spec/selectedNode").unwrap_or_else(|| "".into()),
            gpu_groups: groups,
            zones: at(object, "/spec/predictedNUMAZones")
                .map(numa::read_shares)
                .unwrap_or_default(),
            is_spent: phase == Some("Failed") && attempts >= limit,
            has_succeeded: phase == Some("Succeeded"),
            created: time(object, "/metadata/creationTimestamp").unwrap_or_default(),
            version: version(object),
        }
    }

    /// It is about this very pod, and not about an earlier one of its name.
    pub(crate) fn is_about(&self, uid: &Name) -> bool {
        self.pod_uid.as_ref().is_none_or(|pod| pod == uid)
    }

    /// It is not about this pod but about an earlier one of its name. Where no owner says so: its
    /// own pod was bound before it succeeded, and says that itself by then.
    pub(crate) fn is_of_another(&self, pod: &PodRecord) -> bool {
        let is_later = pod.told.version > self.version || pod.created > self.created;
        let is_left_over = self.has_succeeded && self.pod_uid.is_none() && is_later;
        !self.is_about(&pod.uid) || is_left_over
    }

    /// Where it sends this pod; `None` once it does not any more.
    fn node_for(&self, pod: &PodRecord) -> Option<&Name> {
        let is_open = !self.is_spent && !self.node.is_empty() && !self.is_of_another(pod);
        is_open.then_some(&self.node)
    }
}

impl Mirror {
    pub(super) fn upsert_request(&mut self, key: Key, record: RequestRecord) {
        if self.requests.get(&key).is_some_and(|known| known.version > record.version) {
            return;
        }
        self.requests.insert(key.clone(), record);
        self.follow_request(key);
    }

    pub(super) fn remove_request(&mut self, key: Key, gone_at: u64) {
        if self.requests.get(&key).is_some_and(|is| is.version <= gone_at) {
            self.forget_request(key);
        }
    }

    /// It was deleted.
    pub(crate) fn forget_request(&mut self, key: Key) {
        if self.requests.remove(&key).is_some() {
            self.follow_request(key);
        }
    }

    /// All of them are to be read anew.
    pub(super) fn clear_requests(&mut self) {
        for (key, _) in std::mem::take(&mut self.requests) {
            self.follow_request(key);
        }
    }

    /// A pod's open request, and where it sends the pod.
    pub(super) fn request_for(&self, key: &Key, pod: &PodRecord) -> Option<(Name, &RequestRecord)> {
        let request = self.requests.get(key)?;
        Some((Name::clone(request.node_for(pod)?), request))
    }

    /// A pod that nobody has bound stands where its request says.
    fn follow_request(&mut self, key: Key) {
        let Some(pod) = self.pods.get(&key).filter(|pod| pod.node.is_none() || pod.is_requested())
        else {
            return;
        };
        let request = self.request_for(&key, pod);
        let place = if request.is_some() { Place::Requested } else { Place::Bound };
        let (node, mut groups, zones) = match request {
            Some((node, it)) => (Some(node), it.gpu_groups.clone(), it.zones.clone()),
            None => (None, Vec::new(), Vec::new()),
        };
        if groups.is_empty() {
            groups = gpu::groups(&pod.labels);
        }
        let known = (&pod.node, pod.place, &pod.gpu_groups, &pod.zones);
        if known == (&node, place, &groups, &zones) {
            return;
        }
        if let Some(pod) = self.pods.get_mut(&key) {
            (pod.node, pod.place) = (node, place);
            (pod.gpu_groups, pod.zones) = (groups, zones);
        }
        self.pod_changed(key);
    }
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;
    use crate::watch::Kind;

    fn request(node: &str, uid: &str, version: u32, more: &Value) -> Value {
        let mut object = json!({
            "metadata": { "namespace": "ns", "name": "p", "uid": "r", "resourceVersion": version.to_string(),
                          "ownerReferences": [{ "kind": "Pod", "name": "p", "uid": uid }] },
            "spec": { "podName": "p", "selectedNode": node },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            let part = object.pointer_mut(key).unwrap();
            *part = value.clone();
        }
        object
    }

    fn pod(version: u32, spec: &Value) -> Value {
        json!({ "metadata": { "namespace": "ns", "name": "p", "uid": "u",
                              "resourceVersion": version.to_string() }, "spec": spec })
    }

    fn node(mirror: &Mirror) -> Option<&str> {
        mirror.pods.values().next().and_then(|pod| pod.node.as_deref())
    }

    #[test]
    fn a_pod_stands_where_its_open_request_sends_it_in_whichever_order_they_are_told() {
        let ours = json!({ "schedulerName": "kai-scheduler" });
        for pod_first in [true, false] {
            let mut mirror = Mirror::new("kai-scheduler");
            if pod_first {
                mirror.upsert(Kind::Pod, &pod(1, &ours));
            }
            mirror.upsert(Kind::BindRequest, &request("n1", "u", 2, &json!({})));
            if !pod_first {
                mirror.upsert(Kind::Pod, &pod(1, &ours));
            }
            assert_eq!(node(&mirror), Some("n1"), "pod first: {pod_first}");
            mirror.upsert(Kind::Pod, &pod(3, &ours));
            assert_eq!(node(&mirror), Some("n1"));
            mirror.relist(Kind::BindRequest, &[]);
            assert_eq!(node(&mirror), None);
        }
    }

    #[test]
    fn a_request_that_failed_for_good_or_is_gone_or_is_another_pods_frees_the_place() {
        let mut mirror = Mirror::new("kai-scheduler");
        mirror.upsert(Kind::Pod, &pod(1, &json!({})));
        mirror.upsert(Kind::BindRequest, &request("n1", "before", 2, &json!({})));
        assert_eq!(node(&mirror), None, "an earlier pod's");
        mirror.upsert(Kind::BindRequest, &request("n1", "u", 3, &json!({})));
        assert_eq!(node(&mirror), Some("n1"));
        let spec = json!({ "podName": "p", "selectedNode": "n1", "backoffLimit": 2 });
        let failed = |version, attempts: u32| {
            let status = json!({ "phase": "Failed", "failedAttempts": attempts });
            let mut object = request("n1", "u", version, &json!({ "/spec": spec }));
            object["status"] = status;
            object
        };
        mirror.upsert(Kind::BindRequest, &failed(4, 1));
        assert_eq!(node(&mirror), Some("n1"), "one more try");
        mirror.upsert(Kind::BindRequest, &failed(5, 2));
        assert_eq!(node(&mirror), None, "spent");
        mirror.upsert(Kind::BindRequest, &request("n2", "u", 6, &json!({})));
        assert_eq!(node(&mirror), Some("n2"));
        mirror.remove(Kind::BindRequest, Key { namespace: "ns".into(), name: "p".into() }, 7);
        assert_eq!(node(&mirror), None, "gone");
    }

    #[test]
    fn shared_gpus_are_read_as_older_and_newer_versions_name_them() {
        let read = |spec: Value| RequestRecord::read(&json!({ "spec": spec })).gpu_groups;
        let newer = json!([{ "id": "b", "computeSharingMode": "time-slicing" }]);
        assert_eq!(read(json!({ "selectedGPUGroups": ["a"] })), ["a".into()]);
        assert_eq!(read(json!({ "selectedFractionalGpuGroups": newer })), ["b".into()]);
        let both = json!({ "selectedGPUGroups": ["a"], "selectedFractionalGpuGroups": newer });
        assert_eq!(read(both), ["b".into()]);
    }

    #[test]
    fn a_request_without_owner_that_succeeded_holds_no_place_of_the_next_pod() {
        let key = Key { namespace: "ns".into(), name: "p".into() };
        let done = |version| {
            let no_owner = json!({ "/metadata/ownerReferences": [] });
            let mut object = request("n1", "", version, &no_owner);
            object["status"] = json!({ "phase": "Succeeded" });
            object
        };
        let mut mirror = Mirror::new("kai-scheduler");
        mirror.upsert(Kind::Pod, &pod(1, &json!({})));
        mirror.upsert(Kind::BindRequest, &done(3));
        assert_eq!(node(&mirror), Some("n1"), "that it is bound is still to be told");
        mirror.upsert(Kind::Pod, &pod(2, &json!({ "nodeName": "n1" })));
        mirror.remove(Kind::Pod, key, 4);
        let mut next = pod(5, &json!({}));
        next["metadata"]["uid"] = json!("next");
        mirror.upsert(Kind::Pod, &next);
        assert_eq!(node(&mirror), None, "the next pod of that name");
        mirror.relist(Kind::BindRequest, &[]);
        mirror.upsert(Kind::BindRequest, &done(3));
        assert_eq!(node(&mirror), None, "told of after the pod");
    }

    #[test]
    fn what_the_pod_itself_says_outweighs_its_request() {
        let mut mirror = Mirror::new("kai-scheduler");
        mirror.upsert(Kind::BindRequest, &request("n1", "u", 1, &json!({})));
        mirror.upsert(Kind::Pod, &pod(2, &json!({ "nodeName": "n2" })));
        assert_eq!(node(&mirror), Some("n2"));
        mirror.upsert(Kind::BindRequest, &request("n3", "u", 3, &json!({})));
        mirror.relist(Kind::BindRequest, &[]);
        assert_eq!(node(&mirror), Some("n2"));
    }
}
