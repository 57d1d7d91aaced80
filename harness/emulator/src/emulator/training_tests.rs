//! The JobSet, TrainJob and PyTorchJob controllers.

use crate::emulator::test_cluster::{TestCluster, train_job};
use schedlab_api::{
    json,
    object::{annotation, condition, label, list, set, text},
};

const JOB_SET: &str = "
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: set}
        spec:
          failurePolicy: {maxRestarts: 1}
          replicatedJobs:
          - name: leader
            template: {spec: {template: {metadata: {annotations: {schedlab.dev/run-time: 20s}}, spec: {containers: [{name: c, image: i}]}}}}
          - name: worker
            replicas: 2
            template:
              spec:
                parallelism: 2
                completions: 2
                backoffLimit: 0
                template: {metadata: {annotations: {schedlab.dev/run-time: 20s}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
        ";

#[tokio::test(start_paused = true)]
async fn a_job_set_makes_its_jobs_and_completes_with_them() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(JOB_SET);
    cluster.bind_and_run(5).await;
    assert_eq!(cluster.object_names_of("jobs"), ["set-leader-0", "set-worker-0", "set-worker-1"]);
    assert_eq!(cluster.count_pods_in_phase("Running"), 5);
    let job = cluster.get("jobs", "set-worker-1");
    assert_eq!(label(&job, "jobset.sigs.k8s.io/jobset-name"), Some("set"));
    assert_eq!(label(&job, "jobset.sigs.k8s.io/job-global-index"), Some("2"));
    assert_eq!(job["metadata"]["ownerReferences"][0]["kind"], "JobSet");
    cluster.bind_and_run(25).await;
    let set = cluster.get("jobsets", "set");
    assert_eq!(condition(&set, "Completed"), Some("True"));
    assert_eq!(text(&set, &["status", "terminalState"]), "Completed");
}

#[tokio::test(start_paused = true)]
async fn a_job_set_restarts_all_jobs_when_one_fails_and_fails_at_its_restart_limit() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(JOB_SET);
    for restarts in [1, 1] {
        cluster.bind_and_run(5).await;
        let worker = cluster
            .object_names_of("pods")
            .into_iter()
            .find(|pod| pod.starts_with("set-worker-0-1"));
        cluster.set_annotation("pods", &worker.unwrap(), "schedlab.dev/exit-code", "1");
        cluster.set_annotation(
            "pods",
            &cluster.object_names_of("pods")[1],
            "schedlab.dev/run-time",
            "1s",
        );
        cluster.edit("pods", &cluster.object_names_of("pods")[2], |pod| {
            set(pod, &["metadata", "annotations", "schedlab.dev/run-time"], json!("1s"));
        });
        cluster.bind_and_run(8).await;
        assert_eq!(cluster.status_count("jobsets", "set", "restarts"), restarts);
    }
    let set = cluster.get("jobsets", "set");
    assert_eq!(condition(&set, "Failed"), Some("True"));
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_set_still_counts_the_jobs_it_stopped() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        "
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: set}
        spec:
          successPolicy: {operator: All, targetReplicatedJobs: [leader]}
          replicatedJobs:
          - name: leader
            template: {spec: {template: {metadata: {annotations: {schedlab.dev/run-time: 5s}}, spec: {containers: [{name: c, image: i}]}}}}
          - name: worker
            template: {spec: {template: {spec: {containers: [{name: c, image: i}]}}}}
        ",
    );
    let active = |cluster: &TestCluster| {
        let set = cluster.get("jobsets", "set");
        let groups = list(&set, &["status", "replicatedJobsStatus"]);
        groups.iter().map(|group| group["active"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    cluster.bind_and_run(3).await;
    assert_eq!(active(&cluster), [1, 1]);
    cluster.bind_and_run(12).await;
    assert!(cluster.has_true_condition("jobsets", "set", "Completed"));
    assert_eq!(active(&cluster), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn workloads_managed_by_another_controller_are_ignored() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(RUNTIME);
    let elsewhere = "managedBy: kueue.x-k8s.io/multikueue";
    cluster.apply(
        &JOB_SET.replace("failurePolicy:", &format!("{elsewhere}\n          failurePolicy:")),
    );
    cluster
        .apply(&TRAIN_JOB.replace("runtimeRef:", &format!("{elsewhere}\n          runtimeRef:")));
    cluster.apply(&PYTORCH_JOB.replace(
        "pytorchReplicaSpecs:",
        &format!("runPolicy: {{{elsewhere}}}\n          pytorchReplicaSpecs:"),
    ));
    cluster.apply(&train_job(elsewhere, ""));
    cluster.bind_and_run(3).await;
    assert_eq!(
        (cluster.object_names_of("pods"), cluster.object_names_of("jobs")),
        (vec![], vec!["train".to_owned()])
    );
    assert_eq!(cluster.object_names_of("jobsets"), ["set"]);
    for (plural, name) in
        [("jobsets", "set"), ("trainjobs", "tj"), ("pytorchjobs", "pt"), ("jobs", "train")]
    {
        assert!(list(&cluster.get(plural, name), &["status", "conditions"]).is_empty(), "{plural}");
    }
    cluster
        .apply(&train_job("managedBy: kubernetes.io/job-controller", "").replace("train}", "own}"));
    cluster.bind_and_run(2).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 1);
}

const RUNTIME: &str = "
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch}
        spec:
          mlPolicy: {numNodes: 1, torch: {numProcPerNode: auto}}
          template:
            spec:
              replicatedJobs:
              - name: node
                template:
                  spec: {template: {spec: {schedulerName: kai-scheduler, containers: [{name: node, image: torch}]}}}
        ";

const TRAIN_JOB: &str = "
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: TrainJob
        metadata: {name: tj, labels: {kai.scheduler/queue: prod}}
        spec:
          runtimeRef: {name: torch}
          trainer: {numNodes: 4, resourcesPerNode: {limits: {nvidia.com/gpu: 1}}}
        ";

#[tokio::test(start_paused = true)]
async fn a_train_job_becomes_a_pod_a_node_through_job_set_and_job() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(RUNTIME);
    cluster.apply(TRAIN_JOB);
    cluster.bind_and_run(2).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 4);
    let set = cluster.get("jobsets", "tj");
    assert_eq!(set["metadata"]["ownerReferences"][0]["kind"], "TrainJob");
    assert_eq!(label(&set, "kai.scheduler/queue"), Some("prod"));
    let job = cluster.get("jobs", "tj-node-0");
    assert_eq!((&job["spec"]["parallelism"], &job["spec"]["completions"]), (&json!(4), &json!(4)));
    let pod = &cluster.objects_of("pods")[0];
    assert_eq!(text(pod, &["spec", "schedulerName"]), "kai-scheduler");
    assert!(annotation(pod, "schedlab.dev/gpu-devices").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_train_job_reports_that_it_waits_for_its_runtime() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(TRAIN_JOB);
    cluster.settle().await;
    assert_eq!(cluster.event_reasons("tj"), ["TrainingRuntimeNotFound"]);
    cluster.apply(RUNTIME);
    cluster.bind_and_run(2).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_with_its_nodes_in_the_wrong_place_is_refused_by_field() {
    let cluster = TestCluster::new();
    let wrong =
        RUNTIME.replace("numNodes: 1, torch: {numProcPerNode: auto}", "torch: {numNodes: 1}");
    let error = cluster.try_apply(&wrong).unwrap_err();
    assert!(error.message.contains("unknown field \"spec.mlPolicy.torch.numNodes\""), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_with_a_pod_in_place_of_a_job_set_is_refused_by_field() {
    let cluster = TestCluster::new();
    let error = cluster
        .try_apply(
            "
            apiVersion: trainer.kubeflow.org/v1alpha1
            kind: ClusterTrainingRuntime
            metadata: {name: torch}
            spec:
              template:
                spec: {replicatedJobs: [{name: node, template: {spec: {}}}]}
            ",
        )
        .unwrap_err();
    assert!(
        error.message.contains(
            "spec.template.spec.replicatedJobs[0].template.spec.template: Required value"
        ),
        "{error}"
    );
}

const PYTORCH_JOB: &str = "
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: pt}
        spec:
          pytorchReplicaSpecs:
            Master:
              replicas: 1
              restartPolicy: Never
              template: {metadata: {annotations: {schedlab.dev/run-time: 20s}}, spec: {containers: [{name: pytorch, image: i}]}}
            Worker:
              replicas: 3
              restartPolicy: Never
              template: {spec: {containers: [{name: pytorch, image: i}]}}
        ";

#[tokio::test(start_paused = true)]
async fn a_pytorch_job_runs_a_master_and_workers_and_succeeds_with_the_master() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(PYTORCH_JOB);
    cluster.bind_and_run(2).await;
    assert_eq!(
        cluster.object_names_of("pods"),
        ["pt-master-0", "pt-worker-0", "pt-worker-1", "pt-worker-2"]
    );
    let worker = cluster.get("pods", "pt-worker-2");
    assert_eq!(label(&worker, "training.kubeflow.org/replica-type"), Some("worker"));
    assert_eq!(label(&worker, "training.kubeflow.org/replica-index"), Some("2"));
    let env = list(&worker["spec"]["containers"][0], &["env"]);
    assert!(env.contains(&json!({"name": "RANK", "value": "3"})));
    assert!(env.contains(&json!({"name": "WORLD_SIZE", "value": "4"})));
    assert!(cluster.has_true_condition("pytorchjobs", "pt", "Running"));
    cluster.bind_and_run(20).await;
    assert!(cluster.has_true_condition("pytorchjobs", "pt", "Succeeded"));
    assert!(!cluster.has_true_condition("pytorchjobs", "pt", "Running"));
    let job = cluster.get("pytorchjobs", "pt");
    assert_eq!(
        job["status"]["replicaStatuses"],
        json!({"Master": {"succeeded": 1}, "Worker": {"succeeded": 3}})
    );
}

#[tokio::test(start_paused = true)]
async fn a_pytorch_job_recreates_a_deleted_worker_and_fails_with_a_failed_one() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(PYTORCH_JOB);
    cluster.bind_and_run(2).await;
    cluster.delete("pods", "pt-worker-1");
    cluster.bind_and_run(4).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 4);
    assert!(!cluster.has_true_condition("pytorchjobs", "pt", "Failed"));
    cluster.set_annotation("pods", "pt-worker-1", "schedlab.dev/exit-code", "1");
    cluster.set_annotation("pods", "pt-worker-1", "schedlab.dev/run-time", "1s");
    cluster.bind_and_run(2).await;
    assert!(cluster.has_true_condition("pytorchjobs", "pt", "Failed"));
}

#[tokio::test(start_paused = true)]
async fn a_pytorch_job_that_is_suspended_again_does_not_run_and_runs_when_it_is_resumed() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(PYTORCH_JOB);
    let suspend = |suspend: bool| {
        cluster.edit("pytorchjobs", "pt", |job| {
            set(job, &["spec", "runPolicy", "suspend"], json!(suspend));
        });
    };
    let holds = |kind| cluster.has_true_condition("pytorchjobs", "pt", kind);
    cluster.bind_and_run(2).await;
    suspend(true);
    cluster.bind_and_run(4).await;
    assert_eq!((holds("Suspended"), holds("Running")), (true, false));
    let counts = &cluster.get("pytorchjobs", "pt")["status"]["replicaStatuses"];
    assert_eq!(*counts, json!({"Master": {}, "Worker": {}}));
    suspend(false);
    cluster.bind_and_run(4).await;
    assert_eq!((holds("Suspended"), holds("Running")), (false, true));
}
