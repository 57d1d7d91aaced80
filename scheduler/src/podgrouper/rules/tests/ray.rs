//! Tests of RayClusters, and of RayJobs and `RayServices` that create them.

use insta::assert_snapshot;
use schedlab_api::{Value, json};

use super::{super::OwnerLink, group_text, group_text_with, link};

fn ray_cluster(groups: &Value, scales: bool) -> OwnerLink {
    link(
        "ray.io/RayCluster",
        json!({ "spec": {
        "enableInTreeAutoscaling": scales, "headGroupSpec": {}, "workerGroupSpecs": groups,
    } }),
    )
}

#[test]
fn a_ray_cluster_has_sub_groups_for_its_head_and_each_worker_group() {
    let groups = json!([
        { "groupName": "gpu", "replicas": 3, "numOfHosts": 2 },
        { "groupName": "cpu", "replicas": 4, "minReplicas": 1 },
        { "groupName": "idle", "replicas": 4, "suspend": true },
    ]);
    let of = |group: &str| json!({ "ray.io/group": group });
    assert_snapshot!(group_text(&of("gpu"), &[ray_cluster(&groups, false)]), @r#"
    pg-raycluster-u1 of RayCluster min=8 queue=default-queue class=train
      {"minMember":1,"name":"headgroup"}
      {"minMember":6,"name":"gpu"}
      {"minMember":1,"name":"cpu"}
      {"minMember":0,"name":"idle"}
      the pod: gpu
    "#);
    let job = link(
        "ray.io/RayJob",
        json!({ "metadata": { "labels": { "ray.io/priority-class-name": "build" } } }),
    );
    assert_snapshot!(group_text(&of("headgroup"), &[ray_cluster(&groups, true), job]), @r#"
    pg-rayjob-u1 of RayJob min=2 queue=default-queue class=build
      {"minMember":1,"name":"headgroup"}
      {"minMember":0,"name":"gpu"}
      {"minMember":1,"name":"cpu"}
      {"minMember":0,"name":"idle"}
      {"minMember":0,"name":"submitter"}
      the pod: headgroup
    "#);
    let wrong = json!([{ "groupName": "gpu", "replicas": 1, "minReplicas": 2 }]);
    assert_snapshot!(group_text(&of("gpu"), &[ray_cluster(&wrong, false)]), @"spec.workerGroupSpecs[0].minReplicas: got 2, expected at most the number of replicas");
    assert_snapshot!(group_text(&of("tpu"), &[ray_cluster(&groups, false)]), @"labels of pod p: got tpu, expected a sub-group of its owner");
}

/// The submitter pod is owned by the RayJob only, whose status names the cluster.
#[test]
fn the_submitter_of_a_ray_job_is_a_sub_group_of_its_cluster() {
    let cluster = ray_cluster(&json!([{ "groupName": "gpu", "replicas": 2 }]), false);
    let job = |spec: Value, status: Value| {
        link("ray.io/RayJob", json!({ "spec": spec, "status": status }))
    };
    let named = || json!({ "rayClusterName": "c" });
    let of = |job: OwnerLink, beside: Option<&Value>| {
        group_text_with(&json!({}), &[link("Job", json!({})), job], &[], beside)
    };
    let submitter = of(job(json!({}), named()), Some(&cluster.object));
    assert_snapshot!(submitter, @r#"
    pg-rayjob-u1 of RayJob min=3 queue=default-queue class=train
      {"minMember":1,"name":"headgroup"}
      {"minMember":2,"name":"gpu"}
      {"minMember":0,"name":"submitter"}
      the pod: submitter
    "#);
    let of_worker = |mode: Value| {
        let job = job(json!({ "submissionMode": mode }), named());
        group_text(&json!({ "ray.io/group": "gpu" }), &[cluster.clone(), job])
    };
    let worker = of_worker(json!("K8sJobMode"));
    let shape = |text: &str| text.rsplit_once("  the pod").unwrap().0.to_owned();
    assert_eq!(shape(&worker), shape(&submitter), "pods of one group agree on its shape");
    assert_snapshot!(of_worker(json!("HTTPMode")), @r#"
    pg-rayjob-u1 of RayJob min=3 queue=default-queue class=train
      {"minMember":1,"name":"headgroup"}
      {"minMember":2,"name":"gpu"}
      the pod: gpu
    "#);
    assert_snapshot!(of(job(json!({}), json!({})), None), @"status.rayClusterName: got nothing, expected the name of a RayCluster that exists");
    assert_snapshot!(of(job(json!({}), named()), None), @"status.rayClusterName: got c, expected the name of a RayCluster that exists");
    let of_others = json!({ "clusterSelector": { "ray.io/cluster": "c" } });
    assert_snapshot!(of(job(of_others, named()), Some(&cluster.object)), @"pg-rayjob-u1 of RayJob min=1 queue=default-queue class=train");
}
