//! The pods of a PyTorchJob: `<job>-master-0`, `<job>-worker-0`, …

use super::{COMPONENT, PyTorchJobState};
use crate::controllers::workload::{
    clamped_count_at, create_pod, delete_pod, pod_from_template, set_env, set_metadata_entries,
};
use crate::reconcile::pod_status::is_finished;
use crate::reconcile::{ApiRequest, Context};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json, labels,
    object::{at, is_deleting, label, list, name, number, set, text},
};

/// The replica types, in rank order.
pub(super) const ROLES: [&str; 2] = ["Master", "Worker"];
const MASTER_PORT: i64 = 23456;

/// The replica spec of a role.
pub(super) fn role_spec<'v>(job: &'v Value, role: &str) -> Option<&'v Value> {
    at(job, &["spec", "pytorchReplicaSpecs", role])
}

/// The number of replicas of a role.
pub(super) fn role_replicas(job: &Value, role_name: &str) -> i64 {
    role_spec(job, role_name).map_or(0, |role| clamped_count_at(role, &["replicas"], 1))
}

/// The pods of a role.
pub(super) fn pods_of_role<'v>(
    job: &PyTorchJobState<'v>,
    role: &str,
) -> Vec<(&'v Key, &'v Object)> {
    let kind = role.to_lowercase();
    let mut pods = job.pods.clone();
    pods.retain(|(_, pod)| label(pod, labels::TRAINING_REPLICA_TYPE) == Some(&kind));
    pods
}

/// Creates missing pods, and deletes surplus ones and those to be retried.
pub(super) fn sync_pods(job: &PyTorchJobState, ctx: &Context) -> Vec<ApiRequest> {
    let mut writes = Vec::new();
    for role in ROLES {
        let desired = role_replicas(job.object, role);
        let pods = pods_of_role(job, role);
        for (key, pod) in &pods {
            let index = label(pod, labels::TRAINING_REPLICA_INDEX)
                .and_then(|index| index.parse::<i64>().ok());
            let surplus = index.is_none_or(|index| index >= desired);
            if !is_deleting(pod) && (surplus || is_failed_pod_retried(job.object, role, pod)) {
                writes.extend(delete_pod(key, pod, job.object, COMPONENT, ctx));
            }
        }
        for index in 0..desired {
            let number = index.to_string();
            if !pods
                .iter()
                .any(|(_, pod)| label(pod, labels::TRAINING_REPLICA_INDEX) == Some(&number))
            {
                writes.extend(create_pod(
                    new_pod(job.object, role, index),
                    job.object,
                    COMPONENT,
                    ctx,
                ));
            }
        }
    }
    writes
}

/// Whether a failed pod is retried: with `restartPolicy: ExitCode` and an exit code from 128.
pub(super) fn is_failed_pod_retried(job: &Value, role_name: &str, pod: &Value) -> bool {
    let policy = role_spec(job, role_name).map_or("", |role| text(role, &["restartPolicy"]));
    let containers = list(pod, &["status", "containerStatuses"]).iter();
    let codes = containers.filter_map(|one| number(one, &["state", "terminated", "exitCode"]));
    policy == "ExitCode"
        && is_finished(pod)
        && text(pod, &["status", "phase"]) == "Failed"
        && codes.max().is_some_and(|code| code >= 128)
}

fn new_pod(job: &Value, role_name: &str, index: i64) -> Value {
    let kind = role_name.to_lowercase();
    let spec = role_spec(job, role_name).unwrap_or(&Value::Null);
    let mut pod =
        pod_from_template(&spec["template"], job, &format!("{}-{kind}-{index}", name(job)));
    let marks = [
        (labels::TRAINING_JOB_NAME, name(job)),
        ("training.kubeflow.org/operator-name", COMPONENT),
        (labels::TRAINING_REPLICA_TYPE, &*kind),
        (labels::TRAINING_REPLICA_INDEX, &index.to_string()),
    ];
    set_metadata_entries(&mut pod, "labels", &marks);
    if role_name == "Master" {
        set_metadata_entries(&mut pod, "labels", &[(labels::TRAINING_JOB_ROLE, "master")]);
    }
    let policy = match text(spec, &["restartPolicy"]) {
        "" | "ExitCode" => "Never",
        policy => policy,
    };
    set(&mut pod, &["spec", "restartPolicy"], json!(policy));
    let masters = role_replicas(job, "Master");
    let rank = if role_name == "Master" { index } else { masters + index };
    let first = if masters > 0 { "master" } else { "worker" };
    let variables = [
        ("MASTER_ADDR", format!("{}-{first}-0", name(job))),
        ("MASTER_PORT", MASTER_PORT.to_string()),
        ("WORLD_SIZE", (masters + role_replicas(job, "Worker")).to_string()),
        ("RANK", rank.to_string()),
    ];
    set_env(&mut pod, &variables);
    pod
}
