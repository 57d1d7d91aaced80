//! Bindings, what is told of them, and promises of room that is not free yet.

use std::collections::BTreeSet;

use schedlab_json::{Value, json};
use schedlab_scheduler_core::{
    Decision,
    model::{GpuGroup, Name, NodeId, PodGroupId, PodId, PodStatus, Time},
};

use super::{
    About, Applier, Cycle, Event, Level,
    writes::{Call, Chain, Then, Write},
};
use crate::{
    api::{Merge, path},
    config::{Flavor, NodePool},
    mirror::{BINDING_ERROR, GROUP_LABEL, Key, Mirror, PREDICTED, written_shares},
    watch::Kind,
};

impl Applier {
    /// Binds a pod. A mark of its group that has not been written yet goes with the binding:
    /// the server copies annotations to the pod. Labels are written before: a pod that has a node
    /// has them, and those of one that has none mean nothing.
    pub(super) fn bind(
        &self,
        mirror: &Mirror,
        cycle: &Cycle<'_>,
        (pod, node): (PodId, NodeId),
    ) -> Chain {
        let key = cycle.key(pod);
        let node = &cycle.snapshot.nodes[node.0 as usize].name;
        let uid = &cycle.snapshot.pods[pod.0 as usize].uid;
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": &*key.name, "namespace": &*key.namespace, "uid": &**uid },
            "target": { "apiVersion": "v1", "kind": "Node", "name": &**node },
        });
        let record = mirror.pods.get(&key).filter(|record| !record.told.marked);
        if let Some(group) = record.and_then(|record| record.group.as_ref()) {
            object["metadata"]["annotations"] = json!({ "pod-group-name": &**group });
        }
        let zones = cycle.plan.zones.get(&pod).cloned().unwrap_or_default();
        if !zones.is_empty() {
            let foretold = written_shares(&zones).to_string();
            object["metadata"]["annotations"][PREDICTED] = json!(foretold);
        }
        let path = path("v1", &key.namespace, "pods", &key.name);
        let devices = cycle.plan.gpu_groups.get(&pod).map(|devices| {
            let known = mirror.pods.get(&key).into_iter().flat_map(|pod| pod.labels.keys());
            share(known.map(|label| &**label), devices)
        });
        let labels = self.in_pool(cycle, pod).map(|(label, value)| {
            let mut change = devices.clone().unwrap_or_default();
            change["metadata"]["labels"][label] = json!(value);
            change
        });
        let labels = labels.or(devices);
        let labels = labels.map(|it| Write::patch(Kind::Pod, path.clone(), Merge::Plain, it));
        let call = Call::Bind { path: format!("{path}/binding"), object };
        let bind = Write { call, then: Then::Bound(key, Name::clone(node), zones) };
        labels.into_iter().chain([bind]).collect()
    }

    /// The label of our node pool, where the pod is of it by its group alone and names none itself.
    /// What runs in a pool says so, as in KAI.
    pub(super) fn in_pool(&self, cycle: &Cycle<'_>, pod: PodId) -> Option<(&str, &str)> {
        let NodePool { label, value } = self.node_pool.as_ref()?;
        let has = cycle.snapshot.pods[pod.0 as usize].labels.contains_key(label.as_str());
        (!value.is_empty() && !has).then_some((label, value))
    }

    /// Tells what this cycle has bound: an event each, and when a group's first pod started.
    pub(super) async fn tell_bound(&mut self, mirror: &mut Mirror, cycle: &Cycle<'_>) {
        let pods = &cycle.snapshot.pods;
        let is_active =
            |status| matches!(status, PodStatus::Bound | PodStatus::Running | PodStatus::Away);
        let mut active: BTreeSet<PodGroupId> =
            pods.iter().filter(|pod| is_active(pod.status)).filter_map(|pod| pod.group).collect();
        let (mut starts, mut chains) = (Vec::new(), Vec::new());
        for decision in &cycle.plan.decisions {
            let Decision::Bind { pod, node } = decision else {
                continue;
            };
            let (key, place) = (cycle.key(*pod), &cycle.snapshot.nodes[node.0 as usize].name);
            if !self.bound.contains(&key) {
                chains.extend(self.tell_refused(mirror, (&key, place), cycle.now));
                continue;
            }
            if let Some(group) = cycle.group(*pod).filter(|group| active.insert(*group)) {
                starts.extend(
                    self.mark_start(&cycle.snapshot.pod_groups[group.0 as usize], cycle.now),
                );
            }
            chains.push(vec![self.scheduled((&key, &pods[pod.0 as usize].uid), place, cycle.now)]);
        }
        // Where an event tells of a pod, the start of its group is told.
        self.write(mirror, starts).await;
        self.write(mirror, chains).await;
    }

    /// Why the server did not bind a pod, or take the request for it: an event and a condition,
    /// unless that stands there.
    pub(super) fn tell_refused(
        &self,
        mirror: &Mirror,
        (key, node): (&Key, &Name),
        now: Time,
    ) -> Option<Chain> {
        let (why, pod) = (self.refused.get(key)?, mirror.pods.get(key)?);
        let message = format!("Failed to bind pod {key} to node {node}. {why}");
        let told = pod.told.scheduled.as_ref();
        if self.flavor == Flavor::Kube || told.is_some_and(|told| *told.message == *message) {
            return None;
        }
        let event = Event {
            about: &About::pod(key, &pod.uid),
            level: Level::Warning,
            reason: "FailedBinding",
            message: &message,
            gist: None,
            occasion: &pod.told.version.to_string(),
        };
        let change = json!({ "status": { "conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": BINDING_ERROR,
            "message": message,
        }] } });
        let path = format!("{}/status", path("v1", &key.namespace, "pods", &key.name));
        Some(vec![
            Write::event(&event, &self.api.name, now),
            Write::patch(Kind::Pod, path, Merge::Strategic, change),
        ])
    }

    /// The event of a pod that has a node.
    pub(super) fn scheduled(&self, (key, uid): (&Key, &Name), node: &Name, now: Time) -> Write {
        let (about, message) = (About::pod(key, uid), self.scheduled_message(key, node));
        Write::event(&scheduled(&about, &message), &self.api.name, now)
    }

    pub(super) fn scheduled_message(&self, key: &Key, node: &Name) -> String {
        match self.flavor {
            Flavor::Kai => {
                let pool = &self.pool;
                format!("Successfully assigned pod {key} to node {node} at node-pool {pool}")
            }
            Flavor::Kube => format!("Successfully assigned {key} to {node}"),
        }
    }

    /// Tells a pod where it will go. The promise binds nobody: the next cycle decides anew.
    pub(super) fn promise(
        &mut self,
        mirror: &Mirror,
        cycle: &Cycle<'_>,
        pod: PodId,
        node: NodeId,
    ) -> Option<Chain> {
        let key = cycle.key(pod);
        let node = &cycle.snapshot.nodes[node.0 as usize].name;
        match self.flavor {
            Flavor::Kai => {
                let about = About::pod(&key, &cycle.snapshot.pods[pod.0 as usize].uid);
                let event = Event {
                    about: &about,
                    level: Level::Normal,
                    reason: "Pipelined",
                    message: &format!("Pod {key} was pipelined to node {node}"),
                    gist: None,
                    occasion: "",
                };
                let name = event.name();
                if self.promised.get(&key) == Some(&name) {
                    return None;
                }
                self.promised.insert(key, name);
                Some(vec![Write::event(&event, &self.api.name, cycle.now)])
            }
            Flavor::Kube => nominate(mirror, &key, node),
        }
    }
}

/// Labels that say which devices a pod shares.
pub(crate) fn share<'a>(known: impl Iterator<Item = &'a str>, devices: &[GpuGroup]) -> Value {
    let is_old =
        |label: &&str| label.strip_prefix(GROUP_LABEL).is_some_and(|rest| rest.starts_with('/'));
    let mut labels: schedlab_json::Map =
        known.filter(is_old).map(|old| (old.to_owned(), Value::Null)).collect();
    if let [one] = devices {
        labels.insert(GROUP_LABEL.to_owned(), json!(&**one));
    } else {
        labels.insert(GROUP_LABEL.to_owned(), Value::Null);
        let several = devices.iter();
        labels.extend(several.map(|one| (format!("{GROUP_LABEL}/{one}"), json!(&**one))));
    }
    let annotations = json!({ "received-resource-type": "Fraction" });
    json!({ "metadata": { "labels": labels, "annotations": annotations } })
}

/// That a pod has a node.
pub(super) fn scheduled<'a>(about: &'a About, message: &'a str) -> Event<'a> {
    let (level, reason) = (Level::Normal, "Scheduled");
    Event { about, level, reason, message, gist: None, occasion: "" }
}

fn nominate(mirror: &Mirror, key: &Key, node: &str) -> Option<Chain> {
    let nominated = mirror.pods.get(key).and_then(|pod| pod.nominated.as_deref());
    if nominated == Some(node) {
        return None;
    }
    let change = json!({ "status": { "nominatedNodeName": node } });
    let path = format!("{}/status", path("v1", &key.namespace, "pods", &key.name));
    Some(vec![Write::patch(Kind::Pod, path, Merge::Plain, change)])
}
