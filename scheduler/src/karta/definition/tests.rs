use insta::assert_snapshot;
use schedlab_api::json;

use super::{
    super::{KartaRecord, Kartas},
    *,
};

/// A Karta with all fields that the scheduler reads.
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

/// The error of a Karta with this value at a JSON pointer: on the Karta, or else on its pods.
fn errors_with(pointer: &str, value: Value) -> String {
    let mut object = flows();
    *object.pointer_mut(pointer).unwrap() = value;
    let Some(record) = KartaRecord::from_object(&object) else {
        return "it groups nothing".to_owned();
    };
    let of_pods = match &record.karta {
        Ok(Karta { gang: Gang::Invalid(wrong), .. }) => format!("pods: {wrong}"),
        Ok(_) | Err(_) => "nothing".to_owned(),
    };
    let mut kartas = Kartas::default();
    kartas.insert_or_remove("flows".into(), Some(record));
    let changed = kartas.take_changes();
    let mut at_it = kartas.invalid_kartas(&changed).map(|(.., wrong)| wrong.to_string());
    at_it.next().unwrap_or(of_pods)
}

const CHILD: &str = "/spec/structureDefinition/childComponents/0";
const GROUP: &str = "/spec/optimizationInstructions/gangScheduling/podGroup";

#[test]
fn labels_of_a_karta_must_match_its_root_component_kind() {
    let label = |part: &str, value: Value| {
        errors_with(&format!("/metadata/labels/run.ai~1karta-{part}"), value)
    };
    assert_snapshot!(label("group", json!("jobs.example.com")), @"nothing");
    assert_snapshot!(label("group", json!("batch")), @r#"metadata.labels[run.ai/karta-group] of Karta flows: got "batch" for rootComponent.kind "jobs.example.com", expected the group of its rootComponent.kind"#);
    assert_snapshot!(label("version", json!("v2")), @r#"metadata.labels[run.ai/karta-version] of Karta flows: got "v2" for rootComponent.kind "v1", expected the version of its rootComponent.kind"#);
    assert_snapshot!(label("kind", Value::Null), @r#"metadata.labels[run.ai/karta-kind] of Karta flows: got null for rootComponent.kind "PyFlow", expected the kind of its rootComponent.kind"#);
    assert_snapshot!(errors_with("/metadata/labels", json!({})), @r#"metadata.labels[run.ai/karta-group] of Karta flows: got nothing for rootComponent.kind "jobs.example.com", expected the group of its rootComponent.kind"#);
    assert_snapshot!(errors_with("/spec/structureDefinition/rootComponent/kind", Value::Null), @"spec.structureDefinition.rootComponent.kind of Karta flows: got an incomplete kind, expected group, version and kind");
}

#[test]
fn a_karta_that_groups_nothing_needs_no_labels() {
    let mut object = flows();
    object["metadata"] = json!({ "name": "flows" });
    object["spec"]["optimizationInstructions"] = json!({});
    assert!(KartaRecord::from_object(&object).is_none());
}

#[test]
fn a_value_of_the_wrong_type_is_an_error() {
    let child = |field: &str| errors_with(&format!("{CHILD}/{field}"), json!("x"));
    let group = |field: &str| errors_with(&format!("{GROUP}{field}"), json!("x"));
    let member = |field: &str, value| errors_with(&format!("{GROUP}s/0{field}"), value);
    assert_snapshot!(errors_with("/spec", json!("x")), @r#"spec of Karta flows: got "x", expected an object"#);
    assert_snapshot!(errors_with("/spec/optimizationInstructions/gangScheduling", json!("yes")), @r#"spec.optimizationInstructions.gangScheduling of Karta flows: got "yes", expected an object"#);
    assert_snapshot!(errors_with("/spec/structureDefinition/rootComponent/kind", json!("PyFlow")), @r#"spec.structureDefinition.rootComponent.kind of Karta flows: got "PyFlow", expected an object"#);
    assert_snapshot!(errors_with("/spec/structureDefinition/childComponents", json!("x")), @r#"spec.structureDefinition.childComponents of Karta flows: got "x", expected a list"#);
    assert_snapshot!(errors_with(CHILD, json!(3)), @"spec.structureDefinition.childComponents[0] of Karta flows: got 3, expected an object");
    assert_snapshot!(errors_with(&format!("{CHILD}/name"), json!(3)), @"spec.structureDefinition.childComponents[0].name of Karta flows: got 3, expected a string");
    assert_snapshot!(errors_with(&format!("{CHILD}/ownerRef"), json!(["flow"])), @r#"spec.structureDefinition.childComponents[0].ownerRef of Karta flows: got ["flow"], expected a string"#);
    assert_snapshot!(child("specDefinition"), @r#"spec.structureDefinition.childComponents[0].specDefinition of Karta flows: got "x", expected an object"#);
    assert_snapshot!(child("scaleDefinition"), @r#"spec.structureDefinition.childComponents[0].scaleDefinition of Karta flows: got "x", expected an object"#);
    assert_snapshot!(child("podSelector"), @r#"spec.structureDefinition.childComponents[0].podSelector of Karta flows: got "x", expected an object"#);
    assert_snapshot!(child("podSelector/componentTypeSelector"), @r#"spec.structureDefinition.childComponents[0].podSelector.componentTypeSelector of Karta flows: got "x", expected an object"#);
    assert_snapshot!(errors_with(&format!("{CHILD}/podSelector/componentTypeSelector/value"), json!(3)), @"spec.structureDefinition.childComponents[0].podSelector.componentTypeSelector.value of Karta flows: got 3, expected a string");
    assert_snapshot!(child("podSelector/componentInstanceSelector"), @r#"spec.structureDefinition.childComponents[0].podSelector.componentInstanceSelector of Karta flows: got "x", expected an object"#);
    assert_snapshot!(group(""), @r#"spec.optimizationInstructions.gangScheduling.podGroup of Karta flows: got "x", expected an object"#);
    assert_snapshot!(group("s"), @r#"spec.optimizationInstructions.gangScheduling.podGroups of Karta flows: got "x", expected a list"#);
    assert_snapshot!(group("/subGroups"), @r#"pods: spec.optimizationInstructions.gangScheduling.podGroup.subGroups of Karta flows: got "x", expected a list"#);
    assert_snapshot!(group("/topology"), @r#"pods: spec.optimizationInstructions.gangScheduling.podGroup.topology of Karta flows: got "x", expected an object"#);
    assert_snapshot!(group("/subGroups/0/topology"), @r#"pods: spec.optimizationInstructions.gangScheduling.podGroup.subGroups[0].topology of Karta flows: got "x", expected an object"#);
    assert_snapshot!(member("", json!("x")), @r#"spec.optimizationInstructions.gangScheduling.podGroups[0] of Karta flows: got "x", expected an object"#);
    assert_snapshot!(member("/members", json!({})), @"spec.optimizationInstructions.gangScheduling.podGroups[0].members of Karta flows: got {}, expected a list");
    assert_snapshot!(member("/members/0/filters", json!("true")), @r#"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].filters of Karta flows: got "true", expected a list"#);
    assert_snapshot!(member("/members/0/groupByKeyPaths", json!(".metadata.name")), @r#"spec.optimizationInstructions.gangScheduling.podGroups[0].members[0].groupByKeyPaths of Karta flows: got ".metadata.name", expected a list"#);
}

#[test]
fn a_selector_without_its_expression_is_an_error() {
    let selector = |of: &str| errors_with(&format!("{CHILD}/podSelector/{of}"), json!({}));
    assert_snapshot!(selector("componentTypeSelector"), @"spec.structureDefinition.childComponents[0].podSelector.componentTypeSelector.keyPath of Karta flows: got nothing, expected a jq expression");
    assert_snapshot!(selector("componentInstanceSelector"), @"spec.structureDefinition.childComponents[0].podSelector.componentInstanceSelector.idPath of Karta flows: got nothing, expected a jq expression");
}

#[test]
fn a_component_is_at_most_one_sub_group() {
    let twice = json!([{ "componentName": "worker" }, { "componentName": "worker" }]);
    assert_snapshot!(errors_with(&format!("{GROUP}/subGroups"), twice), @"pods: spec.optimizationInstructions.gangScheduling.podGroup.subGroups[1].componentName of Karta flows: got worker, expected a component that no earlier sub-group names");
}

#[test]
fn the_number_of_members_is_limited() {
    let members = vec![json!({ "componentName": "worker" }); 257];
    assert_snapshot!(errors_with(&format!("{GROUP}s/0/members"), members.into()), @"spec.optimizationInstructions.gangScheduling.podGroups[0] of Karta flows: got 257 members, expected at most 256 in all groups");
}
