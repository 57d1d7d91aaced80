//! Divides one amount of one resource between sibling queues, and from there down the tree: quotas
//! first, then the surplus by priority, weight and past usage, in whole units. The rules are KAI's.
//! A pure function over integers; [`crate::queues`] counts the requests.

mod surplus;
#[cfg(test)]
mod tests;
mod tree;

use crate::{
    model::{Name, Time},
    resources::Amount,
};

pub use tree::{LevelDivision, divisions_on_path, fair_shares};

/// The demand of one queue in a division of one resource among siblings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDemand {
    /// Breaks ties between queues of the same age.
    pub name: Name,
    /// Queues with higher priority get surplus first.
    pub priority: i32,
    /// Older queues get a unit that rounding left over.
    pub created: Time,
    /// Deserved amount (`quota`) of the queue.
    pub quota: Amount,
    /// Maximum amount (`limit`) for the queue.
    pub limit: Amount,
    /// Weight for the surplus, in thousandths. Negative weights count as zero.
    pub weight_milli: i64,
    /// Past usage, in millionths of the capacity over the usage window.
    pub usage_micro: i64,
    /// What the queue's pods have allocated plus what they request.
    pub request: i64,
}

/// The amount of one resource that is divided, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivisionInput {
    /// The amount to divide, in the units of [`crate::resources::Resources`].
    pub total: i64,
    /// Surplus is granted in multiples of this amount: 1000 for GPUs (a whole GPU), 1 for
    /// millicores and bytes.
    pub unit: i64,
    /// `kValue`: weight of past usage, in thousandths.
    pub k_value_milli: i64,
}

/// The outcome of dividing one resource among queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// The fair share of each queue, in the order of the input.
    pub shares: Vec<i64>,
    /// The amount that no queue wanted or could get.
    pub rest: i64,
}

/// One step of a division. Queues are given by their positions in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DivisionStep {
    /// A queue is granted its quota, at most its request.
    Quota {
        /// Position of the queue.
        queue: usize,
        /// Amount granted.
        granted: i64,
    },
    /// The surplus that is left after all quotas.
    Surplus {
        /// Amount of the surplus; negative when quotas exceed the total.
        amount: i128,
    },
    /// A queue is granted part of the surplus.
    SurplusShare {
        /// Position of the queue.
        queue: usize,
        /// Round within its priority, from 1.
        round: u32,
        /// Surplus at the start of the round.
        surplus: i64,
        /// What the queue still wanted before the step.
        want: i64,
        /// Amount granted.
        granted: i64,
    },
    /// A queue is granted one unit that rounding had left over.
    Remainder {
        /// Position of the queue.
        queue: usize,
        /// Amount granted.
        granted: i64,
    },
}

/// Divides `input.total` between `queues`. Quotas are met even when they exceed the total, so
/// shares may sum to more than the total. A share never exceeds its queue's request by a whole
/// unit.
pub fn divide_resource(input: DivisionInput, queues: &[QueueDemand]) -> Division {
    divide_resource_with_steps(input, queues, &mut None)
}

/// Like [`divide_resource`], and records the steps if `steps` is `Some`.
pub fn divide_resource_with_steps(
    input: DivisionInput,
    queues: &[QueueDemand],
    steps: &mut Option<Vec<DivisionStep>>,
) -> Division {
    let wants: Vec<i64> = queues.iter().map(QueueDemand::request_within_limit).collect();
    let mut shares: Vec<i64> = queues
        .iter()
        .zip(&wants)
        .map(|(queue, want)| queue.quota_within(input.total).min(*want))
        .collect();
    let granted: i128 = shares.iter().map(|share| i128::from(*share)).sum();
    let left = i128::from(input.total) - granted;
    if let Some(steps) = steps {
        steps.extend(
            shares
                .iter()
                .enumerate()
                .map(|(queue, &granted)| DivisionStep::Quota { queue, granted }),
        );
        steps.push(DivisionStep::Surplus { amount: left });
    }
    let rest = if left > 0 {
        let left =
            i64::try_from(left).expect("no more than the total, since shares are not negative");
        surplus::divide_surplus(
            DivisionInput { total: left, ..input },
            queues,
            &wants,
            &mut shares,
            steps,
        )
    } else {
        0
    };
    Division { shares, rest }
}

impl QueueDemand {
    /// The queue's request, capped by its limit.
    fn request_within_limit(&self) -> i64 {
        match self.limit {
            Amount::Exactly(limit) => self.request.min(limit).max(0),
            Amount::Unlimited => self.request.max(0),
        }
    }

    fn quota_within(&self, total: i64) -> i64 {
        match self.quota {
            Amount::Exactly(quota) => quota.max(0),
            Amount::Unlimited => total.max(0),
        }
    }
}
