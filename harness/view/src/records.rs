//! What a page reads of nodes, pods, pod groups and queues, parsed once for each write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schedlab_api::{Value, annotations, labels, object, pointer, quantity, resources};
use schedlab_conformance::world::observed::{Phase, Pod};
use schedlab_emulator::store::{EventKind, LogEntry};

/// Thousandths of a GPU.
pub type MilliGpus = i64;

/// Namespace and name of an object. Objects of the cluster have an empty namespace.
pub type ObjectName = (Arc<str>, Arc<str>);

/// What a write changes of what pages show: an object's new record, or none if it is gone. It is
/// much smaller than the objects of the write.
#[derive(Clone, Debug)]
pub struct RecordChange(pub(crate) RecordKind);

/// The record of one kind of object.
#[derive(Clone, Debug)]
pub(crate) enum RecordKind {
    Node(Arc<str>, Option<Arc<NodeRecord>>),
    Pod(ObjectName, Option<Arc<PodRecord>>),
    Group(ObjectName, Option<Arc<GroupRecord>>),
    Queue(Arc<str>, Option<Arc<QueueRecord>>),
    Slice(Arc<str>, Option<Arc<SliceRecord>>),
    Claim(ObjectName, Option<Arc<ClaimRecord>>),
    /// An object of a kind that no page shows.
    Other,
}

impl RecordChange {
    /// What a write changes.
    pub fn from_entry(entry: &LogEntry) -> Self {
        let name = (Arc::clone(&entry.key.namespace), Arc::clone(&entry.key.name));
        let object = match entry.kind {
            EventKind::Added | EventKind::Modified => Some(&*entry.object),
            EventKind::Deleted => None,
        };
        Self::from_object(&entry.key.resource.group, &entry.key.resource.plural, name, object)
    }

    /// What it means that an object has this value, or none.
    pub fn from_object(
        group: &str,
        plural: &str,
        name: ObjectName,
        object: Option<&Value>,
    ) -> Self {
        Self(match (group, plural) {
            ("", "pods") => {
                RecordKind::Pod(name, object.map(|pod| Arc::new(PodRecord::from_object(pod))))
            }
            ("", "nodes") => {
                let record = object.map(|node| Arc::new(NodeRecord::from_object(node)));
                RecordKind::Node(name.1, record)
            }
            ("scheduling.run.ai", "podgroups") => {
                let record = object.map(|group| Arc::new(GroupRecord::from_object(group)));
                RecordKind::Group(name, record)
            }
            ("scheduling.run.ai", "queues") => {
                let record = object.map(|queue| Arc::new(QueueRecord::from_object(queue)));
                RecordKind::Queue(name.1, record)
            }
            ("resource.k8s.io", "resourceslices") => {
                let record = object.map(|slice| Arc::new(SliceRecord::from_object(slice)));
                RecordKind::Slice(name.1, record)
            }
            ("resource.k8s.io", "resourceclaims") => {
                let record = object.map(|claim| Arc::new(ClaimRecord::from_object(claim)));
                RecordKind::Claim(name, record)
            }
            _ => RecordKind::Other,
        })
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRecord {
    pub(crate) gpus: usize,
    /// Number of MIG slices by the name of their profile, such as `1g.5gb`.
    pub(crate) mig: BTreeMap<String, usize>,
    pub(crate) problem: Option<&'static str>,
}

/// The devices of a node that a `ResourceSlice` lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceRecord {
    /// Name of the node; empty if several nodes can use the devices.
    pub(crate) node: Arc<str>,
    /// The devices, in the order of the slice.
    pub(crate) devices: Vec<DeviceName>,
}

/// A device by its driver, pool and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceName {
    pub(crate) driver: String,
    pub(crate) pool: String,
    pub(crate) device: String,
}

/// A `ResourceClaim`: the devices that it got, and the pods that use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRecord {
    pub(crate) devices: BTreeSet<DeviceName>,
    pub(crate) pods: Vec<ObjectName>,
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
    /// The part that the pod uses of each of its GPUs, in thousandths; 0 is unknown.
    pub(crate) portion: MilliGpus,
    /// The MIG slices that the pod requests, by the name of their profile.
    pub(crate) mig: BTreeMap<String, usize>,
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
        let capacity = pointer::at(node, "/status/capacity").and_then(Value::as_object);
        let mig = capacity.into_iter().flatten().filter_map(|(resource, amount)| {
            let profile = resource.strip_prefix(resources::MIG_PREFIX)?;
            let count = quantity::thousandths(amount)? / 1000;
            Some((profile.to_owned(), usize::try_from(count).ok()?))
        });
        Self { gpus: usize::try_from(gpus).unwrap_or(0), mig: mig.collect(), problem }
    }
}

impl SliceRecord {
    fn from_object(slice: &Value) -> Self {
        let text = |path: &str| pointer::text(slice, path).unwrap_or_default();
        let (driver, pool) = (text("/spec/driver"), text("/spec/pool/name"));
        let devices = pointer::at(slice, "/spec/devices").and_then(Value::as_array);
        let device = |device: &Value| DeviceName {
            driver: driver.to_owned(),
            pool: pool.to_owned(),
            device: pointer::text(device, "/name").unwrap_or_default().to_owned(),
        };
        Self {
            node: Arc::from(text("/spec/nodeName")),
            devices: devices.into_iter().flatten().map(device).collect(),
        }
    }
}

impl ClaimRecord {
    fn from_object(claim: &Value) -> Self {
        let list = |path: &str| pointer::at(claim, path).and_then(Value::as_array);
        let text =
            |value: &Value, path: &str| pointer::text(value, path).unwrap_or_default().to_owned();
        let results = list("/status/allocation/devices/results").into_iter().flatten();
        let devices = results.map(|result| DeviceName {
            driver: text(result, "/driver"),
            pool: text(result, "/pool"),
            device: text(result, "/device"),
        });
        let users = list("/status/reservedFor").into_iter().flatten();
        let namespace: Arc<str> = Arc::from(object::namespace(claim));
        let pods = users
            .filter(|user| pointer::text(user, "/resource") == Some("pods"))
            .map(|user| (Arc::clone(&namespace), Arc::from(text(user, "/name"))));
        Self { devices: devices.collect(), pods: pods.collect() }
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
            portion: portion(value),
            mig: mig_requests(value),
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

/// The part of each of its GPUs that a pod uses; 0 if it requests an amount of memory.
fn portion(pod: &Value) -> MilliGpus {
    let fraction = object::annotation(pod, annotations::GPU_FRACTION);
    let is_by_memory = object::annotation(pod, annotations::GPU_MEMORY).is_some();
    let whole = if is_by_memory { 0 } else { 1000 };
    fraction
        .and_then(|text| quantity::parse(text).ok())
        .and_then(|milli| i64::try_from(milli).ok())
        .unwrap_or(whole)
}

/// The MIG slices that a pod requests, by the name of their profile.
fn mig_requests(pod: &Value) -> BTreeMap<String, usize> {
    let requests = schedlab_audit::pod_requests(pod);
    let slices = requests.iter().filter_map(|(resource, milli)| {
        let profile = resource.strip_prefix(resources::MIG_PREFIX)?;
        Some((profile.to_owned(), usize::try_from(milli / 1000).ok()?))
    });
    slices.collect()
}

/// The portion of a GPU that a pod requests by annotation, in thousandths.
fn fraction_milli(pod: &Value) -> MilliGpus {
    let fraction = object::annotation(pod, annotations::GPU_FRACTION);
    let devices = object::annotation(pod, annotations::GPU_FRACTION_NUM_DEVICES)
        .and_then(|count| count.parse::<i64>().ok());
    let milli = fraction.and_then(|text| quantity::parse(text).ok()).unwrap_or(0);
    i64::try_from(milli).unwrap_or(0).saturating_mul(devices.unwrap_or(1))
}
