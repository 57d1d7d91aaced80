//! The `Workload` and the `PodGroup` that the Job controller creates for a new job
//! (gate `WorkloadWithJob`), and the group of the job's pods.
//!
//! A job whose pod template names a group has its own. A job of another controller gets a group
//! only if that controller delegates it: the annotation names a template of the controller's
//! workload.

use super::COMPONENT;
use crate::controllers::workload::{LETTERS, controller_references};
use crate::reconcile::cache::{OwnerReference, controller_reference};
use crate::reconcile::fields::{find_condition, time_at};
use crate::reconcile::resources::{POD_GROUPS, WORKLOADS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{ApiRequest, Context};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{annotation, list, name, namespace, number, set, text, uid},
};

const GATE: &str = "WorkloadWithJob";
/// The annotation of a job whose owner delegates its pod group: the template of the group.
const GROUP_TEMPLATE: &str = "scheduling.k8s.io/group-template-name";
const API_VERSION: &str = "scheduling.k8s.io/v1beta1";
/// The maximum length of an object name.
const NAME_MAX: usize = 253;

/// Who owns the workload of a job whose pod group the Job controller creates.
enum WorkloadOwner<'j> {
    Job,
    /// The job's controller, which delegates the group with this template.
    Parent(OwnerReference<'j>, &'j str),
}

/// The owner of the job's workload; `None` if the controller creates no group.
fn workload_owner<'j>(job: &'j Value, ctx: &Context) -> Option<WorkloadOwner<'j>> {
    if !ctx.feature_gates.is_enabled(GATE)
        || job["spec"]["template"]["spec"]["schedulingGroup"].is_object()
    {
        return None;
    }
    match controller_reference(job) {
        None => Some(WorkloadOwner::Job),
        Some(parent) => Some(WorkloadOwner::Parent(parent, annotation(job, GROUP_TEMPLATE)?)),
    }
}

/// The writes that bring workload and group of a job to their desired state; none if they are.
pub(super) fn sync_groups(job: &Value, has_pods: bool, ctx: &Context) -> Vec<ApiRequest> {
    let Some(owner) = workload_owner(job, ctx) else { return Vec::new() };
    let is_new = !has_pods && is_never_started(job);
    let Some((key, workload)) = workload_of(job, &owner, ctx) else {
        let is_own = matches!(owner, WorkloadOwner::Job);
        return if is_new && is_own { create_workload(job, ctx) } else { Vec::new() };
    };
    let template = match owner {
        WorkloadOwner::Job => list(workload, &["spec", "podGroupTemplates"]).first(),
        WorkloadOwner::Parent(_, wanted) => template_named(workload, wanted),
    };
    let Some(template) = template else { return Vec::new() };
    let Some((group_key, group)) = group_in(workload, job, ctx) else {
        return if is_new {
            create_pod_group(job, &owner, workload, template, ctx)
        } else {
            Vec::new()
        };
    };
    let minimum = match owner {
        WorkloadOwner::Job => number(&policy(job), &["gang", "minCount"]),
        WorkloadOwner::Parent(..) => number(template, &["schedulingPolicy", "gang", "minCount"]),
    };
    let Some(minimum) = minimum else { return Vec::new() };
    let mut writes = Vec::new();
    let found = number(template, &["schedulingPolicy", "gang", "minCount"]);
    if found.is_some_and(|found| found != minimum) {
        let mut changed = Value::clone(workload);
        let mut templates = list(workload, &["spec", "podGroupTemplates"]).to_vec();
        set(&mut templates[0], &["schedulingPolicy", "gang", "minCount"], minimum.into());
        set(&mut changed, &["spec", "podGroupTemplates"], templates.into());
        writes.push(ApiRequest::update(key, changed));
    }
    let path = ["spec", "schedulingPolicy", "gang", "minCount"];
    if number(group, &path).is_some_and(|found| found != minimum) {
        let mut changed = Value::clone(group);
        set(&mut changed, &path, minimum.into());
        writes.push(ApiRequest::update(group_key, changed));
    }
    writes
}

/// The pod group of the job's pods.
pub(super) fn group_of<'c>(job: &Value, ctx: &Context<'c>) -> Option<&'c Object> {
    let owner = workload_owner(job, ctx)?;
    let (_, workload) = workload_of(job, &owner, ctx)?;
    let (key, _) = group_in(workload, job, ctx)?;
    ctx.cache.get(key)
}

/// Makes a pod a member of a group. The controller also names the group as an owner in the
/// template, which is not in the pods that it creates.
pub(super) fn join_group(pod: &mut Value, group: &Value) {
    set(pod, &["spec", "schedulingGroup"], json!({"podGroupName": name(group)}));
}

/// A reference to an owner that does not control the object.
fn owner_reference(kind: &str, owner: &Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": kind, "name": name(owner), "uid": uid(owner)})
}

/// Whether the job has never started: groups are not created for jobs that are older than the gate.
fn is_never_started(job: &Value) -> bool {
    time_at(job, &["status", "startTime"]).is_none()
        && number(job, &["status", "succeeded"]).unwrap_or(0) == 0
        && number(job, &["status", "failed"]).unwrap_or(0) == 0
        && find_condition(job, "Suspended").is_none()
}

/// The workload of a job. Several workloads of one job count as none.
fn workload_of<'c>(
    job: &'c Value,
    owner: &'c WorkloadOwner<'_>,
    ctx: &Context<'c>,
) -> Option<(&'c Key, &'c Object)> {
    let refers_to = |workload: &Value, group: &str, kind: &str, name: &str| {
        let reference = &workload["spec"]["controllerRef"];
        text(reference, &["apiGroup"]) == group
            && text(reference, &["kind"]) == kind
            && text(reference, &["name"]) == name
    };
    let mut workloads = ctx.cache.objects_in_namespace(&WORKLOADS, namespace(job));
    match owner {
        WorkloadOwner::Job => only(workloads.filter(|(_, workload)| {
            refers_to(workload, "batch", "Job", name(job))
                && controller_reference(workload).is_some_and(|owner| owner.uid == uid(job))
        })),
        WorkloadOwner::Parent(parent, _) => workloads
            .find(|(_, workload)| refers_to(workload, parent.group, parent.kind, parent.name)),
    }
}

/// The job's group in a workload. Several groups count as none.
fn group_in<'c>(
    workload: &'c Value,
    job: &'c Value,
    ctx: &Context<'c>,
) -> Option<(&'c Key, &'c Object)> {
    let groups = ctx.cache.objects_in_namespace(&POD_GROUPS, namespace(job));
    only(groups.filter(|(_, group)| {
        text(group, &["spec", "workloadRef", "workloadName"]) == name(workload)
            && controller_reference(group).is_some_and(|owner| owner.uid == uid(job))
    }))
}

fn only<T>(mut found: impl Iterator<Item = T>) -> Option<T> {
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

fn template_named<'v>(workload: &'v Value, wanted: &str) -> Option<&'v Value> {
    let mut templates = list(workload, &["spec", "podGroupTemplates"]).iter();
    if wanted.is_empty() {
        return templates.next();
    }
    templates.find(|template| text(template, &["name"]) == wanted)
}

/// The scheduling policy of a job; the minimum of a gang is its parallelism by default.
fn policy(job: &Value) -> Value {
    let gang = &job["spec"]["scheduling"]["schedulingPolicy"]["gang"];
    if !gang.is_object() {
        return json!({"basic": {}});
    }
    let parallelism = number(job, &["spec", "parallelism"]).unwrap_or(1).max(1);
    json!({"gang": {"minCount": number(gang, &["minCount"]).unwrap_or(parallelism)}})
}

fn create_workload(job: &Value, ctx: &Context) -> Vec<ApiRequest> {
    let scheduling = &job["spec"]["scheduling"];
    let mut template =
        json!({"name": format!("{}-pgt-0", name(job)), "schedulingPolicy": policy(job)});
    let class = text(job, &["spec", "template", "spec", "priorityClassName"]);
    if !class.is_empty() {
        set(&mut template, &["priorityClassName"], class.into());
    }
    if !list(scheduling, &["schedulingConstraints", "topology"]).is_empty() {
        let constraints = scheduling["schedulingConstraints"].clone();
        set(&mut template, &["schedulingConstraints"], constraints);
    }
    for field in ["disruptionMode", "resourceClaims"] {
        if !scheduling[field].is_null() {
            set(&mut template, &[field], scheduling[field].clone());
        }
    }
    let hash = hash_letters(&format!("(types.UID){}", uid(job)));
    let prefix: String = name(job).chars().take(NAME_MAX - hash.len() - 1).collect();
    let workload = json!({
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {
            "name": format!("{prefix}-{hash}"),
            "namespace": namespace(job),
            "ownerReferences": controller_references(job),
        },
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": name(job)},
            "podGroupTemplates": [template],
        },
    });
    let event = created_event("WorkloadCreated", "Workload", job, &workload, ctx);
    vec![ApiRequest::create(&WORKLOADS, workload), event]
}

fn create_pod_group(
    job: &Value,
    owner: &WorkloadOwner<'_>,
    workload: &Value,
    template: &Value,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let template_name = text(template, &["name"]);
    let mut spec = json!({
        "workloadRef": {"workloadName": name(workload), "templateName": template_name},
    });
    for field in [
        "schedulingPolicy",
        "schedulingConstraints",
        "resourceClaims",
        "disruptionMode",
        "priorityClassName",
        "priority",
    ] {
        if !template[field].is_null() {
            set(&mut spec, &[field], template[field].clone());
        }
    }
    let mut owners: Vec<Value> = controller_references(job).as_array().cloned().unwrap_or_default();
    if matches!(owner, WorkloadOwner::Job) {
        owners.push(owner_reference("Workload", workload));
    }
    let group = json!({
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": group_object_name(name(workload), template_name),
            "namespace": namespace(job),
            "ownerReferences": owners,
        },
        "spec": spec,
    });
    let event = created_event("PodGroupCreated", "PodGroup", job, &group, ctx);
    vec![ApiRequest::create(&POD_GROUPS, group), event]
}

fn created_event(
    reason: &str,
    kind: &str,
    job: &Value,
    created: &Value,
    ctx: &Context,
) -> ApiRequest {
    let message = format!("Created {kind} {} for Job {}", name(created), name(job));
    EventSpec { component: COMPONENT, kind: "Normal", reason, message }.record(job, ctx)
}

/// The name of a group: its workload, its template and a hash of both.
fn group_object_name(workload: &str, template: &str) -> String {
    let hash = hash_letters(&format!("{workload}{template}"));
    let room = NAME_MAX - hash.len() - 2;
    let half = room / 2;
    let (workload_room, template_room) = match (workload.len(), template.len()) {
        (own, other) if own + other <= room => (own, other),
        (own, _) if own <= half => (own, room - own),
        (_, other) if other <= half => (room - other, other),
        _ => (room - half, half),
    };
    let cut = |text: &str, length: usize| text.chars().take(length).collect::<String>();
    format!("{}-{}-{hash}", cut(workload, workload_room), cut(template, template_room))
}

/// A hash as in generated names of Kubernetes: FNV-1a of 32 bits, its decimal digits as letters.
fn hash_letters(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let digits = hash.to_string();
    digits.bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}
