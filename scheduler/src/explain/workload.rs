//! Resolves a workload name to pod groups and explains them, with notes beyond the cycle itself:
//! where a priority comes from, and why several groups are no gang.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use schedlab_api::{Value, annotations::BATCH_MIN_MEMBER, conditions, json};
use schedlab_explain::{CYCLES_AFTER_LIMIT, ExplainedCycle, Explanation, ExplanationText};
use schedlab_scheduler_core::{
    Decision, Plan, Reason,
    model::{Name, Pod, PodGroup, PodGroupId},
};

use super::{ClusterView, OutputFormat, json, preemption_policy, scattered_gpus};
use crate::{
    cache::{BindFailure, ClusterCache, PodGroupRecord},
    config::{Config, NodePool},
    parse::strings,
    podgrouper::{OwnerLink, PodGrouper},
    records::{ObjectKey, PodRecord, Scheduler},
    snapshot_builder::{UNGROUPED_PREFIX, UnschedulableReason},
};

/// The objects that a name refers to.
struct ExplainTarget {
    /// Pods of the workload.
    pods: Vec<ObjectKey>,
    /// The named pod group, or the pod groups of the pods.
    groups: Vec<ObjectKey>,
    /// Owners of the first pod, nearest first.
    chain: Vec<OwnerLink>,
}

/// Pending reasons of groups.
struct WaitingReasons {
    by_plan: BTreeMap<PodGroupId, Reason>,
    /// Groups with a pod that has a node but could not be bound to it.
    bind_failures: BTreeMap<ObjectKey, BindFailure>,
}

/// A pod or pod group that cannot be scheduled or bound as it is.
struct SchedulingProblem<'a> {
    /// `pod` or `podGroup`.
    kind: &'static str,
    key: &'a ObjectKey,
    message: String,
    remedy: String,
}

pub(super) async fn explain(
    view: &ClusterView,
    namespace: &str,
    name: &str,
    form: OutputFormat,
) -> anyhow::Result<String> {
    let target = resolve_target(view, namespace, name).await?;
    let mut cycle = ExplainedCycle::new(view.snapshot(), &view.config.profile);
    let of_pods = target.pods.iter().find_map(|pod| pod_problem(view, pod));
    let of_groups = || target.groups.iter().find_map(|key| group_problem(view, key));
    let tried = pods_to_bind(view, cycle.plan());
    let problem = of_pods.or_else(of_groups).or_else(|| bind_problem(view, &target.pods, &tried));
    let groups: Vec<(&ObjectKey, PodGroupId)> =
        target.groups.iter().filter_map(|key| Some((key, find_group_id(view, key)?))).collect();
    let bind_failures = BindFailure::first_failure_by_group(&view.cache, &tried);
    let waiting = WaitingReasons { by_plan: cycle.plan().waiting.clone(), bind_failures };
    let of = |id: PodGroupId| &view.snapshot().pod_groups[id.0 as usize];
    // A group whose only pod has a problem needs no explanation of its own.
    let is_covered = |group: &ObjectKey| match &problem {
        Some(SchedulingProblem { kind: "pod", key: message, .. }) => {
            view.cache.pods_of_group(group).all(|(pod, _)| pod == **message)
        }
        Some(_) | None => false,
    };
    let waits =
        groups.iter().filter(|(key, id)| waiting.by_plan.contains_key(id) && !is_covered(key));
    let oldest = waits.min_by_key(|(_, id)| (of(*id).created, &of(*id).uid));
    let group_key = oldest.or(groups.first().filter(|_| problem.is_none()));
    if problem.is_none() && groups.is_empty() {
        bail!(
            "pod group {namespace}/{name} has no pending or running pods: there is nothing to explain"
        );
    }
    let shown = group_key.map(|(key, id)| {
        let explanation = cycle.explain(*id);
        let mut notes = workload_notes(view, key, of(*id), &target, groups.len());
        notes.extend(preemption_policy::priority_difference_note(
            view.snapshot(),
            &view.config.profile,
            *id,
            waiting.by_plan.get(id),
        ));
        let report = explanation.nodes.as_ref().filter(|_| explanation.reason.is_some());
        notes.extend(
            report.and_then(|report| scattered_gpus::scattered_gpus_note(view.snapshot(), report)),
        );
        notes.extend(explanation.search_stopped_at.map(search_limit_note));
        (explanation, notes)
    });
    Ok(match form {
        OutputFormat::Text => {
            let many = (groups.len() > 1).then(|| groups_summary(name, &groups, &waiting));
            render_text(view, problem, many, shown)
        }
        OutputFormat::Json => {
            let groups = groups.iter().map(|(key, id)| {
                let mut group = json::group_key_json(of(*id));
                group["reason"] = json!(waiting.waiting_reason_json(key, *id));
                group
            });
            let trouble = problem.map(|SchedulingProblem { kind, key, message, remedy }| {
                json!({ kind: key.to_string(), "message": message, "remedy": remedy })
            });
            let shown = shown.map(|(of, notes)| json::group_json(view.snapshot(), &of, &notes));
            let document = json!({
                "workload": format!("{namespace}/{name}"),
                "trouble": trouble,
                "podGroups": groups.collect::<Vec<_>>(),
                "explained": shown,
            });
            format!("{document:#}\n")
        }
    })
}

fn render_text(
    view: &ClusterView,
    trouble: Option<SchedulingProblem<'_>>,
    many: Option<String>,
    shown: Option<(Explanation, Vec<String>)>,
) -> String {
    let trouble = trouble.map(|SchedulingProblem { kind, key, message, remedy }| {
        let what = match kind {
            "pod" => format!("pod {key} waits"),
            _ => format!("pod group {key} starts no more pods"),
        };
        format!("{what}\n\nreason: {message}\n\nremedy: {remedy}\n")
    });
    let shown = shown.map(|(explanation, notes)| {
        let text =
            ExplanationText { snapshot: view.snapshot(), explanation: &explanation }.to_string();
        text + &super::notes_section(&notes)
    });
    trouble.into_iter().chain(many).chain(shown).collect::<Vec<_>>().join("\n")
}

fn find_group_id(view: &ClusterView, key: &ObjectKey) -> Option<PodGroupId> {
    let mut groups = (0..).map(PodGroupId).zip(&view.snapshot().pod_groups);
    let is_meant = |group: &PodGroup| group.namespace == key.namespace && group.name == key.name;
    groups.find(|(_, group)| is_meant(group)).map(|(id, _)| id)
}

fn pod_problem<'a>(view: &ClusterView, key: &'a ObjectKey) -> Option<SchedulingProblem<'a>> {
    let trouble = view.translator.built.unschedulable.get(key)?;
    let grouper_message =
        grouper_message(view, key).filter(|_| *trouble == UnschedulableReason::NoGroup);
    let (message, remedy) = match grouper_message {
        Some(message) => (message, "fix what the message names".to_owned()),
        None => (trouble.to_string(), trouble.remedy()),
    };
    Some(SchedulingProblem { kind: "pod", key, message, remedy })
}

/// The pod grouper's message on an ungrouped pod, from its condition: it depends on owners, which
/// are not read here.
fn grouper_message(view: &ClusterView, key: &ObjectKey) -> Option<String> {
    let condition = view.cache.pods.get(key)?.reported.pod_scheduled.as_ref()?;
    condition.message.starts_with(UNGROUPED_PREFIX).then(|| condition.message.to_string())
}

/// The problem of a malformed group. Its running pods keep running.
fn group_problem<'a>(view: &ClusterView, key: &'a ObjectKey) -> Option<SchedulingProblem<'a>> {
    let trouble = UnschedulableReason::for_malformed_group(&key.name, view.cache.groups.get(key)?)?;
    Some(SchedulingProblem {
        kind: "podGroup",
        key,
        message: trouble.to_string(),
        remedy: trouble.remedy(),
    })
}

impl WaitingReasons {
    fn waiting_code(&self, key: &ObjectKey, id: PodGroupId) -> Option<&'static str> {
        let by_plan = || self.by_plan.get(&id).map(Reason::code);
        self.bind_failures.get(key).map(|_| conditions::BINDING_ERROR).or_else(by_plan)
    }

    fn waiting_reason_json(&self, key: &ObjectKey, id: PodGroupId) -> Option<Value> {
        let by_plan = || self.by_plan.get(&id).map(json::reason_json);
        let bind_failures = self.bind_failures.get(key);
        let bind_failures = bind_failures
            .map(|it| json!({ "code": conditions::BINDING_ERROR, "message": &*it.message }));
        bind_failures.or_else(by_plan)
    }
}

/// Pods that the next cycle would bind.
fn pods_to_bind(view: &ClusterView, plan: &Plan) -> BTreeSet<ObjectKey> {
    let bound = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Bind { pod, .. } => Some(&view.snapshot().pods[pod.0 as usize]),
        Decision::Evict { .. } | Decision::Pipeline { .. } => None,
    });
    let key = |pod: &Pod| ObjectKey { namespace: pod.namespace.clone(), name: pod.name.clone() };
    bound.map(key).collect()
}

/// The first pod that has a node, or would get one now, and whose binding failed so far.
fn bind_problem<'a>(
    view: &ClusterView,
    pods: &'a [ObjectKey],
    tried: &BTreeSet<ObjectKey>,
) -> Option<SchedulingProblem<'a>> {
    pods.iter().find_map(|key| {
        let bind_failures = BindFailure::failure_of_pod(key, view.cache.pods.get(key)?, tried)?;
        let remedy = bind_failures.remedy();
        Some(SchedulingProblem {
            kind: "pod",
            key,
            message: bind_failures.message.to_string(),
            remedy,
        })
    })
}

async fn resolve_target(
    view: &ClusterView,
    namespace: &str,
    name: &str,
) -> anyhow::Result<ExplainTarget> {
    let key = ObjectKey { namespace: namespace.into(), name: name.into() };
    let mut grouper = PodGrouper::new(&view.config);
    if view.cache.groups.contains_key(&key) {
        let ours = view.cache.pods_of_group(&key).filter(|(_, pod)| pod.is_ours);
        let pods: Vec<ObjectKey> = ours.map(|(pod, _)| pod).collect();
        let chain = owner_chain(view, &mut grouper, pods.first()).await?;
        return Ok(ExplainTarget { pods, groups: vec![key], chain });
    }
    if let Some(pod) = view.cache.pods.get(&key) {
        if !pod.is_ours {
            bail!(not_ours_message(&view.cache, &key, pod, &view.config));
        }
        let groups = group_key(&key, pod).into_iter().collect();
        let chain = owner_chain(view, &mut grouper, Some(&key)).await?;
        return Ok(ExplainTarget { pods: vec![key], groups, chain });
    }
    resolve_owner(view, &mut grouper, &key).await
}

/// Why this scheduler does not schedule the pod: another scheduler name, or another node pool (that
/// of its group, if it has one).
fn not_ours_message(
    cache: &ClusterCache,
    key: &ObjectKey,
    pod: &PodRecord,
    config: &Config,
) -> String {
    let name = &config.scheduler_name;
    let of_this_scheduler = pod.scheduler == Scheduler::This;
    let Some(NodePool { label, value }) = config.node_pool.as_ref().filter(|_| of_this_scheduler)
    else {
        return format!("pod {key} does not belong to scheduler {name}");
    };
    let group = group_key(key, pod).and_then(|key| Some((cache.groups.get(&key)?, key)));
    let (whose, found) = match &group {
        Some((record, key)) => (format!("pod group {key}"), record.pool_label.as_ref()),
        None => ("it".to_owned(), cache.pool_label(&pod.labels)),
    };
    let found = found.map_or_else(|| format!("no label {label}"), |it| format!("{label}={it}"));
    let pool = match &**value {
        "" => format!("objects without label {label}"),
        value => format!("node pool {label}={value}"),
    };
    format!(
        "pod {key} belongs to another node pool: {whose} has {found}, and this {name} serves {pool}"
    )
}

/// The pods with an owner of that name, direct or indirect.
async fn resolve_owner(
    view: &ClusterView,
    grouper: &mut PodGrouper,
    key: &ObjectKey,
) -> anyhow::Result<ExplainTarget> {
    let mut target = ExplainTarget { pods: Vec::new(), groups: Vec::new(), chain: Vec::new() };
    let of_namespace = view.cache.pods.iter().filter(|(pod, _)| pod.namespace == key.namespace);
    for (pod, record) in of_namespace.filter(|(_, record)| record.is_ours && record.owner.is_some())
    {
        let chain = match &view.api {
            Some(api) => grouper.owner_chain(api, &pod.namespace, record).await?,
            None => Vec::new(),
        };
        let is_owned = chain.iter().any(|link| link.owner.name == key.name)
            || is_owned_in_capture(view, pod, record, &key.name);
        if !is_owned {
            continue;
        }
        target.pods.push(pod.clone());
        target.groups.extend(group_key(pod, record).filter(|group| !target.groups.contains(group)));
        if target.chain.is_empty() {
            target.chain = chain;
        }
    }
    if target.pods.is_empty() {
        bail!(
            "{key}: scheduler {} has no pod group and no pod of that name, and no pod with an owner \
             of that name",
            view.config.scheduler_name
        );
    }
    Ok(target)
}

/// Whether a pod of a captured cluster has an owner of that name: its own, or that of its group,
/// which is the last one of the chain.
fn is_owned_in_capture(
    view: &ClusterView,
    pod: &ObjectKey,
    record: &PodRecord,
    name: &Name,
) -> bool {
    let group = group_key(pod, record).and_then(|key| view.cache.groups.get(&key)?.owner.as_ref());
    let owners = record.owner.iter().chain(group);
    view.api.is_none() && owners.into_iter().any(|owner| owner.name == *name)
}

async fn owner_chain(
    view: &ClusterView,
    grouper: &mut PodGrouper,
    pod: Option<&ObjectKey>,
) -> anyhow::Result<Vec<OwnerLink>> {
    let record = pod.and_then(|pod| view.cache.pods.get(pod));
    match (&view.api, pod.zip(record)) {
        (Some(api), Some((pod, record))) => {
            Ok(grouper.owner_chain(api, &pod.namespace, record).await?)
        }
        (None, _) | (_, None) => Ok(Vec::new()),
    }
}

fn group_key(pod: &ObjectKey, record: &PodRecord) -> Option<ObjectKey> {
    let name = Name::clone(record.group.as_ref()?);
    Some(ObjectKey { namespace: Name::clone(&pod.namespace), name })
}

/// Summary of several pod groups under one name, by pending reason.
fn groups_summary(
    name: &str,
    groups: &[(&ObjectKey, PodGroupId)],
    waiting: &WaitingReasons,
) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, id) in groups {
        *counts.entry(waiting.waiting_code(key, *id).unwrap_or_default()).or_default() += 1;
    }
    let count = |(reason, count): (&str, usize)| match reason {
        "" => format!("{count} not pending"),
        reason => format!("{count} pending ({reason})"),
    };
    let counts: Vec<String> = counts.into_iter().map(count).collect();
    format!("{name} has {} pod groups: {}; one of them:\n", groups.len(), counts.join(", "))
}

fn workload_notes(
    view: &ClusterView,
    key: &ObjectKey,
    group: &PodGroup,
    target: &ExplainTarget,
    groups: usize,
) -> Vec<String> {
    let top = target.chain.last();
    let serves = top.is_some_and(|top| &*top.owner.kind == "Deployment");
    let mut notes = view.notes.clone();
    if !group.preemptible {
        notes.push(non_preemptible_note(view.cache.groups.get(key), group.priority, serves));
    }
    if let Some(top) = top.filter(|_| serves) {
        let annotations = strings(&top.object, "/metadata/annotations");
        let minimum = annotations.get(BATCH_MIN_MEMBER).map_or_else(String::new, |minimum| {
            format!(" Annotation {BATCH_MIN_MEMBER}={minimum} has an effect on Jobs only.")
        });
        let count = if groups > 1 { format!(" (here {groups})") } else { String::new() };
        notes.push(format!(
            "Deployment {} is not a gang: as in KAI each of its pods{count} is a pod group of its own \
             and starts alone.{minimum} A Job with annotation {BATCH_MIN_MEMBER} starts as a \
             whole or not at all.",
            top.owner.name
        ));
    }
    notes
}

fn search_limit_note(simulations: usize) -> String {
    format!(
        "The search stopped at the limit of simulated evictions, {simulations}. After that, it \
         simulates evictions for this workload only, in at most {CYCLES_AFTER_LIMIT} cycles: other \
         workloads may evict pods as well, and other suggestions may let it run. --simulations raises \
         the limit."
    )
}

fn non_preemptible_note(
    record: Option<&PodGroupRecord>,
    priority: i32,
    is_serving: bool,
) -> String {
    let stated = record.is_some_and(|record| record.preemptible == Some(false));
    let class = record.and_then(|record| record.priority_class.as_deref()).unwrap_or("none");
    let from = if is_serving && class == "inference" {
        ", KAI's default for pods of a Deployment"
    } else {
        ""
    };
    let (why, or_class) = if stated {
        ("its preemptibility is set explicitly, regardless of its class".to_owned(), "")
    } else {
        let why =
            format!("its priority is {priority}, and priorities from 100 are non-preemptible");
        (format!("{why} (class {class}{from})"), ", or priorityClassName: train,")
    };
    format!(
        "It is non-preemptible, since {why}. Non-preemptible workloads must stay within the quota \
         of their queue, as borrowed capacity could not be reclaimed. Label \
         kai.scheduler/preemptibility: preemptible{or_class} lets new pods borrow; existing pods \
         borrow when their PodGroup has spec.preemptibility: preemptible."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Kind;

    /// The message for a pod and a group with these labels, in a scheduler of pool `value`.
    fn pool_message(value: &str, scheduler: &str, [pod, group]: [&[(&str, &str)]; 2]) -> String {
        let pool = NodePool { label: "pool".to_owned(), value: value.to_owned() };
        let config = Config { node_pool: Some(pool.clone()), ..Config::kai() };
        let mut cache = ClusterCache::new("kai-scheduler").with_pool(Some(pool));
        let labels = |all: &[(&str, &str)]| json!(all.iter().copied().collect::<BTreeMap<_, _>>());
        if !group.is_empty() {
            cache.upsert(
                Kind::PodGroup,
                &json!({ "metadata": { "namespace": "ns", "name": "g", "labels": labels(group) } }),
            );
        }
        let annotations = json!({ "pod-group-name": "g" });
        let metadata = json!({ "namespace": "ns", "name": "p", "labels": labels(pod),
                               "annotations": annotations });
        let spec = json!({ "schedulerName": scheduler });
        cache.upsert(Kind::Pod, &json!({ "metadata": metadata, "spec": spec }));
        let key = ObjectKey { namespace: "ns".into(), name: "p".into() };
        let pod = &cache.pods[&key];
        assert!(!pod.is_ours);
        not_ours_message(&cache, &key, pod, &config)
    }

    #[test]
    fn a_pod_of_another_node_pool_is_explained_by_both_pools() {
        assert_eq!(
            pool_message("x", "kai-scheduler", [&[("pool", "y")], &[]]),
            "pod ns/p belongs to another node pool: it has pool=y, and this kai-scheduler serves \
             node pool pool=x"
        );
        assert_eq!(
            pool_message("x", "kai-scheduler", [&[], &[]]),
            "pod ns/p belongs to another node pool: it has no label pool, and this kai-scheduler \
             serves node pool pool=x"
        );
        assert_eq!(
            pool_message("", "kai-scheduler", [&[], &[("pool", "y")]]),
            "pod ns/p belongs to another node pool: pod group ns/g has pool=y, and this \
             kai-scheduler serves objects without label pool"
        );
        assert_eq!(
            pool_message("x", "other", [&[("pool", "x")], &[]]),
            "pod ns/p does not belong to scheduler kai-scheduler"
        );
    }

    #[test]
    fn a_priority_class_is_not_suggested_when_preemptibility_is_explicit() {
        let note_for = |spec: Value| {
            let record = PodGroupRecord::from_object(&json!({ "spec": spec }), "default");
            non_preemptible_note(Some(&record), 125, false)
        };
        let by_class = note_for(json!({ "priorityClassName": "inference" }));
        assert!(by_class.contains("or priorityClassName: train, lets new pods"), "{by_class}");
        let stated = note_for(json!({ "preemptibility": "non-preemptible" }));
        assert!(!stated.contains("train"), "{stated}");
        assert!(stated.contains("preemptibility: preemptible lets new pods"), "{stated}");
    }
}
