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
pub(super) fn group(snapshot: &Snapshot, of: &Explanation, notes: &[String]) -> Value {
    let group = &snapshot.pod_groups[of.group.0 as usize];
    let plugin = |(name, refusal): &(String, Option<Reason>)| json!({ "name": name, "refusal": refusal.as_ref().map(reason) });
    let queue = |(id, account): &(_, Account)| {
        let schedlab_scheduler_core::model::QueueId(at) = id;
        json!({ "name": &*snapshot.queues[*at as usize].name, "accounts": accounts(account) })
    };
    json!({
        "namespace": &*group.namespace,
        "name": &*group.name,
        "podsWithNode": of.active,
        "podsWaiting": of.pending,
        "decided": decisions(snapshot, &of.decisions),
        "reason": of.reason.as_ref().map(reason),
        "remedies": of.suggestions.iter().map(step).collect::<Vec<_>>(),
        "queues": of.queues.iter().map(queue).collect::<Vec<_>>(),
        "plugins": of.plugins.iter().map(plugin).collect::<Vec<_>>(),
        "nodes": nodes(snapshot, of),
        "notes": notes,
    })
}

/// A queue's explanation as JSON.
pub(super) fn queue(snapshot: &Snapshot, of: &QueueExplanation, notes: &[String]) -> Value {
    let name = |at: usize| &*snapshot.queues[at].name;
    let resources = ["gpu", "cpu", "memory"];
    let all = of.accounts.iter().enumerate().map(|(at, account)| {
        let standing = resources.iter().zip(QueueBalance::new(account)).zip(SCALES);
        let standing: Map = standing
            .map(|((resource, standing), scale)| {
                ((*resource).to_owned(), standing_json(standing, scale))
            })
            .collect();
        json!({
            "name": name(at),
            "parent": account.parent.map(|parent| name(parent.0 as usize)),
            "accounts": accounts(account),
            "standing": standing,
        })
    });
    let levels = resources.iter().zip(&of.derivations).zip(SCALES);
    let derivation: Map = levels
        .map(|((resource, levels), scale)| {
            let level = |level: &schedlab_scheduler_core::queues::fairshare::LevelDivision| {
                let shares = level.siblings.iter().zip(&level.shares);
                let shares: Map = shares
                    .map(|(at, share)| (name(*at).to_owned(), scaled(*share, scale)))
                    .collect();
                json!({ "divided": scaled(level.input.total, scale), "fairShares": shares })
            };
            ((*resource).to_owned(), levels.iter().map(level).collect::<Value>())
        })
        .collect();
    let candidates = |all: &[VictimCandidate]| -> Vec<Value> {
        all.iter().map(|one| candidate(snapshot, one)).collect()
    };
    json!({
        "name": name(of.queue.0 as usize),
        "queues": all.collect::<Vec<_>>(),
        "derivation": derivation,
        "wouldTakeFrom": candidates(&of.reclaimable),
        "wouldLose": candidates(&of.eviction_order),
        "decided": decisions(snapshot, &of.evictions),
        "notes": notes,
    })
}

/// A pending reason as JSON: code and message.
pub(super) fn reason(reason: &Reason) -> Value {
    json!({ "code": reason.code(), "message": reason.to_string() })
}

pub(super) fn title(group: &PodGroup) -> Value {
    json!({ "namespace": &*group.namespace, "name": &*group.name })
}

fn step(step: &SuggestedStep) -> Value {
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
            json!({ "runs": false, "leaves": true, "reason": reason(next) })
        }
        TrialOutcome::StillPending(next) => json!({ "runs": false, "reason": reason(next) }),
        TrialOutcome::NotSimulated => Value::Null,
    };
    json!({
        "remedy": step.suggestion.to_string(),
        "inAll": step.total.as_ref().map(ToString::to_string),
        "least": step.minimum.as_ref().map(ToString::to_string),
        "outcome": outcome,
    })
}

fn nodes(snapshot: &Snapshot, of: &Explanation) -> Value {
    let Some(nodes) = &of.nodes else { return Value::Null };
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
            "free": resources(&group.free),
            "allocatable": resources(&group.allocatable),
            "mates": group.gang_peers,
        })
    });
    json!({
        "pod": pod(snapshot, nodes.pod),
        "asks": resources(&nodes.request),
        "claims": nodes.claims.iter().map(claim).collect::<Vec<_>>(),
        "groups": groups.collect::<Vec<_>>(),
        "leftOut": snapshot.excluded_nodes.iter().map(excluded_nodes).collect::<Vec<_>>(),
    })
}

fn claim(of: &DeviceClaim) -> Value {
    json!({ "name": &*of.name, "devices": resources(&of.devices),
            "everyDevice": !of.allocate_all.is_empty() })
}

fn excluded_nodes(of: &ExcludedNodes) -> Value {
    json!({ "nodes": of.nodes.iter().map(|name| &**name).collect::<Vec<_>>(), "why": of.reason() })
}

fn decisions(snapshot: &Snapshot, decisions: &[Decision]) -> Vec<Value> {
    let node = |at: u32| &*snapshot.nodes[at as usize].name;
    let decision_json = |decision: &Decision| match decision {
        Decision::Bind { pod: id, node: at } => {
            json!({ "decision": "bind", "pod": pod(snapshot, *id), "node": node(at.0) })
        }
        Decision::Pipeline { pod: id, node: at } => {
            json!({ "decision": "promise", "pod": pod(snapshot, *id), "node": node(at.0) })
        }
        Decision::Evict { pod: id, cause } => {
            let preemptor = cause.preemptor();
            let preemptor =
                preemptor.map(|PodGroupId(at)| title(&snapshot.pod_groups[at as usize]));
            json!({ "decision": "evict", "pod": pod(snapshot, *id), "action": cause.action(),
                    "for": preemptor })
        }
    };
    decisions.iter().map(decision_json).collect()
}

fn candidate(snapshot: &Snapshot, of: &VictimCandidate) -> Value {
    json!({
        "queue": &*snapshot.queues[of.queue.0 as usize].name,
        "podGroup": title(&snapshot.pod_groups[of.group.0 as usize]),
        "pods": of.pods.iter().map(|id| pod(snapshot, *id)).collect::<Vec<_>>(),
        "isSurplus": of.is_elastic,
    })
}

fn pod(snapshot: &Snapshot, PodId(at): PodId) -> String {
    let pod = &snapshot.pods[at as usize];
    format!("{}/{}", pod.namespace, pod.name)
}

/// Internal units per exported unit of GPU, CPU and memory.
const SCALES: [i64; 3] = [1000, 1000, 1];

#[expect(clippy::cast_precision_loss, reason = "for people and dashboards; memory stays exact")]
fn scaled(amount: i64, scale: i64) -> Value {
    if amount % scale == 0 { json!(amount / scale) } else { json!(amount as f64 / scale as f64) }
}

fn per_resource(amounts: PerResource<i64>) -> Value {
    let [gpu, cpu, memory] = amounts.values();
    json!({ "gpu": scaled(gpu, SCALES[0]), "cpu": scaled(cpu, SCALES[1]),
            "memory": scaled(memory, SCALES[2]) })
}

fn resources(of: &Resources) -> Value {
    let mut amounts = per_resource(of.accounted());
    for (name, amount) in &of.extended {
        amounts[&**name] = json!(if *amount == Resources::INEXHAUSTIBLE { -1 } else { *amount });
    }
    amounts
}

fn bounds(bounds: PerResource<Amount>) -> Value {
    let bound = |amount, scale| match amount {
        Amount::Unlimited => json!(-1),
        Amount::Exactly(amount) => scaled(amount, scale),
    };
    json!({ "gpu": bound(bounds.gpu, SCALES[0]), "cpu": bound(bounds.cpu, SCALES[1]),
            "memory": bound(bounds.memory, SCALES[2]) })
}

fn accounts(of: &Account) -> Value {
    json!({
        "quota": bounds(of.quota),
        "limit": bounds(of.limit),
        "fairShare": per_resource(of.fair_share),
        "allocated": per_resource(of.allocated),
        "allocatedNonPreemptible": per_resource(of.allocated_non_preemptible),
        "requested": per_resource(of.requested),
    })
}

/// The standing of a queue for one resource as JSON: served, borrowing or starved. A starved queue
/// may also borrow; being starved comes first.
fn standing_json(standing: QueueBalance, scale: i64) -> Value {
    let QueueBalance { starved_of, borrows } = standing;
    match (starved_of > 0, borrows > 0) {
        (false, false) => json!({ "is": "served" }),
        (false, true) => json!({ "is": "borrowing", "by": scaled(borrows, scale) }),
        (true, _) => {
            let mut standing_object = json!({ "is": "starved", "by": scaled(starved_of, scale) });
            if borrows > 0 {
                standing_object["borrows"] = scaled(borrows, scale);
            }
            standing_object
        }
    }
}
