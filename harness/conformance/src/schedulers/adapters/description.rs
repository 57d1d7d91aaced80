//! The neutral description of queues and gangs, from which adapters write a target's objects. It is
//! read from KAI's objects, which tables and manifests of scenarios become.

use std::collections::BTreeMap;

use schedlab_api::{
    Map, Number, Value, annotations, api_versions, json, labels, pointer as fields, resources,
};

use super::Unsupported;

/// Stands for unlimited CPU and memory: a million cores, a million GB.
pub(super) const UNLIMITED_AMOUNT: i64 = 1_000_000_000;

/// Label of objects with the name of the workload whose table row created them.
pub(crate) const WORKLOAD_LABEL: &str = "schedlab.dev/workload";

/// A resource of which queues have quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueResource {
    /// GPUs, counted in thousandths.
    Gpu,
    /// CPU, counted in millicores.
    Cpu,
    /// Memory, counted in megabytes.
    Memory,
}

impl QueueResource {
    /// All resources, in the order in which adapters write them.
    pub(super) const ALL: [Self; 3] = [Self::Gpu, Self::Cpu, Self::Memory];

    /// The name of the resource in pods.
    pub(crate) fn pod_resource(self) -> &'static str {
        match self {
            Self::Gpu => resources::GPU,
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    /// The key of the resource in KAI's Queue objects.
    fn kai_key(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    /// An amount as a Kubernetes quantity.
    pub(super) fn quantity(self, amount: i64) -> String {
        match self {
            Self::Gpu if amount % 1000 == 0 => (amount / 1000).to_string(),
            Self::Gpu | Self::Cpu => format!("{amount}m"),
            Self::Memory => format!("{amount}M"),
        }
    }
}

/// The quota, the limit and the weight of a queue for one resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueueBounds {
    /// The amount that the queue deserves; `None` is unlimited.
    pub(super) quota: Option<i64>,
    /// The amount that the queue must not exceed; `None` is unlimited.
    pub(super) limit: Option<i64>,
    /// The weight with which the queue gets a share of what exceeds all quotas.
    pub(super) weight: Option<Number>,
}

/// A queue of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Queue {
    /// The name of the queue.
    pub(super) name: String,
    /// The name of the queue above it; empty for none.
    pub(super) parent: String,
    /// The priority among its siblings.
    pub(super) priority: Option<i64>,
    /// Whether its pods are protected from eviction for a minimum runtime.
    pub(super) has_min_runtime: bool,
    gpu: QueueBounds,
    cpu: QueueBounds,
    memory: QueueBounds,
}

impl Queue {
    /// Reads KAI's Queue object. A missing amount is 0.
    fn from_kai(object: &Value) -> Self {
        let bounds = |resource: QueueResource| {
            let found = &object["spec"]["resources"][resource.kai_key()];
            QueueBounds {
                quota: amount(&found["quota"], resource),
                limit: amount(&found["limit"], resource),
                weight: found["overQuotaWeight"].as_number().cloned(),
            }
        };
        let text = |at: &str| fields::text(object, at).unwrap_or_default().to_owned();
        let has = |at: &str| fields::text(object, at).is_some();
        Self {
            name: text("/metadata/name"),
            parent: text("/spec/parentQueue"),
            priority: fields::at(object, "/spec/priority").and_then(Value::as_i64),
            has_min_runtime: has("/spec/reclaimMinRuntime") || has("/spec/preemptMinRuntime"),
            gpu: bounds(QueueResource::Gpu),
            cpu: bounds(QueueResource::Cpu),
            memory: bounds(QueueResource::Memory),
        }
    }

    /// The bounds of the queue for a resource.
    pub(super) fn bounds(&self, resource: QueueResource) -> &QueueBounds {
        match resource {
            QueueResource::Gpu => &self.gpu,
            QueueResource::Cpu => &self.cpu,
            QueueResource::Memory => &self.memory,
        }
    }
}

/// An amount of a KAI Queue; `None` if it is unlimited, which is a negative number.
fn amount(found: &Value, resource: QueueResource) -> Option<i64> {
    let amount = found.as_f64().unwrap_or(0.0);
    let scaled = if resource == QueueResource::Gpu { amount * 1000.0 } else { amount };
    #[expect(clippy::cast_possible_truncation, reason = "the API takes no more than 10^12")]
    (amount >= 0.0).then_some(scaled as i64)
}

/// All queues of a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Queues(Vec<Queue>);

impl Queues {
    /// Reads KAI's Queue objects. A later object of the same name replaces an earlier one.
    pub(crate) fn from_kai<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Self {
        let mut by_name: BTreeMap<String, Queue> = BTreeMap::new();
        for queue in objects.into_iter().map(Queue::from_kai) {
            by_name.insert(queue.name.clone(), queue);
        }
        Self(by_name.into_values().collect())
    }

    /// The queues, sorted by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.0.iter()
    }

    /// The queues directly below a queue; below none, if `parent` is empty.
    pub(super) fn children<'q>(&'q self, parent: &str) -> impl Iterator<Item = &'q Queue> {
        self.0.iter().filter(move |queue| queue.parent == parent)
    }

    /// Whether a queue has queues below it.
    pub(super) fn is_parent(&self, name: &str) -> bool {
        self.children(name).next().is_some()
    }

    /// The queue with this name.
    pub(super) fn get(&self, name: &str) -> Option<&Queue> {
        self.0.iter().find(|queue| queue.name == name)
    }

    /// The names from the queue without a parent down to this queue. An error if a parent does not
    /// exist or the parents form a cycle.
    pub(super) fn path(&self, name: &str) -> Result<Vec<&str>, Unsupported> {
        let mut path: Vec<&str> = Vec::new();
        let mut at = name;
        while !at.is_empty() {
            let Some(queue) = self.get(at) else {
                let reason = format!("the parents of a queue must exist, and {at:?} does not");
                return Err(Unsupported { capability: "queue-checks", reason });
            };
            if path.contains(&queue.name.as_str()) {
                let reason = format!("queue {at:?} is below itself, expected a tree");
                return Err(Unsupported { capability: "queue-checks", reason });
            }
            path.push(&queue.name);
            at = &queue.parent;
        }
        path.reverse();
        Ok(path)
    }

    /// The smallest limit of a queue and of those above it; `None` is unlimited.
    pub(super) fn effective_limit(&self, queue: &Queue, resource: QueueResource) -> Option<i64> {
        let above = self.path(&queue.name).unwrap_or_default();
        let all = above.into_iter().filter_map(|name| self.get(name)).chain([queue]);
        all.filter_map(|queue| queue.bounds(resource).limit).min()
    }

    /// Rejects a minimum runtime, which no API but KAI's has.
    pub(super) fn reject_min_runtime(&self, api: &str) -> Result<(), Unsupported> {
        match self.0.iter().find(|queue| queue.has_min_runtime) {
            Some(queue) => Err(Unsupported {
                capability: "min-runtime",
                reason: format!("{api} has no minimum runtime, and queue {:?} has", queue.name),
            }),
            None => Ok(()),
        }
    }
}

/// A part of a gang with a minimum of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubGroup {
    /// The name of the sub-group, unique in the gang.
    pub(super) name: String,
    /// The number of pods that must run together.
    pub(super) minimum: u32,
}

/// A gang of a scenario: pods of which a minimum must start together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gang {
    /// The namespace of the gang and its pods.
    pub(super) namespace: String,
    /// The name of the gang.
    pub(super) name: String,
    /// The labels of the gang's object.
    pub(super) labels: Map,
    /// The gang's queue; `None` if its pods alone name one.
    pub(super) queue: Option<String>,
    /// The priority class of the gang.
    pub(super) priority_class: Option<String>,
    /// The number of pods that must start together, over all sub-groups.
    pub(super) minimum: u32,
    /// The number of pods that are written together with the gang, or that its Job has.
    pub(super) pods: u32,
    /// The sub-groups; empty if all pods are alike.
    pub(super) sub_groups: Vec<SubGroup>,
}

/// Fields of KAI's PodGroups that no other API has.
const FIELDS_OF_KAI_ALONE: [&str; 4] =
    ["preemptionDelay", "stalenessGracePeriod", "schedulingBackoff", "markUnschedulable"];

impl Gang {
    /// Reads KAI's PodGroup. The number of its pods is unknown, thus 0.
    pub(super) fn from_pod_group(object: &Value) -> Result<Self, Unsupported> {
        let spec = &object["spec"];
        let text = |at: &str| fields::text(object, at).filter(|text| !text.is_empty());
        let name = text("/metadata/name").unwrap_or_default().to_owned();
        if let Some(field) = FIELDS_OF_KAI_ALONE.iter().find(|field| !spec[**field].is_null()) {
            let reason = format!("only KAI's PodGroups have the field {field}");
            return Err(Unsupported { capability: "pod-groups", reason });
        }
        if !spec["topologyConstraint"].is_null() {
            let reason = "topology constraints of gangs are written in KAI's API alone";
            return Err(Unsupported { capability: "topology", reason: reason.to_owned() });
        }
        let sub_groups = sub_groups_of(spec)?;
        let own = fields::at(object, "/spec/minMember").and_then(Value::as_u64);
        let minimum = match (&*sub_groups, own) {
            ([], own) => own.unwrap_or(1),
            (parts, _) => parts.iter().map(|part| u64::from(part.minimum)).sum(),
        };
        let own_queue = text("/spec/queue").or_else(|| {
            fields::at(object, "/metadata/labels").and_then(|all| all[labels::QUEUE].as_str())
        });
        Ok(Self {
            namespace: text("/metadata/namespace").unwrap_or("default").to_owned(),
            name,
            labels: labels_of(object),
            queue: own_queue.map(str::to_owned),
            priority_class: text("/spec/priorityClassName").map(str::to_owned),
            minimum: u32::try_from(minimum).unwrap_or(u32::MAX),
            pods: 0,
            sub_groups,
        })
    }

    /// The `metadata` of the object that describes the gang.
    pub(super) fn metadata(&self) -> Value {
        json!({"name": self.name, "namespace": self.namespace, "labels": self.labels})
    }

    /// Reads the gang of a Job with KAI's annotation for a minimum; `None` if the Job is none.
    pub(super) fn from_job(object: &Value) -> Option<Self> {
        let pods = object["spec"]["parallelism"].as_u64().filter(|_| object["kind"] == "Job")?;
        let minimum = object["metadata"]["annotations"][annotations::BATCH_MIN_MEMBER].as_str()?;
        let minimum: u32 = minimum.parse().ok().filter(|minimum| *minimum > 1)?;
        let text = |at: &str| fields::text(object, at).map(str::to_owned);
        let labels = labels_of(object);
        let queue = labels.get(labels::QUEUE).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            namespace: text("/metadata/namespace").unwrap_or_else(|| "default".to_owned()),
            name: text("/metadata/name")?,
            queue,
            labels,
            priority_class: text("/spec/template/spec/priorityClassName"),
            minimum,
            pods: u32::try_from(pods).unwrap_or(u32::MAX),
            sub_groups: Vec::new(),
        })
    }
}

fn labels_of(object: &Value) -> Map {
    object["metadata"]["labels"].as_object().cloned().unwrap_or_default()
}

/// The sub-groups of the `spec` of KAI's PodGroup, which must all be needed and not nested.
fn sub_groups_of(spec: &Value) -> Result<Vec<SubGroup>, Unsupported> {
    let unsupported =
        |reason: &str| Err(Unsupported { capability: "sub-groups", reason: reason.to_owned() });
    if !spec["minSubGroup"].is_null() {
        return unsupported("only KAI's PodGroups have a minimum number of sub-groups");
    }
    let found = spec["subGroups"].as_array().map_or(&[][..], Vec::as_slice);
    if found.iter().any(|part| part["parent"].as_str().is_some_and(|parent| !parent.is_empty())) {
        return unsupported("only KAI's PodGroups have sub-groups within sub-groups");
    }
    let part = |part: &Value| SubGroup {
        name: part["name"].as_str().unwrap_or_default().to_owned(),
        minimum: part["minMember"].as_u64().and_then(|min| u32::try_from(min).ok()).unwrap_or(1),
    };
    Ok(found.iter().map(part).collect())
}

/// Whether an object is KAI's Queue.
pub(crate) fn is_kai_queue(object: &Value) -> bool {
    object["kind"] == "Queue" && object["apiVersion"] == api_versions::QUEUE
}

/// Whether an object is KAI's PodGroup.
pub(crate) fn is_kai_pod_group(object: &Value) -> bool {
    object["kind"] == "PodGroup" && object["apiVersion"] == api_versions::POD_GROUP
}

/// Namespace and name of an object.
pub(super) fn object_key(object: &Value) -> (String, String) {
    let text = |at: &str| fields::text(object, at);
    let namespace = text("/metadata/namespace").unwrap_or("default");
    (namespace.to_owned(), text("/metadata/name").unwrap_or_default().to_owned())
}
