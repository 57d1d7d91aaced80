//! Pods that are placed together in domains of a topology.

use insta::assert_snapshot;

use schedlab_testkit::{cycles_until_steady_of, plan_of};

/// Two zones, each with two racks of two nodes.
const RACKS: &str = "
        topology dc levels zone rack
        node n1 gpus=1 label zone=a label rack=a1
        node n2 gpus=1 label zone=a label rack=a1
        node n3 gpus=1 label zone=a label rack=a2
        node n4 gpus=1 label zone=a label rack=a2
        node n5 gpus=1 label zone=b label rack=b1
        node n6 gpus=1 label zone=b label rack=b1
        node n7 gpus=1 label zone=b label rack=b2
        node n8 gpus=1 label zone=b label rack=b2
";

#[test]
fn a_gang_runs_in_one_rack_or_not_at_all() {
    assert_snapshot!(plan_of(&format!("{RACKS}
        job other priority=100 gpus=1 on n1
        job more priority=100 pods=3 gpus=1 on n4 n5 n8
        gang a pods=2 gpus=1 together=dc/rack
    ")), @"a pending: node-group a1 can allocate only 1 of 2 required pods. node-group a2 can allocate only 1 of 2 required pods. node-group b1 can allocate only 1 of 2 required pods. The same holds for 1 more. topology dc, requirement rack couldn't be satisfied.");
}

#[test]
fn a_rack_of_the_fullest_zone_is_taken_among_those_that_hold_all() {
    assert_snapshot!(plan_of(&format!("{RACKS}
        node n9 gpus=2 label zone=b label rack=b1
        job other gpus=1 on n7
        gang a pods=2 gpus=1 together=dc/rack
        gang b pods=2 gpus=1 together=dc/rack
    ")), @r"
    a runs on n1, n2
    b runs on n3, n4
    ");
}

#[test]
fn the_fullest_zone_is_filled_before_another_is_begun() {
    assert_snapshot!(plan_of(&format!("{RACKS}
        job other pods=2 gpus=1 on n6 n8
        gang a pods=1 gpus=1 together=dc/rack
    ")), @"a runs on n5");
}

#[test]
fn a_preferred_rack_gives_way_to_the_zone_if_no_rack_holds_the_gang() {
    assert_snapshot!(plan_of(&format!("{RACKS}
        job other gpus=1 on n1
        gang a pods=4 gpus=1 together=dc/zone close=dc/rack
    ")), @"a runs on n7, n8, n5, n6");
}

#[test]
fn without_a_requirement_pods_may_spread_over_everything() {
    assert_snapshot!(plan_of(&format!("{RACKS}
        job other gpus=1 on n3
        gang a pods=7 gpus=1 close=dc/rack
    ")), @"a runs on n7, n8, n5, n6, n1, n2, n4");
}

#[test]
fn as_few_racks_as_possible_are_used() {
    assert_snapshot!(plan_of(&format!("{RACKS}
        job other gpus=1 on n3
        gang a pods=3 gpus=1 together=dc/zone close=dc/rack
    ")), @"a runs on n1, n2, n4");
}

#[test]
fn sub_group_domains_are_within_the_domain_of_the_gang() {
    assert_snapshot!(plan_of(&format!("{RACKS}
        job other gpus=1 on n4
        gang a together=dc/zone
          part left pods=2 gpus=1 together=dc/rack
          part right pods=2 gpus=1 together=dc/rack
    ")), @"a runs on n5, n6, n7, n8");
}

#[test]
fn a_domain_whose_nodes_reject_the_pods_is_skipped() {
    assert_snapshot!(plan_of(&format!("{RACKS}
        node n9 gpus=2 label zone=c label rack=c1 label kind=fast
        gang a pods=2 gpus=1 together=dc/rack needs kind=fast
    ")), @"a runs on n9 x2");
}

#[test]
fn a_rack_holds_fractions_on_free_and_shared_gpus() {
    assert_snapshot!(plan_of("
        topology dc levels rack
        node n1 gpus=1 label rack=a
        node n2 gpus=3 label rack=b
        job other part=0.3 on n2/g1
        gang a pods=5 part=0.5 together=dc/rack
        gang b pods=3 part=0.5 together=dc/rack
    "), @r"
    a runs on n2/g1, n2/a-1 x2, n2/a-3 x2
    b pending: node-group b can allocate only 0 of 3 required pods. node-group a can allocate only 2 of 3 required pods. topology dc, requirement rack couldn't be satisfied.
    ");
}

#[test]
fn elastic_pods_stay_in_the_domain_of_the_running_gang() {
    assert_snapshot!(plan_of(&format!("{RACKS}
        job a pods=3 min=1 gpus=1 together=dc/rack on n1
    ")), @r"
    a runs on n2
    a pending: node-group a1 can allocate only 0 of 1 required pods. topology dc, requirement rack couldn't be satisfied.
    ");
}

#[test]
fn a_node_without_labels_is_in_no_domain_and_an_unknown_level_is_reported() {
    assert_snapshot!(plan_of("
        topology dc levels zone rack
        node n1 gpus=8 label zone=a
        gang a pods=2 gpus=1 close=dc/rack
        gang b pods=2 gpus=1 together=dc/row
        gang c pods=2 gpus=1 together=other/rack
    "), @r"
    a pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have all labels of topology dc.
    b pending: topology dc with level row does not exist
    c pending: topology other with level rack does not exist
    ");
}

#[test]
fn consolidation_empties_a_rack() {
    assert_snapshot!(cycles_until_steady_of(&format!("{RACKS}
        job other pods=3 min=1 gpus=1 on n1 n3 n5
        job more gpus=1 on n7
        gang a pods=2 gpus=1 together=dc/rack
    ")), @r"
    1: other leaves n5 for a (consolidation)
    1: other waits for n2
    1: a waits for n5, n6
    2: a runs on n5, n6
    2: other runs on n2
    steady after 2
    ");
}

#[test]
fn a_rack_is_reclaimed_as_a_whole() {
    assert_snapshot!(cycles_until_steady_of(&format!("{RACKS}
        queue left quota=4
        queue right quota=4
        job a1 gpus=1 queue=left on n1
        job a2 gpus=1 queue=left on n3
        job a3 gpus=1 queue=left on n5
        job a4 gpus=1 queue=left on n7
        job b1 gpus=1 queue=left on n2
        job b2 gpus=1 queue=left on n4
        job b3 gpus=1 queue=left on n6
        job b4 gpus=1 queue=left on n8
        gang c pods=2 gpus=1 together=dc/rack queue=right
    ")), @r"
    1: b4 leaves n8 for c (reclaim)
    1: a4 leaves n7 for c (reclaim)
    1: c waits for n7, n8
    2: c runs on n7, n8
    steady after 2
    ");
}

#[test]
fn the_scarcest_requested_resource_decides_how_full_a_rack_is() {
    let first = |a: &str, b: &str| {
        plan_of(&format!(
            "
            topology dc levels rack
            node n1 label rack=a {a}
            node n2 label rack=b {b}
            gang g pods=2 gpus=1 cpu=2 together=dc/rack
        "
        ))
    };
    // Rack b: 4 of 10 cores; rack a: 2 of 6 GPUs.
    assert_snapshot!(first("gpus=6 cpu=100", "gpus=8 cpu=10"), @"g runs on n2 x2");
    // Rack b: 2 of 4 GPUs; rack a: 4 of 10 cores.
    assert_snapshot!(first("gpus=8 cpu=10", "gpus=4 cpu=100"), @"g runs on n2 x2");
    assert_snapshot!(first("gpus=8 cpu=10", "gpus=8 cpu=10"), @"g runs on n1 x2");
}

#[test]
fn different_pods_share_a_domain_with_enough_of_each_resource() {
    let together = |b: &str| {
        plan_of(&format!(
            "
            topology dc levels rack
            node n1 gpus=2 cpu=8 label rack=a
            node n2 gpus=2 cpu=2 label rack=b
            node n3 {b} label rack=b
            gang g together=dc/rack
              part left gpus=1 cpu=2
              part right gpus=2 cpu=2
        "
        ))
    };
    assert_snapshot!(together("gpus=1 cpu=2"), @"g runs on n3, n2");
    assert_snapshot!(together("gpus=1 cpu=1"), @"g pending: node-group a can allocate only 1 of 2 required pods. node-group b can allocate only 1 of 2 required pods. topology dc, requirement rack couldn't be satisfied.");
    assert_snapshot!(together("cpu=2"), @"g pending: node-group a can allocate only 1 of 2 required pods. node-group b can allocate only 1 of 2 required pods. topology dc, requirement rack couldn't be satisfied.");
}

#[test]
fn different_pods_that_fit_together_are_counted() {
    let together = |parts: &str| {
        let output = plan_of(&format!(
            "
            topology dc levels rack
            node n1 gpus=4 label rack=a
            node n2 gpus=4 label rack=a
            node n3 gpus=5 label rack=b
            job others pods=2 gpus=1 non-preemptible on n1 n2
            gang g together=dc/rack
              {parts}
        "
        ));
        output.replace("can allocate only ", "").split(" topology dc").next().unwrap().to_owned()
    };
    let output = together("part head gpus=4\npart work pods=3 gpus=1");
    assert_snapshot!(output, @"g pending: node-group b 2 of 4 required pods. node-group a 3 of 4 required pods.");
    let output = together("part a pods=6 gpus=1\npart z gpus=3");
    assert_snapshot!(output, @"g pending: node-group b 5 of 7 required pods. node-group a 6 of 7 required pods.");
    let output = together("part a pods=3 part=0.4\npart z pods=5 gpus=1");
    assert_snapshot!(output, @"g pending: node-group b 6 of 8 required pods. node-group a 7 of 8 required pods.");
    let output =
        together("part a part=0.4 devices=3\npart b part=0.6 devices=4\npart z pods=3 gpus=1");
    assert_snapshot!(output, @"g pending: node-group b 3 of 5 required pods. node-group a 4 of 5 required pods.");
}

#[test]
fn pods_that_are_alike_are_counted_node_by_node() {
    assert_snapshot!(plan_of("
        topology dc levels rack
        node n1 gpus=5 label rack=a
        node n2 gpus=1 label rack=a
        gang g pods=2 gpus=3 together=dc/rack
    "), @"g pending: node-group a can allocate only 1 of 2 required pods. topology dc, requirement rack couldn't be satisfied.");
}

/// Racks of one node with one GPU each, `each` of them in every zone.
fn single_racks(zones: &[&str], each: usize) -> String {
    let rack = |at: usize| {
        let zone = zones[at / each];
        format!("node n{at:02} gpus=1 label zone={zone} label rack={at:02}\n")
    };
    let racks: String = (0..zones.len() * each).map(rack).collect();
    format!("\ntopology dc levels zone rack\n{racks}")
}

#[test]
fn each_of_eleven_preferred_racks_has_its_rank() {
    let racks = single_racks(&["a"], 11);
    assert_snapshot!(
        plan_of(&format!("{racks}gang g pods=11 gpus=1 close=dc/rack")),
        @"g runs on n10, n09, n08, n07, n06, n05, n04, n03, n02, n01, n00"
    );
}

#[test]
fn preferred_racks_are_ranked_among_all_that_the_gang_may_use() {
    let racks = single_racks(&["a", "b"], 10);
    assert_snapshot!(
        plan_of(&format!("{racks}gang g pods=10 gpus=1 together=dc/zone close=dc/rack")),
        @"g runs on n09, n07, n08, n05, n06, n03, n04, n01, n02, n00"
    );
}

#[test]
fn a_rack_is_as_full_as_its_whole_gpus_make_it() {
    let first = |request: &str| {
        plan_of(&format!(
            "
            topology dc levels rack
            node n1 gpus=3 label rack=a
            node n2 gpus=2 label rack=b
            job other part=0.3 on n1/g1
            gang g pods=2 {request} together=dc/rack
        "
        ))
    };
    assert_snapshot!(first("gpus=1"), @"g runs on n1 x2");
    assert_snapshot!(first("part=0.5"), @"g runs on n1/g1, n1/g-1");
}
