//! Kubernetes objects for the trace's nodes, queues and jobs.

use schedlab_api::{Value, annotations, api_versions, json, labels, resources};
use schedlab_emulator::store::Resource;

use crate::inputs::{JobEnd, TraceJob, TraceNode, TraceQueue};

/// Namespace of all jobs of a trace.
pub(super) const NAMESPACE: &str = "default";

pub(super) fn pods_resource() -> Resource {
    Resource::new("", "pods")
}

/// The Kubernetes object of a node.
pub fn node_object(node: &TraceNode) -> Value {
    let gpus = node.gpus.to_string();
    let mut labels = json!({(labels::HOSTNAME): node.name});
    let mut room = json!({
        "cpu": format!("{}m", node.cpu_milli),
        "memory": format!("{}Mi", node.memory_mib),
        "pods": "250",
    });
    if node.gpus > 0 {
        room[resources::GPU] = json!(gpus);
        labels[labels::GPU_COUNT] = json!(gpus);
        labels[labels::GPU_PRESENT] = json!("true");
        labels[labels::GPU_PRODUCT] = json!(node.model);
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node.name, "labels": labels},
        "status": {"capacity": room, "allocatable": room},
    })
}

pub(super) fn queue_object(queue: &TraceQueue) -> Value {
    let unbounded = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let gpu = json!({
        "quota": queue.quota, "limit": queue.limit, "overQuotaWeight": queue.weight,
    });
    let mut spec = json!({
        "priority": queue.priority,
        "resources": {"gpu": gpu, "cpu": unbounded, "memory": unbounded},
    });
    if !queue.parent.is_empty() {
        spec["parentQueue"] = json!(queue.parent);
    }
    json!({
        "apiVersion": api_versions::QUEUE, "kind": "Queue",
        "metadata": {"name": queue.name}, "spec": spec,
    })
}

/// The name of a job's objects. When the job restarts after an eviction, the number of the attempt
/// is appended.
pub(super) fn job_name_of_attempt(job: &TraceJob, attempt: u32) -> String {
    if attempt == 0 { job.name.to_string() } else { format!("{}-r{attempt}", job.name) }
}

/// The scheduler for which the objects of a trace are built.
#[derive(Clone, Debug)]
pub(super) struct TargetScheduler {
    pub(super) name: String,
    /// Whether the scheduler supports GPU fractions; otherwise pods get whole GPUs.
    pub(super) shares_gpus: bool,
}

/// The objects of a job: a pod, or a gang with its pod group.
pub(super) fn job_objects(
    job: &TraceJob,
    attempt: u32,
    scheduler: &TargetScheduler,
) -> Vec<(Resource, Value)> {
    let name = job_name_of_attempt(job, attempt);
    if job.pods == 1 {
        return vec![(pods_resource(), pod_object(job, &name, scheduler))];
    }
    group_objects(job, &name, scheduler)
}

/// The objects of a job with a pod group of this name, also of a job with one pod.
pub(super) fn group_objects(
    job: &TraceJob,
    name: &str,
    scheduler: &TargetScheduler,
) -> Vec<(Resource, Value)> {
    let group = json!({
        "apiVersion": api_versions::POD_GROUP, "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "minMember": job.pods, "queue": job.queue,
            "priorityClassName": priority_class_name(job),
        },
    });
    let members = (0..job.pods).map(|at| {
        let mut pod = pod_object(job, &format!("{name}-{at}"), scheduler);
        pod["metadata"]["annotations"][annotations::POD_GROUP_NAME] = json!(name);
        pod["metadata"]["annotations"][annotations::SKIP_POD_GROUPER] = json!("true");
        (pods_resource(), pod)
    });
    let groups = Resource::new(api_versions::SCHEDULING_GROUP, "podgroups");
    std::iter::once((groups, group)).chain(members).collect()
}

fn pod_object(job: &TraceJob, name: &str, scheduler: &TargetScheduler) -> Value {
    let mut requests = json!({
        "cpu": format!("{}m", job.cpu_milli), "memory": format!("{}Mi", job.memory_mib),
    });
    let mut annotations = json!({});
    if let Some(each) = job.gpu_share_milli().filter(|_| scheduler.shares_gpus) {
        annotations[annotations::GPU_FRACTION] = json!(format!("0.{each:03}"));
        annotations[annotations::GPU_FRACTION_NUM_DEVICES] = json!(job.gpus.to_string());
    } else if job.gpus > 0 {
        requests[resources::GPU] = json!(job.gpus.to_string());
    }
    if let JobEnd::RunsSecs(secs) = job.end {
        annotations[annotations::RUN_TIME] = json!(format!("{secs:.3}s"));
    }
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": {
                (labels::QUEUE): job.queue,
                (labels::PRIORITY_CLASS): priority_class_name(job),
            },
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": scheduler.name,
            "restartPolicy": "Never",
            "priorityClassName": priority_class_name(job),
            "containers": [{
                "name": "work", "image": "work",
                "resources": {"requests": requests, "limits": requests},
            }],
        },
    });
    if !job.models.is_empty() {
        let product = json!({
            "key": labels::GPU_PRODUCT, "operator": "In", "values": job.models,
        });
        pod["spec"]["affinity"]["nodeAffinity"] = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [product]}],
            },
        });
    }
    pod
}

fn priority_class_name(job: &TraceJob) -> &str {
    if job.priority_class.is_empty() { "train" } else { &job.priority_class }
}
