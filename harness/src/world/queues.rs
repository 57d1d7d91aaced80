//! What a target with a queue API of its own is told of the scenario's queues and of who works for
//! them. KAI's objects stay what steps read and change; the others follow them.

use anyhow::Context as _;
use schedlab_json::Value;

use super::World;
use crate::objects::Document;

const QUEUES: &str = "/apis/scheduling.run.ai/v2/queues";
const NODES: &str = "/api/v1/nodes";

impl World {
    /// Gives work the marks of its queue, as the target knows them.
    pub(super) fn enlist(&self, documents: &mut [Document]) {
        let objects = documents.iter_mut().map(|document| &mut document.object);
        self.target.queues.enlist(objects, &self.scheduler_name());
    }

    /// Makes what has to be in its namespace before an object.
    pub(super) async fn open_entrance(&mut self, object: &Value) -> anyhow::Result<()> {
        match self.target.queues.entrance(object) {
            Some(entrance) => self.api.ensure(&entrance).await.map(drop),
            None => Ok(()),
        }
    }

    /// Tells the target of the queues anew, when one of these objects says something of them.
    pub(super) async fn retell_queues<'o>(
        &mut self,
        written: impl IntoIterator<Item = &'o Value>,
    ) -> anyhow::Result<()> {
        let mut written = written.into_iter();
        if written.any(|object| object["kind"] == "Queue" || object["kind"] == "Node") {
            self.retell_all_queues().await?;
        }
        Ok(())
    }

    /// The same when an object of this path went.
    pub(super) async fn retell_queues_without(&mut self, path: &str) -> anyhow::Result<()> {
        match path.rsplit_once('/') {
            Some((QUEUES | NODES, _)) => self.retell_all_queues().await,
            _ => Ok(()),
        }
    }

    /// Tells the target of the queues anew: what is new or changed is applied, what follows from
    /// none any more goes.
    async fn retell_all_queues(&mut self) -> anyhow::Result<()> {
        if self.target.queues.retold(&[], &[]).is_none() {
            return Ok(());
        }
        let (queues, nodes) = (self.listed(QUEUES).await?, self.listed(NODES).await?);
        let wanted = self.target.queues.retold(&queues, &nodes).unwrap_or_default();
        let is_same = |a: &Value, b: &Value| crate::api::title(a) == crate::api::title(b);
        let before = std::mem::take(&mut self.retold);
        for object in before.iter().rev() {
            if !wanted.iter().any(|one| is_same(one, object)) {
                let path = self.api.path(object).await?;
                self.api.delete(&path).await.map_err(crate::api::refusal).context(path)?;
            }
        }
        for object in &wanted {
            if !before.contains(object) {
                self.api.apply(object).await.context("a queue as the target knows it")?;
            }
        }
        self.retold = wanted;
        Ok(())
    }

    async fn listed(&self, collection: &str) -> anyhow::Result<Vec<Value>> {
        let mut list = self.api.get(collection).await.map_err(crate::api::refusal)?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_json::json;

    use crate::cluster::{Emulated, Place};
    use crate::features::load_text;
    use crate::objects::{queue, workload};
    use crate::target::{Target, Which};
    use crate::world::{Pace, World};

    use super::*;

    const KUEUE: &str = "/apis/kueue.x-k8s.io/v1beta2";

    /// The least definition of a kind of Kueue's.
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

    /// An emulator that knows Kueue's kinds, and nobody who reads them.
    async fn world() -> World {
        let case = load_text("f.feature", "Feature: f\n  Scenario: s\n    Given a\n").unwrap();
        let kueue = Target::find(&Which::Installed("kueue".to_owned()), None).unwrap();
        let place = Place::Emulated(Emulated::start(1));
        let mut world = World::on(place, &case[0], &kueue, (1, Pace::default())).await.unwrap();
        for (kind, plural, scope) in [
            ("ResourceFlavor", "resourceflavors", "Cluster"),
            ("Cohort", "cohorts", "Cluster"),
            ("ClusterQueue", "clusterqueues", "Cluster"),
            ("LocalQueue", "localqueues", "Namespaced"),
        ] {
            let kind = world.written_here(vec![definition(kind, plural, scope)]);
            world.submit(kind).await.unwrap();
        }
        world
    }

    async fn make(world: &mut World, cells: &[(&str, &str)]) {
        let queue = world.written_here(vec![queue(&world.sentence(cells)).unwrap()]);
        world.submit(queue).await.unwrap();
    }

    /// Each cohort and cluster queue, what it is in, and its quota of GPUs.
    async fn told(world: &World) -> String {
        let mut lines = Vec::new();
        for plural in ["cohorts", "clusterqueues"] {
            for object in world.listed(&format!("{KUEUE}/{plural}")).await.unwrap() {
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
    async fn kueue_is_told_of_every_change_of_a_queue() {
        let mut world = world().await;
        make(&mut world, &[("queue", "team"), ("quota", "4")]).await;
        assert_snapshot!(told(&world).await, @r#"
        cohorts "schedlab-everybody" in -: "0"
        clusterqueues "team" in schedlab-everybody: "4"
        "#);
        make(&mut world, &[("queue", "night"), ("parent", "team"), ("quota", "1")]).await;
        assert_snapshot!(told(&world).await, @r#"
        cohorts "schedlab-everybody" in -: "0"
        cohorts "team" in schedlab-everybody: "3"
        clusterqueues "night" in team: "1"
        "#);
        let quota = json!({"spec": {"resources": {"gpu": {"quota": 2}}}});
        world.patch(&format!("{QUEUES}/night"), &quota).await.unwrap();
        assert_snapshot!(told(&world).await, @r#"
        cohorts "schedlab-everybody" in -: "0"
        cohorts "team" in schedlab-everybody: "2"
        clusterqueues "night" in team: "2"
        "#);
        world.delete(&format!("{QUEUES}/night")).await.unwrap();
        assert_snapshot!(told(&world).await, @r#"
        cohorts "schedlab-everybody" in -: "0"
        clusterqueues "team" in schedlab-everybody: "4"
        "#);
    }

    #[tokio::test(start_paused = true)]
    async fn work_finds_the_door_of_its_queue_in_its_namespace() {
        let mut world = world().await;
        make(&mut world, &[("queue", "team"), ("quota", "4")]).await;
        let cells = [("name", "a"), ("queue", "team"), ("gpus", "1")];
        let pod = workload(&world.sentence(&cells), &world.scheduler_name()).unwrap();
        let pod = world.written_here(pod);
        world.submit(pod).await.unwrap();
        let pods = world.listed("/api/v1/namespaces/default/pods").await.unwrap();
        assert_eq!(pods[0]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "team");
        let doors = world.listed(&format!("{KUEUE}/namespaces/default/localqueues")).await.unwrap();
        assert_eq!(doors[0]["spec"]["clusterQueue"], "team");
    }
}
