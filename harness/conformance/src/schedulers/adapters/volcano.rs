//! Volcano: hierarchical Queues of its capacity plugin, and PodGroups with a minimum for each task.
//!
//! A queue's quota becomes what it deserves, which others may borrow and the queue reclaims; its
//! limit becomes its capability. Volcano's webhook wants a child's capability within that of the
//! queues above, and what children deserve within what their parent deserves.

use schedlab_api::{Value, json, labels, object};

use super::description::Queue;
use super::{
    Gang, GangAdapter, GangStatus, Inexpressible, QueueAdapter, QueueResource, Queues, Unsupported,
};

/// The API version of Volcano's Queues and PodGroups.
pub(super) const VOLCANO_API_VERSION: &str = "scheduling.volcano.sh/v1beta1";
/// Annotation of pods with the name of their PodGroup.
const GROUP_NAME_ANNOTATION: &str = "scheduling.k8s.io/group-name";
/// Annotation of pods with the name of their queue, for those that have no PodGroup yet.
const QUEUE_NAME_ANNOTATION: &str = "scheduling.volcano.sh/queue-name";
/// Annotation of pods with the name of their task, for which a PodGroup may have a minimum.
const TASK_ANNOTATION: &str = "volcano.sh/task-spec";

/// Writes queues as Volcano's Queues, and gangs as Volcano's PodGroups.
pub(super) struct Volcano;

impl QueueAdapter for Volcano {
    fn inexpressible(&self) -> &'static [Inexpressible] {
        &[("min-runtime", "a Queue of Volcano has no minimum runtime")]
    }

    fn queue_objects(&self, queues: &Queues, _nodes: &[Value]) -> Result<Vec<Value>, Unsupported> {
        queues.reject_min_runtime("a Queue of Volcano")?;
        let mut from_the_top: Vec<(usize, &Queue)> = Vec::new();
        for queue in queues.iter() {
            from_the_top.push((queues.path(&queue.name)?.len(), queue));
        }
        from_the_top.sort_by_key(|(depth, _)| *depth);
        from_the_top.into_iter().map(|(_, queue)| queue_object(queue, queues)).collect()
    }

    fn assign_queue(
        &self,
        pod: &mut Value,
        queue: &str,
        _queues: &Queues,
    ) -> Result<(), Unsupported> {
        pod["metadata"]["annotations"][QUEUE_NAME_ANNOTATION] = json!(queue);
        Ok(())
    }

    fn use_path(&self, queue: &str) -> Option<String> {
        Some(format!("/apis/{VOLCANO_API_VERSION}/queues/{queue}"))
    }

    fn reported_use(&self, object: &Value, resource: QueueResource) -> Option<Value> {
        let allocated = object["status"]["allocated"].as_object()?;
        allocated.get(resource.pod_resource()).cloned()
    }
}

fn queue_object(queue: &Queue, queues: &Queues) -> Result<Value, Unsupported> {
    let mut spec = json!({
        "parent": if queue.parent.is_empty() { "root" } else { &*queue.parent },
        "reclaimable": true,
        "weight": weight_of(queue)?,
    });
    for resource in QueueResource::ALL {
        let limit = queues.effective_limit(queue, resource);
        if let Some(limit) = limit {
            spec["capability"][resource.pod_resource()] = json!(resource.quantity(limit));
        }
        if let Some(quota) = queue.bounds(resource).quota {
            check_quotas_of_children(queue, quota, queues, resource)?;
            let deserved = limit.map_or(quota, |limit| limit.min(quota));
            spec["deserved"][resource.pod_resource()] = json!(resource.quantity(deserved));
        }
    }
    if let Some(priority) = queue.priority {
        spec["priority"] = json!(priority);
    }
    Ok(json!({
        "apiVersion": VOLCANO_API_VERSION,
        "kind": "Queue",
        "metadata": {"name": queue.name},
        "spec": spec,
    }))
}

/// The weight of a queue, which is for all resources.
fn weight_of(queue: &Queue) -> Result<u64, Unsupported> {
    let Some(weight) = &queue.bounds(QueueResource::Gpu).weight else { return Ok(1) };
    weight.as_u64().filter(|weight| *weight > 0).ok_or_else(|| Unsupported {
        capability: "fair-share",
        reason: format!(
            "the weight of a Queue of Volcano is a whole number from 1 on, and that of queue {:?} \
             is {weight}",
            queue.name
        ),
    })
}

/// Rejects a queue whose children deserve more than the queue itself.
fn check_quotas_of_children(
    queue: &Queue,
    quota: i64,
    queues: &Queues,
    resource: QueueResource,
) -> Result<(), Unsupported> {
    let below = queues.children(&queue.name).filter_map(|child| child.bounds(resource).quota);
    let below: i64 = below.fold(0, i64::saturating_add);
    if below <= quota {
        return Ok(());
    }
    let name = resource.pod_resource();
    Err(Unsupported {
        capability: "hierarchy",
        reason: format!(
            "Volcano rejects queues that deserve more than their parent: below queue {:?} they \
             deserve {} {name}, and it deserves {}",
            queue.name,
            resource.quantity(below),
            resource.quantity(quota)
        ),
    })
}

impl GangAdapter for Volcano {
    fn inexpressible(&self) -> &'static [Inexpressible] {
        &[]
    }

    fn group_object(&self, gang: &Gang) -> Result<Option<Value>, Unsupported> {
        let mut spec = json!({"minMember": gang.minimum});
        if let Some(queue) = &gang.queue {
            spec["queue"] = json!(queue);
        }
        if let Some(class) = &gang.priority_class {
            spec["priorityClassName"] = json!(class);
        }
        for part in &gang.sub_groups {
            spec["minTaskMember"][&*part.name] = json!(part.minimum);
        }
        Ok(Some(json!({
            "apiVersion": VOLCANO_API_VERSION,
            "kind": "PodGroup",
            "metadata": gang.metadata(),
            "spec": spec,
        })))
    }

    fn add_member(&self, pod: &mut Value, gang: &Gang) -> Result<(), Unsupported> {
        if let Some(part) = object::label(pod, labels::SUB_GROUP).map(str::to_owned) {
            pod["metadata"]["annotations"][TASK_ANNOTATION] = json!(part);
        }
        pod["metadata"]["annotations"][GROUP_NAME_ANNOTATION] = json!(gang.name);
        Ok(())
    }

    fn status_path(&self, namespace: &str, gang: &str) -> Option<String> {
        let root = format!("/apis/{VOLCANO_API_VERSION}");
        Some(format!("{root}/namespaces/{namespace}/podgroups/{gang}"))
    }

    fn gang_status(&self, object: &Value) -> Option<GangStatus> {
        let status = &object["status"];
        if matches!(status["phase"].as_str()?, "Running" | "Completed") {
            return Some(GangStatus::Admitted);
        }
        let all = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        let found = all.iter().rev().find(|one| one["type"] == "Unschedulable");
        let text = found.and_then(|one| one["message"].as_str()).unwrap_or_default();
        Some(GangStatus::Pending(text.to_owned()))
    }
}
