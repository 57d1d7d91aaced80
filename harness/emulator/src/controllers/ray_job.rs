//! The RayJob controller: creates a RayCluster and, when that is ready, the Job that submits the
//! Ray job. The Ray job ends with its submitter.
//!
//! Left out: existing clusters (`clusterSelector`), submission without a Job, retries, deadlines
//! and deletion rules; `shutdownAfterJobFinishes` applies.

use super::ray_cluster::MANAGED_BY;
use super::workload::{
    free_object_name, is_managed_elsewhere, object_from_template, owner_keys, set_metadata_entries,
};
use crate::reconcile::fields::{flag_at, format_time, time_after_secs, time_at};
use crate::reconcile::resources::{JOBS, RAY_CLUSTERS, RAY_JOBS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object, Resource};
use schedlab_api::{
    Map, Value, api_versions, json,
    object::{condition, is_deleting, name, number, remove, set, text, uid},
};

const COMPONENT: &str = "rayjob-controller";
const CLUSTER_NAME_PATH: [&str; 2] = ["status", "rayClusterName"];
const DEPLOYMENT_STATUS_PATH: [&str; 2] = ["status", "jobDeploymentStatus"];

/// The RayJob controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: COMPONENT,
    watches: WatchedKinds::Kinds(&[&RAY_JOBS, &RAY_CLUSTERS, &JOBS]),
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    let mut keys = owner_keys(change, cache, &RAY_JOBS, &RAY_CLUSTERS);
    if keys.is_empty() {
        keys = owner_keys(change, cache, &RAY_JOBS, &JOBS);
    }
    keys
}

/// A RayJob with the objects that it created.
struct RayJobState<'v> {
    key: &'v Key,
    object: &'v Object,
    cluster: Option<(&'v Key, &'v Object)>,
    submitter: Option<(&'v Key, &'v Object)>,
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some((key, object)) = ctx.cache.entry(key) else { return ReconcileResult::nothing_to_do() };
    if is_deleting(object) || is_managed_elsewhere(object, &["spec", "managedBy"], MANAGED_BY) {
        return ReconcileResult::nothing_to_do();
    }
    let job = RayJobState {
        key,
        object,
        cluster: ctx.cache.controlled_by(uid(object), &RAY_CLUSTERS).next(),
        submitter: ctx.cache.controlled_by(uid(object), &JOBS).next(),
    };
    match text(object, &DEPLOYMENT_STATUS_PATH) {
        "Complete" | "Failed" => delete_cluster_after_ttl(&job, ctx),
        _ if flag_at(object, &["spec", "suspend"]) => suspend_job(&job),
        "Initializing" => ReconcileResult::from_writes(create_cluster_and_submitter(&job, ctx)),
        "Running" => ReconcileResult::from_writes(copy_submitter_result(&job, ctx)),
        _ => ReconcileResult::from_writes(choose_cluster_name(&job, ctx)),
    }
}

/// The status update of a RayJob that sets the given status fields.
fn status_update<'a>(
    job: &RayJobState,
    fields: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Option<ApiRequest> {
    let mut seen = Value::clone(job.object);
    for (field, value) in fields {
        set(&mut seen, &["status", field], json!(value));
    }
    ApiRequest::status_update(job.key, job.object, seen)
}

/// Chooses the name of the RayCluster and records it in the RayJob's status.
fn choose_cluster_name(job: &RayJobState, ctx: &Context) -> Option<ApiRequest> {
    let prefix = format!("{}-", name(job.object));
    let cluster = free_object_name(&RAY_CLUSTERS, job.object, &prefix, ctx);
    let start = format_time(ctx.now);
    let job_id = format!("{cluster}-job");
    let fields = [
        ("rayClusterName", &*cluster),
        ("jobId", &*job_id),
        ("jobDeploymentStatus", "Initializing"),
        ("startTime", &*start),
    ];
    status_update(job, fields)
}

/// Creates the RayCluster of a RayJob, and the submitter Job when the cluster is ready.
fn create_cluster_and_submitter(job: &RayJobState, ctx: &Context) -> Vec<ApiRequest> {
    let Some((_, cluster)) = job.cluster else {
        let made = new_cluster(job.object);
        return create_with_event(job, &RAY_CLUSTERS, made, ctx).into();
    };
    if text(cluster, &["status", "state"]) != "ready" {
        return Vec::new();
    }
    let has_submitter = matches!(text(job.object, &["spec", "submissionMode"]), "" | "K8sJobMode");
    if has_submitter && job.submitter.is_none() {
        return create_with_event(job, &JOBS, new_submitter(job.object, cluster), ctx).into();
    }
    status_update(job, [("jobDeploymentStatus", "Running"), ("jobStatus", "RUNNING")])
        .into_iter()
        .collect()
}

fn create_with_event(
    job: &RayJobState,
    resource: &Resource,
    object: Value,
    ctx: &Context,
) -> [ApiRequest; 2] {
    let kind = text(&object, &["kind"]);
    let message = format!("Created {kind} {}", name(&object));
    let reason = if kind == "Job" { "CreatedRayJobSubmitter" } else { "CreatedRayCluster" };
    let notice = EventSpec { component: COMPONENT, kind: "Normal", reason, message };
    [ApiRequest::create(resource, object), notice.record(job.object, ctx)]
}

/// The RayCluster of a RayJob, with its labels and annotations.
fn new_cluster(job: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        if let Some(value) = job["metadata"].get(field) {
            metadata.insert(field, value.clone());
        }
    }
    let template = json!({"metadata": metadata, "spec": job["spec"]["rayClusterSpec"]});
    let mut cluster = object_from_template(&template, job, text(job, &CLUSTER_NAME_PATH));
    set(&mut cluster, &["apiVersion"], json!(api_versions::RAY));
    set(&mut cluster, &["kind"], json!("RayCluster"));
    set_metadata_entries(&mut cluster, "labels", &origin_labels(job));
    cluster
}

/// The labels of the objects that a RayJob creates.
fn origin_labels(job: &Value) -> [(&'static str, &str); 2] {
    [("ray.io/originated-from-cr-name", name(job)), ("ray.io/originated-from-crd", "RayJob")]
}

/// The Job that submits the Ray job: the template of the RayJob, or one container with the image of
/// the head.
fn new_submitter(job: &Value, cluster: &Value) -> Value {
    let template = &job["spec"]["submitterPodTemplate"];
    let mut pod =
        if template.is_object() { template.clone() } else { default_submitter_template(cluster) };
    let policy = text(&pod, &["spec", "restartPolicy"]);
    if policy.is_empty() || policy == "Always" {
        set(&mut pod, &["spec", "restartPolicy"], json!("Never"));
    }
    let spec = json!({"spec": {"backoffLimit": 2, "template": pod}});
    let mut submitter = object_from_template(&spec, job, name(job));
    set(&mut submitter, &["apiVersion"], json!("batch/v1"));
    set(&mut submitter, &["kind"], json!("Job"));
    set_metadata_entries(&mut submitter, "labels", &origin_labels(job));
    submitter
}

fn default_submitter_template(cluster: &Value) -> Value {
    let containers = &cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"];
    json!({"spec": {"containers": [{
        "name": "ray-job-submitter",
        "image": containers[0]["image"],
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "200Mi"},
        },
    }]}})
}

/// Ends the RayJob when its submitter Job has ended, with the same result.
fn copy_submitter_result(job: &RayJobState, ctx: &Context) -> Option<ApiRequest> {
    let (_, submitter) = job.submitter?;
    let has_ended = |kind| condition(submitter, kind) == Some("True");
    let (deployment, status) = if has_ended("Complete") {
        ("Complete", "SUCCEEDED")
    } else if has_ended("Failed") {
        ("Failed", "FAILED")
    } else {
        return None;
    };
    let end = format_time(ctx.now);
    status_update(
        job,
        [("jobDeploymentStatus", deployment), ("jobStatus", status), ("endTime", &*end)],
    )
}

/// Deletes the cluster of a finished RayJob after `ttlSecondsAfterFinished`, with
/// `shutdownAfterJobFinishes`.
fn delete_cluster_after_ttl(job: &RayJobState, ctx: &Context) -> ReconcileResult {
    let live = job.cluster.filter(|(_, cluster)| !is_deleting(cluster));
    let Some((key, cluster)) =
        live.filter(|_| flag_at(job.object, &["spec", "shutdownAfterJobFinishes"]))
    else {
        return ReconcileResult::nothing_to_do();
    };
    let ended = time_at(job.object, &["status", "endTime"]).unwrap_or(ctx.now);
    let secs = number(job.object, &["spec", "ttlSecondsAfterFinished"]).unwrap_or(0);
    let due = time_after_secs(ended, secs);
    if ctx.now < due {
        return ReconcileResult::requeue_at(due);
    }
    ReconcileResult::from_writes([ApiRequest::delete(key, cluster)])
}

/// Deletes the cluster and the submitter of a suspended RayJob, which starts anew when it is
/// resumed.
fn suspend_job(job: &RayJobState) -> ReconcileResult {
    let made: Vec<_> = [job.cluster, job.submitter].into_iter().flatten().collect();
    if !made.is_empty() {
        let live = made.into_iter().filter(|(_, object)| !is_deleting(object));
        return ReconcileResult::from_writes(
            live.map(|(key, object)| ApiRequest::delete(key, object)),
        );
    }
    let mut seen = Value::clone(job.object);
    for field in ["rayClusterName", "jobId", "jobStatus"] {
        remove(&mut seen, &["status", field]);
    }
    set(&mut seen, &DEPLOYMENT_STATUS_PATH, json!("Suspended"));
    ReconcileResult::from_writes(ApiRequest::status_update(job.key, job.object, seen))
}
