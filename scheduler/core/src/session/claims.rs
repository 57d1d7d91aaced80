//! Claims that pods of a node share: their devices are taken while anybody has them, and being
//! released when all who have them leave.

use std::borrow::Cow;

use super::{device::SharedDevice, node::NodeRoom, state::Hold};
use crate::{
    model::{Name, Node, PodShape},
    resources::Resources,
};

impl NodeRoom {
    /// A pod of `shape` begins (`users` is one) or ceases (minus one) to have its claims.
    pub(super) fn change_claims(
        &mut self,
        (node, shape): (&Node, &PodShape),
        hold: Hold,
        users: i64,
    ) {
        for claim in &shape.claims {
            self.change_claim((&claim.name, &claim.devices_on(node)), hold, users);
        }
    }

    /// Claims that no pod has count as if one had them that is not there.
    pub(super) fn take_held_claims(&mut self, node: &Node) {
        for held in &node.held_claims {
            let hold = if held.is_given_back { Hold::Releases } else { Hold::Has };
            self.change_claim((&held.name, &held.devices), hold, 1);
        }
    }

    fn change_claim(&mut self, (name, devices): (&Name, &Resources), hold: Hold, users: i64) {
        let at = self.claims.iter().position(|known| known.group == *name);
        let at = at.unwrap_or_else(|| {
            self.claims.push(SharedDevice::unused(name.clone()));
            self.claims.len() - 1
        });
        let known = &mut self.claims[at];
        let before = (known.has > 0, known.later() > 0);
        known.change(hold, users);
        let after = (known.has > 0, known.later() > 0);
        if known.is_unused() {
            self.claims.swap_remove(at);
        }
        move_devices(&mut self.idle, devices, before.0, after.0);
        // What is free later is idle and releasing together.
        move_devices(&mut self.releasing, devices, before.1, after.1);
        move_devices(&mut self.releasing, devices, after.0, before.0);
    }

    /// What a pod of `shape` takes of `node`, whose room this is, besides the claims that pods here
    /// have already.
    pub fn needed<'a>(&self, node: &Node, shape: &'a PodShape) -> Cow<'a, Resources> {
        let new = shape.claims.iter().filter(|claim| self.claim(&claim.name).is_none());
        let mut needed = Cow::Borrowed(&shape.requests);
        for claim in new {
            needed.to_mut().add(&claim.devices_on(node));
        }
        needed
    }

    /// Pods here have the claim, or were promised it, and do not all leave.
    fn claim(&self, name: &Name) -> Option<&SharedDevice> {
        self.claims.iter().find(|known| known.group == *name && known.later() > 0)
    }
}

/// From free to taken, or back.
fn move_devices(free: &mut Resources, devices: &Resources, was_taken: bool, is_taken: bool) {
    match (was_taken, is_taken) {
        (false, true) => free.subtract(devices),
        (true, false) => free.add(devices),
        (false, false) | (true, true) => {}
    }
}
