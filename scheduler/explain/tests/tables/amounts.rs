//! Amounts are exact, and saturate at the ends of their range.

use insta::assert_snapshot;

use crate::texts::suggestions_of;
use schedlab_scheduler_core::{
    reason::Quantity,
    resources::{Amount, PerResource, ResourceName, Resources},
};

fn gpus(gpu_milli: i64) -> Resources {
    Resources { gpu_milli, ..Resources::default() }
}

#[test]
fn sums_and_differences_stop_at_the_ends_of_the_range() {
    let mut most = gpus(i64::MAX);
    most.add(&gpus(1));
    assert_eq!(most, gpus(i64::MAX));
    let mut least = gpus(i64::MIN);
    least.subtract(&gpus(1));
    assert_eq!(least, gpus(i64::MIN));
}

/// Resources from `[gpu, cpu, memory, pods]` and a number of NICs.
fn of([gpu_milli, cpu_milli, memory_bytes, pods]: [i64; 4], nics: i64) -> Resources {
    let extended = [("nic".into(), nics)].into();
    Resources { gpu_milli, cpu_milli, memory_bytes, pods, extended }
}

#[test]
fn every_resource_counts_by_itself() {
    let (some, more) = (of([1, 2, 3, 4], 5), of([10, 30, 20, 2], 3));
    assert_eq!(some.plus(&more), of([11, 32, 23, 6], 8));
    assert_eq!(some.times(3), of([3, 6, 9, 12], 15));
    assert_eq!(some.elementwise_min(&more), of([1, 2, 3, 2], 3));
    let mut rest = more;
    rest.subtract(&some);
    assert_eq!(rest, of([9, 28, 17, -2], -2));
    assert_eq!(rest.at_least_zero(), Resources { extended: [].into(), ..of([9, 28, 17, 0], 0) });
    let there: Vec<i64> = rest.positive_amounts().map(|(_, amount)| amount).collect();
    assert_eq!(there, [9, 28, 17]);
}

#[test]
fn a_resource_that_one_operand_lacks_counts_as_zero() {
    let nics = |count| of([0; 4], count);
    let none = Resources::default();
    assert_eq!(none.plus(&nics(2)), nics(2));
    assert_eq!(nics(2).elementwise_min(&none), nics(0));
    assert_eq!(none.elementwise_min(&nics(2)), nics(0));
    assert_eq!(none.elementwise_min(&nics(-2)), nics(-2));
    let mut debt = none;
    debt.subtract(&nics(2));
    assert_eq!(debt, nics(-2));
}

#[test]
fn every_requested_and_short_resource_is_reported() {
    let room = of([10; 4], 10);
    let names = [
        ResourceName::Gpu,
        ResourceName::Cpu,
        ResourceName::Memory,
        ResourceName::Pods,
        ResourceName::Extended("nic".into()),
    ];
    for (at, name) in names.iter().enumerate() {
        let requesting = |amount: i64| {
            let mut fixed = [0; 4];
            let nics = if at == 4 { amount } else { 0 };
            if let Some(one) = fixed.get_mut(at) {
                *one = amount;
            }
            of(fixed, nics)
        };
        let (fits, short) = (requesting(10), requesting(11));
        assert!(fits.fits_in(&room) && fits.shortage_in(&room).is_empty(), "{name:?}");
        assert!(!short.fits_in(&room), "{name:?}");
        let output: Vec<ResourceName> = short.shortage_in(&room).short_resources().collect();
        assert_eq!(output, std::slice::from_ref(name));
        assert_eq!(short.amount_of(name), 11);
        let indebted = of([-1; 4], -1);
        assert!(
            requesting(0).fits_in(&indebted) && requesting(0).shortage_in(&indebted).is_empty()
        );
    }
}

#[test]
fn queue_accounts_are_summed_and_bounded_by_resource() {
    let (some, more) = (
        PerResource { gpu: 1, cpu: 2, memory: 3 },
        PerResource { gpu: 10, cpu: i64::MAX, memory: 30 },
    );
    assert_eq!(some.plus(more), PerResource { gpu: 11, cpu: i64::MAX, memory: 33 });
    assert_eq!(some.minus(more), PerResource { gpu: -9, cpu: 2 - i64::MAX, memory: -27 });
    assert_eq!(some.minus(more).at_least_zero(), PerResource::default());
    assert_eq!(some.at_least_zero(), some);
    let bounds = some.map(Amount::Exactly);
    assert!(some.is_within(bounds));
    for over in [
        PerResource { gpu: 2, ..some },
        PerResource { cpu: 3, ..some },
        PerResource { memory: 4, ..some },
    ] {
        assert!(!over.is_within(bounds), "{over:?}");
    }
    assert!(more.is_within(more.map(|_| Amount::Unlimited)));
    assert_eq!((Amount::Exactly(3).limit_or(7), Amount::Unlimited.limit_or(7)), (3, 7));
}

#[test]
fn a_resource_that_is_not_requested_may_be_short() {
    let room = Resources { cpu_milli: -5, ..gpus(1000) };
    assert!(gpus(1000).fits_in(&room));
    assert!(!gpus(1001).fits_in(&room));
    assert!(!Resources { cpu_milli: 1, ..gpus(1) }.fits_in(&room));
}

#[test]
fn an_extended_resource_that_no_node_offers_does_not_fit() {
    let requested = Resources { extended: [("nic".into(), 1)].into(), ..gpus(0) };
    assert!(!requested.fits_in(&gpus(1000)));
    let short: Vec<ResourceName> = requested.shortage_in(&gpus(1000)).short_resources().collect();
    assert_eq!(short, [ResourceName::Extended("nic".into())]);
}

#[test]
fn amounts_are_printed_in_human_units() {
    let output = |resource, amount| Quantity { resource, amount }.to_string();
    assert_eq!(output(ResourceName::Gpu, 1500), "1.5 GPUs");
    assert_eq!(output(ResourceName::Cpu, -250), "-0.25 CPU cores");
    assert_eq!(output(ResourceName::Memory, 1_234_567_890), "1.234 GB memory");
    assert_eq!(output(ResourceName::Extended("nic".into()), 3), "3 nic");
    assert_eq!(output(ResourceName::Pods, -2), "-2 pods");
    assert_eq!(output(ResourceName::Gpu, 0), "0 GPUs");
    assert_eq!(output(ResourceName::Memory, 999_999), "0 GB memory");
    let named = |resource| Quantity { resource, amount: 1 }.resource_name().to_owned();
    assert_eq!(named(ResourceName::Memory), "memory");
    assert_eq!(named(ResourceName::Cpu), "CPU cores");
    assert_eq!(output(ResourceName::Gpu, i64::MAX), "9223372036854775.807 GPUs");
}

#[test]
fn suggested_increases_are_rounded_up() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 memory=8Gi
        queue q memory-limit=1G
        job a memory=1Gi queue=q
    ", "a"), @r"
    OverLimit
    raise the limit of queue q by 0.074 GB memory to 1.074 GB memory
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 memory=1000Mi
        job a pods=2 min=2 memory=700Mi
    ", "a"), @r"
    PodSchedulingErrors
    add nodes for 1 more of its pods, 0.735 GB memory in total, or lower its minimum
      then it runs on (new node) (Now)
    ");
}
