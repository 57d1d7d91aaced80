//! The walk over submitted objects that applies the adapters: which pods and pod templates are the
//! scheduler's, to which queue and gang they belong, and which objects must be written before them.

use std::collections::BTreeMap;

use schedlab_api::{Value, annotations, labels, object, quantity::thousandths, resources};

use super::description::{UNLIMITED_AMOUNT, WORKLOAD_LABEL, object_key};
use super::{Gang, GangApi, QueueApi, Queues, Unsupported, is_kai_pod_group};

/// The GPUs of all nodes, in thousandths.
pub(super) fn total_gpus(nodes: &[Value]) -> i64 {
    let has = |node: &Value| thousandths(&node["status"]["allocatable"][resources::GPU]);
    i64::try_from(nodes.iter().filter_map(has).sum::<i128>()).unwrap_or(UNLIMITED_AMOUNT)
}

/// Writes workloads in the APIs of a target.
#[derive(Clone, Debug)]
pub(crate) struct Translator {
    /// The API of the target's queues.
    pub(crate) queue_api: QueueApi,
    /// The API of the target's gangs.
    pub(crate) gang_api: GangApi,
    /// The value of `spec.schedulerName` in the pods of the target.
    pub(crate) scheduler: String,
    /// All queues of the scenario.
    pub(crate) queues: Queues,
    /// KAI's PodGroups that exist already.
    pub(crate) known_groups: Vec<Value>,
}

/// What must be written beside the objects of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Translation {
    /// Objects that must exist before an object of the workload, whose index comes first. They may
    /// exist already.
    pub(crate) prerequisites: Vec<(usize, Value)>,
    /// Objects of the workload itself, each with the index of the object before which it is
    /// written.
    pub(crate) additions: Vec<(usize, Value)>,
}

type GangsByKey = BTreeMap<(String, String), Gang>;

impl Translator {
    /// Adds the labels and annotations of the target's APIs to the pods and pod templates in these
    /// objects, and returns the objects that must be written beside them.
    ///
    /// # Errors
    /// An API of the target cannot express a queue or a gang.
    pub(crate) fn translate(&self, objects: &mut [&mut Value]) -> Result<Translation, Unsupported> {
        let mut translation = Translation::default();
        if self.queue_api.adapter().is_none() && self.gang_api.adapter().is_none() {
            return Ok(translation);
        }
        let gangs = self.gangs_in(objects)?;
        for (index, object) in objects.iter_mut().enumerate() {
            let is_definition = is_kai_pod_group(object) || object["kind"] == "Job";
            let defined = gangs.get(&object_key(object)).filter(|_| is_definition);
            if let (Some(gang), Some(adapter)) = (defined, self.gang_api.adapter())
                && let Some(group) = adapter.group_object(gang)?
            {
                translation.additions.push((index, group));
            }
            let owner = Owner::of(object, defined.filter(|_| object["kind"] == "Job"));
            let mut walk = PodWalk {
                translator: self,
                gangs: &gangs,
                owner,
                index,
                prerequisites: &mut translation.prerequisites,
            };
            walk.visit(object, None)?;
        }
        Ok(translation)
    }

    /// The object that describes a gang after KAI's PodGroup has been changed.
    ///
    /// # Errors
    /// The gang API cannot express the gang, or cannot change it.
    pub(crate) fn changed_group(&self, group: &Value) -> Result<Option<Value>, Unsupported> {
        let Some(adapter) = self.gang_api.adapter() else { return Ok(None) };
        let changed = adapter.group_object(&Gang::from_pod_group(group)?)?;
        let is_fixed = changed.is_none() || !adapter.can_change_group();
        if is_fixed && self.gang_api != GangApi::None {
            let reason = "a gang cannot be changed after its creation";
            return Err(Unsupported { capability: "elastic", reason: reason.to_owned() });
        }
        Ok(changed)
    }

    /// The gangs that these objects define, and those that exist already.
    fn gangs_in(&self, objects: &[&mut Value]) -> Result<GangsByKey, Unsupported> {
        let mut gangs = GangsByKey::new();
        if self.gang_api.adapter().is_none() {
            return Ok(gangs);
        }
        let written = objects.iter().map(|object| &**object);
        for group in self.known_groups.iter().chain(written.clone()) {
            if is_kai_pod_group(group) {
                gangs.insert(object_key(group), Gang::from_pod_group(group)?);
            } else if let Some(gang) = Gang::from_job(group) {
                gangs.insert(object_key(group), gang);
            }
        }
        for pod in written.filter(|object| object["kind"] == "Pod") {
            if let Some(gang) = gang_key_of(pod).and_then(|key| gangs.get_mut(&key)) {
                gang.pods += 1;
            }
        }
        Ok(gangs)
    }
}

/// Namespace and name of a pod's gang.
fn gang_key_of(pod: &Value) -> Option<(String, String)> {
    let (namespace, _) = object_key(pod);
    Some((namespace, object::annotation(pod, annotations::POD_GROUP_NAME)?.to_owned()))
}

/// What the pods of an object inherit from it.
#[derive(Clone, Debug)]
struct Owner {
    namespace: String,
    /// The name of the workload.
    workload: String,
    /// The gang of a Job with a minimum.
    gang: Option<Gang>,
}

impl Owner {
    fn of(object: &Value, gang: Option<&Gang>) -> Self {
        let (namespace, name) = object_key(object);
        let label = object["metadata"]["labels"][WORKLOAD_LABEL].as_str();
        Self { namespace, workload: label.unwrap_or(&name).to_owned(), gang: gang.cloned() }
    }
}

/// Visits the pods and pod templates in an object.
struct PodWalk<'t> {
    translator: &'t Translator,
    gangs: &'t GangsByKey,
    owner: Owner,
    /// The index of the object.
    index: usize,
    prerequisites: &'t mut Vec<(usize, Value)>,
}

impl PodWalk<'_> {
    /// Visits a value. A pod without a queue of its own gets `owner_queue`.
    fn visit(&mut self, value: &mut Value, owner_queue: Option<&str>) -> Result<(), Unsupported> {
        let own = value["metadata"]["labels"][labels::QUEUE].as_str().map(str::to_owned);
        let queue = own.as_deref().or(owner_queue);
        if self.is_pod_of_scheduler(value) {
            return self.write_pod(value, queue);
        }
        match value {
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.visit(item, queue)),
            Value::Object(fields) => {
                fields.iter_mut().try_for_each(|(_, field)| self.visit(field, queue))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    /// Whether a value is a pod or pod template of the scheduler that has no node yet.
    fn is_pod_of_scheduler(&self, value: &Value) -> bool {
        let spec = &value["spec"];
        let scheduler = &*self.translator.scheduler;
        let named = spec["schedulerName"].as_str().unwrap_or(scheduler);
        spec["containers"].is_array() && spec["nodeName"].is_null() && named == scheduler
    }

    fn write_pod(&mut self, pod: &mut Value, queue: Option<&str>) -> Result<(), Unsupported> {
        if let Some(adapter) = self.translator.queue_api.adapter() {
            match queue {
                Some(queue) => adapter.assign_queue(pod, queue, &self.translator.queues)?,
                None => adapter.assign_no_queue(pod),
            }
            let needed =
                queue.and_then(|queue| adapter.namespace_object(&self.owner.namespace, queue));
            let is_new = |needed: &Value| self.prerequisites.iter().all(|(_, one)| one != needed);
            if let Some(needed) = needed.filter(is_new) {
                self.prerequisites.push((self.index, needed));
            }
        }
        let Some(adapter) = self.translator.gang_api.adapter() else { return Ok(()) };
        let own = gang_key_of(pod).map(|(_, name)| (self.owner.namespace.clone(), name));
        let gang = own.and_then(|key| self.gangs.get(&key)).or(self.owner.gang.as_ref());
        if let Some(gang) = gang {
            adapter.add_member(pod, gang)
        } else {
            adapter.prepare_single_pod(pod, &self.owner.namespace, &self.owner.workload);
            Ok(())
        }
    }
}
