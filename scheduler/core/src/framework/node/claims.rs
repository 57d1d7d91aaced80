//! Claims that pods of a node share: their devices are taken while any pod has them, and releasing
//! when all pods that have them are.

use std::borrow::Cow;

use super::{NodeInfo, SharedDevice};
use crate::{
    framework::{Session, pod::Occupancy},
    model::{Name, Node, PodId, PodShape},
    resources::Resources,
};

impl NodeInfo {
    /// Adds (`users` is 1) or removes (-1) a pod of `shape` as a user of its claims.
    pub(super) fn change_claim_users(
        &mut self,
        node: &Node,
        shape: &PodShape,
        occupancy: Occupancy,
        users: i64,
    ) {
        for claim in &shape.claims {
            self.change_users_of_claim(&claim.name, &claim.devices_on(node), occupancy, users);
        }
    }

    /// Takes the devices of claims that are allocated but unused, as if a pod used these claims.
    pub(super) fn charge_unused_claims(&mut self, node: &Node) {
        for held in &node.unused_claims {
            let occupancy =
                if held.is_deallocating { Occupancy::Releasing } else { Occupancy::Allocated };
            self.change_users_of_claim(&held.name, &held.devices, occupancy, 1);
        }
    }

    fn change_users_of_claim(
        &mut self,
        name: &Name,
        devices: &Resources,
        occupancy: Occupancy,
        users: i64,
    ) {
        let at = self.claims.iter().position(|entry| entry.group == *name);
        let at = at.unwrap_or_else(|| {
            self.claims.push(SharedDevice::without_use(name.clone()));
            self.claims.len() - 1
        });
        let entry = &mut self.claims[at];
        let before = (entry.used > 0, entry.used_later() > 0);
        entry.change_use(occupancy, users);
        let after = (entry.used > 0, entry.used_later() > 0);
        if entry.is_unused() {
            self.claims.swap_remove(at);
        }
        transfer_devices(&mut self.idle, devices, before.0, after.0);
        // What is free later is the sum of idle and releasing.
        transfer_devices(&mut self.releasing, devices, before.1, after.1);
        transfer_devices(&mut self.releasing, devices, after.0, before.0);
    }

    /// What a pod of `shape` takes from `node`, besides claims that are already in use there.
    /// `self` is the current info of `node`.
    pub fn requests_on<'a>(&self, node: &Node, shape: &'a PodShape) -> Cow<'a, Resources> {
        let new = shape.claims.iter().filter(|claim| self.active_claim(&claim.name).is_none());
        let mut needed = Cow::Borrowed(&shape.requests);
        for claim in new {
            needed.to_mut().add(&claim.devices_on(node));
        }
        needed
    }

    /// The claim's entry, if some user on this node is not terminating.
    fn active_claim(&self, name: &Name) -> Option<&SharedDevice> {
        self.claims.iter().find(|entry| entry.group == *name && entry.used_later() > 0)
    }
}

impl Session<'_> {
    /// Whether the pod is the first of the claim's staying users in its queue on this node, or no
    /// user stays.
    pub fn is_first_user(&self, pod: PodId, claim: &Name) -> bool {
        let queue = |pod| self.queue_and_group(pod).map(|(queue, _)| queue);
        let has_it = |user: &PodId| {
            let mut claims = self.shape_of(*user).claims.iter();
            self.state(*user).charged_node().is_some()
                && claims.any(|theirs| theirs.name == *claim)
                && queue(*user) == queue(pod)
        };
        self.pods_with_claims().iter().find(|user| has_it(user)).is_none_or(|first| *first == pod)
    }
}

/// Moves the devices of a claim between free and taken resources.
fn transfer_devices(free: &mut Resources, devices: &Resources, was_taken: bool, is_taken: bool) {
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
        framework::Session,
        model::{NodeId, PodId},
    };
    use schedlab_testkit::snapshot_of;

    /// Thousandths of GPUs of the first node: idle, releasing, and what the pending pod would take.
    fn gpus(text: &str) -> (i64, i64, i64) {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let info = session.node_info(NodeId(0));
        let pod = snapshot.pods.iter().find(|pod| pod.node.is_none()).expect("a pending pod");
        let shape = &snapshot.shapes[pod.shape.0 as usize];
        let needed = info.requests_on(&snapshot.nodes[0], shape);
        (info.idle.gpu_milli, info.releasing.gpu_milli, needed.gpu_milli)
    }

    #[test]
    fn devices_of_a_shared_claim_are_taken_once_until_its_last_user_leaves() {
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
    fn a_shared_claim_is_charged_to_the_first_pod_of_each_queue() {
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
        let pays = pods.filter(|(_, pod)| session.is_first_user(*pod, claim));
        let pays: Vec<&str> = pays.map(|(pod, _)| &*pod.name).collect();
        assert_eq!(pays, ["c", "d"]);
    }

    #[test]
    fn an_unused_claim_keeps_its_devices_or_is_releasing_them() {
        let with = |node: &str, others: &str| {
            gpus(&format!("node n1 gpus=8 by-claim {node}\n{others}\njob z claim x:2"))
        };
        assert_eq!(with("held x:2", ""), (6000, 0, 0));
        assert_eq!(with("held x:2", "job a claim x:2 on n1"), (6000, 0, 0));
        assert_eq!(with("given-back x:2", ""), (6000, 2000, 2000));
        assert_eq!(with("given-back x:2", "job a claim x:2 on n1"), (6000, 0, 0));
    }
}
