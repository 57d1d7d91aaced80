//! Bindings, and promises of room that is not free yet.

use schedlab_scheduler_core::model::{NodeId, PodId};
use serde_json::json;

use super::{About, Applier, Cycle, Event, Level};
use crate::{
    api::{Merge, path},
    config::Flavor,
    mirror::{Key, Mirror},
    watch::Kind,
};

impl Applier {
    /// Binds a pod. The event goes first, as KAI's does: when we die in between, the next
    /// scheduler binds, and finds the event written.
    pub(super) async fn bind(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        pod: PodId,
        node: NodeId,
    ) {
        let key = cycle.key(pod);
        let node = &cycle.snapshot.nodes[node.0 as usize].name;
        let uid = &cycle.snapshot.pods[pod.0 as usize].uid;
        let message = match self.flavor {
            Flavor::Kai => {
                format!("Successfully assigned pod {key} to node {node} at node-pool default")
            }
            Flavor::Kube => format!("Successfully assigned {key} to {node}"),
        };
        let about = About::pod(&key, uid);
        let event = Event {
            about: &about,
            level: Level::Normal,
            reason: "Scheduled",
            message: &message,
            gist: None,
            occasion: "",
        };
        self.tell(&event, cycle.now).await;
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": &*key.name, "namespace": &*key.namespace, "uid": &**uid },
            "target": { "apiVersion": "v1", "kind": "Node", "name": &**node },
        });
        let path = path("v1", &key.namespace, "pods", &key.name);
        let answer = self.api.create(&format!("{path}/binding"), &binding).await;
        if self.done(answer).is_some() {
            mirror.assume_bound(&key, node);
        }
    }

    /// Tells a pod where it will go. The promise binds nobody: the next cycle decides anew.
    pub(super) async fn promise(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        pod: PodId,
        node: NodeId,
    ) {
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
                if self.promised.get(&key) != Some(&name) {
                    self.tell(&event, cycle.now).await;
                    self.promised.insert(key, name);
                }
            }
            Flavor::Kube => self.nominate(mirror, &key, node).await,
        }
    }

    async fn nominate(&mut self, mirror: &mut Mirror, key: &Key, node: &str) {
        let nominated = mirror.pods.get(key).and_then(|pod| pod.nominated.as_deref());
        if nominated == Some(node) {
            return;
        }
        let change = json!({ "status": { "nominatedNodeName": node } });
        let path = path("v1", &key.namespace, "pods", &key.name);
        let answer = self.api.patch(&format!("{path}/status"), Merge::Plain, &change).await;
        if let Some(object) = self.done(answer) {
            mirror.upsert(Kind::Pod, &object);
        }
    }
}
