//! Queues and gangs as Kueue is told of them.
//!
//! A queue with queues below it is a cohort, any other a cluster queue; one cohort stands above
//! all. What a queue's quota leaves to those below it, and what the nodes have beyond all quotas, is
//! the quota of a cohort itself, so that it can be borrowed. Pods come one by one, as pods do for
//! KAI: a pod of a Job is enlisted, not the Job, which Kueue would suspend until it has no pods.
//! A gang is a pod group of Kueue's, which knows its size and no lower minimum.

use std::collections::BTreeMap;

use schedlab_emulator::object::annotation;
use schedlab_emulator::quantity::thousandths;
use schedlab_json::{Value, json};

use crate::fields;
use crate::view::QUEUE;

/// The version that Kueue v0.17 stores.
pub(super) const VERSION: &str = "kueue.x-k8s.io/v1beta2";

/// The cohort above all queues.
const EVERYBODY: &str = "schedlab-everybody";
/// The flavor of all nodes.
const NODES: &str = "schedlab-nodes";
/// The label with which pods name their local queue.
const LOCAL_QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// The label with which pods name their group, and the annotation with its size.
const GROUP: &str = "kueue.x-k8s.io/pod-group-name";
const GROUP_SIZE: &str = "kueue.x-k8s.io/pod-group-total-count";

/// How KAI's pods name their group.
const KAI_GROUP: &str = "pod-group-name";
/// How many pods of a Job must run together.
const KAI_MINIMUM: &str = "kai.scheduler/batch-min-member";

/// Of CPU and memory there is as much as anybody wants: a million cores, a million GB.
const PLENTY: i64 = 1_000_000_000;

/// A resource that queues account for.
struct Covered {
    /// In KAI's queues.
    kai: &'static str,
    /// In pods.
    name: &'static str,
    /// What one of KAI's units is.
    unit: &'static str,
}

const COVERED: [Covered; 3] = [
    Covered { kai: "gpu", name: "nvidia.com/gpu", unit: "" },
    Covered { kai: "cpu", name: "cpu", unit: "m" },
    Covered { kai: "memory", name: "memory", unit: "M" },
];

/// What Kueue is told for these queues of KAI's API on these nodes.
pub(super) fn queues(queues: &[Value], nodes: &[Value]) -> Vec<Value> {
    let tree = Tree { queues, gpus: gpus(nodes) };
    let flavor = json!({"apiVersion": VERSION, "kind": "ResourceFlavor",
                        "metadata": {"name": NODES}});
    let (parents, leaves): (Vec<&Value>, Vec<&Value>) =
        queues.iter().partition(|queue| tree.below(name(queue)).next().is_some());
    let mut objects = vec![flavor, tree.everybody()];
    objects.extend(parents.into_iter().map(|queue| tree.cohort(queue)));
    objects.extend(leaves.into_iter().map(|queue| tree.cluster_queue(queue)));
    objects
}

/// GPUs of all nodes.
fn gpus(nodes: &[Value]) -> i64 {
    let has = |node: &Value| thousandths(&node["status"]["allocatable"]["nvidia.com/gpu"]);
    let milli: i128 = nodes.iter().filter_map(has).sum();
    i64::try_from(milli / 1000).unwrap_or(PLENTY)
}

fn name(object: &Value) -> &str {
    fields::text(object, "/metadata/name").unwrap_or_default()
}

fn parent(queue: &Value) -> &str {
    fields::text(queue, "/spec/parentQueue").unwrap_or_default()
}

/// What a queue has of a resource.
struct Quota {
    nominal: i64,
    /// How much more it may use; `None`: whatever is there.
    borrowing: Option<i64>,
}

struct Tree<'q> {
    queues: &'q [Value],
    /// What the nodes have.
    gpus: i64,
}

impl<'q> Tree<'q> {
    fn below(&self, parent_name: &str) -> impl Iterator<Item = &'q Value> {
        self.queues.iter().filter(move |queue| parent(queue) == parent_name)
    }

    /// All that there is of a resource.
    fn all(&self, covered: &Covered) -> i64 {
        if covered.kai == "gpu" { self.gpus } else { PLENTY }
    }

    fn quota(&self, queue: &Value, covered: &Covered) -> i64 {
        amount(queue, covered, "quota").unwrap_or(self.all(covered))
    }

    /// What the queues below one have together.
    fn quota_below(&self, queue_name: &str, covered: &Covered) -> i64 {
        let quotas = self.below(queue_name).map(|queue| self.quota(queue, covered));
        quotas.fold(0, i64::saturating_add)
    }

    fn everybody(&self) -> Value {
        let rest = |covered: &Covered| {
            let nominal = (self.all(covered) - self.quota_below("", covered)).max(0);
            Quota { nominal, borrowing: None }
        };
        let spec = json!({"resourceGroups": resource_groups(rest)});
        json!({"apiVersion": VERSION, "kind": "Cohort", "metadata": {"name": EVERYBODY},
               "spec": spec})
    }

    fn cohort(&self, queue: &Value) -> Value {
        let rest = |covered: &Covered| {
            let below = self.quota_below(name(queue), covered);
            let quota = self.quota(queue, covered).max(below);
            let limit = amount(queue, covered, "limit");
            Quota { nominal: quota - below, borrowing: limit.map(|limit| (limit - quota).max(0)) }
        };
        let mut spec = json!({"parentName": above(queue), "resourceGroups": resource_groups(rest)});
        add_weight(queue, &mut spec);
        json!({"apiVersion": VERSION, "kind": "Cohort", "metadata": {"name": name(queue)},
               "spec": spec})
    }

    fn cluster_queue(&self, queue: &Value) -> Value {
        let own = |covered: &Covered| {
            let quota = self.quota(queue, covered);
            let limit = amount(queue, covered, "limit");
            let nominal = limit.map_or(quota, |limit| limit.min(quota));
            Quota { nominal, borrowing: limit.map(|limit| limit - nominal) }
        };
        let mut spec = json!({
            "cohortName": above(queue),
            "namespaceSelector": {},
            "resourceGroups": resource_groups(own),
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        });
        add_weight(queue, &mut spec);
        json!({"apiVersion": VERSION, "kind": "ClusterQueue", "metadata": {"name": name(queue)},
               "spec": spec})
    }
}

/// In whole units of KAI's. Nothing where it is unlimited; what is not said is zero.
fn amount(queue: &Value, covered: &Covered, field: &str) -> Option<i64> {
    let told = queue["spec"]["resources"][covered.kai][field].as_f64().unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, reason = "the API takes no more than 10^12")]
    (told >= 0.0).then_some(told as i64)
}

/// The cohort that a queue belongs to.
fn above(queue: &Value) -> &str {
    match parent(queue) {
        "" => EVERYBODY,
        parent => parent,
    }
}

/// What is over is divided by the weight for GPUs; Kueue has one for all resources.
fn add_weight(queue: &Value, spec: &mut Value) {
    if let Some(weight) = queue["spec"]["resources"]["gpu"]["overQuotaWeight"].as_number() {
        spec["fairSharing"] = json!({"weight": weight.to_string()});
    }
}

fn resource_groups(quota: impl Fn(&Covered) -> Quota) -> Value {
    let resource = |covered: &Covered| {
        let (told, unit) = (quota(covered), covered.unit);
        let mut resource =
            json!({"name": covered.name, "nominalQuota": format!("{}{unit}", told.nominal)});
        if let Some(more) = told.borrowing {
            resource["borrowingLimit"] = json!(format!("{more}{unit}"));
        }
        resource
    };
    let resources: Vec<Value> = COVERED.iter().map(resource).collect();
    let names: Vec<&str> = COVERED.iter().map(|covered| covered.name).collect();
    json!([{"coveredResources": names, "flavors": [{"name": NODES, "resources": resources}]}])
}

/// Gives pods the marks by which Kueue takes them. Those of another scheduler, and those that have
/// their node, are none of its business.
pub(super) fn enlist(objects: Vec<&mut Value>, scheduler: &str) {
    let mut sizes: BTreeMap<(String, String), usize> = BTreeMap::new();
    for object in &objects {
        if let Some(group) = group_of(object) {
            *sizes.entry(group).or_default() += 1;
        }
    }
    for object in objects {
        let group = group_of(object).map(|group| (group.1.clone(), sizes[&group]));
        let marks = Marks { scheduler, group: group.or_else(|| gang_of_job(object)) };
        marks.put(object, None);
    }
}

/// The namespace and name of a pod's group.
fn group_of(object: &Value) -> Option<(String, String)> {
    let group = annotation(object, KAI_GROUP).filter(|_| object["kind"] == "Pod")?;
    let namespace = fields::text(object, "/metadata/namespace").unwrap_or("default");
    Some((namespace.to_owned(), group.to_owned()))
}

/// The name and size of a Job's gang, where all of its pods must run together.
fn gang_of_job(object: &Value) -> Option<(String, usize)> {
    let pods = object["spec"]["parallelism"].as_u64().filter(|_| object["kind"] == "Job")?;
    let minimum: u64 = annotation(object, KAI_MINIMUM)?.parse().ok()?;
    let size = usize::try_from(pods).ok().filter(|_| minimum == pods && pods > 1)?;
    Some((name(object).to_owned(), size))
}

struct Marks<'m> {
    scheduler: &'m str,
    /// Name and size.
    group: Option<(String, usize)>,
}

impl Marks<'_> {
    /// Marks the pod that this is, or those that it has templates for, which are of their owner's
    /// queue if they name none.
    fn put(&self, value: &mut Value, owners: Option<&str>) {
        let own = value["metadata"]["labels"][QUEUE].as_str().map(str::to_owned);
        let queue = own.as_deref().or(owners);
        if let (Some(queue), true) = (queue, self.takes(value)) {
            value["metadata"]["labels"][LOCAL_QUEUE] = json!(queue);
            if let Some((group, size)) = &self.group {
                value["metadata"]["labels"][GROUP] = json!(group);
                value["metadata"]["annotations"][GROUP_SIZE] = json!(size.to_string());
            }
            return;
        }
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.put(item, queue)),
            Value::Object(fields) => {
                fields.iter_mut().for_each(|(_, field)| self.put(field, queue));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn takes(&self, value: &Value) -> bool {
        let spec = &value["spec"];
        let named = spec["schedulerName"].as_str().unwrap_or(self.scheduler);
        spec["containers"].is_array() && spec["nodeName"].is_null() && named == self.scheduler
    }
}

/// The queue in an object's namespace through which its pods come to the cluster's.
pub(super) fn local_queue(object: &Value) -> Option<Value> {
    let queue = marked(object)?;
    let namespace = fields::text(object, "/metadata/namespace").unwrap_or("default");
    Some(json!({
        "apiVersion": VERSION,
        "kind": "LocalQueue",
        "metadata": {"name": queue, "namespace": namespace},
        "spec": {"clusterQueue": queue},
    }))
}

fn marked(value: &Value) -> Option<&str> {
    match value {
        Value::Array(items) => items.iter().find_map(marked),
        Value::Object(fields) => {
            let label = value["metadata"]["labels"][LOCAL_QUEUE].as_str();
            label.or_else(|| fields.iter().find_map(|(_, field)| marked(field)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    /// A queue with a quota of GPUs and a limit; -1 is unlimited.
    fn queue(name: &str, parent: &str, (quota, limit): (i64, i64), weight: i64) -> Value {
        let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
        let gpu = json!({"quota": quota, "limit": limit, "overQuotaWeight": weight});
        json!({"metadata": {"name": name}, "spec": {"parentQueue": parent,
               "resources": {"gpu": gpu, "cpu": free, "memory": free}}})
    }

    fn nodes(gpus: &[u32]) -> Vec<Value> {
        let node =
            |gpus: &u32| json!({"status": {"allocatable": {"nvidia.com/gpu": gpus.to_string()}}});
        gpus.iter().map(node).collect()
    }

    /// A line for each cohort and cluster queue: where it is, and what it has of a resource.
    fn told(queues: &[Value], gpus: &[u32], resource: usize) -> String {
        let line = |object: &Value| {
            let (kind, spec) = (object["kind"].as_str().unwrap(), &object["spec"]);
            let above = spec["cohortName"].as_str().or(spec["parentName"].as_str());
            let quota = &spec["resourceGroups"][0]["flavors"][0]["resources"][resource];
            let weight = &spec["fairSharing"]["weight"];
            format!("{kind} {} in {}: {quota} weight {weight}", name(object), above.unwrap_or("-"))
        };
        let told = super::queues(queues, &nodes(gpus));
        told.iter().skip(1).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_quotas_leave_over_is_anybodys_at_each_level() {
        let queues = [
            queue("department", "", (16, 20), 1),
            queue("a", "department", (8, -1), 3),
            queue("b", "department", (4, 6), 1),
            queue("guest", "", (0, -1), 0),
            queue("free", "", (-1, -1), 1),
        ];
        assert_snapshot!(told(&queues[..4], &[8, 8, 8], 0), @r#"
        Cohort schedlab-everybody in -: {"name":"nvidia.com/gpu","nominalQuota":"8"} weight null
        Cohort department in schedlab-everybody: {"borrowingLimit":"4","name":"nvidia.com/gpu","nominalQuota":"4"} weight "1"
        ClusterQueue a in department: {"name":"nvidia.com/gpu","nominalQuota":"8"} weight "3"
        ClusterQueue b in department: {"borrowingLimit":"2","name":"nvidia.com/gpu","nominalQuota":"4"} weight "1"
        ClusterQueue guest in schedlab-everybody: {"name":"nvidia.com/gpu","nominalQuota":"0"} weight "0"
        "#);
        assert_snapshot!(told(&queues, &[8, 8, 8], 0), @r#"
        Cohort schedlab-everybody in -: {"name":"nvidia.com/gpu","nominalQuota":"0"} weight null
        Cohort department in schedlab-everybody: {"borrowingLimit":"4","name":"nvidia.com/gpu","nominalQuota":"4"} weight "1"
        ClusterQueue a in department: {"name":"nvidia.com/gpu","nominalQuota":"8"} weight "3"
        ClusterQueue b in department: {"borrowingLimit":"2","name":"nvidia.com/gpu","nominalQuota":"4"} weight "1"
        ClusterQueue guest in schedlab-everybody: {"name":"nvidia.com/gpu","nominalQuota":"0"} weight "0"
        ClusterQueue free in schedlab-everybody: {"name":"nvidia.com/gpu","nominalQuota":"24"} weight "1"
        "#);
    }

    #[test]
    fn cpu_and_memory_are_plenty_where_a_queue_does_not_say() {
        let mut team = queue("team", "", (1, -1), 1);
        assert_snapshot!(told(&[team.clone()], &[8], 1), @r#"
        Cohort schedlab-everybody in -: {"name":"cpu","nominalQuota":"0m"} weight null
        ClusterQueue team in schedlab-everybody: {"name":"cpu","nominalQuota":"1000000000m"} weight "1"
        "#);
        team["spec"]["resources"]["cpu"] = json!({"quota": 2500, "limit": 6000});
        team["spec"]["resources"]["memory"] = json!({"quota": 0, "limit": 64_000});
        assert_snapshot!(told(&[team.clone()], &[8], 1), @r#"
        Cohort schedlab-everybody in -: {"name":"cpu","nominalQuota":"999997500m"} weight null
        ClusterQueue team in schedlab-everybody: {"borrowingLimit":"3500m","name":"cpu","nominalQuota":"2500m"} weight "1"
        "#);
        assert_snapshot!(told(&[team], &[8], 2), @r#"
        Cohort schedlab-everybody in -: {"name":"memory","nominalQuota":"1000000000M"} weight null
        ClusterQueue team in schedlab-everybody: {"borrowingLimit":"64000M","name":"memory","nominalQuota":"0M"} weight "1"
        "#);
    }

    #[test]
    fn a_circle_and_an_unknown_parent_are_told_as_they_are() {
        let queues = [
            queue("egg", "hen", (4, -1), 1),
            queue("hen", "egg", (4, -1), 1),
            queue("orphan", "ghost", (4, 2), 1),
        ];
        assert_snapshot!(told(&queues, &[8], 0), @r#"
        Cohort schedlab-everybody in -: {"name":"nvidia.com/gpu","nominalQuota":"8"} weight null
        Cohort egg in hen: {"name":"nvidia.com/gpu","nominalQuota":"0"} weight "1"
        Cohort hen in egg: {"name":"nvidia.com/gpu","nominalQuota":"0"} weight "1"
        ClusterQueue orphan in ghost: {"borrowingLimit":"0","name":"nvidia.com/gpu","nominalQuota":"2"} weight "1"
        "#);
    }

    fn pod(name: &str, queue: &str, group: Option<&str>) -> Value {
        let mut pod = json!({"kind": "Pod", "metadata": {"name": name, "namespace": "ns",
            "labels": {QUEUE: queue}}, "spec": {"containers": [], "schedulerName": "s"}});
        if let Some(group) = group {
            pod["metadata"]["annotations"][KAI_GROUP] = json!(group);
        }
        pod
    }

    #[test]
    fn a_gang_is_a_pod_group_of_as_many_as_come_with_it() {
        let mut pods = [
            pod("a", "team", Some("train")),
            pod("b", "team", Some("train")),
            pod("c", "team", None),
            pod("d", "team", None),
            pod("e", "team", None),
        ];
        pods[3]["spec"]["schedulerName"] = json!("another");
        pods[4]["spec"]["nodeName"] = json!("node-1");
        enlist(pods.iter_mut().collect(), "s");
        let shown = pods.map(|pod| {
            let entrance = local_queue(&pod).map_or("-".to_owned(), |it| it.to_string());
            format!("{}\n  {entrance}", pod["metadata"])
        });
        assert_snapshot!(shown.join("\n"), @r#"
        {"annotations":{"kueue.x-k8s.io/pod-group-total-count":"2","pod-group-name":"train"},"labels":{"kai.scheduler/queue":"team","kueue.x-k8s.io/pod-group-name":"train","kueue.x-k8s.io/queue-name":"team"},"name":"a","namespace":"ns"}
          {"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue","metadata":{"name":"team","namespace":"ns"},"spec":{"clusterQueue":"team"}}
        {"annotations":{"kueue.x-k8s.io/pod-group-total-count":"2","pod-group-name":"train"},"labels":{"kai.scheduler/queue":"team","kueue.x-k8s.io/pod-group-name":"train","kueue.x-k8s.io/queue-name":"team"},"name":"b","namespace":"ns"}
          {"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue","metadata":{"name":"team","namespace":"ns"},"spec":{"clusterQueue":"team"}}
        {"labels":{"kai.scheduler/queue":"team","kueue.x-k8s.io/queue-name":"team"},"name":"c","namespace":"ns"}
          {"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue","metadata":{"name":"team","namespace":"ns"},"spec":{"clusterQueue":"team"}}
        {"labels":{"kai.scheduler/queue":"team"},"name":"d","namespace":"ns"}
          -
        {"labels":{"kai.scheduler/queue":"team"},"name":"e","namespace":"ns"}
          -
        "#);
    }

    #[test]
    fn pods_of_a_job_come_one_by_one_unless_all_must_run_together() {
        let job = |minimum: &str| {
            let template = json!({"spec": {"containers": []}});
            let mut job = json!({"kind": "Job", "metadata": {"name": "train",
                "labels": {QUEUE: "team"}, "annotations": {KAI_MINIMUM: minimum}},
                "spec": {"parallelism": 4, "template": template}});
            enlist(vec![&mut job], "s");
            format!("{} {}", job["metadata"]["labels"], job["spec"]["template"]["metadata"])
        };
        assert_snapshot!(job("4"), @r#"{"kai.scheduler/queue":"team"} {"annotations":{"kueue.x-k8s.io/pod-group-total-count":"4"},"labels":{"kueue.x-k8s.io/pod-group-name":"train","kueue.x-k8s.io/queue-name":"team"}}"#);
        assert_snapshot!(job("2"), @r#"{"kai.scheduler/queue":"team"} {"labels":{"kueue.x-k8s.io/queue-name":"team"}}"#);
    }
}
