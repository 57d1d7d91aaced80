//! Pod groups follow their owners: a change of an owner reaches its group at once, and what a user
//! set on the group stays.

use insta::assert_snapshot;
use schedlab_api::{Value, json};

use super::{
    lab::Lab,
    owners::{owner_from, pod, pod_template},
};

/// A kind of owner.
struct OwnerKind {
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
}

/// The minimum of the first pod group, and those of its sub-groups.
fn minimum(lab: &Lab) -> String {
    let group = &lab.list("scheduling.run.ai", "podgroups")[0];
    let sub_groups = group["spec"]["subGroups"].as_array().into_iter().flatten();
    let sub_groups = sub_groups.map(|of| format!(" {}:{}", of["name"], of["minMember"]));
    format!("{}{}", group["spec"]["minMember"], sub_groups.collect::<String>()).replace('"', "")
}

/// The minimum before and after the owner of pods with these labels is changed.
fn minima(kind: &OwnerKind, object: Value, change: &Value, pods: &[Value]) -> String {
    let &OwnerKind { group, plural, kind } = kind;
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.start();
        let owner = owner_from(&lab, group, plural, kind, object);
        for (at, labels) in (0..).zip(pods) {
            pod(&lab, &format!("p-{at}"), labels, &owner);
        }
        lab.advance(3).await;
        let before = minimum(&lab);
        let path = format!("/apis/{group}/v1/namespaces/default/{plural}/x");
        lab.patch(&path, change).await;
        lab.advance(2).await;
        format!("{before} -> {}", minimum(&lab))
    })
}

#[test]
fn the_group_of_a_ray_cluster_follows_its_worker_groups() {
    let kind = OwnerKind { group: "ray.io", plural: "rayclusters", kind: "RayCluster" };
    let spec = |replicas: u32| {
        let groups = json!([{ "groupName": "gpu", "replicas": replicas }]);
        json!({ "spec": { "headGroupSpec": {}, "workerGroupSpecs": groups } })
    };
    let pods = ["headgroup", "gpu"].map(|group| json!({ "ray.io/group": group }));
    assert_snapshot!(minima(&kind, spec(3), &spec(1), &pods), @"4 headgroup:1 gpu:3 -> 2 headgroup:1 gpu:1");
    assert_snapshot!(minima(&kind, spec(1), &spec(3), &pods), @"2 headgroup:1 gpu:1 -> 4 headgroup:1 gpu:3");
    assert_snapshot!(minima(&kind, spec(3), &spec(0), &pods), @"4 headgroup:1 gpu:3 -> 1 headgroup:1 gpu:0");
}

#[test]
fn the_group_of_a_leader_worker_set_follows_its_size() {
    let kind = OwnerKind {
        group: "leaderworkerset.x-k8s.io",
        plural: "leaderworkersets",
        kind: "LeaderWorkerSet",
    };
    // The emulator's controller creates the pods, and replaces them when the size changes.
    let spec = |size: u32| {
        let template = json!({ "size": size, "workerTemplate": pod_template() });
        json!({ "spec": { "leaderWorkerTemplate": template } })
    };
    assert_snapshot!(minima(&kind, spec(4), &spec(2), &[]), @"4 leader:1 workers:3 -> 2 leader:1 workers:1");
}

#[test]
fn the_group_of_a_kubeflow_job_follows_its_replicas() {
    let tf = OwnerKind { group: "kubeflow.org", plural: "tfjobs", kind: "TFJob" };
    let spec = |replicas: u32| json!({ "spec": { "tfReplicaSpecs": { "Worker": { "replicas": replicas } } } });
    assert_snapshot!(minima(&tf, spec(4), &spec(2), &[json!({})]), @"4 -> 2");
    assert_snapshot!(minima(&tf, spec(2), &spec(4), &[json!({})]), @"2 -> 4");
    let mpi = OwnerKind { group: "kubeflow.org", plural: "mpijobs", kind: "MPIJob" };
    let spec = |replicas: u32| {
        let specs = json!({ "Launcher": { "replicas": 1 }, "Worker": { "replicas": replicas } });
        json!({ "spec": { "mpiReplicaSpecs": specs } })
    };
    assert_snapshot!(minima(&mpi, spec(3), &spec(1), &[json!({})]), @"4 -> 2");
}

#[test]
fn the_group_of_other_kinds_follows_their_fields_and_annotations() {
    let aml = OwnerKind { group: "amlarc.azureml.com", plural: "amljobs", kind: "AmlJob" };
    let spec = |nodes: &str| json!({ "spec": { "job": { "options": { "envs": { "AZUREML_NODE_COUNT": nodes } } } } });
    assert_snapshot!(minima(&aml, spec("4"), &spec("2"), &[json!({})]), @"4 -> 2");
    let knative = OwnerKind { group: "serving.knative.dev", plural: "revisions", kind: "Revision" };
    let scale = |least: &str| json!({ "metadata": { "annotations": { "autoscaling.knative.dev/min-scale": least } } });
    assert_snapshot!(minima(&knative, scale("3"), &scale("1"), &[json!({})]), @"3 -> 1");
}

/// The queue is the user's as in KAI, whose pod grouper overwrites all other fields.
#[test]
fn what_a_user_set_on_a_group_stays_when_its_owner_changes() {
    Lab::run(async |mut lab| {
        let job = "/apis/batch/v1/namespaces/default/jobs/train";
        let least = |least: &str| json!({ "metadata": { "annotations": { "kai.scheduler/batch-min-member": least } } });
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.queue("other", 8, -1);
        lab.job("train", "q", 3, 3);
        lab.start();
        lab.advance(3).await;
        let name = lab.list("scheduling.run.ai", "podgroups")[0]["metadata"]["name"].clone();
        let group = format!(
            "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/{}",
            name.as_str().expect("a pod group has a name")
        );
        let edit = json!({ "spec": { "queue": "other", "priorityClassName": "inference",
                                     "markUnschedulable": false } });
        lab.patch(&group, &edit).await;
        lab.advance(2).await;
        lab.stop().await;
        lab.patch(job, &least("2")).await;
        lab.start();
        lab.advance(3).await;
        assert_snapshot!(lab.pod_groups(), @r#"pg-train {"markUnschedulable":false,"minMember":2,"priorityClassName":"inference","queue":"other"}"#);
        lab.patch(&group, &json!({ "spec": { "minMember": 1 } })).await;
        lab.patch(job, &json!({ "metadata": { "labels": { "team": "vision" } } })).await;
        lab.stop().await;
        lab.start();
        lab.advance(3).await;
        assert_snapshot!(minimum(&lab), @"1");
        lab.patch(job, &least("3")).await;
        lab.advance(2).await;
        assert_snapshot!(minimum(&lab), @"3");
    });
}
