//! Access to volume claims, as text.

use schedlab_api::{Value, json};

use schedlab_scheduler_core::model::LabelSelector;

use super::*;
use crate::watch::Kind;

fn claim(name: &str, spec: &Value) -> Value {
    let mut claim = json!({
        "kind": "PersistentVolumeClaim",
        "metadata": { "namespace": "ns", "name": name, "uid": name },
        "spec": {
            "storageClassName": "later",
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "2Gi" } },
        },
    });
    merge(&mut claim, spec);
    claim
}

fn volume(name: &str, change: &Value) -> Value {
    let mut volume = json!({
        "kind": "PersistentVolume",
        "metadata": { "name": name },
        "spec": {
            "storageClassName": "later",
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "capacity": { "storage": "2Gi" },
        },
        "status": { "phase": "Available" },
    });
    merge(&mut volume, change);
    volume
}

fn class(name: &str, provisioner: &str, change: &Value) -> Value {
    let mut class = json!({
        "kind": "StorageClass",
        "metadata": { "name": name },
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    merge(&mut class, change);
    class
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, change) => into.clone_from(change),
    }
}

fn cache(objects: &[Value]) -> ClusterCache {
    let mut cache = ClusterCache::new("kai-scheduler");
    cache.upsert(
        Kind::Storage(StorageKind::Class),
        &class("later", "kubernetes.io/no-provisioner", &json!({})),
    );
    for object in objects {
        let kind = match object["kind"].as_str().unwrap() {
            "PersistentVolumeClaim" => Kind::Storage(StorageKind::Claim),
            "PersistentVolume" => Kind::Storage(StorageKind::Volume),
            "StorageClass" => Kind::Storage(StorageKind::Class),
            "CSIDriver" => Kind::Storage(StorageKind::Driver),
            "CSIStorageCapacity" => Kind::Storage(StorageKind::Capacity),
            "CSINode" => Kind::Storage(StorageKind::Node),
            "VolumeAttachment" => Kind::Storage(StorageKind::Attachment),
            "Node" => Kind::Node,
            _ => Kind::Pod,
        };
        cache.upsert(kind, object);
    }
    cache
}

fn pod(volume: &Value) -> Value {
    let metadata = json!({ "namespace": "ns", "name": "p", "uid": "p" });
    json!({ "kind": "Pod", "metadata": metadata, "spec": { "volumes": [volume] } })
}

fn naming(claim: &str) -> Value {
    pod(&json!({ "name": "v", "persistentVolumeClaim": { "claimName": claim } }))
}

/// The access to the only claim of the pod.
fn rendered(objects: &[Value]) -> String {
    let cache = cache(objects);
    let (key, pod) = cache.pods.first_key_value().unwrap();
    let claims = cache.volumes.claims_of_pod(key, pod);
    let terms = |reach: &VolumeReach| {
        let terms = reach.affinity.iter().flatten();
        let wanted = terms.flat_map(|term| term.labels.iter().chain(&term.fields));
        let wanted = wanted
            .map(|wanted| (&wanted.key, &wanted.values))
            .chain(reach.zones.iter().map(|(label, values)| (label, values)));
        let wanted: Vec<String> =
            wanted.map(|(key, values)| format!("{key}={}", values.join("|"))).collect();
        format!("[{}]", wanted.join(" "))
    };
    let claim = claims.first().expect("it names one");
    let exclusive = if claim.is_exclusive { "alone " } else { "" };
    let access = match &claim.access {
        VolumeAccess::Unavailable(problem) => format!("nowhere {problem:?}"),
        VolumeAccess::Bound(reach) => format!("bound {}", terms(reach)),
        VolumeAccess::WaitForFirstConsumer { volumes, provisionable: made } => {
            let volumes: Vec<&str> = volumes.iter().map(|volume| &*volume.name).collect();
            let room = |selector: &LabelSelector| {
                let wanted = selector.requirements.iter();
                let wanted = wanted.map(|one| format!("{}={}", one.key, one.values.join("|")));
                wanted.collect::<Vec<_>>().join(" ")
            };
            let made = made.as_ref().map(|made| {
                let room = made
                    .nodes_with_capacity
                    .as_ref()
                    .map(|any| format!(" room {:?}", any.iter().map(room).collect::<Vec<_>>()));
                format!(" made {}{}", terms(&made.reach), room.unwrap_or_default())
            });
            format!("open {}{}", volumes.join(","), made.unwrap_or_default())
        }
    };
    format!("{exclusive}{access}")
}

fn bound() -> Value {
    json!({
        "metadata": { "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "volumeName": "v" },
    })
}

#[test]
fn an_unusable_claim_is_accessible_from_no_node() {
    let at_once = json!({ "spec": { "storageClassName": "unknown" } });
    let leaving = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let mut lost = bound();
    lost["status"] = json!({ "phase": "Lost" });
    let half = json!({ "spec": { "volumeName": "v" } });
    let there = volume("v", &json!({}));
    for (objects, expected) in [
        (vec![], "nowhere Missing"),
        (vec![claim("c", &at_once)], "nowhere UnboundImmediate"),
        (vec![claim("c", &leaving)], "nowhere Deleting"),
        (vec![claim("c", &lost), there.clone()], "nowhere Lost(\"v\")"),
        (vec![claim("c", &bound())], "nowhere Lost(\"v\")"),
        (vec![claim("c", &half), there.clone()], "nowhere UnboundImmediate"),
        (vec![claim("c", &bound()), there], "bound []"),
    ] {
        assert_eq!(rendered(&[&objects[..], &[naming("c")]].concat()), expected, "{objects:?}");
    }
}

#[test]
fn an_ephemeral_claim_must_be_owned_by_its_pod() {
    let own = pod(&json!({ "name": "v", "ephemeral": { "volumeClaimTemplate": {} } }));
    let owned_by = |uid: &str| {
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid,
                            "controller": true });
        claim("p-v", &json!({ "metadata": { "ownerReferences": [owner] } }))
    };
    assert_eq!(rendered(std::slice::from_ref(&own)), "nowhere NotCreated");
    assert_eq!(rendered(&[owned_by("another"), own.clone()]), "nowhere NotOwned");
    assert_eq!(rendered(&[owned_by("p"), own]), "open ");
}

#[test]
fn a_bound_claim_is_accessible_where_its_volume_is() {
    let affinity = json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["a", "b"] }] },
    ] } } } });
    let labels = json!({ "metadata": { "labels": {
        "topology.kubernetes.io/zone": "a__b", "app": "x",
    } } });
    let with = |change: &Value| rendered(&[volume("v", change), claim("c", &bound()), naming("c")]);
    assert_eq!(with(&affinity), "bound [disk=a|b]");
    assert_eq!(with(&labels), "bound [topology.kubernetes.io/zone=a|b]");
    let alone = json!({ "spec": { "accessModes": ["ReadWriteOncePod"] } });
    let mut claimed = claim("c", &bound());
    merge(&mut claimed, &alone);
    assert_eq!(rendered(&[volume("v", &json!({})), claimed, naming("c")]), "alone bound []");
}

#[test]
fn an_unbound_claim_gets_the_smallest_fitting_volume_first() {
    let sized = |name: &str, size: &str| {
        volume(name, &json!({ "spec": { "capacity": { "storage": size } } }))
    };
    let labelled = json!({ "metadata": { "labels": { "tier": "fast" } } });
    let others = [
        ("class", json!({ "spec": { "storageClassName": "other" } })),
        ("mode", json!({ "spec": { "accessModes": ["ReadOnlyMany"] } })),
        ("block", json!({ "spec": { "volumeMode": "Block" } })),
        ("taken", json!({ "spec": { "claimRef": { "namespace": "ns", "name": "x" } } })),
        ("phase", json!({ "status": { "phase": "Released" } })),
        ("leaves", json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })),
    ];
    let mut objects: Vec<Value> =
        others.iter().map(|(name, change)| volume(name, change)).collect();
    objects.extend([sized("large", "4Gi"), sized("small", "1Gi"), sized("fits", "3Gi")]);
    objects.push(volume("fast", &labelled));
    let with =
        |change: &Value| rendered(&[&objects[..], &[claim("c", change), naming("c")]].concat());
    assert_eq!(with(&json!({})), "open fast,fits,large");
    let selector = json!({ "spec": { "selector": { "matchLabels": { "tier": "fast" } } } });
    assert_eq!(with(&selector), "open fast");
}

#[test]
fn a_volume_with_a_claim_ref_is_the_only_choice_of_its_claim() {
    let kept = |uid: &str| {
        let claim = json!({ "namespace": "ns", "name": "c", "uid": uid });
        volume("z", &json!({ "spec": { "claimRef": claim } }))
    };
    let other = volume("a", &json!({}));
    let with = |kept: Value| rendered(&[kept, other.clone(), claim("c", &json!({})), naming("c")]);
    assert_eq!(with(kept("c")), "open z");
    assert_eq!(with(kept("of another")), "open a");
}

#[test]
fn volumes_are_provisioned_in_the_allowed_topologies_or_on_the_selected_node() {
    let terms = json!([{ "matchLabelExpressions": [{ "key": "zone", "values": ["a", "b"] }] }]);
    let made = class("made", "csi.example.com", &json!({ "allowedTopologies": terms }));
    let of_class = json!({ "spec": { "storageClassName": "made" } });
    let open = claim("c", &of_class);
    assert_eq!(rendered(&[made.clone(), open, naming("c")]), "open  made [zone=a|b]");
    let mut rendered_where = claim("c", &of_class);
    let selected = json!({ "volume.kubernetes.io/selected-node": "n1" });
    merge(&mut rendered_where, &json!({ "metadata": { "annotations": selected } }));
    assert_eq!(rendered(&[made, rendered_where, naming("c")]), "open  made [metadata.name=n1]");
}

#[test]
fn a_pod_with_a_node_keeps_no_shareable_claims() {
    let mut on_node = naming("c");
    on_node["spec"]["nodeName"] = json!("n1");
    let cache = cache(&[claim("c", &json!({})), on_node]);
    let (key, pod) = cache.pods.first_key_value().unwrap();
    assert_eq!(cache.volumes.claims_of_pod(key, pod), []);
}

fn driver(tells: bool) -> Value {
    json!({ "kind": "CSIDriver", "metadata": { "name": "csi" }, "spec": { "storageCapacity": tells } })
}

fn storage(name: &str, change: &Value) -> Value {
    let mut storage = json!({
        "kind": "CSIStorageCapacity", "metadata": { "namespace": "kube-system", "name": name },
        "storageClassName": "disks", "capacity": "10Gi",
        "nodeTopology": { "matchLabels": { "shelf": name } },
    });
    merge(&mut storage, change);
    storage
}

#[test]
fn volumes_are_provisioned_where_the_driver_reports_enough_capacity() {
    let disks = || class("disks", "csi", &json!({}));
    let claim = || claim("c", &json!({ "spec": { "storageClassName": "disks" } }));
    let room = |driver: Value, storage: &[Value]| {
        let objects = [disks(), claim(), driver].into_iter().chain(storage.iter().cloned());
        let objects: Vec<Value> = objects.chain([naming("c")]).collect();
        rendered(&objects)
    };
    let enough = [storage("a", &json!({})), storage("b", &json!({ "capacity": "2Gi" }))];
    assert_eq!(room(driver(false), &enough), "open  made []");
    assert_eq!(room(driver(true), &enough), r#"open  made [] room ["shelf=a", "shelf=b"]"#);
    let none = [
        storage("small", &json!({ "capacity": "1Gi" })),
        storage("of-another-class", &json!({ "storageClassName": "tapes" })),
        storage("in-small-pieces", &json!({ "maximumVolumeSize": "1Gi" })),
        storage("nobody-knows", &json!({ "capacity": null })),
        storage("from-nowhere", &json!({ "nodeTopology": null })),
    ];
    assert_eq!(room(driver(true), &none), "open  made [] room []");
    let selected = json!({ "volume.kubernetes.io/selected-node": "n" });
    let mut under_way = claim();
    merge(&mut under_way, &json!({ "metadata": { "annotations": (selected) } }));
    let objects = [disks(), under_way, driver(true), naming("c")];
    assert_eq!(rendered(&objects), "open  made [metadata.name=n]");
}

/// The attached volumes of the only pod, and the limit and attached volumes of its node.
fn attached(objects: &[Value]) -> String {
    let node = json!({ "kind": "Node", "metadata": { "name": "n" } });
    let objects: Vec<Value> = objects.iter().cloned().chain([node]).collect();
    let cache = cache(&objects);
    let (key, pod) = cache.pods.first_key_value().unwrap();
    let claims =
        cache.volumes.claims_of_pod(key, pod).into_iter().filter_map(|claim| claim.attached_volume);
    let claims: Vec<String> = claims.map(|it| format!("{}/{}", it.driver, it.volume)).collect();
    let node = cache.effective_node(&cache.nodes["n"]);
    let has: Vec<&str> = node.attached_volumes.iter().map(|it| &*it.volume).collect();
    format!("{claims:?} node takes {:?} has {has:?}", node.volume_limits)
}

#[test]
fn volumes_of_a_driver_with_a_node_limit_are_counted() {
    let node = |count: &Value| {
        let drivers =
            json!([{ "name": "csi", "allocatable": { "count": (count) } }, { "name": "other" }]);
        json!({ "kind": "CSINode", "metadata": { "name": "n" }, "spec": { "drivers": (drivers) } })
    };
    let disk = || {
        let csi = json!({ "driver": "csi", "volumeHandle": "disk-1" });
        volume("v", &json!({ "spec": { "csi": (csi) }, "status": { "phase": "Bound" } }))
    };
    let attachment = json!({
        "kind": "VolumeAttachment", "metadata": { "name": "a" },
        "spec": { "attacher": "csi", "nodeName": "n", "source": { "persistentVolumeName": "v" } },
    });
    let has_one = || [claim("c", &bound()), disk(), naming("c")];
    let uncounted = attached(&has_one());
    assert_eq!(uncounted, "[] node takes {} has []", "drivers without a limit are not counted");
    let with = |more: &[Value]| {
        attached(&has_one().into_iter().chain(more.iter().cloned()).collect::<Vec<_>>())
    };
    assert_eq!(with(&[node(&json!(2))]), r#"["csi/disk-1"] node takes {"csi": 2} has []"#);
    let all = with(&[node(&json!(2)), attachment]);
    assert_eq!(all, r#"["csi/disk-1"] node takes {"csi": 2} has ["disk-1"]"#);
    assert_eq!(with(&[node(&Value::Null)]), "[] node takes {} has []");
    let unbound = claim("c", &json!({ "spec": { "storageClassName": "disks" } }));
    let objects = [class("disks", "csi", &json!({})), unbound, naming("c"), node(&json!(2))];
    assert_eq!(attached(&objects), r#"["csi/of claim ns/c"] node takes {"csi": 2} has []"#);
}

#[test]
fn a_pod_with_a_node_keeps_claims_whose_volumes_are_counted() {
    let node = json!({
        "kind": "CSINode", "metadata": { "name": "n" },
        "spec": { "drivers": [{ "name": "csi", "allocatable": { "count": 1 } }] },
    });
    let csi = json!({ "driver": "csi", "volumeHandle": "disk-1" });
    let disk = volume("v", &json!({ "spec": { "csi": (csi) }, "status": { "phase": "Bound" } }));
    let mut there = naming("c");
    there["spec"]["nodeName"] = json!("n");
    let objects = [claim("c", &bound()), disk, there, node];
    assert_eq!(attached(&objects), r#"["csi/disk-1"] node takes {"csi": 1} has []"#);
}
