//! One scheduling cycle, phase by phase.

mod fair_share_reason;
mod head_of_line;
mod requeue;

use std::collections::BTreeMap;

use crate::{
    Plan, Profile, QueueUsage, Reason, Snapshot,
    actions::{
        allocate::{self, PendingReasons},
        consolidate, preempt, reclaim,
        stale_gangs::{self, Staleness},
    },
    framework::{KeptSession, PipelinePolicy, PodState, Session, Statement},
    model::{NodeId, PodGroupId, PodId, QueueId, SnapshotChanges},
    plugins::claim_to_deallocate,
    profile::Action,
    queues::QueueAccounts,
    reason::{PodGroupFailure, PodGroupPreemption, PreemptionOutcome},
    resources::{PerResource, Resources},
    solver::AcceptedSolutions,
};
use fair_share_reason::OverQuotaUse;
use head_of_line::blocked_by_head_of_line;

/// In debug builds each cycle of a cluster with up to so many pods checks what is kept.
const CHECKED_PODS_MAX: usize = 500;

/// Observes a scheduling cycle, for measurements and traces. An observer cannot change the cycle.
pub trait CycleObserver {
    /// Called before an action starts.
    fn on_action_start(&mut self, action: Action, session: &Session<'_>);
    /// Called after an action ended. Decisions of the action follow those of earlier actions.
    fn on_action_end(&mut self, action: Action, session: &Session<'_>);
}

/// An observer that does nothing.
impl CycleObserver for () {
    fn on_action_start(&mut self, _: Action, _: &Session<'_>) {}
    fn on_action_end(&mut self, _: Action, _: &Session<'_>) {}
}

/// Runs one scheduling cycle on the snapshot and returns its decisions.
pub fn schedule(snapshot: &Snapshot, profile: &Profile) -> Plan {
    schedule_observed(snapshot, profile, &mut ())
}

/// Like [`schedule`], and calls `observer` around each action.
pub fn schedule_observed(
    snapshot: &Snapshot,
    profile: &Profile,
    observer: &mut dyn CycleObserver,
) -> Plan {
    run_cycle(snapshot, profile, observer).1
}

/// Like [`schedule_observed`], with what the last cycle derived from its snapshot: costs what
/// changed. Returns the same plan.
pub fn schedule_kept(
    kept: &mut KeptSession,
    changes: &SnapshotChanges,
    snapshot: &Snapshot,
    profile: &Profile,
    observer: &mut dyn CycleObserver,
) -> Plan {
    kept.update(snapshot, profile, changes);
    if cfg!(debug_assertions) && snapshot.pods.len() <= CHECKED_PODS_MAX {
        let outdated = kept.outdated_part(snapshot, profile);
        assert_eq!(outdated, None, "what is kept equals what is derived anew");
    }
    let session = kept.open(snapshot, profile);
    let (statement, plan) = run_cycle_from(Statement::new(session), observer);
    kept.close(statement.into_session());
    plan
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
    run_cycle_from(Statement::new(statement.into_session()), &mut ()).1
}

/// Like [`schedule_observed`]; also returns the statement after the cycle.
pub fn run_cycle<'s>(
    snapshot: &'s Snapshot,
    profile: &'s Profile,
    observer: &mut dyn CycleObserver,
) -> (Statement<'s>, Plan) {
    run_cycle_from(Statement::new(Session::new(snapshot, profile)), observer)
}

fn run_cycle_from<'s>(
    mut statement: Statement<'s>,
    observer: &mut dyn CycleObserver,
) -> (Statement<'s>, Plan) {
    let profile = statement.profile;
    // 1. The state of the cluster, and the fair shares.
    let mut accounts = statement.accounts().clone();
    let queues = queue_usages(&accounts);

    // 2. PreEnqueue: which pod groups are tried.
    let (ready, mut reasons) = run_pre_enqueue(&statement);

    // 3. The actions, each on the result of the ones before.
    let (mut staleness, mut accepted) =
        (Staleness::default(), AcceptedSolutions::new(allocate_as_next_cycle));
    for &action in &profile.actions {
        observer.on_action_start(action, &statement);
        match action {
            Action::Allocate => allocate::run(&mut statement, ready.clone(), &mut reasons),
            Action::Consolidate => consolidate::run(&mut statement, &mut accepted),
            Action::Reclaim => reclaim::run(&mut statement, &mut accepted),
            Action::Preempt => preempt::run(&mut statement, &mut accepted),
            Action::StaleGangEviction => staleness = stale_gangs::run(&mut statement),
        }
        statement.end_simulations_of_action();
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
    let pending = reasons_of_pending_groups(&statement, reasons);

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
        total_shared: accounts.total_shared(),
        queues,
        queues_after: queue_usages(&accounts),
        requeue_after_millis: look_again_in_millis,
    };
    (statement, plan)
}

/// Allocates pending jobs in the way in which the next cycle does so before it evicts.
pub fn allocate_as_next_cycle(statement: &mut Statement<'_>) {
    let (ready, _) = run_pre_enqueue(statement);
    allocate::run_without_reasons(statement, ready);
}

/// Runs the PreEnqueue plugins: splits the pod groups with pending pods into those that may be
/// placed and those that are rejected with a reason. A group is also rejected if it cannot run
/// without its unschedulable pods.
fn run_pre_enqueue(session: &Session<'_>) -> (Vec<PodGroupId>, PendingReasons) {
    let plugins = &session.profile.plugins.pre_enqueue;
    let (mut ready, mut reasons) = (Vec::new(), PendingReasons::new());
    for group in session.groups_with_unplaced_pods() {
        let members = session.members(group);
        if !members.has_waiting()
            && members.gated_count() == 0
            && !needs_unschedulable_members(session, group)
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
fn needs_unschedulable_members(session: &Session<'_>, group: PodGroupId) -> bool {
    let of = session.group(group);
    !of.unschedulable_members.is_empty() && session.members(group).check_gang_ready(of).is_err()
}

/// Completes the reasons of pending groups: a group whose pods all have a node gets none; a group
/// whose pending pods were all pipelined waits for terminating pods.
fn reasons_of_pending_groups(session: &Session<'_>, mut reasons: PendingReasons) -> PendingReasons {
    let mut pipelined: BTreeMap<PodGroupId, Vec<NodeId>> = BTreeMap::new();
    for id in session.pipelined_pods() {
        if let (Some(group), PodState::Pipelined(node)) = (session.pod(id).group, session.state(id))
        {
            pipelined.entry(group).or_default().push(node);
        }
    }
    reasons.retain(|group, reason| {
        let members = session.members(*group);
        let nominated =
            matches!(reason, Reason::Unschedulable { .. } | Reason::PodGroupUnschedulable(_));
        members.has_waiting()
            || members.gated_count() > 0
            || needs_unschedulable_members(session, *group)
            || nominated
    });
    for (group, reason) in &mut reasons {
        requeue::explain_preemption_delay(session, *group, reason);
        requeue::explain_preemption_limit(session, *group, reason);
        requeue::explain_min_runtime(session, *group, reason);
    }
    OverQuotaUse::new(session).update_reasons(session, &mut reasons);
    for (group, mut nodes) in pipelined {
        nodes.sort_unstable();
        nodes.dedup();
        // The reason why its minimum did not fit is obsolete.
        let is_minimum_pipelined =
            session.members(group).is_minimum_pipelined(session.group(group));
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
            let pod = session.pods_of_group(group).next().expect("the group has a pipelined pod");
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
            let deallocation = claim_to_deallocate(session, pod, &fit_errors);
            let preemption = PreemptionOutcome::VictimsTerminating;
            Reason::Unschedulable { fit_errors, deallocation, preemption }
        }
    }
}

fn queue_usages(accounts: &QueueAccounts) -> BTreeMap<QueueId, QueueUsage> {
    let count = u32::try_from(accounts.len()).expect("queue ids are 32 bits");
    (0..count)
        .map(|at| {
            let account = accounts.account(QueueId(at));
            let queue_use = QueueUsage {
                fair_share: account.fair_share,
                allocated: to_resources(account.allocated),
                allocated_non_preemptible: to_resources(account.allocated_non_preemptible),
                requested: to_resources(account.requested),
            };
            (QueueId(at), queue_use)
        })
        .collect()
}

fn to_resources(amounts: PerResource<i64>) -> Resources {
    Resources {
        gpu_milli: amounts.gpu,
        cpu_milli: amounts.cpu,
        memory_bytes: amounts.memory,
        ..Resources::default()
    }
}
