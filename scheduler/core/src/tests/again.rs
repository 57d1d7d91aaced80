//! Nobody is evicted again and again: what others leave for is still so when the next cycle has
//! served everybody in turn. Each of these clusters once never came to rest.

use crate::testing::rounds_of;

/// What is said of the cluster at last.
fn end_of(cluster: &str) -> String {
    rounds_of(cluster).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_gang_that_would_come_first_again_under_a_common_limit_stays() {
    let end = end_of(
        "
        node n4 gpus=4 gpu-memory=40960
        node n5 gpus=2 gpu-memory=81920
        queue d0 quota=0 weight=0.3
        queue d1 quota=1 limit=4 weight=0.3
        queue d1k0 parent=d1 quota=1 weight=0
        queue d1k1 parent=d1 quota=1 limit=3.5
        gang g0 queue=d1k1
        part a part-memory=30000
        part b gpus=1
        part c gpus=2
        job g5 gpus=1 queue=d1k0
        job g6 pods=2 min=1 part=0.13 queue=d1k0 priority=100
        job g12 part=0.7 devices=2 queue=d0
        job g13 part=0.13 queue=d1k0
    ",
    );
    assert!(end.starts_with("steady"), "{end}");
}

#[test]
fn parts_of_devices_that_come_back_as_they_were_stay() {
    let end = end_of(
        "
        node n0 gpus=4 cpu=32
        node n1 gpus=4 cpu=8
        queue d0 quota=0 weight=0.3
        queue d0k0 parent=d0 quota=0
        queue d1 quota=2
        queue d1k0 parent=d1 quota=2
        job g6 pods=5 min=1 part=0.37 queue=d1k0
        gang g7 needs=1 queue=d1k0
        part s0 needs=2
        part s0a parent=s0 part=0.5
        part s0b parent=s0 gpus=1
        part s1 needs=2
        part s1a parent=s1 gpus=1
        part s1b parent=s1 part=0.3
        part s2 needs=2
        part s2a parent=s2 gpus=1
        part s2b parent=s2 part=0.3 devices=2
        part s2c parent=s2 gpus=1
        job g13 gpus=2 queue=d0k0 on n0
        job g14 part=0.5 queue=d0k0
    ",
    );
    assert!(end.starts_with("steady"), "{end}");
}

#[test]
fn who_would_move_back_to_smaller_devices_does_not_move() {
    let end = end_of(
        "
        topology t levels zone rack kubernetes.io/hostname
        node n0 gpus=4 gpu-memory=81920 label zone=z0 label rack=r0
        node n1 gpus=8 gpu-memory=40960 label zone=z0 label rack=r0
        node n2 gpus=2 gpu-memory=40960 label zone=z0 label rack=r1
        node n4 gpus=8 gpu-memory=40960 label zone=z1 label rack=r2
        node n5 gpus=2 gpu-memory=40960 label zone=z1 label rack=r2
        queue d0 quota=0 priority=200
        queue d0k0 parent=d0 quota=-1 limit=8
        gang g1 pods=2 gpus=1 queue=d0k0
        gang g2 pods=3 part-memory=10000 queue=d0k0
        gang g4 needs=1 queue=d0k0
        part s0 part=0.3 together=t/rack
        part s1 pods=0 gpus=1 min=2 together=t/rack
        job g8 gpus=4 queue=d0k0 on n1
        job g9 pods=2 min=1 gpus=2 queue=d0k0 priority=75 close=t/rack
        job g10 gpus=1 queue=d0k0 priority=75 on n5
        ",
    );
    assert!(end.starts_with("steady"), "{end}");
}

#[test]
fn room_that_was_promised_and_for_which_nobody_leaves_keeps_nobody_from_theirs() {
    let rounds = rounds_of(
        "
        node n1 gpus=2
        node n2 gpus=1
        node n3 gpus=4 label pool=x
        queue a quota=0
        queue b quota=4
        queue c quota=3
        job old gpus=1 queue=c releasing on n2
        job r pods=4 min=1 gpus=1 queue=a needs pool=x on n3 n3 n3 n3
        gang g queue=c
        part a gpus=1
        part b gpus=2
        job w0 gpus=1 queue=b needs pool=x
        job w1 gpus=1 queue=b needs pool=x
        job w2 gpus=1 queue=b needs pool=x
    ",
    );
    let evicted = rounds.lines().filter(|line| line.starts_with("1: r leaves")).count();
    assert_eq!(evicted, 3, "{rounds}");
}
