use insta::assert_snapshot;
use schedlab_json::json;

use super::*;
use crate::mirror::{
    Mirror,
    claims::device::{Device, devices},
};

/// A slice with one device that says this besides; null takes a field away.
fn slice(says: &Value) -> Value {
    let mut spec = json!({ "driver": "gpu.x", "pool": { "name": "p", "generation": 1 },
                           "devices": [{ "name": "a" }] });
    for (field, value) in says.as_object().into_iter().flatten() {
        spec[field.as_str()] = value.clone();
    }
    json!({ "kind": "ResourceSlice", "metadata": { "name": "s" }, "spec": spec })
}

/// What is wrong with it, and which devices are used all the same.
fn told(says: &Value) -> String {
    let mirror = Mirror::of(&[slice(says)]);
    let faults = mirror.claims.slice_faults();
    let faults = faults
        .map(|(name, _, SliceFault { wrong, instead })| format!("{name}: {wrong}; {instead}"));
    let record = &mirror.claims.slices["s"];
    let used = record.devices.iter().filter_map(|(_, device)| text(device, "/name"));
    let used = format!("used: {}", used.collect::<Vec<_>>().join(" "));
    faults.chain([used]).collect::<Vec<_>>().join("\n")
}

/// One that a selector is to place, by a requirement on labels.
fn by_label(requirement: &Value) -> String {
    told(&selector(&json!([{ "matchExpressions": [requirement] }])))
}

fn by_field(requirement: &Value) -> String {
    told(&selector(&json!([{ "matchFields": [requirement] }])))
}

fn selector(terms: &Value) -> Value {
    json!({ "nodeSelector": { "nodeSelectorTerms": terms } })
}

/// Whose devices say for themselves where they are.
fn per_device(devices: &Value) -> String {
    told(&json!({ "perDeviceNodeSelection": true, "devices": devices }))
}

#[test]
fn a_slice_that_says_in_one_way_where_its_devices_are_is_used() {
    let zone = json!({ "key": "zone", "operator": "In", "values": ["a"] });
    assert_snapshot!(told(&json!({ "nodeName": "n" })), @"used: a");
    assert_snapshot!(told(&json!({ "allNodes": true, "nodeName": null })), @"used: a");
    assert_snapshot!(by_label(&zone), @"used: a");
    assert_snapshot!(per_device(&json!([{ "name": "a", "allNodes": true }])), @"used: a");
}

#[test]
fn a_slice_that_does_not_say_in_one_way_where_its_devices_are_is_not_used() {
    assert_snapshot!(told(&json!({})), @r"
    s: spec: found none, allowed: exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection; none of its devices is used
    used:
    ");
    assert_snapshot!(told(&json!({ "nodeName": "n", "allNodes": true })), @r"
    s: spec: found nodeName and allNodes, allowed: exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection; none of its devices is used
    used:
    ");
    assert_snapshot!(told(&json!({ "nodeName": "n", "perDeviceNodeSelection": true })), @r"
    s: spec: found nodeName and perDeviceNodeSelection, allowed: exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection; none of its devices is used
    used:
    ");
    assert_snapshot!(told(&json!({ "nodeName": "" })), @r#"
    s: spec.nodeName: found "", allowed: the name of a node; none of its devices is used
    used:
    "#);
    assert_snapshot!(told(&json!({ "nodeName": "n", "allNodes": false })), @r"
    s: spec.allNodes: found false, allowed: true; none of its devices is used
    used:
    ");
}

#[test]
fn a_slice_with_a_selector_that_cannot_be_read_is_not_used() {
    let term = json!({ "matchExpressions": [] });
    assert_snapshot!(told(&selector(&json!([]))), @r"
    s: spec.nodeSelector.nodeSelectorTerms: found none, allowed: exactly one term; none of its devices is used
    used:
    ");
    assert_snapshot!(told(&selector(&json!([term, term]))), @r"
    s: spec.nodeSelector.nodeSelectorTerms: found 2 terms, allowed: exactly one term; none of its devices is used
    used:
    ");
    assert_snapshot!(by_label(&json!({ "key": "zone", "operator": "Like", "values": ["a"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator: found "Like", allowed: In, NotIn, Exists, DoesNotExist, Gt or Lt; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_label(&json!({ "key": "zone", "values": ["a"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator: found "", allowed: In, NotIn, Exists, DoesNotExist, Gt or Lt; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_label(&json!({ "key": "rank", "operator": "Gt", "values": ["abc"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[0]: found "abc", allowed: an integer; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_label(&json!({ "key": "rank", "operator": "Lt", "values": ["1", "2"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: found ["1","2"], allowed: exactly one; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_label(&json!({ "key": "zone", "operator": "In" })), @r"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: found none, allowed: one or more; none of its devices is used
    used:
    ");
    assert_snapshot!(by_label(&json!({ "key": "zone", "operator": "Exists", "values": ["a"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: found ["a"], allowed: none; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_label(&json!({ "operator": "Exists" })), @r"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].key: found nothing, allowed: a label; none of its devices is used
    used:
    ");
    let name = "metadata.name";
    assert_snapshot!(by_field(&json!({ "key": name, "operator": "Exists" })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].operator: found "Exists", allowed: In or NotIn; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_field(&json!({ "key": name, "operator": "In", "values": ["m", "n"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].values: found ["m","n"], allowed: exactly one; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_field(&json!({ "key": "zone", "operator": "In", "values": ["a"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].key: found "zone", allowed: metadata.name; none of its devices is used
    used:
    "#);
}

#[test]
fn a_slice_of_no_driver_or_pool_is_not_used() {
    let without = |field: &str| told(&json!({ "nodeName": "n", (field): null }));
    assert_snapshot!(without("driver"), @r"
    s: spec.driver: found nothing, allowed: the name of a driver; none of its devices is used
    used:
    ");
    assert_snapshot!(without("pool"), @r"
    s: spec.pool.name: found nothing, allowed: the name of a pool; none of its devices is used
    used:
    ");
    let pool = |says: Value| told(&json!({ "nodeName": "n", "pool": says }));
    assert_snapshot!(pool(json!({ "name": "p", "resourceSliceCount": 0 })), @r"
    s: spec.pool.resourceSliceCount: found 0, allowed: an integer from 1; none of its devices is used
    used:
    ");
    assert_snapshot!(pool(json!({ "name": "p", "generation": -1 })), @r"
    s: spec.pool.generation: found -1, allowed: an integer from 0; none of its devices is used
    used:
    ");
}

#[test]
fn a_device_that_cannot_be_told_or_placed_is_not_used_and_others_of_its_slice_are() {
    assert_snapshot!(per_device(&json!([
        { "name": "a", "nodeName": "n" },
        { "name": "b" },
        { "name": "c", "nodeName": "n", "allNodes": true },
        { "nodeName": "n" },
        { "name": "a", "nodeName": "m" },
        { "name": "e", "nodeSelector": { "nodeSelectorTerms": [] } },
        { "name": "f", "allNodes": true },
    ])), @r#"
    s: spec.devices[1]: found none, allowed: exactly one of nodeName, nodeSelector and allNodes; the device is not used
    s: spec.devices[2]: found nodeName and allNodes, allowed: exactly one of nodeName, nodeSelector and allNodes; the device is not used
    s: spec.devices[3].name: found nothing, allowed: the name of a device; the device is not used
    s: spec.devices[4].name: found "a", which spec.devices[0] is called, allowed: a name that no other device of the slice has; the device is not used
    s: spec.devices[5].nodeSelector.nodeSelectorTerms: found none, allowed: exactly one term; the device is not used
    used: a f
    "#);
    let devices = json!([{ "name": "a", "nodeName": "m" }, { "name": "b" }]);
    assert_snapshot!(told(&json!({ "nodeName": "n", "devices": devices })), @r#"
    s: spec.devices[0].nodeName: found "m", allowed: nothing, where the slice has no perDeviceNodeSelection; the device is not used
    used: b
    "#);
}

#[test]
fn a_device_with_rules_that_are_not_kept_is_not_used() {
    let devices = json!([
        { "name": "a", "taints": [{ "key": "x", "effect": "None" }, { "key": "ill", "effect": "NoExecute" }] },
        { "name": "b", "consumesCounters": [{ "counterSet": "memory" }] },
        { "name": "c", "bindingConditions": ["attached"] },
        { "name": "d", "taints": [{ "key": "x", "effect": "None" }], "consumesCounters": [] },
    ]);
    assert_snapshot!(told(&json!({ "nodeName": "n", "devices": devices })), @r#"
    s: spec.devices[0].taints: found {"effect":"NoExecute","key":"ill"}, allowed: no taint NoSchedule or NoExecute, as no claim is asked what it tolerates; the device is not used
    s: spec.devices[1].consumesCounters: found {"counterSet":"memory"}, allowed: none, as what devices share of each other is not counted; the device is not used
    s: spec.devices[2].bindingConditions: found "attached", allowed: none, as pods are not kept waiting for them; the device is not used
    used: d
    "#);
}

#[test]
fn a_device_that_two_slices_of_a_pool_have_is_there_once() {
    let of = |name: &str, says: &Value| {
        let mut slice = slice(says);
        slice["metadata"]["name"] = json!(name);
        slice
    };
    let node = json!({ "nodeName": "n" });
    let more = json!({ "nodeName": "n", "devices": [{ "name": "b" }, { "name": "a" }] });
    let told = |slices: &[Value]| {
        let mut mirror = Mirror::of(slices);
        mirror.claims.refresh();
        let faults = mirror.claims.slice_faults();
        let faults =
            faults.map(|(name, _, fault)| format!("{name}: {}; {}", fault.wrong, fault.instead));
        let devices = mirror.claims.devices_of(&"n".into()).iter();
        let devices =
            devices.map(|one| format!("{} (whole: {})", one.id.device, one.pool_is_whole));
        faults.chain(devices).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(told(&[of("s", &node), of("t", &more)]), @r#"
    t: spec.devices: found "a", which ResourceSlice s of the same pool has, allowed: names that no other device of the pool has; the device is not used
    a (whole: false)
    b (whole: false)
    "#);
    let newer = json!({ "nodeName": "n", "pool": { "name": "p", "generation": 2 } });
    assert_snapshot!(told(&[of("s", &node), of("t", &newer)]), @"a (whole: true)");
}

#[test]
fn a_pool_with_a_device_that_cannot_be_used_is_not_there_as_a_whole() {
    let is_whole = |says: Value| {
        let slices = BTreeMap::from([("s".into(), SliceRecord::read(&slice(&says)))]);
        let published = devices(&slices, &BTreeMap::new(), &[].into());
        published.of_nodes["n"].iter().all(|device: &Device| device.pool_is_whole)
    };
    assert!(is_whole(json!({ "nodeName": "n" })));
    assert!(!is_whole(json!({ "nodeName": "n", "devices": [{ "name": "a" }, {}] })));
}
