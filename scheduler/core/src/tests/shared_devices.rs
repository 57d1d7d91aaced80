//! Claims on devices that several nodes reach.

use insta::assert_snapshot;
use proptest::{collection::vec, prelude::*};

use crate::{
    Decision, Profile, schedule,
    testing::{kube_plan_of, plan_of, rounds_of, snapshot_of},
};

#[test]
fn a_device_is_given_once_whichever_nodes_reach_it() {
    assert_snapshot!(plan_of("
        node n1 cpu=1 extended nic=1
        node n2 cpu=1 extended nic=1
        stock * extended nic=1
        job a claim x:nic*1 cpu=1
        job b claim y:nic*1 cpu=1
    "), @r"
    a runs on n1
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: CPU cores, nic, 1 node(s) didn't have enough resources: nic.
    ");
}

#[test]
fn only_nodes_that_reach_a_device_get_it() {
    assert_snapshot!(plan_of("
        node n1 cpu=1
        node n2 cpu=1 extended nic=2
        node n3 cpu=1 extended nic=2
        stock n2|n3 extended nic=2
        job a claim x:nic*1 cpu=1
        job b claim y:nic*1 cpu=1
        job c claim z:nic*1
    "), @r"
    a runs on n2
    b runs on n3
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 3 node(s) didn't have enough resources: nic.
    ");
}

#[test]
fn whoever_reaches_more_leaves_to_others_what_only_they_reach() {
    assert_snapshot!(plan_of("
        node n1 cpu=2 extended nic=3
        node n2 cpu=2 extended nic=2
        stock n1 extended nic=1
        stock n1|n2 extended nic=1
        stock * extended nic=1
        job a claim x:nic*2 cpu=2 named n1
        job b claim y:nic*1 named n2
        job c claim z:nic*1 named n2
    "), @r"
    a runs on n1
    b runs on n2
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: nic, 1 node(s) didn't match Pod's node affinity/selector.
    ");
}

#[test]
fn a_gang_on_several_nodes_needs_as_many_as_it_asks_for() {
    let gang = |nics: u32| {
        plan_of(&format!(
            "
            node n1 cpu=1 extended nic={nics}
            node n2 cpu=1 extended nic={nics}
            stock * extended nic={nics}
            gang g
            part a pods=1 claim x:nic*1 cpu=1
            part b pods=1 claim y:nic*1 cpu=1
            "
        ))
    };
    assert_snapshot!(gang(2), @"g runs on n1, n2");
    assert_snapshot!(gang(1), @"g pending: Resources were found for 1 pods from all sub-groups while sub-group b requires 1 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: CPU cores, nic, 1 node(s) didn't have enough resources: nic.");
}

#[test]
fn who_shares_an_allocated_claim_runs_on_any_node_that_reaches_it() {
    assert_snapshot!(plan_of("
        node n1 cpu=1 extended nic=1
        node n2 cpu=1 extended nic=1
        node n3 cpu=4
        stock n1|n2 extended nic=1
        job a claim x:nic*1/n1|n2 cpu=1 on n1
        job b claim x:nic*1/n1|n2 cpu=1
        job c claim x:nic*1/n1|n2 cpu=1
    "), @r"
    b runs on n2
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) are not where claim x is, 2 node(s) didn't have enough resources: CPU cores.
    ");
}

#[test]
fn who_has_the_device_on_another_node_leaves_for_its_owner() {
    let reclaimed = |of_a: &str, of_c: &str| {
        rounds_of(&format!(
            "
            node n1 gpus=2 extended nic=1
            node n2 gpus=2 extended nic=1
            stock * extended nic=1
            queue left quota=0
            queue right quota=3
            job a gpus=1 claim x:nic*1/* queue=left {of_a} on n1
            job b gpus=1 queue=left on n1
            job c claim y:nic*1 queue=right {of_c}
            "
        ))
    };
    assert_snapshot!(reclaimed("", "gpus=1"), @r"
    1: a leaves n1 for c (reclaim)
    1: c waits for n1
    2: c runs on n1
    steady after 2
    ");
    assert_snapshot!(reclaimed("", "gpus=2"), @r"
    1: b leaves n1 for c (reclaim)
    1: b waits for n2
    1: a leaves n1 for c (reclaim)
    1: c waits for n1
    2: c runs on n1
    2: b runs on n2
    steady after 2
    ");
    assert_snapshot!(reclaimed("", "gpus=1 named n2"), @r"
    1: a leaves n1 for c (reclaim)
    1: c waits for n2
    2: c runs on n2
    steady after 2
    ");
    assert_snapshot!(reclaimed("non-preemptible", "gpus=1"), @"steady after 0");
    assert_snapshot!(reclaimed("", "gpus=3"), @"steady after 0");
}

#[test]
fn nobody_leaves_for_fewer_devices_than_are_asked_for() {
    assert_snapshot!(rounds_of("
        node n1 gpus=1 extended nic=2
        node n2 gpus=1 extended nic=2
        stock * extended nic=2
        queue left quota=0
        queue mid quota=1
        queue right quota=3
        job a gpus=1 claim x:nic*1/* queue=left on n1
        job b gpus=1 claim z:nic*1/* non-preemptible queue=mid on n2
        gang c queue=right
        part l pods=1 gpus=1 claim y:nic*1
        part r pods=1 gpus=0 claim w:nic*1
    "), @"steady after 0");
}

#[test]
fn a_device_that_is_free_soon_is_waited_for() {
    assert_snapshot!(plan_of("
        node n1 extended nic=1
        node n2 extended nic=1
        stock * extended nic=1
        job a claim x:nic*1/* releasing on n1
        job b claim y:nic*1 named n2
    "), @r"
    b waits for n2
    b pending: Room was promised on n2 and is being released by pods that are leaving
    ");
    assert_snapshot!(plan_of("
        node n1 extended nic=1
        stock * extended nic=1 returning
        job b claim y:nic*1
    "), @r"
    b waits for n1
    b pending: Room was promised on n1 and is being released by pods that are leaving
    ");
}

#[test]
fn a_claim_that_gets_only_what_no_other_node_reaches_leaves_the_rest() {
    assert_snapshot!(plan_of("
        node n1 extended nic=2
        node n2 extended nic=1
        stock n1 extended nic=1
        stock * extended nic=1
        job a claim x:nic*1 named n1
        job b claim =y:nic*1
        job c claim z:nic*1
    "), @r"
    a runs on n1
    b runs on n1
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: nic.
    ");
}

#[test]
fn kube_scheduler_gives_what_is_free_now() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=1 extended nic=1
        node n2 cpu=1 extended nic=1
        stock * extended nic=1
        job a claim x:nic*1 cpu=1
        job b claim y:nic*1 cpu=1
    "), @r"
    a runs on n1
    b pending: 0/2 nodes are available: 1 Insufficient cpu, 1 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.
    ");
    assert_snapshot!(kube_plan_of("
        node n1 extended nic=1
        node n2 extended nic=1
        stock * extended nic=1
        job a claim x:nic*1/* releasing on n1
        job b claim x:nic*1/*
        job c claim y:nic*1
    "), @r"
    b runs on n1
    c pending: 0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
    ");
}

/// By device the nodes that reach it.
type Devices = Vec<Vec<bool>>;

/// Each of these nodes can get a device of its own.
fn all_served(devices: &Devices, nodes: &[usize]) -> bool {
    let Some((first, rest)) = nodes.split_first() else { return true };
    (0..devices.len()).filter(|at| devices[*at][*first]).any(|at| {
        let mut others = devices.clone();
        others.remove(at);
        all_served(&others, rest)
    })
}

/// Three nodes with these devices, and pods with a claim on one or two each, for any node or one of
/// them.
fn table(devices: &Devices, pods: &[(usize, Option<usize>)]) -> String {
    let offered = |node: usize| devices.iter().filter(|reach| reach[node]).count();
    let mut lines: Vec<String> =
        (0..3).map(|node| format!("node n{node} extended nic={}", offered(node))).collect();
    for reach in devices {
        let nodes: Vec<String> =
            (0..3).filter(|node| reach[*node]).map(|node| format!("n{node}")).collect();
        lines.push(format!("stock {} extended nic=1", nodes.join("|")));
    }
    lines.extend(pods.iter().zip(0..).map(|((count, named), at)| {
        let named = named.map(|node| format!("named n{node}")).unwrap_or_default();
        format!("job p{at} claim c{at}:nic*{count} {named}")
    }));
    lines.join("\n")
}

proptest! {
    #[test]
    fn pods_get_devices_just_where_all_of_them_can(
        devices in vec(vec(any::<bool>(), 3), 1..5),
        pods in vec((1..3_usize, proptest::option::of(0..3_usize)), 1..6),
    ) {
        let devices: Devices = devices.into_iter().filter(|reach| reach.contains(&true)).collect();
        let snapshot = snapshot_of(&table(&devices, &pods));
        let plan = schedule(&snapshot, &Profile::kai());
        let mut placed = Vec::new();
        let mut waiting: Vec<usize> = (0..pods.len()).collect();
        for decision in &plan.decisions {
            let Decision::Bind { pod, node } = decision else { continue };
            placed.extend(vec![node.0 as usize; pods[pod.0 as usize].0]);
            waiting.retain(|other| *other != pod.0 as usize);
        }
        prop_assert!(all_served(&devices, &placed), "{placed:?}");
        for (count, named) in waiting.into_iter().map(|pod| pods[pod]) {
            for node in (0..3).filter(|node| named.is_none_or(|named| named == *node)) {
                let with = [placed.clone(), vec![node; count]].concat();
                prop_assert!(!all_served(&devices, &with), "{with:?}");
            }
        }
    }
}
