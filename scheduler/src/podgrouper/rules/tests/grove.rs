//! Tests of Grove's PodGangs.

use insta::assert_snapshot;
use schedlab_api::{Value, json};

use super::{super::OwnerLink, group_text_with, link};

fn chain() -> [OwnerLink; 3] {
    let set = json!({ "metadata": { "labels": { "kai.scheduler/queue": "g" } } });
    let graph = json!({ "metadata": { "labels": { "priorityClassName": "build" } } });
    [
        link("grove.io/PodClique", json!({})),
        link("grove.io/PodCliqueSet", set),
        link("nvidia.com/DynamoGraphDeployment", graph),
    ]
}

fn gang_group_text(gang: Option<&Value>, chain: &[OwnerLink]) -> String {
    group_text_with(&json!({ "labels": { "grove.io/podgang": "serve-0" } }), chain, &[], gang)
}

/// A gang of two cliques; the pod is in the second one.
fn gang(annotations: &Value, spec: &Value) -> Value {
    let mut gang = json!({
        "metadata": { "name": "serve-0", "uid": "u9", "annotations": annotations },
        "spec": { "podgroups": [
            { "name": "prefill", "minReplicas": 2, "podReferences": [{ "name": "q" }] },
            { "name": "decode", "minReplicas": 1,
              "podReferences": [{ "name": "p", "namespace": "ns" }] },
        ] },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        gang["spec"][key.as_str()] = value.clone();
    }
    gang
}

/// A topology constraint in Grove's format.
fn packed(constraint: &Value) -> Value {
    json!({ "packConstraint": constraint })
}

#[test]
fn a_pod_gang_defines_the_sub_groups_of_its_pods() {
    assert_snapshot!(gang_group_text(Some(&gang(&json!({}), &json!({}))), &chain()), @r#"
    pg-serve-0-u9 of PodGang min=3 queue=g class=build
      {"minMember":2,"name":"prefill"}
      {"minMember":1,"name":"decode"}
      the pod: decode
    "#);
    assert_snapshot!(gang_group_text(None, &chain()), @"label grove.io/podgang: got serve-0, expected the name of a PodGang that exists");
    let empty = json!({ "metadata": { "name": "serve-0" } });
    assert_snapshot!(gang_group_text(Some(&empty), &chain()), @"spec.podgroups[].podReferences: got no reference to the pod, expected a reference to every pod of the gang");
    let mut of_others = gang(&json!({}), &json!({}));
    of_others["spec"]["podgroups"][1]["podReferences"][0]["namespace"] = json!("other");
    assert_snapshot!(gang_group_text(Some(&of_others), &chain()), @"spec.podgroups[].podReferences: got no reference to the pod, expected a reference to every pod of the gang");
}

#[test]
fn topology_constraints_apply_to_gang_clique_groups_and_cliques() {
    let mut spec = json!({
        "topologyConstraint": packed(&json!({ "required": "zone", "preferred": "row" })),
        "topologyConstraintGroupConfigs": [
            { "name": "nobody", "podGroupNames": [] },
            { "name": "both", "podGroupNames": ["prefill", "decode"],
              "topologyConstraint": packed(&json!({ "preferred": "rack" })) },
        ],
    });
    let gang_of = |spec: &Value| gang(&json!({ "grove.io/topology-name": "hall" }), spec);
    let mut whole = gang_of(&spec);
    whole["spec"]["podgroups"][1]["topologyConstraint"] = packed(&json!({ "required": "host" }));
    assert_snapshot!(gang_group_text(Some(&whole), &chain()), @r#"
    pg-serve-0-u9 of PodGang min=3 queue=g class=build
      within {"preferredTopologyLevel":"row","requiredTopologyLevel":"zone","topology":"hall"}
      {"minSubGroup":2,"name":"both","topologyConstraint":{"preferredTopologyLevel":"rack","topology":"hall"}}
      {"minMember":2,"name":"prefill","parent":"both"}
      {"minMember":1,"name":"decode","parent":"both","topologyConstraint":{"requiredTopologyLevel":"host","topology":"hall"}}
      the pod: decode
    "#);
    let mut of_names = |names: Value| {
        spec["topologyConstraintGroupConfigs"][1]["podGroupNames"] = names;
        gang_group_text(Some(&gang_of(&spec)), &chain())
    };
    assert_snapshot!(of_names(json!(["encode"])), @r#"spec.topologyConstraintGroupConfigs[1].podGroupNames: got "encode", expected the name of a pod group of the gang that is in no other one"#);
    assert_snapshot!(of_names(json!(["decode", "decode"])), @r#"spec.topologyConstraintGroupConfigs[1].podGroupNames: got "decode", expected the name of a pod group of the gang that is in no other one"#);
    spec["topologyConstraintGroupConfigs"] = json!([{ "podGroupNames": ["decode"] }]);
    assert_snapshot!(gang_group_text(Some(&gang_of(&spec)), &chain()), @"spec.topologyConstraintGroupConfigs[0].name: got nothing, expected a name");
}

#[test]
fn a_gang_without_topology_constraint_takes_it_from_annotations() {
    let spec = |constraint: Value| json!({ "topologyConstraint": packed(&constraint) });
    let of = |annotations: Value, spec: &Value| {
        let mut chain = chain();
        chain[1].object["metadata"]["annotations"] =
            json!({ "kai.scheduler/topology-preferred-placement": "rack" });
        gang_group_text(Some(&gang(&annotations, spec)), &chain)
            .lines()
            .take(2)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let kai = || json!({ "kai.scheduler/topology": "kai" });
    let both = || json!({ "kai.scheduler/topology": "kai", "grove.io/topology-name": "hall" });
    assert_snapshot!(of(kai(), &json!({})), @r#"
    pg-serve-0-u9 of PodGang min=3 queue=g class=build
      within {"preferredTopologyLevel":"rack","topology":"kai"}
    "#);
    assert_snapshot!(of(kai(), &spec(json!({ "required": "zone" }))), @r#"
    pg-serve-0-u9 of PodGang min=3 queue=g class=build
      within {"preferredTopologyLevel":"rack","requiredTopologyLevel":"zone","topology":"kai"}
    "#);
    assert_snapshot!(of(both(), &spec(json!({ "required": "zone", "preferred": "row" }))), @r#"
    pg-serve-0-u9 of PodGang min=3 queue=g class=build
      within {"preferredTopologyLevel":"row","requiredTopologyLevel":"zone","topology":"hall"}
    "#);
    assert_snapshot!(of(json!({ "grove.io/topology-name": "hall" }), &spec(json!({}))), @r#"
    pg-serve-0-u9 of PodGang min=3 queue=g class=build
      within {"preferredTopologyLevel":"rack","topology":"hall"}
    "#);
    assert_snapshot!(of(json!({}), &json!({})), @"annotation kai.scheduler/topology: got nothing with kai.scheduler/topology-preferred-placement set, expected the name of a Topology");
    let nowhere = gang(&json!({}), &spec(json!({ "required": "zone" })));
    assert_snapshot!(gang_group_text(Some(&nowhere), &chain()), @"annotation grove.io/topology-name: got nothing with spec.topologyConstraint set, expected the name of a Topology");
}
