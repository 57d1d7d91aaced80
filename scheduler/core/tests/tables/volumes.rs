//! Volume claims.

use insta::assert_snapshot;

use schedlab_scheduler_core::plugins::{VolumeChoice, assign_volumes};
use schedlab_testkit::{plan_of, snapshot_of};

#[test]
fn a_pod_goes_to_a_node_that_reaches_its_volume() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 label disk=a
        node n2 gpus=8 label disk=b
        job a gpus=1 volume data@disk=b
        job b gpus=1 volume data@disk=b volume more@disk=a
        job c gpus=1 volume data@
    "), @"
    a runs on n2
    c runs on n2
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 2 node(s) had volume node affinity conflict.
    ");
}

#[test]
fn the_zone_of_a_volume_comes_from_its_labels() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 label topology.kubernetes.io/zone=a
        node n2 gpus=1 label topology.kubernetes.io/zone=b
        node n3 gpus=1 label failure-domain.beta.kubernetes.io/zone=b
        job a pods=2 gpus=1 volume in-zone:data@b
        job b gpus=1 volume in-zone:data@c
    "), @"
    a runs on n2, n3
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) had no available volume zone, 2 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn a_node_without_a_zone_label_matches_every_zone() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        job a gpus=1 volume in-zone:data@b
    "), @"a runs on n1");
}

#[test]
fn a_read_write_once_pod_claim_has_one_user_at_a_time() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job a gpus=1 volume once:data@
        job b gpus=1 volume once:data@
        job c gpus=1 volume once:other@
        job d gpus=1 volume once:other@ on n1
    "), @r#"
    a runs on n1
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) rejected: another pod has persistentvolumeclaim "data" with access mode ReadWriteOncePod.
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) rejected: another pod has persistentvolumeclaim "other" with access mode ReadWriteOncePod.
    "#);
}

#[test]
fn a_read_write_once_pod_claim_is_free_when_its_pod_is_gone() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job a gpus=1 volume once:data@ releasing on n1
        job b gpus=1 volume once:data@
    "), @"
    b waits for n1
    b pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn an_unbound_claim_selects_nodes_that_reach_a_volume() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 label disk=a
        node n2 gpus=8 label disk=b
        job a gpus=1 volume data?v1@disk=b
        job b gpus=1 volume more?v2@disk=c
        job c gpus=1 volume made?made@disk=b
    "), @"
    a runs on n2
    c runs on n2
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 2 node(s) didn't find available persistent volumes to bind.
    ");
}

#[test]
fn no_two_claims_get_the_same_volume() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 label disk=a
        node n2 gpus=8 label disk=b
        job a gpus=1 volume x?v1@disk=a
        job b gpus=1 volume y?v1@disk=a,v2@disk=b
        job c gpus=1 volume z?v1@disk=a,v2@disk=b
    "), @"
    a runs on n1
    b runs on n2
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 2 node(s) didn't find available persistent volumes to bind.
    ");
}

#[test]
fn a_claim_takes_another_volume_if_that_lets_others_run() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 label disk=a
        job a gpus=1 volume x?v1@disk=a,v2@disk=a
        job b gpus=1 volume y?v1@disk=a
    "), @"
    a runs on n1
    b runs on n1
    ");
}

#[test]
fn pods_that_share_a_claim_go_to_nodes_that_reach_one_volume() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 label disk=a
        node n2 gpus=1 label disk=a
        node n3 gpus=1 label disk=b
        job a pods=3 gpus=1 min=1 volume x?v1@disk=a,v2@disk=b
        job b pods=2 cpu=1 min=1 volume y?made@
    "), @"
    a runs on n1
    b runs on n1
    a runs on n2
    b runs on n1
    a pending: Resources were not found for pod default/a-2 due to: no nodes with enough resources were found: 1 node(s) didn't find available persistent volumes to bind, 2 node(s) didn't have enough resources: GPUs.
    ");
}

/// The volumes assigned to unbound claims if the pods are on these nodes.
fn chosen(cluster: &str, places: &[(&str, &str)]) -> String {
    let snapshot = snapshot_of(cluster);
    let places = places.iter().map(|(pod, node)| {
        let mut pods = snapshot.pods.iter();
        let pod = pods.find(|known| &*known.name == *pod).expect("the table has this pod");
        let mut nodes = snapshot.nodes.iter();
        let node = nodes.find(|known| &*known.name == *node).expect("the table has this node");
        (&*snapshot.shapes[pod.shape.0 as usize].volumes, node)
    });
    let output = assign_volumes(places).into_iter().map(|(claim, chosen)| match chosen {
        VolumeChoice::Existing(volume) => format!("{claim} gets {volume}"),
        VolumeChoice::Provisioned => format!("{claim} is made"),
    });
    output.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_maximum_of_claims_is_matched_and_the_rest_is_provisioned() {
    let cluster = "
        node n1 label disk=a
        node n2 label disk=b
        job a volume x?v1@disk=a,v2@disk=a
        job b volume y?v1@disk=a
        job c volume m?made@disk=b
        job d volume n?v1@disk=a,made@disk=a
        job e volume z?v3@disk=b
        job f volume o?v1@disk=a
    ";
    let of = |places: &[(&str, &str)]| chosen(cluster, places);
    assert_snapshot!(of(&[("a", "n1")]), @"x gets v1");
    assert_snapshot!(of(&[("a", "n1"), ("b", "n1")]), @"x gets v2, y gets v1");
    assert_snapshot!(of(&[("c", "n2"), ("d", "n1")]), @"m is made, n gets v1");
    assert_snapshot!(of(&[("d", "n1"), ("b", "n1")]), @"n is made, y gets v1");
    assert_snapshot!(of(&[("e", "n1"), ("c", "n1")]), @"");
    assert_snapshot!(of(&[("b", "n1"), ("f", "n1")]), @"o gets v1");
}

#[test]
fn a_provisioned_volume_serves_one_node_and_an_existing_one_all_it_reaches() {
    let cluster = "
        node n1 label disk=a
        node n2 label disk=a
        node n3 label disk=b
        job a pods=2 volume x?made@disk=a
        job b pods=2 volume y?v1@disk=a,made@disk=a
    ";
    let of = |places: &[(&str, &str)]| chosen(cluster, places);
    assert_snapshot!(of(&[("a-0", "n2"), ("a-1", "n2")]), @"x is made");
    assert_snapshot!(of(&[("a-0", "n1"), ("a-1", "n2")]), @"");
    assert_snapshot!(of(&[("b-0", "n1"), ("b-1", "n2")]), @"y gets v1");
    assert_snapshot!(of(&[("b-0", "n1"), ("b-1", "n3")]), @"");
}

#[test]
fn a_pod_with_several_open_claims_needs_a_volume_for_each() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 label disk=a
        job a gpus=1 volume x?v1@disk=a volume y?v1@disk=a
        job b gpus=1 volume x?v1@disk=a
        job c gpus=1 volume z?v1@disk=a
    "), @r"
    b runs on n1
    a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) didn't find available persistent volumes to bind.
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) didn't find available persistent volumes to bind.
    ");
}

#[test]
fn the_volumes_of_a_driver_are_limited_per_node() {
    assert_snapshot!(plan_of("
        node n1 volumes=2
        node n2 volumes=2 attached old
        node n3
        job a cpu=1 volume csi:one@ volume csi:two@ volume csi:three@
        job b cpu=1 volume csi:one@ volume csi:two@ volume csi:three@ needs kubernetes.io/hostname=n1
        job c cpu=1 volume csi:one@ volume csi:two@ needs kubernetes.io/hostname=n2
        job d cpu=1 volume csi:one@ volume two@ needs kubernetes.io/hostname=n2
    "), @"
    a runs on n3
    d runs on n2
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) exceed max volume count, 2 node(s) didn't match Pod's node affinity/selector.
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) exceed max volume count, 2 node(s) didn't match Pod's node affinity/selector.
    ");
}

#[test]
fn a_volume_that_several_pods_use_is_attached_once() {
    assert_snapshot!(plan_of("
        node n1 volumes=2 attached one
        job a cpu=1 volume csi:one@ on n1
        foreign x cpu=1 volume csi:two@ on n1
        job b cpu=1 volume csi:one@ volume csi:two@
        job c cpu=1 volume csi:three@
    "), @"
    b runs on n1
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) exceed max volume count.
    ");
}

#[test]
fn a_volume_is_detached_with_its_last_pod() {
    assert_snapshot!(plan_of("
        node n1 volumes=1 attached one
        job a cpu=1 volume csi:one@ releasing on n1
        job b cpu=1 volume csi:two@
    "), @"
    b waits for n1
    b pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan_of("
        node n1 volumes=1 attached one
        job a cpu=1 volume csi:one@ releasing on n1
        foreign x cpu=1 volume csi:one@ on n1
        job b cpu=1 volume csi:two@
    "), @"b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) exceed max volume count.");
}

#[test]
fn a_pod_with_a_volume_is_evicted_to_free_an_attachment() {
    assert_snapshot!(plan_of("
        node n1 volumes=1 cpu=8
        job low cpu=1 priority=50 volume csi:one@ on n1
        job none cpu=1 priority=50 on n1
        job high cpu=1 priority=60 volume csi:two@
    "), @"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_volume_is_provisioned_where_its_driver_has_capacity() {
    assert_snapshot!(plan_of("
        node n1 label shelf=x
        node n2 label shelf=y label rack=far
        job a cpu=1 volume a?made@@shelf=y
        job b cpu=1 volume b?made@@
        job c cpu=1 volume c?made@rack=far@shelf=x
        job d cpu=1 volume d?v1@shelf=x,made@@
    "), @"
    a runs on n2
    d runs on n1
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 2 node(s) did not have enough free storage.
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) did not have enough free storage, 1 node(s) didn't find available persistent volumes to bind.
    ");
}
