//! Sums over pods, per node and per queue, updated change by change; and rule 6, which compares
//! them with queue statuses.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::Name;
use super::{
    Amounts, AuditedObject, Auditor, PodView, Rule,
    breach::amount,
    view::{ClusterView, add},
};

/// Sums over pods that use capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    nodes: BTreeMap<Name, NodeAccount>,
    queues: BTreeMap<Name, QueueAccount>,
    members: BTreeMap<Name, BTreeSet<Name>>,
    /// Number of pods that use a device claim, by claim and node.
    claims: BTreeMap<Name, BTreeMap<Name, usize>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct NodeAccount {
    /// Requests of the pods on the node, leaving ones included; shared claims count once.
    pub(super) used: Amounts,
    pub(super) pods: BTreeSet<Name>,
}

/// The use of a queue, including its children. Leaving pods do not count, as in KAI.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueAccount {
    pub(super) used: Amounts,
    pub(super) non_preemptible: Amounts,
    /// Use of leaving pods.
    leaving: Amounts,
    /// Users of device claims. A claim counts once in each sum.
    claims: BTreeMap<Name, ClaimUsers>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ClaimUsers {
    stay: usize,
    non_preemptible: usize,
    leave: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

impl Sign {
    fn factor(self) -> i128 {
        match self {
            Self::Plus => 1,
            Self::Minus => -1,
        }
    }
}

impl Accounts {
    pub(super) fn node(&self, name: &Name) -> Option<&NodeAccount> {
        self.nodes.get(name)
    }

    pub(super) fn queue(&self, name: &Name) -> Option<&QueueAccount> {
        self.queues.get(name)
    }

    /// Nodes on which pods use the claim.
    pub(super) fn nodes_of_claim(&self, claim: &Name) -> impl Iterator<Item = &Name> {
        self.claims.get(claim).into_iter().flat_map(BTreeMap::keys)
    }

    /// Names of the pods of a group.
    pub(super) fn members(&self, group: &Name) -> impl Iterator<Item = &Name> {
        self.members.get(group).into_iter().flatten()
    }

    pub(super) fn pod_changed(
        &mut self,
        view: &ClusterView,
        name: &Name,
        before: Option<&PodView>,
        after: Option<&PodView>,
    ) {
        if let (Some(before), Some(after)) = (before, after)
            && before.node == after.node
            && before.group == after.group
            && before.requests == after.requests
            && before.extra_charges == after.extra_charges
            && before.claims == after.claims
            && before.holds_room() == after.holds_room()
            && before.leaving == after.leaving
        {
            return;
        }
        if let Some(pod) = before {
            self.charge_pod(view, name, pod, Sign::Minus);
        }
        if let Some(pod) = after {
            self.charge_pod(view, name, pod, Sign::Plus);
        }
    }

    /// Removes the pods of a group from the queue accounts, or adds them: call it before and after
    /// a change of the group.
    pub(super) fn charge_group(&mut self, view: &ClusterView, group: &Name, sign: Sign) {
        let members: Vec<Name> = self.members(group).cloned().collect();
        for pod in members.iter().filter_map(|name| view.pods.get(name)) {
            self.charge_queues(view, pod, sign);
        }
    }

    /// Recomputes all queue accounts after a change of the tree.
    pub(super) fn rebuild_queues(&mut self, view: &ClusterView) {
        self.queues.clear();
        for pod in view.pods.values() {
            self.charge_queues(view, pod, Sign::Plus);
        }
    }

    fn charge_pod(&mut self, view: &ClusterView, name: &Name, pod: &PodView, sign: Sign) {
        if let Some(node) = pod.node.as_ref().filter(|_| pod.holds_room()) {
            let account = self.nodes.entry(node.clone()).or_default();
            add(&mut account.used, &pod.requests, sign.factor());
            update_set(&mut account.pods, name, sign);
            let claims = pod.claims.iter().filter(|(claim, _)| {
                let users = self.claims.entry((*claim).clone()).or_default();
                is_first_or_last(users, node, sign)
            });
            claims.for_each(|(_, devices)| add(&mut account.used, devices, sign.factor()));
        }
        if let Some(group) = &pod.group {
            update_set(self.members.entry(group.clone()).or_default(), name, sign);
        }
        self.charge_queues(view, pod, sign);
    }

    fn charge_queues(&mut self, view: &ClusterView, pod: &PodView, sign: Sign) {
        let Some(group) = view.group_of(pod).filter(|_| pod.holds_room()) else { return };
        for queue in view.lineage(&group.queue) {
            self.queues.entry(queue).or_default().charge(pod, group.preemptible, sign);
        }
    }
}

impl QueueAccount {
    /// The charge of a pod that was just added to the queue, without claims that its other pods
    /// use.
    pub(super) fn charge_of_new_pod(&self, pod: &PodView) -> Amounts {
        let mut brought = Amounts::new();
        add(&mut brought, pod.charged(), 1);
        let users = |claim: &Name| self.claims.get(claim).copied().unwrap_or_default();
        let alone = pod.claims.iter().filter(|(claim, _)| users(claim).stay <= 1);
        alone.for_each(|(_, devices)| add(&mut brought, devices, 1));
        brought
    }

    fn charge(&mut self, pod: &PodView, preemptible: bool, sign: Sign) {
        let factor = sign.factor();
        if pod.leaving {
            add(&mut self.leaving, pod.charged(), factor);
        } else {
            add(&mut self.used, pod.charged(), factor);
            if !preemptible {
                add(&mut self.non_preemptible, pod.charged(), factor);
            }
        }
        for (claim, devices) in &pod.claims {
            let mut users = self.claims.remove(claim).unwrap_or_default();
            self.charge_claim(users, devices, -1);
            let count = |count: &mut usize| {
                *count = match sign {
                    Sign::Plus => *count + 1,
                    Sign::Minus => count.saturating_sub(1),
                };
            };
            count(if pod.leaving { &mut users.leave } else { &mut users.stay });
            if !pod.leaving && !preemptible {
                count(&mut users.non_preemptible);
            }
            self.charge_claim(users, devices, 1);
            if users.stay + users.leave > 0 {
                self.claims.insert(claim.clone(), users);
            }
        }
    }

    fn charge_claim(&mut self, users: ClaimUsers, devices: &Amounts, factor: i128) {
        if users.stay > 0 {
            add(&mut self.used, devices, factor);
        } else if users.leave > 0 {
            add(&mut self.leaving, devices, factor);
        }
        if users.non_preemptible > 0 {
            add(&mut self.non_preemptible, devices, factor);
        }
    }
}

fn update_set(set: &mut BTreeSet<Name>, name: &Name, sign: Sign) {
    match sign {
        Sign::Plus => set.insert(name.clone()),
        Sign::Minus => set.remove(name),
    };
}

/// Counts a user of a claim on the node. Returns whether it is the first one, or was the last.
fn is_first_or_last(users: &mut BTreeMap<Name, usize>, node: &Name, sign: Sign) -> bool {
    let count = users.entry(node.clone()).or_default();
    match sign {
        Sign::Plus => *count += 1,
        Sign::Minus => *count = count.saturating_sub(1),
    }
    let (count, one_is_left) = (*count, *count == 1);
    if count == 0 {
        users.remove(node);
    }
    match sign {
        Sign::Plus => one_is_left,
        Sign::Minus => count == 0,
    }
}

/// Rule 6. A status may count leaving pods or not: schedulers differ.
pub(super) fn check_status(auditor: &mut Auditor, queue: &Name, allocated: &Amounts) {
    let account = auditor.accounts.queue(queue).cloned().unwrap_or_default();
    let wrong = allocated.iter().find_map(|(resource, said)| {
        let used = account.used.get(resource).copied().unwrap_or(0);
        let leaving = account.leaving.get(resource).copied().unwrap_or(0);
        let right = *said == used || *said == used + leaving;
        (!right).then(|| (resource.clone(), *said, used))
    });
    if let Some((resource, said, used)) = wrong {
        let detail = format!(
            "status of queue {queue} reports {} {resource} in use; its bound pods use {}",
            amount(said),
            amount(used)
        );
        auditor.report(Rule::Accounts, vec![AuditedObject::Queue(queue.clone())], detail);
    }
    if let Some((resource, said)) = allocated.iter().find(|(_, said)| **said < 0) {
        let detail = format!("status of queue {queue} reports {} {resource} in use", amount(*said));
        auditor.report(Rule::Negative, vec![AuditedObject::Queue(queue.clone())], detail);
    }
}
