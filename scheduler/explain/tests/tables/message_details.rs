//! Names in messages: labels, ports, topology keys and claims; and amounts that are unknown.

use insta::assert_snapshot;

use crate::texts::{explained, suggestions_of};

/// The first suggestion for job `a` of this line, next to this node.
fn remedy([node, job]: [&str; 2]) -> String {
    let output =
        suggestions_of(&format!("node n1 gpus=8 {node}\n job b port=80 on n1\n job a {job}"), "a");
    output.lines().nth(1).unwrap_or_default().to_owned()
}

#[test]
fn the_only_label_that_is_selected_is_named() {
    assert_snapshot!(remedy(["", "gpus=1 needs zone=a"]), @"label a node with zone=a, as its node selector requires, or relax that");
    assert_snapshot!(remedy(["", "gpus=1 needs zone=a needs disk=fast"]), @"label a node as its node selector and affinity require, or relax that");
}

#[test]
fn the_only_host_port_is_named() {
    assert_snapshot!(remedy(["", "port=80"]), @"add a node on which host port 80 is free");
}

#[test]
fn the_key_over_which_pods_are_spread_is_named() {
    assert_snapshot!(remedy(["", "gpus=1 spread app=x/zone/1"]), @"label nodes with zone, the topologyKey of its topology spread");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=0 label zone=b
        job b label app=x non-preemptible on n1
        job a gpus=1 label app=x spread app=x/zone/1
    ", "a"), @r"
    PodSchedulingErrors
    add a node with 1 GPU in zone b or in a new zone, as its topology spread over zone requires, or allow a larger maxSkew
      then it runs on (new node) (Now)
    ");
}

/// The node report for job `a`.
fn nodes_for(text: &str) -> String {
    let output = explained(text, "a");
    let from = output.lines().skip_while(|line| !line.starts_with("nodes for pod"));
    from.collect::<Vec<_>>().join("\n")
}

#[test]
fn device_memory_is_unknown_without_the_node_label() {
    assert_snapshot!(nodes_for("
        node n1 gpus=2
        node n2 gpus=2 gpu-memory=1000
        job b gpus=2 on n2
        job a part-memory=2000
    "), @r"
    nodes for pod default/a, which requests 2000 MiB of a GPU
      n1: NodeResourcesFit rejects: node(s) didn't have enough resources: GPU memory
        free 2 of 2 GPUs, their memory is unknown
      n2: NodeResourcesFit rejects: node(s) didn't have enough resources: GPU memory
        free 0 of 2 GPUs, at most 0 MiB of one GPU
    ");
}

#[test]
fn devices_that_only_claims_request_are_shown() {
    assert_snapshot!(nodes_for("
        node n1 gpus=1 by-claim
        job a claim pair:2
    "), @r"
    nodes for pod default/a, which requests 2 GPUs of claim pair
      n1: NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs
        free 1 of 1 GPU
    ");
    assert_snapshot!(nodes_for("
        node n1 gpus=0 by-claim
        job a cpu=1 claim whole:all
    "), @r"
    nodes for pod default/a, which requests 1 CPU core, every device that claim whole selects
      n1: NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs
        free 0 of 0 GPUs, 128 of 128 CPU cores
    ");
}
