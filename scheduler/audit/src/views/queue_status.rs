//! The reported status of a Queue.

use schedlab_api::{Value, quantity::thousandths, resources};

use crate::rules::Amounts;

/// The amounts in `status.allocated` of a queue, for the resources that queues account for.
pub(crate) fn reported_allocation(queue: &Value) -> Option<Amounts> {
    let allocated = queue.pointer("/status/allocated")?.as_object()?;
    let amounts = allocated.iter().filter_map(|(resource, amount)| {
        matches!(resource.as_str(), resources::GPU | "cpu" | "memory")
            .then_some((resource.as_str().into(), thousandths(amount)?))
    });
    Some(amounts.collect())
}
