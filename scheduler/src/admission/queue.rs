//! A Queue among the others: what it is by itself, where its chain of parents leads, and whether
//! anything hangs on it.

use std::collections::BTreeMap;

use schedlab_json::Value;
use schedlab_scheduler_core::{
    model::{Name, QueueProblem},
    resources::PerResource,
};

use super::{Verdict, denied, named};
use crate::{
    api::{Api, path},
    mirror::QueueRecord,
    parse::{Malformed, at, list, text},
    queues::warnings,
    translate::queue_problem,
};

const RESOURCES: &str = "quota, overQuotaWeight and limit of gpu, cpu and memory, -1 for unlimited \
                         (what is left out counts as 0: nothing may run)";
const WEIGHT: &str = "0 or more (-1 counts as 0: the queue gets nothing of what quotas \
                      leave over)";
const PARENT: &str = "a queue that is not below this one, or none";
const CHILDLESS: &str = "only a queue with no queues below it is deleted";

type Queues = BTreeMap<Name, QueueRecord>;

pub(super) async fn judge(api: &Api, request: &Value) -> Verdict {
    let others = match api.get(&path("scheduling.run.ai/v2", "", "queues", "")).await {
        Ok(all) => read(&all),
        Err(error) => return Verdict::Failed(format!("cannot list the queues: {error}")),
    };
    let name: Name = text(request, "/name").unwrap_or_default().into();
    if request["operation"] == "DELETE" {
        return deletion(request, &name, &others);
    }
    written(request, &name, others)
}

fn read(all: &Value) -> Queues {
    let named = |object: &Value| Some((text(object, "/metadata/name")?.into(), object.clone()));
    let items = list(all, "/items").iter().filter_map(named);
    items.map(|(name, object)| (name, QueueRecord::read(&object))).collect()
}

fn deletion(request: &Value, name: &Name, others: &Queues) -> Verdict {
    let below = others.iter().filter(|(_, queue)| queue.parent.as_ref() == Some(name));
    let below: Vec<&str> = below.map(|(child, _)| &**child).collect();
    if below.is_empty() {
        return Verdict::Allowed(Vec::new());
    }
    let found = Malformed::new(
        "metadata.name",
        format!("queues below it ({})", below.join(", ")),
        CHILDLESS,
    );
    denied(request, &found, None)
}

/// What is wrong with the queue itself, then with its place in the tree; the rest is told.
fn written(request: &Value, name: &Name, mut all: Queues) -> Verdict {
    let queue = QueueRecord::read(&request["object"]);
    let before = request.get("oldObject").filter(|old| !old.is_null()).map(QueueRecord::read);
    let fault = |queue: &QueueRecord| queue.malformed.clone().or_else(|| unset(queue));
    if let Some(found) = fault(&queue) {
        return denied(request, &found, before.as_ref().and_then(fault).as_ref());
    }
    let parent = queue.parent.clone();
    let moved = before.as_ref().is_none_or(|before| before.parent != parent);
    all.insert(Name::clone(name), queue);
    let problem = queue_problem(&all, name);
    if let (true, Some(QueueProblem::Cycle { .. })) = (moved, &problem) {
        let chain = format!("{:?}, which leads back to it", parent.as_deref().unwrap_or_default());
        return denied(request, &Malformed::new("spec.parentQueue", chain, PARENT), None);
    }
    let no_bound = PerResource { gpu: i64::MAX, cpu: i64::MAX, memory: i64::MAX };
    let mut told = warnings(&all, no_bound);
    let own = told.remove(name).into_iter().flatten();
    let mut said: Vec<String> =
        own.map(|(_, condition)| format!("{}: {}", named(request), condition.message)).collect();
    said.extend(negative_weights(&request["object"]).map(|it| format!("{}: {it}", named(request))));
    if let Some(parent) = parent.filter(|_| moved) {
        let of_parent = told.remove(&parent).into_iter().flatten();
        let sums = of_parent.filter(|(kind, _)| &**kind == "GuaranteesAboveQuota");
        said.extend(sums.map(|(_, told)| format!("Queue {parent}: {}", told.message)));
    }
    Verdict::Allowed(said)
}

/// Weights that are none, though they look as no bound does in a quota and in a limit. Where the
/// quota has no bound either they have nothing to do.
fn negative_weights(object: &Value) -> impl Iterator<Item = Malformed> {
    let of = |resource: &str, which: &str| {
        let number = at(object, &format!("/spec/resources/{resource}/{which}"));
        number.and_then(Value::as_f64).unwrap_or_default()
    };
    ["gpu", "cpu", "memory"].into_iter().filter_map(move |resource| {
        let weight = of(resource, "overQuotaWeight");
        let is_meant = weight < 0.0 && of(resource, "quota") >= 0.0;
        let field = format!("spec.resources.{resource}.overQuotaWeight");
        is_meant.then(|| Malformed::new(field, weight.to_string(), WEIGHT))
    })
}

/// Nothing may run in a queue that says nothing of resources: KAI refuses it.
fn unset(queue: &QueueRecord) -> Option<Malformed> {
    (queue.unset.len() == 9).then(|| Malformed::new("spec.resources", "nothing", RESOURCES))
}
