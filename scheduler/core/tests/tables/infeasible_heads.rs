//! The first job of a queue represents it in the queue order, unless it could not run whatever is
//! evicted. (If it could, it does as in KAI: see [`super::convergence`].)

use std::fmt::Write as _;

use insta::assert_snapshot;

use schedlab_testkit::cycles_until_steady_of;

/// Two queues of four GPUs each on eight GPUs, all lent to the first queue; `first` is pending in
/// the second one, with four one-GPU jobs behind it. Returns how many of those run at the end, and
/// whether the cluster converged.
fn served_behind(first: &str) -> (usize, bool) {
    let mut text = String::from(
        "node n1 gpus=8\nnode n2 gpus=0 label small=true\nqueue a quota=4\nqueue b quota=4 limit=6\n",
    );
    for at in 0..8 {
        writeln!(text, "job a{at} gpus=1 queue=a on n1").expect("writing to a string succeeds");
    }
    writeln!(text, "{first} queue=b").expect("writing to a string succeeds");
    for at in 0..4 {
        writeln!(text, "job behind{at} gpus=1 queue=b").expect("writing to a string succeeds");
    }
    let rounds = cycles_until_steady_of(&text);
    let run = rounds.lines().filter(|line| line.contains("behind") && line.contains(" runs on "));
    let again = rounds.lines().filter(|line| line.contains(" leaves ")).count();
    (run.count(), again == 4 && rounds.contains("\nsteady after "))
}

#[test]
fn an_infeasible_head_does_not_keep_its_queue_from_its_share() {
    for first in [
        "gang first pods=7 gpus=1",
        "gang first pods=5 gpus=1 non-preemptible",
        "gang first pods=5 gpus=1 needs small=true",
        "gang first pods=5 gpus=1 needs none=such",
        "job first gpus=9",
    ] {
        assert_eq!(served_behind(first), (4, true), "{first}");
    }
}

#[test]
fn an_infeasible_head_does_not_block_another_queue_of_its_department() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=8
        queue factory quota=4
        queue lab quota=4
        queue factory-a parent=factory quota=4
        queue lab-a parent=lab quota=4
        queue lab-b parent=lab quota=4
        job lent pods=5 min=1 gpus=1 queue=factory-a on n1 n1 n1 n1 n1
        job owned pods=3 min=1 gpus=1 queue=lab-b on n1 n1 n1
        gang stuck pods=4 gpus=1 queue=lab-a needs none=such
        job owner gpus=1 queue=lab-b
    "), @r"
    1: lent leaves n1 for owner (reclaim)
    1: owner waits for n1
    2: owner runs on n1
    steady after 2
    ");
}

/// Research deserves four of eight GPUs. Two non-preemptible pods leave three GPUs on each node.
const BEHIND_WEB: &str = "
    node n1 gpus=4 label zone=y
    node n2 gpus=4 label zone=z
    topology dc levels zone
    queue prod quota=2
    queue research quota=4
    queue platform quota=2
    queue search parent=prod quota=2
    queue nlp parent=research quota=4
    queue nb parent=platform quota=2
    job web1 gpus=1 queue=search priority=125 non-preemptible on n1
    job web2 gpus=1 queue=search priority=125 non-preemptible on n2
    job note1 gpus=1 queue=nb priority=50 on n1
    job note2 gpus=1 queue=nb priority=50 on n1
    job note3 gpus=1 queue=nb priority=50 on n1
    job note4 gpus=1 queue=nb priority=50 on n2
    job note5 gpus=1 queue=nb priority=50 on n2
    job note6 gpus=1 queue=nb priority=50 on n2
";

/// How many of the four jobs behind `first` run in queue nlp at the end.
fn served_in_nlp_behind(first: &str) -> (usize, bool) {
    let behind = (0..4).map(|at| format!("job eval{at} gpus=1 queue=nlp priority=50\n"));
    let rounds =
        cycles_until_steady_of(&format!("{BEHIND_WEB}{first}\n{}", behind.collect::<String>()));
    let run = rounds.lines().filter(|line| line.contains("eval") && line.contains(" runs on "));
    (run.count(), rounds.contains("\nsteady after "))
}

#[test]
fn a_head_that_non_preemptible_pods_exclude_does_not_keep_its_queue_from_its_share() {
    let several = "
        gang one pods=1 gpus=4 queue=nlp priority=50
        gang two pods=2 gpus=3 queue=nlp priority=75 needs zone=y
        gang three pods=4 gpus=1 queue=nlp priority=100 preemptible together=dc/zone
    ";
    for first in [
        "gang llm pods=1 gpus=4 queue=nlp priority=50",
        "gang llm pods=1 gpus=4 queue=nlp priority=90",
        "gang llm pods=1 gpus=4 queue=nlp priority=40",
        "gang llm pods=4 gpus=1 queue=nlp priority=50 needs zone=y",
        "gang llm pods=4 gpus=1 queue=nlp priority=50 together=dc/zone",
        "gang llm queue=nlp priority=50\npart a pods=1 gpus=2\npart b pods=1 gpus=4",
        several,
    ] {
        assert_eq!(served_in_nlp_behind(first), (4, true), "{first}");
    }
}
