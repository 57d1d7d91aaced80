//! Amounts are exact, and stop at the ends of their range.

use crate::{
    decision::Quantity,
    resources::{ResourceName, Resources},
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

#[test]
fn what_is_not_asked_for_may_be_short() {
    let room = Resources { cpu_milli: -5, ..gpus(1000) };
    assert!(gpus(1000).fits_in(&room));
    assert!(!gpus(1001).fits_in(&room));
    assert!(!Resources { cpu_milli: 1, ..gpus(1) }.fits_in(&room));
}

#[test]
fn an_extended_resource_that_nobody_offers_does_not_fit() {
    let asked = Resources { extended: [("nic".into(), 1)].into(), ..gpus(0) };
    assert!(!asked.fits_in(&gpus(1000)));
    let short: Vec<ResourceName> = asked.short_in(&gpus(1000)).resources().collect();
    assert_eq!(short, [ResourceName::Extended("nic".into())]);
}

#[test]
fn amounts_are_told_in_the_units_in_which_people_think() {
    let told = |resource, amount| Quantity { resource, amount }.to_string();
    assert_eq!(told(ResourceName::Gpu, 1500), "1.5 GPUs");
    assert_eq!(told(ResourceName::Cpu, -250), "-0.25 CPU cores");
    assert_eq!(told(ResourceName::Memory, 1_234_567_890), "1.234 GB memory");
    assert_eq!(told(ResourceName::Extended("nic".into()), 3), "3 nic");
    assert_eq!(told(ResourceName::Gpu, i64::MAX), "9223372036854775.807 GPUs");
}
