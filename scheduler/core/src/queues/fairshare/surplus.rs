//! Divides the surplus after the quotas: priorities from high to low, within one priority rounds by
//! weight and past usage in whole units, and at the end the units that rounding left over.

use std::collections::{BTreeMap, BTreeSet};

use super::{DivisionInput, DivisionStep, QueueDemand};

/// The part of a unit that rounding withheld from a queue: `numerator / denominator`.
#[derive(Clone, Copy)]
struct Fraction {
    numerator: i128,
    denominator: i128,
}

/// The queues' relative parts in one round of dividing the surplus.
struct SurplusRound {
    /// Surplus at the start of the round.
    surplus: i64,
    /// Relative part of each queue that still wants something, by position of the queue.
    parts: Vec<(usize, i128)>,
    sum: i128,
}

/// Adds to `shares` what each queue gets of the surplus in `input.total`, and returns what is left
/// of it.
pub(super) fn divide_surplus(
    input: DivisionInput,
    queues: &[QueueDemand],
    wants: &[i64],
    shares: &mut [i64],
    steps: &mut Option<Vec<DivisionStep>>,
) -> i64 {
    let priorities: BTreeSet<i32> = queues.iter().map(|queue| queue.priority).collect();
    let mut left = input.total;
    let mut fractions: BTreeMap<i32, BTreeMap<usize, Fraction>> = BTreeMap::new();
    for &priority in priorities.iter().rev() {
        let denied = fractions.entry(priority).or_default();
        let mut number = 0;
        while let Some(round) =
            SurplusRound::start_round(left, input, queues, priority, |at| wants[at] - shares[at])
        {
            number += 1;
            let before = steps.is_some().then(|| shares.to_vec());
            let another_round = round.grant_parts(input.unit, wants, shares, &mut left, denied);
            if let (Some(steps), Some(before)) = (steps.as_mut(), before) {
                steps.extend(round.division_steps(number, wants, &before, shares));
            }
            if !another_round {
                break;
            }
        }
    }
    for &priority in priorities.iter().rev() {
        for at in queues_by_withheld_fraction(&fractions[&priority], queues) {
            let unit = input.unit.min(left);
            shares[at] += unit;
            left -= unit;
            if let Some(steps) = steps {
                steps.push(DivisionStep::Remainder { queue: at, granted: unit });
            }
        }
    }
    left
}

impl SurplusRound {
    /// Starts a round with the queues of one priority. `None` when nothing is left, or no queue
    /// with a weight wants anything.
    fn start_round(
        left: i64,
        input: DivisionInput,
        queues: &[QueueDemand],
        priority: i32,
        want: impl Fn(usize) -> i64,
    ) -> Option<Self> {
        let wanting: Vec<usize> = (0..queues.len())
            .filter(|&at| queues[at].priority == priority && queues[at].weight_milli > 0)
            .filter(|&at| want(at) > 0)
            .collect();
        let parts = relative_parts(input.k_value_milli, queues, &wanting);
        let sum: i128 = parts.iter().map(|(_, part)| part).sum();
        (left > 0 && sum > 0).then_some(Self { surplus: left, parts, sum })
    }

    /// Grants every queue its part. Returns whether a queue wanted less than its part, so that
    /// another round has something to grant.
    fn grant_parts(
        &self,
        unit: i64,
        wants: &[i64],
        shares: &mut [i64],
        left: &mut i64,
        fractions: &mut BTreeMap<usize, Fraction>,
    ) -> bool {
        let mut another_round = false;
        for &(at, part) in &self.parts {
            if *left == 0 {
                return false;
            }
            let want = wants[at] - shares[at];
            let portion = i128::from(self.surplus) * part;
            let give = if i128::from(want) * self.sum <= portion {
                another_round |= i128::from(want) * self.sum < portion;
                fractions.remove(&at);
                want
            } else {
                let step = self.sum * i128::from(unit);
                let whole = portion / step;
                fractions.insert(at, Fraction { numerator: portion % step, denominator: step });
                i64::try_from(whole * i128::from(unit)).expect("at most the surplus")
            };
            let give = give.min(*left);
            shares[at] += give;
            *left -= give;
        }
        another_round
    }
}

impl SurplusRound {
    fn division_steps(
        &self,
        round: u32,
        wants: &[i64],
        before: &[i64],
        after: &[i64],
    ) -> impl Iterator<Item = DivisionStep> {
        self.parts.iter().map(move |&(queue, _)| DivisionStep::SurplusShare {
            queue,
            round,
            surplus: self.surplus,
            want: wants[queue] - before[queue],
            granted: after[queue] - before[queue],
        })
    }
}

/// Relative parts of the queues: `n + k (n − usage)`, at least zero, where `n` is the queue's part
/// of the weights. All are scaled by one common factor and exact; only numbers beyond 40 bits are
/// rounded, all by the same power of two.
fn relative_parts(
    k_value_milli: i64,
    queues: &[QueueDemand],
    wanting: &[usize],
) -> Vec<(usize, i128)> {
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

/// The queues from which rounding withheld part of a unit: largest fraction first, then the older
/// queue, then by name.
fn queues_by_withheld_fraction(
    withheld: &BTreeMap<usize, Fraction>,
    queues: &[QueueDemand],
) -> Vec<usize> {
    let mut order: Vec<usize> =
        withheld.iter().filter(|(_, denied)| denied.numerator > 0).map(|(at, _)| *at).collect();
    order.sort_by(|left, right| {
        let (a, b) = (withheld[left], withheld[right]);
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
        let steps = relative_parts(0, &[of(1_000_003), of(7)], &[0, 1]);
        assert_eq!(steps, [(0, 1_000_003), (1, 7)]);
    }
}
