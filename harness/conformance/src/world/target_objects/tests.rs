//! The objects that reach a cluster, and what its API server says of them.

use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use schedlab_api::json;

use crate::features::load_text;
use crate::schedulers::Target;
use crate::world::manifests::{queue_from_row, workload_objects_from_row};
use crate::world::scenario_cluster::{EmulatedCluster, ScenarioCluster};
use crate::world::{TimeScale, World};
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_emulator::feature_gates::FeatureGates;

use super::*;

const KUEUE: &str = "/apis/kueue.x-k8s.io/v1beta2";

/// A minimal CRD.
fn definition(api_version: &str, kind: &str, plural: &str, scope: &str) -> Value {
    let (group, version) = api_version.split_once('/').unwrap();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": version, "served": true, "storage": true,
                         "schema": {"openAPIV3Schema": open}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": scope, "versions": [version],
                 "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()}},
    })
}

/// A world on an emulator for this target, without CRDs.
async fn world_of(target: &str) -> World {
    let case = load_text(
        "f.feature",
        "Feature: f\n  Scenario: s\n    Given a\n",
        crate::steps::catalogue::is_step,
    )
    .unwrap();
    let target = Target::load_target(&SchedulerSource::Installed(target.to_owned()), None).unwrap();
    let gates = FeatureGates::default().with_enabled(target.gangs.feature_gate());
    let cluster = ScenarioCluster::Emulated(EmulatedCluster::start(1, gates));
    World::with_cluster(cluster, &case[0], &target, 1, TimeScale::default()).await.unwrap()
}

/// A world on an emulator with Kueue's CRDs and no controller.
async fn world() -> World {
    let mut world = world_of("kueue").await;
    for (kind, plural, scope) in [
        ("ResourceFlavor", "resourceflavors", "Cluster"),
        ("Cohort", "cohorts", "Cluster"),
        ("ClusterQueue", "clusterqueues", "Cluster"),
        ("LocalQueue", "localqueues", "Namespaced"),
    ] {
        let kind = definition("kueue.x-k8s.io/v1beta2", kind, plural, scope);
        let kind = world.inline_documents(vec![kind]);
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
        for object in world.list_objects(&format!("{KUEUE}/{plural}")).await.unwrap() {
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
    world.patch_object(&format!("{QUEUES_PATH}/night"), &quota).await.unwrap();
    assert_snapshot!(cohorts_and_cluster_queues(&world).await, @r#"
    cohorts "schedlab-everybody" in -: "0"
    cohorts "team" in schedlab-everybody: "2"
    clusterqueues "night" in team: "2"
    "#);
    world.delete_object(&format!("{QUEUES_PATH}/night")).await.unwrap();
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
    let pod =
        workload_objects_from_row(&world.inline_row(&cells), &world.scheduler_name()).unwrap();
    let pod = world.inline_documents(pod);
    world.submit(pod).await.unwrap();
    let pods = world.list_objects("/api/v1/namespaces/default/pods").await.unwrap();
    assert_eq!(pods[0]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "team");
    let doors =
        world.list_objects(&format!("{KUEUE}/namespaces/default/localqueues")).await.unwrap();
    assert_eq!(doors[0]["spec"]["clusterQueue"], "team");
}

/// The CRDs in a folder of Go's module cache; `None` if the module is not there.
fn crds_of_module(folder: &str) -> Option<Vec<Value>> {
    let cache = std::env::var_os("GOMODCACHE").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join("go/pkg/mod")))?;
    let files = std::fs::read_dir(cache.join(folder)).ok()?;
    let mut definitions = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let documents = text.split("\n---\n").filter(|text| text.contains("\nkind:"));
        definitions.extend(documents.map(|text| serde_saphyr::from_str::<Value>(text).unwrap()));
    }
    Some(definitions)
}

/// Writes queues, a gang and a single pod for a target whose real CRDs the cluster has, and returns
/// the names of the objects at these paths. `None` if the CRDs are not on this machine.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
async fn written_with_real_crds(
    target: &str,
    crds: Option<&str>,
    paths: &[&str],
) -> Option<Vec<String>> {
    let mut world = world_of(target).await;
    if let Some(folder) = crds {
        let Some(definitions) = crds_of_module(folder) else {
            println!("skipped {target}: there is no {folder} in Go's module cache");
            return None;
        };
        let definitions = world.inline_documents(definitions);
        world.submit(definitions).await.unwrap();
    }
    for cells in [
        [("queue", "top"), ("parent", ""), ("quota", "8")],
        [("queue", "team"), ("parent", "top"), ("quota", "4")],
    ] {
        create_queue(&mut world, &cells).await;
    }
    for cells in [
        [("name", "gang"), ("kind", "gang"), ("queue", "team"), ("pods", "2"), ("gpus", "1")],
        [("name", "one"), ("kind", "pod"), ("queue", "team"), ("pods", "1"), ("gpus", "1")],
    ] {
        let row = world.inline_row(&cells);
        let objects = workload_objects_from_row(&row, &world.scheduler_name()).unwrap();
        let objects = world.inline_documents(objects);
        world.submit(objects).await.unwrap_or_else(|error| panic!("{target}: {error:#}"));
    }
    assert_eq!(world.unsupported(), None);
    let mut names = Vec::new();
    for path in paths {
        for object in world.list_objects(path).await.unwrap() {
            names.push(object["metadata"]["name"].as_str().unwrap().to_owned());
        }
    }
    Some(names)
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_kueue_satisfy_its_crds() {
    let crds = "sigs.k8s.io/kueue@v0.19.2/config/components/crd/bases";
    let paths =
        ["cohorts", "clusterqueues", "localqueues"].map(|plural| format!("{KUEUE}/{plural}"));
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let Some(names) = written_with_real_crds("kueue", Some(crds), &paths).await else { return };
    assert_eq!(names, ["schedlab-everybody", "top", "team", "team"]);
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_volcano_satisfy_its_crds() {
    let crds = "volcano.sh/volcano@v1.15.1/config/crd/volcano/bases";
    let root = "/apis/scheduling.volcano.sh/v1beta1";
    let paths = [format!("{root}/queues"), format!("{root}/podgroups")];
    let paths = [&*paths[0], &*paths[1]];
    let Some(names) = written_with_real_crds("volcano", Some(crds), &paths).await else { return };
    assert_eq!(names, ["team", "top", "gang"]);
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_coscheduling_satisfy_its_crds() {
    let crds = "sigs.k8s.io/scheduler-plugins@v0.33.5/config/crd/bases";
    let paths = ["/apis/scheduling.x-k8s.io/v1alpha1/podgroups"];
    let Some(names) = written_with_real_crds("coscheduling", Some(crds), &paths).await else {
        return;
    };
    assert_eq!(names, ["gang"]);
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_kubernetes_are_valid() {
    let paths = ["/apis/scheduling.k8s.io/v1beta1/podgroups"];
    let names = written_with_real_crds("default-scheduler", None, &paths).await;
    assert_eq!(names, Some(vec!["gang".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn the_queue_configuration_of_yunikorn_is_one_config_map() {
    let paths = ["/api/v1/namespaces/default/configmaps"];
    let names = written_with_real_crds("yunikorn", None, &paths).await.unwrap();
    assert!(names.contains(&"yunikorn-configs".to_owned()), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn what_an_api_cannot_express_is_remembered() {
    let mut world = world().await;
    let row = world.inline_row(&[("queue", "team"), ("quota", "4"), ("priority", "7")]);
    let queue = world.inline_documents(vec![queue_from_row(&row).unwrap()]);
    world.submit(queue).await.unwrap_err();
    assert_eq!(
        world.unsupported_message().as_deref(),
        Some("kueue lacks queue-priority: a ClusterQueue has no priority")
    );
}

/// A world with a gang of three pods, of which two must start together.
async fn world_with_gang(target: &str) -> World {
    let mut world = world_of(target).await;
    let kind = definition("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups", "Namespaced");
    let kind = world.inline_documents(vec![kind]);
    world.submit(kind).await.unwrap();
    let cells = [("name", "gang"), ("kind", "gang"), ("pods", "3"), ("min", "2"), ("gpus", "1")];
    let row = world.inline_row(&cells);
    let objects = workload_objects_from_row(&row, &world.scheduler_name()).unwrap();
    let objects = world.inline_documents(objects);
    world.submit(objects).await.unwrap();
    world
}

const GANG: &str = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/gang";

#[tokio::test(start_paused = true)]
async fn a_changed_gang_is_written_again() {
    let mut world = world_with_gang("coscheduling").await;
    world.patch_object(GANG, &json!({"spec": {"minMember": 3}})).await.unwrap();
    let path = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups";
    let groups = world.list_objects(path).await.unwrap();
    assert_eq!(groups[0]["spec"]["minMember"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_gang_that_an_api_cannot_change_is_unsupported() {
    let mut world = world_with_gang("default-scheduler").await;
    world.patch_object(GANG, &json!({"spec": {"minMember": 3}})).await.unwrap_err();
    assert_eq!(
        world.unsupported_message().as_deref(),
        Some("kube-scheduler lacks elastic: a gang cannot be changed after its creation")
    );
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_gang_are_deleted_with_it() {
    let mut world = world_with_gang("coscheduling").await;
    let objects = world.submitted_objects("gang", "gang").unwrap();
    assert_eq!(world.delete_all(&objects).await.unwrap(), 5);
}
