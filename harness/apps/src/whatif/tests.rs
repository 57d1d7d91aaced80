use std::sync::Arc;

use schedlab_api::{Value, json};

use super::*;

fn case() -> Case {
    let node = |name: &str, model: &str| {
        json!({ "metadata": { "name": name, "labels": { "nvidia.com/gpu.product": model } },
                "status": { "conditions": [{ "type": "Ready", "status": "True" }],
                            "allocatable": { "cpu": "64", "memory": "512Gi", "pods": "110",
                                             "nvidia.com/gpu": "8" } } })
    };
    let queue = |name: &str, quota: i32| {
        let other = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
        json!({ "metadata": { "name": name }, "spec": { "resources": {
            "gpu": { "quota": quota, "limit": -1, "overQuotaWeight": 1 },
            "cpu": other, "memory": other } } })
    };
    let lists: [(&str, Vec<Value>); 2] = [
        ("nodes", vec![node("n1", "NVIDIA-H100-80GB-HBM3"), node("n2", "NVIDIA-A100-SXM4-80GB")]),
        ("queues", vec![queue("team-a", 4), queue("free", -1)]),
    ];
    let mut case = Case::default();
    for (list, objects) in lists {
        let objects = objects.into_iter().map(Arc::new).collect();
        case.cluster.objects.insert(list.to_owned(), objects);
    }
    case
}

fn error_of(changes: &Changes) -> String {
    match what_if(&case(), changes, &Options::default()) {
        Ok(answer) => format!("no error: {answer}"),
        Err(error) => error.to_string(),
    }
}

fn quota(change: &str) -> Changes {
    let to = change.parse().unwrap();
    Changes { queues: vec![QueueChange { field: QueueField::Quota, to }], ..Changes::default() }
}

fn nodes(change: &str) -> Changes {
    Changes { new_nodes: vec![change.parse().unwrap()], ..Changes::default() }
}

#[test]
fn an_error_names_what_the_case_has() {
    assert_eq!(
        error_of(&quota("team-c=+4")),
        "--quota: got queue team-c, expected one of free, team-a; did you mean `team-a`?"
    );
    assert_eq!(
        error_of(&quota("team-a=-5")),
        "--quota: got -5 for queue team-a, whose quota is 4, expected at most -4"
    );
    assert_eq!(
        error_of(&quota("free=+4")),
        "--quota: got a difference for queue free, whose quota is unlimited, expected free=NUMBER"
    );
    assert_eq!(
        error_of(&nodes("+4x8xH199")),
        "--nodes: got model H199, expected one of NVIDIA-A100-SXM4-80GB, NVIDIA-H100-80GB-HBM3; \
         did you mean H100?"
    );
    assert_eq!(
        error_of(&nodes("+4x8x80GB")),
        "--nodes: got model 80GB, which is a word of several, expected one of \
         NVIDIA-A100-SXM4-80GB, NVIDIA-H100-80GB-HBM3"
    );
    let removed = Changes { removed_nodes: vec!["rack-*".to_owned()], ..Changes::default() };
    assert_eq!(error_of(&removed), "--remove-nodes: got node rack-*, expected one of n1, n2");
    let class = Changes { priorities: vec!["ns/g=trian".parse().unwrap()], ..Changes::default() };
    assert_eq!(
        error_of(&class),
        "--priority: got priority class trian, expected one of build, build-preemptible, \
         inference, train; did you mean `train`?"
    );
}

/// Two nodes whose GPUs `free`, a queue without quota, uses.
fn borrowed_case() -> Case {
    let mut case = case();
    let group = |name: &str| {
        json!({ "metadata": { "name": name, "namespace": "work" },
                "spec": { "queue": "free", "minMember": 1, "priorityClassName": "train" } })
    };
    let pod = |name: &str, node: &str| {
        json!({ "metadata": { "name": name, "namespace": "work",
                              "annotations": { "pod-group-name": name } },
                "spec": { "schedulerName": "kai-scheduler", "nodeName": node,
                          "containers": [{ "name": "work", "resources": {
                              "limits": { "nvidia.com/gpu": "8" } } }] },
                "status": { "phase": "Running" } })
    };
    let lists: [(&str, Vec<Value>); 2] = [
        ("podGroups", vec![group("one"), group("two")]),
        ("pods", vec![pod("one", "n1"), pod("two", "n2")]),
    ];
    for (list, objects) in lists {
        let objects = objects.into_iter().map(Arc::new).collect();
        case.cluster.objects.insert(list.to_owned(), objects);
    }
    let queue = Arc::make_mut(&mut case.cluster.objects.get_mut("queues").unwrap()[1]);
    queue["spec"]["resources"]["gpu"]["quota"] = json!(0);
    case
}

/// Two jobs of `team-a`, each of which needs a whole node.
fn two_jobs() -> Changes {
    let job = |name: &str| {
        json!({ "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": name, "namespace": "work",
                              "labels": { "kai.scheduler/queue": "team-a" } },
                "spec": { "schedulerName": "kai-scheduler", "containers": [{ "name": "work",
                    "image": "work", "resources": { "limits": { "nvidia.com/gpu": "8" } } }] } })
    };
    Changes { submitted: vec![job("train-1"), job("train-2")], ..quota("team-a=16") }
}

#[test]
fn an_answer_says_that_a_search_stopped_at_the_limit() {
    let answer = |simulations_max: Option<usize>| {
        let overrides = Overrides { simulations_max, ..Overrides::default() };
        let options = Options { overrides, ..Options::default() };
        what_if(&borrowed_case(), &two_jobs(), &options).unwrap()
    };
    let whole = answer(None);
    assert_eq!((whole.started.len(), whole.end.at_rest), (2, true), "{whole}");
    assert_eq!(whole.end.search_stopped_at, None);

    let limited = answer(Some(1));
    assert_eq!((limited.started.len(), limited.end.at_rest), (1, false), "{limited}");
    assert_eq!(limited.end.search_stopped_at, Some(1));
    let text = limited.to_string();
    for sentence in [
        "  an action simulated 1 eviction, the limit, and later cycles evict nothing: other pending \
         workloads may evict pods, too; --simulations raises the limit\n",
        "  the searches with and without the changes may have stopped at different workloads; GPUs in \
         use at the end: 16 with, 16 without\n",
        "pending at the end; some may evict pods, too\n",
    ] {
        assert!(text.contains(sentence), "{text}");
    }
}

#[test]
fn a_pending_job_without_a_queue_is_said_to_have_none() {
    let mut changes = two_jobs();
    changes.submitted[0]["metadata"]["labels"]["kai.scheduler/queue"] = json!("team-c");
    let text = what_if(&case(), &changes, &Options::default()).unwrap().to_string();
    let line = "  no queue: QueueDoesNotExist: 1 pod group, 1 pod, 1 only with the changes: work/pg-train-1";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_forecast_says_how_many_pods_have_no_known_run_time_and_when_it_ends() {
    let hours =
        |hours| Options { horizon: Some(Duration::from_hours(hours)), ..Options::default() };
    let mut case = borrowed_case();
    let pod = Arc::make_mut(&mut case.cluster.objects.get_mut("pods").unwrap()[0]);
    pod["metadata"]["annotations"]["schedlab.dev/run-time"] = json!("3h");
    pod["status"]["startTime"] = json!("2026-01-01T00:00:00Z");
    case.manifest.captured_at = "2026-01-01T00:00:00Z".to_owned();
    let mut job = two_jobs().submitted;
    job.truncate(1);
    job[0]["metadata"]["labels"]["kai.scheduler/queue"] = json!("free");
    let changes = Changes { submitted: job, ..Changes::default() };
    let text = |options: &Options| what_if(&case, &changes, options).unwrap().to_string();
    let note = "  1 of 2 pods on nodes have no known run time and do not end before the horizon: \
                annotation schedlab.dev/run-time or activeDeadlineSeconds tells it\n";
    assert!(text(&hours(8)).contains(note), "{}", text(&hours(8)));
    assert!(text(&hours(1)).contains("not at rest after 60 min"), "{}", text(&hours(1)));
    assert!(!text(&Options::default()).contains("run time"), "{}", text(&Options::default()));
}
