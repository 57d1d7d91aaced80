use std::sync::Arc;

use schedlab_api::{Value, json};

use super::*;

fn case() -> Case {
    let node = |name: &str, model: &str| {
        json!({ "metadata": { "name": name, "labels": { "nvidia.com/gpu.product": model } },
                "status": { "allocatable": { "cpu": "64", "memory": "512Gi", "pods": "110",
                                             "nvidia.com/gpu": "8" } } })
    };
    let queue = |name: &str, quota: i32| {
        json!({ "metadata": { "name": name }, "spec": { "resources": { "gpu": {
            "quota": quota, "limit": -1, "overQuotaWeight": 1 } } } })
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
