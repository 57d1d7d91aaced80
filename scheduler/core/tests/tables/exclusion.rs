//! Reclaim for pods that exclude each other from a domain.

use insta::assert_snapshot;

use schedlab_testkit::plan_of;

#[test]
fn a_gang_with_anti_affinity_reclaims_one_slot_on_each_node() {
    let plan = |apart: &str| {
        plan_of(&format!(
            "
            node n1 gpus=2 label host=a
            node n2 gpus=2 label host=b
            node n3 gpus=2 label host=c
            queue lender quota=3
            queue owner quota=3
            job a pods=2 gpus=1 queue=lender on n1 n1
            job b pods=2 gpus=1 queue=lender on n2 n2
            job c pods=2 gpus=1 queue=lender on n3 n3
            gang own pods=3 gpus=1 queue=owner label app=own {apart}
        "
        ))
    };
    assert_snapshot!(plan("far app=own/host"), @r"
    c leaves n3 for own (reclaim)
    b leaves n2 for own (reclaim)
    a leaves n1 for own (reclaim)
    own waits for n1, n2, n3
    own pending: Pipelined to n1, n2, n3: waiting for terminating pods to release capacity
    ");
    assert_eq!(plan("port=80"), plan("far app=own/host"));
}

#[test]
fn pods_without_mutual_anti_affinity_share_nodes() {
    assert_snapshot!(plan_of("
        node n1 gpus=2 label host=a
        node n2 gpus=2 label host=b
        queue lender quota=0
        queue owner quota=3
        job a pods=2 gpus=1 queue=lender on n1 n1
        job b pods=2 gpus=1 queue=lender on n2 n2
        gang own queue=owner
          part l gpus=1 label app=other far app=own/host
          part m gpus=1 label app=own far app=own/host
          part r gpus=1 label app=other far app=own/host
    "), @r"
    b leaves n2 for own (reclaim)
    a leaves n1 for own (reclaim)
    b leaves n2 for own (reclaim)
    a leaves n1 for own (reclaim)
    a waits for n2
    own waits for n1, n2, n1
    own pending: Pipelined to n1, n2: waiting for terminating pods to release capacity
    ");
}
