//! What explanations call by its name: labels, ports, keys, claims; and what they do not know.

use insta::assert_snapshot;

use crate::testing::{explained, remedies_of};

/// The first remedy for job `a` of this line, beside this node.
fn remedy([node, job]: [&str; 2]) -> String {
    let told =
        remedies_of(&format!("node n1 gpus=8 {node}\n job b port=80 on n1\n job a {job}"), "a");
    told.lines().nth(1).unwrap_or_default().to_owned()
}

#[test]
fn the_only_label_that_is_selected_is_named() {
    assert_snapshot!(remedy(["", "gpus=1 needs zone=a"]), @"label a node zone=a, as its node selector asks, or ask for less");
    assert_snapshot!(remedy(["", "gpus=1 needs zone=a needs disk=fast"]), @"label a node as its node selector and affinity ask, or ask for less");
}

#[test]
fn the_only_host_port_is_named() {
    assert_snapshot!(remedy(["", "port=80"]), @"add a node on which host port 80 is free");
}

#[test]
fn the_key_over_which_pods_are_spread_is_named() {
    assert_snapshot!(remedy(["", "gpus=1 spread app=x/zone/1"]), @"label nodes with zone, the key over which it is to be spread");
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=0 label zone=b
        job b label app=x non-preemptible on n1
        job a gpus=1 label app=x spread app=x/zone/1
    ", "a"), @r"
    PodSchedulingErrors
    add a node with 1 GPU in zone b or in a new zone, as its topology spread over zone asks, or allow a larger maxSkew
      then it runs on (new node) (Now)
    ");
}

/// What is told of nodes for job `a`.
fn nodes_for(text: &str) -> String {
    let told = explained(text, "a");
    let from = told.lines().skip_while(|line| !line.starts_with("nodes for pod"));
    from.collect::<Vec<_>>().join("\n")
}

#[test]
fn memory_of_devices_is_unknown_where_nodes_do_not_tell_it() {
    assert_snapshot!(nodes_for("
        node n1 gpus=2
        node n2 gpus=2 gpu-memory=1000
        job b gpus=2 on n2
        job a part-memory=2000
    "), @r"
    nodes for pod default/a, which asks for 2000 MiB of a GPU
      n1: NodeResourcesFit refuses: node(s) didn't have enough resources: GPU memory
        free 2 of 2 GPUs, their memory unknown
      n2: NodeResourcesFit refuses: node(s) didn't have enough resources: GPU memory
        free 0 of 2 GPUs, at most 0 MiB of one
    ");
}

#[test]
fn devices_that_claims_alone_ask_for_are_told() {
    assert_snapshot!(nodes_for("
        node n1 gpus=1 by-claim
        job a claim pair:2
    "), @r"
    nodes for pod default/a, which asks for 2 GPUs of claim pair
      n1: NodeResourcesFit refuses: node(s) didn't have enough resources: GPUs
        free 1 of 1 GPU
    ");
    assert_snapshot!(nodes_for("
        node n1 gpus=0 by-claim
        job a cpu=1 claim whole:all
    "), @r"
    nodes for pod default/a, which asks for 1 CPU core, every device that claim whole selects
      n1: NodeResourcesFit refuses: node(s) didn't have enough resources: GPUs
        free 0 of 0 GPUs, 128 of 128 CPU cores
    ");
}
