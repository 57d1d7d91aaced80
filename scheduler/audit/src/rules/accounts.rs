//! Sums over pods, per node and per queue, updated change by change; and rule 6, which compares
//! them with queue statuses.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::Name;
use super::{
    Amounts, AuditedObject, Auditor, PodView, Rule,
    breach::format_thousandths,
    view::{ClusterView, add_scaled},
};

/// Resource usage of nodes and queues, summed over their pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    nodes: BTreeMap<Name, NodeUsage>,
    queues: BTreeMap<Name, QueueAccount>,
    members: BTreeMap<Name, BTreeSet<Name>>,
    /// Number of pods that use a device claim, by claim and node.
    claims: BTreeMap<Name, BTreeMap<Name, usize>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct NodeUsage {
    /// Requests of the pods on the node, terminating pods included; shared claims count once.
    pub(super) used: Amounts,
    pub(super) pods: BTreeSet<Name>,
}

/// The usage of a queue, including its child queues. Terminating pods do not count, as in KAI.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueAccount {
    pub(super) used: Amounts,
    pub(super) non_preemptible: Amounts,
    /// Usage of terminating pods.
    leaving: Amounts,
    /// Number of users of each device claim. A claim counts once in each sum, however many pods use
    /// it.
    claims: BTreeMap<Name, ClaimUsers>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ClaimUsers {
    stay: usize,
    non_preemptible: usize,
    leave: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChargeSign {
    Plus,
    Minus,
}

impl ChargeSign {
    fn factor(self) -> i128 {
        match self {
            Self::Plus => 1,
            Self::Minus => -1,
        }
    }
}

impl Accounts {
    pub(super) fn node_usage(&self, name: &Name) -> Option<&NodeUsage> {
        self.nodes.get(name)
    }

    pub(super) fn queue_account(&self, name: &Name) -> Option<&QueueAccount> {
        self.queues.get(name)
    }

    /// Nodes on which pods use the claim.
    pub(super) fn nodes_of_claim(&self, claim: &Name) -> impl Iterator<Item = &Name> {
        self.claims.get(claim).into_iter().flat_map(BTreeMap::keys)
    }

    /// Names of the pods of a pod group.
    pub(super) fn pods_of_group(&self, group: &Name) -> impl Iterator<Item = &Name> {
        self.members.get(group).into_iter().flatten()
    }

    pub(super) fn update_pod(
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
            && before.uses_node_capacity() == after.uses_node_capacity()
            && before.leaving == after.leaving
        {
            return;
        }
        if let Some(pod) = before {
            self.charge_pod(view, name, pod, ChargeSign::Minus);
        }
        if let Some(pod) = after {
            self.charge_pod(view, name, pod, ChargeSign::Plus);
        }
    }

    /// Removes the pods of a group from the queue accounts, or adds them. Callers remove the pods
    /// before a change of the group, and add them after it.
    pub(super) fn charge_queues_for_group(
        &mut self,
        view: &ClusterView,
        group: &Name,
        sign: ChargeSign,
    ) {
        let members: Vec<Name> = self.pods_of_group(group).cloned().collect();
        for pod in members.iter().filter_map(|name| view.pods.get(name)) {
            self.charge_queues(view, pod, sign);
        }
    }

    /// Recomputes all queue accounts after a change of the queue tree.
    pub(super) fn recompute_queue_accounts(&mut self, view: &ClusterView) {
        self.queues.clear();
        for pod in view.pods.values() {
            self.charge_queues(view, pod, ChargeSign::Plus);
        }
    }

    fn charge_pod(&mut self, view: &ClusterView, name: &Name, pod: &PodView, sign: ChargeSign) {
        if let Some(node) = pod.node.as_ref().filter(|_| pod.uses_node_capacity()) {
            let account = self.nodes.entry(node.clone()).or_default();
            add_scaled(&mut account.used, &pod.requests, sign.factor());
            add_to_or_remove_from(&mut account.pods, name, sign);
            let claims = pod.claims.iter().filter(|(claim, _)| {
                let users = self.claims.entry((*claim).clone()).or_default();
                count_user_is_first_or_last(users, node, sign)
            });
            claims.for_each(|(_, devices)| add_scaled(&mut account.used, devices, sign.factor()));
        }
        if let Some(group) = &pod.group {
            add_to_or_remove_from(self.members.entry(group.clone()).or_default(), name, sign);
        }
        self.charge_queues(view, pod, sign);
    }

    fn charge_queues(&mut self, view: &ClusterView, pod: &PodView, sign: ChargeSign) {
        let Some(group) = view.group_of(pod).filter(|_| pod.uses_node_capacity()) else { return };
        for queue in view.queue_and_ancestors(&group.queue) {
            self.queues.entry(queue).or_default().charge_pod_usage(pod, group.preemptible, sign);
        }
    }
}

impl QueueAccount {
    /// The charge of a pod that was just added to the queue. Claims that other pods of the queue
    /// use already are not charged again.
    pub(super) fn charge_of_new_pod(&self, pod: &PodView) -> Amounts {
        let mut brought = Amounts::new();
        add_scaled(&mut brought, pod.queue_charges(), 1);
        let users = |claim: &Name| self.claims.get(claim).copied().unwrap_or_default();
        let alone = pod.claims.iter().filter(|(claim, _)| users(claim).stay <= 1);
        alone.for_each(|(_, devices)| add_scaled(&mut brought, devices, 1));
        brought
    }

    fn charge_pod_usage(&mut self, pod: &PodView, preemptible: bool, sign: ChargeSign) {
        let factor = sign.factor();
        if pod.leaving {
            add_scaled(&mut self.leaving, pod.queue_charges(), factor);
        } else {
            add_scaled(&mut self.used, pod.queue_charges(), factor);
            if !preemptible {
                add_scaled(&mut self.non_preemptible, pod.queue_charges(), factor);
            }
        }
        for (claim, devices) in &pod.claims {
            let mut users = self.claims.remove(claim).unwrap_or_default();
            self.charge_claim(users, devices, -1);
            let count = |count: &mut usize| {
                *count = match sign {
                    ChargeSign::Plus => *count + 1,
                    ChargeSign::Minus => count.saturating_sub(1),
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
            add_scaled(&mut self.used, devices, factor);
        } else if users.leave > 0 {
            add_scaled(&mut self.leaving, devices, factor);
        }
        if users.non_preemptible > 0 {
            add_scaled(&mut self.non_preemptible, devices, factor);
        }
    }
}

fn add_to_or_remove_from(set: &mut BTreeSet<Name>, name: &Name, sign: ChargeSign) {
    match sign {
        ChargeSign::Plus => set.insert(name.clone()),
        ChargeSign::Minus => set.remove(name),
    };
}

/// Counts one user more or less of a claim on the node. Returns whether the user is the first one
/// (when added) or was the last one (when removed).
fn count_user_is_first_or_last(
    users: &mut BTreeMap<Name, usize>,
    node: &Name,
    sign: ChargeSign,
) -> bool {
    let count = users.entry(node.clone()).or_default();
    match sign {
        ChargeSign::Plus => *count += 1,
        ChargeSign::Minus => *count = count.saturating_sub(1),
    }
    let (count, one_is_left) = (*count, *count == 1);
    if count == 0 {
        users.remove(node);
    }
    match sign {
        ChargeSign::Plus => one_is_left,
        ChargeSign::Minus => count == 0,
    }
}

/// Checks rule 6: the status of a queue must report the usage of its pods, with or without
/// terminating pods, because schedulers differ in that.
pub(super) fn check_queue_status(auditor: &mut Auditor, queue: &Name, allocated: &Amounts) {
    let account = auditor.accounts.queue_account(queue).cloned().unwrap_or_default();
    let wrong = allocated.iter().find_map(|(resource, said)| {
        let used = account.used.get(resource).copied().unwrap_or(0);
        let leaving = account.leaving.get(resource).copied().unwrap_or(0);
        let right = *said == used || *said == used + leaving;
        (!right).then(|| (resource.clone(), *said, used))
    });
    if let Some((resource, said, used)) = wrong {
        let detail = format!(
            "status of queue {queue} reports {} {resource} in use; its bound pods use {}",
            format_thousandths(said),
            format_thousandths(used)
        );
        auditor.report_breach(Rule::Accounts, vec![AuditedObject::Queue(queue.clone())], detail);
    }
    if let Some((resource, said)) = allocated.iter().find(|(_, said)| **said < 0) {
        let detail = format!(
            "status of queue {queue} reports {} {resource} in use",
            format_thousandths(*said)
        );
        auditor.report_breach(Rule::Negative, vec![AuditedObject::Queue(queue.clone())], detail);
    }
}
