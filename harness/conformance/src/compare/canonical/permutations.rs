//! The permutations of workloads that may be exchanged: those that differ only in their names.

use std::collections::BTreeMap;

/// Maps letters of workloads to the letters that replace them; other letters are unchanged.
pub(super) type Permutation<'a> = BTreeMap<&'a str, &'a str>;

/// The maximum number of permutations: six equal workloads, or two times four. With more, nothing
/// is exchanged.
const PERMUTATIONS_MAX: usize = 720;

/// All permutations, given the rows of the legend: `a  train-*  queue q  …`.
pub(super) fn permutations<'a>(rows: &[&'a str]) -> Vec<Permutation<'a>> {
    let mut alike: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for row in rows {
        let mut words = row.split_whitespace();
        let (Some(letter), Some(_name)) = (words.next(), words.next()) else { continue };
        alike.entry(words.collect()).or_default().push(letter);
    }
    let mut swaps = vec![Permutation::new()];
    for letters in alike.values() {
        let ways = (1..=letters.len()).fold(swaps.len(), usize::saturating_mul);
        if ways > PERMUTATIONS_MAX {
            return vec![Permutation::new()];
        }
        let orders = orders(letters);
        let with = |swap: &Permutation<'a>, order: &Vec<&'a str>| {
            let pairs = letters.iter().copied().zip(order.iter().copied());
            swap.clone().into_iter().chain(pairs).collect()
        };
        swaps = swaps.iter().flat_map(|swap| orders.iter().map(|o| with(swap, o))).collect();
    }
    swaps
}

/// All orders of a few letters.
fn orders<'a>(letters: &[&'a str]) -> Vec<Vec<&'a str>> {
    let Some((first, rest)) = letters.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for order in orders(rest) {
        for at in 0..=order.len() {
            let mut longer = order.clone();
            longer.insert(at, first);
            all.push(longer);
        }
    }
    all
}
