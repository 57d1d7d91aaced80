//! The TrainJob controller: creates a JobSet from a runtime's template with the requested number of
//! nodes.
//!
//! The runtime is a `ClusterTrainingRuntime`. Its replicated job named `node`, or labelled as the
//! trainer step, gets the nodes and resources. Labels and annotations of the TrainJob are copied to
//! the JobSet; those in its `spec` take precedence.
//!
//! Left out: initializers, pod template overrides, environment for torchrun and MPI, namespaced
//! runtimes.

use super::workload::{clamped_count_at, controller_references, is_managed_elsewhere, owner_keys};
use crate::reconcile::fields::{Condition, find_condition, flag_at, set_condition, string_entries};
use crate::reconcile::resources::{JOB_SETS, TRAIN_JOBS, TRAINING_RUNTIMES};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, api_versions, json,
    object::{as_map, at, is_deleting, label, list, name, namespace, number, set, text, uid},
};

const COMPONENT: &str = "trainjob-controller";
const MANAGED_BY: &str = "trainer.kubeflow.org/trainjob-controller";
const ANCESTOR_STEP_LABEL: &str = "trainer.kubeflow.org/trainjob-ancestor-step";

/// The TrainJob controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: COMPONENT,
    watches: WatchedKinds::Kinds(&[&TRAIN_JOBS, &JOB_SETS, &TRAINING_RUNTIMES]),
    keys_to_reconcile,
    reconcile,
};

/// A changed TrainJob, the owner of a changed JobSet, and the TrainJobs that use a changed runtime.
fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    if change.key.resource != *TRAINING_RUNTIMES {
        return owner_keys(change, cache, &TRAIN_JOBS, &JOB_SETS);
    }
    let uses_runtime =
        |job: &Object| text(job, &["spec", "runtimeRef", "name"]) == &*change.key.name;
    let jobs = cache.all(&TRAIN_JOBS).filter(|(_, job)| uses_runtime(job));
    jobs.map(|(key, _)| key.clone()).collect()
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some((key, job)) = ctx.cache.entry(key) else { return ReconcileResult::nothing_to_do() };
    if is_deleting(job) || is_managed_elsewhere(job, &["spec", "managedBy"], MANAGED_BY) {
        return ReconcileResult::nothing_to_do();
    }
    let there = ctx.cache.controlled_by(uid(job), &JOB_SETS).next();
    let Some((set_key, job_set)) = there else {
        return ReconcileResult::from_writes(create_job_set(key, job, ctx));
    };
    let changed = updated_job_set(job, job_set);
    if changed != **job_set && !is_deleting(job_set) {
        return ReconcileResult::from_writes([ApiRequest::update(set_key, changed)]);
    }
    ReconcileResult::from_writes(sync_status(key, job, job_set, ctx))
}

fn create_job_set(key: &Key, job: &Value, ctx: &Context) -> Vec<ApiRequest> {
    if ["Complete", "Failed"].iter().any(|kind| find_condition(job, kind).is_some()) {
        return Vec::new();
    }
    let runtime_name = text(job, &["spec", "runtimeRef", "name"]);
    let runtime = Key {
        resource: TRAINING_RUNTIMES.clone(),
        namespace: "".into(),
        name: runtime_name.into(),
    };
    if let Some(runtime) = ctx.cache.get(&runtime) {
        return vec![ApiRequest::create(&JOB_SETS, new_job_set(job, runtime))];
    }
    let message = format!("ClusterTrainingRuntime \"{runtime_name}\" does not exist");
    let mut waiting = job.clone();
    let condition = Condition {
        kind: "Suspended",
        status: "True",
        reason: "TrainingRuntimeNotFound",
        message: &message,
    };
    set_condition(&mut waiting, &condition, ctx.now);
    let notice = EventSpec {
        component: COMPONENT,
        kind: "Warning",
        reason: "TrainingRuntimeNotFound",
        message: message.clone(),
    };
    ApiRequest::status_update(key, job, waiting)
        .into_iter()
        .chain(notice.record_once(job, ctx))
        .collect()
}

/// A new JobSet for a TrainJob.
fn new_job_set(job: &Value, runtime: &Value) -> Value {
    let template = at(runtime, &["spec", "template"]).unwrap_or(&Value::Null);
    let mut made = json!({
        "apiVersion": api_versions::JOB_SET,
        "kind": "JobSet",
        "metadata": {
            "name": name(job),
            "namespace": namespace(job),
            "ownerReferences": controller_references(job),
        },
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
    });
    for field in ["labels", "annotations"] {
        let sources = [
            (template, &["metadata", field][..]),
            (job, &["metadata", field]),
            (job, &["spec", field]),
        ];
        for (source, path) in sources {
            let passed =
                string_entries(source, path).filter(|(key, _)| !key.starts_with("kubectl."));
            let passed: Vec<(String, Value)> =
                passed.map(|(key, value)| (key.to_owned(), json!(value))).collect();
            if !passed.is_empty() {
                set_entries_at(&mut made, ["metadata", field], passed);
            }
        }
    }
    set(&mut made, &["spec", "suspend"], json!(flag_at(job, &["spec", "suspend"])));
    let nodes = number(job, &["spec", "trainer", "numNodes"])
        .or_else(|| number(runtime, &["spec", "mlPolicy", "numNodes"]))
        .unwrap_or(1);
    let groups = list(&made, &["spec", "replicatedJobs"]).to_vec();
    let groups = groups.into_iter().map(|group| with_trainer_settings(group, job, nodes)).collect();
    set(&mut made, &["spec", "replicatedJobs"], Value::Array(groups));
    made
}

/// The JobSet with `suspend` and the number of nodes of its TrainJob. Kubeflow's Trainer, unlike
/// this controller, changes the number of nodes only while both objects are suspended.
fn updated_job_set(job: &Value, job_set: &Value) -> Value {
    let mut changed = job_set.clone();
    let suspend = flag_at(job, &["spec", "suspend"]);
    if flag_at(job_set, &["spec", "suspend"]) != suspend {
        set(&mut changed, &["spec", "suspend"], json!(suspend));
    }
    let Some(nodes) = number(job, &["spec", "trainer", "numNodes"]) else { return changed };
    let groups = list(job_set, &["spec", "replicatedJobs"]).iter().cloned();
    let groups = groups
        .map(|group| if is_trainer_job(&group) { with_node_count(group, nodes) } else { group })
        .collect();
    set(&mut changed, &["spec", "replicatedJobs"], Value::Array(groups));
    changed
}

/// Whether a replicated job of a JobSet runs the training.
fn is_trainer_job(group: &Value) -> bool {
    let step = label(&group["template"], ANCESTOR_STEP_LABEL);
    step.map_or(text(group, &["name"]) == "node", |step| step == "trainer")
}

fn with_node_count(mut group: Value, nodes: i64) -> Value {
    for field in ["parallelism", "completions"] {
        set(&mut group, &["template", "spec", field], json!(nodes));
    }
    group
}

fn set_entries_at(object: &mut Value, path: [&str; 2], entries: Vec<(String, Value)>) {
    for (key, value) in entries {
        set(object, &[path[0], path[1], &key], value);
    }
}

/// The replicated job with the number of nodes, image, command and resources of the TrainJob's
/// `trainer`; unchanged if it is not the trainer's.
fn with_trainer_settings(group: Value, job: &Value, nodes: i64) -> Value {
    if !is_trainer_job(&group) {
        return group;
    }
    let mut group = with_node_count(group, nodes);
    let path = "/template/spec/template/spec/containers";
    let Some(containers) = group.pointer_mut(path).and_then(Value::as_array_mut) else {
        return group;
    };
    let named = containers.iter().position(|one| text(one, &["name"]) == "node").unwrap_or(0);
    let Some(container) = containers.get_mut(named) else { return group };
    let trainer = at(job, &["spec", "trainer"]).unwrap_or(&Value::Null);
    let overrides = [
        ("image", "image"),
        ("command", "command"),
        ("args", "args"),
        ("resourcesPerNode", "resources"),
    ];
    for (from, to) in overrides {
        if let Some(value) = trainer.get(from) {
            as_map(container).insert(to.to_owned(), value.clone());
        }
    }
    let mut env = list(container, &["env"]).to_vec();
    env.extend(list(trainer, &["env"]).iter().cloned());
    if !env.is_empty() {
        as_map(container).insert("env", Value::Array(env));
    }
    group
}

/// Copies the status of the JobSet to the TrainJob.
fn sync_status(key: &Key, job: &Value, job_set: &Value, ctx: &Context) -> Option<ApiRequest> {
    let mut seen = job.clone();
    let mut pass = |from: &str, to: &str| {
        let Some(found) = find_condition(job_set, from) else { return };
        let condition = Condition {
            kind: to,
            status: text(found, &["status"]),
            reason: text(found, &["reason"]),
            message: text(found, &["message"]),
        };
        set_condition(&mut seen, &condition, ctx.now);
    };
    pass("Completed", "Complete");
    pass("Failed", "Failed");
    let suspended = flag_at(job, &["spec", "suspend"]);
    if suspended || find_condition(job, "Suspended").is_some() {
        let (status, reason, message) = if suspended {
            ("True", "Suspended", "TrainJob is suspended")
        } else {
            ("False", "Resumed", "TrainJob is resumed")
        };
        set_condition(
            &mut seen,
            &Condition { kind: "Suspended", status, reason, message },
            ctx.now,
        );
    }
    let groups = list(job_set, &["status", "replicatedJobsStatus"]);
    let jobs: Vec<Value> = groups
        .iter()
        .map(|group| {
            let count = |field| clamped_count_at(group, &[field], 0);
            json!({
                "name": text(group, &["name"]),
                "ready": count("ready"),
                "succeeded": count("succeeded"),
                "failed": count("failed"),
                "active": count("active"),
                "suspended": count("suspended"),
            })
        })
        .collect();
    set(&mut seen, &["status", "jobsStatus"], Value::Array(jobs));
    ApiRequest::status_update(key, job, seen)
}
