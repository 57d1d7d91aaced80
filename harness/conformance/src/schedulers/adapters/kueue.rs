//! Kueue: a queue with children becomes a Cohort, any other a `ClusterQueue`; one root Cohort is
//! above all. The part of a queue's quota that its children do not have becomes the quota of its
//! Cohort, and capacity beyond all quotas that of the root Cohort, so that it can be borrowed. Pods
//! are queued individually, as with KAI: the queue label is set on a Job's pod template and not on
//! the Job, which Kueue would suspend as a whole. A gang becomes a group of plain pods, which has a
//! size and no smaller minimum.

use schedlab_api::{Value, json};

use super::description::{Queue, UNLIMITED_AMOUNT};
use super::translation::total_gpus;
use super::{
    Gang, GangAdapter, GangStatus, Inexpressible, QueueAdapter, QueueResource, Queues, Unsupported,
};

/// The version of Kueue's API that is used: the storage version since Kueue v0.17.
pub(super) const KUEUE_API_VERSION: &str = "kueue.x-k8s.io/v1beta2";

/// The name of the Cohort above all queues.
const ROOT_COHORT_NAME: &str = "schedlab-everybody";
/// The name of the `ResourceFlavor` for all nodes.
const NODES_FLAVOR_NAME: &str = "schedlab-nodes";
/// Label of pods with the name of their `LocalQueue`.
const LOCAL_QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
/// Label and finalizer of pods that Kueue manages.
const MANAGED_LABEL: &str = "kueue.x-k8s.io/managed";
/// The scheduling gate that Kueue removes when the pod has its quota.
const ADMISSION_GATE: &str = "kueue.x-k8s.io/admission";
/// Label of pods with the name of Kueue's pod group; the annotation has the size of the group.
pub(super) const POD_GROUP_NAME_LABEL: &str = "kueue.x-k8s.io/pod-group-name";
const POD_GROUP_COUNT_ANNOTATION: &str = "kueue.x-k8s.io/pod-group-total-count";
/// The condition of a Workload that has its quota.
const QUOTA_RESERVED: &str = "QuotaReserved";

/// Writes queues as `ClusterQueues` and gangs as groups of plain pods.
pub(super) struct Kueue;

impl QueueAdapter for Kueue {
    fn inexpressible(&self) -> &'static [Inexpressible] {
        &[
            ("queue-priority", "a ClusterQueue has no priority"),
            ("min-runtime", "a ClusterQueue has no minimum runtime"),
        ]
    }

    fn queue_objects(&self, queues: &Queues, nodes: &[Value]) -> Result<Vec<Value>, Unsupported> {
        queues.reject_min_runtime("a ClusterQueue")?;
        if queues.iter().any(|queue| queue.priority.is_some()) {
            return Err(Unsupported::always(QueueAdapter::inexpressible(self), "queue-priority"));
        }
        for queue in queues.iter() {
            let gpu = queue.bounds(QueueResource::Gpu);
            if [gpu.quota, gpu.limit].into_iter().flatten().any(|amount| amount % 1000 != 0) {
                let reason = "Kueue counts whole GPUs, and a queue has a part of one";
                return Err(Unsupported { capability: "shared-gpus", reason: reason.to_owned() });
            }
        }
        let tree = CohortTree { queues, gpus: total_gpus(nodes) };
        if let Some(queue) = tree.queue_with_too_small_limit() {
            let reason = format!(
                "the queues below {:?} have more quota than its limit, and Kueue grants each its quota",
                queue.name
            );
            return Err(Unsupported { capability: "hierarchy", reason });
        }
        Ok(tree.objects())
    }

    fn assign_queue(
        &self,
        pod: &mut Value,
        queue: &str,
        _queues: &Queues,
    ) -> Result<(), Unsupported> {
        pod["metadata"]["labels"][LOCAL_QUEUE_LABEL] = json!(queue);
        add_webhook_fields(pod);
        Ok(())
    }

    /// The `LocalQueue` through which pods of a namespace reach their `ClusterQueue`.
    fn namespace_object(&self, namespace: &str, queue: &str) -> Option<Value> {
        Some(json!({
            "apiVersion": KUEUE_API_VERSION,
            "kind": "LocalQueue",
            "metadata": {"name": queue, "namespace": namespace},
            "spec": {"clusterQueue": queue},
        }))
    }

    fn use_path(&self, queue: &str) -> Option<String> {
        Some(format!("/apis/{KUEUE_API_VERSION}/clusterqueues/{queue}"))
    }

    fn reported_use(&self, object: &Value, resource: QueueResource) -> Option<Value> {
        let flavors = object["status"]["flavorsUsage"].as_array()?;
        let all = flavors.iter().filter_map(|flavor| flavor["resources"].as_array()).flatten();
        let name = resource.pod_resource();
        all.into_iter().find(|used| used["name"] == name).map(|used| used["total"].clone())
    }
}

impl GangAdapter for Kueue {
    fn inexpressible(&self) -> &'static [Inexpressible] {
        &[
            ("elastic", "a group of pods has a size and no smaller minimum"),
            ("sub-groups", "a group of pods has one size for all of its pods"),
        ]
    }

    fn group_object(&self, gang: &Gang) -> Result<Option<Value>, Unsupported> {
        if !gang.sub_groups.is_empty() {
            return Err(Unsupported::always(GangAdapter::inexpressible(self), "sub-groups"));
        }
        Ok(None)
    }

    fn add_member(&self, pod: &mut Value, gang: &Gang) -> Result<(), Unsupported> {
        if gang.minimum <= 1 {
            return Ok(());
        }
        if gang.minimum != gang.pods {
            return Err(Unsupported::always(GangAdapter::inexpressible(self), "elastic"));
        }
        pod["metadata"]["labels"][POD_GROUP_NAME_LABEL] = json!(gang.name);
        pod["metadata"]["annotations"][POD_GROUP_COUNT_ANNOTATION] = json!(gang.pods.to_string());
        Ok(())
    }

    /// Kueue's Workload for a group of pods, which has the name of the group.
    fn status_path(&self, namespace: &str, gang: &str) -> Option<String> {
        Some(format!("/apis/{KUEUE_API_VERSION}/namespaces/{namespace}/workloads/{gang}"))
    }

    /// Kueue keeps the pods and the quota of a deleted group until its Workload is deleted.
    fn path_to_delete(&self, namespace: &str, gang: &str) -> Option<String> {
        self.status_path(namespace, gang)
    }

    fn gang_status(&self, object: &Value) -> Option<GangStatus> {
        let all = object["status"]["conditions"].as_array()?;
        let found = all.iter().find(|one| one["type"] == QUOTA_RESERVED)?;
        if found["status"] == "True" {
            return Some(GangStatus::Admitted);
        }
        let text = found["message"].as_str().unwrap_or_default();
        Some(GangStatus::Pending(text.to_owned()))
    }
}

/// The quota of a Cohort or `ClusterQueue` for one resource.
struct ResourceQuota {
    nominal: i64,
    /// The borrowing limit; `None` means unlimited.
    borrowing: Option<i64>,
}

struct CohortTree<'q> {
    queues: &'q Queues,
    /// The GPUs of all nodes, in thousandths.
    gpus: i64,
}

impl CohortTree<'_> {
    fn objects(&self) -> Vec<Value> {
        let flavor = json!({"apiVersion": KUEUE_API_VERSION, "kind": "ResourceFlavor",
                            "metadata": {"name": NODES_FLAVOR_NAME}});
        let (parents, leaves): (Vec<&Queue>, Vec<&Queue>) =
            self.queues.iter().partition(|queue| self.queues.is_parent(&queue.name));
        let mut objects = vec![flavor, self.root_cohort_object()];
        objects.extend(parents.into_iter().map(|queue| self.cohort_object(queue)));
        objects.extend(leaves.into_iter().map(|queue| self.cluster_queue_object(queue)));
        objects
    }

    /// A parent whose limit is smaller than the quotas of its children together.
    fn queue_with_too_small_limit(&self) -> Option<&Queue> {
        let is_too_small = |queue: &Queue, resource: QueueResource| {
            let limit = queue.bounds(resource).limit;
            limit.is_some_and(|limit| limit < self.quota_of_children(&queue.name, resource))
        };
        self.queues.iter().find(|queue| {
            self.queues.is_parent(&queue.name)
                && QueueResource::ALL.into_iter().any(|resource| is_too_small(queue, resource))
        })
    }

    /// The total amount of a resource in the cluster; CPU and memory count as unlimited.
    fn cluster_capacity(&self, resource: QueueResource) -> i64 {
        if resource == QueueResource::Gpu { self.gpus } else { UNLIMITED_AMOUNT }
    }

    fn queue_quota(&self, queue: &Queue, resource: QueueResource) -> i64 {
        queue.bounds(resource).quota.unwrap_or(self.cluster_capacity(resource))
    }

    /// The sum of the quotas of a queue's children.
    fn quota_of_children(&self, queue: &str, resource: QueueResource) -> i64 {
        let quotas = self.queues.children(queue).map(|queue| self.queue_quota(queue, resource));
        quotas.fold(0, i64::saturating_add)
    }

    fn root_cohort_object(&self) -> Value {
        let rest = |resource| {
            let below = self.quota_of_children("", resource);
            let nominal = (self.cluster_capacity(resource) - below).max(0);
            ResourceQuota { nominal, borrowing: None }
        };
        kueue_object("Cohort", ROOT_COHORT_NAME, &json!({"resourceGroups": resource_groups(rest)}))
    }

    fn cohort_object(&self, queue: &Queue) -> Value {
        let rest = |resource| {
            let below = self.quota_of_children(&queue.name, resource);
            let quota = self.queue_quota(queue, resource).max(below);
            let limit = queue.bounds(resource).limit;
            ResourceQuota {
                nominal: quota - below,
                borrowing: limit.map(|limit| (limit - quota).max(0)),
            }
        };
        let mut spec = json!({
            "parentName": parent_cohort_name(queue),
            "resourceGroups": resource_groups(rest),
        });
        add_fair_share_weight(queue, &mut spec);
        kueue_object("Cohort", &queue.name, &spec)
    }

    fn cluster_queue_object(&self, queue: &Queue) -> Value {
        let own = |resource| {
            let quota = self.queue_quota(queue, resource);
            let limit = queue.bounds(resource).limit;
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
        kueue_object("ClusterQueue", &queue.name, &spec)
    }
}

/// Adds what Kueue's webhook adds to queued pods when they are created: schedlab does not let the API
/// server call the webhooks of programs that it starts.
fn add_webhook_fields(pod: &mut Value) {
    pod["metadata"]["labels"][MANAGED_LABEL] = json!("true");
    add_to_list(&mut pod["metadata"]["finalizers"], json!(MANAGED_LABEL));
    add_to_list(&mut pod["spec"]["schedulingGates"], json!({"name": ADMISSION_GATE}));
}

fn add_to_list(list: &mut Value, item: Value) {
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut().filter(|list| !list.contains(&item)) {
        list.push(item);
    }
}

fn kueue_object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": KUEUE_API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The name of the Cohort that contains a queue.
fn parent_cohort_name(queue: &Queue) -> &str {
    if queue.parent.is_empty() { ROOT_COHORT_NAME } else { &queue.parent }
}

/// Sets the fair-sharing weight to the over-quota weight for GPUs, since Kueue has one weight for
/// all resources.
fn add_fair_share_weight(queue: &Queue, spec: &mut Value) {
    if let Some(weight) = &queue.bounds(QueueResource::Gpu).weight {
        spec["fairSharing"] = json!({"weight": weight.to_string()});
    }
}

fn resource_groups(quota: impl Fn(QueueResource) -> ResourceQuota) -> Value {
    let resource = |resource: QueueResource| {
        let ResourceQuota { nominal, borrowing } = quota(resource);
        let mut written = json!({
            "name": resource.pod_resource(),
            "nominalQuota": resource.quantity(nominal),
        });
        if let Some(limit) = borrowing {
            written["borrowingLimit"] = json!(resource.quantity(limit));
        }
        written
    };
    let resources: Vec<Value> = QueueResource::ALL.into_iter().map(resource).collect();
    let names: Vec<&str> =
        QueueResource::ALL.into_iter().map(QueueResource::pod_resource).collect();
    json!([{"coveredResources": names, "flavors": [{"name": NODES_FLAVOR_NAME, "resources": resources}]}])
}
