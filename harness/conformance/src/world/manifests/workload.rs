//! Workloads from table rows: the parts that all kinds share, which are their pods.

use schedlab_api::{Map, Value, annotations, json, labels, resources};

use super::placement_columns;
use super::table::{Row, RowError, YesNo};
use super::workload_kinds;
use crate::text::normalize_go_duration;
use crate::world::observed::WORKLOAD_LABEL;

/// The columns of a table of workloads.
pub(crate) const WORKLOAD_COLUMNS: &[&str] = &[
    "name",
    "kind",
    "queue",
    "pods",
    "gpus",
    "cpu",
    "memory",
    "min",
    "replicas",
    "completion mode",
    "gang",
    "group",
    "policy",
    "topology",
    "disruption",
    "priority",
    "preemptible",
    "run time",
    "startup",
    "termination",
    "exit code",
    "grace",
    "preemption delay",
    "staleness grace",
    "sub-groups",
    "gated",
    "labels",
    "annotations",
    "node selector",
    "node affinity",
    "prefer",
    "together by",
    "apart by",
    "spread by",
    "tolerations",
    "host port",
    "node",
    "scheduler",
    "namespace",
];

/// The objects of the workload in a table row, in the order of creation.
pub(crate) fn workload_objects_from_row(
    row: &Row<'_>,
    scheduler: &str,
) -> Result<Vec<Value>, RowError> {
    let draft = WorkloadDraft::from_row(row, scheduler)?;
    let mut objects: Vec<Value> = draft.priority_class.iter().cloned().collect();
    objects.extend(workload_kinds::objects_of_workload(row, &draft)?);
    Ok(objects)
}

/// The parts of a workload row that do not depend on the kind.
#[derive(Clone, Debug)]
pub(super) struct WorkloadDraft {
    /// The name of the workload.
    pub(super) name: String,
    /// The namespace of all objects of the workload.
    pub(super) namespace: String,
    /// Number of pods. `None` means one pod with the name of the workload.
    pub(super) pods: Option<u32>,
    /// Labels of the workload's owner object and of its pods.
    pub(super) labels: Map,
    /// Annotations of the workload's pods.
    pub(super) annotations: Map,
    /// The `spec` of the pods.
    pub(super) pod_spec: Value,
    /// The priority class that must be created, if the row gives the priority as a number.
    priority_class: Option<Value>,
}

impl WorkloadDraft {
    fn from_row(row: &Row<'_>, scheduler: &str) -> Result<Self, RowError> {
        let name = row.required_cell("name")?.to_owned();
        let mut labels = Map::new();
        labels.insert(WORKLOAD_LABEL.to_owned(), json!(name));
        if let Some(queue) = row.reference("queue") {
            labels.insert(labels::QUEUE.to_owned(), json!(queue.name));
        }
        if let Some(answer) = row.yes_or_no_cell("preemptible")? {
            let value = match answer {
                YesNo::Yes => "preemptible",
                YesNo::No => "non-preemptible",
            };
            labels.insert(labels::PREEMPTIBILITY.to_owned(), json!(value));
        }
        for (key, value) in row.key_value_pairs("labels")? {
            labels.insert(key.to_owned(), json!(value));
        }
        let (class, priority_class) = priority_class_and_value(row);
        Ok(Self {
            namespace: row.cell("namespace").unwrap_or("default").to_owned(),
            pods: row.object_count("pods", 1)?,
            annotations: annotations_from_row(row)?,
            pod_spec: pod_spec(row, &name, scheduler, class)?,
            labels,
            name,
            priority_class,
        })
    }

    /// The `metadata` of the object that owns the pods.
    pub(super) fn owner_metadata(&self) -> Value {
        json!({"name": self.name, "namespace": self.namespace, "labels": self.labels})
    }

    /// The pod template for a workload controller.
    pub(super) fn pod_template(&self) -> Value {
        json!({
            "metadata": {"labels": self.labels, "annotations": self.annotations},
            "spec": self.pod_spec,
        })
    }

    /// A pod without an owner. It ends when its container exits.
    fn pod_object(&self, name: &str) -> Value {
        let mut pod = self.pod_template();
        pod["spec"]["restartPolicy"] = json!("Never");
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["namespace"] = json!(self.namespace);
        pod
    }

    /// Pods without an owner, with these names.
    pub(super) fn standalone_pod_objects(&self, names: &[String]) -> Vec<Value> {
        names.iter().map(|name| self.pod_object(name)).collect()
    }

    /// The names of the workload's pods, if no controller creates them.
    pub(super) fn pod_names(&self) -> Vec<String> {
        match self.pods {
            None => vec![self.name.clone()],
            Some(count) => numbered_names(&self.name, count),
        }
    }

    /// Number of pods of the workload; one by default.
    pub(super) fn pod_count(&self) -> u32 {
        self.pods.unwrap_or(1)
    }
}

/// The names `<name>-0`, `<name>-1` … for this number of objects.
pub(super) fn numbered_names(name: &str, count: u32) -> Vec<String> {
    (0..count).map(|number| format!("{name}-{number}")).collect()
}

/// The name of the row's priority class; and the class itself, if the row gives the priority as a
/// number.
fn priority_class_and_value(row: &Row<'_>) -> (Option<String>, Option<Value>) {
    let Some(cell) = row.cell("priority") else { return (None, None) };
    let Ok(value) = cell.parse::<i32>() else { return (Some(cell.to_owned()), None) };
    let name = format!("priority-{}", cell.replace('-', "minus-"));
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    });
    (Some(name), Some(class))
}

fn annotations_from_row(row: &Row<'_>) -> Result<Map, RowError> {
    let mut annotations = Map::new();
    let durations = [
        ("run time", annotations::RUN_TIME),
        ("startup", annotations::STARTUP),
        ("termination", annotations::TERMINATION),
        ("preemption delay", annotations::PREEMPTION_DELAY),
    ];
    for (column, key) in durations {
        if let Some(cell) = row.go_duration_cell(column)? {
            annotations.insert(key.to_owned(), json!(cell));
        }
    }
    if let Some(code) = row.parsed_cell::<u8>("exit code", "a whole number from 0 to 255")? {
        annotations.insert(annotations::EXIT_CODE, json!(code.to_string()));
    }
    if let Some(cell) = row.cell("staleness grace") {
        let (sign, length) = cell.strip_prefix('-').map_or(("", cell), |length| ("-", length));
        let length = normalize_go_duration(length).ok_or_else(|| {
            let allowed = "a duration such as 90s or 1h30m; negative means forever";
            row.cell_error("staleness grace", cell, allowed)
        })?;
        annotations.insert(annotations::STALENESS_GRACE_PERIOD, json!(format!("{sign}{length}")));
    }
    for (key, value) in row.key_value_pairs("annotations")? {
        annotations.insert(key.to_owned(), json!(value));
    }
    Ok(annotations)
}

fn pod_spec(
    row: &Row<'_>,
    name: &str,
    scheduler: &str,
    class: Option<String>,
) -> Result<Value, RowError> {
    let mut container = json!({
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": resources_from_row(row)?,
    });
    if let Some(port) = row.count("host port", 1)? {
        container["ports"] = json!([{"containerPort": port, "hostPort": port}]);
    }
    let mut spec = json!({
        "schedulerName": row.cell("scheduler").unwrap_or(scheduler),
        "containers": [container],
    });
    if let Some(class) = class {
        spec["priorityClassName"] = json!(class);
    }
    if let Some(grace) = row.count("grace", 0)? {
        spec["terminationGracePeriodSeconds"] = json!(grace);
    }
    if let Some(node) = row.reference("node") {
        spec["nodeName"] = json!(node.name);
    }
    placement_columns::apply_placement_columns(row, name, &mut spec)?;
    Ok(spec)
}

/// The container's requests and limits. GPUs are set as limits, too, because Kubernetes requires
/// that for extended resources; CPU and memory are requests only.
fn resources_from_row(row: &Row<'_>) -> Result<Value, RowError> {
    let mut resources = json!({});
    if let Some(gpus) = row.count("gpus", 0)?.filter(|gpus| *gpus > 0) {
        let gpus = gpus.to_string();
        resources["limits"][resources::GPU] = json!(gpus);
        resources["requests"][resources::GPU] = json!(gpus);
    }
    for resource in ["cpu", "memory"] {
        if let Some(cell) = row.quantity_cell(resource)? {
            resources["requests"][resource] = json!(cell);
        }
    }
    Ok(resources)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn made(cells: &[(&str, &str)]) -> String {
        let row = Row::from_cells("f:3".to_owned(), cells);
        match workload_objects_from_row(&row, "kai-scheduler") {
            Ok(objects) => objects
                .iter()
                .map(schedlab_clusters::api::object_title)
                .collect::<Vec<_>>()
                .join(", "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn each_kind_becomes_its_own_objects() {
        assert_snapshot!(made(&[("name", "a"), ("gpus", "1")]), @"Pod default/a");
        assert_snapshot!(made(&[("name", "a"), ("kind", "pod"), ("pods", "2")]), @"Pod default/a-0, Pod default/a-1");
        assert_snapshot!(
            made(&[("name", "g"), ("kind", "gang"), ("pods", "2"), ("min", "2")]),
            @"PodGroup default/g, Pod default/g-0, Pod default/g-1"
        );
        assert_snapshot!(made(&[("name", "j"), ("kind", "job"), ("priority", "1000")]), @"PriorityClass priority-1000, Job default/j");
    }

    #[test]
    fn an_invalid_row_creates_no_object() {
        assert_snapshot!(made(&[("name", "a"), ("kind", "cronjob")]), @"f:3: column `kind`: got cronjob, expected pod, gang, job, deployment, statefulset, jobset, trainjob, pytorchjob, raycluster, rayjob, leaderworkerset, podgroup");
        assert_snapshot!(made(&[("kind", "pod")]), @"f:3: column `name`: got nothing, expected a value");
        assert_snapshot!(made(&[("name", "a"), ("pods", "-2")]), @"f:3: column `pods`: got -2, expected a whole number from 1 to 100000");
    }

    #[test]
    fn a_column_that_a_kind_does_not_support_is_rejected() {
        let of = |kind: &str, column: &str, cell: &str| {
            made(&[("name", "a"), ("kind", kind), (column, cell)])
        };
        assert_snapshot!(of("deployment", "min", "banana"), @"f:3: column `min`: got banana for kind deployment, expected an empty cell or a kind that supports it (gang, job, pytorchjob, podgroup)");
        assert_snapshot!(of("pod", "min", "1"), @"f:3: column `min`: got 1 for kind pod, expected an empty cell or a kind that supports it (gang, job, pytorchjob, podgroup)");
        assert_snapshot!(of("job", "gated", "yes"), @"f:3: column `gated`: got yes for kind job, expected an empty cell or a kind that supports it (pod, gang)");
        assert_snapshot!(of("pod", "gated", "2"), @"f:3: column `gated`: got 2, expected yes, no or a number up to 1");
        assert_snapshot!(of("deployment", "gang", "nope"), @"f:3: column `gang`: got nope for kind deployment, expected an empty cell or a kind that supports it (pod)");
        assert_snapshot!(of("job", "sub-groups", "leader 1"), @"f:3: column `sub-groups`: got leader 1 for kind job, expected an empty cell or a kind that supports it (gang)");
        assert_snapshot!(of("jobset", "min", ""), @"JobSet default/a");
    }

    #[test]
    fn a_gang_has_the_pods_of_its_sub_groups() {
        let of = |pods: &str| {
            let sub_groups = ("sub-groups", "leader 1, workers 1/2");
            made(&[("name", "g"), ("kind", "gang"), sub_groups, ("pods", pods)])
        };
        let all = "PodGroup default/g, Pod default/g-leader-0, Pod default/g-workers-0, Pod default/g-workers-1";
        assert_eq!((&*of(""), &*of("3")), (all, all));
        assert_snapshot!(of("5"), @"f:3: column `pods`: got 5, expected an empty cell, or the 3 pods of its sub-groups");
    }

    #[test]
    fn a_pod_requests_what_its_row_specifies() {
        let row = Row::from_cells(
            "f:3".to_owned(),
            &[
                ("name", "a"),
                ("gpus", "2"),
                ("queue", "q"),
                ("run time", "10m"),
                ("preemptible", "no"),
            ],
        );
        let pod = &workload_objects_from_row(&row, "kai-scheduler").unwrap()[0];
        assert_snapshot!(pod["metadata"], @r#"{"annotations":{"schedlab.dev/run-time":"10m"},"labels":{"kai.scheduler/preemptibility":"non-preemptible","kai.scheduler/queue":"q","schedlab.dev/workload":"a"},"name":"a","namespace":"default"}"#);
        assert_snapshot!(pod["spec"], @r#"{"containers":[{"image":"registry.k8s.io/pause:3.10","name":"main","resources":{"limits":{"nvidia.com/gpu":"2"},"requests":{"nvidia.com/gpu":"2"}}}],"restartPolicy":"Never","schedulerName":"kai-scheduler"}"#);
    }
}
