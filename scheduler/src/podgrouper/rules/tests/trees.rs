//! Tests of kinds with sub-groups.

use insta::assert_snapshot;
use schedlab_api::{Value, json};

use super::{super::OwnerLink, group_text, group_text_with, link};

fn job_set(extra: &Value) -> OwnerLink {
    let mut object = json!({ "spec": { "replicatedJobs": [
        { "name": "leader", "template": { "spec": {} } },
        { "name": "worker", "replicas": 2, "template": { "spec": { "parallelism": 3 } } },
    ] } });
    for (key, value) in extra.as_object().into_iter().flatten() {
        object["spec"][key.as_str()] = value.clone();
    }
    link("JobSet", object)
}

/// Labels of the second replica's pods.
fn of_job_set() -> Value {
    json!({ "jobset.sigs.k8s.io/replicatedjob-name": "worker", "jobset.sigs.k8s.io/job-index": "1" })
}

#[test]
fn a_job_set_is_a_tree_of_replicated_jobs_and_their_replicas() {
    let chain = [link("Job", json!({})), job_set(&json!({}))];
    assert_snapshot!(group_text(&of_job_set(), &chain), @r#"
    pg-jobset-u1 of JobSet min=2 parts queue=default-queue class=train
      {"minSubGroup":1,"name":"leader"}
      {"minMember":1,"name":"leader-replica-0","parent":"leader"}
      {"minSubGroup":2,"name":"worker"}
      {"minMember":3,"name":"worker-replica-0","parent":"worker"}
      {"minMember":3,"name":"worker-replica-1","parent":"worker"}
      the pod: worker-replica-1
    "#);
    assert_snapshot!(group_text(&json!({}), &chain), @"label jobset.sigs.k8s.io/replicatedjob-name: got nothing, expected the name that its controller sets");
}

#[test]
fn a_replicated_job_without_replicas_is_no_part_of_its_job_set() {
    let jobs = json!({ "replicatedJobs": [{ "name": "later", "replicas": 0 },
                                          { "name": "worker", "replicas": 2 }] });
    assert_snapshot!(group_text(&of_job_set(), &[link("Job", json!({})), job_set(&jobs)]), @r#"
    pg-jobset-u1 of JobSet min=1 parts queue=default-queue class=train
      {"minSubGroup":2,"name":"worker"}
      {"minMember":1,"name":"worker-replica-0","parent":"worker"}
      {"minMember":1,"name":"worker-replica-1","parent":"worker"}
      the pod: worker-replica-1
    "#);
}

/// KAI's leaf would have a minimum of 3, although the Job never creates a third pod.
#[test]
fn a_replica_waits_for_no_more_pods_than_it_has_to_complete() {
    let spec = json!({ "parallelism": 3, "completions": 2 });
    let jobs = json!({ "replicatedJobs": [{ "name": "worker", "replicas": 2,
                                            "template": { "spec": spec } }] });
    let text = group_text(&of_job_set(), &[link("Job", json!({})), job_set(&jobs)]);
    assert_snapshot!(text.lines().nth(2).unwrap(), @r#"  {"minMember":2,"name":"worker-replica-0","parent":"worker"}"#);
}

#[test]
fn replicated_jobs_that_start_in_order_need_only_one_sub_group() {
    let ordered = json!({ "startupPolicy": { "startupPolicyOrder": "InOrder" } });
    let chain = [link("Job", json!({})), job_set(&ordered)];
    assert_snapshot!(group_text(&of_job_set(), &chain).lines().next().unwrap(), @"pg-jobset-u1 of JobSet min=1 parts queue=default-queue class=train");
    let depends = json!({ "replicatedJobs": [
        { "name": "a" }, { "name": "worker", "replicas": 2, "dependsOn": [{ "name": "a" }] },
    ] });
    let chain = [link("Job", json!({})), job_set(&depends)];
    assert_snapshot!(group_text(&of_job_set(), &chain).lines().next().unwrap(), @"pg-jobset-u1 of JobSet min=1 parts queue=default-queue class=train");
    let endless = json!({ "replicatedJobs": [{ "name": "a", "replicas": 2_000_000_000 }] });
    let chain = [link("Job", json!({})), job_set(&endless)];
    assert_snapshot!(group_text(&of_job_set(), &chain), @"spec.replicatedJobs: replicas: got 2000000000, expected at most 10000 sub-groups");
}

#[test]
fn a_skipped_owner_lends_its_labels_to_what_it_owns() {
    let above = |kind: &str| {
        link(kind, json!({ "metadata": { "labels": { "kai.scheduler/queue": "research" } } }))
    };
    let through = [link("Job", json!({})), job_set(&json!({})), above("TrainJob")];
    assert_snapshot!(group_text(&of_job_set(), &through).lines().next().unwrap(), @"pg-jobset-u1 of JobSet min=2 parts queue=research class=train");
    let torch = link(
        "PyTorchJob",
        json!({ "spec": { "pytorchReplicaSpecs": { "Worker": { "replicas": 2 } } } }),
    );
    assert_snapshot!(group_text(&json!({}), &[torch.clone(), above("run.ai/TrainingWorkload")]).lines().next().unwrap(), @"pg-pytorchjob-u1 of PyTorchJob min=2 queue=research class=train");
    assert_snapshot!(group_text(&json!({}), &[torch, above("argoproj.io/Workflow")]).lines().next().unwrap(), @"pg-pytorchjob-u1 of PyTorchJob min=2 queue=research class=train");
    assert_snapshot!(group_text(&json!({}), &[above("argoproj.io/Workflow")]), @"pg-p-u0 of Pod min=1 queue=research class=train");
    assert_snapshot!(group_text(&json!({ "kai.scheduler/queue": "own" }), &[above("argoproj.io/Workflow")]), @"pg-p-u0 of Pod min=1 queue=own class=train");
}

fn pytorch_job(spec: &Value) -> [OwnerLink; 1] {
    let mut object = json!({ "spec": { "pytorchReplicaSpecs":
        { "Master": { "replicas": 1 }, "Worker": { "replicas": 3 } } } });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key.as_str()] = value.clone();
    }
    [link("PyTorchJob", object)]
}

#[test]
fn a_pytorch_job_is_a_gang_of_its_replicas_unless_it_states_fewer() {
    let worker = json!({ "training.kubeflow.org/replica-type": "worker" });
    assert_snapshot!(group_text(&worker, &pytorch_job(&json!({}))), @r#"
    pg-pytorchjob-u1 of PyTorchJob min=4 queue=default-queue class=train
      {"minMember":1,"name":"master"}
      {"minMember":3,"name":"worker"}
      the pod: worker
    "#);
    let fewer = json!({ "runPolicy": { "schedulingPolicy": { "minAvailable": 2 } } });
    assert_snapshot!(group_text(&json!({}), &pytorch_job(&fewer)), @r#"
    pg-pytorchjob-u1 of PyTorchJob min=2 queue=default-queue class=train
      {"minMember":1,"name":"master"}
      {"minMember":1,"name":"worker"}
    "#);
    let elastic = json!({ "elasticPolicy": { "minReplicas": 3 } });
    assert_snapshot!(group_text(&json!({}), &pytorch_job(&elastic)).lines().next().unwrap(), @"pg-pytorchjob-u1 of PyTorchJob min=3 queue=default-queue class=train");
}

#[test]
fn workers_are_assigned_to_segments_by_their_index() {
    let annotations = json!({
        "kai.scheduler/segment-size": "2",
        "kai.scheduler/topology": "racks",
        "kai.scheduler/segment-topology-required-placement": "rack",
    });
    let spec = json!({
        "runPolicy": { "schedulingPolicy": { "minAvailable": 4 } },
        "pytorchReplicaSpecs": {
            "Master": { "replicas": 1 },
            "Worker": { "replicas": 5, "template": { "metadata": { "annotations": annotations } } },
        },
    });
    let worker = |index: &str| {
        json!({ "training.kubeflow.org/replica-type": "worker",
                                       "training.kubeflow.org/replica-index": index })
    };
    assert_snapshot!(group_text(&worker("3"), &pytorch_job(&spec)), @r#"
    pg-pytorchjob-u1 of PyTorchJob min=4 queue=default-queue class=train
      {"minMember":1,"name":"master"}
      {"name":"worker"}
      {"minMember":2,"name":"worker-0","parent":"worker","topologyConstraint":{"requiredTopologyLevel":"rack","topology":"racks"}}
      {"minMember":1,"name":"worker-1","parent":"worker","topologyConstraint":{"requiredTopologyLevel":"rack","topology":"racks"}}
      {"minMember":0,"name":"worker-2","parent":"worker","topologyConstraint":{"requiredTopologyLevel":"rack","topology":"racks"}}
      the pod: worker-1
    "#);
    assert_snapshot!(group_text(&worker("x"), &pytorch_job(&spec)), @r#"label training.kubeflow.org/replica-index: got "x", expected the index that its controller sets"#);
    let mut wrong = spec;
    wrong["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"]["annotations"]["kai.scheduler/segment-size"] =
        json!("0");
    assert_snapshot!(group_text(&worker("3"), &pytorch_job(&wrong)), @r#"annotation kai.scheduler/segment-size: got "0", expected an integer from 1 to 2147483647"#);
}

/// KAI reads them from the pod template only; the topology may be set on the job.
#[test]
fn segment_annotations_on_the_job_itself_yield_a_warning() {
    let annotated = || {
        json!({ "kai.scheduler/segment-size": "2", "kai.scheduler/topology": "racks",
                "kai.scheduler/segment-topology-required-placement": "rack" })
    };
    let of = |template: Value, pod: Value| {
        let spec = json!({ "pytorchReplicaSpecs": { "Worker": {
            "replicas": 4, "template": { "metadata": { "annotations": template } } } } });
        let mut chain = pytorch_job(&spec);
        chain[0].object["metadata"]["annotations"] = annotated();
        let labels = json!({ "training.kubeflow.org/replica-type": "worker",
                             "training.kubeflow.org/replica-index": "3" });
        group_text_with(&json!({ "labels": labels, "annotations": pod }), &chain, &[], None)
    };
    assert_snapshot!(of(json!({}), json!({})), @r#"
    pg-pytorchjob-u1 of PyTorchJob min=4 queue=default-queue class=train
      {"minMember":4,"name":"worker"}
      annotations kai.scheduler/segment-size, kai.scheduler/segment-topology-required-placement: got a value on the PyTorchJob itself, where it has no effect, expected one in the pod template of the workers
      the pod: worker
    "#);
    let sized = json!({ "kai.scheduler/segment-size": "2" });
    assert_snapshot!(of(sized, json!({})), @r#"
    pg-pytorchjob-u1 of PyTorchJob min=4 queue=default-queue class=train
      {"name":"worker"}
      {"minMember":2,"name":"worker-0","parent":"worker"}
      {"minMember":2,"name":"worker-1","parent":"worker"}
      annotation kai.scheduler/segment-topology-required-placement: got a value on the PyTorchJob itself, where it has no effect, expected one in the pod template of the workers
      the pod: worker-1
    "#);
    let mut levels = annotated();
    levels["kai.scheduler/topology"] = Value::Null;
    assert_snapshot!(of(json!({}), levels), @r#"
    pg-pytorchjob-u1 of PyTorchJob min=4 queue=default-queue class=train
      {"name":"worker"}
      {"minMember":2,"name":"worker-0","parent":"worker","topologyConstraint":{"requiredTopologyLevel":"rack","topology":"racks"}}
      {"minMember":2,"name":"worker-1","parent":"worker","topologyConstraint":{"requiredTopologyLevel":"rack","topology":"racks"}}
      the pod: worker-1
    "#);
}

#[test]
fn other_training_jobs_are_gangs_of_all_their_replicas() {
    let job = |kind: &str, field: &str| {
        let specs = json!({ "Chief": { "replicas": 1 }, "Worker": { "replicas": 3 }, "PS": {} });
        link(&format!("kubeflow.org/{kind}"), json!({ "spec": { field: specs } }))
    };
    assert_snapshot!(group_text(&json!({}), &[job("TFJob", "tfReplicaSpecs")]), @"pg-tfjob-u1 of TFJob min=5 queue=default-queue class=train");
    assert_snapshot!(group_text(&json!({}), &[job("XGBoostJob", "xgbReplicaSpecs")]), @"pg-xgboostjob-u1 of XGBoostJob min=5 queue=default-queue class=train");
    assert_snapshot!(group_text(&json!({}), &[job("JAXJob", "jaxReplicaSpecs")]), @"pg-jaxjob-u1 of JAXJob min=5 queue=default-queue class=train");
    assert_snapshot!(group_text(&json!({}), &[job("TFJob", "replicaSpecs")]), @"spec.tfReplicaSpecs: got nothing, expected the replicas of each role");
    let aml = |nodes: Value| {
        link(
            "amlarc.azureml.com/AmlJob",
            json!({ "spec": { "job": { "options": { "envs": { "AZUREML_NODE_COUNT": nodes } } } } }),
        )
    };
    assert_snapshot!(group_text(&json!({}), &[aml(json!(4))]), @"pg-amljob-u1 of AmlJob min=4 queue=default-queue class=train");
    assert_snapshot!(group_text(&json!({}), &[aml(json!("many"))]), @r#"spec.job.options.envs.AZUREML_NODE_COUNT: got "many", expected the number of nodes of the job"#);
}

#[test]
fn a_launcher_created_after_its_workers_does_not_count_before_it_exists() {
    let job = |policy: &str| {
        [link(
            "kubeflow.org/MPIJob",
            json!({ "spec": {
        "launcherCreationPolicy": policy,
        "mpiReplicaSpecs": { "Launcher": { "replicas": 1 }, "Worker": { "replicas": 4 } },
    } }),
        )]
    };
    let launcher = [json!({ "training.kubeflow.org/job-name": "mpijob",
                            "training.kubeflow.org/job-role": "launcher" })];
    assert_snapshot!(group_text(&json!({}), &job("AtStartup")), @"pg-mpijob-u1 of MPIJob min=5 queue=default-queue class=train");
    assert_snapshot!(group_text(&json!({}), &job("WaitForWorkersReady")), @"pg-mpijob-u1 of MPIJob min=4 queue=default-queue class=train");
    assert_snapshot!(group_text_with(&json!({}), &job("WaitForWorkersReady"), &launcher, None), @"pg-mpijob-u1 of MPIJob min=5 queue=default-queue class=train");
}

fn leader_worker_set(spec: &Value, template: &Value) -> [OwnerLink; 1] {
    let mut object = json!({ "spec": spec });
    object["spec"]["leaderWorkerTemplate"] = template.clone();
    [link("leaderworkerset.x-k8s.io/LeaderWorkerSet", object)]
}

fn lws_pod(worker: &str) -> Value {
    json!({ "leaderworkerset.sigs.k8s.io/group-index": "1",
            "leaderworkerset.sigs.k8s.io/worker-index": worker })
}

#[test]
fn a_replica_of_a_leader_worker_set_is_a_gang() {
    let of = |spec: Value| leader_worker_set(&spec, &json!({ "size": 4 }));
    assert_snapshot!(group_text(&lws_pod("2"), &of(json!({}))), @r#"
    pg-leaderworkerset-u1-group-1 of LeaderWorkerSet min=4 queue=default-queue class=train
      {"minMember":1,"name":"leader"}
      {"minMember":3,"name":"workers"}
      the pod: workers
    "#);
    let ready = json!({ "startupPolicy": "LeaderReady" });
    assert_snapshot!(group_text(&lws_pod("0"), &of(ready.clone())), @r#"
    pg-leaderworkerset-u1-group-1 of LeaderWorkerSet min=1 queue=default-queue class=train
      {"minMember":1,"name":"leader"}
      the pod: leader
    "#);
    assert_snapshot!(group_text(&lws_pod("1"), &of(ready)), @r#"
    pg-leaderworkerset-u1-group-1 of LeaderWorkerSet min=4 queue=default-queue class=train
      {"minMember":1,"name":"leader"}
      {"minMember":3,"name":"workers"}
      the pod: workers
    "#);
    assert_snapshot!(group_text(&json!({}), &of(json!({}))), @"label leaderworkerset.sigs.k8s.io/worker-index: got nothing, expected the index that its controller sets");
    assert_snapshot!(group_text(&lws_pod("1"), &leader_worker_set(&json!({}), &json!({}))), @"spec.leaderWorkerTemplate.size: got nothing, expected the number of pods per replica");
}

/// The size comes from the spec or from annotations; topology levels are always annotations.
#[test]
fn segment_topology_applies_whether_the_size_comes_from_spec_or_annotation() {
    let with_topology = |extra: Value| {
        let mut annotations = json!({
            "kai.scheduler/topology": "hall",
            "kai.scheduler/segment-topology-required-placement": "rack",
        });
        for (key, value) in extra.as_object().into_iter().flatten() {
            annotations[key.as_str()] = value.clone();
        }
        json!({ "metadata": { "annotations": annotations } })
    };
    let of = |set: Value, template: Value| {
        let mut chain = leader_worker_set(&json!({}), &template);
        chain[0].object["metadata"]["annotations"] = set;
        group_text(&lws_pod("3"), &chain)
    };
    let in_spec = json!({ "size": 4, "subGroupPolicy": { "subGroupSize": 2 },
                          "workerTemplate": with_topology(json!({})) });
    assert_snapshot!(of(json!({}), in_spec), @r#"
    pg-leaderworkerset-u1-group-1 of LeaderWorkerSet min=4 queue=default-queue class=train
      {"name":"segment-0","topologyConstraint":{"requiredTopologyLevel":"rack","topology":"hall"}}
      {"minMember":1,"name":"leader","parent":"segment-0"}
      {"minMember":1,"name":"workers","parent":"segment-0"}
      {"minMember":2,"name":"segment-1","topologyConstraint":{"requiredTopologyLevel":"rack","topology":"hall"}}
      the pod: segment-1
    "#);
    let sized = json!({ "kai.scheduler/segment-size": "3" });
    let in_template = json!({ "size": 4, "workerTemplate": with_topology(sized) });
    assert_snapshot!(of(json!({}), in_template.clone()), @r#"
    pg-leaderworkerset-u1-group-1 of LeaderWorkerSet min=4 queue=default-queue class=train
      {"name":"segment-0","topologyConstraint":{"requiredTopologyLevel":"rack","topology":"hall"}}
      {"minMember":1,"name":"leader","parent":"segment-0"}
      {"minMember":3,"name":"workers","parent":"segment-0"}
      the pod: workers
    "#);
    let on_set = of(json!({ "kai.scheduler/segment-size": "2" }), in_template);
    assert_snapshot!(on_set.lines().last().unwrap(), @"  the pod: segment-1");
    let level = json!({ "kai.scheduler/segment-topology-preferred-placement": "rack" });
    let sized = json!({ "size": 4, "subGroupPolicy": { "subGroupSize": 2 } });
    assert_snapshot!(of(level, sized), @r#"
    pg-leaderworkerset-u1-group-1 of LeaderWorkerSet min=4 queue=default-queue class=train
      {"name":"segment-0"}
      {"minMember":1,"name":"leader","parent":"segment-0"}
      {"minMember":1,"name":"workers","parent":"segment-0"}
      {"minMember":2,"name":"segment-1"}
      annotation kai.scheduler/segment-topology-preferred-placement: got a value on the LeaderWorkerSet itself, where it has no effect, expected one in the pod template of the workers
      the pod: segment-1
    "#);
}

#[test]
fn the_leader_is_in_the_first_segment_or_excluded_from_segments() {
    let text = |size: u64, policy: &str, worker: &str| {
        let policy = json!({ "subGroupSize": 2, "subGroupPolicyType": policy });
        let template = json!({ "size": size, "subGroupPolicy": policy });
        group_text(&lws_pod(worker), &leader_worker_set(&json!({}), &template))
    };
    assert_snapshot!(text(4, "LeaderWorker", "3"), @r#"
    pg-leaderworkerset-u1-group-1 of LeaderWorkerSet min=4 queue=default-queue class=train
      {"name":"segment-0"}
      {"minMember":1,"name":"leader","parent":"segment-0"}
      {"minMember":1,"name":"workers","parent":"segment-0"}
      {"minMember":2,"name":"segment-1"}
      the pod: segment-1
    "#);
    assert_snapshot!(text(5, "LeaderWorker", "2"), @r#"
    pg-leaderworkerset-u1-group-1 of LeaderWorkerSet min=5 queue=default-queue class=train
      {"name":"segment-0"}
      {"minMember":1,"name":"leader","parent":"segment-0"}
      {"minMember":2,"name":"workers","parent":"segment-0"}
      {"minMember":2,"name":"segment-1"}
      the pod: workers
    "#);
    assert_snapshot!(text(5, "LeaderExcluded", "3"), @r#"
    pg-leaderworkerset-u1-group-1 of LeaderWorkerSet min=5 queue=default-queue class=train
      {"minMember":1,"name":"leader"}
      {"minMember":2,"name":"segment-0"}
      {"minMember":2,"name":"segment-1"}
      the pod: segment-1
    "#);
    assert_snapshot!(text(4, "LeaderExcluded", "3"), @"segment size: got 2, expected a divisor of the number of workers, as the leader is excluded");
}
