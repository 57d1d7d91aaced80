//! The order of jobs over the queue tree, and which victims are acceptable, as text. Queues: `name
//! [parent=] quota= fair= used=` in GPUs, `cpu-quota=` and so on in cores; jobs: `job queue
//! priority gpus`.

use insta::assert_snapshot;

use super::{
    Account, Charge, JobKey, JobsByQueue, MinimumStatus, OrderPurpose, QueueAccounts,
    QueueCandidate, QueueOrder, QueuedJob,
    reclaim::{Reclaimer, Victims},
};
use crate::{
    model::{PodGroupId, QueueId, Time},
    profile::JobOrderRule,
    resources::{Amount, PerResource},
};

#[test]
fn the_queue_with_the_smaller_share_is_served_first() {
    assert_snapshot!(order("
        a quota=8 fair=8 used=4
        b quota=8 fair=8 used=2
    ", "
        a1 queue=a
        b1 queue=b
        b2 queue=b
        b3 queue=b
        b4 queue=b
    "), @"b1 b2 a1 b3 b4");
}

#[test]
fn a_queue_within_its_quota_goes_before_one_over_it() {
    assert_snapshot!(order("
        a quota=1 fair=8 used=1
        b quota=8 fair=8 used=6
    ", "
        a1 queue=a
        b1 queue=b
        b2 queue=b
        b3 queue=b
    "), @"b1 b2 a1 b3");
}

#[test]
fn queue_priority_decides_between_queues_within_quota() {
    assert_snapshot!(order("
        low quota=8 fair=8 used=0 priority=1
        top quota=8 fair=8 used=7 priority=9
    ", "
        l1 queue=low
        t1 queue=top
        t2 queue=top
    "), @"t1 l1 t2");
}

#[test]
fn a_queue_with_share_zero_comes_last() {
    assert_snapshot!(order("
        none quota=0 fair=0 used=0
        some quota=0 fair=4 used=3
    ", "
        n1 queue=none
        s1 queue=some
        s2 queue=some
    "), @"s1 s2 n1");
}

#[test]
fn departments_are_compared_before_their_teams() {
    assert_snapshot!(order("
        full quota=4 fair=4 used=4
        half quota=4 fair=4 used=2
        full-team parent=full quota=4 fair=4 used=0
        half-team parent=half quota=2 fair=2 used=2
    ", "
        f1 queue=full-team
        h1 queue=half-team
        h2 queue=half-team
        h3 queue=half-team
    "), @"h1 h2 f1 h3");
}

#[test]
fn jobs_of_a_queue_are_ordered_by_priority_then_minimum_then_age() {
    assert_snapshot!(order("
        q quota=8 fair=8 used=0
    ", "
        old queue=q priority=50
        young queue=q priority=50
        elastic queue=q priority=50 above
        running queue=q priority=50 at
        urgent queue=q priority=75
    "), @"urgent old young running elastic");
}

#[test]
fn equal_queues_are_ordered_by_age_then_name() {
    assert_snapshot!(order("
        a quota=2 fair=2 used=0 created=5
        b quota=2 fair=2 used=0 created=5
        c quota=2 fair=2 used=0 created=1
    ", "
        a1 queue=a
        b1 queue=b
        c1 queue=c
    "), @"c1 a1 b1");
}

#[test]
fn a_reclaimer_starts_only_inside_its_fair_share() {
    let queues = "a quota=0 fair=4 used=3";
    assert!(may_start(queues, "a", 1, true));
    assert!(!may_start(queues, "a", 2, true));
}

#[test]
fn a_non_preemptible_reclaimer_starts_only_inside_its_quota() {
    let queues = "a quota=2 fair=8 used=1 fixed=1";
    assert!(may_start(queues, "a", 1, false));
    assert!(!may_start(queues, "a", 2, false));
    assert!(may_start(queues, "a", 2, true));
}

#[test]
fn osmo_example_one_pool_b_reclaims_its_guarantee_from_pool_a() {
    let queues = "
        a quota=30 fair=35 used=70 fixed=30
        b quota=50 fair=65 used=30 fixed=30
    ";
    assert!(accepts(queues, "b", 4, false, &[("a", &[1, 1, 1, 1])]));
}

#[test]
fn osmo_example_two_a_preemptible_job_over_its_fair_share_waits() {
    let queues = "
        a quota=30 fair=35 used=65 fixed=25
        b quota=50 fair=65 used=35 fixed=35
    ";
    assert!(!may_start(queues, "a", 5, true));
}

#[test]
fn victims_stop_where_their_queue_is_down_to_its_fair_share() {
    let queues = "
        a quota=0 fair=4 used=6
        b quota=0 fair=4 used=0
    ";
    assert!(accepts(queues, "b", 2, true, &[("a", &[1, 1])]));
    assert!(!accepts(queues, "b", 3, true, &[("a", &[1, 1, 1])]));
}

#[test]
fn the_last_gang_may_push_its_queue_below_its_fair_share() {
    let queues = "
        a quota=0 fair=4 used=6
        b quota=0 fair=4 used=0
    ";
    assert!(accepts(queues, "b", 2, true, &[("a", &[6])]));
}

#[test]
fn a_guarantee_is_reclaimed_from_a_queue_over_quota_but_within_its_fair_share() {
    let queues = "
        a quota=2 fair=5 used=4
        b quota=4 fair=4 used=2
    ";
    assert!(accepts(queues, "b", 2, true, &[("a", &[1, 1])]));
}

#[test]
fn a_guarantee_is_not_reclaimed_from_a_queue_over_quota_only_in_unrequested_resources() {
    let theirs = "a quota=4 fair=4 cpu-quota=1 cpu-used=5";
    let accepts = |used| {
        let queues = format!("{theirs} used={used}\nb quota=4 fair=4 used=0");
        accepts(&queues, "b", 2, true, &[("a", &[1, 1])])
    };
    assert_eq!([2, 3, 4, 6].map(accepts), [false, false, true, true]);
}

#[test]
fn departments_protect_what_their_teams_borrow_inside_them() {
    let queues = "
        mine quota=4 fair=4 used=4
        theirs quota=4 fair=4 used=4
        team parent=mine quota=4 fair=4 used=0
        idle parent=mine quota=0 fair=0 used=4
        other parent=theirs quota=0 fair=0 used=4
    ";
    assert!(!accepts(queues, "team", 1, true, &[("other", &[1])]));
    assert!(accepts(queues, "team", 1, true, &[("idle", &[1])]));
}

#[test]
fn a_department_beyond_its_share_takes_only_from_one_further_beyond() {
    let accepts = |used| {
        let queues = format!(
            "mine quota=0 fair=4 used=4
            theirs quota=0 fair=4 used={used}
            team parent=mine quota=0 fair=4 used=0
            busy parent=mine quota=0 fair=4 used=4
            other parent=theirs quota=0 fair=4 used={used}"
        );
        accepts(&queues, "team", 1, true, &[("other", &[1])])
    };
    assert_eq!([5, 6, 7].map(accepts), [false, false, true]);
}

/// `amount` of one of the three resources, nothing of the others.
fn only(at: usize, amount: i64) -> PerResource<i64> {
    let mut of = [0; 3];
    of[at] = amount;
    PerResource { gpu: of[0], cpu: of[1], memory: of[2] }
}

#[test]
fn saturation_is_compared_only_in_requested_or_reclaimed_resources() {
    let account = |allocated| Account {
        parent: None,
        priority: 100,
        created: Time(0),
        quota: PerResource::default().map(|zero: i64| Amount::Exactly(zero)),
        limit: PerResource::default().map(|_: i64| Amount::Unlimited),
        fair_share: PerResource { gpu: 4, cpu: 4, memory: 4 },
        allocated,
        allocated_non_preemptible: PerResource::default(),
        requested: PerResource::default(),
    };
    let (mine, theirs) = (QueueId(0), QueueId(1));
    for at in 0..3 {
        let other = (at + 1) % 3;
        let accepts = |their_use, taken: PerResource<i64>| {
            let my_use = only(at, 4).plus(only(other, 8));
            let accounts = vec![account(my_use), account(only(at, their_use).plus(only(other, 2)))];
            let ledger =
                QueueAccounts::from_accounts(accounts, PerResource { gpu: 9, cpu: 9, memory: 9 });
            let reclaimer = Reclaimer { queue: mine, preemptible: true, request: only(at, 1) };
            reclaimer.may_reclaim_all(&ledger, &[(theirs, vec![taken])].into(), 1000)
        };
        assert!(!accepts(6, only(at, 1)), "the victim would not be further over: {at}");
        assert!(accepts(7, only(at, 1)), "eight of four of an unrequested resource: {at}");
        assert!(!accepts(7, only(at, 1).plus(only(other, 1))), "but it is reclaimed as well: {at}");
    }
}

#[test]
fn equal_surplus_is_not_reclaimed_back_and_forth() {
    let queues = "
        q1 quota=3 fair=3 used=4
        q2 quota=5 fair=5 used=4
    ";
    assert!(!may_start(queues, "q2", 4, true), "four more would be eight of five");
    assert!(!may_start("q1 quota=5 fair=5 used=5\nq2 quota=5 fair=5 used=5", "q1", 1, true));
}

fn order(queues: &str, jobs: &str) -> String {
    let (names, mut accounts) = read_queues(queues);
    let jobs: Vec<Vec<&str>> = rows(jobs);
    let waiting = jobs.iter().zip(0..).map(|(words, at)| {
        let minimum_status = match words.last() {
            Some(&"above") => MinimumStatus::AboveMinimum,
            Some(&"at") => MinimumStatus::AtMinimum,
            Some(_) | None => MinimumStatus::BelowMinimum,
        };
        let priority = i32::try_from(number(words, "priority").unwrap_or(50)).unwrap();
        QueuedJob {
            queue: id(&names, field(words, "queue").unwrap()),
            key: JobKey::new(&JobOrderRule::ALL, priority, minimum_status, at, PodGroupId(at)),
            request: gpus(number(words, "gpus").unwrap_or(1)),
        }
    });
    let mut queue = JobsByQueue::new(&accounts, waiting);
    let mut served = Vec::new();
    while let Some(job) = queue.pop_next_job(&accounts) {
        accounts.charge_queue(job.queue, &Charge::from(job.request), true);
        queue.on_accounts_changed(&accounts, job.queue);
        served.push(jobs[job.key.group().0 as usize][0]);
    }
    served.join(" ")
}

#[test]
fn a_single_queue_is_ordered_once_a_sibling_joins() {
    let (names, accounts) = read_queues("a quota=4 fair=4 used=3\n b quota=4 fair=4 used=1");
    let (a, b) = (id(&names, "a"), id(&names, "b"));
    let candidate = Some(QueueCandidate { job: gpus(1), ..QueueCandidate::default() });
    let mut order = QueueOrder::new(&accounts, OrderPurpose::Allocate);
    let turns = [(a, candidate), (b, candidate), (a, candidate), (b, None), (a, None)].map(
        |(queue, candidate)| {
            order.set_candidate(&accounts, queue, candidate);
            order.best_queue()
        },
    );
    assert_eq!(turns, [Some(a), Some(b), Some(b), Some(a), None]);
}

fn may_start(queues: &str, queue: &str, asks: i64, preemptible: bool) -> bool {
    let (names, accounts) = read_queues(queues);
    let queue = id(&names, queue);
    Reclaimer { queue, preemptible, request: gpus(asks) }.may_reclaim(&accounts)
}

/// Whether `queue` may start, and whether this set of victims is acceptable.
fn accepts(
    queues: &str,
    queue: &str,
    requested: i64,
    preemptible: bool,
    victims: &[(&str, &[i64])],
) -> bool {
    let (names, accounts) = read_queues(queues);
    let reclaimer = Reclaimer { queue: id(&names, queue), preemptible, request: gpus(requested) };
    let victims: Victims = victims
        .iter()
        .map(|(queue, taken)| (id(&names, queue), taken.iter().map(|of| gpus(*of)).collect()))
        .collect();
    victims.keys().all(|victim| reclaimer.may_reclaim_from(&accounts, *victim))
        && reclaimer.may_reclaim_all(&accounts, &victims, 1000)
}

fn read_queues(text: &str) -> (Vec<String>, QueueAccounts) {
    let lines = rows(text);
    let names: Vec<String> = lines.iter().map(|words| words[0].to_owned()).collect();
    let accounts = lines.iter().map(|words| {
        let at_most = |field: &str, unit| {
            number(words, field).map_or(Amount::Unlimited, |of| Amount::Exactly(of * unit))
        };
        let bound = |field: &str| PerResource {
            gpu: at_most(field, 1000),
            cpu: at_most(&format!("cpu-{field}"), 1000),
            memory: Amount::Unlimited,
        };
        let used = |field| PerResource {
            cpu: number(words, &format!("cpu-{field}")).unwrap_or(0) * 1000,
            ..gpus(number(words, field).unwrap_or(0))
        };
        Account {
            parent: field(words, "parent").map(|parent| id(&names, parent)),
            priority: i32::try_from(number(words, "priority").unwrap_or(100)).unwrap(),
            created: Time(number(words, "created").unwrap_or(0)),
            quota: bound("quota"),
            limit: bound("limit"),
            fair_share: used("fair"),
            allocated: used("used"),
            allocated_non_preemptible: used("fixed"),
            requested: PerResource::default(),
        }
    });
    let ledger = QueueAccounts::from_accounts(accounts.collect(), gpus(100));
    (names, ledger)
}

fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().map(|queue| queue.split_whitespace().collect::<Vec<_>>());
    lines.filter(|words| !words.is_empty()).collect()
}

fn id(names: &[String], name: &str) -> QueueId {
    QueueId(u32::try_from(names.iter().position(|other| other == name).unwrap()).unwrap())
}

fn gpus(count: i64) -> PerResource<i64> {
    PerResource { gpu: count * 1000, cpu: 0, memory: 0 }
}

fn number(words: &[&str], name: &str) -> Option<i64> {
    field(words, name).map(|text| text.parse().unwrap())
}

fn field<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}
