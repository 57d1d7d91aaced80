//! Suggestions for jobs with a required topology level that need more than capacity. Each is
//! applied, as in `suggestions.rs`.

use insta::assert_snapshot;

use crate::texts::suggestions_of;
use schedlab_testkit::plan_of;

/// The reason of `x` and its suggestions, in two racks of two nodes each.
fn output(others: &str) -> String {
    let cluster = format!(
        "
        topology t levels zone rack kubernetes.io/hostname
        node n1 gpus=8 label zone=z label rack=r1
        node n2 gpus=8 label zone=z label rack=r1
        node n3 gpus=8 label zone=z label rack=r2
        node n4 gpus=8 label zone=z label rack=r2
        {others}
        "
    );
    format!("{}\n{}", plan_of(&cluster), suggestions_of(&cluster, "x"))
}

#[test]
fn mutually_exclusive_pods_with_a_required_level_are_reported() {
    assert_snapshot!(output("
        gang x pods=2 gpus=1 label app=x far app=x/host together=t/kubernetes.io/hostname
    "), @r"
    x pending: requiredTopologyLevel kubernetes.io/hostname of topology t requires one domain for x-0 and x-1, but anti-affinity over kubernetes.io/hostname keeps them apart
    PodSchedulingErrors
    only prefer kubernetes.io/hostname of topology t, or require rack instead
      then it runs on n2 (Now)
    ");
    assert_snapshot!(output("
        gang x pods=2 gpus=1 label app=x far app=x/rack together=t/rack
    "), @r"
    x pending: requiredTopologyLevel rack of topology t requires one domain for x-0 and x-1, but anti-affinity over rack keeps them apart
    PodSchedulingErrors
    only prefer rack of topology t, or require zone instead
      then it runs on n3 (Now)
    ");
    assert_snapshot!(output("
        gang x pods=2 gpus=1 port=80 together=t/kubernetes.io/hostname
    "), @r"
    x pending: requiredTopologyLevel kubernetes.io/hostname of topology t requires one domain for x-0 and x-1, but they use the same host port
    PodSchedulingErrors
    only prefer kubernetes.io/hostname of topology t, or require rack instead
      then it runs on n2 (Now)
    ");
}

#[test]
fn exclusive_sub_groups_and_running_pods_are_reported() {
    assert_snapshot!(output("
        gang x together=t/rack
          part l gpus=1
          part r pods=2 gpus=1 label app=x far app=x/rack together=t/kubernetes.io/hostname
    "), @r"
    x pending: requiredTopologyLevel rack of topology t requires one domain for x-r-0 and x-r-1, but anti-affinity over rack keeps them apart
    PodSchedulingErrors
    only prefer rack of topology t
      then it waits: requiredTopologyLevel kubernetes.io/hostname of topology t requires one domain for x-r-0 and x-r-1, but anti-affinity over rack keeps them apart
    only prefer kubernetes.io/hostname of topology t, or require zone instead
      then it runs on n3 (Now)
    ");
    assert_snapshot!(output("
        job r pods=4 gpus=8 non-preemptible on n1 n2 n3 n4
        gang x pods=2 gpus=1 label app=x far app=x/zone together=t/rack
    "), @r"
    x pending: requiredTopologyLevel rack of topology t requires one domain for x-0 and x-1, but anti-affinity over zone keeps them apart
    PodSchedulingErrors
    only prefer rack of topology t
      then it waits: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 4 node(s) didn't have enough resources: GPUs.
    add 2 nodes with 1 GPU each, each in a zone of its own without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("
        job x pods=2 min=1 gpus=1 label app=x far app=x/host together=t/kubernetes.io/hostname on n1
    "), @r"
    x pending: requiredTopologyLevel kubernetes.io/hostname of topology t requires one domain for x-0 and x-1, but anti-affinity over kubernetes.io/hostname keeps them apart
    PodSchedulingErrors
    only prefer kubernetes.io/hostname of topology t, or require rack instead
      then it runs on n2 (Now)
    ");
    assert_snapshot!(output("
        gang x pods=2 gpus=1 label app=x far app=x/host together=t/rack
    "), @r"
    x runs on n1, n2
    nothing
    ");
}

#[test]
fn nodes_are_opened_in_the_domain_of_the_running_pods() {
    let output = |closed: &str| {
        suggestions_of(
            &format!(
                "
            topology t levels rack kubernetes.io/hostname
            node n1 gpus=8 label rack=r1
            node n2 gpus=8 label rack=r1 {closed}
            node n3 gpus=8 label rack=r2
            node n4 gpus=8 label rack=r2 {closed}
            job o gpus=8 non-preemptible on n3
            gang x pods=2 gpus=8 together=t/rack
        "
            ),
            "x",
        )
    };
    assert_snapshot!(output("cordoned"), @r"
    PodSchedulingErrors
    uncordon n2
      then it runs on n1 (Now)
    ");
    assert_snapshot!(output("taint k=v:NoSchedule"), @r"
    PodSchedulingErrors
    tolerate taint k=v, or remove it from n2
      then it runs on n1 (Now)
    ");
    assert_snapshot!(output("not-ready"), @r"
    PodSchedulingErrors
    free capacity for 2 pods in one rack of topology t
      then it runs on (new node) (Now)
    ");
}

#[test]
fn no_more_nodes_are_opened_than_the_domain_needs() {
    let output = |r1: &str, r2: &str| {
        suggestions_of(
            &format!(
                "
                topology t levels rack kubernetes.io/hostname
                node n1 gpus=8 label rack=r1 {r1}
                node n2 gpus=8 label rack=r1 cordoned
                node n3 gpus=8 label rack=r1
                node n4 gpus=8 label rack=r2 {r2}
                node n5 gpus=8 label rack=r2 {r2}
                node n6 gpus=8 label rack=r2 cordoned
                gang x pods=3 gpus=8 together=t/rack
                "
            ),
            "x",
        )
    };
    assert_snapshot!(output("cordoned", ""), @r"
    PodSchedulingErrors
    uncordon n6
      then it runs on n4 (Now)
    ");
    assert_snapshot!(output("cordoned", "cordoned"), @r"
    PodSchedulingErrors
    uncordon n1 and n2
      then it runs on n1 (Now)
    ");
    assert_snapshot!(output("taint k=v:NoSchedule", "cordoned"), @r"
    PodSchedulingErrors
    uncordon n4, n5 and n6
      then it runs on n4 (Now)
    ");
    assert_snapshot!(output("taint k=v:NoSchedule cordoned", "taint k=v:NoSchedule"), @r"
    PodSchedulingErrors
    tolerate taint k=v, or remove it from n4 and n5
      then it waits: Resources were found for 2 pods while 3 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 3 node(s) didn't have enough resources: GPUs, 3 node(s) were unschedulable.
    uncordon n6
      then it runs on n4 (Now)
    ");
}

#[test]
fn capacity_is_suggested_in_the_selected_domain() {
    let full = "job r pods=4 gpus=7 non-preemptible on n1 n2 n3 n4";
    assert_snapshot!(output(&format!("{full}\ngang x pods=3 gpus=2 together=t/rack needs rack=r2")), @r"
    x pending: node-group r2 can allocate only 0 of 3 required pods. topology t, requirement rack couldn't be satisfied.
    PodSchedulingErrors
    free capacity for 3 pods in rack r2 of topology t
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output(&format!("{full}\ngang x pods=3 gpus=2 together=t/rack needs zone=z")), @r"
    x pending: node-group r1 can allocate only 0 of 3 required pods. node-group r2 can allocate only 0 of 3 required pods. topology t, requirement rack couldn't be satisfied.
    PodSchedulingErrors
    free capacity for 3 pods in one rack of topology t on nodes labelled zone=z, as its node selector requires
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("
        job r pods=2 gpus=7 non-preemptible on n3 n4
        gang x pods=3 gpus=2 together=t/rack needs rack=r2
    "), @r"
    x pending: node-group r2 can allocate only 0 of 3 required pods. topology t, requirement rack couldn't be satisfied.
    PodSchedulingErrors
    free capacity for 3 pods in rack r2 of topology t
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("
        node n5 gpus=8 label zone=z label rack=r2 label pool=a
        job r pods=5 gpus=7 non-preemptible on n1 n2 n3 n4 n5
        gang x pods=2 gpus=3 together=t/rack needs pool=a
    "), @r"
    x pending: node-group r2 can allocate only 0 of 2 required pods. topology t, requirement rack couldn't be satisfied.
    PodSchedulingErrors
    free capacity for 2 pods in one rack of topology t on nodes labelled pool=a, as its node selector requires
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("gang x pods=2 gpus=3 close=t/rack needs rack=r3"), @r"
    x pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 4 node(s) didn't match Pod's node affinity/selector.
    PodSchedulingErrors
    label a node with rack=r3, as its node selector requires, or relax that
      then it runs on n1 (Now)
    ");
    assert_snapshot!(output("gang x pods=2 gpus=3 together=t/rack needs rack=r3"), @r"
    x pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 4 node(s) didn't match Pod's node affinity/selector.
    PodSchedulingErrors
    label a node with rack=r3, as its node selector requires, or relax that
      then it runs on n1 (Now)
    ");
}

#[test]
fn nodes_are_added_in_the_domain_of_the_other_pods() {
    assert_snapshot!(output("
        gang x pods=3 gpus=2 label app=x far app=x/host together=t/rack
    "), @r"
    x pending: Resources were found for 2 pods while 3 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 4 node(s) didn't match pod anti-affinity rules.
    PodSchedulingErrors
    add a node with 2 GPUs in rack r1 without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("gang x pods=4 gpus=2 port=80 together=t/rack"), @r"
    x pending: Resources were found for 2 pods while 4 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 4 node(s) didn't have free ports for the requested pod ports.
    PodSchedulingErrors
    add 2 nodes with 2 GPUs each in rack r1 on which host port 80 is free
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("
        node n5 gpus=8 label zone=z label rack=r2
        job y gpus=1 label app=y non-preemptible on n1
        gang x pods=4 gpus=2 label app=x far app=x/host together=t/rack
    "), @r"
    x pending: Resources were found for 3 pods while 4 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 5 node(s) didn't match pod anti-affinity rules.
    PodSchedulingErrors
    add a node with 2 GPUs in rack r2 without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("
        gang x pods=4 gpus=1 label app=x spread app=x/host/1 far app=x/host together=t/rack
    "), @r"
    x pending: Resources were found for 2 pods while 4 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 4 node(s) didn't match pod topology spread constraints.
    PodSchedulingErrors
    add 2 nodes with 1 GPU each in rack r1, as its topology spread over kubernetes.io/hostname requires
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_new_domain_must_hold_the_whole_gang_if_others_use_all_domains() {
    assert_snapshot!(output("
        job y pods=2 gpus=1 label app=y non-preemptible on n1 n3
        gang x pods=2 gpus=2 far app=y/rack together=t/rack
    "), @r"
    x pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 4 node(s) didn't match pod anti-affinity rules.
    PodSchedulingErrors
    add a node with 4 GPUs in a rack without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("
        job y pods=4 gpus=1 label app=y non-preemptible on n1 n2 n3 n4
        gang x pods=2 gpus=2 far app=y/host together=t/kubernetes.io/hostname
    "), @r"
    x pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 4 node(s) didn't match pod anti-affinity rules.
    PodSchedulingErrors
    add a node with 4 GPUs without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_sub_group_reports_how_many_of_its_pods_need_one_domain() {
    let full = "job r pods=4 gpus=8 non-preemptible on n1 n2 n3 n4";
    assert_snapshot!(output(&format!("{full}
        gang x
          part s1 gpus=2
          part s2 pods=3 gpus=2 together=t/kubernetes.io/hostname
    ")), @r"
    x pending: Resources were found for 0 pods from all sub-groups while sub-group s1 requires 1 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 4 node(s) didn't have enough resources: GPUs.
    PodSchedulingErrors
    free capacity for 4 more pods of its size, of which 3 in one kubernetes.io/hostname, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output(&format!("{full}
        gang x
          part s1 gpus=2
          part s2 pods=2 gpus=4 together=t/kubernetes.io/hostname
          part s3 pods=4 gpus=1 together=t/rack
    ")), @r"
    x pending: Resources were found for 0 pods from all sub-groups while sub-group s1 requires 1 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 4 node(s) didn't have enough resources: GPUs.
    PodSchedulingErrors
    free capacity for 7 more pods of its size, of which 2 in one kubernetes.io/hostname and 4 in one rack, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("
        job r pods=4 gpus=6 non-preemptible on n1 n2 n3 n4
        gang x
          part s1 gpus=2
          part s2 pods=3 gpus=2 together=t/kubernetes.io/hostname
    "), @r"
    x pending: node-group n1 can allocate only 0 of 3 required pods. node-group n2 can allocate only 1 of 3 required pods. node-group n3 can allocate only 1 of 3 required pods. The same holds for 1 more. topology t, requirement kubernetes.io/hostname couldn't be satisfied.
    PodSchedulingErrors
    free capacity for 3 pods in one kubernetes.io/hostname of topology t, or only prefer that level
      then it runs on n1 (Now)
    ");
}

#[test]
fn capacity_in_one_domain_suffices_with_nodes_of_the_pod_size() {
    assert_snapshot!(suggestions_of("
        topology t levels zone rack kubernetes.io/hostname
        node n0 gpus=2 label zone=z1 label rack=r2
        node n1 gpus=8 label zone=z1 label rack=r3
        node n2 gpus=8 label zone=z1 label rack=r3
        node n3 gpus=8 label zone=z0 label rack=r1
        queue top quota=4
        queue a parent=top quota=7 limit=28
        gang o pods=2 gpus=1 cpu=1 queue=a priority=60 non-preemptible together=t/rack
        gang x pods=3 gpus=8 cpu=1 queue=a together=t/zone close=t/rack
        job r gpus=2 queue=a non-preemptible on n0
    ", "x"), @r"
    PodSchedulingErrors
    free capacity for 3 pods in one zone of topology t
      in all: free capacity for 5 pods in one zone of topology t
      then it runs on (new node 3) (Now)
    ");
}
