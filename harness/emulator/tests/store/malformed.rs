//! Property tests with malformed bodies: the store never panics, and stored objects can be read and
//! written again unchanged.

use proptest::prelude::*;
use schedlab_api::{Value, json};
use schedlab_emulator::store::{DeleteOptions, Op, PatchBody, Subresource};

use crate::test_store::{TestStore, pod};

const FIELDS: [&str; 24] = [
    "metadata",
    "name",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "spec",
    "status",
    "containers",
    "initContainers",
    "resources",
    "requests",
    "limits",
    "template",
    "selector",
    "matchLabels",
    "replicas",
    "tolerations",
    "affinity",
    "schedulingGates",
    "versions",
    "names",
    "subresources",
    "conditions",
];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9./_-]{0,12}".prop_map(Value::from),
        Just("9Ei".into()),
    ]
}

fn anything() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(&FIELDS[..]), inner, 0..6).prop_map(
                |fields| Value::Object(
                    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
                )
            ),
        ]
    })
}

/// Valid bodies, of which every field is replaced.
fn sound() -> Vec<Value> {
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "restartPolicy": "Always",
            "containers": [{
                "name": "main",
                "image": "busybox",
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}},
                "ports": [{"containerPort": 80}],
                "readinessProbe": {"httpGet": {"port": 80}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        },
    });
    let mut pod = template.clone();
    pod["kind"] = "Pod".into();
    pod["metadata"] = json!({"name": "some", "finalizers": ["a.io/b"], "ownerReferences":
        [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}]});
    let workload = |version: &str, kind: &str| {
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": "some"}, "spec":
            {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}})
    };
    let mut job = workload("batch/v1", "Job");
    job["spec"] = json!({"template": template, "parallelism": 1});
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    vec![
        pod,
        workload("apps/v1", "Deployment"),
        workload("apps/v1", "StatefulSet"),
        job,
        json!({"kind": "Node", "metadata": {"name": "some"},
            "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]},
            "status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}}),
        json!({"kind": "Service", "metadata": {"name": "some"}, "spec":
            {"ports": [{"port": 80}], "clusterIP": "None"}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "some"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "some"},
            "regarding": {"namespace": "default"}, "type": "Normal", "reason": "r", "action": "a",
            "reportingController": "c", "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z"}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gangs.lab.dev"},
            "spec": {"group": "lab.dev", "scope": "Namespaced",
                "names": {"plural": "gangs", "kind": "Gang", "shortNames": ["g"]},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas"}},
                    "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a"}],
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec":
                        {"type": "object", "x-kubernetes-validations": [{"rule": "size(self.a) > 0"}],
                            "properties": {"a": {"type": "array",
                            "x-kubernetes-list-type": "set", "items": {"type": "string", "default": "x",
                            "enum": ["x"], "pattern": "x"}}}}}}}}]}}),
    ]
}

/// All JSON pointers into a value.
fn json_pointers(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                json_pointers(field, &format!("{path}/{}", name.replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                json_pointers(item, &format!("{path}/{index}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A valid body with an arbitrary value at a random JSON pointer.
fn body() -> impl Strategy<Value = (String, String, Value)> {
    (0..sound().len(), any::<prop::sample::Index>(), anything()).prop_map(|(which, index, odd)| {
        let mut body = sound().swap_remove(which);
        let version = body["apiVersion"].as_str().unwrap_or("v1").to_owned();
        let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let kind = body["kind"].as_str().expect("a kind").to_owned();
        let mut found = Vec::new();
        json_pointers(&body, "", &mut found);
        let pointer: &String = index.get(&found);
        *body.pointer_mut(pointer).expect("the pointer exists in this body") = odd;
        (group, kind, body)
    })
}

proptest! {
    #[test]
    fn any_body_gets_a_response_and_rewriting_the_stored_object_changes_nothing(((group, kind, body), patch) in (body(), anything())) {
        let mut fixture = TestStore::new();
        let key = fixture.key(&group, &kind, "");
        if let Ok(written) = fixture.write(key, Op::Create(body)) {
            let key = fixture.key(&group, &kind, written.object["metadata"]["name"].as_str().unwrap());
            let before = fixture.store.revision();
            let same = Value::clone(&fixture.store.get(&home(&fixture, &key)).unwrap());
            let kind = fixture.store.kinds().get(&key.resource).unwrap().clone();
            let shown = Value::clone(&kind.in_version("v1", &same.into()));
            fixture.update(key.clone(), shown).unwrap();
            prop_assert_eq!(fixture.store.revision(), before);
            drop(fixture.merge(key.clone(), patch));
            drop(fixture.write(key, Op::Delete(DeleteOptions::default())));
        }
    }

    #[test]
    fn any_patch_and_status_of_a_pod_gets_a_response(patch in anything(), status in anything()) {
        let mut fixture = TestStore::new();
        fixture.create(pod("a")).unwrap();
        let key = fixture.key("", "Pod", "a");
        drop(fixture.merge(key.clone(), patch.clone()));
        for body in [
            PatchBody::Json(patch.clone()),
            PatchBody::Strategic(patch.clone()),
            PatchBody::Apply { object: patch.clone(), force: true },
        ] {
            drop(fixture.write(key.clone(), Op::Patch(Subresource::None, body)));
        }
        drop(fixture.write(key.clone(), Op::Bind(patch.clone())));
        drop(fixture.write(key.clone(), Op::Evict(patch)));
        if fixture.store.get(&key).is_ok() {
            drop(fixture.set_status(key, status));
        }
    }
}

#[test]
fn the_bodies_are_sound_to_begin_with() {
    let mut fixture = TestStore::new();
    for body in sound() {
        assert_eq!(crate::test_store::outcome(fixture.create(body.clone())), "accepted", "{body}");
    }
}

fn home(fixture: &TestStore, key: &schedlab_emulator::store::Key) -> schedlab_emulator::store::Key {
    let mut key = key.clone();
    key.resource =
        fixture.store.kinds().get(&key.resource).expect("a known kind").storage_resource();
    key
}
