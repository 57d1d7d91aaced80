//! Where claims can be had, as text.

use schedlab_json::{Value, json};

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

fn mirror(objects: &[Value]) -> Mirror {
    let mut mirror = Mirror::new("kai-scheduler");
    mirror.upsert(Kind::StorageClass, &class("later", "kubernetes.io/no-provisioner", &json!({})));
    for object in objects {
        let kind = match object["kind"].as_str().unwrap() {
            "PersistentVolumeClaim" => Kind::PersistentVolumeClaim,
            "PersistentVolume" => Kind::PersistentVolume,
            "StorageClass" => Kind::StorageClass,
            _ => Kind::Pod,
        };
        mirror.upsert(kind, object);
    }
    mirror
}

fn pod(volume: &Value) -> Value {
    let metadata = json!({ "namespace": "ns", "name": "p", "uid": "p" });
    json!({ "kind": "Pod", "metadata": metadata, "spec": { "volumes": [volume] } })
}

fn naming(claim: &str) -> Value {
    pod(&json!({ "name": "v", "persistentVolumeClaim": { "claimName": claim } }))
}

/// Where the only claim of the pod can be had.
fn told(objects: &[Value]) -> String {
    let mirror = mirror(objects);
    let (key, pod) = mirror.pods.first_key_value().unwrap();
    let claims = mirror.volumes.of_pod(key, pod);
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
        VolumeAccess::Nowhere(problem) => format!("nowhere {problem:?}"),
        VolumeAccess::Bound(reach) => format!("bound {}", terms(reach)),
        VolumeAccess::Open { volumes, made } => {
            let volumes: Vec<&str> = volumes.iter().map(|volume| &*volume.name).collect();
            let made = made.as_ref().map(|reach| format!(" made {}", terms(reach)));
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
fn a_claim_that_is_not_there_as_it_should_be_can_be_had_nowhere() {
    let at_once = json!({ "spec": { "storageClassName": "unknown" } });
    let leaving = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let mut lost = bound();
    lost["status"] = json!({ "phase": "Lost" });
    let half = json!({ "spec": { "volumeName": "v" } });
    let there = volume("v", &json!({}));
    for (objects, expected) in [
        (vec![], "nowhere Missing"),
        (vec![claim("c", &at_once)], "nowhere Unbound"),
        (vec![claim("c", &leaving)], "nowhere Deleting"),
        (vec![claim("c", &lost), there.clone()], "nowhere Lost(\"v\")"),
        (vec![claim("c", &bound())], "nowhere Lost(\"v\")"),
        (vec![claim("c", &half), there.clone()], "nowhere Unbound"),
        (vec![claim("c", &bound()), there], "bound []"),
    ] {
        assert_eq!(told(&[&objects[..], &[naming("c")]].concat()), expected, "{objects:?}");
    }
}

#[test]
fn a_claim_that_is_made_for_a_pod_is_its_own() {
    let own = pod(&json!({ "name": "v", "ephemeral": { "volumeClaimTemplate": {} } }));
    let owned_by = |uid: &str| {
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid,
                            "controller": true });
        claim("p-v", &json!({ "metadata": { "ownerReferences": [owner] } }))
    };
    assert_eq!(told(std::slice::from_ref(&own)), "nowhere NotMade");
    assert_eq!(told(&[owned_by("another"), own.clone()]), "nowhere NotOwned");
    assert_eq!(told(&[owned_by("p"), own]), "open ");
}

#[test]
fn a_bound_claim_leads_to_where_its_volume_can_be_used() {
    let affinity = json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["a", "b"] }] },
    ] } } } });
    let labels = json!({ "metadata": { "labels": {
        "topology.kubernetes.io/zone": "a__b", "app": "x",
    } } });
    let with = |change: &Value| told(&[volume("v", change), claim("c", &bound()), naming("c")]);
    assert_eq!(with(&affinity), "bound [disk=a|b]");
    assert_eq!(with(&labels), "bound [topology.kubernetes.io/zone=a|b]");
    let alone = json!({ "spec": { "accessModes": ["ReadWriteOncePod"] } });
    let mut claimed = claim("c", &bound());
    merge(&mut claimed, &alone);
    assert_eq!(told(&[volume("v", &json!({})), claimed, naming("c")]), "alone bound []");
}

#[test]
fn an_open_claim_gets_a_volume_that_fits_the_smallest_first() {
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
    let with = |change: &Value| told(&[&objects[..], &[claim("c", change), naming("c")]].concat());
    assert_eq!(with(&json!({})), "open fast,fits,large");
    let selector = json!({ "spec": { "selector": { "matchLabels": { "tier": "fast" } } } });
    assert_eq!(with(&selector), "open fast");
}

#[test]
fn a_volume_that_is_kept_for_a_claim_is_the_one() {
    let kept = |uid: &str| {
        let claim = json!({ "namespace": "ns", "name": "c", "uid": uid });
        volume("z", &json!({ "spec": { "claimRef": claim } }))
    };
    let other = volume("a", &json!({}));
    let with = |kept: Value| told(&[kept, other.clone(), claim("c", &json!({})), naming("c")]);
    assert_eq!(with(kept("c")), "open z");
    assert_eq!(with(kept("of another")), "open a");
}

#[test]
fn a_class_that_makes_volumes_makes_them_where_it_may_or_where_it_was_told() {
    let terms = json!([{ "matchLabelExpressions": [{ "key": "zone", "values": ["a", "b"] }] }]);
    let made = class("made", "csi.example.com", &json!({ "allowedTopologies": terms }));
    let of_class = json!({ "spec": { "storageClassName": "made" } });
    let open = claim("c", &of_class);
    assert_eq!(told(&[made.clone(), open, naming("c")]), "open  made [zone=a|b]");
    let mut told_where = claim("c", &of_class);
    let selected = json!({ "volume.kubernetes.io/selected-node": "n1" });
    merge(&mut told_where, &json!({ "metadata": { "annotations": selected } }));
    assert_eq!(told(&[made, told_where, naming("c")]), "open  made [metadata.name=n1]");
}

#[test]
fn a_pod_that_has_its_node_keeps_others_from_what_one_may_have() {
    let mut on_node = naming("c");
    on_node["spec"]["nodeName"] = json!("n1");
    let mirror = mirror(&[claim("c", &json!({})), on_node]);
    let (key, pod) = mirror.pods.first_key_value().unwrap();
    assert_eq!(mirror.volumes.of_pod(key, pod), []);
}
