//! `schedulingConditions[].reasons[].details` of KAI's PodGroup: usage and bounds of the queue that
//! a pod group did not fit into. Unlimited resources are left out.

use schedlab_api::{Map, Value, json, resources};
use schedlab_scheduler_core::{
    QueueUsage, Reason,
    model::QueueId,
    resources::{Amount, PerResource, ResourceName},
};

use super::Cycle;
use crate::parse::format_milli;

/// `queueDetails` of a reason that is about quota or limit of a queue; `None` for other reasons.
pub(super) fn queue_details(cycle: &Cycle<'_>, reason: &Reason) -> Option<Value> {
    let (queue, requested, is_bound_to_quota) = match reason {
        Reason::OverLimit { queue, requested, .. } => (queue, requested, false),
        Reason::NonPreemptibleOverQuota { queue, requested, .. } => (queue, requested, true),
        Reason::Queue(_)
        | Reason::NotReady(_)
        | Reason::PodsDiffer(_)
        | Reason::SchedulingBackoff
        | Reason::NoNode { .. }
        | Reason::GangDoesNotFit { .. }
        | Reason::ExceedsClusterCapacity { .. }
        | Reason::NoTopologyDomain(_)
        | Reason::QueueDepthReached { .. }
        | Reason::Pipelined { .. }
        | Reason::PreemptionDelay { .. }
        | Reason::PreemptionLimitReached { .. }
        | Reason::MinRuntime { .. }
        | Reason::FairShareExceeded { .. }
        | Reason::HeadOfLineBlocked { .. }
        | Reason::Unschedulable { .. }
        | Reason::PodGroupUnschedulable(_) => return None,
    };
    let known = (0..).map(QueueId).zip(&cycle.snapshot.queues);
    let (id, of) = known.into_iter().find(|(_, known)| known.name == *queue)?;
    let nothing = QueueUsage::default();
    let used = cycle.plan.queues_after.get(&id).unwrap_or(&nothing);
    let mut details = json!({
        "name": &**queue,
        "queueRequestedResources": amounts_json(used.requested.accounted_amounts()),
        "queueDeservedResources": bounded_amounts_json(of.quota),
        "queueAllocatedResources": amounts_json(used.allocated.accounted_amounts()),
        "queueAllocatedNonPreemptibleResources":
            amounts_json(used.allocated_non_preemptible.accounted_amounts()),
        "queueResourceLimits": bounded_amounts_json(of.limit),
        "podGroupRequestedResources": amount_json(&requested.resource, requested.amount),
    });
    if is_bound_to_quota {
        let requested_now = details["podGroupRequestedResources"].clone();
        details["podGroupRequestedNonPreemptibleResources"] = requested_now;
    }
    Some(json!({ "queueDetails": details }))
}

fn amounts_json(amounts: PerResource<i64>) -> Value {
    bounded_amounts_json(amounts.map(Amount::Exactly))
}

fn bounded_amounts_json(amounts: PerResource<Amount>) -> Value {
    let names = ResourceName::ACCOUNTED;
    let known = names.iter().zip(amounts.values()).filter_map(|(name, amount)| match amount {
        Amount::Exactly(amount) => Some(quantity_entry(name, amount)),
        Amount::Unlimited => None,
    });
    known.collect::<Map>().into()
}

fn amount_json(resource: &ResourceName, amount: i64) -> Value {
    [quantity_entry(resource, amount)].into_iter().collect::<Map>().into()
}

fn quantity_entry(resource: &ResourceName, amount: i64) -> (String, Value) {
    let (name, text) = match resource {
        ResourceName::Gpu => (resources::GPU, format_milli(amount)),
        ResourceName::Cpu => ("cpu", format_milli(amount)),
        ResourceName::Memory => ("memory", amount.to_string()),
        ResourceName::Pods => ("pods", amount.to_string()),
        ResourceName::Extended(name) => (&**name, amount.to_string()),
    };
    (name.to_owned(), text.into())
}
