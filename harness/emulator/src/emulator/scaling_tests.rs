//! Jobs, JobSets and TrainJobs whose size changes while they run.

use crate::emulator::test_cluster::{TestCluster, train_job};
use schedlab_api::{
    json,
    object::{set, text},
};

/// Sets the counts at `paths` of an object's spec and lets the controllers follow.
async fn resize_and_settle(
    cluster: &TestCluster,
    plural: &str,
    name: &str,
    paths: &[&[&str]],
    count: i64,
) {
    cluster.edit(plural, name, |object| {
        for path in paths {
            let mut at = &mut *object;
            for field in *path {
                at = match field.parse::<usize>() {
                    Ok(index) => &mut at[index],
                    Err(_) => &mut at[*field],
                };
            }
            *at = json!(count);
        }
    });
    cluster.bind_and_run(4).await;
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_follows_its_completions_and_forgets_indexes_beyond_them() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&train_job("completionMode: Indexed; parallelism: 4; completions: 4", ""));
    cluster.bind_and_run(3).await;
    let last = cluster.object_names_of("pods").pop().unwrap();
    cluster.set_annotation("pods", &last, "schedlab.dev/run-time", "1s");
    cluster.bind_and_run(3).await;
    let completed =
        || text(&cluster.get("jobs", "train"), &["status", "completedIndexes"]).to_owned();
    assert_eq!(completed(), "3");
    let sizes: [&[&str]; 2] = [&["spec", "parallelism"], &["spec", "completions"]];
    resize_and_settle(&cluster, "jobs", "train", &sizes, 2).await;
    assert_eq!((cluster.count_pods_in_phase("Running"), completed()), (2, String::new()));
    resize_and_settle(&cluster, "jobs", "train", &sizes, 5).await;
    assert_eq!(
        (cluster.count_pods_in_phase("Running"), cluster.status_count("jobs", "train", "failed")),
        (5, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_set_resizes_its_indexed_jobs_and_deletes_surplus_ones() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        "
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: set}
        spec:
          replicatedJobs:
          - name: w
            replicas: 2
            template:
              spec: {parallelism: 2, completions: 2, template: {spec: {containers: [{name: c, image: i}]}}}
        ",
    );
    cluster.bind_and_run(3).await;
    let size = |field: &'static str| ["spec", "replicatedJobs", "0", "template", "spec", field];
    let sizes = [size("parallelism"), size("completions")];
    let sizes = [&sizes[0][..], &sizes[1][..]];
    for to in [1, 3] {
        resize_and_settle(&cluster, "jobsets", "set", &sizes, to).await;
        assert_eq!(cluster.count_pods_in_phase("Running"), usize::try_from(to).unwrap() * 2);
    }
    resize_and_settle(
        &cluster,
        "jobsets",
        "set",
        &[&["spec", "replicatedJobs", "0", "replicas"]],
        1,
    )
    .await;
    assert_eq!(
        (cluster.object_names_of("jobs"), cluster.count_pods_in_phase("Running")),
        (vec!["set-w-0".to_owned()], 3)
    );
}

#[tokio::test(start_paused = true)]
async fn a_train_job_resizes_its_job_set() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        "
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch}
        spec:
          template:
            spec:
              replicatedJobs:
              - name: node
                template: {spec: {template: {spec: {containers: [{name: node, image: torch}]}}}}
",
    );
    cluster.apply(
        "
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: TrainJob
        metadata: {name: tj}
        spec: {runtimeRef: {name: torch}, trainer: {numNodes: 4}}
        ",
    );
    cluster.bind_and_run(3).await;
    for to in [2, 5] {
        resize_and_settle(&cluster, "trainjobs", "tj", &[&["spec", "trainer", "numNodes"]], to)
            .await;
        assert_eq!(cluster.count_pods_in_phase("Running"), usize::try_from(to).unwrap());
    }
    cluster.edit("trainjobs", "tj", |job| set(job, &["spec", "suspend"], json!(true)));
    cluster.bind_and_run(4).await;
    assert_eq!(cluster.objects_of("pods").len(), 0);
}
