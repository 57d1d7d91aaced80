//! Node choice under profile `kai`.

use insta::assert_snapshot;

use schedlab_testkit::{plan_of, spread_plan_of};

#[test]
fn bin_packing_fills_one_node_before_the_next() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=8
        job running gpus=2 on n2
        job a gpus=4
        job b gpus=4
    "), @r"
    a runs on n2
    b runs on n1
    ");
}

#[test]
fn spreading_takes_the_emptiest_node() {
    assert_snapshot!(spread_plan_of("
        node n1 gpus=8
        node n2 gpus=8
        job running gpus=2 on n1
        job a gpus=4
        job b gpus=4
    "), @r"
    a runs on n2
    b runs on n1
    ");
}

#[test]
fn spreading_compares_free_fractions() {
    assert_snapshot!(spread_plan_of("
        node n1 gpus=16
        node n2 gpus=8
        job running gpus=9 on n1
        job a gpus=1
    "), @"a runs on n2");
}

#[test]
fn equal_nodes_are_taken_by_name() {
    assert_snapshot!(plan_of("
        node n3 gpus=1
        node n1 gpus=1
        node n2 gpus=1
        job a gpus=1
    "), @"a runs on n1");
}

#[test]
fn idle_capacity_beats_a_fuller_node_with_releasing_capacity() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        node n2 gpus=8
        job leaving gpus=1 releasing on n1
        job a gpus=1
    "), @"a runs on n2");
}

#[test]
fn cpu_jobs_avoid_gpu_nodes() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2
        job running cpu=100 on n1
        job a cpu=4
    "), @"a runs on n2");
}

#[test]
fn cpu_jobs_are_packed_by_cpu() {
    assert_snapshot!(plan_of("
        node n1
        node n2
        job running cpu=100 on n2
        job a cpu=4
    "), @"a runs on n2");
}

#[test]
fn the_nominated_node_is_taken_if_the_pod_fits() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=8
        node n3 gpus=8
        job running gpus=2 on n2
        job a gpus=1 nominated=n3
    "), @"a runs on n3");
}

#[test]
fn a_taint_rejects_pods_that_do_not_tolerate_it() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 taint dedicated=x:NoSchedule
        job a gpus=1
        job b gpus=1 tolerates dedicated=x:NoSchedule
        job c gpus=1 tolerates dedicated
        job d gpus=1 tolerates dedicated=y:NoSchedule
    "), @r"
    b runs on n1
    c runs on n1
    a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) had untolerated taint {dedicated: x}.
    d pending: Resources were not found for pod default/d due to: no nodes with enough resources were found: 1 node(s) had untolerated taint {dedicated: x}.
    ");
}

#[test]
fn a_cordoned_or_unready_node_accepts_no_pod() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 cordoned
        node n2 gpus=8 not-ready
        job a gpus=1
    "), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) were not ready, 1 node(s) were unschedulable.");
}

#[test]
fn a_node_selector_selects_by_label() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job a gpus=1 needs zone=b
        job b gpus=1 needs zone=c
    "), @r"
    a runs on n2
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 2 node(s) didn't match Pod's node affinity/selector.
    ");
}

#[test]
fn a_node_can_be_selected_by_name() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=8
        job a gpus=1 named n2
    "), @"a runs on n2");
}

#[test]
fn pods_with_mutual_anti_affinity_go_to_different_nodes() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=8
        job a pods=3 min=1 gpus=1 label app=x far app=x/host
    "), @r"
    a runs on n1, n2
    a pending: Resources were not found for pod default/a-2 due to: no nodes with enough resources were found: 2 node(s) didn't match pod anti-affinity rules.
    ");
}

#[test]
fn a_pod_avoids_pods_whose_anti_affinity_selects_it() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=8
        job shy gpus=1 far app=x/host on n1
        job a gpus=1 label app=x
    "), @"a runs on n2");
}

#[test]
fn a_pod_waits_for_a_releasing_pod_that_its_anti_affinity_selects() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job leaving gpus=1 label app=x releasing on n1
        job a gpus=1 far app=x/host
    "), @r"
    a waits for n1
    a pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_pod_with_affinity_goes_to_the_zone_of_its_match_or_waits() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 label zone=a
        node n2 gpus=2 label zone=b
        node n3 gpus=2 label zone=b
        job friend gpus=2 label app=x on n3
        gang a pods=3 min=1 gpus=1 near app=x/zone
    "), @r"
    a runs on n2 x2
    a pending: Resources were not found for pod default/a-2 due to: no nodes with enough resources were found: 1 node(s) didn't match pod affinity rules, 2 node(s) didn't have enough resources: GPUs.
    ");
}

/// The nodes of pods with anti-affinity to pods of some namespaces; every node has a pod of another
/// namespace.
fn far_from(namespaces: &str) -> String {
    plan_of(&format!(
        "
        namespace red label team=a
        namespace blue label team=b
        node n1 gpus=1
        node n2 gpus=1
        node n3 gpus=1
        node n4 gpus=1
        foreign own cpu=1 label app=x on n1
        foreign other cpu=1 in=red label app=x on n2
        foreign third cpu=1 in=blue label app=x on n3
        foreign unknown cpu=1 in=grey label app=x on n4
        job a pods=4 min=1 gpus=1 far app=x/host{namespaces}
    "
    ))
    .lines()
    .next()
    .unwrap_or_default()
    .to_owned()
}

#[test]
fn a_term_selects_pods_of_its_own_named_and_labelled_namespaces() {
    let all = ["", "@red", "@team=a", "@team=c", "@*", "@kubernetes.io/metadata.name=grey"];
    let output = all.map(|namespaces| format!("{namespaces}: {}", far_from(namespaces)));
    assert_snapshot!(output.join("\n"), @"
    : a runs on n2, n3, n4
    @red: a runs on n1, n3, n4
    @team=a: a runs on n1, n3, n4
    @team=c: a runs on n1, n2, n3, n4
    @*: a pending: Resources were not found for pod default/a-0 due to: no nodes with enough resources were found: 4 node(s) didn't match pod anti-affinity rules.
    @kubernetes.io/metadata.name=grey: a runs on n1, n2, n3
    ");
}

#[test]
fn anti_affinity_of_existing_pods_honors_namespaces() {
    assert_snapshot!(plan_of("
        namespace default label team=a
        node n1 gpus=1
        node n2 gpus=1
        foreign shuns cpu=1 in=red far app=x/host@team=a on n1
        foreign minds-not cpu=1 in=red far app=x/host@team=b on n2
        job a pods=2 min=1 gpus=1 label app=x
    "), @"
    a runs on n2
    a pending: Resources were not found for pod default/a-1 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs, 1 node(s) didn't satisfy existing pods anti-affinity rules.
    ");
}

#[test]
fn the_first_pod_of_a_self_affine_group_may_go_anywhere() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 label zone=a
        node n2 gpus=2 label zone=b
        node n3 gpus=1
        job a pods=2 min=1 gpus=1 label app=x near app=x/zone
    "), @r"
    a runs on n1
    a pending: Resources were not found for pod default/a-1 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs, 2 node(s) didn't match pod affinity rules.
    ");
}

#[test]
fn pods_that_must_be_spread_stay_within_the_skew() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=1 label zone=b
        job a pods=4 min=1 gpus=1 label app=x spread app=x/zone/1
    "), @r"
    a runs on n2, n1 x2
    a pending: Resources were not found for pod default/a-3 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs, 1 node(s) didn't match pod topology spread constraints.
    ");
}

#[test]
fn a_host_port_is_taken_once_on_a_node() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=8
        job a pods=3 min=1 gpus=1 port=80
    "), @r"
    a runs on n1, n2
    a pending: Resources were not found for pod default/a-2 due to: no nodes with enough resources were found: 2 node(s) didn't have free ports for the requested pod ports.
    ");
}

#[test]
fn other_host_ports_of_a_node_are_free() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        job a gpus=1 port=80
        job b gpus=1 port=81
    "), @r"
    a runs on n1
    b runs on n1
    ");
}

#[test]
fn a_node_takes_no_more_pods_than_it_allows() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 pods=2
        job a pods=3 min=1 gpus=1
    "), @r"
    a runs on n1 x2
    a pending: Resources were not found for pod default/a-2 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: pods.
    ");
}

#[test]
fn extended_resources_are_counted() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 extended nic=1
        node n2 gpus=8
        job a pods=2 min=1 gpus=1 extended nic=1
    "), @r"
    a runs on n1
    a pending: Resources were not found for pod default/a-1 due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: nic.
    ");
}

#[test]
fn pods_of_other_schedulers_only_use_capacity() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        foreign x gpus=7 on n1
        job a gpus=2 priority=90
    "), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn the_reason_counts_nodes_by_short_resource() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        node n2 gpus=8 cpu=2
        node n3 gpus=1 cpu=2
        node n4 gpus=8 taint dedicated=x:NoSchedule
        job a gpus=4 cpu=8
    "), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: CPU cores, 1 node(s) didn't have enough resources: GPUs, 1 node(s) didn't have enough resources: GPUs, CPU cores, 1 node(s) had untolerated taint {dedicated: x}.");
}

#[test]
fn without_nodes_the_reason_is_that_there_are_none() {
    assert_snapshot!(plan_of("
        job a gpus=4
    "), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: there are no nodes.");
}
