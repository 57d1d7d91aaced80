//! Workloads from rows: what all kinds have in common, which is their pods.

use schedlab_json::{Map, Value, json};

use super::places;
use super::rows::{Answer, Row, RowError};
use super::workload_kinds;
use crate::text::as_go_writes;
use crate::view::{QUEUE, WORKLOAD};

/// Columns of a table of workloads.
pub(crate) const WORKLOAD_COLUMNS: &[&str] = &[
    "name",
    "kind",
    "queue",
    "pods",
    "gpus",
    "cpu",
    "memory",
    "min",
    "gang",
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

/// The label that says whether a workload may be evicted.
const PREEMPTIBILITY: &str = "kai.scheduler/preemptibility";

/// The objects of a workload, in the order of their creation.
pub(crate) fn workload(row: &Row<'_>, scheduler: &str) -> Result<Vec<Value>, RowError> {
    let draft = Draft::read(row, scheduler)?;
    let mut objects: Vec<Value> = draft.priority_class.iter().cloned().collect();
    objects.extend(workload_kinds::objects(row, &draft)?);
    Ok(objects)
}

/// What a row says of a workload, whatever its kind.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// Its name.
    pub(super) name: String,
    /// Its namespace.
    pub(super) namespace: String,
    /// How many pods; `None`: one, which bears the workload's own name.
    pub(super) pods: Option<u32>,
    /// Labels of its owner and pods.
    pub(super) labels: Map,
    /// Annotations of its pods.
    pub(super) annotations: Map,
    /// `spec` of its pods.
    pub(super) pod_spec: Value,
    /// A priority class that the row calls for by its value.
    priority_class: Option<Value>,
}

impl Draft {
    fn read(row: &Row<'_>, scheduler: &str) -> Result<Self, RowError> {
        let name = row.required("name")?.to_owned();
        let mut labels = Map::new();
        labels.insert(WORKLOAD.to_owned(), json!(name));
        if let Some(queue) = row.text("queue") {
            labels.insert(QUEUE.to_owned(), json!(queue));
        }
        if let Some(answer) = row.yes_or_no("preemptible")? {
            let value = match answer {
                Answer::Yes => "preemptible",
                Answer::No => "non-preemptible",
            };
            labels.insert(PREEMPTIBILITY.to_owned(), json!(value));
        }
        for (key, value) in row.pairs("labels")? {
            labels.insert(key.to_owned(), json!(value));
        }
        let (class, priority_class) = priority(row);
        Ok(Self {
            namespace: row.text("namespace").unwrap_or("default").to_owned(),
            pods: row.objects("pods", 1)?,
            annotations: annotations(row)?,
            pod_spec: pod_spec(row, &name, scheduler, class)?,
            labels,
            name,
            priority_class,
        })
    }

    /// `metadata` of an owner.
    pub(super) fn metadata(&self) -> Value {
        json!({"name": self.name, "namespace": self.namespace, "labels": self.labels})
    }

    /// A pod template.
    pub(super) fn template(&self) -> Value {
        json!({
            "metadata": {"labels": self.labels, "annotations": self.annotations},
            "spec": self.pod_spec,
        })
    }

    /// A pod of its own, not an owner's: it ends when its container does.
    fn pod(&self, name: &str) -> Value {
        let mut pod = self.template();
        pod["spec"]["restartPolicy"] = json!("Never");
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["namespace"] = json!(self.namespace);
        pod
    }

    /// Pods of its own by these names.
    pub(super) fn own_pods(&self, names: &[String]) -> Vec<Value> {
        names.iter().map(|name| self.pod(name)).collect()
    }

    /// Names of pods of its own.
    pub(super) fn pod_names(&self) -> Vec<String> {
        match self.pods {
            None => vec![self.name.clone()],
            Some(count) => numbered(&self.name, count),
        }
    }

    /// How many pods, one when the row does not say.
    pub(super) fn pod_count(&self) -> u32 {
        self.pods.unwrap_or(1)
    }
}

/// `<name>-0`, `<name>-1` …
pub(super) fn numbered(name: &str, count: u32) -> Vec<String> {
    (0..count).map(|number| format!("{name}-{number}")).collect()
}

/// The priority class's name, and the class itself when the row gives a number.
fn priority(row: &Row<'_>) -> (Option<String>, Option<Value>) {
    let Some(cell) = row.text("priority") else { return (None, None) };
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

fn annotations(row: &Row<'_>) -> Result<Map, RowError> {
    let mut annotations = Map::new();
    let durations = [
        ("run time", "schedlab.dev/run-time"),
        ("startup", "schedlab.dev/startup"),
        ("termination", "schedlab.dev/termination"),
        ("preemption delay", "kai.scheduler/preemption-delay"),
    ];
    for (column, key) in durations {
        if let Some(cell) = row.duration(column)? {
            annotations.insert(key.to_owned(), json!(cell));
        }
    }
    if let Some(code) = row.parsed::<u8>("exit code", "a whole number from 0 to 255")? {
        annotations.insert("schedlab.dev/exit-code", json!(code.to_string()));
    }
    if let Some(cell) = row.text("staleness grace") {
        let (sign, length) = cell.strip_prefix('-').map_or(("", cell), |length| ("-", length));
        let length = as_go_writes(length).ok_or_else(|| {
            let allowed = "a duration such as 90s or 1h30m; a negative one means for ever";
            row.error("staleness grace", cell, allowed)
        })?;
        annotations
            .insert("kai.scheduler/staleness-grace-period", json!(format!("{sign}{length}")));
    }
    for (key, value) in row.pairs("annotations")? {
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
        "resources": resources(row)?,
    });
    if let Some(port) = row.count("host port", 1)? {
        container["ports"] = json!([{"containerPort": port, "hostPort": port}]);
    }
    let mut spec = json!({
        "schedulerName": row.text("scheduler").unwrap_or(scheduler),
        "containers": [container],
    });
    if let Some(class) = class {
        spec["priorityClassName"] = json!(class);
    }
    if let Some(grace) = row.count("grace", 0)? {
        spec["terminationGracePeriodSeconds"] = json!(grace);
    }
    if let Some(node) = row.text("node") {
        spec["nodeName"] = json!(node);
    }
    places::add(row, name, &mut spec)?;
    Ok(spec)
}

/// GPUs are limits, as device plugins want them; CPU and memory are requests.
fn resources(row: &Row<'_>) -> Result<Value, RowError> {
    let mut resources = json!({});
    if let Some(gpus) = row.count("gpus", 0)?.filter(|gpus| *gpus > 0) {
        let gpus = gpus.to_string();
        resources["limits"]["nvidia.com/gpu"] = json!(gpus);
        resources["requests"]["nvidia.com/gpu"] = json!(gpus);
    }
    for resource in ["cpu", "memory"] {
        if let Some(cell) = row.quantity(resource)? {
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
        let row = Row::of("f:3".to_owned(), cells);
        match workload(&row, "kai-scheduler") {
            Ok(objects) => objects.iter().map(crate::api::title).collect::<Vec<_>>().join(", "),
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
    fn what_cannot_be_is_told_before_anything_is_made() {
        assert_snapshot!(made(&[("name", "a"), ("kind", "cronjob")]), @"f:3: column `kind`: found cronjob, allowed is pod, gang, job, deployment, statefulset, jobset, trainjob, pytorchjob");
        assert_snapshot!(made(&[("kind", "pod")]), @"f:3: column `name`: found nothing, allowed is a value");
        assert_snapshot!(made(&[("name", "a"), ("pods", "-2")]), @"f:3: column `pods`: found -2, allowed is a whole number from 1 to 100000");
    }

    #[test]
    fn a_column_that_a_kind_has_not_is_told_and_not_dropped() {
        let of = |kind: &str, column: &str, cell: &str| {
            made(&[("name", "a"), ("kind", kind), (column, cell)])
        };
        assert_snapshot!(of("deployment", "min", "banana"), @"f:3: column `min` is not for deployments: found banana, allowed is an empty cell, or a kind that has it (gang, job, pytorchjob)");
        assert_snapshot!(of("pod", "min", "1"), @"f:3: column `min` is not for pods: found 1, allowed is an empty cell, or a kind that has it (gang, job, pytorchjob)");
        assert_snapshot!(of("job", "gated", "yes"), @"f:3: column `gated` is not for jobs: found yes, allowed is an empty cell, or a kind that has it (pod, gang)");
        assert_snapshot!(of("pod", "gated", "2"), @"f:3: column `gated`: found 2, allowed is yes, no or a number up to 1");
        assert_snapshot!(of("deployment", "gang", "nope"), @"f:3: column `gang` is not for deployments: found nope, allowed is an empty cell, or a kind that has it (pod)");
        assert_snapshot!(of("job", "sub-groups", "leader 1"), @"f:3: column `sub-groups` is not for jobs: found leader 1, allowed is an empty cell, or a kind that has it (gang)");
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
        assert_snapshot!(of("5"), @"f:3: column `pods`: found 5, allowed is an empty cell, or the 3 pods of its sub-groups");
    }

    #[test]
    fn a_pod_asks_for_what_its_row_says() {
        let row = Row::of(
            "f:3".to_owned(),
            &[
                ("name", "a"),
                ("gpus", "2"),
                ("queue", "q"),
                ("run time", "10m"),
                ("preemptible", "no"),
            ],
        );
        let pod = &workload(&row, "kai-scheduler").unwrap()[0];
        assert_snapshot!(pod["metadata"], @r#"{"annotations":{"schedlab.dev/run-time":"10m"},"labels":{"kai.scheduler/preemptibility":"non-preemptible","kai.scheduler/queue":"q","schedlab.dev/workload":"a"},"name":"a","namespace":"default"}"#);
        assert_snapshot!(pod["spec"], @r#"{"containers":[{"image":"registry.k8s.io/pause:3.10","name":"main","resources":{"limits":{"nvidia.com/gpu":"2"},"requests":{"nvidia.com/gpu":"2"}}}],"restartPolicy":"Never","schedulerName":"kai-scheduler"}"#);
    }
}
