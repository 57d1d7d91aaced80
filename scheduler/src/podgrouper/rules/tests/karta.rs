//! Tests of kinds that Kartas describe.

use insta::assert_snapshot;
use schedlab_api::{Value, json};

use super::{super::OwnerLink, group_text_among, link};
use crate::{
    karta::{KartaRecord, Kartas},
    malformed_tests::{all_pointers, unexpected_values},
};

/// A Karta for `PyFlow` of `jobs.example.com/v1` with this gang scheduling section.
fn karta(gang: &Value) -> Value {
    let role = |name: &str| {
        json!({
            "name": name,
            "ownerRef": "pyflow",
            "specDefinition": { "podTemplateSpecPath": format!(".spec.{name}.template") },
            "scaleDefinition": { "replicasPath": format!(".spec.{name}.replicas") },
            "podSelector": { "componentTypeSelector": {
                "keyPath": ".metadata.labels.role", "value": name } },
        })
    };
    json!({
        "metadata": { "name": "pyflow", "uid": "u7", "labels": {
            "run.ai/karta-group": "jobs.example.com",
            "run.ai/karta-version": "v1",
            "run.ai/karta-kind": "PyFlow",
        } },
        "spec": {
            "structureDefinition": {
                "rootComponent": {
                    "name": "pyflow",
                    "kind": { "group": "jobs.example.com", "version": "v1", "kind": "PyFlow" },
                    "statusDefinition": { "statusMappings": {} },
                },
                "childComponents": [role("master"), role("worker")],
            },
            "optimizationInstructions": { "gangScheduling": gang },
        },
    })
}

fn flow() -> Value {
    json!({
        "metadata": {
            "labels": { "kai.scheduler/queue": "a", "priorityClassName": "build" },
            "annotations": { "kai.scheduler/topology": "hall",
                             "kai.scheduler/topology-required-placement": "row" },
        },
        "spec": { "master": { "replicas": 1 }, "worker": { "replicas": 2 } },
    })
}

fn kartas(objects: &[Value]) -> Kartas {
    let mut kartas = Kartas::default();
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().into();
        kartas.insert_or_remove(name, KartaRecord::from_object(object));
    }
    kartas
}

fn karta_group_text(labels: &Value, chain: &[OwnerLink], objects: &[Value]) -> String {
    let metadata = json!({ "labels": labels });
    group_text_among(&kartas(objects), &json!(null), &metadata, chain, &[], None)
}

/// The group of a worker of a `PyFlow` with this Karta.
fn worker(karta: Value, flow: Value) -> String {
    let labels = json!({ "role": "worker", "run": "r1" });
    karta_group_text(&labels, &[link("jobs.example.com/PyFlow", flow)], &[karta])
}

/// Puts a value at a JSON pointer.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    let last = &*last.replace("~1", "/");
    match last.parse::<usize>() {
        Ok(at) => parent[at] = value,
        Err(_) => parent[last] = value,
    }
    object
}

const CHILDREN: &str = "/spec/structureDefinition/childComponents";

fn whole(sub_groups: &Value) -> Value {
    json!({ "podGroup": { "name": "training", "subGroups": sub_groups } })
}

#[test]
fn components_become_sub_groups_with_their_initial_replicas() {
    let levels = |topology: &str| {
        json!({ "topologyName": topology, "requiredTopologyLevel": "zone",
                "preferredTopologyLevel": "rack" })
    };
    let mut gang = whole(&json!([
        { "componentName": "master" },
        { "componentName": "worker", "topology": levels("gpus") },
    ]));
    assert_snapshot!(worker(karta(&gang), flow()), @r#"
    pg-u1-training of PyFlow min=2 parts queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
      {"minMember":1,"name":"master"}
      {"minMember":2,"name":"worker","topologyConstraint":{"preferredTopologyLevel":"rack","requiredTopologyLevel":"zone","topology":"gpus"}}
      the pod: worker
    "#);
    gang["podGroup"]["topology"] = levels("racks");
    assert_snapshot!(worker(karta(&gang), flow()), @r#"
    pg-u1-training of PyFlow min=2 parts queue=a class=build
      within {"preferredTopologyLevel":"rack","requiredTopologyLevel":"zone","topology":"racks"}
      {"minMember":1,"name":"master"}
      {"minMember":2,"name":"worker","topologyConstraint":{"preferredTopologyLevel":"rack","requiredTopologyLevel":"zone","topology":"gpus"}}
      the pod: worker
    "#);
    let chain = [link("StatefulSet", json!({})), link("jobs.example.com/PyFlow", flow())];
    assert_snapshot!(karta_group_text(&json!({ "role": "other" }), &chain, &[karta(&gang)]), @r#"
    pg-u1-training of PyFlow min=2 parts queue=a class=build
      within {"preferredTopologyLevel":"rack","requiredTopologyLevel":"zone","topology":"racks"}
      {"minMember":1,"name":"master"}
      {"minMember":2,"name":"worker","topologyConstraint":{"preferredTopologyLevel":"rack","requiredTopologyLevel":"zone","topology":"gpus"}}
    "#);
}

#[test]
fn a_group_without_sub_groups_counts_all_pods() {
    assert_snapshot!(worker(karta(&whole(&json!([]))), flow()), @r#"
    pg-u1-training of PyFlow min=3 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    let root = whole(&json!([{ "componentName": "pyflow" }]));
    assert_snapshot!(worker(karta(&root), flow()), @r#"
    pg-u1-training of PyFlow min=1 parts queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
      {"minMember":3,"name":"pyflow"}
      the pod: pyflow
    "#);
}

#[test]
fn replicas_multiply_down_the_component_tree_and_min_replicas_wins() {
    let of = |root: Value, flow: Value| {
        let karta = karta(&whole(&json!([])));
        let karta = with(karta, "/spec/structureDefinition/rootComponent/scaleDefinition", root);
        let worker_scale =
            json!({ "replicasPath": ".spec.worker.replicas", "minReplicasPath": ".spec.least" });
        worker(with(karta, &format!("{CHILDREN}/1/scaleDefinition"), worker_scale), flow)
    };
    let least = |least: Value| with(flow(), "/spec/least", least);
    assert_snapshot!(of(json!({ "replicasPath": "3" }), flow()), @r#"
    pg-u1-training of PyFlow min=9 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    assert_snapshot!(of(Value::Null, flow()), @r#"
    pg-u1-training of PyFlow min=3 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    assert_snapshot!(of(json!({ "replicasPath": "2147483647" }), flow()), @"spec.optimizationInstructions.gangScheduling.podGroup.name of Karta pyflow: got more, expected at most 2147483647 pods");
    assert_snapshot!(of(Value::Null, least(json!("1"))), @r#"
    pg-u1-training of PyFlow min=2 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    assert_snapshot!(of(Value::Null, least(json!(0))), @r#"
    pg-u1-training of PyFlow min=3 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
}

#[test]
fn without_scales_each_component_with_pods_counts_once() {
    let bare = |karta: Value| {
        let karta = with(karta, &format!("{CHILDREN}/0/scaleDefinition"), Value::Null);
        with(karta, &format!("{CHILDREN}/1/scaleDefinition"), Value::Null)
    };
    assert_snapshot!(worker(bare(karta(&whole(&json!([])))), flow()), @r#"
    pg-u1-training of PyFlow min=2 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    let instances = with(
        bare(karta(&whole(&json!([])))),
        &format!("{CHILDREN}/1/instanceIdPath"),
        json!(".spec.pools | keys[]"),
    );
    let instances = with(
        instances,
        &format!("{CHILDREN}/1/podSelector/componentInstanceSelector"),
        json!({ "idPath": ".metadata.labels.pool" }),
    );
    let pools = with(flow(), "/spec/pools", json!({ "x": 1, "y": 2, "z": 3 }));
    assert_snapshot!(worker(instances, pools), @r#"
    pg-u1-training of PyFlow min=4 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
}

fn members(members: &Value) -> Value {
    json!({ "podGroups": [{ "name": "job", "members": members }] })
}

#[test]
fn pods_with_equal_group_by_keys_are_one_group() {
    let key = json!([".metadata.labels.run"]);
    let of_root = members(&json!([{ "componentName": "pyflow", "groupByKeyPaths": key }]));
    assert_snapshot!(worker(karta(&of_root), flow()), @r#"
    pg-u1-r1 of PyFlow min=3 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    let own = members(&json!([
        { "componentName": "pyflow" },
        { "componentName": "worker", "groupByKeyPaths": [".metadata.labels.run", "2"] },
    ]));
    assert_snapshot!(worker(karta(&own), flow()), @r#"
    pg-u1-r1-2 of PyFlow min=2 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    let filtered = members(&json!([
        { "componentName": "worker", "filters": [".metadata.labels.run == \"r2\""] },
        { "componentName": "pyflow", "filters": ["true", ".metadata.labels.role != null"] },
    ]));
    assert_snapshot!(worker(karta(&filtered), flow()), @r#"
    pg-u1 of PyFlow min=3 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    let both = with(of_root, "/podGroup", whole(&json!([]))["podGroup"].clone());
    assert_snapshot!(worker(karta(&both), flow()), @r#"
    pg-u1-training of PyFlow min=3 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
}

#[test]
fn a_pod_of_an_instance_counts_only_replicas_of_that_instance() {
    let gang = members(
        &json!([{ "componentName": "worker", "groupByKeyPaths": [".metadata.labels.run"] }]),
    );
    let component = json!({
        "name": "worker",
        "ownerRef": "pyflow",
        "specDefinition": { "podSpecPath": ".spec.pools[].template" },
        "scaleDefinition": { "replicasPath": ".spec.pools[] | .replicas // 1" },
        "instanceIdPath": ".spec.pools[].name",
        "podSelector": { "componentInstanceSelector": { "idPath": ".metadata.labels.run" } },
    });
    let karta = with(karta(&gang), CHILDREN, json!([component]));
    let pools = |pools: Value| with(flow(), "/spec/pools", pools);
    assert_snapshot!(worker(karta.clone(), pools(json!([{ "name": "r1", "replicas": 3 }, { "name": "r2" }]))), @r#"
    pg-u1-r1 of PyFlow min=3 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    assert_snapshot!(worker(karta.clone(), pools(json!([{ "name": "r2" }]))), @"spec.structureDefinition.childComponents[0].podSelector.componentInstanceSelector.idPath of Karta pyflow: got r1, expected an instance of the workload");
    assert_snapshot!(worker(karta.clone(), pools(json!([{ "name": "" }]))), @r#"spec.structureDefinition.childComponents[0].instanceIdPath of Karta pyflow: got "", expected a non-empty string"#);
    let fewer = with(karta, &format!("{CHILDREN}/0/scaleDefinition"), json!({}));
    assert_snapshot!(worker(fewer, pools(json!([{ "name": "r1" }]))), @"spec.structureDefinition.childComponents[0].scaleDefinition of Karta pyflow: got 0 replica counts for 1 instances, expected one count per instance");
}

#[test]
fn a_pod_that_its_karta_cannot_group_gets_the_reason() {
    let all = whole(&json!([]));
    let of_size =
        |replicas: Value| worker(karta(&all), with(flow(), "/spec/worker/replicas", replicas));
    assert_snapshot!(of_size(json!("four")), @r#"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: got "four", expected a whole number up to 2147483647"#);
    assert_snapshot!(of_size(json!(1.5)), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: got 1.5, expected a whole number up to 2147483647");
    assert_snapshot!(of_size(json!(2_147_483_648_u64)), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: got 2147483648, expected a whole number up to 2147483647");
    assert_snapshot!(of_size(json!([2])), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: got a list, expected a whole number up to 2147483647");
    assert_snapshot!(of_size(json!("3")), @r#"
    pg-u1-training of PyFlow min=4 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    assert_snapshot!(of_size(json!(-3)), @r#"
    pg-u1-training of PyFlow min=1 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    let sub_groups = json!([{ "componentName": "worker" }]);
    assert_snapshot!(worker(karta(&whole(&sub_groups)), with(flow(), "/spec/worker", json!({}))), @"spec.optimizationInstructions.gangScheduling.podGroup.subGroups[0].componentName of Karta pyflow: got worker with no replicas, expected a component with at least one replica");
    assert_snapshot!(worker(karta(&whole(&json!([{ "componentName": "boss" }]))), flow()), @"spec.optimizationInstructions.gangScheduling.podGroup.subGroups[0].componentName of Karta pyflow: got boss, expected the name of a component");
    let nowhere = json!([{ "componentName": "worker", "topology": { "topologyName": "racks" } }]);
    assert_snapshot!(worker(karta(&whole(&nowhere)), flow()), @"spec.optimizationInstructions.gangScheduling.podGroup.subGroups[0].topology of Karta pyflow: got no level, expected requiredTopologyLevel, preferredTopologyLevel or both");
    assert_snapshot!(worker(karta(&json!({ "podGroup": { "name": "" } })), flow()), @"spec.optimizationInstructions.gangScheduling.podGroup.name of Karta pyflow: got nothing, expected a name suffix");
    assert_snapshot!(worker(karta(&json!({ "podGroup": { "name": "A b" } })), flow()), @"spec.optimizationInstructions.gangScheduling.podGroup.name of Karta pyflow: got A b, expected letters a-z, digits, - and ., each dot-separated part starting and ending with a letter or digit, in a name of at most 253 characters");
    let by = |key: &str| {
        worker(
            karta(&members(&json!([{ "componentName": "pyflow", "groupByKeyPaths": [key] }]))),
            flow(),
        )
    };
    assert_snapshot!(by(".metadata.labels.nothing"), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths[0] of Karta pyflow: got nothing, expected one string, number or boolean");
    assert_snapshot!(by(".metadata.labels[]"), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths[0] of Karta pyflow: got 2 values, expected one string, number or boolean");
    assert_snapshot!(by(".metadata.labels"), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths[0] of Karta pyflow: got a map, expected one string, number or boolean");
    assert_snapshot!(by(".metadata.name.x"), @r#"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths[0] of Karta pyflow: got cannot index "p" with "x", expected an expression that evaluates without error"#);
    assert_snapshot!(by("\"UPPER\""), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths of Karta pyflow: got UPPER, expected letters a-z, digits, - and ., each dot-separated part starting and ending with a letter or digit, in a name of at most 253 characters");
    let others = members(&json!([{ "componentName": "master" }]));
    assert_snapshot!(worker(karta(&others), flow()), @"pod p: got no member of Karta pyflow for this pod, expected a pod whose component, or an ancestor of it, is a member with matching filters");
    let chain = [link("jobs.example.com/PyFlow", flow())];
    assert_snapshot!(karta_group_text(&json!({}), &chain, &[karta(&others)]), @"pod p: got no component of Karta pyflow for this pod, expected a pod that the podSelector of a component with pods selects");
}

/// As in KAI: it counts as not there.
#[test]
fn a_karta_that_cannot_be_used_groups_nothing() {
    let all = || karta(&whole(&json!([])));
    let wrong = |karta: Value| {
        let text = worker(karta.clone(), flow());
        let mut kartas = kartas(&[karta]);
        let changed = kartas.take_changes();
        let wrong: Vec<String> =
            kartas.invalid_kartas(&changed).map(|(.., wrong)| wrong.to_string()).collect();
        assert!(text.starts_with("pg-pyflow-u1 of PyFlow min=1 queue=a class=build"), "{text}");
        wrong.join("; ")
    };
    let child =
        |field: &str, value: Value| wrong(with(all(), &format!("{CHILDREN}/1/{field}"), value));
    assert_snapshot!(child("scaleDefinition/replicasPath", json!(".spec |")), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: got .spec |, expected a jq expression of at most 4096 bytes");
    assert_snapshot!(child("scaleDefinition/replicasPath", json!("[range(9)]")), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: got range, expected functions and operators of jq that this scheduler supports");
    assert_snapshot!(child("scaleDefinition/replicasPath", json!(3)), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: got 3, expected a jq expression");
    assert_snapshot!(child("podSelector/componentTypeSelector/keyPath", json!("..")), @"spec.structureDefinition.childComponents[1].podSelector.componentTypeSelector.keyPath of Karta pyflow: got .., expected functions and operators of jq that this scheduler supports");
    assert_snapshot!(child("name", json!("master")), @"spec.structureDefinition.childComponents[1].name of Karta pyflow: got master, expected a name that no other component has");
    assert_snapshot!(child("name", json!("")), @"spec.structureDefinition.childComponents[1].name of Karta pyflow: got nothing, expected a name that no other component has");
    assert_snapshot!(child("ownerRef", json!("boss")), @"spec.structureDefinition.childComponents[1].ownerRef of Karta pyflow: got boss, expected another component, from which ownerRefs lead to the rootComponent");
    assert_snapshot!(child("ownerRef", json!("worker")), @"spec.structureDefinition.childComponents[1].ownerRef of Karta pyflow: got a cycle, expected another component, from which ownerRefs lead to the rootComponent");
    assert_snapshot!(child("instanceIdPath", json!(".x")), @"spec.structureDefinition.childComponents[1].podSelector.componentInstanceSelector of Karta pyflow: got nothing, expected an idPath, because instanceIdPath is set");
    assert_snapshot!(child("podSelector/componentInstanceSelector", json!({ "idPath": ".x" })), @"spec.structureDefinition.childComponents[1].instanceIdPath of Karta pyflow: got nothing, expected a jq expression, because podSelector.componentInstanceSelector is set");
    assert_snapshot!(child("specDefinition/podSpecPath", json!(".x")), @"spec.structureDefinition.childComponents[1].specDefinition of Karta pyflow: got several pod definitions, expected one");
    let root = |field: &str, value: Value| {
        wrong(with(all(), &format!("/spec/structureDefinition/rootComponent/{field}"), value))
    };
    assert_snapshot!(root("statusDefinition", Value::Null), @"spec.structureDefinition.rootComponent.statusDefinition of Karta pyflow: got nothing, expected a status definition");
    assert_snapshot!(root("ownerRef", json!("x")), @r#"spec.structureDefinition.rootComponent.ownerRef of Karta pyflow: got "x", expected nothing"#);
    let member = karta(&members(&json!([{ "componentName": "boss" }])));
    assert_snapshot!(wrong(member), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].componentName of Karta pyflow: got boss, expected the name of a component");
    let filter = karta(&members(&json!([{ "componentName": "worker", "filters": ["env"] }])));
    assert_snapshot!(wrong(filter), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].filters[0] of Karta pyflow: got env, expected functions and operators of jq that this scheduler supports");
}

#[test]
fn kartas_of_other_kinds_or_being_deleted_group_nothing() {
    let all = || karta(&whole(&json!([])));
    let alone = |karta: Value| {
        assert!(KartaRecord::from_object(&karta).is_none(), "{karta}");
        worker(karta, flow())
    };
    let other = with(all(), "/metadata/labels/run.ai~1karta-kind", json!("Other"));
    assert_snapshot!(worker(other, flow()), @r#"
    pg-pyflow-u1 of PyFlow min=1 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    assert_snapshot!(alone(with(all(), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))), @r#"
    pg-pyflow-u1 of PyFlow min=1 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    assert_snapshot!(alone(karta(&json!({}))), @r#"
    pg-pyflow-u1 of PyFlow min=1 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    assert_snapshot!(alone(with(all(), "/spec/optimizationInstructions", json!({}))), @r#"
    pg-pyflow-u1 of PyFlow min=1 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
}

#[test]
fn two_kartas_of_the_same_kind_are_both_ignored() {
    let both = [
        karta(&whole(&json!([]))),
        with(karta(&whole(&json!([]))), "/metadata/name", json!("other")),
    ];
    let chain = [link("jobs.example.com/PyFlow", flow())];
    assert_snapshot!(karta_group_text(&json!({}), &chain, &both), @r#"
    pg-pyflow-u1 of PyFlow min=1 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    let mut kartas = kartas(&both);
    let changed = kartas.take_changes();
    let wrong = kartas.invalid_kartas(&changed).map(|(name, _, wrong)| format!("{name}: {wrong}"));
    assert_snapshot!(wrong.collect::<Vec<_>>().join("\n"), @r"
    other: spec.structureDefinition.rootComponent.kind: got PyFlow of jobs.example.com/v1, also described by Karta pyflow, expected a kind that no other Karta with gangScheduling describes
    pyflow: spec.structureDefinition.rootComponent.kind: got PyFlow of jobs.example.com/v1, also described by Karta other, expected a kind that no other Karta with gangScheduling describes
    ");
    kartas.insert_or_remove("other".into(), None);
    assert_eq!(kartas.invalid_kartas(&changed).count(), 0);
}

#[test]
fn built_in_groupings_take_precedence_over_kartas() {
    let of = |kind: &str| {
        let (group, name) = kind.split_once('/').unwrap();
        let mut karta = karta(&whole(&json!([])));
        for (part, value) in [("group", group), ("kind", name)] {
            karta["metadata"]["labels"][format!("run.ai/karta-{part}").as_str()] = json!(value);
            karta["spec"]["structureDefinition"]["rootComponent"]["kind"][part] = json!(value);
        }
        karta_group_text(&json!({}), &[link(kind, flow())], &[karta])
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    assert_snapshot!(of("kubeflow.org/Notebook"), @"pg-notebook-u1 of Notebook min=1 queue=a class=build");
    assert_snapshot!(of("apps/StatefulSet"), @"pg-statefulset-u1 of StatefulSet min=1 queue=a class=build");
    assert_snapshot!(of("apps/DaemonSet"), @"pg-u1-training of DaemonSet min=3 queue=a class=build");
    assert_snapshot!(of("sparkoperator.k8s.io/SparkApplication"), @"pg-u1-training of SparkApplication min=3 queue=a class=build");
}

#[test]
fn kartas_do_not_apply_to_missing_or_skipped_owners() {
    let all = karta(&whole(&json!([])));
    assert_snapshot!(worker(all.clone(), Value::Null), @"pg-pyflow-u1 of PyFlow min=1 queue=default-queue class=train");
    let runner = json!({ "metadata": { "labels": { "priorityClassName": "inference" } } });
    let flow = json!({ "spec": { "worker": { "replicas": 2 } } });
    let chain = [link("jobs.example.com/PyFlow", flow), link("run.ai/WorkloadRunner", runner)];
    assert_snapshot!(karta_group_text(&json!({}), &chain, &[all]), @"pg-u1-training of PyFlow min=2 queue=default-queue class=inference");
}

/// A Karta with all fields that the scheduler reads.
fn full(gang: &Value) -> Value {
    let worker = json!({
        "name": "worker",
        "ownerRef": "pyflow",
        "specDefinition": { "podSpecPath": ".spec.pools[].template" },
        "scaleDefinition": { "replicasPath": ".spec.pools[].n", "minReplicasPath": ".spec.least",
                             "maxReplicasPath": ".spec.most" },
        "instanceIdPath": ".spec.pools[].name",
        "podSelector": {
            "componentTypeSelector": { "keyPath": ".metadata.labels.role", "value": "worker" },
            "componentInstanceSelector": { "idPath": ".metadata.labels.run" },
        },
    });
    with(karta(gang), CHILDREN, json!([worker]))
}

#[test]
fn any_value_in_any_field_groups_the_pod_or_yields_an_error() {
    let levels = json!({ "topologyName": "hall", "requiredTopologyLevel": "row" });
    let sub_group = json!({ "componentName": "worker", "topology": levels });
    let group = json!({ "name": "all", "topology": levels, "subGroups": [sub_group] });
    let member = json!({ "componentName": "worker", "groupByKeyPaths": [".metadata.labels.run"],
                         "filters": ["true"] });
    let whole = full(&json!({ "podGroup": group }));
    let by_words = full(&members(&json!([member])));
    let pools = json!([{ "name": "r1", "n": 2 }]);
    let flow = with(flow(), "/spec", json!({ "pools": pools, "least": 1, "most": 3 }));
    let is_fine = |text: &str| text.starts_with("pg-") || text.contains(", expected ");
    let gang = "/spec/optimizationInstructions";
    for (karta, part) in [(&whole, "/spec"), (&by_words, gang)] {
        let labels = json!({ "labels": { "role": "worker", "run": "r1" } });
        let kartas = kartas(std::slice::from_ref(karta));
        let of = |flow: Value| {
            let chain = [link("jobs.example.com/PyFlow", flow)];
            group_text_among(&kartas, &json!(null), &labels, &chain, &[], None)
        };
        assert!(of(flow.clone()).starts_with("pg-u1-"));
        for (pointer, odd_value) in odd_variants(&flow) {
            let text = of(with(flow.clone(), &pointer, odd_value.clone()));
            assert!(is_fine(&text), "{pointer} = {odd_value}: {text}");
        }
        for (pointer, odd_value) in odd_variants(karta).filter(|(place, _)| place.starts_with(part))
        {
            let text = worker(with(karta.clone(), &pointer, odd_value.clone()), flow.clone());
            assert!(is_fine(&text), "{pointer} = {odd_value}: {text}");
        }
    }
}

fn odd_variants(of: &Value) -> impl Iterator<Item = (String, Value)> {
    let pointers = all_pointers(of, "").into_iter().filter(|pointer| !pointer.is_empty());
    pointers.flat_map(|pointer| {
        unexpected_values().into_iter().map(move |odd_value| (pointer.clone(), odd_value))
    })
}
