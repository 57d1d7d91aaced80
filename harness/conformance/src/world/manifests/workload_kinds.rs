//! The objects of each kind of workload.

use schedlab_api::{Value, annotations, api_versions, json, labels};

use super::table::{Row, RowError};
use super::workload::{WorkloadDraft, numbered_names};

const WORKLOAD_KINDS: [&str; 12] = [
    "pod",
    "gang",
    "job",
    "deployment",
    "statefulset",
    "jobset",
    "trainjob",
    "pytorchjob",
    "raycluster",
    "rayjob",
    "leaderworkerset",
    "podgroup",
];

/// Columns that only some kinds of workloads support, with these kinds.
const KIND_SPECIFIC_COLUMNS: [(&str, &[&str]); 10] = [
    ("min", &["gang", "job", "pytorchjob", "podgroup"]),
    ("gang", &["pod"]),
    ("group", &["pod"]),
    ("policy", &["podgroup"]),
    ("topology", &["podgroup"]),
    ("disruption", &["podgroup"]),
    ("sub-groups", &["gang"]),
    ("gated", &["pod", "gang"]),
    ("completion mode", &["job"]),
    ("replicas", &["leaderworkerset"]),
];

/// The objects of the workload in a row, in the order of creation.
pub(super) fn objects_of_workload(
    row: &Row<'_>,
    draft: &WorkloadDraft,
) -> Result<Vec<Value>, RowError> {
    let kind = row.cell("kind").unwrap_or("pod");
    if WORKLOAD_KINDS.contains(&kind) {
        check_columns_of_kind(row, kind)?;
    }
    match kind {
        "pod" => standalone_pods(row, draft),
        "gang" => gang_objects(row, draft),
        "job" => job_object(row, draft),
        "deployment" => Ok(deployment_object(draft)),
        "statefulset" => Ok(stateful_set_object(draft)),
        "jobset" => Ok(job_set_object(draft)),
        "trainjob" => Ok(train_job_objects(draft)),
        "pytorchjob" => py_torch_job_object(row, draft),
        "raycluster" => Ok(vec![ray_cluster_object(draft)]),
        "rayjob" => Ok(vec![ray_job_object(draft)]),
        "leaderworkerset" => leader_worker_set_object(row, draft),
        "podgroup" => pod_group(row, draft),
        kind => Err(row.unknown_word_error("kind", kind, &WORKLOAD_KINDS)),
    }
}

/// Rejects a row with a value in a column that the row's kind does not support.
fn check_columns_of_kind(row: &Row<'_>, kind: &str) -> Result<(), RowError> {
    for (column, kinds) in KIND_SPECIFIC_COLUMNS {
        if let Some(cell) = row.cell(column).filter(|_| !kinds.contains(&kind)) {
            let kinds = kinds.join(", ");
            return Err(row.row_error(&format!(
                "column `{column}`: got {cell} for kind {kind}, expected an empty cell or a kind \
                 that supports it ({kinds})"
            )));
        }
    }
    Ok(())
}

/// Single pods, or additional members of an existing gang.
fn standalone_pods(row: &Row<'_>, draft: &WorkloadDraft) -> Result<Vec<Value>, RowError> {
    let mut pods = draft.standalone_pod_objects(&draft.pod_names());
    add_scheduling_gates(row, &mut pods)?;
    if let Some(gang) = row.cell("gang") {
        for pod in &mut pods {
            add_gang_annotations(pod, gang);
        }
    }
    if let Some(group) = row.cell("group") {
        for pod in &mut pods {
            pod["spec"]["schedulingGroup"] = json!({ "podGroupName": group });
        }
    }
    Ok(pods)
}

/// A PodGroup of Kubernetes and its pods.
fn pod_group(row: &Row<'_>, draft: &WorkloadDraft) -> Result<Vec<Value>, RowError> {
    let minimum = row.object_count("min", 1)?.unwrap_or(draft.pod_count());
    let policy = match row.cell("policy") {
        None | Some("gang") => json!({ "gang": { "minCount": minimum } }),
        Some("basic") => json!({ "basic": {} }),
        Some(cell) => return Err(row.cell_error("policy", cell, "gang or basic")),
    };
    let mut spec = json!({ "schedulingPolicy": policy });
    match row.cell("disruption") {
        None => {}
        Some(mode @ ("single" | "all")) => spec["disruptionMode"] = json!({ (mode): {} }),
        Some(cell) => return Err(row.cell_error("disruption", cell, "single or all")),
    }
    if let Some(key) = row.cell("topology") {
        spec["schedulingConstraints"] = json!({ "topology": [{ "key": key }] });
    }
    if let Some(class) = draft.pod_spec.get("priorityClassName") {
        spec["priorityClassName"] = class.clone();
    }
    let group = json!({
        "apiVersion": api_versions::WORKLOAD,
        "kind": "PodGroup",
        "metadata": draft.owner_metadata(),
        "spec": spec,
    });
    let mut pods = draft.standalone_pod_objects(&numbered_names(&draft.name, draft.pod_count()));
    for pod in &mut pods {
        pod["spec"]["schedulingGroup"] = json!({ "podGroupName": draft.name });
    }
    Ok([vec![group], pods].concat())
}

/// Adds a scheduling gate to the last pods: to as many as the row says, or to all.
fn add_scheduling_gates(row: &Row<'_>, pods: &mut [Value]) -> Result<(), RowError> {
    let gated = match row.cell("gated") {
        Some("yes") => pods.len(),
        Some("no") | None => 0,
        Some(cell) => match cell.parse() {
            Ok(count) if count <= pods.len() => count,
            Ok(_) | Err(_) => {
                let allowed = format!("yes, no or a number up to {}", pods.len());
                return Err(row.cell_error("gated", cell, &allowed));
            }
        },
    };
    for pod in pods.iter_mut().rev().take(gated) {
        pod["spec"]["schedulingGates"] = json!([{"name": "schedlab.dev/gate"}]);
    }
    Ok(())
}

/// Makes a pod a member of an existing pod group.
fn add_gang_annotations(pod: &mut Value, gang: &str) {
    pod["metadata"]["annotations"][annotations::POD_GROUP_NAME] = json!(gang);
    pod["metadata"]["annotations"][annotations::SKIP_POD_GROUPER] = json!("true");
}

/// A pod group and its pods, without an owner.
fn gang_objects(row: &Row<'_>, draft: &WorkloadDraft) -> Result<Vec<Value>, RowError> {
    let sub_groups = parse_sub_groups(row)?;
    let mut spec = json!({"queue": row.reference("queue").map_or("", |queue| queue.name)});
    for (column, field) in
        [("preemption delay", "preemptionDelay"), ("staleness grace", "stalenessGracePeriod")]
    {
        if let Some(cell) = row.cell(column) {
            spec[field] = json!(cell);
        }
    }
    if let Some(class) = draft.pod_spec.get("priorityClassName") {
        spec["priorityClassName"] = class.clone();
    }
    if let Some(value) = draft.labels.get(labels::PREEMPTIBILITY) {
        spec["preemptibility"] = value.clone();
    }
    if sub_groups.is_empty() {
        spec["minMember"] = json!(min_members_in_row(row, draft, 0)?.unwrap_or(draft.pod_count()));
    } else {
        let leaf = |sub: &GangSubGroup| json!({"name": sub.name, "minMember": sub.min});
        spec["subGroups"] = sub_groups.iter().map(leaf).collect();
        if let Some(min) = row.object_count("min", 1)? {
            spec["minSubGroup"] = json!(min);
        }
    }
    let group = json!({
        "apiVersion": api_versions::POD_GROUP,
        "kind": "PodGroup",
        "metadata": draft.owner_metadata(),
        "spec": spec,
    });
    let mut members = gang_member_pods(draft, &sub_groups);
    add_scheduling_gates(row, &mut members)?;
    Ok([vec![group], members].concat())
}

/// The minimum number of members in a row: at least `minimum` and at most the number of pods.
fn min_members_in_row(
    row: &Row<'_>,
    draft: &WorkloadDraft,
    minimum: u32,
) -> Result<Option<u32>, RowError> {
    row.int_in_range("min", minimum..=draft.pod_count())
}

fn gang_member_pods(draft: &WorkloadDraft, sub_groups: &[GangSubGroup]) -> Vec<Value> {
    let mut pods = if sub_groups.is_empty() {
        draft.standalone_pod_objects(&numbered_names(&draft.name, draft.pod_count()))
    } else {
        sub_groups.iter().flat_map(|sub_group| sub_group.member_pods(draft)).collect()
    };
    for pod in &mut pods {
        add_gang_annotations(pod, &draft.name);
    }
    pods
}

struct GangSubGroup {
    name: String,
    pods: u32,
    min: u32,
}

impl GangSubGroup {
    fn member_pods(&self, draft: &WorkloadDraft) -> Vec<Value> {
        let mut pods = draft.standalone_pod_objects(&numbered_names(
            &format!("{}-{}", draft.name, self.name),
            self.pods,
        ));
        for pod in &mut pods {
            pod["metadata"]["labels"][labels::SUB_GROUP] = json!(self.name);
        }
        pods
    }
}

/// Parses sub-groups such as `leader 1, workers 2/4`: name, minimum and, after a slash, the number
/// of pods.
fn parse_sub_groups(row: &Row<'_>) -> Result<Vec<GangSubGroup>, RowError> {
    let Some(cell) = row.cell("sub-groups") else { return Ok(Vec::new()) };
    let sub_group = |text: &str| {
        let (name, counts) = text.trim().split_once(' ')?;
        let (min, pods) = counts.split_once('/').unwrap_or((counts, counts));
        Some(GangSubGroup {
            name: name.to_owned(),
            min: min.trim().parse().ok()?,
            pods: pods.trim().parse().ok()?,
        })
    };
    let sub_groups: Option<Vec<GangSubGroup>> = cell.split(',').map(sub_group).collect();
    let sub_groups = sub_groups
        .ok_or_else(|| row.cell_error("sub-groups", cell, "name min/pods, name min/pods"))?;
    let there: u64 = sub_groups.iter().map(|sub_group| u64::from(sub_group.pods)).sum();
    match row.cell("pods") {
        Some(pods) if pods.parse() != Ok(there) => {
            let allowed = format!("an empty cell, or the {there} pods of its sub-groups");
            Err(row.cell_error("pods", pods, &allowed))
        }
        Some(_) | None => Ok(sub_groups),
    }
}

fn job_object(row: &Row<'_>, draft: &WorkloadDraft) -> Result<Vec<Value>, RowError> {
    let mut template = draft.pod_template();
    template["spec"]["restartPolicy"] = json!("Never");
    let mut job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": draft.owner_metadata(),
        "spec": {
            "parallelism": draft.pod_count(),
            "completions": draft.pod_count(),
            "template": template,
        },
    });
    match row.cell("completion mode") {
        None => {}
        Some(mode @ ("Indexed" | "NonIndexed")) => job["spec"]["completionMode"] = json!(mode),
        Some(mode) => return Err(row.cell_error("completion mode", mode, "Indexed or NonIndexed")),
    }
    if let Some(min) = min_members_in_row(row, draft, 1)? {
        job["metadata"]["annotations"][annotations::BATCH_MIN_MEMBER] = json!(min.to_string());
    }
    Ok(vec![job])
}

fn deployment_object(draft: &WorkloadDraft) -> Vec<Value> {
    vec![json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": draft.owner_metadata(),
        "spec": {
            "replicas": draft.pod_count(),
            "selector": {"matchLabels": {(crate::world::observed::WORKLOAD_LABEL): draft.name}},
            "template": draft.pod_template(),
        },
    })]
}

fn stateful_set_object(draft: &WorkloadDraft) -> Vec<Value> {
    vec![json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": draft.owner_metadata(),
        "spec": {
            "replicas": draft.pod_count(),
            "serviceName": draft.name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {(crate::world::observed::WORKLOAD_LABEL): draft.name}},
            "template": draft.pod_template(),
        },
    })]
}

/// A JobSet with one replicated job, `workers`.
fn job_set_object(draft: &WorkloadDraft) -> Vec<Value> {
    vec![json!({
        "apiVersion": api_versions::JOB_SET,
        "kind": "JobSet",
        "metadata": draft.owner_metadata(),
        "spec": {"replicatedJobs": [replicated_job_spec("workers", draft)]},
    })]
}

fn replicated_job_spec(name: &str, draft: &WorkloadDraft) -> Value {
    let mut template = draft.pod_template();
    template["spec"]["restartPolicy"] = json!("Never");
    json!({
        "name": name,
        "replicas": 1,
        "template": {"spec": {
            "parallelism": draft.pod_count(),
            "completions": draft.pod_count(),
            "template": template,
        }},
    })
}

/// A `TrainJob` and the runtime to which it refers.
fn train_job_objects(draft: &WorkloadDraft) -> Vec<Value> {
    let mut node = replicated_job_spec("node", draft);
    node["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = json!("node");
    let runtime = json!({
        "apiVersion": api_versions::TRAIN_JOB,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": draft.name},
        "spec": {
            "mlPolicy": {"numNodes": draft.pod_count()},
            "template": {"spec": {"replicatedJobs": [node]}},
        },
    });
    let job = json!({
        "apiVersion": api_versions::TRAIN_JOB,
        "kind": "TrainJob",
        "metadata": draft.owner_metadata(),
        "spec": {
            "runtimeRef": {
                "apiGroup": api_versions::TRAINER_GROUP,
                "kind": "ClusterTrainingRuntime",
                "name": draft.name,
            },
            "trainer": {"numNodes": draft.pod_count()},
        },
    });
    vec![runtime, job]
}

/// A PyTorchJob: one master, and the other pods are workers.
fn py_torch_job_object(row: &Row<'_>, draft: &WorkloadDraft) -> Result<Vec<Value>, RowError> {
    let mut template = draft.pod_template();
    template["spec"]["containers"][0]["name"] = json!("pytorch");
    let replica =
        |count: u32| json!({"replicas": count, "restartPolicy": "Never", "template": template});
    let mut replicas = json!({"Master": replica(1)});
    if draft.pod_count() > 1 {
        replicas["Worker"] = replica(draft.pod_count() - 1);
    }
    let mut spec = json!({"pytorchReplicaSpecs": replicas});
    if let Some(min) = min_members_in_row(row, draft, 1)? {
        spec["runPolicy"]["schedulingPolicy"]["minAvailable"] = json!(min);
    }
    Ok(vec![json!({
        "apiVersion": api_versions::PYTORCH_JOB,
        "kind": "PyTorchJob",
        "metadata": draft.owner_metadata(),
        "spec": spec,
    })])
}

/// A RayCluster: one head, and the other pods are workers of the group `workers`.
fn ray_cluster_object(draft: &WorkloadDraft) -> Value {
    json!({
        "apiVersion": api_versions::RAY,
        "kind": "RayCluster",
        "metadata": draft.owner_metadata(),
        "spec": ray_cluster_spec(draft),
    })
}

fn ray_cluster_spec(draft: &WorkloadDraft) -> Value {
    let template = |name: &str| {
        let mut template = draft.pod_template();
        template["spec"]["containers"][0]["name"] = json!(name);
        template
    };
    let head = json!({"rayStartParams": {}, "template": template("ray-head")});
    let workers = json!({
        "groupName": "workers",
        "replicas": draft.pod_count() - 1,
        "rayStartParams": {},
        "template": template("ray-worker"),
    });
    json!({"headGroupSpec": head, "workerGroupSpecs": [workers]})
}

/// A RayJob: a cluster like that of [`ray_cluster_object`], and a pod that submits the job and runs
/// as long as the job.
fn ray_job_object(draft: &WorkloadDraft) -> Value {
    let mut submitter = draft.pod_template();
    submitter["spec"]["containers"] =
        json!([{"name": "ray-job-submitter", "image": "registry.k8s.io/pause:3.10"}]);
    submitter["spec"]["restartPolicy"] = json!("Never");
    let mut cluster = ray_cluster_spec(draft);
    // Only the submitter ends; the cluster is deleted then.
    let templates = ["/headGroupSpec/template", "/workerGroupSpecs/0/template"];
    for template in templates {
        for timing in [annotations::RUN_TIME, annotations::EXIT_CODE] {
            let annotations =
                cluster.pointer_mut(template).map(|of| &mut of["metadata"]["annotations"]);
            if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
                annotations.remove(timing);
            }
        }
    }
    json!({
        "apiVersion": api_versions::RAY,
        "kind": "RayJob",
        "metadata": draft.owner_metadata(),
        "spec": {
            "entrypoint": "python main.py",
            "shutdownAfterJobFinishes": true,
            "submitterPodTemplate": submitter,
            "rayClusterSpec": cluster,
        },
    })
}

/// A LeaderWorkerSet: groups of a leader and its workers, with `pods` pods each.
fn leader_worker_set_object(row: &Row<'_>, draft: &WorkloadDraft) -> Result<Vec<Value>, RowError> {
    Ok(vec![json!({
        "apiVersion": api_versions::LEADER_WORKER_SET,
        "kind": "LeaderWorkerSet",
        "metadata": draft.owner_metadata(),
        "spec": {
            "replicas": row.object_count("replicas", 0)?.unwrap_or(1),
            "leaderWorkerTemplate": {
                "size": draft.pod_count(),
                "workerTemplate": draft.pod_template(),
            },
        },
    })])
}
