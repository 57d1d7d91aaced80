//! How one amount of one resource is divided between sibling queues, and from there down the
//! whole tree: quota first, then what is left by priority, weight and past usage, in whole
//! units. The rules are KAI's. A pure function over plain numbers, exact in integers; who asks
//! for how much is counted in [`crate::queues`].

mod surplus;
#[cfg(test)]
mod tests;
mod tree;

use crate::{
    model::{Name, Time},
    resources::Amount,
};

pub use tree::{Derivation, derivation, fair_shares};

/// What one queue brings to a division.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDemand {
    /// Breaks ties between queues of one age.
    pub name: Name,
    /// Higher ones are served first from what quotas leave over.
    pub priority: i32,
    /// Older queues get a disputed unit.
    pub created: Time,
    /// What it deserves.
    pub quota: Amount,
    /// What it may use at most.
    pub limit: Amount,
    /// Its part of what is left over, in thousandths. Negative ones count as zero.
    pub weight_milli: i64,
    /// Past usage, as millionths of the capacity over the window.
    pub usage_micro: i64,
    /// Allocated and waiting.
    pub request: i64,
}

/// What is divided, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pot {
    /// The amount, in the units of [`crate::resources::Resources`].
    pub total: i64,
    /// Surplus is handed out in multiples of this: a whole GPU is 1000, a millicore and a byte 1.
    pub unit: i64,
    /// Weight of past usage, in thousandths.
    pub k_value_milli: i64,
}

/// The outcome of a division.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// The fair share of each queue, in the order given.
    pub shares: Vec<i64>,
    /// What nobody wanted or could get.
    pub rest: i64,
}

/// One step of a division; queues are positions in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its quota, as far as it asks for it.
    Quota {
        /// Who.
        queue: usize,
        /// How much.
        given: i64,
    },
    /// What the quotas left over, negative when they add up to more than there is.
    Left {
        /// How much.
        amount: i128,
    },
    /// A part of what is left.
    Part {
        /// Who.
        queue: usize,
        /// Counts the rounds of its priority, from 1.
        round: u32,
        /// What there was at the beginning of the round.
        pot: i64,
        /// What it still wanted.
        want: i64,
        /// What it got.
        given: i64,
    },
    /// A unit that rounding had left over.
    Remainder {
        /// Who.
        queue: usize,
        /// How much.
        given: i64,
    },
}

/// Divides `pot` between `queues`. Quotas are met even when they add up to more than there is,
/// so shares may exceed the total; a share never exceeds what its queue asks for by more than
/// part of one unit.
pub fn divide(pot: Pot, queues: &[QueueDemand]) -> Division {
    divide_telling(pot, queues, &mut None)
}

/// The same, and how it came about, where somebody wants to know.
pub fn divide_telling(pot: Pot, queues: &[QueueDemand], told: &mut Option<Vec<Step>>) -> Division {
    let wants: Vec<i64> = queues.iter().map(QueueDemand::requestable).collect();
    let mut shares: Vec<i64> = queues
        .iter()
        .zip(&wants)
        .map(|(queue, want)| queue.deserved(pot.total).min(*want))
        .collect();
    let given: i128 = shares.iter().map(|share| i128::from(*share)).sum();
    let left = i128::from(pot.total) - given;
    if let Some(told) = told {
        told.extend(shares.iter().enumerate().map(|(queue, &given)| Step::Quota { queue, given }));
        told.push(Step::Left { amount: left });
    }
    let rest = if left > 0 {
        let left =
            i64::try_from(left).expect("no more than the total, since shares are not negative");
        surplus::hand_out(Pot { total: left, ..pot }, queues, &wants, (&mut shares, told))
    } else {
        0
    };
    Division { shares, rest }
}

impl QueueDemand {
    /// What it asks for, as far as its limit lets it have it.
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
