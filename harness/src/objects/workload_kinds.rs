//! The objects of each kind of workload.

use schedlab_json::{Value, json};

use super::rows::{Row, RowError};
use super::workload::{Draft, numbered};

/// The annotation with which pods name their group.
const GROUP: &str = "pod-group-name";
/// The label with which pods name their sub-group.
const SUB_GROUP: &str = "kai.scheduler/subgroup-name";

const KINDS: [&str; 8] =
    ["pod", "gang", "job", "deployment", "statefulset", "jobset", "trainjob", "pytorchjob"];

/// Columns that mean something for these kinds alone.
const OF_SOME_KINDS: [(&str, &[&str]); 4] = [
    ("min", &["gang", "job", "pytorchjob"]),
    ("gang", &["pod"]),
    ("sub-groups", &["gang"]),
    ("gated", &["pod", "gang"]),
];

/// A workload's objects, in the order of their creation.
pub(super) fn objects(row: &Row<'_>, draft: &Draft) -> Result<Vec<Value>, RowError> {
    let kind = row.text("kind").unwrap_or("pod");
    if KINDS.contains(&kind) {
        no_other_kinds_columns(row, kind)?;
    }
    match kind {
        "pod" => pods(row, draft),
        "gang" => gang(row, draft),
        "job" => job(row, draft),
        "deployment" => Ok(deployment(draft)),
        "statefulset" => Ok(stateful_set(draft)),
        "jobset" => Ok(job_set(draft)),
        "trainjob" => Ok(train_job(draft)),
        "pytorchjob" => py_torch_job(row, draft),
        kind => Err(row.error("kind", kind, &KINDS.join(", "))),
    }
}

/// What a cell says is heeded, or refused: never dropped.
fn no_other_kinds_columns(row: &Row<'_>, kind: &str) -> Result<(), RowError> {
    for (column, kinds) in OF_SOME_KINDS {
        if let Some(cell) = row.text(column).filter(|_| !kinds.contains(&kind)) {
            let kinds = kinds.join(", ");
            return Err(row.wrong(&format!(
                "column `{column}` is not for {kind}s: found {cell}, allowed is an empty \
                 cell, or a kind that has it ({kinds})"
            )));
        }
    }
    Ok(())
}

/// Single pods, or further members of a gang.
fn pods(row: &Row<'_>, draft: &Draft) -> Result<Vec<Value>, RowError> {
    let mut pods = draft.own_pods(&draft.pod_names());
    gate(row, &mut pods)?;
    if let Some(gang) = row.text("gang") {
        for pod in &mut pods {
            join(pod, gang);
        }
    }
    Ok(pods)
}

/// The last of these pods wait for a gate to be lifted: as many as the row says, or all.
fn gate(row: &Row<'_>, pods: &mut [Value]) -> Result<(), RowError> {
    let gated = match row.text("gated") {
        Some("yes") => pods.len(),
        Some("no") | None => 0,
        Some(cell) => match cell.parse() {
            Ok(count) if count <= pods.len() => count,
            Ok(_) | Err(_) => {
                let allowed = format!("yes, no or a number up to {}", pods.len());
                return Err(row.error("gated", cell, &allowed));
            }
        },
    };
    for pod in pods.iter_mut().rev().take(gated) {
        pod["spec"]["schedulingGates"] = json!([{"name": "schedlab.dev/gate"}]);
    }
    Ok(())
}

/// Makes a pod a member of a group that is there.
fn join(pod: &mut Value, gang: &str) {
    pod["metadata"]["annotations"][GROUP] = json!(gang);
    pod["metadata"]["annotations"]["kai.scheduler/skip-podgrouper"] = json!("true");
}

/// A pod group and its pods, without an owner.
fn gang(row: &Row<'_>, draft: &Draft) -> Result<Vec<Value>, RowError> {
    let sub_groups = sub_groups(row)?;
    let mut spec = json!({"queue": row.text("queue").unwrap_or_default()});
    for (column, field) in
        [("preemption delay", "preemptionDelay"), ("staleness grace", "stalenessGracePeriod")]
    {
        if let Some(cell) = row.text(column) {
            spec[field] = json!(cell);
        }
    }
    if let Some(class) = draft.pod_spec.get("priorityClassName") {
        spec["priorityClassName"] = class.clone();
    }
    if let Some(value) = draft.labels.get("kai.scheduler/preemptibility") {
        spec["preemptibility"] = value.clone();
    }
    if sub_groups.is_empty() {
        spec["minMember"] = json!(minimum(row, draft, 0)?.unwrap_or(draft.pod_count()));
    } else {
        let leaf = |sub: &SubGroup| json!({"name": sub.name, "minMember": sub.min});
        spec["subGroups"] = sub_groups.iter().map(leaf).collect();
        if let Some(min) = row.objects("min", 1)? {
            spec["minSubGroup"] = json!(min);
        }
    }
    let group = json!({
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": draft.metadata(),
        "spec": spec,
    });
    let mut members = members(draft, &sub_groups);
    gate(row, &mut members)?;
    Ok([vec![group], members].concat())
}

/// How many of its pods must run together: not more than there are.
fn minimum(row: &Row<'_>, draft: &Draft, least: u32) -> Result<Option<u32>, RowError> {
    row.within("min", least..=draft.pod_count())
}

fn members(draft: &Draft, sub_groups: &[SubGroup]) -> Vec<Value> {
    let mut pods = if sub_groups.is_empty() {
        draft.own_pods(&numbered(&draft.name, draft.pod_count()))
    } else {
        sub_groups.iter().flat_map(|sub_group| sub_group.members(draft)).collect()
    };
    for pod in &mut pods {
        join(pod, &draft.name);
    }
    pods
}

struct SubGroup {
    name: String,
    pods: u32,
    min: u32,
}

impl SubGroup {
    fn members(&self, draft: &Draft) -> Vec<Value> {
        let mut pods =
            draft.own_pods(&numbered(&format!("{}-{}", draft.name, self.name), self.pods));
        for pod in &mut pods {
            pod["metadata"]["labels"][SUB_GROUP] = json!(self.name);
        }
        pods
    }
}

/// `leader 1, workers 2/4`: name, minimum, and after a slash how many pods there are.
fn sub_groups(row: &Row<'_>) -> Result<Vec<SubGroup>, RowError> {
    let Some(cell) = row.text("sub-groups") else { return Ok(Vec::new()) };
    let sub_group = |text: &str| {
        let (name, counts) = text.trim().split_once(' ')?;
        let (min, pods) = counts.split_once('/').unwrap_or((counts, counts));
        Some(SubGroup {
            name: name.to_owned(),
            min: min.trim().parse().ok()?,
            pods: pods.trim().parse().ok()?,
        })
    };
    let sub_groups: Option<Vec<SubGroup>> = cell.split(',').map(sub_group).collect();
    let sub_groups =
        sub_groups.ok_or_else(|| row.error("sub-groups", cell, "name min/pods, name min/pods"))?;
    let there: u64 = sub_groups.iter().map(|sub_group| u64::from(sub_group.pods)).sum();
    match row.text("pods") {
        Some(pods) if pods.parse() != Ok(there) => {
            let allowed = format!("an empty cell, or the {there} pods of its sub-groups");
            Err(row.error("pods", pods, &allowed))
        }
        Some(_) | None => Ok(sub_groups),
    }
}

fn job(row: &Row<'_>, draft: &Draft) -> Result<Vec<Value>, RowError> {
    let mut template = draft.template();
    template["spec"]["restartPolicy"] = json!("Never");
    let mut job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": draft.metadata(),
        "spec": {
            "parallelism": draft.pod_count(),
            "completions": draft.pod_count(),
            "template": template,
        },
    });
    if let Some(min) = minimum(row, draft, 1)? {
        job["metadata"]["annotations"]["kai.scheduler/batch-min-member"] = json!(min.to_string());
    }
    Ok(vec![job])
}

fn deployment(draft: &Draft) -> Vec<Value> {
    vec![json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": draft.metadata(),
        "spec": {
            "replicas": draft.pod_count(),
            "selector": {"matchLabels": {(crate::view::WORKLOAD): draft.name}},
            "template": draft.template(),
        },
    })]
}

fn stateful_set(draft: &Draft) -> Vec<Value> {
    vec![json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": draft.metadata(),
        "spec": {
            "replicas": draft.pod_count(),
            "serviceName": draft.name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {(crate::view::WORKLOAD): draft.name}},
            "template": draft.template(),
        },
    })]
}

/// One replicated job, `workers`, of so many pods.
fn job_set(draft: &Draft) -> Vec<Value> {
    vec![json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": draft.metadata(),
        "spec": {"replicatedJobs": [replicated_job("workers", draft)]},
    })]
}

fn replicated_job(name: &str, draft: &Draft) -> Value {
    let mut template = draft.template();
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

/// A runtime of the workload's own and a `TrainJob` of so many nodes.
fn train_job(draft: &Draft) -> Vec<Value> {
    let mut node = replicated_job("node", draft);
    node["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = json!("node");
    let runtime = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": draft.name},
        "spec": {
            "mlPolicy": {"numNodes": draft.pod_count()},
            "template": {"spec": {"replicatedJobs": [node]}},
        },
    });
    let job = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": draft.metadata(),
        "spec": {
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": "ClusterTrainingRuntime",
                "name": draft.name,
            },
            "trainer": {"numNodes": draft.pod_count()},
        },
    });
    vec![runtime, job]
}

/// One master, the rest workers.
fn py_torch_job(row: &Row<'_>, draft: &Draft) -> Result<Vec<Value>, RowError> {
    let mut template = draft.template();
    template["spec"]["containers"][0]["name"] = json!("pytorch");
    let replica =
        |count: u32| json!({"replicas": count, "restartPolicy": "Never", "template": template});
    let mut replicas = json!({"Master": replica(1)});
    if draft.pod_count() > 1 {
        replicas["Worker"] = replica(draft.pod_count() - 1);
    }
    let mut spec = json!({"pytorchReplicaSpecs": replicas});
    if let Some(min) = minimum(row, draft, 1)? {
        spec["runPolicy"]["schedulingPolicy"]["minAvailable"] = json!(min);
    }
    Ok(vec![json!({
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": draft.metadata(),
        "spec": spec,
    })])
}
