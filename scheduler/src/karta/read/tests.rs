use insta::assert_snapshot;
use schedlab_json::json;

use super::{
    super::{KartaRecord, Kartas},
    *,
};

/// A Karta with everything that is read in one.
fn flows() -> Value {
    let levels = json!({ "topologyName": "hall", "requiredTopologyLevel": "row" });
    let worker = json!({
        "name": "worker",
        "ownerRef": "flow",
        "specDefinition": { "podSpecPath": ".spec.template" },
        "scaleDefinition": { "replicasPath": ".spec.workers" },
        "instanceIdPath": ".spec.pools[].name",
        "podSelector": {
            "componentTypeSelector": { "keyPath": ".metadata.labels.role", "value": "worker" },
            "componentInstanceSelector": { "idPath": ".metadata.labels.pool" },
        },
    });
    let member = json!({ "componentName": "worker", "groupByKeyPaths": [".metadata.labels.run"],
                         "filters": ["true"] });
    json!({
        "metadata": { "name": "flows", "labels": {
            "run.ai/karta-group": "jobs.example.com",
            "run.ai/karta-version": "v1",
            "run.ai/karta-kind": "PyFlow",
        } },
        "spec": {
            "structureDefinition": {
                "rootComponent": {
                    "name": "flow",
                    "kind": { "group": "jobs.example.com", "version": "v1", "kind": "PyFlow" },
                    "statusDefinition": { "statusMappings": {} },
                },
                "childComponents": [worker],
            },
            "optimizationInstructions": { "gangScheduling": {
                "podGroup": { "name": "all", "topology": levels,
                              "subGroups": [{ "componentName": "worker", "topology": levels }] },
                "podGroups": [{ "name": "job", "members": [member] }],
            } },
        },
    })
}

/// What is told of a Karta that has this instead of what stands at a place: at it, or to pods.
fn told(place: &str, value: Value) -> String {
    let mut object = flows();
    *object.pointer_mut(place).unwrap() = value;
    let Some(record) = KartaRecord::read(&object) else { return "it groups nothing".to_owned() };
    let of_pods = match &record.karta {
        Ok(Karta { gang: Gang::Unusable(wrong), .. }) => format!("pods: {wrong}"),
        Ok(_) | Err(_) => "nothing".to_owned(),
    };
    let mut kartas = Kartas::default();
    kartas.put("flows".into(), Some(record));
    let changed = kartas.take_changed();
    let mut at_it = kartas.wrong(&changed).map(|(.., wrong)| wrong.to_string());
    at_it.next().unwrap_or(of_pods)
}

const CHILD: &str = "/spec/structureDefinition/childComponents/0";
const GROUP: &str = "/spec/optimizationInstructions/gangScheduling/podGroup";

#[test]
fn a_karta_that_its_labels_do_not_describe_is_told_why_it_is_not_found() {
    let label =
        |part: &str, value: Value| told(&format!("/metadata/labels/run.ai~1karta-{part}"), value);
    assert_snapshot!(label("group", json!("jobs.example.com")), @"nothing");
    assert_snapshot!(label("group", json!("batch")), @r#"metadata.labels[run.ai/karta-group] of Karta flows: found "batch", while that is "jobs.example.com", allowed: the group of its rootComponent.kind"#);
    assert_snapshot!(label("version", json!("v2")), @r#"metadata.labels[run.ai/karta-version] of Karta flows: found "v2", while that is "v1", allowed: the version of its rootComponent.kind"#);
    assert_snapshot!(label("kind", Value::Null), @r#"metadata.labels[run.ai/karta-kind] of Karta flows: found null, while that is "PyFlow", allowed: the kind of its rootComponent.kind"#);
    assert_snapshot!(told("/metadata/labels", json!({})), @r#"metadata.labels[run.ai/karta-group] of Karta flows: found nothing, while that is "jobs.example.com", allowed: the group of its rootComponent.kind"#);
    assert_snapshot!(told("/spec/structureDefinition/rootComponent/kind", Value::Null), @"spec.structureDefinition.rootComponent.kind of Karta flows: found a part of it, allowed: group, version and kind");
}

#[test]
fn a_karta_that_groups_nothing_needs_no_labels() {
    let mut object = flows();
    object["metadata"] = json!({ "name": "flows" });
    object["spec"]["optimizationInstructions"] = json!({});
    assert!(KartaRecord::read(&object).is_none());
}

#[test]
fn a_value_of_another_type_is_told_and_taken_for_nothing_else() {
    let child = |field: &str| told(&format!("{CHILD}/{field}"), json!("x"));
    let group = |field: &str| told(&format!("{GROUP}{field}"), json!("x"));
    let member = |field: &str, value| told(&format!("{GROUP}s/0{field}"), value);
    assert_snapshot!(told("/spec", json!("x")), @r#"spec of Karta flows: found "x", allowed: an object"#);
    assert_snapshot!(told("/spec/optimizationInstructions/gangScheduling", json!("yes")), @r#"spec.optimizationInstructions.gangScheduling of Karta flows: found "yes", allowed: an object"#);
    assert_snapshot!(told("/spec/structureDefinition/rootComponent/kind", json!("PyFlow")), @r#"spec.structureDefinition.rootComponent.kind of Karta flows: found "PyFlow", allowed: an object"#);
    assert_snapshot!(told("/spec/structureDefinition/childComponents", json!("x")), @r#"spec.structureDefinition.childComponents of Karta flows: found "x", allowed: a list"#);
    assert_snapshot!(told(CHILD, json!(3)), @"spec.structureDefinition.childComponents[0] of Karta flows: found 3, allowed: an object");
    assert_snapshot!(told(&format!("{CHILD}/name"), json!(3)), @"spec.structureDefinition.childComponents[0].name of Karta flows: found 3, allowed: a text");
    assert_snapshot!(told(&format!("{CHILD}/ownerRef"), json!(["flow"])), @r#"spec.structureDefinition.childComponents[0].ownerRef of Karta flows: found ["flow"], allowed: a text"#);
    assert_snapshot!(child("specDefinition"), @r#"spec.structureDefinition.childComponents[0].specDefinition of Karta flows: found "x", allowed: an object"#);
    assert_snapshot!(child("scaleDefinition"), @r#"spec.structureDefinition.childComponents[0].scaleDefinition of Karta flows: found "x", allowed: an object"#);
    assert_snapshot!(child("podSelector"), @r#"spec.structureDefinition.childComponents[0].podSelector of Karta flows: found "x", allowed: an object"#);
    assert_snapshot!(child("podSelector/componentTypeSelector"), @r#"spec.structureDefinition.childComponents[0].podSelector.componentTypeSelector of Karta flows: found "x", allowed: an object"#);
    assert_snapshot!(told(&format!("{CHILD}/podSelector/componentTypeSelector/value"), json!(3)), @"spec.structureDefinition.childComponents[0].podSelector.componentTypeSelector.value of Karta flows: found 3, allowed: a text");
    assert_snapshot!(child("podSelector/componentInstanceSelector"), @r#"spec.structureDefinition.childComponents[0].podSelector.componentInstanceSelector of Karta flows: found "x", allowed: an object"#);
    assert_snapshot!(group(""), @r#"spec.optimizationInstructions.gangScheduling.podGroup of Karta flows: found "x", allowed: an object"#);
    assert_snapshot!(group("s"), @r#"spec.optimizationInstructions.gangScheduling.podGroups of Karta flows: found "x", allowed: a list"#);
    assert_snapshot!(group("/subGroups"), @r#"pods: spec.optimizationInstructions.gangScheduling.podGroup.subGroups of Karta flows: found "x", allowed: a list"#);
    assert_snapshot!(group("/topology"), @r#"pods: spec.optimizationInstructions.gangScheduling.podGroup.topology of Karta flows: found "x", allowed: an object"#);
    assert_snapshot!(group("/subGroups/0/topology"), @r#"pods: spec.optimizationInstructions.gangScheduling.podGroup.subGroups[0].topology of Karta flows: found "x", allowed: an object"#);
    assert_snapshot!(member("", json!("x")), @r#"spec.optimizationInstructions.gangScheduling.podGroups[0] of Karta flows: found "x", allowed: an object"#);
    assert_snapshot!(member("/members", json!({})), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members of Karta flows: found {}, allowed: a list");
    assert_snapshot!(member("/members/0/filters", json!("true")), @r#"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].filters of Karta flows: found "true", allowed: a list"#);
    assert_snapshot!(member("/members/0/groupByKeyPaths", json!(".metadata.name")), @r#"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths of Karta flows: found ".metadata.name", allowed: a list"#);
}

#[test]
fn a_selector_without_the_expression_that_it_needs_is_told() {
    let selector = |of: &str| told(&format!("{CHILD}/podSelector/{of}"), json!({}));
    assert_snapshot!(selector("componentTypeSelector"), @"spec.structureDefinition.childComponents[0].podSelector.componentTypeSelector.keyPath of Karta flows: found nothing, allowed: a jq expression");
    assert_snapshot!(selector("componentInstanceSelector"), @"spec.structureDefinition.childComponents[0].podSelector.componentInstanceSelector.idPath of Karta flows: found nothing, allowed: a jq expression");
}

#[test]
fn a_component_is_one_sub_group_at_most() {
    let twice = json!([{ "componentName": "worker" }, { "componentName": "worker" }]);
    assert_snapshot!(told(&format!("{GROUP}/subGroups"), twice), @"pods: spec.optimizationInstructions.gangScheduling.podGroup.subGroups[1].componentName of Karta flows: found worker, allowed: a component that no sub-group before it names");
}

#[test]
fn members_are_bounded() {
    let members = vec![json!({ "componentName": "worker" }); 257];
    assert_snapshot!(told(&format!("{GROUP}s/0/members"), members.into()), @"spec.optimizationInstructions.gangScheduling.podGroups[0] of Karta flows: found 257 members, allowed: at most 256 in all groups");
}
