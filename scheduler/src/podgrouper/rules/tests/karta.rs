//! Kinds that Kartas describe.

use insta::assert_snapshot;
use schedlab_json::{Value, json};

use super::{super::Link, link, told_among};
use crate::{
    karta::{KartaRecord, Kartas},
    malformed_tests::{oddities, places},
};

/// A Karta of `PyFlow` of `jobs.example.com/v1`, whose gangs are these.
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
        kartas.put(name, KartaRecord::read(object));
    }
    kartas
}

fn told(labels: &Value, chain: &[Link], objects: &[Value]) -> String {
    let metadata = json!({ "labels": labels });
    told_among(&kartas(objects), &json!(null), (&metadata, chain), (&[], None))
}

/// A worker of a `PyFlow`, where this Karta is there.
fn worker(karta: Value, flow: Value) -> String {
    let labels = json!({ "role": "worker", "run": "r1" });
    told(&labels, &[link("jobs.example.com/PyFlow", flow)], &[karta])
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
fn components_are_sub_groups_with_what_they_start_with() {
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
    assert_snapshot!(told(&json!({ "role": "other" }), &chain, &[karta(&gang)]), @r#"
    pg-u1-training of PyFlow min=2 parts queue=a class=build
      within {"preferredTopologyLevel":"rack","requiredTopologyLevel":"zone","topology":"racks"}
      {"minMember":1,"name":"master"}
      {"minMember":2,"name":"worker","topologyConstraint":{"preferredTopologyLevel":"rack","requiredTopologyLevel":"zone","topology":"gpus"}}
    "#);
}

#[test]
fn a_group_without_sub_groups_is_of_all_pods() {
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
fn replicas_multiply_on_the_way_down_and_the_least_counts() {
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
    assert_snapshot!(of(json!({ "replicasPath": "2147483647" }), flow()), @"spec.optimizationInstructions.gangScheduling.podGroup.name of Karta pyflow: found a workload with more, allowed: at most 2147483647 pods");
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
fn pods_for_which_expressions_find_the_same_are_a_group() {
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
fn a_pod_of_one_instance_counts_those_of_that_instance() {
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
    assert_snapshot!(worker(karta.clone(), pools(json!([{ "name": "r2" }]))), @"spec.structureDefinition.childComponents[0].podSelector.componentInstanceSelector.idPath of Karta pyflow: found r1, allowed: an instance that the workload has");
    assert_snapshot!(worker(karta.clone(), pools(json!([{ "name": "" }]))), @r#"spec.structureDefinition.childComponents[0].instanceIdPath of Karta pyflow: found "", allowed: a text that is not empty"#);
    let fewer = with(karta, &format!("{CHILDREN}/0/scaleDefinition"), json!({}));
    assert_snapshot!(worker(fewer, pools(json!([{ "name": "r1" }]))), @"spec.structureDefinition.childComponents[0].scaleDefinition of Karta pyflow: found 0, while there are 1 instances, allowed: as many as instances");
}

#[test]
fn a_pod_that_its_karta_does_not_explain_is_told_why() {
    let all = whole(&json!([]));
    let of_size =
        |replicas: Value| worker(karta(&all), with(flow(), "/spec/worker/replicas", replicas));
    assert_snapshot!(of_size(json!("four")), @r#"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: found "four", allowed: a whole number up to 2147483647"#);
    assert_snapshot!(of_size(json!(1.5)), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: found 1.5, allowed: a whole number up to 2147483647");
    assert_snapshot!(of_size(json!(2_147_483_648_u64)), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: found 2147483648, allowed: a whole number up to 2147483647");
    assert_snapshot!(of_size(json!([2])), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: found a list, allowed: a whole number up to 2147483647");
    assert_snapshot!(of_size(json!("3")), @r#"
    pg-u1-training of PyFlow min=4 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    assert_snapshot!(of_size(json!(-3)), @r#"
    pg-u1-training of PyFlow min=1 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    let sub_groups = json!([{ "componentName": "worker" }]);
    assert_snapshot!(worker(karta(&whole(&sub_groups)), with(flow(), "/spec/worker", json!({}))), @"spec.optimizationInstructions.gangScheduling.podGroup.subGroups[0].componentName of Karta pyflow: found worker with no replicas, allowed: a component with at least one replica");
    assert_snapshot!(worker(karta(&whole(&json!([{ "componentName": "boss" }]))), flow()), @"spec.optimizationInstructions.gangScheduling.podGroup.subGroups[0].componentName of Karta pyflow: found boss, allowed: the name of a component");
    let nowhere = json!([{ "componentName": "worker", "topology": { "topologyName": "racks" } }]);
    assert_snapshot!(worker(karta(&whole(&nowhere)), flow()), @"spec.optimizationInstructions.gangScheduling.podGroup.subGroups[0].topology of Karta pyflow: found no level, allowed: requiredTopologyLevel, preferredTopologyLevel or both");
    assert_snapshot!(worker(karta(&json!({ "podGroup": { "name": "" } })), flow()), @"spec.optimizationInstructions.gangScheduling.podGroup.name of Karta pyflow: found nothing, allowed: a part of a name");
    assert_snapshot!(worker(karta(&json!({ "podGroup": { "name": "A b" } })), flow()), @"spec.optimizationInstructions.gangScheduling.podGroup.name of Karta pyflow: found A b, allowed: words of a-z, 0-9, - and ., which begin and end with a letter or digit, and make a name of at most 253 characters");
    let by = |key: &str| {
        worker(
            karta(&members(&json!([{ "componentName": "pyflow", "groupByKeyPaths": [key] }]))),
            flow(),
        )
    };
    assert_snapshot!(by(".metadata.labels.nothing"), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths[0] of Karta pyflow: found nothing, allowed: one text, number, true or false");
    assert_snapshot!(by(".metadata.labels[]"), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths[0] of Karta pyflow: found 2 values, allowed: one text, number, true or false");
    assert_snapshot!(by(".metadata.labels"), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths[0] of Karta pyflow: found a map, allowed: one text, number, true or false");
    assert_snapshot!(by(".metadata.name.x"), @r#"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths[0] of Karta pyflow: found cannot index "p" with "x", allowed: an expression that holds for its kind"#);
    assert_snapshot!(by("\"UPPER\""), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths of Karta pyflow: found UPPER, allowed: words of a-z, 0-9, - and ., which begin and end with a letter or digit, and make a name of at most 253 characters");
    let others = members(&json!([{ "componentName": "master" }]));
    assert_snapshot!(worker(karta(&others), flow()), @"pod p: found no member of Karta pyflow for it, allowed: a pod whose component, or one above it, is a member that takes it");
    let chain = [link("jobs.example.com/PyFlow", flow())];
    assert_snapshot!(told(&json!({}), &chain, &[karta(&others)]), @"pod p: found no component of Karta pyflow for it, allowed: a pod that the podSelector of a component with pods describes");
}

/// As in KAI: it counts as not there.
#[test]
fn a_karta_that_cannot_be_used_groups_nothing() {
    let all = || karta(&whole(&json!([])));
    let wrong = |karta: Value| {
        let told = worker(karta.clone(), flow());
        let mut kartas = kartas(&[karta]);
        let changed = kartas.take_changed();
        let wrong: Vec<String> =
            kartas.wrong(&changed).map(|(.., wrong)| wrong.to_string()).collect();
        assert!(told.starts_with("pg-pyflow-u1 of PyFlow min=1 queue=a class=build"), "{told}");
        wrong.join("; ")
    };
    let child =
        |field: &str, value: Value| wrong(with(all(), &format!("{CHILDREN}/1/{field}"), value));
    assert_snapshot!(child("scaleDefinition/replicasPath", json!(".spec |")), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: found .spec |, allowed: a jq expression of at most 4096 bytes");
    assert_snapshot!(child("scaleDefinition/replicasPath", json!("[range(9)]")), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: found range, allowed: functions and operators of jq that this scheduler knows");
    assert_snapshot!(child("scaleDefinition/replicasPath", json!(3)), @"spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta pyflow: found 3, allowed: a jq expression");
    assert_snapshot!(child("podSelector/componentTypeSelector/keyPath", json!("..")), @"spec.structureDefinition.childComponents[1].podSelector.componentTypeSelector.keyPath of Karta pyflow: found .., allowed: functions and operators of jq that this scheduler knows");
    assert_snapshot!(child("name", json!("master")), @"spec.structureDefinition.childComponents[1].name of Karta pyflow: found master, allowed: a name that no other component has");
    assert_snapshot!(child("name", json!("")), @"spec.structureDefinition.childComponents[1].name of Karta pyflow: found nothing, allowed: a name that no other component has");
    assert_snapshot!(child("ownerRef", json!("boss")), @"spec.structureDefinition.childComponents[1].ownerRef of Karta pyflow: found boss, allowed: the name of another component that leads to the root");
    assert_snapshot!(child("ownerRef", json!("worker")), @"spec.structureDefinition.childComponents[1].ownerRef of Karta pyflow: found a circle, allowed: the name of another component that leads to the root");
    assert_snapshot!(child("instanceIdPath", json!(".x")), @"spec.structureDefinition.childComponents[1].podSelector.componentInstanceSelector of Karta pyflow: found nothing, allowed: an idPath beside instanceIdPath");
    assert_snapshot!(child("podSelector/componentInstanceSelector", json!({ "idPath": ".x" })), @"spec.structureDefinition.childComponents[1].instanceIdPath of Karta pyflow: found nothing, allowed: a jq expression beside podSelector.componentInstanceSelector");
    assert_snapshot!(child("specDefinition/podSpecPath", json!(".x")), @"spec.structureDefinition.childComponents[1].specDefinition of Karta pyflow: found several definitions of pods, allowed: one");
    let root = |field: &str, value: Value| {
        wrong(with(all(), &format!("/spec/structureDefinition/rootComponent/{field}"), value))
    };
    assert_snapshot!(root("statusDefinition", Value::Null), @"spec.structureDefinition.rootComponent.statusDefinition of Karta pyflow: found nothing, allowed: a definition of its status");
    assert_snapshot!(root("ownerRef", json!("x")), @r#"spec.structureDefinition.rootComponent.ownerRef of Karta pyflow: found "x", allowed: nothing"#);
    let member = karta(&members(&json!([{ "componentName": "boss" }])));
    assert_snapshot!(wrong(member), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].componentName of Karta pyflow: found boss, allowed: the name of a component");
    let filter = karta(&members(&json!([{ "componentName": "worker", "filters": ["env"] }])));
    assert_snapshot!(wrong(filter), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].filters[0] of Karta pyflow: found env, allowed: functions and operators of jq that this scheduler knows");
}

#[test]
fn kartas_that_nobody_is_to_find_group_nothing() {
    let all = || karta(&whole(&json!([])));
    let alone = |karta: Value| {
        assert!(KartaRecord::read(&karta).is_none(), "{karta}");
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
fn of_two_kartas_of_a_kind_none_counts() {
    let both = [
        karta(&whole(&json!([]))),
        with(karta(&whole(&json!([]))), "/metadata/name", json!("other")),
    ];
    let chain = [link("jobs.example.com/PyFlow", flow())];
    assert_snapshot!(told(&json!({}), &chain, &both), @r#"
    pg-pyflow-u1 of PyFlow min=1 queue=a class=build
      within {"requiredTopologyLevel":"row","topology":"hall"}
    "#);
    let mut kartas = kartas(&both);
    let changed = kartas.take_changed();
    let wrong = kartas.wrong(&changed).map(|(name, _, wrong)| format!("{name}: {wrong}"));
    assert_snapshot!(wrong.collect::<Vec<_>>().join("\n"), @r"
    other: spec.structureDefinition.rootComponent.kind: found PyFlow of jobs.example.com/v1, as in Karta pyflow, allowed: a kind that no other Karta with gangScheduling describes
    pyflow: spec.structureDefinition.rootComponent.kind: found PyFlow of jobs.example.com/v1, as in Karta other, allowed: a kind that no other Karta with gangScheduling describes
    ");
    kartas.put("other".into(), None);
    assert_eq!(kartas.wrong(&changed).count(), 0);
}

#[test]
fn kinds_that_the_grouper_knows_need_no_karta() {
    let of = |kind: &str| {
        let (group, name) = kind.split_once('/').unwrap();
        let mut karta = karta(&whole(&json!([])));
        for (part, value) in [("group", group), ("kind", name)] {
            karta["metadata"]["labels"][format!("run.ai/karta-{part}").as_str()] = json!(value);
            karta["spec"]["structureDefinition"]["rootComponent"]["kind"][part] = json!(value);
        }
        told(&json!({}), &[link(kind, flow())], &[karta]).lines().next().unwrap().to_owned()
    };
    assert_snapshot!(of("kubeflow.org/Notebook"), @"pg-notebook-u1 of Notebook min=1 queue=a class=build");
    assert_snapshot!(of("apps/StatefulSet"), @"pg-statefulset-u1 of StatefulSet min=1 queue=a class=build");
    assert_snapshot!(of("apps/DaemonSet"), @"pg-u1-training of DaemonSet min=3 queue=a class=build");
    assert_snapshot!(of("sparkoperator.k8s.io/SparkApplication"), @"pg-u1-training of SparkApplication min=3 queue=a class=build");
}

#[test]
fn an_owner_that_is_gone_or_skipped_is_not_described() {
    let all = karta(&whole(&json!([])));
    assert_snapshot!(worker(all.clone(), Value::Null), @"pg-pyflow-u1 of PyFlow min=1 queue=default-queue class=train");
    let runner = json!({ "metadata": { "labels": { "priorityClassName": "inference" } } });
    let flow = json!({ "spec": { "worker": { "replicas": 2 } } });
    let chain = [link("jobs.example.com/PyFlow", flow), link("run.ai/WorkloadRunner", runner)];
    assert_snapshot!(told(&json!({}), &chain, &[all]), @"pg-u1-training of PyFlow min=2 queue=default-queue class=inference");
}

/// A Karta with everything that is read in one.
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
fn any_value_in_any_place_groups_the_pod_or_somebody_is_told_why() {
    let levels = json!({ "topologyName": "hall", "requiredTopologyLevel": "row" });
    let sub_group = json!({ "componentName": "worker", "topology": levels });
    let group = json!({ "name": "all", "topology": levels, "subGroups": [sub_group] });
    let member = json!({ "componentName": "worker", "groupByKeyPaths": [".metadata.labels.run"],
                         "filters": ["true"] });
    let whole = full(&json!({ "podGroup": group }));
    let by_words = full(&members(&json!([member])));
    let pools = json!([{ "name": "r1", "n": 2 }]);
    let flow = with(flow(), "/spec", json!({ "pools": pools, "least": 1, "most": 3 }));
    let is_fine = |told: &str| told.starts_with("pg-") || told.contains(", allowed: ");
    let gang = "/spec/optimizationInstructions";
    for (karta, part) in [(&whole, "/spec"), (&by_words, gang)] {
        let labels = json!({ "labels": { "role": "worker", "run": "r1" } });
        let kartas = kartas(std::slice::from_ref(karta));
        let of = |flow: Value| {
            let chain = [link("jobs.example.com/PyFlow", flow)];
            told_among(&kartas, &json!(null), (&labels, &chain), (&[], None))
        };
        assert!(of(flow.clone()).starts_with("pg-u1-"));
        for (place, oddity) in oddly(&flow) {
            let told = of(with(flow.clone(), &place, oddity.clone()));
            assert!(is_fine(&told), "{place} = {oddity}: {told}");
        }
        for (place, oddity) in oddly(karta).filter(|(place, _)| place.starts_with(part)) {
            let told = worker(with(karta.clone(), &place, oddity.clone()), flow.clone());
            assert!(is_fine(&told), "{place} = {oddity}: {told}");
        }
    }
}

fn oddly(of: &Value) -> impl Iterator<Item = (String, Value)> {
    let places = places(of, "").into_iter().filter(|place| !place.is_empty());
    places.flat_map(|place| oddities().into_iter().map(move |oddity| (place.clone(), oddity)))
}
