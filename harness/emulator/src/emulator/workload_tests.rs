//! What workload controllers make of what users ask for.

use serde_json::json;

use crate::emulator::lab::Lab;
use crate::object::{annotation, condition, label, list, name, number, set, text};

const TEMPLATE: &str =
    "{metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}";

fn deployment(name: &str, more: &str) -> String {
    format!(
        "
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: {name}}}
        spec: {{selector: {{matchLabels: {{app: web}}}}, template: {TEMPLATE}, {more}}}
        "
    )
}

fn job(more: &str, annotations: &str) -> String {
    format!(
        "
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: train}}
        spec:
          template:
            metadata: {{annotations: {{{annotations}}}}}
            spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}
          {}
        ",
        more.replace(", ", "\n          ")
    )
}

impl Lab {
    /// Binds pods as they come, every second for some seconds.
    async fn work(&self, secs: u64) {
        for _ in 0..secs {
            self.bind_all("n1");
            self.secs(1).await;
        }
    }

    /// How many pods are in a phase and not being deleted.
    fn in_phase(&self, phase: &str) -> usize {
        let pods = self.all("pods");
        let of = |pod: &&crate::store::Object| {
            text(pod, &["status", "phase"]) == phase && !crate::object::is_deleting(pod)
        };
        pods.iter().filter(of).count()
    }

    fn status(&self, plural: &str, name: &str, field: &str) -> i64 {
        number(&self.get(plural, name), &["status", field]).unwrap_or(0)
    }

    fn has(&self, plural: &str, name: &str, kind: &str) -> bool {
        condition(&self.get(plural, name), kind) == Some("True")
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_runs_its_replicas_through_a_replica_set() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment("web", "replicas: 3"));
    lab.work(3).await;
    assert_eq!(lab.in_phase("Running"), 3);
    let sets = lab.all("replicasets");
    assert_eq!(sets.len(), 1);
    let hash = label(&sets[0], "pod-template-hash").unwrap();
    assert_eq!(name(&sets[0]), format!("web-{hash}"));
    for pod in lab.all("pods") {
        assert!(name(&pod).starts_with(&format!("web-{hash}-")));
        assert_eq!(label(&pod, "pod-template-hash"), Some(hash));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], true);
    }
    for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(lab.status("deployments", "web", field), 3, "{field}");
    }
    let web = lab.get("deployments", "web");
    assert_eq!(condition(&web, "Available"), Some("True"));
    assert_eq!(annotation(&web, "deployment.kubernetes.io/revision"), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_replaces_a_pod_that_is_deleted() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment("web", "replicas: 2"));
    lab.work(2).await;
    let first = lab.names("pods")[0].clone();
    lab.delete("pods", &first);
    lab.work(3).await;
    assert_eq!(lab.in_phase("Running"), 2);
    assert!(!lab.names("pods").contains(&first));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_scales_up_and_down() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment("web", "replicas: 2"));
    lab.work(2).await;
    for replicas in [5, 1, 0] {
        lab.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(replicas)));
        lab.work(3).await;
        assert_eq!(lab.names("pods").len(), replicas);
        assert_eq!(lab.status("deployments", "web", "replicas"), i64::try_from(replicas).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_down_lets_pending_pods_go_first() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment("web", "replicas: 2"));
    lab.work(1).await;
    let running = lab.names("pods");
    lab.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(4)));
    lab.rest().await;
    assert_eq!(lab.names("pods").len(), 4);
    lab.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(2)));
    lab.rest().await;
    assert_eq!(lab.names("pods"), running);
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_never_leaves_its_bounds() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment(
        "web",
        "replicas: 4, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}",
    ));
    lab.work(3).await;
    lab.edit("deployments", "web", |web| {
        set(web, &["spec", "template", "metadata", "annotations", "v"], json!("2"));
    });
    for _ in 0..30 {
        lab.work(1).await;
        let running = lab.in_phase("Running");
        assert!(running >= 3, "{running}");
        let all = running + lab.in_phase("Pending");
        assert!(all <= 5, "{all}");
    }
    assert_eq!(lab.status("deployments", "web", "updatedReplicas"), 4);
    let pods = lab.all("pods");
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|pod| annotation(pod, "v") == Some("2")));
    let web = lab.get("deployments", "web");
    assert_eq!(annotation(&web, "deployment.kubernetes.io/revision"), Some("2"));
    assert_eq!(lab.names("replicasets").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_recreates_ends_all_old_pods_first() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment("web", "replicas: 3, strategy: {type: Recreate}"));
    lab.work(2).await;
    let old = lab.names("pods");
    lab.edit("deployments", "web", |web| {
        set(web, &["spec", "template", "metadata", "annotations", "v"], json!("2"));
    });
    lab.rest().await;
    assert_eq!(lab.names("pods"), old);
    lab.work(4).await;
    assert_eq!(lab.in_phase("Running"), 3);
    assert!(lab.names("pods").iter().all(|pod| !old.contains(pod)));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_stands_still_is_given_up_after_its_deadline() {
    let lab = Lab::new();
    lab.apply(&deployment("web", "replicas: 1, progressDeadlineSeconds: 60"));
    lab.secs(59).await;
    assert!(lab.has("deployments", "web", "Progressing"));
    lab.secs(2).await;
    let web = lab.get("deployments", "web");
    assert_eq!(condition(&web, "Progressing"), Some("False"));
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_starts_its_pods_in_order_and_stops_them_in_reverse() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&format!(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {{name: db}}
        spec: {{serviceName: db, replicas: 3, selector: {{matchLabels: {{app: web}}}}, template: {TEMPLATE}}}
        "
    ));
    lab.rest().await;
    assert_eq!(lab.names("pods"), ["db-0"]);
    lab.work(1).await;
    assert_eq!(lab.names("pods"), ["db-0", "db-1"]);
    lab.work(3).await;
    assert_eq!(lab.in_phase("Running"), 3);
    assert_eq!(label(&lab.get("pods", "db-2"), "apps.kubernetes.io/pod-index"), Some("2"));
    lab.edit("statefulsets", "db", |db| set(db, &["spec", "replicas"], json!(1)));
    lab.secs(1).await;
    lab.rest().await;
    assert_eq!(lab.names("pods"), ["db-0", "db-1"]);
    lab.secs(2).await;
    assert_eq!(lab.names("pods"), ["db-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_parallel_stateful_set_starts_all_at_once_and_keeps_names() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&format!(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {{name: db}}
        spec:
          serviceName: db
          replicas: 3
          podManagementPolicy: Parallel
          selector: {{matchLabels: {{app: web}}}}
          template: {TEMPLATE}
        "
    ));
    lab.rest().await;
    assert_eq!(lab.names("pods"), ["db-0", "db-1", "db-2"]);
    lab.work(1).await;
    lab.delete("pods", "db-1");
    lab.work(3).await;
    assert_eq!(lab.names("pods"), ["db-0", "db-1", "db-2"]);
    assert_eq!(lab.in_phase("Running"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_replaces_outdated_pods_from_the_last() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&format!(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {{name: db}}
        spec: {{serviceName: db, replicas: 2, selector: {{matchLabels: {{app: web}}}}, template: {TEMPLATE}}}
        "
    ));
    lab.work(3).await;
    lab.edit("statefulsets", "db", |db| {
        set(db, &["spec", "template", "metadata", "annotations", "v"], json!("2"));
    });
    lab.rest().await;
    assert!(crate::object::is_deleting(&lab.get("pods", "db-1")));
    assert!(!crate::object::is_deleting(&lab.get("pods", "db-0")));
    lab.work(8).await;
    assert!(lab.all("pods").iter().all(|pod| annotation(pod, "v") == Some("2")));
    assert_eq!(lab.status("statefulsets", "db", "updatedReplicas"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_of_three_completions_at_parallelism_two_runs_two_at_a_time() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("parallelism: 2, completions: 3", "schedlab.dev/run-time: 10s"));
    lab.work(5).await;
    assert_eq!(lab.in_phase("Running"), 2);
    lab.work(10).await;
    assert_eq!((lab.in_phase("Running"), lab.in_phase("Succeeded")), (1, 2));
    lab.work(12).await;
    assert_eq!(lab.status("jobs", "train", "succeeded"), 3);
    assert!(lab.has("jobs", "train", "Complete"));
    assert!(lab.has("jobs", "train", "SuccessCriteriaMet"));
    assert_eq!(lab.names("pods").len(), 3);
    assert!(lab.all("pods").iter().all(|pod| list(pod, &["metadata", "finalizers"]).is_empty()));
    let pod = &lab.all("pods")[0];
    assert_eq!(label(pod, "batch.kubernetes.io/job-name"), Some("train"));
    assert!(lab.events("train").contains(&"Completed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_runs_every_index_once() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job(
        "parallelism: 2, completions: 4, completionMode: Indexed",
        "schedlab.dev/run-time: 3s",
    ));
    lab.work(20).await;
    let train = lab.get("jobs", "train");
    assert_eq!(text(&train, &["status", "completedIndexes"]), "0-3");
    assert_eq!(condition(&train, "Complete"), Some("True"));
    let pods = lab.all("pods");
    let mut indexes: Vec<&str> = pods
        .iter()
        .map(|pod| annotation(pod, "batch.kubernetes.io/job-completion-index").unwrap())
        .collect();
    indexes.sort_unstable();
    assert_eq!(indexes, ["0", "1", "2", "3"]);
    assert_eq!(text(&pods[0], &["spec", "hostname"]), "train-0");
    let env = &pods[0]["spec"]["containers"][0]["env"][0];
    assert_eq!(env, &json!({"name": "JOB_COMPLETION_INDEX", "value": "0"}));
}

#[tokio::test(start_paused = true)]
async fn a_job_backs_off_after_failures_and_gives_up_at_its_limit() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("backoffLimit: 2", "schedlab.dev/run-time: 1s, schedlab.dev/exit-code: '1'"));
    lab.work(3).await;
    assert_eq!((lab.names("pods").len(), lab.status("jobs", "train", "failed")), (1, 1));
    lab.work(8).await;
    assert_eq!(lab.names("pods").len(), 1);
    lab.work(4).await;
    assert_eq!(lab.names("pods").len(), 2);
    lab.work(40).await;
    assert_eq!(lab.status("jobs", "train", "failed"), 3);
    let train = lab.get("jobs", "train");
    assert_eq!(condition(&train, "Failed"), Some("True"));
    assert!(lab.events("train").contains(&"BackoffLimitExceeded".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_of_a_job_counts_as_failed_and_is_replaced() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("parallelism: 1", ""));
    lab.work(2).await;
    let first = lab.names("pods")[0].clone();
    lab.delete("pods", &first);
    lab.work(15).await;
    assert_eq!(lab.status("jobs", "train", "failed"), 1);
    assert_eq!(lab.in_phase("Running"), 1);
    assert!(!lab.names("pods").contains(&first));
}

#[tokio::test(start_paused = true)]
async fn a_job_past_its_deadline_fails_and_its_pods_go() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("activeDeadlineSeconds: 30, parallelism: 2, completions: 2", ""));
    lab.work(29).await;
    assert_eq!(lab.in_phase("Running"), 2);
    lab.work(4).await;
    let train = lab.get("jobs", "train");
    assert_eq!(condition(&train, "Failed"), Some("True"));
    assert_eq!(lab.names("pods"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_goes_with_its_pods_when_its_time_to_live_is_over() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("ttlSecondsAfterFinished: 60", "schedlab.dev/run-time: 1s"));
    lab.work(50).await;
    assert!(lab.has("jobs", "train", "Complete"));
    lab.secs(20).await;
    assert_eq!((lab.names("jobs"), lab.names("pods")), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("suspend: true", ""));
    lab.work(2).await;
    assert!(lab.has("jobs", "train", "Suspended"));
    assert_eq!(lab.names("pods").len(), 0);
    lab.edit("jobs", "train", |job| set(job, &["spec", "suspend"], json!(false)));
    lab.work(2).await;
    assert_eq!(lab.in_phase("Running"), 1);
    assert!(!lab.has("jobs", "train", "Suspended"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_takes_its_pods_along() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("parallelism: 2, completions: 2", ""));
    lab.work(2).await;
    lab.delete("jobs", "train");
    lab.secs(3).await;
    assert_eq!((lab.names("jobs"), lab.names("pods")), (vec![], vec![]));
}

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
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(JOB_SET);
    lab.work(5).await;
    assert_eq!(lab.names("jobs"), ["set-leader-0", "set-worker-0", "set-worker-1"]);
    assert_eq!(lab.in_phase("Running"), 5);
    let job = lab.get("jobs", "set-worker-1");
    assert_eq!(label(&job, "jobset.sigs.k8s.io/jobset-name"), Some("set"));
    assert_eq!(label(&job, "jobset.sigs.k8s.io/job-global-index"), Some("2"));
    assert_eq!(job["metadata"]["ownerReferences"][0]["kind"], "JobSet");
    lab.work(25).await;
    let set = lab.get("jobsets", "set");
    assert_eq!(condition(&set, "Completed"), Some("True"));
    assert_eq!(text(&set, &["status", "terminalState"]), "Completed");
}

#[tokio::test(start_paused = true)]
async fn a_job_set_restarts_whole_when_one_job_fails_and_fails_at_its_limit() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(JOB_SET);
    for restarts in [1, 1] {
        lab.work(5).await;
        let worker = lab.names("pods").into_iter().find(|pod| pod.starts_with("set-worker-0-1"));
        lab.annotate("pods", &worker.unwrap(), "schedlab.dev/exit-code", "1");
        lab.annotate("pods", &lab.names("pods")[1], "schedlab.dev/run-time", "1s");
        lab.edit("pods", &lab.names("pods")[2], |pod| {
            set(pod, &["metadata", "annotations", "schedlab.dev/run-time"], json!("1s"));
        });
        lab.work(8).await;
        assert_eq!(lab.status("jobsets", "set", "restarts"), restarts);
    }
    let set = lab.get("jobsets", "set");
    assert_eq!(condition(&set, "Failed"), Some("True"));
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
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(RUNTIME);
    lab.apply(TRAIN_JOB);
    lab.work(2).await;
    assert_eq!(lab.in_phase("Running"), 4);
    let set = lab.get("jobsets", "tj");
    assert_eq!(set["metadata"]["ownerReferences"][0]["kind"], "TrainJob");
    assert_eq!(label(&set, "kai.scheduler/queue"), Some("prod"));
    let job = lab.get("jobs", "tj-node-0");
    assert_eq!((&job["spec"]["parallelism"], &job["spec"]["completions"]), (&json!(4), &json!(4)));
    let pod = &lab.all("pods")[0];
    assert_eq!(text(pod, &["spec", "schedulerName"]), "kai-scheduler");
    assert!(annotation(pod, "schedlab.dev/gpu-devices").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_train_job_waits_for_its_runtime_and_says_so() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(TRAIN_JOB);
    lab.rest().await;
    assert_eq!(lab.events("tj"), ["TrainingRuntimeNotFound"]);
    lab.apply(RUNTIME);
    lab.work(2).await;
    assert_eq!(lab.in_phase("Running"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_with_its_nodes_in_the_wrong_place_is_refused_by_field() {
    let lab = Lab::new();
    let wrong =
        RUNTIME.replace("numNodes: 1, torch: {numProcPerNode: auto}", "torch: {numNodes: 1}");
    let error = lab.try_apply(&wrong).unwrap_err();
    assert!(error.message.contains("unknown field \"spec.mlPolicy.torch.numNodes\""), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_with_a_pod_in_place_of_a_job_set_is_refused_by_field() {
    let lab = Lab::new();
    let error = lab
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

const PYTORCH: &str = "
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
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(PYTORCH);
    lab.work(2).await;
    assert_eq!(lab.names("pods"), ["pt-master-0", "pt-worker-0", "pt-worker-1", "pt-worker-2"]);
    let worker = lab.get("pods", "pt-worker-2");
    assert_eq!(label(&worker, "training.kubeflow.org/replica-type"), Some("worker"));
    assert_eq!(label(&worker, "training.kubeflow.org/replica-index"), Some("2"));
    let env = list(&worker["spec"]["containers"][0], &["env"]);
    assert!(env.contains(&json!({"name": "RANK", "value": "3"})));
    assert!(env.contains(&json!({"name": "WORLD_SIZE", "value": "4"})));
    assert!(lab.has("pytorchjobs", "pt", "Running"));
    lab.work(20).await;
    assert!(lab.has("pytorchjobs", "pt", "Succeeded"));
    assert!(!lab.has("pytorchjobs", "pt", "Running"));
}

#[tokio::test(start_paused = true)]
async fn a_pytorch_job_makes_a_deleted_worker_anew_and_fails_with_a_failed_one() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(PYTORCH);
    lab.work(2).await;
    lab.delete("pods", "pt-worker-1");
    lab.work(4).await;
    assert_eq!(lab.in_phase("Running"), 4);
    assert!(!lab.has("pytorchjobs", "pt", "Failed"));
    lab.annotate("pods", "pt-worker-1", "schedlab.dev/exit-code", "1");
    lab.annotate("pods", "pt-worker-1", "schedlab.dev/run-time", "1s");
    lab.work(2).await;
    assert!(lab.has("pytorchjobs", "pt", "Failed"));
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_healthy_pods_and_what_may_go() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment("web", "replicas: 4"));
    lab.apply(
        "
        apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {name: pdb}
        spec: {maxUnavailable: 25%, selector: {matchLabels: {app: web}}}
        ",
    );
    lab.rest().await;
    let count = |field| lab.status("poddisruptionbudgets", "pdb", field);
    assert_eq!(
        [count("expectedPods"), count("desiredHealthy"), count("disruptionsAllowed")],
        [4, 3, 0]
    );
    lab.work(2).await;
    assert_eq!([count("currentHealthy"), count("disruptionsAllowed")], [4, 1]);
}
