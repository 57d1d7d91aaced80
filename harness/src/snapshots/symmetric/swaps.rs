//! Which workloads of a placement may stand in each other's place: those of which the same is
//! told but for their names.

use std::collections::BTreeMap;

/// Letters of workloads and whose place each takes; the others keep their own.
pub(super) type Swap<'a> = BTreeMap<&'a str, &'a str>;

/// The most that are tried: six alike, or two times four. Where more are alike all stay.
const SWAPS_MAX: usize = 720;

/// Every way to exchange workloads, given the rows that tell of them: `a  train-*  queue q  …`.
pub(super) fn of<'a>(rows: &[&'a str]) -> Vec<Swap<'a>> {
    let mut alike: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for row in rows {
        let mut words = row.split_whitespace();
        let (Some(letter), Some(_name)) = (words.next(), words.next()) else { continue };
        alike.entry(words.collect()).or_default().push(letter);
    }
    let mut swaps = vec![Swap::new()];
    for letters in alike.values() {
        let ways = (1..=letters.len()).fold(swaps.len(), usize::saturating_mul);
        if ways > SWAPS_MAX {
            return vec![Swap::new()];
        }
        let orders = orders(letters);
        let with = |swap: &Swap<'a>, order: &Vec<&'a str>| {
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
