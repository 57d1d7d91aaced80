//! The part of a division that comes after the quotas: priorities from high to low, within one
//! priority rounds by weight and past usage in whole units, and at the very end the units that
//! rounding left over.

use std::collections::{BTreeMap, BTreeSet};

use super::{Pot, QueueDemand, Step};

/// The part of a unit that a queue was denied by rounding: `numerator / denominator`.
#[derive(Clone, Copy)]
struct Fraction {
    numerator: i128,
    denominator: i128,
}

/// What one round may give.
struct Round {
    /// What there was when it began.
    pot: i64,
    /// Each queue's part, by position; only those that still want something.
    parts: Vec<(usize, i128)>,
    sum: i128,
}

/// Adds to `shares` what each queue gets of `pot`; answers what is left.
pub(super) fn hand_out(
    pot: Pot,
    queues: &[QueueDemand],
    wants: &[i64],
    (shares, told): (&mut [i64], &mut Option<Vec<Step>>),
) -> i64 {
    let priorities: BTreeSet<i32> = queues.iter().map(|queue| queue.priority).collect();
    let mut left = pot.total;
    let mut fractions: BTreeMap<i32, BTreeMap<usize, Fraction>> = BTreeMap::new();
    for &priority in priorities.iter().rev() {
        let denied = fractions.entry(priority).or_default();
        let mut number = 0;
        while let Some(round) =
            Round::open(left, pot, (queues, priority), |at| wants[at] - shares[at])
        {
            number += 1;
            let before = told.is_some().then(|| shares.to_vec());
            let again = round.play(pot.unit, wants, shares, (&mut left, denied));
            if let (Some(told), Some(before)) = (told.as_mut(), before) {
                told.extend(round.told(number, wants, (&before, shares)));
            }
            if !again {
                break;
            }
        }
    }
    for &priority in priorities.iter().rev() {
        for at in by_fraction(&fractions[&priority], queues) {
            let unit = pot.unit.min(left);
            shares[at] += unit;
            left -= unit;
            if let Some(told) = told {
                told.push(Step::Remainder { queue: at, given: unit });
            }
        }
    }
    left
}

impl Round {
    /// `None` when nothing is left or nobody with a weight wants anything.
    fn open(
        left: i64,
        pot: Pot,
        (queues, priority): (&[QueueDemand], i32),
        want: impl Fn(usize) -> i64,
    ) -> Option<Self> {
        let wanting: Vec<usize> = (0..queues.len())
            .filter(|&at| queues[at].priority == priority && queues[at].weight_milli > 0)
            .filter(|&at| want(at) > 0)
            .collect();
        let parts = parts(pot.k_value_milli, queues, &wanting);
        let sum: i128 = parts.iter().map(|(_, part)| part).sum();
        (left > 0 && sum > 0).then_some(Self { pot: left, parts, sum })
    }

    /// Gives every queue its part. True when somebody wanted less than that, so that another
    /// round has something to give.
    fn play(
        &self,
        unit: i64,
        wants: &[i64],
        shares: &mut [i64],
        (left, denied): (&mut i64, &mut BTreeMap<usize, Fraction>),
    ) -> bool {
        let mut again = false;
        for &(at, part) in &self.parts {
            if *left == 0 {
                return false;
            }
            let want = wants[at] - shares[at];
            let portion = i128::from(self.pot) * part;
            let give = if i128::from(want) * self.sum <= portion {
                again |= i128::from(want) * self.sum < portion;
                denied.remove(&at);
                want
            } else {
                let step = self.sum * i128::from(unit);
                let whole = portion / step;
                denied.insert(at, Fraction { numerator: portion % step, denominator: step });
                i64::try_from(whole * i128::from(unit)).expect("at most the pot")
            };
            let give = give.min(*left);
            shares[at] += give;
            *left -= give;
        }
        again
    }
}

impl Round {
    fn told(
        &self,
        round: u32,
        wants: &[i64],
        (before, after): (&[i64], &[i64]),
    ) -> impl Iterator<Item = Step> {
        self.parts.iter().map(move |&(queue, _)| Step::Part {
            queue,
            round,
            pot: self.pot,
            want: wants[queue] - before[queue],
            given: after[queue] - before[queue],
        })
    }
}

/// The relative size of each queue's part: `n + k (n − usage)` with `n` its part of the weights,
/// never below zero. All parts are scaled by one common factor, so they are exact; only numbers
/// beyond 40 bits are rounded, all by the same power of two.
fn parts(k_value_milli: i64, queues: &[QueueDemand], wanting: &[usize]) -> Vec<(usize, i128)> {
    let weights: i128 = wanting.iter().map(|&at| i128::from(queues[at].weight_milli)).sum();
    let k = i128::from(k_value_milli.max(0));
    let raw: Vec<i128> = wanting
        .iter()
        .map(|&at| {
            let weight = i128::from(queues[at].weight_milli);
            let usage = i128::from(queues[at].usage_micro);
            let by_weight = weight.saturating_mul((1000 + k) * 1_000_000);
            let by_usage = k.saturating_mul(usage).saturating_mul(weights);
            by_weight.saturating_sub(by_usage).max(0)
        })
        .collect();
    let common = raw.iter().copied().fold(0, gcd).max(1);
    let largest = raw.iter().copied().max().unwrap_or(0) / common;
    let surplus_bits = (128 - largest.leading_zeros()).saturating_sub(40);
    let scaled = raw.iter().map(|part| (part / common) >> surplus_bits);
    wanting.iter().copied().zip(scaled).collect()
}

/// Largest fraction first, then the older queue, then by name.
fn by_fraction(denied: &BTreeMap<usize, Fraction>, queues: &[QueueDemand]) -> Vec<usize> {
    let mut order: Vec<usize> =
        denied.iter().filter(|(_, denied)| denied.numerator > 0).map(|(at, _)| *at).collect();
    order.sort_by(|left, right| {
        let (a, b) = (denied[left], denied[right]);
        let fractions = (b.numerator * a.denominator).cmp(&(a.numerator * b.denominator));
        let (a, b) = (&queues[*left], &queues[*right]);
        fractions.then_with(|| (a.created, &a.name).cmp(&(b.created, &b.name)))
    });
    order
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Time, resources::Amount};

    #[test]
    fn parts_keep_the_proportion_of_any_weights() {
        let of = |weight_milli| QueueDemand {
            name: "q".into(),
            priority: 0,
            created: Time(0),
            quota: Amount::Exactly(0),
            limit: Amount::Unlimited,
            weight_milli,
            usage_micro: 0,
            request: 1,
        };
        let told = parts(0, &[of(1_000_003), of(7)], &[0, 1]);
        assert_eq!(told, [(0, 1_000_003), (1, 7)]);
    }
}
