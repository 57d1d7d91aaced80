//! Divisions as text: `gpus N [k=K]`, then one line per queue; indented lines are children. Numbers
//! are GPUs.

use insta::assert_snapshot;

use super::{
    Division, DivisionInput, DivisionStep, QueueDemand, divide_resource,
    divide_resource_with_steps, fair_shares,
};
use crate::{
    model::{Queue, QueueId, Time},
    resources::{Amount, PerResource},
};

#[test]
fn spare_gpus_divide_five_to_fifteen_by_weights_one_and_three() {
    assert_snapshot!(shares("
        gpus 100
        pool-a quota=30 weight=1 limit=70 wants=100
        pool-b quota=50 weight=3 wants=100
    "), @r"
    pool-a 35
    pool-b 65
    ");
}

#[test]
fn a_limit_caps_the_loan_and_the_rest_goes_on() {
    assert_snapshot!(shares("
        gpus 100
        pool-a quota=30 weight=1 limit=32 wants=100
        pool-b quota=50 weight=3 wants=100
    "), @r"
    pool-a 32
    pool-b 68
    ");
}

#[test]
fn children_share_what_their_parent_was_given() {
    assert_snapshot!(shares("
        gpus 100
        research quota=40
          nlp weight=60 wants=100
          vision weight=40 wants=100
        data-science quota=35
          etl weight=70 wants=100
          reports weight=30 wants=100
        infra quota=25 wants=100
    "), @r"
    research 40
      nlp 24
      vision 16
    data-science 35
      etl 25
      reports 10
    infra 25
    ");
}

#[test]
fn children_with_quotas_get_them_exactly() {
    assert_snapshot!(shares("
        gpus 100
        research quota=40
          nlp quota=24 wants=100
          vision quota=16 wants=100
        infra quota=60 wants=100
    "), @r"
    research 40
      nlp 24
      vision 16
    infra 60
    ");
}

#[test]
fn a_share_never_exceeds_the_request() {
    assert_snapshot!(shares("
        gpus 10
        idle quota=8 weight=1 wants=0
        busy quota=2 weight=1 wants=6
    "), @r"
    idle 0
    busy 6
    ");
}

#[test]
fn quotas_are_met_even_above_capacity() {
    assert_snapshot!(shares("
        gpus 8
        a quota=8 wants=10
        b quota=8 wants=10
    "), @r"
    a 8
    b 8
    ");
}

#[test]
fn higher_priority_takes_the_surplus_first() {
    assert_snapshot!(shares("
        gpus 10
        low weight=5 priority=50 wants=10
        high weight=1 priority=200 wants=7
    "), @r"
    low 3
    high 7
    ");
}

#[test]
fn a_unit_that_rounding_denied_goes_to_a_lower_priority_that_can_use_it_whole() {
    assert_snapshot!(shares("
        gpus 1
        a weight=1 priority=200 wants=1
        b weight=1 priority=200 wants=1
        c weight=1 priority=100 wants=1
    "), @r"
    a 0
    b 0
    c 1
    ");
}

#[test]
fn leftover_units_go_to_the_largest_fractions() {
    assert_snapshot!(shares("
        gpus 10
        a weight=1 wants=10
        b weight=3 wants=10
        c weight=3 wants=10
    "), @r"
    a 2
    b 4
    c 4
    ");
}

#[test]
fn equal_fractions_go_to_the_older_queue() {
    assert_snapshot!(shares("
        gpus 3
        young weight=1 wants=3 created=20
        old weight=1 wants=3 created=10
    "), @r"
    young 1
    old 2
    ");
}

#[test]
fn equal_fractions_of_equal_age_go_by_name() {
    assert_snapshot!(shares("
        gpus 3
        b weight=1 wants=3
        a weight=1 wants=3
    "), @r"
    b 1
    a 2
    ");
}

#[test]
fn without_a_weight_nothing_is_borrowed() {
    assert_snapshot!(shares("
        gpus 8
        a quota=2 weight=0 wants=8
    "), @"a 2");
}

#[test]
fn a_negative_weight_is_no_credit() {
    assert_snapshot!(shares("
        gpus 8
        a weight=-1 wants=8
        b weight=1 wants=8
    "), @r"
    a 0
    b 8
    ");
}

#[test]
fn a_fraction_wanted_may_be_rounded_up_to_a_whole_unit() {
    assert_snapshot!(shares("
        gpus 1
        a weight=1 wants=0.8
        b weight=1 wants=0.8
    "), @r"
    a 1
    b 0
    ");
}

#[test]
fn an_unlimited_quota_deserves_everything() {
    assert_snapshot!(shares("
        gpus 8
        a quota=-1 wants=8
        b quota=2 weight=1 wants=8
    "), @r"
    a 8
    b 2
    ");
}

#[test]
fn past_usage_lowers_the_share_of_the_heavier_user() {
    assert_snapshot!(shares("
        gpus 100 k=1
        greedy weight=1 usage=0.5 wants=100
        patient weight=1 usage=0.1 wants=100
    "), @r"
    greedy 36
    patient 64
    ");
}

#[test]
fn a_queue_that_used_everything_gets_no_surplus_while_others_wait() {
    assert_snapshot!(shares("
        gpus 10 k=1
        greedy weight=1 usage=1 wants=10
        patient weight=1 usage=0 wants=10
    "), @r"
    greedy 0
    patient 10
    ");
}

#[test]
fn a_k_value_of_zero_ignores_past_usage() {
    assert_snapshot!(shares("
        gpus 10 k=0
        greedy weight=1 usage=1 wants=10
        patient weight=1 usage=0 wants=10
    "), @r"
    greedy 5
    patient 5
    ");
}

#[test]
fn past_usage_never_touches_quotas() {
    assert_snapshot!(shares("
        gpus 10 k=5
        greedy quota=6 weight=1 usage=1 wants=10
        patient quota=2 weight=1 usage=0 wants=10
    "), @r"
    greedy 6
    patient 4
    ");
}

#[test]
fn a_queue_idle_for_half_a_day_gets_most_of_the_other_half() {
    let (mut used, mut hourly) = ([12 * 9, 0], Vec::new());
    for _ in 0..12 {
        let usage = used.map(|hours: i64| f64::from(i32::try_from(hours).unwrap()) / 216.0);
        let text = shares(&format!(
            "gpus 9 k=1\na weight=1 usage={} wants=9\nb weight=1 usage={} wants=9",
            usage[0], usage[1]
        ));
        let now = last_words(&text);
        used = [used[0] + now[0], used[1] + now[1]];
        hourly.push(now[1]);
    }
    assert_eq!(hourly, [6; 12], "of 9 GPUs each hour");
}

#[test]
fn enormous_amounts_and_weights_neither_wrap_nor_lose_the_remainder() {
    let text = shares(
        "
        gpus 9000000000000
        a weight=4000000000000 wants=9000000000000
        b weight=4000000000000 wants=9000000000000
        c weight=1 wants=9000000000000
    ",
    );
    let sum: i64 = last_words(&text).iter().sum();
    assert_eq!(sum, 9_000_000_000_000, "{text}");
}

/// Divides `total` in steps of `unit` between queues given as `(priority, weight, wants, usage in
/// millionths)`. Returns the shares, the rest, and the steps after the quotas, which are zero.
fn divided(
    total: i64,
    unit: i64,
    queues: &[(i32, i64, i64, i64)],
) -> (Vec<i64>, i64, Vec<DivisionStep>) {
    let demand = |(at, queue): (i64, &(i32, i64, i64, i64))| QueueDemand {
        name: format!("q{at}").as_str().into(),
        priority: queue.0,
        created: Time(at),
        quota: Amount::Exactly(0),
        limit: Amount::Unlimited,
        weight_milli: queue.1,
        usage_micro: queue.3,
        request: queue.2,
    };
    let demands: Vec<QueueDemand> = (0..).zip(queues).map(demand).collect();
    let input = DivisionInput { total, unit, k_value_milli: 1000 };
    let mut steps = Some(Vec::new());
    let Division { shares, rest } = divide_resource_with_steps(input, &demands, &mut steps);
    assert_eq!(divide_resource(input, &demands).shares, shares, "with and without recorded steps");
    let behind = |step: &DivisionStep| {
        matches!(step, DivisionStep::SurplusShare { .. } | DivisionStep::Remainder { .. })
    };
    (shares, rest, steps.unwrap_or_default().into_iter().filter(behind).collect())
}

#[test]
fn every_step_of_a_division_is_recorded() {
    let part = |queue, round, input, want, given| DivisionStep::SurplusShare {
        queue,
        round,
        surplus: input,
        want,
        granted: given,
    };
    let (shares, rest, steps) = divided(10, 1, &[(1, 1, 2, 0), (1, 1, 9, 0), (0, 1, 9, 0)]);
    assert_eq!((shares, rest), (vec![2, 8, 0], 0));
    assert_eq!(
        steps,
        [part(0, 1, 10, 2, 2), part(1, 1, 10, 9, 5), part(1, 2, 3, 4, 3)],
        "in the second round all that is left"
    );
    let (shares, rest, steps) = divided(10, 1, &[(1, 1, 100, 0), (1, 2, 100, 0)]);
    assert_eq!((shares, rest), (vec![3, 7], 0));
    let remainder = |queue, given| DivisionStep::Remainder { queue, granted: given };
    let parts = [part(0, 1, 10, 100, 3), part(1, 1, 10, 100, 6)];
    assert_eq!(steps, [&parts[..], &[remainder(1, 1), remainder(0, 0)][..]].concat());
    let (shares, rest, steps) = divided(10, 1, &[(1, 1, 0, 0), (1, 1, 9, 0)]);
    assert_eq!(
        (shares, rest, steps),
        (vec![0, 9], 1, vec![part(1, 1, 10, 9, 9)]),
        "only one queue wants anything"
    );
}

#[test]
fn parts_come_in_whole_units_and_the_last_one_may_be_broken() {
    let shares = |(total, unit), queues: &[(i32, i64, i64, i64)]| {
        let (shares, rest, _) = divided(total, unit, queues);
        (shares, rest)
    };
    let two = [(1, 1, 9000, 0), (1, 1, 9000, 0)];
    assert_eq!(shares((4000, 1000), &two), (vec![2000, 2000], 0));
    assert_eq!(shares((5000, 1000), &two), (vec![3000, 2000], 0), "the older one");
    assert_eq!(shares((4500, 1000), &two), (vec![2500, 2000], 0));
    assert_eq!(shares((4500, 1), &two), (vec![2250, 2250], 0));
    assert_eq!(shares((99_000, 1000), &two), (vec![9000, 9000], 81_000));
    assert_eq!(shares((0, 1000), &two), (vec![0, 0], 0));
    assert_eq!(shares((5000, 1000), &[(1, 0, 9000, 0)]), (vec![0], 5000), "without a weight");
}

#[test]
fn coprime_weights_of_maximum_size_divide_exactly() {
    let (most, half) = (i64::MAX, i64::MAX / 2);
    let (shares, rest, _) = divided(most, 1, &[(1, most, most, 0), (1, most - 1, most, 0)]);
    assert_eq!((shares, rest), (vec![half + 1, half], 0));
}

#[test]
fn past_usage_is_weighed_against_the_part_of_the_weights() {
    let shares = |usage| divided(900, 1, &[(1, 1, 900, usage), (1, 2, 900, 0)]).0;
    // n + k (n - usage) with n of 1/3 and 2/3: 2/3 - usage and 4/3.
    assert_eq!(shares(0), [300, 600]);
    assert_eq!(shares(266_667), [208, 692], "0.4 of 1.733");
    assert_eq!(shares(666_667), [0, 900]);
    assert_eq!(shares(900_000), [0, 900]);
    let (shares, rest, _) = divided(900, 1, &[(1, 1, 900, 2_000_000)]);
    assert_eq!((shares, rest), (vec![0], 900), "a queue that used everything twice over");
}

fn shares(text: &str) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let (total, k_value_milli) = (milli(head[1]), field(&head, "k").map_or(1000, milli));
    let lines: Vec<&str> = lines.collect();
    let indents: Vec<usize> =
        lines.iter().map(|line| line.len() - line.trim_start().len()).collect();
    let outermost = indents.iter().min().copied().unwrap();
    let mut queues: Vec<Queue> = Vec::new();
    let mut requests: Vec<PerResource<i64>> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let parent = (0..at).rev().find(|above| indents[*above] < indents[at]);
        let words: Vec<&str> = line.split_whitespace().collect();
        let wants = field(&words, "wants").map_or(0, milli);
        queues.push(queue(&words, parent));
        requests.push(PerResource::default());
        let mut above = Some(at);
        while let Some(queue) = above {
            requests[queue].gpu += wants;
            above = queues[queue].parent.map(|QueueId(parent)| parent as usize);
        }
    }
    let input = PerResource { gpu: total, cpu: 0, memory: 0 };
    let shares = fair_shares(&queues, &requests, input, k_value_milli);
    let table = queues.iter().zip(shares).zip(indents).map(|((queue, share), indent)| {
        format!("{:indent$}{} {}", "", queue.name, share.gpu / 1000, indent = indent - outermost)
    });
    table.collect::<Vec<_>>().join("\n")
}

fn last_words(table: &str) -> Vec<i64> {
    table.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

fn queue(words: &[&str], parent: Option<usize>) -> Queue {
    let bound = |text: &str| match text {
        "-1" => Amount::Unlimited,
        number => Amount::Exactly(milli(number)),
    };
    let gpus_only = |gpu| PerResource { gpu, cpu: Amount::Exactly(0), memory: Amount::Exactly(0) };
    let whole = |name: &str, otherwise: i64| {
        field(words, name).map_or(otherwise, |text| text.parse().unwrap())
    };
    Queue {
        name: words[0].into(),
        parent: parent.map(|at| QueueId(u32::try_from(at).unwrap())),
        priority: i32::try_from(whole("priority", 100)).unwrap(),
        quota: gpus_only(field(words, "quota").map_or(Amount::Exactly(0), bound)),
        limit: gpus_only(field(words, "limit").map_or(Amount::Unlimited, bound)),
        over_quota_weight_milli: PerResource {
            gpu: field(words, "weight").map_or(0, milli),
            ..PerResource::default()
        },
        created: Time(whole("created", 0)),
        preempt_min_runtime: None,
        reclaim_min_runtime: None,
        historical_usage_micro: PerResource {
            gpu: field(words, "usage").map_or(0, |text| milli(text) * 1000),
            ..PerResource::default()
        },
    }
}

fn field<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

#[expect(clippy::cast_possible_truncation, reason = "small numbers written in tests")]
fn milli(text: &str) -> i64 {
    (text.parse::<f64>().unwrap() * 1000.0).round() as i64
}
