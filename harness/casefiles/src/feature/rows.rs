//! The rows of a feature's tables, from the objects of a case.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::{
    Map, Value,
    annotations::{GPU_FRACTION, GPU_MEMORY, POD_GROUP_NAME},
    labels, object, resources,
};

use super::{
    Placement,
    placement::{placement_cells, selected_labels},
    table::{Cells, StepTable},
};
use crate::{
    Case,
    pod_spec::is_default_toleration,
    predicate::{Predicate, Subject},
};

/// What a table cannot say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Inexpressible(pub String);

/// What becomes of objects that tables cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BesideTables {
    /// The case cannot be written.
    Nothing,
    /// They are manifests of the feature.
    Manifests,
}

/// The tables of a feature.
pub(super) struct Scene {
    pools: Vec<Pool>,
    queues: Vec<Cells>,
    /// Workloads in the order of their creation.
    pub(super) workloads: Vec<Workload>,
    /// Kinds of the workloads, by the name of the pod group.
    kinds: BTreeMap<String, &'static str>,
    /// Objects that have no table, and must exist before the workloads.
    pub(super) others: Vec<Value>,
    /// Pod groups and pods that a row cannot say.
    pub(super) manifests: Vec<Value>,
}

/// A pool of equal nodes.
struct Pool {
    name: String,
    /// Names of its nodes in the case.
    nodes: Vec<String>,
    cells: Cells,
}

/// A row of a table of workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    name: String,
    kind: &'static str,
    pods: usize,
    cells: Cells,
    pub(super) is_running: bool,
    created: String,
}

impl Scene {
    /// Only what names subjects: the rest is in the case file.
    pub(super) fn names_only(case: &Case) -> Self {
        let groups =
            case.objects("podGroups").map(|group| (object::name(group).to_owned(), "gang"));
        Self {
            pools: Vec::new(),
            queues: Vec::new(),
            workloads: Vec::new(),
            kinds: groups.collect(),
            others: Vec::new(),
            manifests: Vec::new(),
        }
    }

    /// Reads the tables of a case. `beside`: what becomes of objects that have no table.
    pub(super) fn from_case(
        case: &Case,
        placement: Placement,
        beside: BesideTables,
    ) -> Result<Self, Inexpressible> {
        let supported = ["nodes", "queues", "podGroups", "pods", "priorityClasses"];
        let is_other = |array: &str| !supported.contains(&array);
        let mut arrays = case.cluster.objects.iter();
        let other = arrays.find(|(array, objects)| !objects.is_empty() && is_other(array));
        if let (Some((array, _)), BesideTables::Nothing) = (other, beside) {
            return Err(Inexpressible(format!("the case has {array}")));
        }
        let requested = requested_resources(case);
        let label_keys = selected_labels(case);
        let pools = pools(case, &requested, &label_keys)?;
        let queues = case.objects("queues").map(queue_cells).collect();
        let mut scene = Self {
            pools,
            queues,
            workloads: Vec::new(),
            kinds: BTreeMap::new(),
            others: Vec::new(),
            manifests: Vec::new(),
        };
        let all = case.objects_to_create("kai-scheduler");
        let has_table = ["Node", "Queue", "PodGroup", "Pod", "PriorityClass", "Namespace"];
        for object in all.iter().filter(|it| !has_table.contains(&object::text(it, &["kind"]))) {
            let mut object = scene.with_node_of_feature(object)?;
            // A feature has one namespace for its workloads and what they name.
            object::remove(&mut object, &["metadata", "namespace"]);
            let is_same = |other: &Value| {
                other["kind"] == object["kind"] && object::name(other) == object::name(&object)
            };
            if scene.others.iter().any(is_same) {
                let (kind, name) = (object::text(&object, &["kind"]), object::name(&object));
                return Err(Inexpressible(format!("two namespaces have a {kind} {name}")));
            }
            scene.others.push(object);
        }
        scene.read_workloads(case, placement, beside, &all)?;
        Ok(scene)
    }

    /// An object of the case whose node has its name in the feature's fleet.
    fn with_node_of_feature(&self, object: &Value) -> Result<Value, Inexpressible> {
        let mut object = object.clone();
        if let Some(node) = object.pointer_mut("/spec/nodeName")
            && let Some(name) = node.as_str().filter(|name| !name.is_empty())
        {
            *node = Value::from(self.node_name(name)?);
        }
        Ok(object)
    }

    pub(super) fn fleet_text(&self, keyword: &str) -> String {
        if self.pools.is_empty() {
            return String::new();
        }
        if let [Pool { nodes, cells, .. }] = self.pools.as_slice()
            && let [("gpus", gpus)] = cells.as_slice()
        {
            let (count, s) = (nodes.len(), if nodes.len() == 1 { "" } else { "s" });
            let unit = if gpus == "1" { "GPU" } else { "GPUs" };
            return format!("    {keyword} a fleet of {count} node{s} with {gpus} {unit} each\n");
        }
        let mut table = StepTable::default();
        for pool in &self.pools {
            let own = [("pool", pool.name.clone()), ("nodes", pool.nodes.len().to_string())];
            table.add_row(&[&own, pool.cells.as_slice()].concat());
        }
        format!("    {keyword} a fleet:\n{}", table.text())
    }

    pub(super) fn queues_text(&self, keyword: &str) -> String {
        if self.queues.is_empty() {
            return String::new();
        }
        let mut table = StepTable::default();
        for row in parents_first(&self.queues) {
            table.add_row(row);
        }
        format!("    {keyword} these queues:\n{}", table.text())
    }

    pub(super) fn workloads_text(workloads: &[&Workload]) -> String {
        let mut table = StepTable::default();
        for workload in workloads {
            let pods = if workload.pods > 1 { workload.pods.to_string() } else { String::new() };
            let own = [
                ("name", workload.name.clone()),
                ("kind", workload.kind.to_owned()),
                ("pods", pods),
            ];
            table.add_row(&[&own, workload.cells.as_slice()].concat());
        }
        table.text()
    }

    /// The subject of a claim, in the words of the steps.
    pub(super) fn subject_text(&self, predicate: &Predicate) -> Result<String, Inexpressible> {
        let name = super::short_name(&predicate.name);
        match predicate.subject {
            Subject::Queue => Ok(format!("queue \"{name}\"")),
            Subject::Pod => Ok(format!("pod \"{name}\"")),
            Subject::Gang => {
                let kind = self.kinds.get(name);
                let kind =
                    kind.ok_or_else(|| Inexpressible(format!("the case has no pod group {name}")))?;
                Ok(format!("{kind} \"{name}\""))
            }
        }
    }

    fn read_workloads(
        &mut self,
        case: &Case,
        placement: Placement,
        beside: BesideTables,
        all: &[Value],
    ) -> Result<(), Inexpressible> {
        let mut members: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
        for pod in case.objects("pods") {
            let phase = object::text(pod, &["status", "phase"]);
            if matches!(phase, "Succeeded" | "Failed") {
                continue;
            }
            let group = object::annotation(pod, POD_GROUP_NAME).ok_or_else(|| {
                Inexpressible(format!("pod {} has no pod group", object::name(pod)))
            })?;
            members.entry((object::namespace(pod), group)).or_default().push(pod);
        }
        let mut rows = Vec::new();
        for group in case.objects("podGroups") {
            let key = (object::namespace(group), object::name(group));
            let Some(pods) = members.remove(&key) else { continue };
            match (self.rows_of_group(case, group, &pods, placement), beside) {
                (Ok(of_group), _) => rows.extend(of_group),
                (Err(_), BesideTables::Manifests) => self.add_manifests(all, group)?,
                (Err(why), BesideTables::Nothing) => return Err(why),
            }
        }
        if let Some(((_, group), _)) = members.first_key_value() {
            return Err(Inexpressible(format!("pod group {group} is missing")));
        }
        rows.sort_by(|a, b| (&a.created, &a.name).cmp(&(&b.created, &b.name)));
        self.workloads = merged(rows);
        Ok(())
    }

    /// Adds a pod group and its pods as manifests.
    fn add_manifests(&mut self, all: &[Value], group: &Value) -> Result<(), Inexpressible> {
        let (namespace, name) = (object::namespace(group), object::name(group));
        let is_of_group = |object: &&Value| {
            let is_it = match object::text(object, &["kind"]) {
                "PodGroup" => object::name(object) == name,
                "Pod" => object::annotation(object, POD_GROUP_NAME) == Some(name),
                _ => false,
            };
            is_it && object::namespace(object) == namespace
        };
        for object in all.iter().filter(is_of_group) {
            let mut object = self.with_node_of_feature(object)?;
            // A feature has one namespace for its workloads.
            object::remove(&mut object, &["metadata", "namespace"]);
            self.manifests.push(object);
        }
        self.kinds.insert(name.to_owned(), "gang");
        Ok(())
    }

    fn rows_of_group(
        &mut self,
        case: &Case,
        group: &Value,
        pods: &[&Value],
        placement: Placement,
    ) -> Result<Vec<Workload>, Inexpressible> {
        let name = object::name(group);
        let constraint = group.pointer("/spec/topologyConstraint");
        if constraint
            .is_some_and(|it| !it.is_null() && it.as_object().is_none_or(|it| !it.is_empty()))
        {
            return Err(Inexpressible(format!("pod group {name} has topologyConstraint")));
        }
        let sub_groups = sub_groups_cell(group, pods)?;
        let minimum = object::number(group, &["spec", "minMember"]).unwrap_or(1).max(1);
        let is_gang = pods.len() > 1 || minimum > 1 || sub_groups.is_some();
        let kind = if is_gang { "gang" } else { "pod" };
        self.kinds.insert(name.to_owned(), kind);
        if usize::try_from(minimum).is_ok_and(|minimum| minimum > pods.len()) {
            return Err(Inexpressible(format!("pod group {name} has fewer pods than it needs")));
        }
        let cells: BTreeSet<Cells> =
            pods.iter().map(|pod| pod_cells(case, pod, pods)).collect::<Result<_, _>>()?;
        let mut cells = cells.into_iter();
        let (Some(of_pod), None) = (cells.next(), cells.next()) else {
            return Err(Inexpressible(format!("the pods of pod group {name} differ")));
        };
        let mut cells = vec![("queue", object::text(group, &["spec", "queue"]).to_owned())];
        cells.extend(of_pod);
        match sub_groups {
            Some(cell) => {
                cells.push(("sub-groups", cell));
                let minimum = object::number(group, &["spec", "minSubGroup"]);
                cells.extend(minimum.map(|minimum| ("min", minimum.to_string())));
            }
            None if is_gang && usize::try_from(minimum).is_ok_and(|it| it != pods.len()) => {
                cells.push(("min", minimum.to_string()));
            }
            None => {}
        }
        cells.extend(priority_cells(case, group));
        let nodes: Vec<&str> = pods.iter().map(|pod| node_of(pod)).collect();
        let bound = nodes.iter().filter(|node| !node.is_empty()).count();
        if bound != 0 && bound != pods.len() {
            return Err(Inexpressible(format!("pod group {name} runs in part")));
        }
        let workload = Workload {
            name: name.to_owned(),
            kind,
            pods: pods.len(),
            cells,
            is_running: bound > 0,
            created: object::text(group, &["metadata", "creationTimestamp"]).to_owned(),
        };
        if !workload.is_running || placement == Placement::ByScheduler {
            return Ok(vec![workload]);
        }
        self.pinned_rows(&workload, &nodes)
    }

    /// One row for each node that the pods of a workload run on.
    fn pinned_rows(
        &self,
        workload: &Workload,
        nodes: &[&str],
    ) -> Result<Vec<Workload>, Inexpressible> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for node in nodes {
            *counts.entry(node).or_default() += 1;
        }
        if workload.kind == "gang" && counts.len() > 1 {
            let name = &workload.name;
            return Err(Inexpressible(format!("gang {name} runs on several nodes")));
        }
        let rows = counts.into_iter().map(|(node, pods)| {
            let mut row = Workload { pods, ..workload.clone() };
            row.cells.push(("node", self.node_name(node)?));
            Ok(row)
        });
        rows.collect()
    }

    /// The name in the feature's fleet of a node of the case.
    fn node_name(&self, node: &str) -> Result<String, Inexpressible> {
        let in_pool = |pool: &Pool| {
            let at = pool.nodes.iter().position(|known| known == node)?;
            Some(format!("{}-{}", pool.name, at + 1))
        };
        let found = self.pools.iter().find_map(in_pool);
        found.ok_or_else(|| Inexpressible(format!("node {node} is missing")))
    }
}

/// The rows of queues with parents before their children, since a table is read from its top. The
/// queues of a cycle come last.
fn parents_first(rows: &[Cells]) -> Vec<&Cells> {
    let cell = |row: &'_ Cells, column: &str| {
        row.iter().find(|(known, _)| *known == column).map(|(_, text)| text.clone())
    };
    let mut sorted = Vec::new();
    let mut left: Vec<&Cells> = rows.iter().collect();
    let mut known: BTreeSet<String> = BTreeSet::from([String::new()]);
    while !left.is_empty() {
        let before = left.len();
        left.retain(|row| {
            let is_due = known.contains(&cell(row, "parent").unwrap_or_default());
            if is_due {
                sorted.push(*row);
                known.extend(cell(row, "queue"));
            }
            !is_due
        });
        if left.len() == before {
            sorted.append(&mut left);
        }
    }
    sorted
}

fn node_of(pod: &Value) -> &str {
    object::text(pod, &["spec", "nodeName"])
}

/// Rows of single pods that are alike become one row.
fn merged(rows: Vec<Workload>) -> Vec<Workload> {
    let mut result: Vec<Workload> = Vec::new();
    for row in rows {
        let is_alike = |other: &&mut Workload| {
            other.kind == "pod"
                && row.kind == "pod"
                && other.is_running
                && row.is_running
                && other.cells == row.cells
        };
        match result.iter_mut().find(is_alike) {
            Some(other) => other.pods += row.pods,
            None => result.push(row),
        }
    }
    result
}

/// The resources beside GPUs that pods request.
fn requested_resources(case: &Case) -> BTreeSet<String> {
    let containers =
        case.objects("pods").flat_map(|pod| object::list(pod, &["spec", "containers"]));
    let maps = containers.flat_map(|container| {
        ["requests", "limits"].map(|kind| object::map(container, &["resources", kind]))
    });
    let keys = maps.flatten().flat_map(Map::keys).map(ToString::to_string);
    keys.filter(|key| key != resources::GPU).collect()
}

fn pools(
    case: &Case,
    requested: &BTreeSet<String>,
    label_keys: &BTreeSet<String>,
) -> Result<Vec<Pool>, Inexpressible> {
    let mut shapes: Vec<(Cells, Vec<String>)> = Vec::new();
    for node in case.objects("nodes") {
        let cells = node_cells(node, requested, label_keys)?;
        let name = object::name(node).to_owned();
        match shapes.iter_mut().find(|(known, _)| *known == cells) {
            Some((_, nodes)) => nodes.push(name),
            None => shapes.push((cells, vec![name])),
        }
    }
    let is_single = shapes.len() == 1;
    let pools = shapes.into_iter().zip('a'..='z').map(|((cells, nodes), letter)| Pool {
        name: if is_single { "node".to_owned() } else { letter.to_string() },
        nodes,
        cells,
    });
    Ok(pools.collect())
}

fn node_cells(
    node: &Value,
    requested: &BTreeSet<String>,
    label_keys: &BTreeSet<String>,
) -> Result<Cells, Inexpressible> {
    let name = object::name(node);
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        return Err(Inexpressible(format!("node {name} is cordoned")));
    }
    let conditions = object::list(node, &["status", "conditions"]).iter();
    let mut ready = conditions.filter(|it| object::text(it, &["type"]) == "Ready");
    if ready.next().is_none_or(|it| object::text(it, &["status"]) != "True") {
        return Err(Inexpressible(format!("node {name} is not ready")));
    }
    let amount = |resource: &str| match object::at(node, &["status", "allocatable", resource]) {
        Some(Value::String(text)) => text.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) | None => String::new(),
    };
    let gpus = amount(resources::GPU);
    let mut cells = vec![("gpus", if gpus.is_empty() { "0".to_owned() } else { gpus })];
    for (resource, column) in [("cpu", "cpu"), ("memory", "memory")] {
        if requested.contains(resource) {
            cells.push((column, amount(resource)));
        }
    }
    if let Some(other) = requested.iter().find(|it| !["cpu", "memory"].contains(&&***it)) {
        return Err(Inexpressible(format!("pods request {other}")));
    }
    let memory = object::label(node, labels::GPU_MEMORY);
    if let Some(memory) = memory {
        cells.push(("gpu memory", format!("{memory}Mi")));
    }
    let own = object::map(node, &["metadata", "labels"]).into_iter().flatten();
    let own = own.filter(|(key, _)| label_keys.contains(key.as_str()));
    let pairs = own.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let pairs = pairs.collect::<Vec<_>>().join(", ");
    if !pairs.is_empty() {
        cells.push(("labels", pairs));
    }
    let taints = object::list(node, &["spec", "taints"]).iter().map(|taint| {
        let part = |field| object::text(taint, &[field]);
        format!("{}={}:{}", part("key"), part("value"), part("effect"))
    });
    let taints = taints.collect::<Vec<_>>().join(", ");
    if !taints.is_empty() {
        cells.push(("taints", taints));
    }
    Ok(cells)
}

fn queue_cells(queue: &Value) -> Cells {
    let name = object::name(queue);
    let parent = object::text(queue, &["spec", "parentQueue"]);
    let mut cells = vec![("queue", name.to_owned()), ("parent", parent.to_owned())];
    let columns = [
        ("quota", "gpu", "quota", 0.0, 1.0),
        ("limit", "gpu", "limit", -1.0, 1.0),
        ("weight", "gpu", "overQuotaWeight", 1.0, 1.0),
        ("cpu quota", "cpu", "quota", -1.0, 1000.0),
        ("cpu weight", "cpu", "overQuotaWeight", 1.0, 1.0),
        ("cpu limit", "cpu", "limit", -1.0, 1000.0),
        ("memory quota", "memory", "quota", -1.0, 1000.0),
        ("memory weight", "memory", "overQuotaWeight", 1.0, 1.0),
        ("memory limit", "memory", "limit", -1.0, 1000.0),
    ];
    for (column, resource, field, default, unit) in columns {
        let found = queue.pointer(&format!("/spec/resources/{resource}/{field}"));
        let cell = match found.and_then(Value::as_f64) {
            // The scheduler reads a missing field as 0.
            None if default == 0.0 => String::new(),
            None => "unset".to_owned(),
            Some(number) if number - default == 0.0 => String::new(),
            Some(number) if number < 0.0 => "unlimited".to_owned(),
            Some(number) => (number / unit).to_string(),
        };
        if column == "quota" && cell.is_empty() {
            cells.push((column, "0".to_owned()));
        } else {
            cells.push((column, cell));
        }
    }
    if let Some(priority) = object::number(queue, &["spec", "priority"]) {
        cells
            .push(("priority", if priority == 100 { String::new() } else { priority.to_string() }));
    }
    for (column, field) in
        [("reclaim min runtime", "reclaimMinRuntime"), ("preempt min runtime", "preemptMinRuntime")]
    {
        cells.push((column, object::text(queue, &["spec", field]).to_owned()));
    }
    cells
}

/// The cells of a workload's row that come from its pods.
fn pod_cells(case: &Case, pod: &Value, members: &[&Value]) -> Result<Cells, Inexpressible> {
    let name = object::name(pod);
    for field in ["volumes", "resourceClaims", "overhead"] {
        let found = object::at(pod, &["spec", field]);
        let is_empty = found.is_none_or(|it| {
            it.is_null()
                || it.as_array().is_some_and(Vec::is_empty)
                || it.as_object().is_some_and(Map::is_empty)
        });
        if !is_empty {
            return Err(Inexpressible(format!("pod {name} has {field}")));
        }
    }
    let containers = object::list(pod, &["spec", "containers"]);
    let [container] = containers else {
        return Err(Inexpressible(format!("pod {name} has {} containers", containers.len())));
    };
    let amount = |resource: &str| {
        let of = |kind| object::at(container, &["resources", kind, resource]);
        match of("requests").or(of("limits")) {
            Some(Value::String(text)) => text.to_string(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) | None => String::new(),
        }
    };
    let mut cells = vec![
        ("gpus", amount(resources::GPU)),
        ("cpu", amount("cpu")),
        ("memory", amount("memory")),
    ];
    cells.extend(placement_cells(case, pod, members)?);
    let selector = object::map(pod, &["spec", "nodeSelector"]).into_iter().flatten();
    let pairs = selector.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    cells.push(("node selector", pairs.collect::<Vec<_>>().join(", ")));
    let tolerations = object::list(pod, &["spec", "tolerations"]).iter();
    let tolerations = tolerations.filter(|toleration| !is_default_toleration(toleration));
    cells.push(("tolerations", tolerations.map(toleration).collect::<Vec<_>>().join(", ")));
    let shares = [GPU_FRACTION, GPU_MEMORY].into_iter();
    let shares = shares.filter_map(|key| Some(format!("{key}={}", object::annotation(pod, key)?)));
    cells.push(("annotations", shares.collect::<Vec<_>>().join(", ")));
    Ok(cells)
}

/// The cell for the sub-groups of a pod group, such as `leader 1, workers 2/4`; `None` if it has none.
fn sub_groups_cell(group: &Value, pods: &[&Value]) -> Result<Option<String>, Inexpressible> {
    let name = object::name(group);
    let wrong = |what: &str| Inexpressible(format!("pod group {name} has {what}"));
    let sub_groups = object::list(group, &["spec", "subGroups"]);
    if sub_groups.is_empty() {
        return Ok(None);
    }
    let known = ["name", "minMember"];
    let mut parts = Vec::new();
    let mut members = 0;
    for sub_group in sub_groups {
        let own = sub_group.as_object().into_iter().flat_map(Map::iter);
        let mut others =
            own.filter(|(key, value)| !known.contains(&key.as_str()) && !value.is_null());
        if let Some((field, _)) = others.next() {
            return Err(wrong(&format!("{field} of a sub-group")));
        }
        let own = object::text(sub_group, &["name"]);
        let count =
            pods.iter().filter(|pod| object::label(pod, labels::SUB_GROUP) == Some(own)).count();
        members += count;
        let minimum = object::number(sub_group, &["minMember"]).unwrap_or(1);
        let of_all =
            if i64::try_from(count) == Ok(minimum) { String::new() } else { format!("/{count}") };
        parts.push(format!("{own} {minimum}{of_all}"));
    }
    if members != pods.len() {
        return Err(wrong("pods of no sub-group"));
    }
    Ok(Some(parts.join(", ")))
}

fn toleration(toleration: &Value) -> String {
    let part = |field| object::text(toleration, &[field]);
    let effect = match part("effect") {
        "" => String::new(),
        effect => format!(":{effect}"),
    };
    match (part("key"), part("operator")) {
        ("", _) => "*".to_owned(),
        (key, "Exists") => format!("{key}{effect}"),
        (key, _) => format!("{key}={}{effect}", part("value")),
    }
}

/// The cells for the priority and preemptibility of a pod group.
fn priority_cells(case: &Case, group: &Value) -> Cells {
    let mut cells = Vec::new();
    let class = object::text(group, &["spec", "priorityClassName"]);
    let built_in = ["train", "build", "build-preemptible", "inference", ""];
    let priority = if built_in.contains(&class) {
        class.to_owned()
    } else {
        let found = case.objects("priorityClasses").find(|it| object::name(it) == class);
        let value = found.and_then(|class| object::number(class, &["value"]));
        // Without the class the priority is that of pods without one.
        value.map(|value| value.to_string()).unwrap_or_default()
    };
    cells.push(("priority", priority));
    cells.push((
        "preemptible",
        match object::text(group, &["spec", "preemptibility"]) {
            "preemptible" => "yes".to_owned(),
            "non-preemptible" => "no".to_owned(),
            _ => String::new(),
        },
    ));
    for (column, field) in
        [("preemption delay", "preemptionDelay"), ("staleness grace", "stalenessGracePeriod")]
    {
        cells.push((column, object::text(group, &["spec", field]).to_owned()));
    }
    cells
}
