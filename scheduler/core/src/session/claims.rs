//! Claims that pods of a node share: their devices are taken while anybody has them, and being
//! released when all who have them leave.

use std::borrow::Cow;

use super::{Session, device::SharedDevice, node::NodeRoom, state::Hold};
use crate::{
    model::{Name, Node, PodId, PodShape},
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

impl Session<'_> {
    /// Of its queue's pods that have the claim and stay, the pod is the first, or there are none.
    pub fn first_user(&self, pod: PodId, claim: &Name) -> bool {
        let queue = |pod| self.account_of(pod).map(|(queue, _)| queue);
        let has_it = |user: &PodId| {
            let mut claims = self.shape_of(*user).claims.iter();
            self.state(*user).charged_on().is_some()
                && claims.any(|theirs| theirs.name == *claim)
                && queue(*user) == queue(pod)
        };
        self.claiming_pods().iter().find(|user| has_it(user)).is_none_or(|first| *first == pod)
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

#[cfg(test)]
mod tests {
    use crate::{
        Profile,
        model::{NodeId, PodId},
        session::Session,
        testing::snapshot_of,
    };

    /// GPUs, in thousandths, of the first of the table: idle, on their way back, and what the
    /// waiting pod would take.
    fn gpus(text: &str) -> (i64, i64, i64) {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let room = session.room(NodeId(0));
        let pod = snapshot.pods.iter().find(|pod| pod.node.is_none()).expect("one waits");
        let shape = &snapshot.shapes[pod.shape.0 as usize];
        let needed = room.needed(&snapshot.nodes[0], shape);
        (room.idle.gpu_milli, room.releasing.gpu_milli, needed.gpu_milli)
    }

    #[test]
    fn devices_of_a_claim_are_taken_once_until_the_last_who_has_it_is_gone() {
        let with =
            |others: &str| gpus(&format!("node n1 gpus=8 by-claim\n{others}\njob z claim x:2"));
        assert_eq!(with(""), (8000, 0, 2000));
        assert_eq!(with("job a claim x:2 on n1"), (6000, 0, 0));
        assert_eq!(with("job a pods=2 claim x:2 on n1 n1"), (6000, 0, 0));
        assert_eq!(with("job a claim x:2 releasing on n1"), (6000, 2000, 2000));
        let one_stays = "job a claim x:2 releasing on n1\njob b claim x:2 on n1";
        assert_eq!(with(one_stays), (6000, 0, 0));
        let all_leave = "job a claim x:2 releasing on n1\njob b claim x:2 releasing on n1";
        assert_eq!(with(all_leave), (6000, 2000, 2000));
        assert_eq!(with("job a claim y:3 claim w:1 on n1"), (4000, 0, 2000));
    }

    #[test]
    fn of_a_queues_pods_that_have_a_claim_the_first_pays_for_it() {
        let text = "
            node n1 gpus=8 by-claim
            queue q
            queue r
            job a claim y:1 on n1 queue=q
            job b claim x:1 queue=q
            job c claim x:1 on n1 queue=r
            job d claim x:1 on n1 queue=q
            job e claim x:1 on n1 queue=q
        ";
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let claim = &session.shape_of(PodId(4)).claims[0].name;
        let pods = snapshot.pods.iter().zip((0..).map(PodId));
        let pays = pods.filter(|(_, pod)| session.first_user(*pod, claim));
        let pays: Vec<&str> = pays.map(|(pod, _)| &*pod.name).collect();
        assert_eq!(pays, ["c", "d"]);
    }

    #[test]
    fn a_claim_that_no_pod_has_is_taken_or_on_its_way_back() {
        let with = |node: &str, others: &str| {
            gpus(&format!("node n1 gpus=8 by-claim {node}\n{others}\njob z claim x:2"))
        };
        assert_eq!(with("held x:2", ""), (6000, 0, 0));
        assert_eq!(with("held x:2", "job a claim x:2 on n1"), (6000, 0, 0));
        assert_eq!(with("given-back x:2", ""), (6000, 2000, 2000));
        assert_eq!(with("given-back x:2", "job a claim x:2 on n1"), (6000, 0, 0));
    }
}
