//! Properties of allocation on random clusters with all kinds of requests. Clusters are tables, so
//! that a failure is readable.

use std::fmt::Write;

use proptest::prelude::*;
use schedlab_audit::{Rule, Rules};
use schedlab_scheduler_core::{
    Profile, Snapshot,
    framework::{PodState, Ranking, Session, Statement},
    model::{NodeId, PodId},
    profile::{Action, Placement},
    schedule,
};
use schedlab_testkit::{
    audit_plan, kube_snapshot_of, random::selectors::random_cluster_with_selectors, snapshot_of,
};

/// The breaches of the plan, without those that existed before.
fn breaches(snapshot: &Snapshot, profile: &Profile, rules: Rules) -> Vec<String> {
    let plan = schedule(snapshot, profile);
    let breaches = audit_plan(snapshot, &plan, rules);
    let now = breaches.iter().filter(|breach| breach.at.0 == snapshot.now.0);
    let fresh = now.filter(|breach| breach.rule != Rule::Gang || !started_in_part(snapshot));
    fresh.map(|breach| format!("{breach:?}")).collect()
}

/// Whether a gang was below its minimum before.
fn started_in_part(snapshot: &Snapshot) -> bool {
    let profile = Profile::kai();
    let session = Session::new(snapshot, &profile);
    session.groups().any(|id| {
        let all = session.group(id).sub_groups.iter().enumerate();
        all.into_iter().any(|(at, sub_group)| {
            let members = session.members(id).of_sub_group(at);
            (1..sub_group.min_member).contains(&(members.active + members.leaving))
        })
    })
}

fn spread() -> Profile {
    let (gpu_placement, cpu_placement) = (Placement::Spread, Placement::Spread);
    Profile { gpu_placement, cpu_placement, ..Profile::kai() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(400), failure_persistence: None, ..Default::default() })]

    #[test]
    fn allocation_breaks_no_rule(text in random_cluster_with_selectors()) {
        let snapshot = snapshot_of(&text);
        let profile = Profile { actions: vec![Action::Allocate], ..Profile::kai() };
        prop_assert_eq!(breaches(&snapshot, &profile, Rules::kai()), Vec::<String>::new());
    }

    #[test]
    fn no_rule_of_profile_kube_is_broken(text in random_cluster_with_selectors()) {
        let snapshot = kube_snapshot_of(&text);
        prop_assert_eq!(breaches(&snapshot, &Profile::kube(), Rules::kube()), Vec::<String>::new());
    }

    #[test]
    fn the_indexed_node_choice_equals_the_full_scan(text in random_cluster_with_selectors(), spreads: bool) {
        let snapshot = snapshot_of(&text);
        let ordered = if spreads { spread() } else { Profile::kai() };
        let mut looks_at_all = ordered.clone();
        looks_at_all.plugins.ranking = Ranking::Sum;
        let [looked_up, looked_at] = [ordered, looks_at_all].map(|profile| schedule(&snapshot, &profile));
        prop_assert_eq!(looked_up.decisions, looked_at.decisions);
    }

    #[test]
    fn every_pending_group_has_a_reason(text in random_cluster_with_selectors()) {
        let snapshot = snapshot_of(&text);
        let plan = schedule(&snapshot, &Profile::kai());
        let bound = |at: u32| plan.decisions.iter().any(|decision| {
            matches!(decision, schedlab_scheduler_core::Decision::Bind { pod, .. } if *pod == PodId(at))
        });
        for (pod, at) in snapshot.pods.iter().zip(0..) {
            let waits = pod.status == schedlab_scheduler_core::model::PodStatus::Pending && !bound(at);
            let group = pod.group.expect("every pod has a group");
            prop_assert!(!waits || plan.waiting.contains_key(&group), "{} of\n{text}", pod.name);
        }
    }

    #[test]
    fn undoing_leaves_nothing_behind(text in random_cluster_with_selectors(), steps in prop::collection::vec((0..60_u32, 0..5_u32), 0..40)) {
        let snapshot = snapshot_of(&text);
        let profile = Profile::kai();
        let mut statement = Statement::new(Session::new(&snapshot, &profile));
        let before = image(&statement);
        let start = statement.checkpoint();
        for (pod, node) in steps {
            step(&mut statement, PodId(pod), NodeId(node));
        }
        statement.undo_to(start);
        prop_assert_eq!(image(&statement), before);
    }
}

/// Applies an operation that the state of the pod allows.
fn step(statement: &mut Statement<'_>, pod: PodId, node: NodeId) {
    let (pods, nodes) = (statement.snapshot.pods.len(), statement.snapshot.nodes.len());
    if pod.0 as usize >= pods || node.0 as usize >= nodes {
        return;
    }
    match statement.state(pod) {
        PodState::Pending if node.0.is_multiple_of(2) => statement.allocate(pod, node),
        PodState::Pending => statement.pipeline(pod, node),
        PodState::Releasing(_) if statement.pod(pod).releasing_since.is_none() => {
            statement.pipeline(pod, node);
        }
        PodState::Moving { .. } => statement.cancel_eviction(pod),
        PodState::Allocated(_) if statement.can_evict(pod) => statement.evict(pod),
        PodState::Allocated(_)
        | PodState::Gated
        | PodState::Releasing(_)
        | PodState::Stuck(_)
        | PodState::Pipelined(_)
        | PodState::OnExcludedNode
        | PodState::OnMissingNode
        | PodState::Finished => {}
    }
}

/// The complete state of a session, in an order that does not depend on its history.
fn image(session: &Session<'_>) -> String {
    let mut image = format!("{:?}\n", session.accounts());
    for node in session.node_ids() {
        let mut room = session.node_info(node).clone();
        room.staying.sort_unstable();
        room.leaving.sort_unstable();
        // Zero amounts may be present or absent.
        for all in [&mut room.idle, &mut room.releasing] {
            all.extended.retain(|_, amount| *amount != 0);
        }
        let _ = writeln!(image, "{room:?}");
    }
    for pod in session.pod_ids() {
        let _ = writeln!(image, "{:?}", session.state(pod));
    }
    for group in session.groups() {
        let _ = writeln!(image, "{:?}", session.members(group));
    }
    image
}
