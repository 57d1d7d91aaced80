//! Warning events on malformed objects, written once.

use schedlab_api::labels::PRIORITY_CLASS;
use schedlab_scheduler_core::model::{Name, Time};

use super::{Applier, Event, EventType, InvolvedObject, pod_groups, writes::Write};
use crate::{
    cache::{ClusterCache, GroupMark, PodGroupRecord},
    config::Flavor,
    dra::SliceFault,
    records::{ObjectKey, PodMark},
    snapshot_builder::is_known_class,
};

impl Applier {
    pub(super) async fn report_warnings(&mut self, cache: &mut ClusterCache, now: Time) {
        let mut warnings = node_warnings(cache);
        warnings.extend(slice_warnings(cache));
        if self.flavor == Flavor::Kai {
            warnings.extend(numa_topology_warnings(cache));
            warnings.extend(group_warnings(cache));
            warnings.extend(missing_class_warnings(cache));
            warnings.extend(pod_warnings(cache));
            warnings.extend(selector_warnings(cache));
        }
        let mut chains = Vec::new();
        for (about, reason, message) in &warnings {
            let level = EventType::Warning;
            let event = Event {
                involved: about,
                event_type: level,
                reason,
                message,
                dedup_key: None,
                dedup_scope: "",
            };
            if self.reported_warnings.insert(event.object_name()) {
                chains.push(vec![Write::create_event(&event, &self.api.name, now)]);
            }
        }
        self.write(cache, chains).await;
    }
}

type Warning = (InvolvedObject, &'static str, String);

fn node_warnings(cache: &ClusterCache) -> Vec<Warning> {
    let warning = |(name, record): (&Name, &crate::cache::NodeRecord)| {
        let key = ObjectKey { namespace: "".into(), name: Name::clone(name) };
        let uid = Name::clone(&record.uid);
        let malformed = record.malformed.as_ref()?;
        let about = InvolvedObject { api_version: "v1", kind: "Node", key, uid };
        Some((about, "Malformed", format!("{malformed}; it counts as 0 until it is fixed")))
    };
    cache.nodes.iter().filter_map(warning).collect()
}

fn slice_warnings(cache: &ClusterCache) -> Vec<Warning> {
    let faults = cache.resource_claims.slice_faults();
    let warning =
        |(name, uid, SliceFault { error: wrong, consequence }): (&Name, &Name, &SliceFault)| {
            let key = ObjectKey { namespace: "".into(), name: Name::clone(name) };
            let (api_version, kind) = ("resource.k8s.io/v1", "ResourceSlice");
            let about = InvolvedObject { api_version, kind, key, uid: Name::clone(uid) };
            (about, "Malformed", format!("{wrong}; {consequence} until this is fixed"))
        };
    faults.map(warning).collect()
}

fn numa_topology_warnings(cache: &ClusterCache) -> Vec<Warning> {
    let warning = |(name, record): (&Name, &crate::records::NumaRecord)| {
        let key = ObjectKey { namespace: "".into(), name: Name::clone(name) };
        let uid = Name::clone(&record.uid);
        let malformed = record.malformed.as_ref()?;
        let (api_version, kind) = ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology");
        let about = InvolvedObject { api_version, kind, key, uid };
        Some((about, "Malformed", format!("{malformed}; it constrains no pods until it is fixed")))
    };
    cache.numa_topologies.iter().filter_map(warning).collect()
}

/// Warnings about pods with an invalid task priority.
fn pod_warnings(cache: &ClusterCache) -> Vec<Warning> {
    let warning = |(key, record): (&ObjectKey, &crate::records::PodRecord)| {
        let fault = record.task_priority_error()?;
        let message = format!("{fault}; the label is ignored until it is fixed");
        Some((InvolvedObject::for_pod(key, &record.uid), "Malformed", message))
    };
    cache.pods.marked_records(PodMark::Warning).filter_map(warning).collect()
}

/// Warnings about pods whose claims have selectors that cannot be evaluated for the published
/// devices.
fn selector_warnings(cache: &ClusterCache) -> Vec<Warning> {
    let warning = |(key, fault): (ObjectKey, String)| {
        let uid = cache.pods.get(&key).map(|pod| Name::clone(&pod.uid)).unwrap_or_default();
        (InvolvedObject::for_pod(&key, &uid), "UnjudgedSelector", fault)
    };
    cache.resource_claims.unevaluable_selectors(&cache.pods).into_iter().map(warning).collect()
}

/// Warnings about groups whose owner or pods name a missing PriorityClass in a label; the class of
/// the group is used instead.
fn missing_class_warnings(cache: &ClusterCache) -> Vec<Warning> {
    let is_missing = |class: &&Name| !is_known_class(&cache.priority_classes, class);
    let by_owners =
        cache.groups.marked_records(GroupMark::ClassLabel).filter_map(|(key, record)| {
            Some((key.clone(), record, record.class_label.as_ref().filter(is_missing)?))
        });
    let by_pods = cache.pods.marked_records(PodMark::Warning).filter_map(|(key, pod)| {
        let class = pod.priority_class_label().filter(is_missing)?;
        let (namespace, name) = (Name::clone(&key.namespace), Name::clone(pod.group.as_ref()?));
        let group = ObjectKey { namespace, name };
        let record = cache.groups.get(&group)?;
        record.class_label.is_none().then_some((group, record, class))
    });
    let warning = |(key, record, class): (ObjectKey, &PodGroupRecord, &Name)| {
        let used = record.priority_class.as_ref().filter(|used| *used != class)?;
        let message = format!(
            "label {PRIORITY_CLASS}: PriorityClass '{class}' does not exist: '{used}' is used"
        );
        Some((pod_groups::involved_object(&key, &record.uid), "PriorityClassNotFound", message))
    };
    by_owners.chain(by_pods).filter_map(warning).collect()
}

fn group_warnings(cache: &ClusterCache) -> Vec<Warning> {
    let mut warnings = Vec::new();
    // Most groups have the same class as the one before.
    let mut known: Option<&Name> = None;
    for (key, record) in cache.groups.marked_records(GroupMark::Unusual) {
        let about = || pod_groups::involved_object(key, &record.uid);
        if let Some(malformed) = &record.malformed {
            warnings.push((about(), "Malformed", malformed.to_string()));
        }
        let Some(class) = record.priority_class.as_ref().filter(|class| known != Some(*class))
        else {
            continue;
        };
        if is_known_class(&cache.priority_classes, class) {
            known = Some(class);
        } else {
            let message = format!("PriorityClass '{class}' does not exist: the default is used");
            warnings.push((about(), "PriorityClassNotFound", message));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_api::{Value, json};

    use super::*;
    use crate::watch::Kind;

    fn rendered(warnings: &[Warning]) -> String {
        let line = |(about, reason, message): &Warning| {
            format!("{} {}: {reason}: {message}\n", about.kind, about.key.name)
        };
        warnings.iter().map(line).collect()
    }

    fn group(name: &str, labels: &Value) -> Value {
        json!({ "metadata": { "namespace": "ns", "name": name, "labels": labels },
                "spec": { "priorityClassName": "train" } })
    }

    fn pod(name: &str, group: &str, class: &str) -> Value {
        json!({ "metadata": { "namespace": "ns", "name": name,
                              "labels": { "priorityClassName": class },
                              "annotations": { "pod-group-name": group } },
                "spec": { "schedulerName": "kai-scheduler" } })
    }

    #[test]
    fn a_missing_priority_class_of_a_label_is_reported_with_the_one_in_use() {
        let mut cache = ClusterCache::new("kai-scheduler");
        cache.upsert(Kind::PriorityClass, &json!({ "metadata": { "name": "mine" }, "value": 7 }));
        cache.upsert(Kind::PodGroup, &group("owned", &json!({ "priorityClassName": "urgent" })));
        cache.upsert(Kind::PodGroup, &group("pods", &json!({})));
        cache.upsert(Kind::PodGroup, &group("good", &json!({ "priorityClassName": "mine" })));
        cache.upsert(Kind::Pod, &pod("a", "pods", "fast"));
        cache.upsert(Kind::Pod, &pod("b", "pods", "build"));
        cache.upsert(Kind::Pod, &pod("c", "owned", "fast"));
        assert_snapshot!(rendered(&missing_class_warnings(&cache)), @r"
        PodGroup owned: PriorityClassNotFound: label priorityClassName: PriorityClass 'urgent' does not exist: 'train' is used
        PodGroup pods: PriorityClassNotFound: label priorityClassName: PriorityClass 'fast' does not exist: 'train' is used
        ");
    }

    #[test]
    fn an_unusable_slice_or_device_is_reported_on_the_slice() {
        let requirement = json!({ "key": "rank", "operator": "Gt", "values": ["abc"] });
        let term = json!({ "matchExpressions": [requirement] });
        let devices = json!([
            { "name": "a", "nodeSelector": { "nodeSelectorTerms": [term] } },
            { "name": "b", "nodeName": "n" },
        ]);
        let slice = json!({ "metadata": { "name": "gpus" }, "spec": {
            "driver": "gpu.x", "pool": { "name": "n", "generation": 1 },
            "perDeviceNodeSelection": true, "devices": devices } });
        let mut cache = ClusterCache::new("kai-scheduler");
        cache.upsert(Kind::ResourceSlice, &slice);
        assert_snapshot!(rendered(&slice_warnings(&cache)), @r#"ResourceSlice gpus: Malformed: spec.devices[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[0]: got "abc", expected an integer; the device is not used until this is fixed"#);
    }
}
