//! Tables of claims and devices of one node.

use insta::assert_snapshot;
use schedlab_testkit::snapshot_of;

use super::*;
use crate::model::{ClaimAlternative, DeviceCount, MatchAttribute};

/// The devices of each claim. `node` lists devices, `claims` are the claims of a pod.
fn allocated(node: &str, claims: &str) -> String {
    let snapshot = snapshot_of(&format!("node n1 {node}\njob a {claims}"));
    let devices = &snapshot.nodes[0].devices;
    let free: Vec<(&DeviceProperties, bool)> =
        devices.iter().map(|device| (&*device.properties, device.allocated_to.is_none())).collect();
    let claims = &snapshot.shapes[0].claims;
    let requests: Vec<&ClaimRequests> =
        claims.iter().filter_map(|claim| claim.requests.as_deref()).collect();
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
fn all_devices_of_a_kind_are_free_or_none_is_allocated() {
    let node = "device d0:a,g device d1:b,g device d2:b,g";
    assert_snapshot!(allocated(node, "select x=b*all"), @"x: d1 d2");
    assert_snapshot!(allocated(node, "select x=g|a select y=b*all"), @"x: d0, y: d1 d2");
    assert_snapshot!(allocated("device d0:b!x device d1:b", "select x=b*all|b"), @"x: d1");
    assert_snapshot!(allocated(node, "select x=c*all"), @"Impossible");
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
        let devices: Vec<&DeviceProperties> =
            snapshot.nodes[0].devices.iter().map(|device| &*device.properties).collect();
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
        })
        .collect();
    let request = |at: usize| NodeDeviceRequest {
        name: at.to_string().into(),
        selection: "g".into(),
        count: DeviceCount::Exactly(1),
        access: DeviceAccess::Exclusive,
    };
    let requests = (0..count).map(request).collect();
    let constraints =
        vec![MatchAttribute { attribute: "a0".into(), requests: vec![count - 2, count - 1] }];
    let alternatives = vec![ClaimAlternative { requests, constraints }];
    let claim = ClaimRequests { alternatives };
    let devices: Vec<(&DeviceProperties, bool)> =
        properties.iter().map(|device| (device, true)).collect();
    assert_eq!(allocate_claims(&[&claim], &devices), Err(AllocationFailure::SearchLimit));
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
