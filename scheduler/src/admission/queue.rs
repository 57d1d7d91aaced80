//! Validates Queues: their own fields, cycles in the parent chain, and children on deletion. Quota
//! sums only cause warnings.

use std::collections::BTreeMap;

use schedlab_api::{Value, api_versions};
use schedlab_scheduler_core::{
    model::{Name, QueueProblem},
    resources::PerResource,
};

use super::{ReviewOutcome, deny_or_warn, object_title};
use crate::{
    api::{ApiClient, object_path},
    cache::QueueRecord,
    parse::{Malformed, at, list, text},
    queue_controller::queue_warnings,
    snapshot_builder::queue_problem,
};

const EXPECTED_RESOURCES: &str = "quota, overQuotaWeight and limit of gpu, cpu and memory, -1 for unlimited \
                         (omitted values count as 0: nothing may run)";
const EXPECTED_WEIGHT: &str = "0 or more (-1 counts as 0: the queue gets no capacity beyond \
                      quotas)";
const EXPECTED_PARENT: &str = "a queue that is not below this one, or none";
const EXPECTED_NO_CHILDREN: &str =
    "no child queues, as a queue with child queues cannot be deleted";

type Queues = BTreeMap<Name, QueueRecord>;

pub(super) async fn review_queue(api: &ApiClient, request: &Value) -> ReviewOutcome {
    let others = match api.get(&object_path(api_versions::QUEUE, "", "queues", "")).await {
        Ok(all) => parse_queue_list(&all),
        Err(error) => return ReviewOutcome::Failed(format!("cannot list the queues: {error}")),
    };
    let name: Name = text(request, "/name").unwrap_or_default().into();
    if request["operation"] == "DELETE" {
        return review_delete(request, &name, &others);
    }
    review_write(request, &name, others)
}

fn parse_queue_list(response: &Value) -> Queues {
    let named = |object: &Value| Some((text(object, "/metadata/name")?.into(), object.clone()));
    let items = list(response, "/items").iter().filter_map(named);
    items.map(|(name, object)| (name, QueueRecord::from_object(&object))).collect()
}

fn review_delete(request: &Value, name: &Name, others: &Queues) -> ReviewOutcome {
    let below = others.iter().filter(|(_, queue)| queue.parent.as_ref() == Some(name));
    let below: Vec<&str> = below.map(|(child, _)| &**child).collect();
    if below.is_empty() {
        return ReviewOutcome::Allowed(Vec::new());
    }
    let found = Malformed::new(
        "metadata.name",
        format!("child queues ({})", below.join(", ")),
        EXPECTED_NO_CHILDREN,
    );
    deny_or_warn(request, &found, None)
}

/// Reviews a create or update: denies faults of the queue and cycles; the rest are warnings.
fn review_write(request: &Value, name: &Name, mut queues: Queues) -> ReviewOutcome {
    let queue = QueueRecord::from_object(&request["object"]);
    let before =
        request.get("oldObject").filter(|old| !old.is_null()).map(QueueRecord::from_object);
    let fault = |queue: &QueueRecord| queue.malformed.clone().or_else(|| no_resources_fault(queue));
    if let Some(found) = fault(&queue) {
        return deny_or_warn(request, &found, before.as_ref().and_then(fault).as_ref());
    }
    let parent = queue.parent.clone();
    let moved = before.as_ref().is_none_or(|before| before.parent != parent);
    queues.insert(Name::clone(name), queue);
    let problem = queue_problem(&queues, name);
    if let (true, Some(QueueProblem::Cycle { .. })) = (moved, &problem) {
        let chain =
            format!("{:?}, which leads back to this queue", parent.as_deref().unwrap_or_default());
        return deny_or_warn(
            request,
            &Malformed::new("spec.parentQueue", chain, EXPECTED_PARENT),
            None,
        );
    }
    let no_bound = PerResource { gpu: i64::MAX, cpu: i64::MAX, memory: i64::MAX };
    let mut conditions = queue_warnings(&queues, no_bound);
    let own = conditions.remove(name).into_iter().flatten();
    let mut warnings: Vec<String> = own
        .map(|(_, condition)| format!("{}: {}", object_title(request), condition.message))
        .collect();
    warnings.extend(
        negative_weights(&request["object"]).map(|it| format!("{}: {it}", object_title(request))),
    );
    if let Some(parent) = parent.filter(|_| moved) {
        let of_parent = conditions.remove(&parent).into_iter().flatten();
        let sums = of_parent.filter(|(kind, _)| &**kind == "GuaranteesAboveQuota");
        warnings
            .extend(sums.map(|(_, condition)| format!("Queue {parent}: {}", condition.message)));
    }
    ReviewOutcome::Allowed(warnings)
}

/// Negative over-quota weights. They count as 0, although -1 means unlimited in quota and limit.
/// With an unlimited quota the weight has no effect, so there is no warning.
fn negative_weights(object: &Value) -> impl Iterator<Item = Malformed> {
    let of = |resource: &str, which: &str| {
        let number = at(object, &format!("/spec/resources/{resource}/{which}"));
        number.and_then(Value::as_f64).unwrap_or_default()
    };
    ["gpu", "cpu", "memory"].into_iter().filter_map(move |resource| {
        let weight = of(resource, "overQuotaWeight");
        let is_meant = weight < 0.0 && of(resource, "quota") >= 0.0;
        let field = format!("spec.resources.{resource}.overQuotaWeight");
        is_meant.then(|| Malformed::new(field, weight.to_string(), EXPECTED_WEIGHT))
    })
}

/// The fault of a queue that sets no resources, in which nothing may run. KAI rejects such a queue
/// as well.
fn no_resources_fault(queue: &QueueRecord) -> Option<Malformed> {
    (queue.unset_fields.len() == 9)
        .then(|| Malformed::new("spec.resources", "nothing", EXPECTED_RESOURCES))
}
