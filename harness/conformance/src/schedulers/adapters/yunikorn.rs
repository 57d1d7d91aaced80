//! `YuniKorn`: a queue configuration in a `ConfigMap`, and applications with task groups.
//!
//! A queue's quota becomes its guaranteed resources, its limit the maximum. A pod names its queue by
//! the whole path from `root` on. Each workload is an application of its own: `YuniKorn` would put
//! all pods of a namespace without an application into one, with one queue.

use schedlab_api::{Number, Value, json, labels, object};

use super::description::Queue;
use super::{Gang, GangAdapter, Inexpressible, QueueAdapter, QueueResource, Queues, Unsupported};

/// Annotation of pods with the task groups of their application.
pub(super) const TASK_GROUPS_ANNOTATION: &str = "yunikorn.apache.org/task-groups";
/// Annotation of pods with the name of their task group.
const TASK_GROUP_NAME_ANNOTATION: &str = "yunikorn.apache.org/task-group-name";
/// Annotation of pods with the parameters of gang scheduling.
const POLICY_ANNOTATION: &str = "yunikorn.apache.org/schedulingPolicyParameters";
/// Annotation of pods with the path of their queue. A label could be too short for the path.
const QUEUE_ANNOTATION: &str = "yunikorn.apache.org/queue";
/// Label of pods with the id of their application.
const APPLICATION_LABEL: &str = "applicationId";

/// The `ConfigMap` with the configuration, in the namespace in which `YuniKorn` runs.
const CONFIG_MAP_NAME: &str = "yunikorn-configs";
const CONFIG_NAMESPACE: &str = "default";
/// The queue of pods that name none.
const DEFAULT_QUEUE: &str = "default";
/// A number of pods that no queue of a scenario has.
const MANY_PODS: u32 = 1_000_000;
/// How long a gang's placeholders may wait. A gang of a scenario waits as long as it must.
const PLACEHOLDER_TIMEOUT_SECS: u32 = 7 * 24 * 3600;

/// Writes queues into `YuniKorn`'s configuration, and gangs as task groups.
pub(super) struct YuniKorn;

impl QueueAdapter for YuniKorn {
    fn inexpressible(&self) -> &'static [Inexpressible] {
        &[("min-runtime", "a queue of YuniKorn has no minimum runtime")]
    }

    fn queue_objects(&self, queues: &Queues, _nodes: &[Value]) -> Result<Vec<Value>, Unsupported> {
        queues.reject_min_runtime("a queue of YuniKorn")?;
        for queue in queues.iter() {
            queues.path(&queue.name)?;
        }
        reject_unequal_weights(queues)?;
        let mut below_root = queues_below("", queues)?;
        if !queues.children("").any(|queue| queue.name == DEFAULT_QUEUE) {
            below_root.push(json!({"name": DEFAULT_QUEUE}));
        }
        let root = json!({"name": "root", "parent": true, "submitacl": "*", "queues": below_root});
        let rule = json!({"name": "provided", "create": false});
        let partition = json!({"name": "default", "placementrules": [rule], "queues": [root]});
        Ok(vec![json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP_NAME, "namespace": CONFIG_NAMESPACE},
            "data": {"queues.yaml": yaml_text(&json!({"partitions": [partition]}))},
        })])
    }

    fn assign_queue(
        &self,
        pod: &mut Value,
        queue: &str,
        queues: &Queues,
    ) -> Result<(), Unsupported> {
        // YuniKorn rejects a pod of an unknown queue, as it should.
        let names = if queues.get(queue).is_some() { queues.path(queue)? } else { vec![queue] };
        set_queue(pod, &names);
        Ok(())
    }

    fn assign_no_queue(&self, pod: &mut Value) {
        set_queue(pod, &[DEFAULT_QUEUE]);
    }
}

/// Puts a pod into the queue with these names from the root on.
fn set_queue(pod: &mut Value, names: &[&str]) {
    let names: Vec<String> = names.iter().map(|name| queue_name(name)).collect();
    let path = format!("root.{}", names.join("."));
    pod["metadata"]["annotations"][QUEUE_ANNOTATION] = json!(path);
}

/// A name without dots, which separate the names in a path.
fn queue_name(name: &str) -> String {
    name.replace('.', "_dot_")
}

/// Rejects weights: queues of `YuniKorn` share by what is guaranteed to them.
fn reject_unequal_weights(queues: &Queues) -> Result<(), Unsupported> {
    let weight =
        |queue: &Queue| queue.bounds(QueueResource::Gpu).weight.as_ref().and_then(Number::as_f64);
    let unequal = queues
        .iter()
        .find(|queue| weight(queue).is_some_and(|weight| (weight - 1.0).abs() > f64::EPSILON));
    match unequal {
        None => Ok(()),
        Some(queue) => Err(Unsupported {
            capability: "fair-share",
            reason: format!("a queue of YuniKorn has no weight, and queue {:?} has", queue.name),
        }),
    }
}

/// The configuration of the queues below a queue.
fn queues_below(parent: &str, queues: &Queues) -> Result<Vec<Value>, Unsupported> {
    queues.children(parent).map(|queue| queue_config(queue, queues)).collect()
}

fn queue_config(queue: &Queue, queues: &Queues) -> Result<Value, Unsupported> {
    let mut config = json!({"name": queue_name(&queue.name)});
    let limits = QueueResource::ALL.map(|resource| queues.effective_limit(queue, resource));
    if limits.contains(&Some(0)) && limits.iter().flatten().all(|limit| *limit == 0) {
        // YuniKorn ignores a maximum of which no amount is above 0.
        config["resources"]["max"]["pods"] = json!(MANY_PODS);
    }
    for (resource, limit) in QueueResource::ALL.into_iter().zip(limits) {
        if let Some(limit) = limit {
            config["resources"]["max"][resource_name(resource)] = quantity(resource, limit)?;
        }
        let guaranteed = guaranteed_amount(queue, queues, resource)?;
        if let Some(amount) = guaranteed.filter(|amount| *amount > 0) {
            config["resources"]["guaranteed"][resource_name(resource)] =
                quantity(resource, amount)?;
        }
    }
    if let Some(priority) = queue.priority {
        config["properties"] = json!({
            "priority.offset": priority.to_string(),
            "priority.policy": "fence",
        });
    }
    let below = queues_below(&queue.name, queues)?;
    if !below.is_empty() {
        config["parent"] = json!(true);
        config["queues"] = json!(below);
    }
    Ok(config)
}

/// What is guaranteed to a queue: its quota within its limit; `None` is nothing. `YuniKorn` rejects
/// a queue that guarantees more to its children than it has itself.
fn guaranteed_amount(
    queue: &Queue,
    queues: &Queues,
    resource: QueueResource,
) -> Result<Option<i64>, Unsupported> {
    let Some(quota) = queue.bounds(resource).quota else { return Ok(None) };
    let limit = queues.effective_limit(queue, resource);
    let own = limit.map_or(quota, |limit| limit.min(quota));
    let mut below = 0_i64;
    for child in queues.children(&queue.name) {
        below = below.saturating_add(guaranteed_amount(child, queues, resource)?.unwrap_or(0));
    }
    if own == 0 || below <= own {
        return Ok(Some(own.max(below)));
    }
    let name = resource.pod_resource();
    Err(Unsupported {
        capability: "hierarchy",
        reason: format!(
            "YuniKorn rejects queues to which more is guaranteed than to their parent: below queue \
             {:?} it is {} {name}, and that queue has {}",
            queue.name,
            resource.quantity(below),
            resource.quantity(own)
        ),
    })
}

/// The name of a resource in the queue configuration.
fn resource_name(resource: QueueResource) -> &'static str {
    match resource {
        QueueResource::Cpu => "vcore",
        QueueResource::Gpu | QueueResource::Memory => resource.pod_resource(),
    }
}

/// An amount in the queue configuration, which has thousandths of CPU cores alone.
fn quantity(resource: QueueResource, amount: i64) -> Result<Value, Unsupported> {
    if resource == QueueResource::Gpu && amount % 1000 != 0 {
        let reason = "YuniKorn counts whole GPUs, and a queue has a part of one";
        return Err(Unsupported { capability: "shared-gpus", reason: reason.to_owned() });
    }
    Ok(json!(resource.quantity(amount)))
}

fn yaml_text(value: &Value) -> String {
    serde_yaml::to_string(value).expect("a JSON value is YAML")
}

impl GangAdapter for YuniKorn {
    fn inexpressible(&self) -> &'static [Inexpressible] {
        &[]
    }

    fn group_object(&self, _gang: &Gang) -> Result<Option<Value>, Unsupported> {
        Ok(None)
    }

    /// Each pod has all task groups of the gang, because `YuniKorn` reads those of the pod that it
    /// sees first.
    fn add_member(&self, pod: &mut Value, gang: &Gang) -> Result<(), Unsupported> {
        self.prepare_single_pod(pod, &gang.namespace, &gang.name);
        if gang.minimum <= 1 && gang.sub_groups.is_empty() {
            return Ok(());
        }
        let own = object::label(pod, labels::SUB_GROUP).unwrap_or(&gang.name).to_owned();
        let group = |name: &str, minimum: u32| task_group(name, minimum, &pod["spec"]);
        let groups: Vec<Value> = match gang.sub_groups.as_slice() {
            [] => vec![group(&gang.name, gang.minimum)],
            parts => parts.iter().map(|part| group(&part.name, part.minimum)).collect(),
        };
        let annotations = &mut pod["metadata"]["annotations"];
        annotations[TASK_GROUPS_ANNOTATION] = json!(json!(groups).to_string());
        annotations[TASK_GROUP_NAME_ANNOTATION] = json!(own);
        annotations[POLICY_ANNOTATION] = json!(format!(
            "placeholderTimeoutInSeconds={PLACEHOLDER_TIMEOUT_SECS} gangSchedulingStyle=Hard"
        ));
        Ok(())
    }

    fn prepare_single_pod(&self, pod: &mut Value, namespace: &str, workload: &str) {
        pod["metadata"]["labels"][APPLICATION_LABEL] = json!(format!("{namespace}-{workload}"));
    }
}

/// A task group whose placeholders are like a pod with this `spec`.
fn task_group(name: &str, minimum: u32, spec: &Value) -> Value {
    let mut group = json!({
        "name": name,
        "minMember": minimum,
        "minResource": spec["containers"][0]["resources"]["requests"],
    });
    if group["minResource"].is_null() {
        group["minResource"] = json!({});
    }
    for field in ["nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"] {
        if !spec[field].is_null() {
            group[field] = spec[field].clone();
        }
    }
    group
}
