//! What a page reads of nodes, pods, pod groups and queues, parsed once for each write.

use std::sync::Arc;

use schedlab_api::{Value, annotations, labels, object, pointer, quantity, resources};
use schedlab_conformance::world::observed::{Phase, Pod};

/// Thousandths of a GPU.
pub type MilliGpus = i64;

/// Namespace and name of an object. Objects of the cluster have an empty namespace.
pub type ObjectName = (Arc<str>, Arc<str>);

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRecord {
    pub(crate) gpus: usize,
    pub(crate) problem: Option<&'static str>,
}

/// A pod group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupRecord {
    pub(crate) queue: Option<Arc<str>>,
    pub(crate) owner: Option<String>,
}

/// A queue. Amounts without a value are unlimited; a fair share may be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueRecord {
    pub(crate) parent: Option<Arc<str>>,
    pub(crate) quota: Option<MilliGpus>,
    pub(crate) limit: Option<MilliGpus>,
    pub(crate) fair_share: Option<MilliGpus>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRecord {
    /// Namespace and name, with a slash between them.
    pub(crate) title: Arc<str>,
    /// Its pod group; the pod itself without one.
    pub(crate) workload: ObjectName,
    pub(crate) has_group: bool,
    /// The queue that its label names; empty without one.
    pub(crate) queue_label: Arc<str>,
    pub(crate) phase: Phase,
    /// Name of the node; empty before the pod is bound.
    pub(crate) node: Arc<str>,
    /// Indexes of the GPUs that the kubelet assigned.
    pub(crate) devices: Vec<usize>,
    /// The GPUs that the pod requests.
    pub(crate) gpus: MilliGpus,
    /// Why the pod is pending, as the scheduler reported it.
    pub(crate) reason: String,
}

impl NodeRecord {
    pub(crate) fn from_object(node: &Value) -> Self {
        let gpus = pointer::at(node, "/status/capacity")
            .and_then(|capacity| object::field(capacity, resources::GPU))
            .and_then(quantity::thousandths)
            .unwrap_or(0)
            / 1000;
        let is_cordoned =
            pointer::at(node, "/spec/unschedulable").and_then(Value::as_bool) == Some(true);
        let is_unready = object::condition(node, "Ready").is_some_and(|ready| ready != "True");
        let problem = match (is_unready, is_cordoned) {
            (true, _) => Some("not ready"),
            (false, true) => Some("cordoned"),
            (false, false) => None,
        };
        Self { gpus: usize::try_from(gpus).unwrap_or(0), problem }
    }
}

impl GroupRecord {
    pub(crate) fn from_object(group: &Value) -> Self {
        let owner = pointer::text(group, "/metadata/ownerReferences/0/name");
        Self {
            queue: pointer::text(group, "/spec/queue").map(Arc::from),
            owner: owner.map(str::to_owned),
        }
    }
}

impl QueueRecord {
    pub(crate) fn from_object(queue: &Value) -> Self {
        let amount = |field: &str| {
            let path = format!("/spec/resources/gpu/{field}");
            let number = pointer::at(queue, &path).and_then(Value::as_f64);
            // The API counts GPUs with decimals; -1 is unlimited.
            #[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
            number.map(|number| (number * 1000.0).round() as i64)
        };
        let fair_share = pointer::at(queue, "/status/fairShare")
            .and_then(|share| object::field(share, resources::GPU))
            .and_then(quantity::thousandths);
        let parent = pointer::text(queue, "/spec/parentQueue");
        Self {
            parent: parent.filter(|parent| !parent.is_empty()).map(Arc::from),
            quota: Some(amount("quota").unwrap_or(0)).filter(|quota| *quota >= 0),
            limit: amount("limit").filter(|limit| *limit >= 0),
            fair_share: fair_share.and_then(|milli| i64::try_from(milli).ok()),
        }
    }
}

impl PodRecord {
    pub(crate) fn from_object(value: &Value) -> Self {
        let pod = Pod(value);
        let (namespace, name) = (pod.pod_namespace(), pod.pod_name());
        let group = object::annotation(value, annotations::POD_GROUP_NAME);
        let devices = object::annotation(value, annotations::GPU_DEVICES).unwrap_or_default();
        let whole = i64::try_from(pod.gpu_milli()).unwrap_or(i64::MAX);
        Self {
            title: Arc::from(format!("{namespace}/{name}")),
            workload: (Arc::from(namespace), Arc::from(group.unwrap_or(name))),
            has_group: group.is_some(),
            queue_label: Arc::from(object::label(value, labels::QUEUE).unwrap_or_default()),
            phase: pod.current_phase(),
            node: Arc::from(pod.node_name()),
            devices: devices.split(',').filter_map(|index| index.trim().parse().ok()).collect(),
            gpus: whole.saturating_add(fraction_milli(value)),
            reason: pod.unschedulable_message().unwrap_or_default().to_owned(),
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.phase, Phase::Pending | Phase::Gated)
    }

    /// Whether the pod is on a node and has not ended.
    pub(crate) fn holds_gpus(&self) -> bool {
        !self.node.is_empty()
            && matches!(self.phase, Phase::Starting | Phase::Running | Phase::Terminating)
    }
}

/// The portion of a GPU that a pod requests by annotation, in thousandths.
fn fraction_milli(pod: &Value) -> MilliGpus {
    let fraction = object::annotation(pod, annotations::GPU_FRACTION);
    let devices = object::annotation(pod, annotations::GPU_FRACTION_NUM_DEVICES)
        .and_then(|count| count.parse::<i64>().ok());
    let milli = fraction.and_then(|text| quantity::parse(text).ok()).unwrap_or(0);
    i64::try_from(milli).unwrap_or(0).saturating_mul(devices.unwrap_or(1))
}
