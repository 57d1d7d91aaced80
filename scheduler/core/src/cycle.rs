//! One cycle, phase by phase.

use std::collections::BTreeMap;

use crate::{
    Plan, Profile, QueueUse, Reason, Snapshot,
    actions::{
        allocate::{self, Reasons},
        consolidate, preempt, reclaim,
        stale_gangs::{self, Staleness},
    },
    behind::behind_others,
    deadlines,
    decision::Preemption,
    framework::WaitingRoom,
    model::{NodeId, PodGroupId, PodId, QueueId},
    plugins::deallocation,
    profile::Action,
    queues::Ledger,
    resources::{PerResource, Resources},
    session::{PodState, Session},
    shares::KeptByShare,
    victims::Solved,
};

/// Looks on while a cycle is decided: it measures or notes, and changes nothing.
pub trait Onlooker {
    /// An action is about to begin.
    fn begins(&mut self, action: Action, session: &Session<'_>);
    /// It is over; what it decided stands behind what was decided before.
    fn ended(&mut self, action: Action, session: &Session<'_>);
}

/// Nobody looks on.
impl Onlooker for () {
    fn begins(&mut self, _: Action, _: &Session<'_>) {}
    fn ended(&mut self, _: Action, _: &Session<'_>) {}
}

/// Decides one scheduling cycle.
pub fn schedule(snapshot: &Snapshot, profile: &Profile) -> Plan {
    schedule_before(snapshot, profile, &mut ())
}

/// The same before an onlooker.
pub fn schedule_before(
    snapshot: &Snapshot,
    profile: &Profile,
    onlooker: &mut dyn Onlooker,
) -> Plan {
    decide(snapshot, profile, onlooker).1
}

/// The same, and the session as it stands afterwards.
pub(crate) fn decide<'s>(
    snapshot: &'s Snapshot,
    profile: &'s Profile,
    onlooker: &mut dyn Onlooker,
) -> (Session<'s>, Plan) {
    // 1. The cluster as it is, and how it is shared.
    let mut session = Session::new(snapshot, profile);
    let mut ledger = session.ledger().clone();
    let queues = queue_uses(&ledger);

    // 2. PreEnqueue: who is fit to be looked at.
    let (ready, mut reasons) = pre_enqueue(&session);

    // 3. The actions, each on what the ones before left.
    let (mut staleness, mut solved) = (Staleness::default(), Solved::new(serve_again));
    for &action in &profile.actions {
        onlooker.begins(action, &session);
        match action {
            Action::Allocate => allocate::run(&mut session, ready.clone(), &mut reasons),
            Action::Consolidate => consolidate::run(&mut session, &mut solved),
            Action::Reclaim => reclaim::run(&mut session, &mut solved),
            Action::Preempt => preempt::run(&mut session, &mut solved),
            Action::StaleGangEviction => staleness = stale_gangs::run(&mut session),
        }
        onlooker.ended(action, &session);
    }

    if let Some(&depth) = profile.queue_depth.get(&Action::Allocate) {
        let unseen = ready.iter().filter(|group| session.members(**group).wait());
        for group in unseen {
            reasons.entry(*group).or_insert(Reason::BehindOthers { depth });
        }
    }

    // 4. Why whoever still waits does.
    let waiting = reasons_to_wait(&session, reasons);

    // 5. When to look again though nothing happened.
    let next_end = staleness.next_end.into_iter().chain(deadlines::next_end(&session)).min();
    let look_again_in_millis =
        next_end.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));

    // 6. What the queues use when all of that is done.
    session.book_decisions(&mut ledger);

    let plan = Plan {
        gpu_groups: session.chosen_gpu_groups(),
        zones: session.chosen_zones(),
        decisions: session.take_decisions(),
        behind: behind_others(&session, &waiting),
        waiting,
        waiting_pods: BTreeMap::new(),
        stale: staleness.changed,
        shared: ledger.total(),
        queues,
        queues_after: queue_uses(&ledger),
        look_again_in_millis,
    };
    (session, plan)
}

/// What the next cycle does before anybody is evicted.
pub(crate) fn serve_again(session: &mut Session<'_>) {
    let (ready, _) = pre_enqueue(session);
    allocate::rehearse(session, ready);
}

/// Pod groups with waiting pods: those that may be served, and why the others may not. Pods that
/// cannot be scheduled matter where their group cannot do without them.
fn pre_enqueue(session: &Session<'_>) -> (Vec<PodGroupId>, Reasons) {
    let plugins = &session.profile.plugins.pre_enqueue;
    let (mut ready, mut reasons) = (Vec::new(), Reasons::new());
    for group in session.groups() {
        let members = session.members(group);
        if !members.wait() && members.gated() == 0 && !misses_unusable(session, group) {
            continue;
        }
        match plugins.iter().try_for_each(|plugin| plugin.pre_enqueue(session, group)) {
            Ok(()) if members.wait() => ready.push(group),
            Ok(()) => {}
            Err(reason) => {
                reasons.insert(group, reason);
            }
        }
    }
    (ready, reasons)
}

/// It cannot do without those of its pods that cannot be scheduled.
fn misses_unusable(session: &Session<'_>, group: PodGroupId) -> bool {
    let of = session.group(group);
    !of.unusable.is_empty() && session.members(group).ready(of).is_err()
}

/// Groups that got all they asked for have none; groups whose pods were all promised room wait
/// for just that.
fn reasons_to_wait(session: &Session<'_>, mut reasons: Reasons) -> Reasons {
    let mut promised: BTreeMap<PodGroupId, Vec<NodeId>> = BTreeMap::new();
    for (pod, id) in session.snapshot.pods.iter().zip(session.pod_ids()) {
        if let (Some(group), PodState::Promised(node)) = (pod.group, session.state(id)) {
            promised.entry(group).or_default().push(node);
        }
    }
    reasons.retain(|group, reason| {
        let members = session.members(*group);
        let nominated = matches!(reason, Reason::Unschedulable { .. });
        members.wait() || members.gated() > 0 || misses_unusable(session, *group) || nominated
    });
    for (group, reason) in &mut reasons {
        deadlines::add_delay(session, *group, reason);
        deadlines::add_bound(session, *group, reason);
        deadlines::add_protection(session, *group, reason);
    }
    KeptByShare::of(session).tell(session, &mut reasons);
    for (group, mut nodes) in promised {
        nodes.sort_unstable();
        nodes.dedup();
        // Why there was no room for its minimum is no longer so.
        let its_minimum_waits = session.members(group).minimum_waits(session.group(group));
        if its_minimum_waits && session.profile.plugins.waiting == WaitingRoom::AnyNode {
            reasons.remove(&group);
        }
        reasons.entry(group).or_insert_with(|| promised_room(session, group, &nodes));
    }
    reasons
}

fn promised_room(session: &Session<'_>, group: PodGroupId, nodes: &[NodeId]) -> Reason {
    match session.profile.plugins.waiting {
        WaitingRoom::AnyNode => {
            let nodes = nodes.iter().map(|node| session.node(*node).name.clone()).collect();
            Reason::Promised { nodes }
        }
        WaitingRoom::NominatedNode => {
            let of_group = |pod: &PodId| session.pod(*pod).group == Some(group);
            let pod = session.pod_ids().find(of_group).expect("it was promised room");
            let misfits = session.misfits(pod, None);
            let deallocation = deallocation(session, pod, &misfits);
            let preemption = Preemption::OthersTerminate;
            Reason::Unschedulable { misfits, deallocation, preemption }
        }
    }
}

fn queue_uses(ledger: &Ledger) -> BTreeMap<QueueId, QueueUse> {
    let count = u32::try_from(ledger.len()).expect("queue ids are 32 bits");
    (0..count)
        .map(|at| {
            let account = ledger.account(QueueId(at));
            let queue_use = QueueUse {
                fair_share: account.fair_share,
                allocated: resources(account.allocated),
                allocated_non_preemptible: resources(account.allocated_non_preemptible),
                requested: resources(account.requested),
            };
            (QueueId(at), queue_use)
        })
        .collect()
}

fn resources(amounts: PerResource<i64>) -> Resources {
    Resources {
        gpu_milli: amounts.gpu,
        cpu_milli: amounts.cpu,
        memory_bytes: amounts.memory,
        ..Resources::default()
    }
}
