//! Explanations as JSON, for programs: the same that the text tells, with codes and numbers.
//! GPUs and cores are numbers with thousandths, memory is bytes, -1 is unlimited as in the Queue
//! API.

use schedlab_json::{Map, Value, json};
use schedlab_scheduler_core::{
    Decision, Reason, Snapshot,
    explain::{Candidate, Explanation, NewNodes, QueueExplanation, Standing, Step, Tried},
    model::{DeviceClaim, LeftOut, PodGroup, PodGroupId, PodId},
    queues::Account,
    resources::{Amount, PerResource, Resources},
    session::Fits,
};

/// One pod group.
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
        "podsWaiting": of.waiting,
        "decided": decisions(snapshot, &of.decided),
        "reason": of.reason.as_ref().map(reason),
        "remedies": of.remedies.iter().map(step).collect::<Vec<_>>(),
        "queues": of.queues.iter().map(queue).collect::<Vec<_>>(),
        "plugins": of.plugins.iter().map(plugin).collect::<Vec<_>>(),
        "nodes": nodes(snapshot, of),
        "notes": notes,
    })
}

/// One queue.
pub(super) fn queue(snapshot: &Snapshot, of: &QueueExplanation, notes: &[String]) -> Value {
    let name = |at: usize| &*snapshot.queues[at].name;
    let resources = ["gpu", "cpu", "memory"];
    let all = of.accounts.iter().enumerate().map(|(at, account)| {
        let standing = resources.iter().zip(Standing::of(account)).zip(SCALES);
        let standing: Map = standing
            .map(|((resource, standing), scale)| ((*resource).to_owned(), how(standing, scale)))
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
            let level = |level: &schedlab_scheduler_core::fairshare::Derivation| {
                let shares = level.siblings.iter().zip(&level.shares);
                let shares: Map = shares
                    .map(|(at, share)| (name(*at).to_owned(), scaled(*share, scale)))
                    .collect();
                json!({ "divided": scaled(level.pot.total, scale), "fairShares": shares })
            };
            ((*resource).to_owned(), levels.iter().map(level).collect::<Value>())
        })
        .collect();
    let candidates = |all: &[Candidate]| -> Vec<Value> {
        all.iter().map(|one| candidate(snapshot, one)).collect()
    };
    json!({
        "name": name(of.queue.0 as usize),
        "queues": all.collect::<Vec<_>>(),
        "derivation": derivation,
        "wouldTakeFrom": candidates(&of.would_take),
        "wouldLose": candidates(&of.would_lose),
        "decided": decisions(snapshot, &of.evictions),
        "notes": notes,
    })
}

/// A code for programs, words for people.
pub(super) fn reason(reason: &Reason) -> Value {
    json!({ "code": reason.code(), "message": reason.to_string() })
}

pub(super) fn title(group: &PodGroup) -> Value {
    json!({ "namespace": &*group.namespace, "name": &*group.name })
}

fn step(step: &Step) -> Value {
    let outcome = match &step.tried {
        Tried::Runs { node, fits, new_nodes } => {
            let when = match fits {
                Fits::Now => "at once",
                Fits::Later => "when others have left",
            };
            let mut outcome = json!({ "runs": true, "node": &**node, "when": when });
            let only = match new_nodes {
                NewNodes::OfAnySize => None,
                NewNodes::OnePodEach => Some("onePodEach"),
                NewNodes::Whole => Some("whole"),
                NewNodes::Large => Some("large"),
            };
            if let Some(only) = only {
                outcome["addedNodes"] = Value::from(only);
            }
            outcome
        }
        Tried::Leaves(next) => json!({ "runs": false, "leaves": true, "reason": reason(next) }),
        Tried::Waits(next) => json!({ "runs": false, "reason": reason(next) }),
        Tried::Untold => Value::Null,
    };
    json!({
        "remedy": step.remedy.to_string(),
        "inAll": step.in_all.as_ref().map(ToString::to_string),
        "least": step.least.as_ref().map(ToString::to_string),
        "outcome": outcome,
    })
}

fn nodes(snapshot: &Snapshot, of: &Explanation) -> Value {
    let Some(nodes) = &of.nodes else { return Value::Null };
    let groups = nodes.groups.iter().map(|group| {
        let refusals = group.refusals.iter().map(|(plugin, misfit)| {
            let says = misfit.as_ref().map_or_else(
                || "it would have to wait for pods that are leaving".to_owned(),
                ToString::to_string,
            );
            json!({ "plugin": plugin, "says": says, "waits": misfit.is_none() })
        });
        json!({
            "nodes": group.nodes.iter().map(|name| &**name).collect::<Vec<_>>(),
            "refusals": refusals.collect::<Vec<_>>(),
            "free": resources(&group.free),
            "allocatable": resources(&group.allocatable),
            "mates": group.mates,
        })
    });
    json!({
        "pod": pod(snapshot, nodes.pod),
        "asks": resources(&nodes.asks),
        "claims": nodes.claims.iter().map(claim).collect::<Vec<_>>(),
        "groups": groups.collect::<Vec<_>>(),
        "leftOut": snapshot.left_out.iter().map(left_out).collect::<Vec<_>>(),
    })
}

fn claim(of: &DeviceClaim) -> Value {
    json!({ "name": &*of.name, "devices": resources(&of.devices),
            "everyDevice": !of.every.is_empty() })
}

fn left_out(of: &LeftOut) -> Value {
    json!({ "nodes": of.nodes.iter().map(|name| &**name).collect::<Vec<_>>(), "why": of.why() })
}

fn decisions(snapshot: &Snapshot, decisions: &[Decision]) -> Vec<Value> {
    let node = |at: u32| &*snapshot.nodes[at as usize].name;
    let told = |decision: &Decision| match decision {
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
    decisions.iter().map(told).collect()
}

fn candidate(snapshot: &Snapshot, of: &Candidate) -> Value {
    json!({
        "queue": &*snapshot.queues[of.queue.0 as usize].name,
        "podGroup": title(&snapshot.pod_groups[of.group.0 as usize]),
        "pods": of.pods.iter().map(|id| pod(snapshot, *id)).collect::<Vec<_>>(),
        "isSurplus": of.is_surplus,
    })
}

fn pod(snapshot: &Snapshot, PodId(at): PodId) -> String {
    let pod = &snapshot.pods[at as usize];
    format!("{}/{}", pod.namespace, pod.name)
}

/// How many of the core's units a number of the API is, for GPU, CPU and memory.
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
    let mut told = per_resource(of.accounted());
    for (name, amount) in &of.extended {
        told[&**name] = json!(if *amount == Resources::FOR_ALL { -1 } else { *amount });
    }
    told
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

/// What counts most: a queue that is starved may borrow, too.
fn how(standing: Standing, scale: i64) -> Value {
    let Standing { starved_of, borrows } = standing;
    match (starved_of > 0, borrows > 0) {
        (false, false) => json!({ "is": "served" }),
        (false, true) => json!({ "is": "borrowing", "by": scaled(borrows, scale) }),
        (true, _) => {
            let mut told = json!({ "is": "starved", "by": scaled(starved_of, scale) });
            if borrows > 0 {
                told["borrows"] = scaled(borrows, scale);
            }
            told
        }
    }
}
