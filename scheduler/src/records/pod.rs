//! Pods, parsed once for each change.

use std::sync::Arc;

use schedlab_api::{Value, annotations, conditions, labels};
use schedlab_scheduler_core::model::{
    GpuGroup, HostPort, Labels, LeaderRole, Name, NumaAllocation, PodShape, PreemptionPolicy, Time,
};

use super::{
    Condition, Marked, PodResourceClaim, PodVolumeClaim, extended_requests::ExtendedRequests,
    find_condition, gpu_fractions, numa, pod_claims::required_config_maps, pod_requests, selectors,
};
use crate::parse::{Malformed, at, int32, list, name, strings, text, time, version};

/// Labels, with their values, of pods that are placed before the others of their group.
const LEADER_LABELS: [(&str, &str, LeaderRole); 3] = [
    (labels::TRAINING_JOB_ROLE, "master", LeaderRole::Kubeflow),
    (labels::TRAINING_JOB_ROLE, "launcher", LeaderRole::Kubeflow),
    ("ray.io/node-type", "head", LeaderRole::Ray),
];

/// The fields of a pod that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRecord {
    pub(crate) uid: Name,
    pub(crate) scheduler: Scheduler,
    /// Whether the pod has the name and the node pool of this scheduler.
    pub(crate) is_ours: bool,
    pub(crate) labels: Labels,
    /// Annotations with prefix `kai.scheduler/`.
    pub(crate) annotations: Labels,
    /// Requests and constraints of the pod, without those of its claims.
    pub(crate) shape: Arc<PodShape>,
    /// Claims on devices (DRA).
    pub(crate) claims: Vec<PodResourceClaim>,
    /// Requests for extended resources, which are part of `shape`, too.
    pub(crate) extended: ExtendedRequests,
    /// Claims on volumes.
    pub(crate) volumes: Vec<PodVolumeClaim>,
    /// `ConfigMap`s that the pod's containers require.
    pub(crate) config_maps: Vec<Name>,
    /// The GPU groups of the GPUs that the pod shares.
    pub(crate) gpu_groups: Vec<GpuGroup>,
    /// What the pod uses of the NUMA zones of its node, as predicted or observed.
    pub(crate) numa: Vec<NumaAllocation>,
    /// The first malformed field of the spec.
    pub(crate) malformed: Option<Malformed>,
    pub(crate) priority: i32,
    pub(crate) priority_class: Option<Name>,
    pub(crate) preemption_policy: PreemptionPolicy,
    pub(crate) phase: Phase,
    pub(crate) is_gated: bool,
    /// `spec.terminationGracePeriodSeconds`.
    pub(crate) grace_period_secs: i64,
    /// `spec.nodeName`, or the assumed node, or the node of its open BindRequest.
    pub(crate) node: Option<Name>,
    /// Where `node` comes from.
    pub(crate) node_source: NodeSource,
    pub(crate) nominated_node: Option<Name>,
    pub(crate) created: Time,
    pub(crate) started: Option<Time>,
    /// Since when the pod is terminating, by its deletion timestamp or by an assumed eviction.
    pub(crate) releasing_since: Option<Time>,
    /// Annotation `pod-group-name`, or the assumed group.
    pub(crate) group: Option<Name>,
    /// `spec.schedulingGroup.podGroupName`: a PodGroup of Kubernetes.
    pub(crate) scheduling_group: Option<Name>,
    /// The first owner reference.
    pub(crate) owner: Option<Owner>,
    pub(crate) skip_grouping: bool,
    /// Condition `PodBound` with status `False`, which says why the pod could not be bound so far.
    pub(crate) bind_failure: Option<Condition>,
    pub(crate) reported: ReportedPodStatus,
}

/// What some pods need, by their records alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PodMark {
    /// The pod has no pod group: [`PodRecord::needs_group`].
    Group,
    /// Its pod group is not written to it: [`PodRecord::needs_group_annotation`].
    GroupAnnotation,
    /// Waiting pods with labels that may need a warning.
    Warning,
}

impl Marked for PodRecord {
    type Mark = PodMark;

    const MARKS: &'static [PodMark] = &[PodMark::Group, PodMark::GroupAnnotation, PodMark::Warning];

    fn has_mark(&self, mark: PodMark) -> bool {
        match mark {
            PodMark::Group => self.needs_group(),
            PodMark::GroupAnnotation => self.needs_group_annotation(),
            PodMark::Warning => {
                let has_label = || {
                    self.labels.contains_key(labels::TASK_PRIORITY)
                        || self.labels.contains_key(labels::PRIORITY_CLASS)
                };
                self.is_ours && self.is_waiting() && has_label()
            }
        }
    }
}

/// The status and annotations that were last written to the pod. No decision depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedPodStatus {
    pub(crate) version: u64,
    /// Whether the pod has annotation `pod-group-name`.
    pub(crate) has_group_annotation: bool,
    /// When the pod was bound: `lastTransitionTime` of condition `PodScheduled` with status `True`.
    pub(crate) bound_at: Option<Time>,
    pub(crate) pod_scheduled: Option<Condition>,
    pub(crate) disruption_target: Option<Condition>,
}

/// Which scheduler `spec.schedulerName` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduler {
    /// This scheduler, whatever the node pool.
    This,
    Other,
}

/// Where the node of a pod comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeSource {
    /// The pod is bound to the node, or assumed to be.
    Bound,
    /// The open BindRequest of the pod selects the node.
    BindRequest,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) api_version: Name,
    pub(crate) kind: Name,
    pub(crate) name: Name,
    pub(crate) uid: Name,
}

impl PodRecord {
    pub(crate) fn from_object(object: &Value, scheduler_name: &str) -> Self {
        // Every watch event of a pod gets here: each section is looked up once.
        let part = |pointer: &str| at(object, pointer).unwrap_or(&Value::Null);
        let (metadata, spec, status) = (part("/metadata"), part("/spec"), part("/status"));
        let (shape, malformed) = parse_shape(object, spec);
        let labels = strings(metadata, "/labels");
        let annotations = at(metadata, "/annotations");
        let annotation = |key: &str| annotations.and_then(|all| all.get(key)?.as_str());
        let annotations = kai_annotations(annotations);
        let conditions = list(status, "/conditions");
        let group =
            annotation(annotations::POD_GROUP_NAME).filter(|name| !name.is_empty()).map(Name::from);
        let scheduler = match text(spec, "/schedulerName").unwrap_or("default-scheduler") {
            name if name == scheduler_name => Scheduler::This,
            _ => Scheduler::Other,
        };
        Self {
            uid: text(metadata, "/uid").unwrap_or_default().into(),
            scheduler,
            is_ours: scheduler == Scheduler::This,
            gpu_groups: gpu_fractions::gpu_groups(&labels),
            labels,
            numa: numa::placements_from_annotations(&annotations),
            annotations,
            shape: Arc::new(shape),
            claims: PodResourceClaim::from_pod(object),
            extended: ExtendedRequests::from_pod(object),
            volumes: PodVolumeClaim::from_pod(object),
            config_maps: required_config_maps(object),
            malformed,
            priority: int32(spec, "/priority").unwrap_or(0),
            priority_class: name(spec, "/priorityClassName"),
            preemption_policy: match text(spec, "/preemptionPolicy") {
                Some("Never") => PreemptionPolicy::Never,
                Some(_) | None => PreemptionPolicy::PreemptLowerPriority,
            },
            phase: parse_phase(status),
            grace_period_secs: at(spec, "/terminationGracePeriodSeconds")
                .and_then(Value::as_i64)
                .unwrap_or(30),
            is_gated: !list(spec, "/schedulingGates").is_empty(),
            node: name(spec, "/nodeName").filter(|node| !node.is_empty()),
            node_source: NodeSource::Bound,
            nominated_node: name(status, "/nominatedNodeName"),
            created: time(metadata, "/creationTimestamp").unwrap_or_default(),
            started: time(status, "/startTime"),
            releasing_since: releasing_since(metadata),
            scheduling_group: name(spec, "/schedulingGroup/podGroupName"),
            owner: list(metadata, "/ownerReferences").first().map(parse_owner),
            bind_failure: find_condition(conditions, "PodBound").filter(|condition| {
                &*condition.status == "False" && text(spec, "/nodeName").is_none_or(str::is_empty)
            }),
            skip_grouping: annotation(annotations::SKIP_POD_GROUPER) == Some("true"),
            reported: ReportedPodStatus {
                version: version(object),
                has_group_annotation: group.is_some(),
                bound_at: bound_at(conditions),
                pod_scheduled: find_condition(conditions, conditions::POD_SCHEDULED),
                disruption_target: find_condition(conditions, conditions::DISRUPTION_TARGET),
            },
            group,
        }
    }

    /// Keeps the assumed node and NUMA allocations of the same pod until the object has a node.
    pub(crate) fn keep_assumed_node(&mut self, known: &Self) {
        if self.node.is_none() && known.node.is_some() && !known.is_bind_requested() {
            self.node.clone_from(&known.node);
            self.numa.clone_from(&known.numa);
        }
    }

    /// Whether the pod is unbound and has the node of its BindRequest.
    pub(crate) fn is_bind_requested(&self) -> bool {
        self.node_source == NodeSource::BindRequest
    }

    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether the pod needs a node and is not terminating.
    pub(crate) fn is_waiting(&self) -> bool {
        self.node.is_none() && !self.is_finished() && self.releasing_since.is_none()
    }

    /// The assumed group, until the API server has its annotation.
    pub(crate) fn assumed_group(&self) -> Option<Name> {
        self.group.clone().filter(|_| !self.reported.has_group_annotation)
    }

    /// Whether the pod grouper must find a pod group for the pod.
    pub(crate) fn needs_group(&self) -> bool {
        self.group.is_none() && self.may_be_grouped()
    }

    /// Whether the pod grouper may put the pod into a pod group.
    pub(crate) fn may_be_grouped(&self) -> bool {
        self.scheduler == Scheduler::This
            && !self.skip_grouping
            && !self.is_finished()
            && self.releasing_since.is_none()
    }

    /// Whether the group annotation must be written, since no binding under way carries it.
    pub(crate) fn needs_group_annotation(&self) -> bool {
        let may =
            self.node.is_none() || self.is_bind_requested() || self.reported.bound_at.is_some();
        self.is_ours
            && self.group.is_some()
            && !self.reported.has_group_annotation
            && !self.is_finished()
            && may
    }

    /// The value of the sub-group label.
    pub(crate) fn sub_group(&self) -> Option<&Name> {
        self.labels.get(labels::SUB_GROUP)
    }

    /// The value of the priority class label.
    pub(crate) fn priority_class_label(&self) -> Option<&Name> {
        self.labels.get(labels::PRIORITY_CLASS).filter(|class| !class.is_empty())
    }

    /// Label `kai.scheduler/task-priority`, if it is a number.
    pub(crate) fn task_priority(&self) -> Option<i32> {
        self.labels.get(labels::TASK_PRIORITY).and_then(|text| text.parse().ok())
    }

    /// The error of label `kai.scheduler/task-priority` if it is not a number. KAI ignores such a
    /// label as well.
    pub(crate) fn task_priority_error(&self) -> Option<Malformed> {
        let found = self.labels.get(labels::TASK_PRIORITY)?;
        let field = format!("label {}", labels::TASK_PRIORITY);
        self.task_priority()
            .is_none()
            .then(|| Malformed::new(field, found, "an integer of 32 bits"))
    }

    /// The role of a leader pod, from its labels.
    pub(crate) fn leader_role(&self) -> Option<LeaderRole> {
        let is = |key: &str, role: &str| self.labels.get(key).is_some_and(|is| **is == *role);
        LEADER_LABELS.into_iter().find_map(|(key, role, leader)| is(key, role).then_some(leader))
    }
}

/// Annotations with prefix `kai.scheduler/`; most pods have none.
fn kai_annotations(annotations: Option<&Value>) -> Labels {
    let annotations = annotations.and_then(Value::as_object);
    let own =
        annotations.into_iter().flatten().filter(|(key, _)| key.starts_with("kai.scheduler/"));
    own.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect()
}

fn parse_phase(status: &Value) -> Phase {
    match text(status, "/phase") {
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some("Running" | "Unknown") => Phase::Running,
        Some(_) | None => Phase::Pending,
    }
}

fn bound_at(conditions: &[Value]) -> Option<Time> {
    let scheduled = |condition: &&Value| {
        text(condition, "/type") == Some(conditions::POD_SCHEDULED)
            && text(condition, "/status") == Some("True")
    };
    let condition = conditions.iter().find(scheduled)?;
    time(condition, "/lastTransitionTime")
}

/// When the pod started to terminate: its deletion timestamp, which is the end of the grace period,
/// minus the grace period.
fn releasing_since(metadata: &Value) -> Option<Time> {
    let ends = time(metadata, "/deletionTimestamp")?;
    let grace = at(metadata, "/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    Some(Time(ends.0.saturating_sub(grace.saturating_mul(1000))))
}

/// The owner reference of the object's controller.
pub(crate) fn controller_owner(object: &Value) -> Option<Owner> {
    let owners = list(object, "/metadata/ownerReferences");
    owners.iter().find(|owner| owner["controller"] == Value::Bool(true)).map(parse_owner)
}

/// The owner that the object is part of: the only one, or of several the controller. (KAI follows
/// none of several.)
pub(crate) fn parent_owner(object: &Value) -> Option<Owner> {
    match list(object, "/metadata/ownerReferences") {
        [only] => Some(parse_owner(only)),
        _ => controller_owner(object),
    }
}

pub(crate) fn parse_owner(reference: &Value) -> Owner {
    let part = |pointer| text(reference, pointer).unwrap_or_default().into();
    Owner {
        api_version: part("/apiVersion"),
        kind: part("/kind"),
        name: part("/name"),
        uid: part("/uid"),
    }
}

/// Requests and constraints of a pod, and the first malformed field of its spec.
fn parse_shape(object: &Value, spec: &Value) -> (PodShape, Option<Malformed>) {
    let (requests, mut malformed) = pod_requests::pod_requests(spec);
    let wrong = &mut malformed;
    let shared_gpu =
        or_record_error(gpu_fractions::parse_fractional_gpu(object, requests.gpu_milli), wrong);
    let (unasked_cpu_milli, unasked_memory_bytes) = pod_requests::non_zero_surplus(spec, &requests);
    let shape = PodShape {
        requests,
        guaranteed: numa::is_guaranteed(object, spec),
        containers: numa::container_requests_in_order(spec),
        default_cpu_milli: unasked_cpu_milli,
        default_memory_bytes: unasked_memory_bytes,
        fractional_gpu: shared_gpu,
        legacy_mig: gpu_fractions::is_legacy_mig(object),
        gpus_via_dra: false,
        gpu_classes: Vec::new(),
        claims: Vec::new(),
        own_claims: Vec::new(),
        volumes: Vec::new(),
        node_selector: strings(spec, "/nodeSelector"),
        node_affinity: or_record_error(selectors::parse_node_terms(spec), wrong),
        node_preferences: or_record_error(selectors::parse_node_preferences(spec), wrong),
        tolerations: or_record_error(selectors::parse_tolerations(spec), wrong),
        pod_affinity: or_record_error(selectors::parse_pod_terms(spec, "podAffinity"), wrong),
        pod_anti_affinity: or_record_error(
            selectors::parse_pod_terms(spec, "podAntiAffinity"),
            wrong,
        ),
        pod_preferences: or_record_error(selectors::parse_pod_preferences(spec), wrong),
        topology_spread: or_record_error(selectors::parse_topology_spread(spec), wrong),
        host_ports: host_ports(spec),
        images: container_images(spec),
    };
    (shape, malformed)
}

/// Images of all containers of a pod, with tag, as nodes list them.
fn container_images(spec: &Value) -> Vec<Name> {
    let containers = list(spec, "/initContainers").iter().chain(list(spec, "/containers"));
    let images = containers.filter_map(|container| text(container, "/image"));
    let tagged = |image: &str| image.rfind(':') > image.rfind('/');
    images
        .map(|image| if tagged(image) { image.into() } else { format!("{image}:latest").into() })
        .collect()
}

/// The value, or the default after its error was recorded in `malformed`.
fn or_record_error<T: Default>(
    result: Result<T, Malformed>,
    malformed: &mut Option<Malformed>,
) -> T {
    result.unwrap_or_else(|wrong| {
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
