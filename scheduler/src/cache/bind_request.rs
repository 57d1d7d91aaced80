//! BindRequests in the cache: while one is open, its pod counts as bound to the selected node.

use schedlab_api::Value;
use schedlab_scheduler_core::model::{GpuGroup, Name, NumaAllocation, Time};

use super::ClusterCache;
use crate::{
    parse::{at, int32, list, name, text, time, uid, version},
    records::{NodeSource, ObjectKey, PodRecord, gpu_fractions, numa},
};

/// The fields of a BindRequest that affect scheduling. The request has the name of its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BindRequestRecord {
    pub(crate) uid: Name,
    /// UID of the pod; `None` without an owner reference.
    pub(crate) pod_uid: Option<Name>,
    pub(crate) node: Name,
    pub(crate) gpu_groups: Vec<GpuGroup>,
    /// `spec.predictedNUMAZones`.
    pub(crate) numa: Vec<NumaAllocation>,
    /// The binder has used up its attempts.
    pub(crate) is_exhausted: bool,
    /// The binder has bound the pod.
    pub(crate) has_succeeded: bool,
    /// `status.reason`: the error of the last attempt.
    reason: Option<Name>,
    created: Time,
    pub(crate) version: u64,
}

impl BindRequestRecord {
    pub(crate) fn from_object(object: &Value) -> Self {
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
            numa: at(object, "/spec/predictedNUMAZones")
                .map(numa::parse_placements)
                .unwrap_or_default(),
            is_exhausted: phase == Some("Failed") && attempts >= limit,
            has_succeeded: phase == Some("Succeeded"),
            reason: name(object, "/status/reason"),
            created: time(object, "/metadata/creationTimestamp").unwrap_or_default(),
            version: version(object),
        }
    }

    /// Whether the request is for the pod with this UID, rather than an earlier pod of the same
    /// name.
    pub(crate) fn is_for_pod_uid(&self, uid: &Name) -> bool {
        self.pod_uid.as_ref().is_none_or(|pod| pod == uid)
    }

    /// Whether the request is for an earlier pod of the same name. Without owner reference: a
    /// request that has succeeded was for a pod that was bound, so an unbound newer pod is another
    /// one.
    pub(crate) fn is_for_earlier_pod(&self, pod: &PodRecord) -> bool {
        let is_later = pod.reported.version > self.version || pod.created > self.created;
        let is_left_over = self.has_succeeded && self.pod_uid.is_none() && is_later;
        !self.is_for_pod_uid(&pod.uid) || is_left_over
    }

    /// The message of the request's last attempt, which failed, with KAI's text.
    pub(super) fn failure_message(&self, pod: &ObjectKey) -> Name {
        let why = self.reason.as_deref().unwrap_or("the binder gives no reason");
        format!("Failed to bind pod {pod} to node {}: {why}", self.node).into()
    }

    /// The node that the request selects for the pod; `None` if the request is closed or for
    /// another pod.
    fn selected_node_for(&self, pod: &PodRecord) -> Option<&Name> {
        let is_open = !self.is_exhausted && !self.node.is_empty() && !self.is_for_earlier_pod(pod);
        is_open.then_some(&self.node)
    }
}

impl ClusterCache {
    pub(super) fn upsert_bind_request(&mut self, key: ObjectKey, record: BindRequestRecord) {
        if self.bind_requests.get(&key).is_some_and(|known| known.version > record.version) {
            return;
        }
        self.bind_requests.insert(key.clone(), record);
        self.update_node_from_bind_request(key);
    }

    pub(super) fn remove_bind_request(&mut self, key: ObjectKey, version: u64) {
        if self.bind_requests.get(&key).is_some_and(|is| is.version <= version) {
            self.drop_bind_request(key);
        }
    }

    /// Removes a deleted BindRequest.
    pub(crate) fn drop_bind_request(&mut self, key: ObjectKey) {
        if self.bind_requests.remove(&key).is_some() {
            self.update_node_from_bind_request(key);
        }
    }

    /// Removes all BindRequests before a new list is read.
    pub(super) fn clear_bind_requests(&mut self) {
        for (key, _) in std::mem::take(&mut self.bind_requests) {
            self.update_node_from_bind_request(key);
        }
    }

    /// The open BindRequest of a pod, with the node that it selects.
    pub(super) fn find_open_bind_request(
        &self,
        key: &ObjectKey,
        pod: &PodRecord,
    ) -> Option<(Name, &BindRequestRecord)> {
        let request = self.bind_requests.get(key)?;
        Some((Name::clone(request.selected_node_for(pod)?), request))
    }

    /// Gives an unbound pod the node of its open BindRequest; without such a request, takes that
    /// node away.
    fn update_node_from_bind_request(&mut self, key: ObjectKey) {
        let Some(pod) =
            self.pods.get(&key).filter(|pod| pod.node.is_none() || pod.is_bind_requested())
        else {
            return;
        };
        let request = self.find_open_bind_request(&key, pod);
        let node_source =
            if request.is_some() { NodeSource::BindRequest } else { NodeSource::Bound };
        let (node, mut groups, zones) = match request {
            Some((node, it)) => (Some(node), it.gpu_groups.clone(), it.numa.clone()),
            None => (None, Vec::new(), Vec::new()),
        };
        if groups.is_empty() {
            groups = gpu_fractions::gpu_groups(&pod.labels);
        }
        let known = (&pod.node, pod.node_source, &pod.gpu_groups, &pod.numa);
        if known == (&node, node_source, &groups, &zones) {
            return;
        }
        if let Some(mut pod) = self.pods.get_mut(&key) {
            (pod.node, pod.node_source) = (node, node_source);
            (pod.gpu_groups, pod.numa) = (groups, zones);
        }
        self.pod_changed(key);
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

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

    fn node(cache: &ClusterCache) -> Option<&str> {
        cache.pods.values().next().and_then(|pod| pod.node.as_deref())
    }

    #[test]
    fn an_open_bind_request_gives_its_pod_a_node_whichever_arrives_first() {
        let ours = json!({ "schedulerName": "kai-scheduler" });
        for pod_first in [true, false] {
            let mut cache = ClusterCache::new("kai-scheduler");
            if pod_first {
                cache.upsert(Kind::Pod, &pod(1, &ours));
            }
            cache.upsert(Kind::BindRequest, &request("n1", "u", 2, &json!({})));
            if !pod_first {
                cache.upsert(Kind::Pod, &pod(1, &ours));
            }
            assert_eq!(node(&cache), Some("n1"), "pod first: {pod_first}");
            cache.upsert(Kind::Pod, &pod(3, &ours));
            assert_eq!(node(&cache), Some("n1"));
            cache.relist(Kind::BindRequest, &[]);
            assert_eq!(node(&cache), None);
        }
    }

    #[test]
    fn an_exhausted_deleted_or_foreign_bind_request_gives_no_node() {
        let mut cache = ClusterCache::new("kai-scheduler");
        cache.upsert(Kind::Pod, &pod(1, &json!({})));
        cache.upsert(Kind::BindRequest, &request("n1", "before", 2, &json!({})));
        assert_eq!(node(&cache), None, "an earlier pod's");
        cache.upsert(Kind::BindRequest, &request("n1", "u", 3, &json!({})));
        assert_eq!(node(&cache), Some("n1"));
        let spec = json!({ "podName": "p", "selectedNode": "n1", "backoffLimit": 2 });
        let failed = |version, attempts: u32| {
            let status = json!({ "phase": "Failed", "failedAttempts": attempts });
            let mut object = request("n1", "u", version, &json!({ "/spec": spec }));
            object["status"] = status;
            object
        };
        cache.upsert(Kind::BindRequest, &failed(4, 1));
        assert_eq!(node(&cache), Some("n1"), "one more try");
        cache.upsert(Kind::BindRequest, &failed(5, 2));
        assert_eq!(node(&cache), None, "spent");
        cache.upsert(Kind::BindRequest, &request("n2", "u", 6, &json!({})));
        assert_eq!(node(&cache), Some("n2"));
        cache.remove(Kind::BindRequest, ObjectKey { namespace: "ns".into(), name: "p".into() }, 7);
        assert_eq!(node(&cache), None, "gone");
    }

    #[test]
    fn gpu_groups_are_parsed_from_the_old_and_the_new_field() {
        let read =
            |spec: Value| BindRequestRecord::from_object(&json!({ "spec": spec })).gpu_groups;
        let newer = json!([{ "id": "b", "computeSharingMode": "time-slicing" }]);
        assert_eq!(read(json!({ "selectedGPUGroups": ["a"] })), ["a".into()]);
        assert_eq!(read(json!({ "selectedFractionalGpuGroups": newer })), ["b".into()]);
        let both = json!({ "selectedGPUGroups": ["a"], "selectedFractionalGpuGroups": newer });
        assert_eq!(read(both), ["b".into()]);
    }

    #[test]
    fn a_succeeded_bind_request_without_owner_gives_the_next_pod_of_its_name_no_node() {
        let key = ObjectKey { namespace: "ns".into(), name: "p".into() };
        let done = |version| {
            let no_owner = json!({ "/metadata/ownerReferences": [] });
            let mut object = request("n1", "", version, &no_owner);
            object["status"] = json!({ "phase": "Succeeded" });
            object
        };
        let mut cache = ClusterCache::new("kai-scheduler");
        cache.upsert(Kind::Pod, &pod(1, &json!({})));
        cache.upsert(Kind::BindRequest, &done(3));
        assert_eq!(node(&cache), Some("n1"), "that it is bound is still to be told");
        cache.upsert(Kind::Pod, &pod(2, &json!({ "nodeName": "n1" })));
        cache.remove(Kind::Pod, key, 4);
        let mut next = pod(5, &json!({}));
        next["metadata"]["uid"] = json!("next");
        cache.upsert(Kind::Pod, &next);
        assert_eq!(node(&cache), None, "the next pod of that name");
        cache.relist(Kind::BindRequest, &[]);
        cache.upsert(Kind::BindRequest, &done(3));
        assert_eq!(node(&cache), None, "told of after the pod");
    }

    #[test]
    fn the_node_name_of_a_pod_outweighs_its_bind_request() {
        let mut cache = ClusterCache::new("kai-scheduler");
        cache.upsert(Kind::BindRequest, &request("n1", "u", 1, &json!({})));
        cache.upsert(Kind::Pod, &pod(2, &json!({ "nodeName": "n2" })));
        assert_eq!(node(&cache), Some("n2"));
        cache.upsert(Kind::BindRequest, &request("n3", "u", 3, &json!({})));
        cache.relist(Kind::BindRequest, &[]);
        assert_eq!(node(&cache), Some("n2"));
    }
}
