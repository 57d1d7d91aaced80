//! Guarantees that borrowers hold in large units: a set of victims exists that the rules of reclaim
//! accept, but not among the first ones in victim order.

use insta::assert_snapshot;

use schedlab_testkit::cycles_until_steady_of;

/// Clusters in which the gang `owned` of queue hero must be served.
const CLUSTERS: [(&str, &str); 8] = [
    (
        "gangs as victims",
        "
        node n1 gpus=6
        queue a quota=1
        queue b quota=1
        queue c quota=4
        queue hero parent=c quota=4
        queue noisy parent=c quota=0
        gang wa pods=2 gpus=1 queue=a on n1 n1
        gang wb pods=2 gpus=1 queue=b on n1 n1
        gang wn pods=2 gpus=1 queue=noisy on n1 n1
        gang owned pods=4 gpus=1 queue=hero
    ",
    ),
    (
        "gangs over two nodes",
        "
        node n1 gpus=3
        node n2 gpus=3
        queue a quota=1
        queue b quota=1
        queue c quota=4
        queue hero parent=c quota=4
        queue noisy parent=c quota=0
        gang wa pods=2 gpus=1 queue=a on n1 n2
        gang wb pods=2 gpus=1 queue=b on n1 n2
        gang wn pods=2 gpus=1 queue=noisy on n1 n2
        gang owned pods=4 gpus=1 queue=hero
    ",
    ),
    (
        "three levels",
        "
        node n1 gpus=10
        queue a quota=1
        queue b quota=1
        queue c quota=8
        queue d parent=c quota=4
        queue e parent=c quota=4
        queue hero parent=d quota=4
        queue noisy parent=d quota=0
        queue loud parent=e quota=0
        job wa gpus=3 queue=a on n1
        job wb gpus=3 queue=b on n1
        job wn gpus=2 queue=noisy on n1
        job wl gpus=2 queue=loud on n1
        gang owned pods=4 gpus=1 queue=hero
    ",
    ),
    (
        "two levels of borrowing relatives",
        "
        node n1 gpus=8
        queue a quota=1
        queue b quota=1
        queue c quota=6
        queue d parent=c quota=6
        queue e parent=c quota=0
        queue hero parent=d quota=6
        queue noisy parent=d quota=0
        queue loud parent=e quota=0
        job wa gpus=2 queue=a on n1
        job wb gpus=2 queue=b on n1
        job wn gpus=2 queue=noisy on n1
        job wl gpus=2 queue=loud on n1
        gang owned pods=6 gpus=1 queue=hero
    ",
    ),
    (
        "a large victim leaves capacity over",
        "
        node n1 gpus=9
        queue a quota=1
        queue b quota=1
        queue c quota=5
        queue hero parent=c quota=5
        queue noisy parent=c quota=0
        job wa gpus=3 queue=a on n1
        job wb gpus=3 queue=b on n1
        job wn1 gpus=1 queue=noisy on n1
        job wn2 gpus=2 queue=noisy on n1
        gang owned pods=5 gpus=1 queue=hero
    ",
    ),
    (
        "relatives suffice, though others exceed their shares further",
        "
        node n1 gpus=8
        queue d0 quota=3
        queue d1 quota=4
        queue q0 parent=d0 quota=1
        queue q1 parent=d1 quota=1
        queue q2 parent=d1 quota=3
        queue hero parent=d0 quota=2
        job w0 gpus=2 queue=q0 on n1
        gang w1 pods=1 gpus=1 queue=q0 on n1
        job w2 gpus=3 queue=q1 on n1
        gang w3 pods=2 gpus=1 queue=q2 on n1 n1
        gang owned pods=2 gpus=1 queue=hero
    ",
    ),
    (
        "the first victims would return before the owner",
        "
        node n1 gpus=11
        queue d0 quota=5
        queue d1 quota=2
        queue d2 quota=2
        queue q0 parent=d0 quota=0
        queue q1 parent=d1 quota=1
        queue q2 parent=d1 quota=1
        queue q3 parent=d2 quota=2
        queue hero parent=d0 quota=5
        job w0 gpus=2 queue=q0 on n1
        gang w1 pods=1 gpus=1 queue=q0 on n1
        job w2 gpus=1 queue=q1 on n1
        gang w3 pods=3 gpus=1 queue=q1 on n1 n1 n1
        job w4 gpus=1 queue=q3 on n1
        gang w5 pods=2 gpus=1 queue=q3 on n1 n1
        gang owned pods=5 gpus=1 queue=hero
    ",
    ),
    (
        "one pod on one of several nodes",
        "
        node n1 gpus=4
        node n2 gpus=4
        queue a quota=2
        queue b quota=2
        queue c quota=4
        queue hero parent=c quota=4
        queue noisy parent=c quota=0
        job wa gpus=3 queue=a on n1
        job wb gpus=3 queue=b on n2
        job wn1 gpus=1 queue=noisy on n1
        job wn2 gpus=1 queue=noisy on n2
        gang owned pods=1 gpus=4 queue=hero
    ",
    ),
];

#[test]
fn a_guarantee_is_served_by_the_own_department_and_one_large_borrower() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=6
        queue a quota=1
        queue b quota=1
        queue c quota=4
        queue hero parent=c quota=4
        queue noisy parent=c quota=0
        job wa gpus=2 queue=a on n1
        job wb gpus=2 queue=b on n1
        job wn gpus=2 queue=noisy on n1
        gang owned pods=4 gpus=1 queue=hero
    "), @r"
    1: wb leaves n1 for owned (reclaim)
    1: wn leaves n1 for owned (reclaim)
    1: owned waits for n1 x4
    2: owned runs on n1 x4
    steady after 2
    ");
}

#[test]
fn a_guarantee_is_served_whatever_units_the_borrowers_run() {
    for (name, text) in CLUSTERS {
        let rounds = cycles_until_steady_of(text);
        assert!(rounds.contains("steady after") && !rounds.contains("BREACH"), "{name}: {rounds}");
        let is_served = rounds.lines().any(|line| line.contains("owned runs on "));
        assert!(is_served, "{name}: {rounds}");
    }
}
