//! The order of jobs over the queue tree, and which victims are acceptable, as text. Queues:
//! `name [parent=] quota= fair= used=` in GPUs, `cpu-quota=` and so on in cores; jobs: `job queue priority gpus`.

use insta::assert_snapshot;

use super::{
    Account, Bill, Direction, JobKey, JobLine, Ledger, Offer, Race, Shortfall, Waiting,
    reclaim::{Reclaimer, Victims},
};
use crate::{
    model::{PodGroupId, QueueId, Time},
    profile::JobRule,
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
fn who_stays_inside_its_quota_goes_before_who_does_not() {
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
fn priority_of_queues_decides_between_those_inside_their_quota() {
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
fn a_queue_that_may_have_none_of_it_comes_last() {
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
fn inside_a_queue_priority_then_need_then_age() {
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
fn queues_alike_in_everything_go_by_age_then_name() {
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
fn osmo_one_pool_a_gives_back_what_pool_b_is_guaranteed() {
    let queues = "
        a quota=30 fair=35 used=70 fixed=30
        b quota=50 fair=65 used=30 fixed=30
    ";
    assert!(accepts(queues, "b", (4, false), &[("a", &[1, 1, 1, 1])]));
}

#[test]
fn osmo_two_a_preemptible_job_beyond_its_share_waits() {
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
    assert!(accepts(queues, "b", (2, true), &[("a", &[1, 1])]));
    assert!(!accepts(queues, "b", (3, true), &[("a", &[1, 1, 1])]));
}

#[test]
fn the_last_gang_may_push_its_queue_below_its_fair_share() {
    let queues = "
        a quota=0 fair=4 used=6
        b quota=0 fair=4 used=0
    ";
    assert!(accepts(queues, "b", (2, true), &[("a", &[6])]));
}

#[test]
fn a_guarantee_is_taken_back_from_who_is_over_quota_though_inside_its_share() {
    let queues = "
        a quota=2 fair=5 used=4
        b quota=4 fair=4 used=2
    ";
    assert!(accepts(queues, "b", (2, true), &[("a", &[1, 1])]));
}

#[test]
fn a_guarantee_is_not_taken_from_who_is_over_quota_only_in_what_nobody_asks_for() {
    let theirs = "a quota=4 fair=4 cpu-quota=1 cpu-used=5";
    let accepts = |used| {
        let queues = format!("{theirs} used={used}\nb quota=4 fair=4 used=0");
        accepts(&queues, "b", (2, true), &[("a", &[1, 1])])
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
    assert!(!accepts(queues, "team", (1, true), &[("other", &[1])]));
    assert!(accepts(queues, "team", (1, true), &[("idle", &[1])]));
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
        accepts(&queues, "team", (1, true), &[("other", &[1])])
    };
    assert_eq!([5, 6, 7].map(accepts), [false, false, true]);
}

/// So much of one of the three, and nothing of the others.
fn only(at: usize, amount: i64) -> PerResource<i64> {
    let mut of = [0; 3];
    of[at] = amount;
    PerResource { gpu: of[0], cpu: of[1], memory: of[2] }
}

#[test]
fn who_is_further_beyond_its_share_counts_in_all_that_is_asked_for_or_taken_and_in_no_more() {
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
            let ledger = Ledger::of(accounts, PerResource { gpu: 9, cpu: 9, memory: 9 });
            let reclaimer = Reclaimer { queue: mine, preemptible: true, request: only(at, 1) };
            reclaimer.may_take(&ledger, &[(theirs, vec![taken])].into(), 1000)
        };
        assert!(!accepts(6, only(at, 1)), "five of four is no less than five of four: {at}");
        assert!(accepts(7, only(at, 1)), "eight of four of what nobody asks for: {at}");
        assert!(!accepts(7, only(at, 1).plus(only(other, 1))), "but that is taken: {at}");
    }
}

#[test]
fn equal_leftovers_are_not_traded_back_and_forth() {
    let queues = "
        q1 quota=3 fair=3 used=4
        q2 quota=5 fair=5 used=4
    ";
    assert!(!may_start(queues, "q2", 4, true), "four more would be eight of five");
    assert!(!may_start("q1 quota=5 fair=5 used=5\nq2 quota=5 fair=5 used=5", "q1", 1, true));
}

fn order(queues: &str, jobs: &str) -> String {
    let (names, mut ledger) = read_queues(queues);
    let jobs: Vec<Vec<&str>> = rows(jobs);
    let waiting = jobs.iter().zip(0..).map(|(words, at)| {
        let shortfall = match words.last() {
            Some(&"above") => Shortfall::AboveMinimum,
            Some(&"at") => Shortfall::AtMinimum,
            Some(_) | None => Shortfall::BelowMinimum,
        };
        let priority = i32::try_from(number(words, "priority").unwrap_or(50)).unwrap();
        Waiting {
            queue: id(&names, field(words, "queue").unwrap()),
            key: JobKey::new(&JobRule::ALL, priority, shortfall, at, PodGroupId(at)),
            request: gpus(number(words, "gpus").unwrap_or(1)),
        }
    });
    let mut line = JobLine::new(&ledger, waiting);
    let mut served = Vec::new();
    while let Some(job) = line.pop(&ledger) {
        ledger.charge(job.queue, &Bill::from(job.request), true);
        line.accounts_changed(&ledger, job.queue);
        served.push(jobs[job.key.group().0 as usize][0]);
    }
    served.join(" ")
}

#[test]
fn a_queue_that_was_alone_in_line_takes_its_place_when_another_joins() {
    let (names, ledger) = read_queues("a quota=4 fair=4 used=3\n b quota=4 fair=4 used=1");
    let (a, b) = (id(&names, "a"), id(&names, "b"));
    let offer = Some(Offer { job: gpus(1), ..Offer::default() });
    let mut race = Race::new(&ledger, Direction::ToServe);
    let turns = [(a, offer), (b, offer), (a, offer), (b, None), (a, None)].map(|(queue, offer)| {
        race.update(&ledger, queue, offer);
        race.best()
    });
    assert_eq!(turns, [Some(a), Some(b), Some(b), Some(a), None]);
}

fn may_start(queues: &str, queue: &str, asks: i64, preemptible: bool) -> bool {
    let (names, ledger) = read_queues(queues);
    let queue = id(&names, queue);
    Reclaimer { queue, preemptible, request: gpus(asks) }.may_start(&ledger)
}

/// May `queue` start, and is this set of victims acceptable?
fn accepts(
    queues: &str,
    queue: &str,
    (asks, preemptible): (i64, bool),
    victims: &[(&str, &[i64])],
) -> bool {
    let (names, ledger) = read_queues(queues);
    let reclaimer = Reclaimer { queue: id(&names, queue), preemptible, request: gpus(asks) };
    let victims: Victims = victims
        .iter()
        .map(|(queue, taken)| (id(&names, queue), taken.iter().map(|of| gpus(*of)).collect()))
        .collect();
    victims.keys().all(|victim| reclaimer.may_take_from(&ledger, *victim))
        && reclaimer.may_take(&ledger, &victims, 1000)
}

fn read_queues(text: &str) -> (Vec<String>, Ledger) {
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
    let ledger = Ledger::of(accounts.collect(), gpus(100));
    (names, ledger)
}

fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
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
