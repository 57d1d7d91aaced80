//! Explanations as JSON: the content of the text, with codes and numbers. GPUs and CPU cores are
//! numbers with thousandths, memory is in bytes, and -1 means unlimited, as in the Queue API.

use schedlab_api::{Map, Value, json};
use schedlab_explain::{
    Explanation, NewNodeSize, QueueBalance, QueueExplanation, SuggestedStep, TrialOutcome,
    VictimCandidate,
};
use schedlab_scheduler_core::{
    Decision, Reason, Snapshot,
    framework::Fit,
    model::{DeviceClaim, ExcludedNodes, PodGroup, PodGroupId, PodId},
    queues::Account,
    resources::{Amount, PerResource, Resources},
};

/// A pod group's explanation as JSON.
pub(super) fn group_json(
    snapshot: &Snapshot,
    explanation: &Explanation,
    notes: &[String],
) -> Value {
    let group = &snapshot.pod_groups[explanation.group.0 as usize];
    let plugin = |(name, refusal): &(String, Option<Reason>)| json!({ "name": name, "refusal": refusal.as_ref().map(reason_json) });
    let queue = |(id, account): &(_, Account)| {
        let schedlab_scheduler_core::model::QueueId(at) = id;
        json!({ "name": &*snapshot.queues[*at as usize].name, "accounts": accounts_json(account) })
    };
    json!({
        "namespace": &*group.namespace,
        "name": &*group.name,
        "podsWithNode": explanation.active,
        "podsWaiting": explanation.pending,
        "decided": decisions_json(snapshot, &explanation.decisions),
        "reason": explanation.reason.as_ref().map(reason_json),
        "remedies": explanation.suggestions.iter().map(step_json).collect::<Vec<_>>(),
        "queues": explanation.queues.iter().map(queue).collect::<Vec<_>>(),
        "plugins": explanation.plugins.iter().map(plugin).collect::<Vec<_>>(),
        "nodes": nodes_json(snapshot, explanation),
        "notes": notes,
    })
}

/// A queue's explanation as JSON.
pub(super) fn queue_json(
    snapshot: &Snapshot,
    explanation: &QueueExplanation,
    notes: &[String],
) -> Value {
    let name = |at: usize| &*snapshot.queues[at].name;
    let resources = ["gpu", "cpu", "memory"];
    let all = explanation.accounts.iter().enumerate().map(|(at, account)| {
        let standing = resources.iter().zip(QueueBalance::new(account)).zip(UNIT_SCALES);
        let standing: Map = standing
            .map(|((resource, standing), scale)| {
                ((*resource).to_owned(), standing_json(standing, scale))
            })
            .collect();
        json!({
            "name": name(at),
            "parent": account.parent.map(|parent| name(parent.0 as usize)),
            "accounts": accounts_json(account),
            "standing": standing,
        })
    });
    let levels = resources.iter().zip(&explanation.derivations).zip(UNIT_SCALES);
    let derivation: Map = levels
        .map(|((resource, levels), scale)| {
            let level = |level: &schedlab_scheduler_core::queues::fairshare::LevelDivision| {
                let shares = level.siblings.iter().zip(&level.shares);
                let shares: Map = shares
                    .map(|(at, share)| (name(*at).to_owned(), scaled_json(*share, scale)))
                    .collect();
                json!({ "divided": scaled_json(level.input.total, scale), "fairShares": shares })
            };
            ((*resource).to_owned(), levels.iter().map(level).collect::<Value>())
        })
        .collect();
    let candidates = |all: &[VictimCandidate]| -> Vec<Value> {
        all.iter().map(|one| candidate_json(snapshot, one)).collect()
    };
    json!({
        "name": name(explanation.queue.0 as usize),
        "queues": all.collect::<Vec<_>>(),
        "derivation": derivation,
        "wouldTakeFrom": candidates(&explanation.reclaimable),
        "wouldLose": candidates(&explanation.eviction_order),
        "decided": decisions_json(snapshot, &explanation.evictions),
        "notes": notes,
    })
}

/// A pending reason as JSON: code and message.
pub(super) fn reason_json(reason: &Reason) -> Value {
    json!({ "code": reason.code(), "message": reason.to_string() })
}

pub(super) fn group_key_json(group: &PodGroup) -> Value {
    json!({ "namespace": &*group.namespace, "name": &*group.name })
}

fn step_json(step: &SuggestedStep) -> Value {
    let outcome = match &step.outcome {
        TrialOutcome::Runs { node, fits, new_nodes } => {
            let when = match fits {
                Fit::Now => "at once",
                Fit::Later => "when others have left",
            };
            let mut outcome = json!({ "runs": true, "node": &**node, "when": when });
            let only = match new_nodes {
                NewNodeSize::Any => None,
                NewNodeSize::OnePodEach => Some("onePodEach"),
                NewNodeSize::AllPodsOfNode => Some("whole"),
                NewNodeSize::Large => Some("large"),
            };
            if let Some(only) = only {
                outcome["addedNodes"] = Value::from(only);
            }
            outcome
        }
        TrialOutcome::EvictedAgain(next) => {
            json!({ "runs": false, "leaves": true, "reason": reason_json(next) })
        }
        TrialOutcome::StillPending(next) => json!({ "runs": false, "reason": reason_json(next) }),
        TrialOutcome::NotSimulated => Value::Null,
    };
    json!({
        "remedy": step.suggestion.to_string(),
        "inAll": step.total.as_ref().map(ToString::to_string),
        "least": step.minimum.as_ref().map(ToString::to_string),
        "outcome": outcome,
    })
}

fn nodes_json(snapshot: &Snapshot, explanation: &Explanation) -> Value {
    let Some(nodes) = &explanation.nodes else { return Value::Null };
    let groups = nodes.groups.iter().map(|group| {
        let refusals = group.rejections.iter().map(|(plugin, misfit)| {
            let says = misfit.as_ref().map_or_else(
                || "the pod would have to wait until other pods have left the node".to_owned(),
                ToString::to_string,
            );
            json!({ "plugin": plugin, "says": says, "waits": misfit.is_none() })
        });
        json!({
            "nodes": group.nodes.iter().map(|name| &**name).collect::<Vec<_>>(),
            "refusals": refusals.collect::<Vec<_>>(),
            "free": resources_json(&group.free),
            "allocatable": resources_json(&group.allocatable),
            "mates": group.gang_peers,
        })
    });
    json!({
        "pod": pod_name(snapshot, nodes.pod),
        "asks": resources_json(&nodes.request),
        "claims": nodes.claims.iter().map(claim_json).collect::<Vec<_>>(),
        "groups": groups.collect::<Vec<_>>(),
        "leftOut": snapshot.excluded_nodes.iter().map(excluded_nodes_json).collect::<Vec<_>>(),
    })
}

fn claim_json(claim: &DeviceClaim) -> Value {
    json!({ "name": &*claim.name, "devices": resources_json(&claim.devices),
            "everyDevice": !claim.allocate_all.is_empty() })
}

fn excluded_nodes_json(excluded: &ExcludedNodes) -> Value {
    json!({ "nodes": excluded.nodes.iter().map(|name| &**name).collect::<Vec<_>>(), "why": excluded.exclusion_reason() })
}

fn decisions_json(snapshot: &Snapshot, decisions: &[Decision]) -> Vec<Value> {
    let node = |at: u32| &*snapshot.nodes[at as usize].name;
    let decision_json = |decision: &Decision| match decision {
        Decision::Bind { pod: id, node: at } => {
            json!({ "decision": "bind", "pod": pod_name(snapshot, *id), "node": node(at.0) })
        }
        Decision::Pipeline { pod: id, node: at } => {
            json!({ "decision": "promise", "pod": pod_name(snapshot, *id), "node": node(at.0) })
        }
        Decision::Evict { pod: id, cause } => {
            let preemptor = cause.preemptor();
            let preemptor =
                preemptor.map(|PodGroupId(at)| group_key_json(&snapshot.pod_groups[at as usize]));
            json!({ "decision": "evict", "pod": pod_name(snapshot, *id), "action": cause.kai_action_name(),
                    "for": preemptor })
        }
    };
    decisions.iter().map(decision_json).collect()
}

fn candidate_json(snapshot: &Snapshot, candidate: &VictimCandidate) -> Value {
    json!({
        "queue": &*snapshot.queues[candidate.queue.0 as usize].name,
        "podGroup": group_key_json(&snapshot.pod_groups[candidate.group.0 as usize]),
        "pods": candidate.pods.iter().map(|id| pod_name(snapshot, *id)).collect::<Vec<_>>(),
        "isSurplus": candidate.is_elastic,
    })
}

fn pod_name(snapshot: &Snapshot, PodId(at): PodId) -> String {
    let pod = &snapshot.pods[at as usize];
    format!("{}/{}", pod.namespace, pod.name)
}

/// Internal units per exported unit of GPU, CPU and memory.
const UNIT_SCALES: [i64; 3] = [1000, 1000, 1];

#[expect(clippy::cast_precision_loss, reason = "for people and dashboards; memory stays exact")]
fn scaled_json(amount: i64, scale: i64) -> Value {
    if amount % scale == 0 { json!(amount / scale) } else { json!(amount as f64 / scale as f64) }
}

fn per_resource_json(amounts: PerResource<i64>) -> Value {
    let [gpu, cpu, memory] = amounts.values();
    json!({ "gpu": scaled_json(gpu, UNIT_SCALES[0]), "cpu": scaled_json(cpu, UNIT_SCALES[1]),
            "memory": scaled_json(memory, UNIT_SCALES[2]) })
}

fn resources_json(resources: &Resources) -> Value {
    let mut amounts = per_resource_json(resources.accounted_amounts());
    for (name, amount) in &resources.extended {
        amounts[&**name] = json!(if *amount == Resources::INEXHAUSTIBLE { -1 } else { *amount });
    }
    amounts
}

fn bounds_json(bounds: PerResource<Amount>) -> Value {
    let bound = |amount, scale| match amount {
        Amount::Unlimited => json!(-1),
        Amount::Exactly(amount) => scaled_json(amount, scale),
    };
    json!({ "gpu": bound(bounds.gpu, UNIT_SCALES[0]), "cpu": bound(bounds.cpu, UNIT_SCALES[1]),
            "memory": bound(bounds.memory, UNIT_SCALES[2]) })
}

fn accounts_json(account: &Account) -> Value {
    json!({
        "quota": bounds_json(account.quota),
        "limit": bounds_json(account.limit),
        "fairShare": per_resource_json(account.fair_share),
        "allocated": per_resource_json(account.allocated),
        "allocatedNonPreemptible": per_resource_json(account.allocated_non_preemptible),
        "requested": per_resource_json(account.requested),
    })
}

/// The standing of a queue for one resource as JSON: served, borrowing or starved. A starved queue
/// may also borrow; being starved comes first.
fn standing_json(standing: QueueBalance, scale: i64) -> Value {
    let QueueBalance { starved_of, borrows } = standing;
    match (starved_of > 0, borrows > 0) {
        (false, false) => json!({ "is": "served" }),
        (false, true) => json!({ "is": "borrowing", "by": scaled_json(borrows, scale) }),
        (true, _) => {
            let mut standing_object =
                json!({ "is": "starved", "by": scaled_json(starved_of, scale) });
            if borrows > 0 {
                standing_object["borrows"] = scaled_json(borrows, scale);
            }
            standing_object
        }
    }
}
