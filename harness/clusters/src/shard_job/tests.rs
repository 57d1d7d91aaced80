use schedlab_emulator::clock::Clock;
use schedlab_emulator::{Emulator, Fleet, KubeletDefaults, Options};
use serde_json::Value;

use super::*;

const JOB: &str = "schedlab-run-1";

/// A cluster with one node, on which pods run for a minute.
fn emulator() -> Emulator {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let run_time = Some(Duration::from_mins(1));
    let kubelet_defaults = KubeletDefaults { run_time, ..KubeletDefaults::default() };
    let emulator = Emulator::start(Options { kubelet_defaults, ..Options::with_clock(clock) });
    let fleet = "pools:\n- name: node\n  names: [node-1]\n  gpus: 8\n";
    emulator.add_fleet(&Fleet::parse("fleet", fleet).unwrap()).unwrap();
    emulator
}

fn shard_job() -> ShardJob {
    let file = |path: &str, text: String| PodFile { path: path.to_owned(), text };
    ShardJob {
        shards: 4,
        image: "schedlab/schedlab:dev".to_owned(),
        pull_policy: "IfNotPresent".to_owned(),
        cpu: "1".to_owned(),
        memory: "512Mi".to_owned(),
        words: vec!["shard-pod".to_owned(), "--index=$(JOB_COMPLETION_INDEX)".to_owned()],
        files: vec![
            file("features/gang/a.feature", "a".repeat(500_000)),
            file("fixtures/f.yaml", "b".repeat(500_000)),
        ],
    }
}

/// Binds every pod to the node, as the cluster's scheduler does.
async fn bind_all_pods(client: Client) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    loop {
        for pod in pods.list(&ListParams::default()).await.unwrap().items {
            let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            let name = pod.metadata.name.unwrap_or_default();
            if !is_bound {
                let binding = schedlab_api::json!({
                    "apiVersion": "v1", "kind": "Binding",
                    "metadata": {"name": name}, "target": {"kind": "Node", "name": "node-1"},
                });
                let path = format!("/api/v1/namespaces/default/pods/{name}/binding");
                // A pod that is gone by now needs no node.
                let _ = crate::api::Api::new(client.clone()).post(&path, &binding).await;
            }
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// The titles of the objects that a run leaves behind.
async fn left_objects(client: &Client) -> Vec<String> {
    let everything = ListParams::default();
    let name = |kind: &str, name: Option<String>| format!("{kind} {}", name.unwrap_or_default());
    let jobs: Api<Job> = Api::all(client.clone());
    let pods: Api<Pod> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut left = Vec::new();
    for job in jobs.list(&everything).await.unwrap().items {
        left.push(name("Job", job.metadata.name));
    }
    for pod in pods.list(&everything).await.unwrap().items {
        left.push(name("Pod", pod.metadata.name));
    }
    for map in maps.list(&everything.labels(manifests::RUN_LABEL)).await.unwrap().items {
        left.push(name("ConfigMap", map.metadata.name));
    }
    left
}

#[tokio::test(start_paused = true)]
async fn the_shards_run_as_an_indexed_job_whose_objects_are_removed() {
    let emulator = emulator();
    let client = emulator.client();
    let binding = tokio::spawn(bind_all_pods(client.clone()));
    let mut reported = Vec::new();
    let mut report = |line: &str| reported.push(line.to_owned());
    let interrupt = Interrupt::default();
    let job = shard_job();
    let logs = Box::pin(run_shard_job(&client, JOB, &job, &interrupt, &mut report)).await;
    // Emulated containers print nothing.
    assert_eq!(logs.unwrap(), [""; 4]);
    binding.abort();
    assert_eq!(reported[0], "created Job schedlab-run-1 with 4 shards");
    assert!(reported.contains(&"0 of 4 shards done, 4 running".to_owned()), "{reported:?}");
    assert_eq!(left_objects(&client).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_removes_all_objects() {
    let emulator = emulator();
    let client = emulator.client();
    let interrupt = Interrupt::default();
    let raiser = interrupt.clone();
    let mut reported = Vec::new();
    let mut report = |line: &str| {
        reported.push(line.to_owned());
        // The pods wait for a node.
        if line.starts_with("0 of 4") {
            raiser.raise();
        }
    };
    let job = shard_job();
    let ended = Box::pin(run_shard_job(&client, JOB, &job, &interrupt, &mut report)).await;
    assert!(ended.unwrap_err().is::<Interrupted>());
    assert_eq!(reported.last().map(String::as_str), Some("interrupted: deleting the pods"));
    assert_eq!(left_objects(&client).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_error_says_what_the_server_says_and_no_more() {
    let emulator = emulator();
    let (job, interrupt) = (shard_job(), Interrupt::default());
    let client = emulator.client();
    let ended = Box::pin(run_shard_job(&client, "Not_A_Name", &job, &interrupt, &mut |_| {})).await;
    let error = format!("{:#}", ended.unwrap_err());
    assert!(
        error.starts_with("cannot create Job Not_A_Name: Job.batch \"Not_A_Name\" is invalid: "),
        "{error}"
    );
    assert!(!error.contains("Status {") && error.ends_with(" (Invalid)"), "{error}");
}

#[test]
fn files_are_mounted_at_their_paths_from_as_many_config_maps_as_they_need() {
    let job = shard_job();
    let maps = config_maps(JOB, &job.files).unwrap();
    assert_eq!(maps.len(), 2);
    let manifest = job_manifest(JOB, &job, &maps).unwrap();
    let template = serde_json::to_value(manifest.spec.unwrap().template.spec.unwrap()).unwrap();
    let source = |map: &str, key: &str, path: &str| json!({"configMap": {"name": map, "items": [{"key": key, "path": path}]}});
    let sources = [
        source("schedlab-run-1-files-1", "file-0", "features/gang/a.feature"),
        source("schedlab-run-1-files-2", "file-1", "fixtures/f.yaml"),
    ];
    assert_eq!(template["volumes"][1]["projected"]["sources"], json!(sources));
    let container = &template["containers"][0];
    assert_eq!(
        (container["workingDir"].as_str(), template["volumes"].as_array().map(Vec::len)),
        (Some("/work"), Some(2))
    );
    let large = [PodFile { path: "x".to_owned(), text: "a".repeat(900_000) }];
    let error = config_maps(JOB, &large).unwrap_err().to_string();
    assert!(error.starts_with("x: got a file of 900000 bytes, expected at most 800000"), "{error}");
}

#[test]
fn an_image_that_cannot_be_pulled_is_a_problem_and_a_missing_node_is_not() {
    let pod = |status: Value| -> Pod {
        let labels = json!({"batch.kubernetes.io/job-completion-index": "0"});
        let metadata = json!({"name": "p", "labels": labels});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    };
    let waiting = json!({"reason": "ImagePullBackOff", "message": "no such image"});
    let statuses = json!([{
        "name": CONTAINER, "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": waiting},
    }]);
    let unpulled = pod(json!({"phase": "Pending", "containerStatuses": statuses}));
    let problem = JobProgress::of_pods(&[unpulled], 4).cannot_start.unwrap();
    assert_eq!(problem, "pod p cannot start: ImagePullBackOff: no such image");
    let condition = json!({"type": "PodScheduled", "status": "False", "message": "no node"});
    let waiting = pod(json!({"phase": "Pending", "conditions": [condition]}));
    let progress = JobProgress::of_pods(&[waiting], 4);
    assert_eq!(
        (progress.cannot_start, &*progress.text),
        (None, "0 of 4 shards done, waiting for a node: no node")
    );
}
