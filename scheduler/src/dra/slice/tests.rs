use insta::assert_snapshot;
use schedlab_api::json;

use super::*;
use crate::{
    cache::ClusterCache,
    dra::device::{Device, DeviceSources, published_devices},
};

/// A slice with one device and these fields; null removes a field.
fn slice(says: &Value) -> Value {
    let mut spec = json!({ "driver": "gpu.x", "pool": { "name": "p", "generation": 1 },
                           "devices": [{ "name": "a" }] });
    for (field, value) in says.as_object().into_iter().flatten() {
        spec[field.as_str()] = value.clone();
    }
    json!({ "kind": "ResourceSlice", "metadata": { "name": "s" }, "spec": spec })
}

/// Its faults, and the devices that are used nevertheless.
fn rendered(says: &Value) -> String {
    let cache = ClusterCache::from_objects(&[slice(says)]);
    let faults = cache.resource_claims.slice_faults();
    let faults = faults.map(|(name, _, SliceFault { error: wrong, consequence: instead })| {
        format!("{name}: {wrong}; {instead}")
    });
    let record = &cache.resource_claims.slices["s"];
    let used = record.devices.iter().filter_map(|(_, device)| text(device, "/name"));
    let used = format!("used: {}", used.collect::<Vec<_>>().join(" "));
    faults.chain([used]).collect::<Vec<_>>().join("\n")
}

/// A slice with a node selector that has this requirement on a label.
fn by_label(requirement: &Value) -> String {
    rendered(&selector(&json!([{ "matchExpressions": [requirement] }])))
}

fn by_field(requirement: &Value) -> String {
    rendered(&selector(&json!([{ "matchFields": [requirement] }])))
}

fn selector(terms: &Value) -> Value {
    json!({ "nodeSelector": { "nodeSelectorTerms": terms } })
}

/// A slice whose devices select their nodes.
fn per_device(devices: &Value) -> String {
    rendered(&json!({ "perDeviceNodeSelection": true, "devices": devices }))
}

#[test]
fn a_slice_with_one_node_selection_field_is_used() {
    let zone = json!({ "key": "zone", "operator": "In", "values": ["a"] });
    assert_snapshot!(rendered(&json!({ "nodeName": "n" })), @"used: a");
    assert_snapshot!(rendered(&json!({ "allNodes": true, "nodeName": null })), @"used: a");
    assert_snapshot!(by_label(&zone), @"used: a");
    assert_snapshot!(per_device(&json!([{ "name": "a", "allNodes": true }])), @"used: a");
}

#[test]
fn a_slice_with_none_or_several_node_selection_fields_is_not_used() {
    assert_snapshot!(rendered(&json!({})), @r"
    s: spec: got none, expected exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection; none of its devices is used
    used:
    ");
    assert_snapshot!(rendered(&json!({ "nodeName": "n", "allNodes": true })), @r"
    s: spec: got nodeName and allNodes, expected exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection; none of its devices is used
    used:
    ");
    assert_snapshot!(rendered(&json!({ "nodeName": "n", "perDeviceNodeSelection": true })), @r"
    s: spec: got nodeName and perDeviceNodeSelection, expected exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection; none of its devices is used
    used:
    ");
    assert_snapshot!(rendered(&json!({ "nodeName": "" })), @r#"
    s: spec.nodeName: got "", expected the name of a node; none of its devices is used
    used:
    "#);
    assert_snapshot!(rendered(&json!({ "nodeName": "n", "allNodes": false })), @r"
    s: spec.allNodes: got false, expected true; none of its devices is used
    used:
    ");
}

#[test]
fn a_slice_with_an_invalid_selector_is_not_used() {
    let term = json!({ "matchExpressions": [] });
    assert_snapshot!(rendered(&selector(&json!([]))), @r"
    s: spec.nodeSelector.nodeSelectorTerms: got none, expected exactly one term; none of its devices is used
    used:
    ");
    assert_snapshot!(rendered(&selector(&json!([term, term]))), @r"
    s: spec.nodeSelector.nodeSelectorTerms: got 2 terms, expected exactly one term; none of its devices is used
    used:
    ");
    assert_snapshot!(by_label(&json!({ "key": "zone", "operator": "Like", "values": ["a"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator: got "Like", expected In, NotIn, Exists, DoesNotExist, Gt or Lt; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_label(&json!({ "key": "zone", "values": ["a"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator: got "", expected In, NotIn, Exists, DoesNotExist, Gt or Lt; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_label(&json!({ "key": "rank", "operator": "Gt", "values": ["abc"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[0]: got "abc", expected an integer; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_label(&json!({ "key": "rank", "operator": "Lt", "values": ["1", "2"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: got ["1","2"], expected exactly one; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_label(&json!({ "key": "zone", "operator": "In" })), @r"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: got none, expected one or more; none of its devices is used
    used:
    ");
    assert_snapshot!(by_label(&json!({ "key": "zone", "operator": "Exists", "values": ["a"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: got ["a"], expected none; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_label(&json!({ "operator": "Exists" })), @r"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].key: got nothing, expected a label; none of its devices is used
    used:
    ");
    let name = "metadata.name";
    assert_snapshot!(by_field(&json!({ "key": name, "operator": "Exists" })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].operator: got "Exists", expected In or NotIn; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_field(&json!({ "key": name, "operator": "In", "values": ["m", "n"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].values: got ["m","n"], expected exactly one; none of its devices is used
    used:
    "#);
    assert_snapshot!(by_field(&json!({ "key": "zone", "operator": "In", "values": ["a"] })), @r#"
    s: spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].key: got "zone", expected metadata.name; none of its devices is used
    used:
    "#);
}

#[test]
fn a_slice_without_driver_or_pool_is_not_used() {
    let without = |field: &str| rendered(&json!({ "nodeName": "n", (field): null }));
    assert_snapshot!(without("driver"), @r"
    s: spec.driver: got nothing, expected the name of a driver; none of its devices is used
    used:
    ");
    assert_snapshot!(without("pool"), @r"
    s: spec.pool.name: got nothing, expected the name of a pool; none of its devices is used
    used:
    ");
    let pool = |says: Value| rendered(&json!({ "nodeName": "n", "pool": says }));
    assert_snapshot!(pool(json!({ "name": "p", "resourceSliceCount": 0 })), @r"
    s: spec.pool.resourceSliceCount: got 0, expected an integer from 1; none of its devices is used
    used:
    ");
    assert_snapshot!(pool(json!({ "name": "p", "generation": -1 })), @r"
    s: spec.pool.generation: got -1, expected an integer from 0; none of its devices is used
    used:
    ");
}

#[test]
fn an_invalid_device_is_not_used_and_the_others_of_its_slice_are() {
    assert_snapshot!(per_device(&json!([
        { "name": "a", "nodeName": "n" },
        { "name": "b" },
        { "name": "c", "nodeName": "n", "allNodes": true },
        { "nodeName": "n" },
        { "name": "a", "nodeName": "m" },
        { "name": "e", "nodeSelector": { "nodeSelectorTerms": [] } },
        { "name": "f", "allNodes": true },
    ])), @r#"
    s: spec.devices[1]: got none, expected exactly one of nodeName, nodeSelector and allNodes; the device is not used
    s: spec.devices[2]: got nodeName and allNodes, expected exactly one of nodeName, nodeSelector and allNodes; the device is not used
    s: spec.devices[3].name: got nothing, expected the name of a device; the device is not used
    s: spec.devices[4].name: got "a", the name of spec.devices[0], expected a name that no other device of the slice has; the device is not used
    s: spec.devices[5].nodeSelector.nodeSelectorTerms: got none, expected exactly one term; the device is not used
    used: a f
    "#);
    let devices = json!([{ "name": "a", "nodeName": "m" }, { "name": "b" }]);
    assert_snapshot!(rendered(&json!({ "nodeName": "n", "devices": devices })), @r#"
    s: spec.devices[0].nodeName: got "m", expected nothing, unless the slice sets perDeviceNodeSelection; the device is not used
    used: b
    "#);
}

#[test]
fn a_device_in_two_slices_of_a_pool_is_published_once() {
    let of = |name: &str, says: &Value| {
        let mut slice = slice(says);
        slice["metadata"]["name"] = json!(name);
        slice
    };
    let node = json!({ "nodeName": "n" });
    let more = json!({ "nodeName": "n", "devices": [{ "name": "b" }, { "name": "a" }] });
    let rendered = |slices: &[Value]| {
        let mut cache = ClusterCache::from_objects(slices);
        cache.resource_claims.refresh();
        let faults = cache.resource_claims.slice_faults();
        let faults = faults
            .map(|(name, _, fault)| format!("{name}: {}; {}", fault.error, fault.consequence));
        let devices = cache.resource_claims.devices_of(&"n".into()).iter();
        let devices =
            devices.map(|one| format!("{} (whole: {})", one.id.device, one.pool_is_whole));
        faults.chain(devices).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(rendered(&[of("s", &node), of("t", &more)]), @r#"
    t: spec.devices: got "a", which is also in ResourceSlice s of the same pool, expected names that no other device of the pool has; the device is not used
    a (whole: false)
    b (whole: false)
    "#);
    let newer = json!({ "nodeName": "n", "pool": { "name": "p", "generation": 2 } });
    assert_snapshot!(rendered(&[of("s", &node), of("t", &newer)]), @"a (whole: true)");
}

#[test]
fn a_pool_with_an_unusable_device_is_incomplete() {
    let is_whole = |says: Value| {
        let slices = BTreeMap::from([("s".into(), SliceRecord::from_object(&slice(&says)))]);
        let published = published_devices(
            DeviceSources {
                slices: &slices,
                classes: &BTreeMap::new(),
                taint_rules: &BTreeMap::new(),
            },
            &[].into(),
        );
        published.by_node["n"].iter().all(|device: &Device| device.pool_is_whole)
    };
    assert!(is_whole(json!({ "nodeName": "n" })));
    assert!(!is_whole(json!({ "nodeName": "n", "devices": [{ "name": "a" }, {}] })));
}
