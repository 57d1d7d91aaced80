//! Translates queues and gangs from KAI's API to Kueue's.
//!
//! A queue with children becomes a Cohort, any other a `ClusterQueue`; one root Cohort is above
//! all. The part of a queue's quota that its children do not have becomes the quota of its Cohort,
//! and capacity beyond all quotas that of the root Cohort, so that it can be borrowed. Pods are
//! queued individually, as with KAI: the queue label is set on a Job's pod template and not on the
//! Job, which Kueue would suspend as a whole. A gang becomes a pod group of Kueue's, which has a
//! size and no smaller minimum.

use std::collections::BTreeMap;

use schedlab_api::{
    Value, annotations, json, labels, object::annotation, pointer as fields, quantity::thousandths,
    resources,
};

/// The version of Kueue's API that is used: the storage version of Kueue v0.17.
pub(super) const KUEUE_API_VERSION: &str = "kueue.x-k8s.io/v1beta2";

/// The name of the Cohort above all queues.
const ROOT_COHORT_NAME: &str = "schedlab-everybody";
/// The name of the `ResourceFlavor` for all nodes.
const NODES_FLAVOR_NAME: &str = "schedlab-nodes";
/// Label of pods with the name of their `LocalQueue`.
const LOCAL_QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
/// Label of pods with the name of Kueue's pod group; the annotation has the size of the group.
const POD_GROUP_NAME_LABEL: &str = "kueue.x-k8s.io/pod-group-name";
const POD_GROUP_COUNT_ANNOTATION: &str = "kueue.x-k8s.io/pod-group-total-count";

/// Represents unlimited CPU and memory: a million cores, a million GB.
const UNLIMITED_AMOUNT: i64 = 1_000_000_000;

/// A resource for which Kueue's objects have quotas.
struct CoveredResource {
    /// The key of the resource in KAI's Queue objects.
    kai: &'static str,
    /// The name of the resource in pods.
    name: &'static str,
    /// The suffix that makes an amount in a KAI Queue a Kubernetes quantity.
    unit: &'static str,
}

const COVERED_RESOURCES: [CoveredResource; 3] = [
    CoveredResource { kai: "gpu", name: resources::GPU, unit: "" },
    CoveredResource { kai: "cpu", name: "cpu", unit: "m" },
    CoveredResource { kai: "memory", name: "memory", unit: "M" },
];

/// Kueue's objects for these queues of KAI's API, on these nodes.
pub(super) fn kueue_objects(queues: &[Value], nodes: &[Value]) -> Vec<Value> {
    let tree = QueueTree { queues, gpus: total_gpus(nodes) };
    let flavor = json!({"apiVersion": KUEUE_API_VERSION, "kind": "ResourceFlavor",
                        "metadata": {"name": NODES_FLAVOR_NAME}});
    let (parents, leaves): (Vec<&Value>, Vec<&Value>) =
        queues.iter().partition(|queue| tree.child_queues(object_name(queue)).next().is_some());
    let mut objects = vec![flavor, tree.root_cohort_object()];
    objects.extend(parents.into_iter().map(|queue| tree.cohort_object(queue)));
    objects.extend(leaves.into_iter().map(|queue| tree.cluster_queue_object(queue)));
    objects
}

/// The number of GPUs on all nodes.
fn total_gpus(nodes: &[Value]) -> i64 {
    let has = |node: &Value| thousandths(&node["status"]["allocatable"][resources::GPU]);
    let milli: i128 = nodes.iter().filter_map(has).sum();
    i64::try_from(milli / 1000).unwrap_or(UNLIMITED_AMOUNT)
}

fn object_name(object: &Value) -> &str {
    fields::text(object, "/metadata/name").unwrap_or_default()
}

fn parent_queue_name(queue: &Value) -> &str {
    fields::text(queue, "/spec/parentQueue").unwrap_or_default()
}

/// The quota of a Cohort or `ClusterQueue` for one resource.
struct ResourceQuota {
    nominal: i64,
    /// The borrowing limit; `None` means unlimited.
    borrowing: Option<i64>,
}

struct QueueTree<'q> {
    queues: &'q [Value],
    /// The number of GPUs on all nodes.
    gpus: i64,
}

impl<'q> QueueTree<'q> {
    fn child_queues(&self, parent_name: &str) -> impl Iterator<Item = &'q Value> {
        self.queues.iter().filter(move |queue| parent_queue_name(queue) == parent_name)
    }

    /// The total amount of a resource in the cluster; CPU and memory count as unlimited.
    fn cluster_capacity(&self, covered: &CoveredResource) -> i64 {
        if covered.kai == "gpu" { self.gpus } else { UNLIMITED_AMOUNT }
    }

    fn queue_quota(&self, queue: &Value, covered: &CoveredResource) -> i64 {
        amount_in_kai_units(queue, covered, "quota").unwrap_or(self.cluster_capacity(covered))
    }

    /// The sum of the quotas of a queue's children.
    fn quota_of_children(&self, queue_name: &str, covered: &CoveredResource) -> i64 {
        let quotas = self.child_queues(queue_name).map(|queue| self.queue_quota(queue, covered));
        quotas.fold(0, i64::saturating_add)
    }

    fn root_cohort_object(&self) -> Value {
        let rest = |covered: &CoveredResource| {
            let nominal =
                (self.cluster_capacity(covered) - self.quota_of_children("", covered)).max(0);
            ResourceQuota { nominal, borrowing: None }
        };
        let spec = json!({"resourceGroups": resource_groups(rest)});
        json!({"apiVersion": KUEUE_API_VERSION, "kind": "Cohort", "metadata": {"name": ROOT_COHORT_NAME},
               "spec": spec})
    }

    fn cohort_object(&self, queue: &Value) -> Value {
        let rest = |covered: &CoveredResource| {
            let below = self.quota_of_children(object_name(queue), covered);
            let quota = self.queue_quota(queue, covered).max(below);
            let limit = amount_in_kai_units(queue, covered, "limit");
            ResourceQuota {
                nominal: quota - below,
                borrowing: limit.map(|limit| (limit - quota).max(0)),
            }
        };
        let mut spec = json!({"parentName": parent_cohort_name(queue), "resourceGroups": resource_groups(rest)});
        add_fair_share_weight(queue, &mut spec);
        json!({"apiVersion": KUEUE_API_VERSION, "kind": "Cohort", "metadata": {"name": object_name(queue)},
               "spec": spec})
    }

    fn cluster_queue_object(&self, queue: &Value) -> Value {
        let own = |covered: &CoveredResource| {
            let quota = self.queue_quota(queue, covered);
            let limit = amount_in_kai_units(queue, covered, "limit");
            let nominal = limit.map_or(quota, |limit| limit.min(quota));
            ResourceQuota { nominal, borrowing: limit.map(|limit| limit - nominal) }
        };
        let mut spec = json!({
            "cohortName": parent_cohort_name(queue),
            "namespaceSelector": {},
            "resourceGroups": resource_groups(own),
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        });
        add_fair_share_weight(queue, &mut spec);
        json!({"apiVersion": KUEUE_API_VERSION, "kind": "ClusterQueue", "metadata": {"name": object_name(queue)},
               "spec": spec})
    }
}

/// An amount of a KAI Queue in KAI's units. `None` if the amount is unlimited (-1); a missing
/// amount is 0.
fn amount_in_kai_units(queue: &Value, covered: &CoveredResource, field: &str) -> Option<i64> {
    let amount = queue["spec"]["resources"][covered.kai][field].as_f64().unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, reason = "the API takes no more than 10^12")]
    (amount >= 0.0).then_some(amount as i64)
}

/// The name of the Cohort that contains a queue.
fn parent_cohort_name(queue: &Value) -> &str {
    match parent_queue_name(queue) {
        "" => ROOT_COHORT_NAME,
        parent => parent,
    }
}

/// Sets the fair-sharing weight to the over-quota weight for GPUs, since Kueue has one weight for
/// all resources.
fn add_fair_share_weight(queue: &Value, spec: &mut Value) {
    if let Some(weight) = queue["spec"]["resources"]["gpu"]["overQuotaWeight"].as_number() {
        spec["fairSharing"] = json!({"weight": weight.to_string()});
    }
}

fn resource_groups(quota: impl Fn(&CoveredResource) -> ResourceQuota) -> Value {
    let resource = |covered: &CoveredResource| {
        let (quota, unit) = (quota(covered), covered.unit);
        let mut resource =
            json!({"name": covered.name, "nominalQuota": format!("{}{unit}", quota.nominal)});
        if let Some(limit) = quota.borrowing {
            resource["borrowingLimit"] = json!(format!("{limit}{unit}"));
        }
        resource
    };
    let resources: Vec<Value> = COVERED_RESOURCES.iter().map(resource).collect();
    let names: Vec<&str> = COVERED_RESOURCES.iter().map(|covered| covered.name).collect();
    json!([{"coveredResources": names, "flavors": [{"name": NODES_FLAVOR_NAME, "resources": resources}]}])
}

/// Adds Kueue's labels to pods and pod templates. Pods of other schedulers and pods that already
/// have a node are left out.
pub(super) fn assign_queues(objects: Vec<&mut Value>, scheduler: &str) {
    let mut sizes: BTreeMap<(String, String), usize> = BTreeMap::new();
    for object in &objects {
        if let Some(group) = pod_group_of(object) {
            *sizes.entry(group).or_default() += 1;
        }
    }
    for object in objects {
        let group = pod_group_of(object).map(|group| (group.1.clone(), sizes[&group]));
        let labels =
            QueueLabels { scheduler, group: group.or_else(|| gang_name_and_size_of_job(object)) };
        labels.apply_to(object, None);
    }
}

/// Namespace and name of a pod's pod group.
fn pod_group_of(object: &Value) -> Option<(String, String)> {
    let group =
        annotation(object, annotations::POD_GROUP_NAME).filter(|_| object["kind"] == "Pod")?;
    let namespace = fields::text(object, "/metadata/namespace").unwrap_or("default");
    Some((namespace.to_owned(), group.to_owned()))
}

/// Name and size of the gang of a Job, if all pods of the Job must run together.
fn gang_name_and_size_of_job(object: &Value) -> Option<(String, usize)> {
    let pods = object["spec"]["parallelism"].as_u64().filter(|_| object["kind"] == "Job")?;
    let minimum: u64 = annotation(object, annotations::BATCH_MIN_MEMBER)?.parse().ok()?;
    let size = usize::try_from(pods).ok().filter(|_| minimum == pods && pods > 1)?;
    Some((object_name(object).to_owned(), size))
}

struct QueueLabels<'m> {
    scheduler: &'m str,
    /// Name and size of Kueue's pod group.
    group: Option<(String, usize)>,
}

impl QueueLabels<'_> {
    /// Labels a pod, or all pod templates inside an object. A pod without a queue of its own gets
    /// `owner_queue`.
    fn apply_to(&self, value: &mut Value, owner_queue: Option<&str>) {
        let own = value["metadata"]["labels"][labels::QUEUE].as_str().map(str::to_owned);
        let queue = own.as_deref().or(owner_queue);
        if let (Some(queue), true) = (queue, self.is_managed(value)) {
            value["metadata"]["labels"][LOCAL_QUEUE_LABEL] = json!(queue);
            if let Some((group, size)) = &self.group {
                value["metadata"]["labels"][POD_GROUP_NAME_LABEL] = json!(group);
                value["metadata"]["annotations"][POD_GROUP_COUNT_ANNOTATION] =
                    json!(size.to_string());
            }
            return;
        }
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply_to(item, queue)),
            Value::Object(fields) => {
                fields.iter_mut().for_each(|(_, field)| self.apply_to(field, queue));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn is_managed(&self, value: &Value) -> bool {
        let spec = &value["spec"];
        let named = spec["schedulerName"].as_str().unwrap_or(self.scheduler);
        spec["containers"].is_array() && spec["nodeName"].is_null() && named == self.scheduler
    }
}

/// The `LocalQueue` through which the pods of an object reach their `ClusterQueue`.
pub(super) fn local_queue_object(object: &Value) -> Option<Value> {
    let queue = queue_label_value(object)?;
    let namespace = fields::text(object, "/metadata/namespace").unwrap_or("default");
    Some(json!({
        "apiVersion": KUEUE_API_VERSION,
        "kind": "LocalQueue",
        "metadata": {"name": queue, "namespace": namespace},
        "spec": {"clusterQueue": queue},
    }))
}

fn queue_label_value(value: &Value) -> Option<&str> {
    match value {
        Value::Array(items) => items.iter().find_map(queue_label_value),
        Value::Object(fields) => {
            let label = value["metadata"]["labels"][LOCAL_QUEUE_LABEL].as_str();
            label.or_else(|| fields.iter().find_map(|(_, field)| queue_label_value(field)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    /// A queue with a quota and a limit for GPUs; -1 is unlimited.
    fn queue(name: &str, parent: &str, quota: i64, limit: i64, weight: i64) -> Value {
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

    /// A line for each Cohort and `ClusterQueue` with its parent and its quota for one resource.
    fn summary(queues: &[Value], gpus: &[u32], resource: usize) -> String {
        let line = |object: &Value| {
            let (kind, spec) = (object["kind"].as_str().unwrap(), &object["spec"]);
            let above = spec["cohortName"].as_str().or(spec["parentName"].as_str());
            let quota = &spec["resourceGroups"][0]["flavors"][0]["resources"][resource];
            let weight = &spec["fairSharing"]["weight"];
            format!(
                "{kind} {} in {}: {quota} weight {weight}",
                object_name(object),
                above.unwrap_or("-")
            )
        };
        let objects = kueue_objects(queues, &nodes(gpus));
        objects.iter().skip(1).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn quota_not_given_to_children_can_be_borrowed() {
        let queues = [
            queue("department", "", 16, 20, 1),
            queue("a", "department", 8, -1, 3),
            queue("b", "department", 4, 6, 1),
            queue("guest", "", 0, -1, 0),
            queue("free", "", -1, -1, 1),
        ];
        assert_snapshot!(summary(&queues[..4], &[8, 8, 8], 0), @r#"
        Cohort schedlab-everybody in -: {"name":"nvidia.com/gpu","nominalQuota":"8"} weight null
        Cohort department in schedlab-everybody: {"borrowingLimit":"4","name":"nvidia.com/gpu","nominalQuota":"4"} weight "1"
        ClusterQueue a in department: {"name":"nvidia.com/gpu","nominalQuota":"8"} weight "3"
        ClusterQueue b in department: {"borrowingLimit":"2","name":"nvidia.com/gpu","nominalQuota":"4"} weight "1"
        ClusterQueue guest in schedlab-everybody: {"name":"nvidia.com/gpu","nominalQuota":"0"} weight "0"
        "#);
        assert_snapshot!(summary(&queues, &[8, 8, 8], 0), @r#"
        Cohort schedlab-everybody in -: {"name":"nvidia.com/gpu","nominalQuota":"0"} weight null
        Cohort department in schedlab-everybody: {"borrowingLimit":"4","name":"nvidia.com/gpu","nominalQuota":"4"} weight "1"
        ClusterQueue a in department: {"name":"nvidia.com/gpu","nominalQuota":"8"} weight "3"
        ClusterQueue b in department: {"borrowingLimit":"2","name":"nvidia.com/gpu","nominalQuota":"4"} weight "1"
        ClusterQueue guest in schedlab-everybody: {"name":"nvidia.com/gpu","nominalQuota":"0"} weight "0"
        ClusterQueue free in schedlab-everybody: {"name":"nvidia.com/gpu","nominalQuota":"24"} weight "1"
        "#);
    }

    #[test]
    fn cpu_and_memory_are_unlimited_by_default() {
        let mut team = queue("team", "", 1, -1, 1);
        assert_snapshot!(summary(&[team.clone()], &[8], 1), @r#"
        Cohort schedlab-everybody in -: {"name":"cpu","nominalQuota":"0m"} weight null
        ClusterQueue team in schedlab-everybody: {"name":"cpu","nominalQuota":"1000000000m"} weight "1"
        "#);
        team["spec"]["resources"]["cpu"] = json!({"quota": 2500, "limit": 6000});
        team["spec"]["resources"]["memory"] = json!({"quota": 0, "limit": 64_000});
        assert_snapshot!(summary(&[team.clone()], &[8], 1), @r#"
        Cohort schedlab-everybody in -: {"name":"cpu","nominalQuota":"999997500m"} weight null
        ClusterQueue team in schedlab-everybody: {"borrowingLimit":"3500m","name":"cpu","nominalQuota":"2500m"} weight "1"
        "#);
        assert_snapshot!(summary(&[team], &[8], 2), @r#"
        Cohort schedlab-everybody in -: {"name":"memory","nominalQuota":"1000000000M"} weight null
        ClusterQueue team in schedlab-everybody: {"borrowingLimit":"64000M","name":"memory","nominalQuota":"0M"} weight "1"
        "#);
    }

    #[test]
    fn cycles_and_unknown_parents_are_translated_unchanged() {
        let queues = [
            queue("egg", "hen", 4, -1, 1),
            queue("hen", "egg", 4, -1, 1),
            queue("orphan", "ghost", 4, 2, 1),
        ];
        assert_snapshot!(summary(&queues, &[8], 0), @r#"
        Cohort schedlab-everybody in -: {"name":"nvidia.com/gpu","nominalQuota":"8"} weight null
        Cohort egg in hen: {"name":"nvidia.com/gpu","nominalQuota":"0"} weight "1"
        Cohort hen in egg: {"name":"nvidia.com/gpu","nominalQuota":"0"} weight "1"
        ClusterQueue orphan in ghost: {"borrowingLimit":"0","name":"nvidia.com/gpu","nominalQuota":"2"} weight "1"
        "#);
    }

    fn pod(name: &str, queue: &str, group: Option<&str>) -> Value {
        let mut pod = json!({"kind": "Pod", "metadata": {"name": name, "namespace": "ns",
            "labels": {(labels::QUEUE): queue}}, "spec": {"containers": [], "schedulerName": "s"}});
        if let Some(group) = group {
            pod["metadata"]["annotations"][annotations::POD_GROUP_NAME] = json!(group);
        }
        pod
    }

    #[test]
    fn a_gang_is_a_pod_group_with_the_number_of_its_pods() {
        let mut pods = [
            pod("a", "team", Some("train")),
            pod("b", "team", Some("train")),
            pod("c", "team", None),
            pod("d", "team", None),
            pod("e", "team", None),
        ];
        pods[3]["spec"]["schedulerName"] = json!("another");
        pods[4]["spec"]["nodeName"] = json!("node-1");
        assign_queues(pods.iter_mut().collect(), "s");
        let shown = pods.map(|pod| {
            let local = local_queue_object(&pod).map_or("-".to_owned(), |it| it.to_string());
            format!("{}\n  {local}", pod["metadata"])
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
    fn pods_of_a_job_are_a_group_only_if_all_must_run_together() {
        let job = |minimum: &str| {
            let template = json!({"spec": {"containers": []}});
            let mut job = json!({"kind": "Job", "metadata": {"name": "train",
                "labels": {(labels::QUEUE): "team"}, "annotations": {(annotations::BATCH_MIN_MEMBER): minimum}},
                "spec": {"parallelism": 4, "template": template}});
            assign_queues(vec![&mut job], "s");
            format!("{} {}", job["metadata"]["labels"], job["spec"]["template"]["metadata"])
        };
        assert_snapshot!(job("4"), @r#"{"kai.scheduler/queue":"team"} {"annotations":{"kueue.x-k8s.io/pod-group-total-count":"4"},"labels":{"kueue.x-k8s.io/pod-group-name":"train","kueue.x-k8s.io/queue-name":"team"}}"#);
        assert_snapshot!(job("2"), @r#"{"kai.scheduler/queue":"team"} {"labels":{"kueue.x-k8s.io/queue-name":"team"}}"#);
    }
}
