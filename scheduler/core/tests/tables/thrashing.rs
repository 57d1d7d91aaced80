//! Evictions do not repeat: after the next cycle has allocated all pending jobs in order, every
//! solution still holds. Most of these clusters once never converged.

use std::fmt::Write as _;

use schedlab_audit::Rules;
use schedlab_scheduler_core::{
    Decision, Plan, Profile,
    framework::{PodState, Session, Statement},
    inspect::{AcceptedSolutions, allocate_as_next_cycle, consolidate, preempt, reclaim},
    model::{PodGroupId, PodId, Snapshot},
};
use schedlab_testkit::{audit_plan, cycles_until_steady_of, snapshot_of};

/// The last line of the rounds: how the cluster ends.
fn end_of(cluster: &str) -> String {
    cycles_until_steady_of(cluster).lines().last().unwrap_or_default().to_owned()
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
fn pods_that_would_move_back_to_smaller_devices_do_not_move() {
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
fn pipelined_capacity_without_victims_blocks_no_other_job() {
    let rounds = cycles_until_steady_of(
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

#[test]
fn a_pipelined_job_does_not_block_an_earlier_job_of_its_queue() {
    let rounds = cycles_until_steady_of(
        "
        node n0 gpus=4
        node n1 gpus=2
        queue q0 quota=3
        queue q1 quota=2
        queue q2 quota=3 weight=2
        job r3 pods=2 min=1 gpus=1 queue=q1 on n1
        job r2 gpus=2 queue=q2 on n0
        job r1 gpus=2 queue=q2 on n0
        job r0 gpus=1 queue=q2 on n1
        job p1 gpus=3 queue=q0 priority=100
        job p2 gpus=1 queue=q2 priority=75
        job p3 gpus=2 queue=q1 priority=75
    ",
    );
    insta::assert_snapshot!(rounds, @r"
        1: r0 leaves n1 for r3 (reclaim)
        1: r3 waits for n1
        1: r1 leaves n0 for p2 (preempt)
        1: p2 waits for n0
        2: p2 runs on n1
        2: p3 runs on n0
        steady after 2
    ");
}

#[test]
fn no_pod_is_evicted_for_a_job_whose_capacity_another_queue_would_take() {
    let rounds = cycles_until_steady_of(
        "
        node n0 gpus=3
        node n1 gpus=3
        node n2 gpus=2
        queue q0 quota=-1 weight=2
        queue q1 quota=4
        job r3 pods=2 min=1 gpus=1 queue=q1 non-preemptible on n0 n0
        job r2 pods=2 min=2 gpus=1 queue=q1 on n2 n0
        job r1 gpus=2 queue=q0 on n1
        job r0 pods=2 min=2 gpus=1 queue=q0 on n2 n1
        job p1 gpus=2 queue=q1 priority=75
        job p3 gpus=3 queue=q0 priority=100
    ",
    );
    insta::assert_snapshot!(rounds, @r"
        1: r0 leaves n2, n1 for p3 (preempt)
        1: r1 leaves n1 for p3 (preempt)
        1: p3 waits for n1
        2: p3 runs on n1
        steady after 2
    ");
}

#[test]
fn no_pod_is_evicted_that_would_return_while_others_of_its_queue_start() {
    let rounds = cycles_until_steady_of(
        "
        node n1 gpus=2 label pool=y
        node n2 gpus=2 label pool=x
        node n3 gpus=9
        queue q quota=5
        queue r quota=8
        job oq gpus=2 queue=q on n3
        job or gpus=7 queue=r on n3
        job v gpus=2 queue=r needs pool=y on n1
        job c gpus=1 queue=q needs pool=x on n2
        job a gpus=2 queue=q needs pool=y
        job b gpus=2 queue=q priority=75 needs pool=x
    ",
    );
    insta::assert_snapshot!(rounds, @r"
        1: v leaves n1 for a (reclaim)
        1: a waits for n1
        2: a runs on n1
        2: c leaves n2 for b (preempt)
        2: b waits for n2
        3: b runs on n2
        steady after 3
    ");
}

/// The evictions and pipelined pods of one cycle with at most `rounds_max` rounds of searches.
fn evicted_in_rounds(rounds_max: usize, cluster: &str) -> String {
    evicted_before(allocate_as_next_cycle, rounds_max, cluster)
}

/// Like [`evicted_in_rounds`], with a custom next cycle.
fn evicted_before(next_cycle: fn(&mut Statement<'_>), rounds_max: usize, cluster: &str) -> String {
    let (snapshot, profile) = (snapshot_of(cluster), Profile::kai());
    let mut statement = Statement::new(Session::new(&snapshot, &profile));
    allocate_as_next_cycle(&mut statement);
    let mut solved = AcceptedSolutions::with_rounds(next_cycle, rounds_max);
    consolidate::run(&mut statement, &mut solved);
    reclaim::run(&mut statement, &mut solved);
    preempt::run(&mut statement, &mut solved);
    let (gpu_groups, zones) = (statement.chosen_gpu_groups(), statement.chosen_numa_allocations());
    let decisions = statement.take_decisions();
    let plan = Plan { decisions, gpu_groups, numa_allocations: zones, ..Plan::default() };
    assert_eq!(audit_plan(&snapshot, &plan, Rules::kai()), []);
    describe(&snapshot, &plan.decisions)
}

/// The evicted pods with their preemptors, and the pipelined pods.
fn describe(snapshot: &Snapshot, decisions: &[Decision]) -> String {
    let name = |group: PodGroupId| &*snapshot.pod_groups[group.0 as usize].name;
    let output = decisions.iter().filter_map(|decision| match decision {
        Decision::Evict { pod, cause } => {
            let pod = &snapshot.pods[pod.0 as usize].name;
            Some(format!("{pod} for {}", name(cause.preemptor()?)))
        }
        Decision::Pipeline { pod, .. } => {
            Some(format!("{} is pipelined", snapshot.pods[pod.0 as usize].name))
        }
        Decision::Bind { .. } => None,
    });
    output.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_job_that_conflicts_with_other_solutions_is_dropped() {
    let cluster = "
        topology t levels rack
        node n0 gpus=8 gpu-memory=81920 label rack=r0
        node n1 gpus=2 gpu-memory=40960 label rack=r0
        node n2 gpus=4 gpu-memory=81920 label rack=r1
        node n3 gpus=8 gpu-memory=40960 label rack=r1
        queue left quota=4 weight=1
        queue right quota=4 weight=2
        queue left-a parent=left quota=1 weight=0.3
        queue left-b parent=left quota=1 weight=0 limit=4
        queue right-a parent=right quota=0.5 weight=0.3
        job j00 queue=left-a priority=50 pods=4 min=3 gpus=1 on n1 n2 n2 n2
        job j01 queue=left-b priority=75 pods=2 min=1 gpus=1 together=t/rack on n1
        job j02 queue=right-a priority=50 pods=2 min=2 part-memory=10000 near app=x/kubernetes.io/hostname label app=x on n2/j02-0 n2/j02-0
        job j03 queue=left-a priority=50 pods=1 min=1 part-memory=10000 far app=x/rack label app=x on n0/j03
        job j04 queue=right-a priority=50 pods=3 min=2 part-memory=10000 on n2/j02-0 n2/j02-0 n2/j02-0
        job j05 queue=left-a priority=50 pods=4 min=2 gpus=2 on n0 n0 n3 n3
        job j06 queue=left-a priority=100 pods=4 min=3 gpus=1
        job j07 queue=right-a priority=75 pods=3 min=3 gpus=1 together=t/rack on n0 n0 n0
        job j08 queue=left-a priority=75 pods=4 min=3 gpus=1 near app=x/kubernetes.io/hostname label app=x
    ";
    for rounds in [3, 1] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(evicted_in_rounds(rounds, cluster), @r"
            j00-3 for j08
            j00-3 is pipelined
            j00-1 for j08
            j00-1 is pipelined
            j00-2 for j08
            j00-2 is pipelined
            j08-0 is pipelined
            j08-1 is pipelined
            j08-2 is pipelined
            ");
        }
    }
}

/// A next cycle that places pending pods except those whose name begins with `x` or ends with `-1`.
fn all_but_x(next: &mut Statement<'_>) {
    serve_all(next, |name| !name.starts_with('x') && !name.ends_with("-1"));
}

/// Like [`all_but_x`] once pod `late` is placed; before that, all pods are placed.
fn all_but_x_later(next: &mut Statement<'_>) {
    let has_come = |pod| &*next.pod(pod).name == "late" && next.state(pod) != PodState::Pending;
    if next.pod_ids().any(has_come) {
        all_but_x(next);
    } else {
        serve_all(next, |_| true);
    }
}

fn serve_all(next: &mut Statement<'_>, is_allowed: impl Fn(&str) -> bool) {
    let is_placed =
        |pod: &PodId| next.state(*pod) == PodState::Pending && is_allowed(&next.pod(*pod).name);
    let placed: Vec<PodId> = next.pod_ids().filter(is_placed).collect();
    for pod in placed {
        next.pipeline_all(&[pod]);
    }
}

/// The pipelined jobs before such a next cycle, if each job may reclaim a node of its own.
fn pipelined_before(next_cycle: fn(&mut Statement<'_>), names: &[&str]) -> String {
    let count = names.len();
    let mut cluster = format!("queue owner quota={count}\nqueue lender quota=0\n");
    for name in names {
        let _ = writeln!(cluster, "node n-{name} gpus=1 label pool={name}");
        let _ = writeln!(cluster, "job {name} gpus=1 queue=owner needs pool={name}");
        let _ = writeln!(cluster, "job lent-{name} gpus=1 queue=lender on n-{name}");
    }
    let output = evicted_before(next_cycle, 1, &cluster);
    let pipelined = output.lines().filter_map(|line| line.strip_suffix(" is pipelined"));
    let pipelined: Vec<&str> = pipelined.collect();
    let evicted = output.lines().filter_map(|line| line.split_once(" for "));
    let evicted: Vec<&str> = evicted.map(|(_, job)| job).collect();
    assert_eq!(evicted, pipelined, "{output}");
    pipelined.join(" ")
}

#[test]
fn each_of_several_conflicting_jobs_is_dropped() {
    let names = ["a", "x1", "x2", "b", "x3", "c"];
    assert_eq!(pipelined_before(all_but_x, &names), "a b c");
    assert_eq!(pipelined_before(allocate_as_next_cycle, &names), names.join(" "));
}

#[test]
fn a_gang_that_would_be_placed_in_part_is_dropped() {
    let cluster = "
        node n gpus=2
        queue owner quota=2
        queue lender quota=0
        gang g pods=2 gpus=1 queue=owner
        job lent1 gpus=1 queue=lender on n
        job lent2 gpus=1 queue=lender on n
    ";
    assert_eq!(evicted_before(all_but_x, 1, cluster), "");
    assert_eq!(evicted_before(allocate_as_next_cycle, 1, cluster).lines().count(), 4);
}

#[test]
fn an_earlier_solution_that_no_longer_holds_does_not_block_later_ones() {
    let (snapshot, profile) = (
        snapshot_of(
            "
            node n1 gpus=1 label pool=x
            node n2 gpus=1 label pool=low
            node n3 gpus=1 label pool=late
            queue owner quota=2
            queue lender quota=0
            queue third quota=1
            job x gpus=1 queue=owner needs pool=x
            job z gpus=1 queue=lender needs pool=x on n1
            job late gpus=1 queue=lender needs pool=late
            job a gpus=1 queue=third priority=75 needs pool=low
            job low gpus=1 queue=third priority=50 needs pool=low on n2
        ",
        ),
        Profile::kai(),
    );
    let mut statement = Statement::new(Session::new(&snapshot, &profile));
    let late = statement.pod_ids().find(|pod| &*statement.pod(*pod).name == "late");
    let mut solved = AcceptedSolutions::with_rounds(all_but_x_later, 3);
    reclaim::run(&mut statement, &mut solved);
    let n3 = statement.node_ids().last();
    statement.allocate(late.expect("the table has it"), n3.expect("the table has it"));
    preempt::run(&mut statement, &mut solved);
    let output = describe(&snapshot, &statement.take_decisions());
    assert_eq!(output, "z for x\nx is pipelined\nlow for a\na is pipelined");
}

#[test]
fn after_eight_dropped_jobs_all_later_jobs_are_dropped() {
    let names =
        ["a", "x0", "x1", "b", "x2", "x3", "x4", "x5", "c", "x6", "x7", "d", "x8", "e", "f"];
    assert_eq!(pipelined_before(all_but_x, &names), "a b c d");
    let eight: Vec<&str> = names.into_iter().filter(|name| *name != "x8").collect();
    assert_eq!(pipelined_before(all_but_x, &eight), "a b c d e f");
}

#[test]
fn a_job_that_lost_pods_in_a_cycle_evicts_none_in_that_cycle() {
    let cluster = |of_a: &str| {
        format!(
            "
            node x gpus=2 label pool=x
            node y gpus=1
            queue a {of_a}
            queue b quota=0
            job w gpus=1 queue=a needs pool=x
            job e pods=3 min=1 gpus=1 priority=60 queue=b on x x
            job low gpus=1 priority=50 queue=b on y
        "
        )
    };
    let output = evicted_in_rounds(3, &cluster("quota=1"));
    assert_eq!(output, "e-1 for w\nw is pipelined");
    let output = evicted_in_rounds(3, &cluster("quota=0 limit=0"));
    assert_eq!(output, "low for e\ne-2 is pipelined");
}

#[test]
fn no_pod_is_moved_that_the_next_cycle_would_not_place() {
    let cluster = "
        node n1 gpus=2
        node n2 gpus=2
        queue q quota=4
        job k gpus=1 queue=q on n1
        job xm gpus=1 queue=q on n2
        job a gpus=2 queue=q
    ";
    assert_eq!(evicted_before(all_but_x, 1, cluster), "");
    let output = evicted_before(allocate_as_next_cycle, 1, cluster);
    assert_eq!(output, "xm for a\nxm is pipelined\na is pipelined");
}

#[test]
fn a_move_is_kept_though_it_serves_another_job_than_intended() {
    let cluster = |other: &str| {
        format!(
            "
            node n1 gpus=2
            node n2 gpus=2
            queue q quota=4
            job k gpus=1 queue=q on n1
            job m gpus=1 queue=q on n2
            job x gpus=2 queue=q
            {other}
        "
        )
    };
    let output = evicted_before(all_but_x, 1, &cluster("job other gpus=2 queue=q"));
    assert_eq!(output, "m for x\nm is pipelined\nx is pipelined");
    assert_eq!(evicted_before(all_but_x, 1, &cluster("")), "");
}

/// A next cycle in which victims come before jobs that were pending longer.
fn victims_first(next: &mut Statement<'_>) {
    serve_all(next, |_| true);
}

#[test]
fn no_pod_is_evicted_that_would_take_what_its_queue_was_pipelined_earlier() {
    let cluster = "
        node n1 gpus=2
        node n2 gpus=2
        node n3 gpus=2 label pool=p
        queue v quota=4
        queue p quota=2
        job owner gpus=2 queue=p needs pool=p
        job k gpus=1 queue=v on n1
        job m gpus=1 queue=v on n2
        job x gpus=2 queue=v
        job victim gpus=2 queue=v on n3
    ";
    let moved = "m for x\nm is pipelined\nx is pipelined";
    assert_eq!(evicted_before(victims_first, 3, cluster), moved);
    let output = evicted_before(allocate_as_next_cycle, 3, cluster);
    assert_eq!(output, format!("{moved}\nvictim for owner\nowner is pipelined"));
}
