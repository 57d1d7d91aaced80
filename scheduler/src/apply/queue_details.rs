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

/// Details of reasons that are about the bounds of a queue.
pub(super) fn queue_details(cycle: &Cycle<'_>, reason: &Reason) -> Option<Value> {
    let (queue, requested, is_bound_to_quota) = match reason {
        Reason::OverLimit { queue, requested, .. } => (queue, requested, false),
        Reason::NonPreemptibleOverQuota { queue, requested, .. } => (queue, requested, true),
        Reason::Queue(_)
        | Reason::NotReady(_)
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
        "queueRequestedResources": amounts(used.requested.accounted()),
        "queueDeservedResources": bounds(of.quota),
        "queueAllocatedResources": amounts(used.allocated.accounted()),
        "queueAllocatedNonPreemptibleResources":
            amounts(used.allocated_non_preemptible.accounted()),
        "queueResourceLimits": bounds(of.limit),
        "podGroupRequestedResources": one(&requested.resource, requested.amount),
    });
    if is_bound_to_quota {
        let requested_now = details["podGroupRequestedResources"].clone();
        details["podGroupRequestedNonPreemptibleResources"] = requested_now;
    }
    Some(json!({ "queueDetails": details }))
}

fn amounts(of: PerResource<i64>) -> Value {
    bounds(of.map(Amount::Exactly))
}

fn bounds(of: PerResource<Amount>) -> Value {
    let names = ResourceName::ACCOUNTED;
    let known = names.iter().zip(of.values()).filter_map(|(name, amount)| match amount {
        Amount::Exactly(amount) => Some(quantity_entry(name, amount)),
        Amount::Unlimited => None,
    });
    known.collect::<Map>().into()
}

fn one(resource: &ResourceName, amount: i64) -> Value {
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
