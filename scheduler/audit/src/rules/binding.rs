//! Rules that are checked when a pod is bound: it is bound once (3), to an existing node (22) that
//! accepts it (3), within the capacity of the node (1) and the bounds of its queues (5), and
//! requests no negative amount (29); and when it gets its GPUs (2). Not checked: inter-pod
//! affinity, host ports and topology spread.

use schedlab_api::{resources, taints};

use super::objects::{Name, NodeSelectorTerm, Operator, Requirement, TaintEffect, Toleration};
use super::{
    Amounts, AuditProfile, AuditedObject, Auditor, BoundLevels, NodeView, Phase, PodView,
    QueueView, Rule, breach::format_thousandths, numa, sharing,
};

pub(super) fn check_pod_change(
    auditor: &mut Auditor,
    name: &Name,
    before: &PodView,
    after: &PodView,
) {
    match (&before.node, &after.node) {
        (None, Some(node)) => check_bind(auditor, name, after, node),
        (Some(old), Some(new)) if old != new => {
            let detail = format!("pod {name} is on node {old} and was bound again, to {new}");
            let objects = vec![AuditedObject::Pod(name.clone())];
            auditor.report_breach(Rule::Binding, objects, detail);
        }
        (Some(old), None) => {
            let detail = format!("pod {name} lost its node {old}");
            auditor.report_breach(Rule::Binding, vec![AuditedObject::Pod(name.clone())], detail);
        }
        (None, None) | (Some(_), Some(_)) => {}
    }
    if let (Some(node), Some(devices)) = (&after.node, &after.devices)
        && after.devices != before.devices
    {
        check_assigned_gpus(auditor, name, after, node, devices);
    }
}

fn check_bind(auditor: &mut Auditor, name: &Name, pod: &PodView, node: &Name) {
    let objects = vec![AuditedObject::Pod(name.clone()), AuditedObject::Node(node.clone())];
    if let Some(why) = unbindable_pod_error(pod) {
        let detail = format!("pod {name} was bound to {node}, but {why}");
        auditor.report_breach(Rule::Binding, objects.clone(), detail);
    }
    if let Some((resource, requested)) = pod.requests.iter().find(|(_, requested)| **requested < 0)
    {
        let detail = format!(
            "pod {name} requests {} {resource} and was bound",
            format_thousandths(*requested)
        );
        auditor.report_breach(Rule::Negative, objects.clone(), detail);
    }
    let at = auditor.now;
    let seen: Vec<NodeView> = auditor
        .view
        .nodes
        .get(node)
        .map(|node| node.visible_at(at).cloned().collect())
        .unwrap_or_default();
    if seen.is_empty() {
        let detail = format!("pod {name} was bound to node {node}, which does not exist");
        auditor.report_breach(Rule::GoneNode, objects, detail);
        return;
    }
    if let Some(why) = rejection_by_all(&seen, |view| unsuitable_node_error(auditor, pod, view)) {
        let detail = format!("pod {name} was bound to node {node}, {why}");
        auditor.report_breach(Rule::Binding, objects.clone(), detail);
    }
    if let Some(why) =
        rejection_by_all(&seen, |view| exceeded_capacity_error(auditor, pod, node, view))
    {
        let detail = format!("with pod {name}, pods on node {node} {why}");
        auditor.report_breach(Rule::Capacity, objects.clone(), detail);
    }
    if auditor.rules.profile == AuditProfile::Kai
        && let Some(why) =
            rejection_by_all(&seen, |view| numa::misalignment_error(auditor, pod, node, view))
    {
        let detail = format!("with pod {name}, pods on node {node} {why}");
        auditor.report_breach(Rule::Capacity, objects.clone(), detail);
    }
    if !pod.device_shares.is_empty()
        && let Some(why) =
            rejection_by_all(&seen, |view| sharing::device_overuse_error(auditor, node, view))
    {
        let detail = format!("with pod {name}, pods on node {node} {why}");
        auditor.report_breach(Rule::Devices, objects.clone(), detail);
    }
    if let Some((claim, why)) = sharing::unready_claim_error(auditor, pod, node) {
        let detail = format!("pod {name} was bound to {node}, but claim {claim} {why}");
        auditor.report_breach(Rule::Devices, objects.clone(), detail);
    }
    if let Some(why) = rejection_by_all(&seen, |view| unreachable_claim_error(auditor, pod, view)) {
        let detail = format!("pod {name} was bound to {node}, {why}");
        auditor.report_breach(Rule::Devices, objects.clone(), detail);
    }
    if let Some((claim, elsewhere)) = sharing::claim_on_other_node(auditor, pod, node) {
        let detail =
            format!("pod {name} uses claim {claim} on {node}; other pods use it on {elsewhere}");
        auditor.report_breach(Rule::Devices, objects, detail);
    }
    if auditor.rules.profile == AuditProfile::Kai {
        check_queue_bounds(auditor, name, pod);
    }
}

/// The last rejection, if `check` rejects every state in `seen`, the states that the scheduler may
/// have known. `None` if it accepts one of them.
fn rejection_by_all<T>(seen: &[T], check: impl Fn(&T) -> Option<String>) -> Option<String> {
    let rejections: Vec<String> = seen.iter().filter_map(check).collect();
    if rejections.len() < seen.len() { None } else { rejections.into_iter().next() }
}

fn unbindable_pod_error(pod: &PodView) -> Option<&'static str> {
    match pod.phase {
        Phase::Gated => return Some("it has scheduling gates"),
        Phase::Succeeded | Phase::Failed => return Some("it has finished"),
        Phase::Alive => {}
    }
    pod.leaving.then_some("it is being deleted")
}

fn unsuitable_node_error(auditor: &Auditor, pod: &PodView, node: &NodeView) -> Option<String> {
    if auditor.rules.profile == AuditProfile::Kai && !node.ready {
        return Some("which is not ready".to_owned());
    }
    let cordon = taints::UNSCHEDULABLE;
    if node.cordoned && !pod.tolerations.iter().any(|t| tolerates(t, cordon, "", NO_SCHEDULE)) {
        return Some("which is cordoned".to_owned());
    }
    if let Some(taint) = node.taints.iter().find(|taint| {
        let repels = taint.effect != TaintEffect::PreferNoSchedule;
        let ours = |t: &Toleration| tolerates(t, &taint.key, &taint.value, taint.effect);
        repels && !pod.tolerations.iter().any(ours)
    }) {
        return Some(format!("whose taint {} the pod does not tolerate", taint.key));
    }
    if let Some((key, value)) =
        pod.node_selector.iter().find(|(key, value)| node.labels.get(*key) != Some(value))
    {
        return Some(format!("which lacks the label {key}={value} of the pod's node selector"));
    }
    let affine = |terms: &Vec<NodeSelectorTerm>| terms.iter().any(|term| term_matches(term, node));
    let refused = pod.node_affinity.as_ref().is_some_and(|terms| !affine(terms));
    refused.then(|| "which the pod's node affinity does not select".to_owned())
}

/// The error message if a claim of the pod is allocated devices that the node cannot use.
fn unreachable_claim_error(auditor: &Auditor, pod: &PodView, node: &NodeView) -> Option<String> {
    let can_use = |terms: &Vec<NodeSelectorTerm>| terms.iter().any(|term| term_matches(term, node));
    let is_out = |claim: &&Name| {
        let claim = auditor.view.claims.get(*claim);
        claim.and_then(|claim| claim.terms.as_ref()).is_some_and(|terms| !can_use(terms))
    };
    let claim = pod.claims.keys().find(is_out)?;
    Some(format!("which cannot use the devices of claim {claim}"))
}

const NO_SCHEDULE: TaintEffect = TaintEffect::NoSchedule;

fn tolerates(toleration: &Toleration, key: &str, value: &str, effect: TaintEffect) -> bool {
    toleration.key.as_deref().is_none_or(|expected| expected == key)
        && toleration.value.as_deref().is_none_or(|expected| expected == value)
        && toleration.effect.is_none_or(|expected| expected == effect)
}

fn term_matches(term: &NodeSelectorTerm, node: &NodeView) -> bool {
    let labels = term.labels.iter().all(|rule| requirement_holds(rule, node.labels.get(&rule.key)));
    // Matching `metadata.name` is left out: no rule here needs it.
    let any = !term.labels.is_empty() || !term.fields.is_empty();
    any && labels
}

fn requirement_holds(requirement: &Requirement, label_value: Option<&Name>) -> bool {
    let listed = label_value.is_some_and(|found| requirement.values.contains(found));
    let number = |name: Option<&Name>| name.and_then(|name| name.parse::<i64>().ok());
    let compared = || Some((number(label_value)?, number(requirement.values.first())?));
    match requirement.operator {
        Operator::In => listed,
        Operator::NotIn => !listed,
        Operator::Exists => label_value.is_some(),
        Operator::DoesNotExist => label_value.is_none(),
        Operator::Gt => compared().is_some_and(|(found, bound)| found > bound),
        Operator::Lt => compared().is_some_and(|(found, bound)| found < bound),
    }
}

fn exceeded_capacity_error(
    auditor: &Auditor,
    pod: &PodView,
    name: &Name,
    node: &NodeView,
) -> Option<String> {
    let used = &auditor.accounts.node_usage(name)?.used;
    let requested = pod.node_requests().filter(|(_, requested)| **requested > 0);
    let (resource, used, offered) = requested.into_iter().find_map(|(resource, _)| {
        let used = used.get(resource).copied().unwrap_or(0);
        let offered = node.allocatable.get(resource).copied().unwrap_or(0);
        (used > offered).then_some((resource, used, offered))
    })?;
    Some(format!(
        "request {} {resource}; the node has {}",
        format_thousandths(used),
        format_thousandths(offered)
    ))
}

/// Checks rule 5 (limits and quotas) for a bound pod: at its leaf queue and, if the audited
/// scheduler enforces them there, at all ancestors.
fn check_queue_bounds(auditor: &mut Auditor, name: &Name, pod: &PodView) {
    let Some(group) = auditor.view.group_of(pod).cloned() else { return };
    let at = auditor.now;
    let levels = match auditor.rules.bounds {
        BoundLevels::All => usize::MAX,
        BoundLevels::LeafOnly => 1,
        BoundLevels::None => 0,
    };
    for queue in auditor.view.queue_and_ancestors(&group.queue).into_iter().take(levels) {
        let Some(account) = auditor.accounts.queue_account(&queue).cloned() else { continue };
        let Some(seen) = auditor.view.queues.get(&queue) else { continue };
        let seen: Vec<QueueView> = seen.visible_at(at).cloned().collect();
        let brought = account.charge_of_new_pod(pod);
        let fixed = &account.non_preemptible;
        let over_limit = rejection_by_all(&seen, |view| {
            exceeded_bound_error("limit", &brought, &account.used, &view.limit)
        });
        let over_quota = rejection_by_all(&seen, |view| {
            exceeded_bound_error("quota", &brought, fixed, &view.quota)
        })
        .filter(|_| !group.preemptible);
        let objects =
            || vec![AuditedObject::Pod(name.clone()), AuditedObject::Queue(queue.clone())];
        if let Some(why) = over_limit.filter(|_| !seen.is_empty()) {
            let detail = format!("with pod {name}, queue {queue} uses {why}");
            auditor.report_breach(Rule::Bounds, objects(), detail);
        }
        if let Some(why) = over_quota.filter(|_| !seen.is_empty()) {
            let detail =
                format!("with pod {name}, non-preemptible pods of queue {queue} use {why}");
            auditor.report_breach(Rule::Bounds, objects(), detail);
        }
    }
}

fn exceeded_bound_error(
    bound_name: &str,
    added: &Amounts,
    used: &Amounts,
    bounds: &Amounts,
) -> Option<String> {
    let mut requested = added.iter().filter(|(_, requested)| **requested > 0);
    let (resource, used, bound) = requested.find_map(|(resource, _)| {
        let used = used.get(resource).copied().unwrap_or(0);
        let bound = bounds.get(resource).copied()?;
        (used > bound).then_some((resource, used, bound))
    })?;
    Some(format!(
        "{} {resource}; its {bound_name} is {}",
        format_thousandths(used),
        format_thousandths(bound)
    ))
}

/// Checks rule 2 for the GPUs that the pod was assigned: as many as requested, all of them
/// existing, none assigned twice.
fn check_assigned_gpus(
    auditor: &mut Auditor,
    name: &Name,
    pod: &PodView,
    node: &Name,
    devices: &[u32],
) {
    let mut wrong: Vec<(Option<Name>, String)> = Vec::new();
    let requested = pod.requests.get(resources::GPU).copied().unwrap_or(0);
    if requested != 1000 * i128::try_from(devices.len()).unwrap_or(i128::MAX) {
        let detail = format!(
            "was given {} GPUs and requests {}",
            devices.len(),
            format_thousandths(requested)
        );
        wrong.push((None, detail));
    }
    if let Some(twice) = devices.iter().enumerate().find(|(at, one)| devices[..*at].contains(one)) {
        wrong.push((None, format!("was given GPU {} of node {node} twice", twice.1)));
    }
    let known = auditor.view.nodes.get(node).and_then(|node| node.now.as_ref());
    let count = known.and_then(|node| node.allocatable.get(resources::GPU)).copied();
    if let (Some(count), Some(last)) = (count, devices.iter().max())
        && i128::from(*last) * 1000 >= count
    {
        wrong.push((
            None,
            format!("was given GPU {last} of node {node}, which has {}", format_thousandths(count)),
        ));
    }
    let others = auditor.accounts.node_usage(node).map(|account| &account.pods);
    for other in others.into_iter().flatten().filter(|other| *other != name) {
        let held = auditor.view.pods.get(other).and_then(|pod| pod.devices.as_ref());
        if let Some(both) = held.and_then(|held| devices.iter().find(|one| held.contains(one))) {
            let detail = format!("was given GPU {both} of node {node}, which pod {other} has");
            wrong.push((Some(other.clone()), detail));
        }
    }
    for (other, detail) in wrong {
        let mut objects = vec![AuditedObject::Pod(name.clone()), AuditedObject::Node(node.clone())];
        objects.extend(other.map(AuditedObject::Pod));
        auditor.report_breach(Rule::Devices, objects, format!("pod {name} {detail}"));
    }
}
