//! Devices that several nodes reach.

use super::{super::words::Words, shape};
use crate::{
    Snapshot,
    model::{DeviceClaim, Stock, StockId},
};

/// `stock n1|n2 extended nic=2`; nodes offer them as well. `returning` ones are free soon.
pub(super) fn of(mut words: Words<'_>) -> Stock {
    let reach = shape::reach(words.first());
    let all = shape::extended(&mut words);
    let returning = if words.flag("returning") { all.clone() } else { <_>::default() };
    words.end();
    let free = if returning.is_empty() { all.clone() } else { <_>::default() };
    Stock { reach, all, free, returning }
}

/// Claims have what they are allocated from the stock with the same reach.
pub(super) fn settle(snapshot: &mut Snapshot) {
    let mut settled = std::collections::BTreeSet::new();
    let claims = snapshot.shapes.iter_mut().flat_map(|shape| &mut shape.claims);
    for claim in claims {
        let DeviceClaim { allocated_on, devices, from_stocks, name, .. } = claim;
        let same = |stock: &Stock| Some(&stock.reach) == allocated_on.as_ref();
        let Some(at) = snapshot.stocks.iter().position(same) else { continue };
        let id = StockId(u32::try_from(at).expect("few stocks"));
        from_stocks.insert(id, devices.extended.clone());
        if settled.insert(name.clone()) {
            for (kind, count) in &devices.extended {
                *snapshot.stocks[at].free.entry(kind.clone()).or_default() -= count;
            }
        }
    }
}
