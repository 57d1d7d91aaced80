//! Tables of claims and devices of one node.

use insta::assert_snapshot;
use schedlab_testkit::snapshot_of;

use super::*;
use crate::model::{
    AttributeConstraint, AttributeRule, ClaimAlternative, DeviceAmounts, DeviceCount,
    DeviceProperties,
};

/// The devices of each claim. `node` lists devices, `claims` are the claims of a pod.
fn allocated(node: &str, claims: &str) -> String {
    let snapshot = snapshot_of(&format!("node n1 {node}\njob a {claims}"));
    let devices = &snapshot.nodes[0].devices;
    let free = AvailableDevices::of_nodes(&[(&snapshot.nodes[0]).into()], |_, _| true).0;
    let claims = &snapshot.shapes[0].claims;
    let requests: Vec<PlacedClaim<'_>> =
        claims.iter().filter_map(|claim| Some(claim.requests.as_deref()?.into())).collect();
    let device = |one: &AllocatedDevice<'_>| format!(" {}", devices[one.device].name);
    match allocate_claims(&requests, &free) {
        Err(failure) => format!("{failure:?}"),
        Ok(allocated) => {
            let of_claim = claims.iter().zip(allocated).map(|(claim, its)| {
                format!("{}:{}", claim.name, its.iter().map(device).collect::<String>())
            });
            of_claim.collect::<Vec<_>>().join(", ")
        }
    }
}

#[test]
fn a_claim_gives_up_its_first_alternative_for_a_claim_that_has_no_other() {
    let node = "device d0:any,big device d1:any";
    assert_snapshot!(allocated(node, "select easy=big|any select picky=big"), @"easy: d1, picky: d0");
    assert_snapshot!(allocated(node, "select picky=big select easy=big|any"), @"picky: d0, easy: d1");
    assert_snapshot!(allocated(node, "select easy=big|any"), @"easy: d0");
    assert_snapshot!(allocated(node, "select a=big select b=big"), @"Impossible");
    assert_snapshot!(allocated("device d0:any,big!x device d1:any", "select easy=big|any"), @"easy: d1");
}

#[test]
fn alternatives_are_given_up_only_as_far_as_necessary() {
    let node = "device d0:a,b device d1:b,c device d2:c";
    assert_snapshot!(allocated(node, "select x=a|b select y=b|c select z=c"), @"x: d0, y: d1, z: d2");
    assert_snapshot!(allocated(node, "select x=b|c select y=a select z=c|b"), @"x: d1, y: d0, z: d2");
    assert_snapshot!(allocated(node, "select x=b*2|c select y=c*2|b select z=c"), @"x: d2, y: d0, z: d1");
}

#[test]
fn devices_of_a_constraint_share_its_attribute() {
    let node = "device d0:g@zone=a device d1:g@zone=b device d2:g@zone=a device d3:g@zone=b device d4:g@zone=b";
    assert_snapshot!(allocated(node, "select x=g*2~zone"), @"x: d0 d2");
    assert_snapshot!(allocated(node, "select x=g*3~zone select y=g*2~zone"), @"x: d1 d3 d4, y: d0 d2");
    assert_snapshot!(allocated(node, "select x=g*2~zone select y=g*3~zone"), @"x: d0 d2, y: d1 d3 d4");
    assert_snapshot!(allocated(node, "select x=g*2~zone select y=g*2~zone select z=g"), @"x: d0 d2, y: d1 d3, z: d4");
    assert_snapshot!(allocated(node, "select x=g*2~zone select y=g*2~zone select z=g*2~zone"), @"Impossible");
    assert_snapshot!(allocated(node, "select x=g*4~zone|g*2~zone"), @"x: d0 d2");
    assert_snapshot!(allocated("device d0:g device d1:g", "select x=g~zone"), @"Impossible");
}

#[test]
fn devices_of_a_distinct_constraint_differ_in_its_attribute() {
    let node = "device d0:g@zone=a device d1:g@zone=a device d2:g@zone=b device d3:g";
    assert_snapshot!(allocated(node, "select x=g*2≠zone"), @"x: d0 d2");
    assert_snapshot!(allocated(node, "select x=g*3≠zone"), @"Impossible");
    assert_snapshot!(allocated(node, "select x=g+g≠zone select y=g"), @"x: d0 d2, y: d1");
    assert_snapshot!(allocated(node, "select x=g*3≠zone|g*2~zone"), @"x: d0 d1");
}

#[test]
fn partitions_are_allocated_as_far_as_the_counters_of_their_pool_suffice() {
    let node = "counters mem=8,core=2 device d0:half#mem=4,core=1 device d1:half#mem=4,core=1 \
                device d2:whole#mem=8,core=2 device d3:quarter#mem=2 device d4:quarter#mem=2";
    assert_snapshot!(allocated(node, "select x=half select y=half"), @"x: d0, y: d1");
    assert_snapshot!(allocated(node, "select x=whole"), @"x: d2");
    assert_snapshot!(allocated(node, "select x=half select y=whole"), @"Impossible");
    assert_snapshot!(allocated(node, "select x=half select y=quarter*2"), @"x: d0, y: d3 d4");
    assert_snapshot!(allocated(node, "select x=half select y=half|quarter select z=quarter"), @"x: d0, y: d3, z: d4");
    assert_snapshot!(allocated(node, "select x=half*2 select y=quarter"), @"Impossible");
}

#[test]
fn allocated_partitions_consume_the_counters_of_their_pool() {
    let node = |holder: &str| {
        format!(
            "counters mem=8 device d0:half#mem=4{holder} device d1:half#mem=4 device d2:whole#mem=8"
        )
    };
    assert_snapshot!(allocated(&node(""), "select x=whole"), @"x: d2");
    assert_snapshot!(allocated(&node("!other"), "select x=whole"), @"Impossible");
    assert_snapshot!(allocated(&node("!other"), "select x=half"), @"x: d1");
    assert_snapshot!(allocated("device d0:g#unknown=1", "select x=g"), @"Impossible");
}

#[test]
fn a_device_is_shared_as_far_as_its_capacity_suffices() {
    let node = "device d0:s/20,b/60%80 device d1:s/20,b/60%80";
    assert_snapshot!(allocated(node, "select x=s select y=b"), @"x: d0, y: d0");
    assert_snapshot!(allocated(node, "select x=b select y=b select z=s+s"), @"x: d0, y: d1, z: d0 d1");
    assert_snapshot!(allocated(node, "select x=b select y=b select z=b"), @"Impossible");
    assert_snapshot!(allocated(node, "select x=s*2"), @"x: d0 d1");
    assert_snapshot!(allocated(node, "select x=s*3"), @"Impossible");
    assert_snapshot!(allocated("device d0:s/20,b/60%80!x/20,y/20", "select z=b|s"), @"z: d0");
}

#[test]
fn shares_of_a_device_consume_its_counters_once() {
    let node = "counters mem=4 device d0:s/20#mem=4%40 device d1:s/20#mem=4%40";
    assert_snapshot!(allocated(node, "select x=s select y=s"), @"x: d0, y: d0");
    assert_snapshot!(allocated(node, "select x=s select y=s select z=s"), @"Impossible");
    let node = "counters mem=4 device d0:s/20#mem=4%40!other/20 device d1:s/20#mem=4%40";
    assert_snapshot!(allocated(node, "select x=s"), @"x: d0");
}

#[test]
fn all_devices_of_a_kind_are_free_or_none_is_allocated() {
    let node = "device d0:a,g device d1:b,g device d2:b,g";
    assert_snapshot!(allocated(node, "select x=b*all"), @"x: d1 d2");
    assert_snapshot!(allocated(node, "select x=g|a select y=b*all"), @"x: d0, y: d1 d2");
    assert_snapshot!(allocated("device d0:b!x device d1:b", "select x=b*all|b"), @"x: d1");
    assert_snapshot!(allocated(node, "select x=c*all"), @"Impossible");
}

#[test]
fn a_tainted_device_keeps_all_devices_of_its_kind_from_requests_that_do_not_tolerate_it() {
    let node = "device d0:g device d1:h,-g";
    assert_eq!(allocated(node, "select x=g"), "x: d0");
    assert_eq!(allocated(node, "select x=g*all"), "Impossible");
    assert_eq!(allocated(node, "select x=h*all"), "x: d1");
}

#[test]
fn admin_access_takes_no_device_and_none_twice_in_a_claim() {
    let node = "device d0:g!other device d1:g";
    assert_snapshot!(allocated(node, "select x=g*all^admin"), @"x: d0 d1");
    assert_snapshot!(allocated(node, "select x=g^admin+g"), @"x: d0 d1");
    assert_snapshot!(allocated(node, "select x=g*2^admin+g"), @"Impossible");
    assert_snapshot!(allocated(node, "select x=g*2^admin select y=g"), @"x: d0 d1, y: d1");
}

#[test]
fn no_claim_gets_more_devices_than_a_claim_may_have() {
    let node = (0..40).map(|at| format!(" device d{at}:g")).collect::<Vec<_>>().concat();
    assert_snapshot!(allocated(&node, "select x=g*all"), @"Impossible");
    assert_eq!(allocated(&node, "select x=g*all|g"), "x: d0");
}

#[test]
fn a_node_serves_as_many_claims_as_can_be_allocated_together() {
    let count = |node: &str, requests: &str| {
        let snapshot = snapshot_of(&format!("node n1 {node}\njob a select x={requests}"));
        let devices = snapshot.nodes[0].devices.iter().map(|device| &*device.properties);
        let devices = AvailableDevices::all_free(devices, &DeviceAmounts::new());
        let requests = snapshot.shapes[0].claims[0].requests.clone().unwrap();
        max_claims(&requests, &devices)
    };
    let node = "device d0:g,a@zone=a device d1:g@zone=b device d2:g@zone=a!x device d3:g@zone=b";
    assert_eq!(count(node, "g*2~zone"), 2);
    assert_eq!(count(node, "a|g"), 4);
    assert_eq!(count(node, "a"), 1);
    assert_eq!(count(node, "g*3~zone"), 0);
}

/// Devices that differ in every attribute, and requests of which each pair must be equal in one.
#[test]
fn the_search_stops_after_a_number_of_steps() {
    let count = 24;
    let properties: Vec<DeviceProperties> = (0..count)
        .map(|at| DeviceProperties {
            kinds: ["g".into()].into(),
            attributes: (0..count).map(|key| (format!("a{key}").into(), at.to_string())).collect(),
            pool_is_complete: true,
            ..DeviceProperties::default()
        })
        .collect();
    let request = |at: usize| NodeDeviceRequest {
        name: at.to_string().into(),
        selection: "g".into(),
        count: DeviceCount::Exactly(1),
        access: DeviceAccess::Exclusive,
    };
    let requests = (0..count).map(request).collect();
    let requests_of_it = vec![count - 2, count - 1];
    let constraints = vec![AttributeConstraint {
        rule: AttributeRule::Match,
        attribute: "a0".into(),
        requests: requests_of_it,
    }];
    let alternatives = vec![ClaimAlternative { requests, constraints }];
    let claim = ClaimRequests { alternatives };
    let devices = AvailableDevices::all_free(&properties, &DeviceAmounts::new());
    assert_eq!(allocate_claims(&[(&claim).into()], &devices), Err(AllocationFailure::SearchLimit));
}

#[test]
fn many_equal_claims_are_searched_within_the_limit() {
    let devices: Vec<String> =
        (0..31).map(|at| format!(" device d{at}:g@zone={}", at % 7)).collect();
    let devices = devices.concat();
    let outcome = |count: usize| {
        let claims: Vec<String> =
            (0..count).map(|at| format!(" select x{at}=g*3~zone|g*2~zone")).collect();
        allocated(&devices, &claims.concat())
    };
    assert_eq!(outcome(16), "Impossible", "there are too few devices");
    assert_eq!(outcome(15), "Impossible", "a zone with five devices serves two");
    assert!(outcome(14).starts_with("x0: d"));
}
