//! Syncs the scenario's queues to a target that has its own queue API (Kueue). KAI's objects stay
//! what steps read and change; the target's objects are derived from them.

use anyhow::Context as _;
use schedlab_api::Value;

use super::World;
use crate::world::manifests::Document;

pub(super) const QUEUES: &str = "/apis/scheduling.run.ai/v2/queues";
pub(super) const NODES: &str = "/api/v1/nodes";

impl World {
    /// Sets the labels and annotations by which the target assigns workloads to a queue.
    pub(super) fn assign_queue(&self, documents: &mut [Document]) {
        let objects = documents.iter_mut().map(|document| &mut document.object);
        self.target.queues.assign_queues(objects, &self.scheduler_name());
    }

    /// Creates the local queue that an object needs in its namespace.
    pub(super) async fn ensure_local_queue(&mut self, object: &Value) -> anyhow::Result<()> {
        match self.target.queues.local_queue_for(object) {
            Some(local_queue) => self.api.create_if_absent(&local_queue).await.map(drop),
            None => Ok(()),
        }
    }

    /// Syncs the target's queues when one of these objects is a queue or a node.
    pub(super) async fn sync_queues<'o>(
        &mut self,
        written: impl IntoIterator<Item = &'o Value>,
    ) -> anyhow::Result<()> {
        let mut written = written.into_iter();
        if written.any(|object| object["kind"] == "Queue" || object["kind"] == "Node") {
            self.sync_all_queues().await?;
        }
        Ok(())
    }

    /// Syncs the target's queues after the object at this path was deleted.
    pub(super) async fn sync_queues_after_deletion(&mut self, path: &str) -> anyhow::Result<()> {
        match path.rsplit_once('/') {
            Some((QUEUES | NODES, _)) => self.sync_all_queues().await,
            _ => Ok(()),
        }
    }

    /// Applies new and changed objects of the target and deletes those that no queue needs any
    /// more.
    async fn sync_all_queues(&mut self) -> anyhow::Result<()> {
        if self.target.queues.translate_queues(&[], &[]).is_none() {
            return Ok(());
        }
        let (queues, nodes) = (self.list(QUEUES).await?, self.list(NODES).await?);
        let desired = self.target.queues.translate_queues(&queues, &nodes).unwrap_or_default();
        let is_same = |a: &Value, b: &Value| {
            schedlab_clusters::api::title(a) == schedlab_clusters::api::title(b)
        };
        let before = std::mem::take(&mut self.last_synced);
        for object in before.iter().rev() {
            if !desired.iter().any(|one| is_same(one, object)) {
                let path = self.api.path(object).await?;
                self.api
                    .delete(&path)
                    .await
                    .map_err(schedlab_clusters::api::api_error)
                    .context(path)?;
            }
        }
        for object in &desired {
            if !before.contains(object) {
                self.api.apply(object).await.context("cannot sync a queue to the target")?;
            }
        }
        self.last_synced = desired;
        Ok(())
    }

    async fn list(&self, collection: &str) -> anyhow::Result<Vec<Value>> {
        let mut list = self.api.get(collection).await.map_err(schedlab_clusters::api::api_error)?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_api::json;

    use crate::features::load_text;
    use crate::schedulers::Target;
    use crate::world::manifests::{queue_from_row, workload_from_row};
    use crate::world::scenario_cluster::{EmulatedCluster, ScenarioCluster};
    use crate::world::{TimeScale, World};
    use schedlab_clusters::scheduler_source::SchedulerSource;
    use schedlab_emulator::feature_gates::FeatureGates;

    use super::*;

    const KUEUE: &str = "/apis/kueue.x-k8s.io/v1beta2";

    /// A minimal CRD of one of Kueue's kinds.
    fn definition(kind: &str, plural: &str, scope: &str) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": "v1beta2", "served": true, "storage": true,
                             "schema": {"openAPIV3Schema": open}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.kueue.x-k8s.io")},
            "spec": {"group": "kueue.x-k8s.io", "scope": scope, "versions": [version],
                     "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()}},
        })
    }

    /// A world on an emulator with Kueue's CRDs and no controller.
    async fn world() -> World {
        let case = load_text(
            "f.feature",
            "Feature: f\n  Scenario: s\n    Given a\n",
            crate::steps::catalogue::is_step,
        )
        .unwrap();
        let kueue = Target::find(&SchedulerSource::Installed("kueue".to_owned()), None).unwrap();
        let cluster = ScenarioCluster::Emulated(EmulatedCluster::start(1, FeatureGates::default()));
        let mut world =
            World::with_cluster(cluster, &case[0], &kueue, 1, TimeScale::default()).await.unwrap();
        for (kind, plural, scope) in [
            ("ResourceFlavor", "resourceflavors", "Cluster"),
            ("Cohort", "cohorts", "Cluster"),
            ("ClusterQueue", "clusterqueues", "Cluster"),
            ("LocalQueue", "localqueues", "Namespaced"),
        ] {
            let kind = world.inline_documents(vec![definition(kind, plural, scope)]);
            world.submit(kind).await.unwrap();
        }
        world
    }

    async fn create_queue(world: &mut World, cells: &[(&str, &str)]) {
        let queue = world.inline_documents(vec![queue_from_row(&world.inline_row(cells)).unwrap()]);
        world.submit(queue).await.unwrap();
    }

    /// Each cohort and cluster queue with its parent and its GPU quota.
    async fn cohorts_and_cluster_queues(world: &World) -> String {
        let mut lines = Vec::new();
        for plural in ["cohorts", "clusterqueues"] {
            for object in world.list(&format!("{KUEUE}/{plural}")).await.unwrap() {
                let spec = &object["spec"];
                let above = spec["cohortName"].as_str().or(spec["parentName"].as_str());
                let gpus = &spec["resourceGroups"][0]["flavors"][0]["resources"][0];
                let name = &object["metadata"]["name"];
                let nominal = &gpus["nominalQuota"];
                lines.push(format!("{plural} {name} in {}: {nominal}", above.unwrap_or("-")));
            }
        }
        lines.join("\n")
    }

    #[tokio::test(start_paused = true)]
    async fn every_queue_change_is_synced_to_kueue() {
        let mut world = world().await;
        create_queue(&mut world, &[("queue", "team"), ("quota", "4")]).await;
        assert_snapshot!(cohorts_and_cluster_queues(&world).await, @r#"
        cohorts "schedlab-everybody" in -: "0"
        clusterqueues "team" in schedlab-everybody: "4"
        "#);
        create_queue(&mut world, &[("queue", "night"), ("parent", "team"), ("quota", "1")]).await;
        assert_snapshot!(cohorts_and_cluster_queues(&world).await, @r#"
        cohorts "schedlab-everybody" in -: "0"
        cohorts "team" in schedlab-everybody: "3"
        clusterqueues "night" in team: "1"
        "#);
        let quota = json!({"spec": {"resources": {"gpu": {"quota": 2}}}});
        world.patch(&format!("{QUEUES}/night"), &quota).await.unwrap();
        assert_snapshot!(cohorts_and_cluster_queues(&world).await, @r#"
        cohorts "schedlab-everybody" in -: "0"
        cohorts "team" in schedlab-everybody: "2"
        clusterqueues "night" in team: "2"
        "#);
        world.delete(&format!("{QUEUES}/night")).await.unwrap();
        assert_snapshot!(cohorts_and_cluster_queues(&world).await, @r#"
        cohorts "schedlab-everybody" in -: "0"
        clusterqueues "team" in schedlab-everybody: "4"
        "#);
    }

    #[tokio::test(start_paused = true)]
    async fn a_workload_gets_a_local_queue_in_its_namespace() {
        let mut world = world().await;
        create_queue(&mut world, &[("queue", "team"), ("quota", "4")]).await;
        let cells = [("name", "a"), ("queue", "team"), ("gpus", "1")];
        let pod = workload_from_row(&world.inline_row(&cells), &world.scheduler_name()).unwrap();
        let pod = world.inline_documents(pod);
        world.submit(pod).await.unwrap();
        let pods = world.list("/api/v1/namespaces/default/pods").await.unwrap();
        assert_eq!(pods[0]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "team");
        let doors = world.list(&format!("{KUEUE}/namespaces/default/localqueues")).await.unwrap();
        assert_eq!(doors[0]["spec"]["clusterQueue"], "team");
    }
}
