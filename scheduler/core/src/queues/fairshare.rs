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

/// One queue in a division.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDemand {
    /// Breaks ties between queues of the same age.
    pub name: Name,
    /// Queues with higher priority get surplus first.
    pub priority: i32,
    /// Older queues get a disputed unit.
    pub created: Time,
    /// What it deserves.
    pub quota: Amount,
    /// What it may use at most.
    pub limit: Amount,
    /// Weight for the surplus, in thousandths. Negative weights count as zero.
    pub weight_milli: i64,
    /// Past usage, in millionths of the capacity over the usage window.
    pub usage_micro: i64,
    /// What its pods have allocated and request.
    pub request: i64,
}

/// What is divided, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivisionInput {
    /// The amount, in the units of [`crate::resources::Resources`].
    pub total: i64,
    /// Surplus is granted in multiples of this: 1000 for GPUs (a whole GPU), 1 for millicores and
    /// bytes.
    pub unit: i64,
    /// `kValue`: weight of past usage, in thousandths.
    pub k_value_milli: i64,
}

/// The outcome of a division.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// The fair share of each queue, in the order of the input.
    pub shares: Vec<i64>,
    /// What no queue wanted or could get.
    pub rest: i64,
}

/// One step of a division. Queues are positions in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DivisionStep {
    /// A queue is granted its quota, at most its request.
    Quota {
        /// Position of the queue.
        queue: usize,
        /// Amount granted.
        granted: i64,
    },
    /// The surplus after all quotas.
    Surplus {
        /// The amount; negative when quotas exceed the total.
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
        /// What the queue still wanted.
        want: i64,
        /// Amount granted.
        granted: i64,
    },
    /// A queue is granted a unit that rounding had left over.
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
pub fn divide(input: DivisionInput, queues: &[QueueDemand]) -> Division {
    divide_with_steps(input, queues, &mut None)
}

/// Like [`divide`], and records the steps if `steps` is `Some`.
pub fn divide_with_steps(
    input: DivisionInput,
    queues: &[QueueDemand],
    steps: &mut Option<Vec<DivisionStep>>,
) -> Division {
    let wants: Vec<i64> = queues.iter().map(QueueDemand::requestable).collect();
    let mut shares: Vec<i64> = queues
        .iter()
        .zip(&wants)
        .map(|(queue, want)| queue.deserved(input.total).min(*want))
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
    /// Its request, capped by its limit.
    fn requestable(&self) -> i64 {
        match self.limit {
            Amount::Exactly(limit) => self.request.min(limit).max(0),
            Amount::Unlimited => self.request.max(0),
        }
    }

    fn deserved(&self, total: i64) -> i64 {
        match self.quota {
            Amount::Exactly(quota) => quota.max(0),
            Amount::Unlimited => total.max(0),
        }
    }
}
