//! Devices of stocks change hands, for whoever plays on from a plan without an API that tells.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Decision, Plan, Snapshot,
    model::{DeviceClaim, Name, NodeId, Reach, Stock, StockId},
};

/// What a claim has got of stocks.
type Got = BTreeMap<StockId, BTreeMap<Name, i64>>;

/// Claims that pods with a node have get devices; those of which the plan evicted the last pod give
/// theirs back.
pub fn settle(snapshot: &mut Snapshot, plan: &Plan) {
    if snapshot.stocks.is_empty() {
        return;
    }
    let evicted = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Evict { pod, .. } => Some(snapshot.pods[pod.0 as usize].shape),
        Decision::Bind { .. } | Decision::Pipeline { .. } => None,
    });
    let left = evicted.flat_map(|shape| &snapshot.shapes[shape.0 as usize].claims);
    let left: BTreeSet<Name> = left.map(|claim| claim.name.clone()).collect();
    let mut users: BTreeMap<&Name, Option<NodeId>> = BTreeMap::new();
    let mut claims: BTreeMap<Name, DeviceClaim> = BTreeMap::new();
    for pod in &snapshot.pods {
        for claim in &snapshot.shapes[pod.shape.0 as usize].claims {
            let user = users.entry(&claim.name).or_default();
            *user = user.or(pod.node);
            claims.insert(claim.name.clone(), claim.clone());
        }
    }
    for (name, claim) in &mut claims {
        match users[name] {
            None if left.contains(name) && claim.reserved_for_others == 0 => {
                give_back(claim, &mut snapshot.stocks);
            }
            Some(node) if claim.allocated_on.is_none() => {
                let count = claim.devices_on(&snapshot.nodes[node.0 as usize]).extended.clone();
                let node = &snapshot.nodes[node.0 as usize].name;
                take((claim, node), &count, &mut snapshot.stocks);
            }
            None | Some(_) => {}
        }
    }
    for claim in snapshot.shapes.iter_mut().flat_map(|shape| &mut shape.claims) {
        if let Some(settled) = claims.get(&claim.name) {
            claim.allocated_on.clone_from(&settled.allocated_on);
            claim.from_stocks.clone_from(&settled.from_stocks);
        }
    }
}

fn give_back(claim: &mut DeviceClaim, stocks: &mut [Stock]) {
    if claim.from_stocks.is_empty() {
        return;
    }
    claim.allocated_on = None;
    for (id, devices) in std::mem::take(&mut claim.from_stocks) {
        for (kind, count) in devices {
            *stocks[id.0 as usize].free.entry(kind).or_default() += count;
        }
    }
}

/// Those first that the fewest nodes reach.
fn take(
    (claim, node): (&mut DeviceClaim, &Name),
    counts: &BTreeMap<Name, i64>,
    stocks: &mut [Stock],
) {
    let is_open = |reach: &Reach| reach.has(node) && !(claim.is_local && reach.is_shared());
    let mut open: Vec<(StockId, &mut Stock)> = (0..).map(StockId).zip(stocks).collect();
    open.retain(|(_, stock)| is_open(&stock.reach));
    open.sort_by_key(|(id, stock)| (stock.reach.breadth(), *id));
    let mut got = Got::new();
    for (kind, count) in counts {
        let mut missing = *count;
        for (id, stock) in &mut open {
            let free = stock.free.get(kind).copied().unwrap_or(0);
            let taken = missing.min(free).max(0);
            if taken > 0 {
                missing -= taken;
                stock.free.insert(kind.clone(), free - taken);
                got.entry(*id).or_default().insert(kind.clone(), taken);
            }
        }
    }
    let narrowest = open.iter().find(|(id, _)| got.contains_key(id));
    claim.allocated_on = narrowest.map(|(_, stock)| stock.reach.clone());
    claim.from_stocks = got;
}
