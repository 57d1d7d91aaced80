//! Which open claim gets which volume: a matching in which no volume is given twice. It is looked
//! for anew whenever somebody asks, so there is nothing to be undone when a pod goes elsewhere.
//! Devices of several nodes are given in the same way.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{has_storage, is_within};
use crate::model::{
    DeviceClaim, DeviceWish, Made, Name, Node, Volume, VolumeAccess, VolumeClaim, VolumeReach,
};

/// What an open claim gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// This volume.
    Volume(Name),
    /// One that is made for it.
    Made,
}

/// Open claims, and where those are who use them.
#[derive(Clone, Debug, Default)]
pub(in crate::plugins) struct Matching<'s> {
    claims: BTreeMap<&'s Name, Wish<'s>>,
}

#[derive(Clone, Debug)]
struct Wish<'s> {
    volumes: &'s [Arc<Volume>],
    made: Option<&'s Made>,
    nodes: Vec<&'s Node>,
}

/// Which claim has which volume.
#[derive(Clone, Debug, Default)]
pub(in crate::plugins) struct Solution<'s> {
    claim_of: BTreeMap<&'s Name, &'s Name>,
    made: BTreeSet<&'s Name>,
    /// Some claim gets nothing.
    is_short: bool,
}

impl Wish<'_> {
    /// All who use it can do so.
    fn suits(&self, reach: &VolumeReach) -> bool {
        self.nodes.iter().all(|node| is_within(reach, node))
    }

    /// A volume can be made where they all are. How far it will reach nobody knows before.
    fn can_be_made(&self) -> bool {
        let is_one_node = self.nodes.iter().all(|node| node.name == self.nodes[0].name);
        let has_storage = |made: &Made| self.nodes.iter().all(|node| has_storage(made, node));
        is_one_node && self.made.is_some_and(|made| self.suits(&made.reach) && has_storage(made))
    }
}

impl<'s> Matching<'s> {
    /// A pod with these claims is, or will be, on the node.
    pub(in crate::plugins) fn add(&mut self, claims: &'s [VolumeClaim], node: &'s Node) {
        for claim in claims {
            if let VolumeAccess::Open { volumes, made } = &claim.access {
                let wish = Wish { volumes, made: made.as_ref(), nodes: Vec::new() };
                self.claims.entry(&claim.name).or_insert(wish).nodes.push(node);
            }
        }
    }

    /// A pod with these claims on devices is, or will be, on the node.
    pub(in crate::plugins) fn add_devices(&mut self, claims: &'s [DeviceClaim], node: &'s Node) {
        for claim in claims {
            self.add_wishes(claim.reach.wishes(), node);
        }
    }

    /// A pod that wants such devices is, or will be, on the node.
    pub(in crate::plugins) fn add_wishes(&mut self, wishes: &'s [DeviceWish], node: &'s Node) {
        for DeviceWish { name, devices } in wishes {
            let wish = Wish { volumes: devices, made: None, nodes: Vec::new() };
            self.claims.entry(name).or_insert(wish).nodes.push(node);
        }
    }

    /// The others come, too.
    fn join(&mut self, others: Self) {
        for (name, Wish { volumes, made, nodes }) in others.claims {
            let wish = Wish { volumes, made, nodes: Vec::new() };
            self.claims.entry(name).or_insert(wish).nodes.extend(nodes);
        }
    }

    /// As many claims as can be get a volume: those first for which none can be made.
    pub(in crate::plugins) fn solve(&self) -> Solution<'s> {
        let mut solution = Solution::default();
        let (makeable, bound): (Vec<_>, Vec<_>) =
            self.claims.iter().partition(|(_, wish)| wish.can_be_made());
        for (claim, wish) in bound.into_iter().chain(makeable) {
            if self.give(claim, &mut solution, &mut BTreeSet::new()) {
                continue;
            }
            if wish.can_be_made() {
                solution.made.insert(claim);
            } else {
                solution.is_short = true;
            }
        }
        solution
    }

    /// Finds a volume for the claim; where none is free, who has it already may have to take another.
    fn give(
        &self,
        claim: &'s Name,
        solution: &mut Solution<'s>,
        seen: &mut BTreeSet<&'s Name>,
    ) -> bool {
        let wish = &self.claims[claim];
        let suiting = || wish.volumes.iter().filter(|volume| wish.suits(&volume.reach));
        let is_free = |volume: &&Arc<Volume>| !solution.claim_of.contains_key(&volume.name);
        if let Some(free) = suiting().find(is_free) {
            solution.claim_of.insert(&free.name, claim);
            return true;
        }
        for volume in suiting() {
            if !seen.insert(&volume.name) {
                continue;
            }
            let before = solution.claim_of[&volume.name];
            if self.give(before, solution, seen) {
                solution.claim_of.insert(&volume.name, claim);
                return true;
            }
        }
        false
    }
}

impl<'s> Solution<'s> {
    /// A pod that comes alone with these claims can be there beside those of `matching`, whose
    /// solution it is.
    pub(in crate::plugins) fn takes(&self, matching: &Matching<'s>, alone: Matching<'s>) -> bool {
        if alone.claims.is_empty() {
            return true;
        }
        if alone.claims.keys().all(|claim| !matching.claims.contains_key(*claim)) {
            let mut free = alone.clone();
            let own: Vec<Vec<Arc<Volume>>> = free.claims.values().map(|it| self.free(it)).collect();
            for (wish, volumes) in free.claims.values_mut().zip(&own) {
                wish.volumes = volumes;
            }
            if !free.solve().is_short {
                return true;
            }
        }
        let mut with = matching.clone();
        with.join(alone);
        !with.solve().is_short
    }

    fn free(&self, wish: &Wish<'_>) -> Vec<Arc<Volume>> {
        let free = |volume: &&Arc<Volume>| !self.claim_of.contains_key(&volume.name);
        wish.volumes.iter().filter(free).cloned().collect()
    }

    /// By the claims' names.
    pub(in crate::plugins) fn named(self) -> BTreeMap<Name, Chosen> {
        let given = self.claim_of.into_iter();
        let given = given.map(|(volume, claim)| (claim.clone(), Chosen::Volume(volume.clone())));
        given.chain(self.made.into_iter().map(|claim| (claim.clone(), Chosen::Made))).collect()
    }
}
