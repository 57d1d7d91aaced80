//! A pod as the mirror keeps it: read once, when the watch tells of it.

use std::sync::Arc;

use schedlab_json::Value;
use schedlab_scheduler_core::model::{
    GpuGroup, HostPort, Labels, Leader, Name, PodShape, PreemptionPolicy, Time, ZoneShare,
};

use super::{
    Condition, PodVolume, claims::PodClaim, condition, config_maps, gpu, numa, requests, selectors,
};
use crate::parse::{Malformed, at, int32, list, name, strings, text, time, version};

/// With it pods name their sub-group.
pub(crate) const SUB_GROUP_LABEL: &str = "kai.scheduler/subgroup-name";

/// With it pods and their owners name a PriorityClass.
pub(crate) const CLASS_LABEL: &str = "priorityClassName";

/// With it they name their place in the order of their group.
const TASK_PRIORITY_LABEL: &str = "kai.scheduler/task-priority";

/// Labels, and their values, of pods that come before the others of their group.
const LEADERS: [(&str, &str, Leader); 3] = [
    ("training.kubeflow.org/job-role", "master", Leader::Kubeflow),
    ("training.kubeflow.org/job-role", "launcher", Leader::Kubeflow),
    ("ray.io/node-type", "head", Leader::Ray),
];

/// What is kept of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRecord {
    pub(crate) uid: Name,
    pub(crate) scheduler: Scheduler,
    /// Names this scheduler, and is of the node pool that it serves.
    pub(crate) ours: bool,
    pub(crate) labels: Labels,
    /// Those of KAI's by which pods are grouped.
    pub(crate) annotations: Labels,
    /// What it asks for besides its claims.
    pub(crate) shape: Arc<PodShape>,
    /// Claims on devices.
    pub(crate) claims: Vec<PodClaim>,
    /// Claims on volumes.
    pub(crate) volumes: Vec<PodVolume>,
    /// Config maps without which its containers do not start.
    pub(crate) config_maps: Vec<Name>,
    /// The devices that it shares.
    pub(crate) gpu_groups: Vec<GpuGroup>,
    /// What it has of its node's zones, as far as anybody says.
    pub(crate) zones: Vec<ZoneShare>,
    /// The first thing in its spec that cannot be used.
    pub(crate) malformed: Option<Malformed>,
    pub(crate) priority: i32,
    pub(crate) priority_class: Option<Name>,
    pub(crate) preemption_policy: PreemptionPolicy,
    pub(crate) phase: Phase,
    pub(crate) gated: bool,
    /// `spec.terminationGracePeriodSeconds`: how long it may take to end.
    pub(crate) grace_secs: i64,
    /// `spec.nodeName`, or the node we just bound it to, or where its open BindRequest sends it.
    pub(crate) node: Option<Name>,
    /// Who says that this is its node.
    pub(crate) place: Place,
    pub(crate) nominated: Option<Name>,
    pub(crate) created: Time,
    pub(crate) started: Option<Time>,
    /// When it was asked to leave, or we just asked it.
    pub(crate) leaving_since: Option<Time>,
    /// Annotation `pod-group-name`, or the group that we just found for it.
    pub(crate) group: Option<Name>,
    /// The owner that it names first, with what grouping needs to find it.
    pub(crate) owner: Option<Owner>,
    pub(crate) skip_grouping: bool,
    /// Why nobody could bind it so far: condition `PodBound`.
    pub(crate) bind_failure: Option<Condition>,
    pub(crate) told: Told,
}

/// What was told on the pod already. No decision depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) version: u64,
    /// The annotation that names its group.
    pub(crate) marked: bool,
    /// When it got its node: `lastTransitionTime` of condition `PodScheduled`, once it is `True`.
    pub(crate) bound_at: Option<Time>,
    pub(crate) scheduled: Option<Condition>,
    pub(crate) disruption: Option<Condition>,
}

/// Whom `spec.schedulerName` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduler {
    /// Whose mirror it is, of whichever node pool.
    This,
    Another,
}

/// How a pod comes by its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is bound to it.
    Bound,
    /// Its open BindRequest names it.
    Requested,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// One of `metadata.ownerReferences[]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) api_version: Name,
    pub(crate) kind: Name,
    pub(crate) name: Name,
    pub(crate) uid: Name,
}

impl PodRecord {
    pub(crate) fn read(object: &Value, scheduler_name: &str) -> Self {
        // This is done at every write of a pod: each part is looked up once.
        let part = |pointer: &str| at(object, pointer).unwrap_or(&Value::Null);
        let (metadata, spec, status) = (part("/metadata"), part("/spec"), part("/status"));
        let (shape, malformed) = read_shape(object, spec);
        let labels = strings(metadata, "/labels");
        let annotations = at(metadata, "/annotations");
        let annotation = |key: &str| annotations.and_then(|all| all.get(key)?.as_str());
        let annotations = own_annotations(annotations);
        let conditions = list(status, "/conditions");
        let group = annotation("pod-group-name").filter(|name| !name.is_empty()).map(Name::from);
        let scheduler = match text(spec, "/schedulerName").unwrap_or("default-scheduler") {
            name if name == scheduler_name => Scheduler::This,
            _ => Scheduler::Another,
        };
        Self {
            uid: text(metadata, "/uid").unwrap_or_default().into(),
            scheduler,
            ours: scheduler == Scheduler::This,
            gpu_groups: gpu::groups(&labels),
            labels,
            zones: numa::shares_of(&annotations),
            annotations,
            shape: Arc::new(shape),
            claims: PodClaim::all(object),
            volumes: PodVolume::all(object),
            config_maps: config_maps::needed(object),
            malformed,
            priority: int32(spec, "/priority").unwrap_or(0),
            priority_class: name(spec, "/priorityClassName"),
            preemption_policy: match text(spec, "/preemptionPolicy") {
                Some("Never") => PreemptionPolicy::Never,
                Some(_) | None => PreemptionPolicy::PreemptLowerPriority,
            },
            phase: phase(status),
            grace_secs: at(spec, "/terminationGracePeriodSeconds")
                .and_then(Value::as_i64)
                .unwrap_or(30),
            gated: !list(spec, "/schedulingGates").is_empty(),
            node: name(spec, "/nodeName").filter(|node| !node.is_empty()),
            place: Place::Bound,
            nominated: name(status, "/nominatedNodeName"),
            created: time(metadata, "/creationTimestamp").unwrap_or_default(),
            started: time(status, "/startTime"),
            leaving_since: leaving_since(metadata),
            owner: list(metadata, "/ownerReferences").first().map(owner),
            bind_failure: condition(conditions, "PodBound").filter(|told| {
                &*told.status == "False" && text(spec, "/nodeName").is_none_or(str::is_empty)
            }),
            skip_grouping: annotation("kai.scheduler/skip-podgrouper") == Some("true"),
            told: Told {
                version: version(object),
                marked: group.is_some(),
                bound_at: bound_at(conditions),
                scheduled: condition(conditions, "PodScheduled"),
                disruption: condition(conditions, "DisruptionTarget"),
            },
            group,
        }
    }

    /// The place that was assumed when the same pod was bound, while it says none itself.
    pub(super) fn keep_place_of(&mut self, known: &Self) {
        if self.node.is_none() && known.node.is_some() && !known.is_requested() {
            self.node.clone_from(&known.node);
            self.zones.clone_from(&known.zones);
        }
    }

    /// Nobody has bound it yet: the node is that of its BindRequest.
    pub(crate) fn is_requested(&self) -> bool {
        self.place == Place::Requested
    }

    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Waits for a node, and is not on its way out.
    pub(crate) fn waits(&self) -> bool {
        self.node.is_none() && !self.is_finished() && self.leaving_since.is_none()
    }

    /// The group that was found for it, while the mark that says so is not confirmed.
    pub(super) fn unmarked_group(&self) -> Option<Name> {
        self.group.clone().filter(|_| !self.told.marked)
    }

    /// It waits for a mark of its group, and no binding of ours is under way with it.
    pub(crate) fn lacks_mark(&self) -> bool {
        let may = self.node.is_none() || self.is_requested() || self.told.bound_at.is_some();
        self.ours && self.group.is_some() && !self.told.marked && !self.is_finished() && may
    }

    /// Where it stands in its group.
    pub(crate) fn sub_group(&self) -> Option<&Name> {
        self.labels.get(SUB_GROUP_LABEL)
    }

    /// The class that it asks for in a label.
    pub(crate) fn class_label(&self) -> Option<&Name> {
        self.labels.get(CLASS_LABEL).filter(|class| !class.is_empty())
    }

    /// Label `kai.scheduler/task-priority`, when it is a number.
    pub(crate) fn task_priority(&self) -> Option<i32> {
        self.labels.get(TASK_PRIORITY_LABEL).and_then(|text| text.parse().ok())
    }

    /// That label is no number: KAI passes it over, too.
    pub(crate) fn task_priority_fault(&self) -> Option<Malformed> {
        let found = self.labels.get(TASK_PRIORITY_LABEL)?;
        let field = format!("label {TASK_PRIORITY_LABEL}");
        self.task_priority()
            .is_none()
            .then(|| Malformed::new(field, found, "an integer of 32 bits"))
    }

    /// Whom its labels say it leads.
    pub(crate) fn leads(&self) -> Option<Leader> {
        let is = |key: &str, role: &str| self.labels.get(key).is_some_and(|is| **is == *role);
        LEADERS.into_iter().find_map(|(key, role, leader)| is(key, role).then_some(leader))
    }
}

/// `kai.scheduler/…`; most pods have none.
fn own_annotations(all: Option<&Value>) -> Labels {
    let all = all.and_then(Value::as_object);
    let own = all.into_iter().flatten().filter(|(key, _)| key.starts_with("kai.scheduler/"));
    own.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect()
}

fn phase(status: &Value) -> Phase {
    match text(status, "/phase") {
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some("Running" | "Unknown") => Phase::Running,
        Some(_) | None => Phase::Pending,
    }
}

fn bound_at(conditions: &[Value]) -> Option<Time> {
    let scheduled = |condition: &&Value| {
        text(condition, "/type") == Some("PodScheduled")
            && text(condition, "/status") == Some("True")
    };
    let condition = conditions.iter().find(scheduled)?;
    time(condition, "/lastTransitionTime")
}

/// The deletion timestamp is when the grace ends.
fn leaving_since(metadata: &Value) -> Option<Time> {
    let ends = time(metadata, "/deletionTimestamp")?;
    let grace = at(metadata, "/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    Some(Time(ends.0.saturating_sub(grace.saturating_mul(1000))))
}

/// The owner that controls an object.
pub(crate) fn controller(object: &Value) -> Option<Owner> {
    let owners = list(object, "/metadata/ownerReferences");
    owners.iter().find(|owner| owner["controller"] == Value::Bool(true)).map(owner)
}

/// Whose work an object is part of: its only owner's, or, of several, the one's that controls it.
/// (KAI follows nobody of several.)
pub(crate) fn owner_above(object: &Value) -> Option<Owner> {
    match list(object, "/metadata/ownerReferences") {
        [only] => Some(owner(only)),
        _ => controller(object),
    }
}

pub(super) fn owner(reference: &Value) -> Owner {
    let part = |pointer| text(reference, pointer).unwrap_or_default().into();
    Owner {
        api_version: part("/apiVersion"),
        kind: part("/kind"),
        name: part("/name"),
        uid: part("/uid"),
    }
}

/// Everything that decides where the pod fits, and the first thing that is wrong with it.
fn read_shape(object: &Value, spec: &Value) -> (PodShape, Option<Malformed>) {
    let (requests, mut malformed) = requests::pod_requests(spec);
    let wrong = &mut malformed;
    let shared_gpu = kept(gpu::shared(object, requests.gpu_milli), wrong);
    let (unasked_cpu_milli, unasked_memory_bytes) = requests::unasked(spec, &requests);
    let shape = PodShape {
        requests,
        guaranteed: numa::is_guaranteed(object, spec),
        containers: numa::containers(spec),
        unasked_cpu_milli,
        unasked_memory_bytes,
        shared_gpu,
        legacy_mig: gpu::is_legacy_mig(object),
        gpus_by_claim: false,
        gpu_classes: Vec::new(),
        claims: Vec::new(),
        volumes: Vec::new(),
        node_selector: strings(spec, "/nodeSelector"),
        node_affinity: kept(selectors::node_terms(spec), wrong),
        node_preferences: kept(selectors::node_preferences(spec), wrong),
        tolerations: kept(selectors::tolerations(spec), wrong),
        pod_affinity: kept(selectors::pod_terms(spec, "podAffinity"), wrong),
        pod_anti_affinity: kept(selectors::pod_terms(spec, "podAntiAffinity"), wrong),
        pod_preferences: kept(selectors::pod_preferences(spec), wrong),
        topology_spread: kept(selectors::topology_spread(spec), wrong),
        host_ports: host_ports(spec),
        images: images(spec),
    };
    (shape, malformed)
}

/// Images of all containers, by the names under which nodes list them.
fn images(spec: &Value) -> Vec<Name> {
    let containers = list(spec, "/initContainers").iter().chain(list(spec, "/containers"));
    let images = containers.filter_map(|container| text(container, "/image"));
    let tagged = |image: &str| image.rfind(':') > image.rfind('/');
    images
        .map(|image| if tagged(image) { image.into() } else { format!("{image}:latest").into() })
        .collect()
}

/// What was read; nothing, and what was wrong, where it could not be.
fn kept<T: Default>(read: Result<T, Malformed>, malformed: &mut Option<Malformed>) -> T {
    read.unwrap_or_else(|wrong| {
        malformed.get_or_insert(wrong);
        T::default()
    })
}

fn host_ports(spec: &Value) -> Vec<HostPort> {
    let port = |item: &Value| {
        let port = u16::try_from(item.get("hostPort")?.as_u64()?).ok().filter(|port| *port > 0)?;
        Some(HostPort {
            ip: name(item, "/hostIP").unwrap_or_else(|| "0.0.0.0".into()),
            protocol: name(item, "/protocol").unwrap_or_else(|| "TCP".into()),
            port,
        })
    };
    let sidecars = list(spec, "/initContainers")
        .iter()
        .filter(|container| text(container, "/restartPolicy") == Some("Always"));
    let containers = list(spec, "/containers").iter().chain(sidecars);
    containers.flat_map(|container| list(container, "/ports").iter().filter_map(port)).collect()
}
