//! One scheduling cycle, phase by phase.

mod fair_share_reason;
mod head_of_line;
mod requeue;

use std::collections::BTreeMap;

use crate::{
    Plan, Profile, QueueUsage, Reason, Snapshot,
    actions::{
        allocate::{self, Reasons},
        consolidate, preempt, reclaim,
        stale_gangs::{self, Staleness},
    },
    framework::{PipelinePolicy, PodState, Session, Statement},
    model::{NodeId, PodGroupId, PodId, QueueId},
    plugins::deallocation,
    profile::Action,
    queues::QueueAccounts,
    reason::{PodGroupFailure, PodGroupPreemption, PreemptionOutcome},
    resources::{PerResource, Resources},
    solver::AcceptedSolutions,
};
use fair_share_reason::AtFairShare;
use head_of_line::blocked_by_head_of_line;

/// Observes a cycle, for measurements and traces. It changes nothing.
pub trait CycleObserver {
    /// Called before an action starts.
    fn on_action_start(&mut self, action: Action, session: &Session<'_>);
    /// Called after an action ended; its decisions follow those of earlier actions.
    fn on_action_end(&mut self, action: Action, session: &Session<'_>);
}

/// No observer.
impl CycleObserver for () {
    fn on_action_start(&mut self, _: Action, _: &Session<'_>) {}
    fn on_action_end(&mut self, _: Action, _: &Session<'_>) {}
}

/// Decides one scheduling cycle.
pub fn schedule(snapshot: &Snapshot, profile: &Profile) -> Plan {
    schedule_observed(snapshot, profile, &mut ())
}

/// Like [`schedule`], with an observer.
pub fn schedule_observed(
    snapshot: &Snapshot,
    profile: &Profile,
    observer: &mut dyn CycleObserver,
) -> Plan {
    decide(snapshot, profile, observer).1
}

/// Like [`schedule`], for a snapshot taken within a cycle (KAI's test cases have such): the pending
/// pods `pipelined` are already pipelined to their nominated nodes.
pub fn schedule_with_pipelined(
    snapshot: &Snapshot,
    profile: &Profile,
    pipelined: &[PodId],
) -> Plan {
    let mut statement = Statement::new(Session::new(snapshot, profile));
    for pod in pipelined {
        statement.restore_pipelined(*pod);
    }
    decide_from(Statement::new(statement.into_session()), &mut ()).1
}

/// Like [`schedule_observed`]; also returns the statement after the cycle.
pub fn decide<'s>(
    snapshot: &'s Snapshot,
    profile: &'s Profile,
    observer: &mut dyn CycleObserver,
) -> (Statement<'s>, Plan) {
    decide_from(Statement::new(Session::new(snapshot, profile)), observer)
}

fn decide_from<'s>(
    mut statement: Statement<'s>,
    observer: &mut dyn CycleObserver,
) -> (Statement<'s>, Plan) {
    let profile = statement.profile;
    // 1. The state of the cluster, and the fair shares.
    let mut accounts = statement.accounts().clone();
    let queues = queue_uses(&accounts);

    // 2. PreEnqueue: which pod groups are tried.
    let (ready, mut reasons) = pre_enqueue(&statement);

    // 3. The actions, each on the result of the ones before.
    let (mut staleness, mut accepted) =
        (Staleness::default(), AcceptedSolutions::new(allocate_again));
    for &action in &profile.actions {
        observer.on_action_start(action, &statement);
        match action {
            Action::Allocate => allocate::run(&mut statement, ready.clone(), &mut reasons),
            Action::Consolidate => consolidate::run(&mut statement, &mut accepted),
            Action::Reclaim => reclaim::run(&mut statement, &mut accepted),
            Action::Preempt => preempt::run(&mut statement, &mut accepted),
            Action::StaleGangEviction => staleness = stale_gangs::run(&mut statement),
        }
        observer.on_action_end(action, &statement);
    }

    // Groups that gave the places of this cycle to others are tried elsewhere.
    let unbound = statement.remove_cancelled_bindings();
    if !unbound.is_empty() {
        allocate::run(&mut statement, unbound.into_iter().collect(), &mut reasons);
    }

    if let Some(&depth) = profile.queue_depth.get(&Action::Allocate) {
        let beyond_depth = ready.iter().filter(|group| statement.members(**group).has_waiting());
        for group in beyond_depth {
            reasons.entry(*group).or_insert(Reason::QueueDepthReached { depth });
        }
    }

    // 4. The reasons of all groups that are still pending.
    let pending = pending_reasons(&statement, reasons);

    // 5. When to run again without an event.
    let next_deadline =
        staleness.next_deadline.into_iter().chain(requeue::next_deadline(&statement)).min();
    let look_again_in_millis =
        next_deadline.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));

    // 6. The use of the queues after all decisions.
    statement.apply_decisions(&mut accounts);

    let plan = Plan {
        gpu_groups: statement.chosen_gpu_groups(),
        numa_allocations: statement.chosen_numa_allocations(),
        decisions: statement.take_decisions(),
        blocked_by_head_of_line: blocked_by_head_of_line(&statement, &pending),
        waiting: pending,
        waiting_pods: BTreeMap::new(),
        staleness_changes: staleness.changed,
        total_shared: accounts.total(),
        queues,
        queues_after: queue_uses(&accounts),
        requeue_after_millis: look_again_in_millis,
    };
    (statement, plan)
}

/// Allocates pending jobs as the next cycle does before it evicts.
pub fn allocate_again(statement: &mut Statement<'_>) {
    let (ready, _) = pre_enqueue(statement);
    allocate::rehearse(statement, ready);
}

/// Splits the pod groups with pending pods into those that may be placed and those with a reason
/// why not. Unschedulable pods matter if their group cannot run without them.
fn pre_enqueue(session: &Session<'_>) -> (Vec<PodGroupId>, Reasons) {
    let plugins = &session.profile.plugins.pre_enqueue;
    let (mut ready, mut reasons) = (Vec::new(), Reasons::new());
    for group in session.groups() {
        let members = session.members(group);
        if !members.has_waiting() && members.gated() == 0 && !needs_unusable_members(session, group)
        {
            continue;
        }
        match plugins.iter().try_for_each(|plugin| plugin.pre_enqueue(session, group)) {
            Ok(()) if members.has_waiting() => ready.push(group),
            Ok(()) => {}
            Err(reason) => {
                reasons.insert(group, reason);
            }
        }
    }
    (ready, reasons)
}

/// Whether the group cannot run without its unschedulable pods.
fn needs_unusable_members(session: &Session<'_>, group: PodGroupId) -> bool {
    let of = session.group(group);
    !of.unschedulable_members.is_empty() && session.members(group).check_ready(of).is_err()
}

/// Completes the reasons: groups that got all their pods have none; groups whose pending pods were
/// all pipelined wait for the release of that capacity.
fn pending_reasons(session: &Session<'_>, mut reasons: Reasons) -> Reasons {
    let mut pipelined: BTreeMap<PodGroupId, Vec<NodeId>> = BTreeMap::new();
    for (pod, id) in session.snapshot.pods.iter().zip(session.pod_ids()) {
        if let (Some(group), PodState::Pipelined(node)) = (pod.group, session.state(id)) {
            pipelined.entry(group).or_default().push(node);
        }
    }
    reasons.retain(|group, reason| {
        let members = session.members(*group);
        let nominated =
            matches!(reason, Reason::Unschedulable { .. } | Reason::PodGroupUnschedulable(_));
        members.has_waiting()
            || members.gated() > 0
            || needs_unusable_members(session, *group)
            || nominated
    });
    for (group, reason) in &mut reasons {
        requeue::add_preemption_delay(session, *group, reason);
        requeue::add_preemption_limit(session, *group, reason);
        requeue::add_min_runtime(session, *group, reason);
    }
    AtFairShare::new(session).update_reasons(session, &mut reasons);
    for (group, mut nodes) in pipelined {
        nodes.sort_unstable();
        nodes.dedup();
        // The reason why its minimum did not fit is obsolete.
        let is_minimum_pipelined =
            session.members(group).minimum_is_pipelined(session.group(group));
        if is_minimum_pipelined
            && session.profile.plugins.pipeline_policy == PipelinePolicy::AnyNode
        {
            reasons.remove(&group);
        }
        reasons.entry(group).or_insert_with(|| pipelined_reason(session, group, &nodes));
    }
    reasons
}

fn pipelined_reason(session: &Session<'_>, group: PodGroupId, nodes: &[NodeId]) -> Reason {
    match session.profile.plugins.pipeline_policy {
        PipelinePolicy::AnyNode => {
            let nodes = nodes.iter().map(|node| session.node(*node).name.clone()).collect();
            Reason::Pipelined { nodes }
        }
        PipelinePolicy::NominatedNode => {
            let of_group = |pod: &PodId| session.pod(*pod).group == Some(group);
            let pod = session.pod_ids().find(of_group).expect("the group has a pipelined pod");
            let fit_errors = session.fit_errors(pod, None);
            let spec = session.group(group);
            if spec.is_gang() {
                let min_count = spec.sub_groups.first().map_or(1, |only| only.min_member);
                return Reason::PodGroupUnschedulable(PodGroupFailure {
                    min_count,
                    scheduled: 0,
                    remaining: min_count.saturating_sub(1),
                    domains: None,
                    fit_errors,
                    preemption: PodGroupPreemption::VictimsTerminating,
                });
            }
            let deallocation = deallocation(session, pod, &fit_errors);
            let preemption = PreemptionOutcome::VictimsTerminating;
            Reason::Unschedulable { fit_errors, deallocation, preemption }
        }
    }
}

fn queue_uses(accounts: &QueueAccounts) -> BTreeMap<QueueId, QueueUsage> {
    let count = u32::try_from(accounts.len()).expect("queue ids are 32 bits");
    (0..count)
        .map(|at| {
            let account = accounts.account(QueueId(at));
            let queue_use = QueueUsage {
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
