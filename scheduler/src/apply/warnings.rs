//! Objects that cannot be read as they stand, told on the objects themselves, once.

use schedlab_scheduler_core::model::{Name, Time};

use super::{About, Applier, Event, Level, pod_groups, writes::Write};
use crate::{
    config::Flavor,
    mirror::{CLASS_LABEL, GroupRecord, Key, Mirror, SliceFault},
    translate::is_known_class,
};

impl Applier {
    pub(super) async fn warn(&mut self, mirror: &mut Mirror, now: Time) {
        let mut warnings = nodes(mirror);
        warnings.extend(slices(mirror));
        if self.flavor == Flavor::Kai {
            warnings.extend(zones(mirror));
            warnings.extend(groups(mirror));
            warnings.extend(labelled_classes(mirror));
            warnings.extend(pods(mirror));
            warnings.extend(selectors(mirror));
        }
        let mut chains = Vec::new();
        for (about, reason, message) in &warnings {
            let level = Level::Warning;
            let event = Event { about, level, reason, message, gist: None, occasion: "" };
            if self.warned.insert(event.name()) {
                chains.push(vec![Write::event(&event, &self.api.name, now)]);
            }
        }
        self.write(mirror, chains).await;
    }
}

type Warning = (About, &'static str, String);

fn nodes(mirror: &Mirror) -> Vec<Warning> {
    let warning = |(name, record): (&Name, &crate::mirror::NodeRecord)| {
        let key = Key { namespace: "".into(), name: Name::clone(name) };
        let uid = Name::clone(&record.uid);
        let malformed = record.malformed.as_ref()?;
        let about = About { api_version: "v1", kind: "Node", key, uid };
        Some((about, "Malformed", format!("{malformed}; until then it counts as nothing")))
    };
    mirror.nodes.iter().filter_map(warning).collect()
}

fn slices(mirror: &Mirror) -> Vec<Warning> {
    let faults = mirror.claims.slice_faults();
    let warning = |(name, uid, SliceFault { wrong, instead }): (&Name, &Name, &SliceFault)| {
        let key = Key { namespace: "".into(), name: Name::clone(name) };
        let (api_version, kind) = ("resource.k8s.io/v1", "ResourceSlice");
        let about = About { api_version, kind, key, uid: Name::clone(uid) };
        (about, "Malformed", format!("{wrong}; until then {instead}"))
    };
    faults.map(warning).collect()
}

fn zones(mirror: &Mirror) -> Vec<Warning> {
    let warning = |(name, record): (&Name, &crate::mirror::NumaRecord)| {
        let key = Key { namespace: "".into(), name: Name::clone(name) };
        let uid = Name::clone(&record.uid);
        let malformed = record.malformed.as_ref()?;
        let (api_version, kind) = ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology");
        let about = About { api_version, kind, key, uid };
        Some((about, "Malformed", format!("{malformed}; until then it binds nobody")))
    };
    mirror.topologies_of_nodes.iter().filter_map(warning).collect()
}

/// Pods whose order among the pods of their group is no number.
fn pods(mirror: &Mirror) -> Vec<Warning> {
    let warning = |(key, record): (&Key, &crate::mirror::PodRecord)| {
        if !(record.ours && record.waits()) {
            return None;
        }
        let fault = record.task_priority_fault()?;
        let message = format!("{fault}; until then it counts as none");
        Some((About::pod(key, &record.uid), "Malformed", message))
    };
    mirror.pods.iter().filter_map(warning).collect()
}

/// Pods whose claims select by what cannot be judged of the devices there are.
fn selectors(mirror: &Mirror) -> Vec<Warning> {
    let warning = |(key, fault): (Key, String)| {
        let uid = mirror.pods.get(&key).map(|pod| Name::clone(&pod.uid)).unwrap_or_default();
        (About::pod(&key, &uid), "UnjudgedSelector", fault)
    };
    mirror.claims.unjudged(&mirror.pods).into_iter().map(warning).collect()
}

/// Groups whose owner or pods ask, in a label, for a class that does not exist: their kind's holds.
fn labelled_classes(mirror: &Mirror) -> Vec<Warning> {
    let by_owners = mirror
        .groups
        .iter()
        .filter_map(|(key, record)| Some((key.clone(), record, record.class_label.as_ref()?)));
    let by_pods = mirror.pods.iter().filter_map(|(key, pod)| {
        let class = pod.class_label().filter(|_| pod.ours && pod.waits())?;
        let (namespace, name) = (Name::clone(&key.namespace), Name::clone(pod.group.as_ref()?));
        let group = Key { namespace, name };
        let record = mirror.groups.get(&group)?;
        record.class_label.is_none().then_some((group, record, class))
    });
    let warning = |(key, record, class): (Key, &GroupRecord, &Name)| {
        let used = record.priority_class.as_ref().filter(|used| *used != class)?;
        if is_known_class(&mirror.classes, class) {
            return None;
        }
        let message = format!(
            "label {CLASS_LABEL}: PriorityClass '{class}' does not exist: '{used}' is used"
        );
        Some((pod_groups::about(&key, &record.uid), "PriorityClassNotFound", message))
    };
    by_owners.chain(by_pods).filter_map(warning).collect()
}

fn groups(mirror: &Mirror) -> Vec<Warning> {
    let mut warnings = Vec::new();
    // Most groups have the class of the one before.
    let mut known: Option<&Name> = None;
    for (key, record) in &mirror.groups {
        let about = || pod_groups::about(key, &record.uid);
        if let Some(malformed) = &record.malformed {
            warnings.push((about(), "Malformed", malformed.to_string()));
        }
        let Some(class) = record.priority_class.as_ref().filter(|class| known != Some(*class))
        else {
            continue;
        };
        if is_known_class(&mirror.classes, class) {
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
    use schedlab_json::{Value, json};

    use super::*;
    use crate::watch::Kind;

    fn told(warnings: &[Warning]) -> String {
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
    fn a_labelled_class_that_does_not_exist_is_told_on_the_group_with_what_holds_instead() {
        let mut mirror = Mirror::new("kai-scheduler");
        mirror.upsert(Kind::PriorityClass, &json!({ "metadata": { "name": "mine" }, "value": 7 }));
        mirror.upsert(Kind::PodGroup, &group("owned", &json!({ "priorityClassName": "urgent" })));
        mirror.upsert(Kind::PodGroup, &group("pods", &json!({})));
        mirror.upsert(Kind::PodGroup, &group("good", &json!({ "priorityClassName": "mine" })));
        mirror.upsert(Kind::Pod, &pod("a", "pods", "fast"));
        mirror.upsert(Kind::Pod, &pod("b", "pods", "build"));
        mirror.upsert(Kind::Pod, &pod("c", "owned", "fast"));
        assert_snapshot!(told(&labelled_classes(&mirror)), @r"
        PodGroup owned: PriorityClassNotFound: label priorityClassName: PriorityClass 'urgent' does not exist: 'train' is used
        PodGroup pods: PriorityClassNotFound: label priorityClassName: PriorityClass 'fast' does not exist: 'train' is used
        ");
    }

    #[test]
    fn a_slice_or_a_device_that_cannot_be_used_is_told_on_the_slice() {
        let requirement = json!({ "key": "rank", "operator": "Gt", "values": ["abc"] });
        let term = json!({ "matchExpressions": [requirement] });
        let devices = json!([
            { "name": "a", "nodeSelector": { "nodeSelectorTerms": [term] } },
            { "name": "b", "nodeName": "n" },
        ]);
        let slice = json!({ "metadata": { "name": "gpus" }, "spec": {
            "driver": "gpu.x", "pool": { "name": "n", "generation": 1 },
            "perDeviceNodeSelection": true, "devices": devices } });
        let mut mirror = Mirror::new("kai-scheduler");
        mirror.upsert(Kind::ResourceSlice, &slice);
        assert_snapshot!(told(&slices(&mirror)), @r#"ResourceSlice gpus: Malformed: spec.devices[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[0]: found "abc", allowed: an integer; until then the device is not used"#);
    }
}
