//! Valid and invalid fleet files.

use super::{Fleet, FleetLocation};
use schedlab_api::{
    Value,
    object::{list, map, name, text},
};

fn fleet(text: &str) -> Fleet {
    Fleet::parse("fleet.yaml", text).unwrap()
}

fn error(text: &str) -> String {
    Fleet::parse("fleet.yaml", text).unwrap_err().to_string()
}

fn label<'v>(node: &'v Value, key: &str) -> &'v str {
    schedlab_api::object::label(node, key).unwrap_or_default()
}

#[test]
fn a_pool_makes_numbered_nodes_with_gpu_labels_and_amounts() {
    let fleet = fleet("pools:\n- {name: h100, count: 2, gpus: 8, cpu: 96, memory: 512Gi}\n");
    let names: Vec<&str> = fleet.nodes().iter().map(name).collect();
    assert_eq!(names, ["h100-0", "h100-1"]);
    let node = &fleet.nodes()[1];
    assert_eq!(label(node, "nvidia.com/gpu.count"), "8");
    assert_eq!(label(node, "nvidia.com/gpu.memory"), "81920");
    assert_eq!(label(node, "nvidia.com/gpu.present"), "true");
    assert_eq!(label(node, "kubernetes.io/hostname"), "h100-1");
    insta::assert_snapshot!(node["status"]["allocatable"], @r#"{"cpu":"96","ephemeral-storage":"1Ti","memory":"512Gi","nvidia.com/gpu":"8","pods":"110"}"#);
}

#[test]
fn gpus_for_claims_are_published_instead_of_being_in_the_status() {
    let fleet = fleet("pools: [{name: a, gpus: 4, gpusBy: claim}]");
    let node = &fleet.nodes()[0];
    assert_eq!(text(node, &["metadata", "annotations", "schedlab.dev/published-gpus"]), "4");
    assert_eq!(text(node, &["status", "capacity", "nvidia.com/gpu"]), "");
    assert_eq!(label(node, "nvidia.com/gpu.count"), "4");
}

#[test]
fn a_node_without_gpus_has_no_gpu_labels() {
    let fleet = fleet("pools: [{name: cpu}]");
    assert_eq!(label(&fleet.nodes()[0], "nvidia.com/gpu.present"), "");
    assert_eq!(text(&fleet.nodes()[0], &["status", "capacity", "nvidia.com/gpu"]), "");
}

#[test]
fn topology_blocks_count_nodes_across_pools() {
    let fleet = fleet(
        "
pools:
- {name: a, count: 3, topology: {example.com/rack: 2}}
- {name: b, count: 3, topology: {example.com/rack: 2, topology.kubernetes.io/zone: 4}}
",
    );
    let racks: Vec<&str> = fleet.nodes().iter().map(|one| label(one, "example.com/rack")).collect();
    assert_eq!(racks, ["rack-0", "rack-0", "rack-1", "rack-1", "rack-2", "rack-2"]);
    assert_eq!(label(&fleet.nodes()[5], "topology.kubernetes.io/zone"), "zone-1");
}

#[test]
fn a_pools_kubelet_timing_is_annotated_on_its_nodes() {
    let fleet = fleet("pools: [{name: a, kubelet: {startup: 2s, runTime: 10m, exitCode: 1}}]");
    let annotations = map(&fleet.nodes()[0], &["metadata", "annotations"]).unwrap();
    assert_eq!(annotations["schedlab.dev/startup"], "2s");
    assert_eq!(annotations["schedlab.dev/run-time"], "10m");
    assert_eq!(annotations["schedlab.dev/exit-code"], "1");
}

#[test]
fn realistic_nodes_have_the_size_of_real_nodes() {
    let fleet = fleet("pools: [{name: a, gpus: 8, objects: realistic}]");
    let bytes = fleet.nodes()[0].to_string().len();
    assert!((27_000..=55_000).contains(&bytes), "{bytes}");
    assert!(list(&fleet.nodes()[0], &["status", "conditions"]).len() > 40);
}

#[test]
fn errors_name_file_line_and_column() {
    let cases = [
        "pools:\n- name: a\n  gpu: 8\n",
        "pools:\n- name: a\n  gpus: -1\n",
        "pools:\n- name: a\n  count: 0\n",
        "pools:\n- name: a\n  cpu: ten\n",
        "pools:\n- name: a\n  memory: 1GB\n",
        "pools:\n- name: a\n  memory: 99999999999Ei\n",
        "pools:\n- name: a\n  memory: 0\n",
        "pools:\n- name: a\n  memory: -4Gi\n",
        "pools:\n- name: a\n- name: a\n",
        "pools:\n- name: a\n  count: 2\n- name: b\n  names: [x, a-1]\n",
        "pools:\n- name: Big_One\n",
        "pools:\n- name: a\n  count: 2\n  names: [x]\n",
        "pools:\n- name: a\n  kubelet: {startup: soon}\n",
        "pools:\n- name: a\n  kubelet: {exitCode: 256}\n",
        "pools:\n- name: a\n  annotations: {schedlab.dev/startup: soon}\n",
        "pools:\n- name: a\n  annotations: {schedlab.dev/exit-code: bad}\n",
        "pools:\n- name: a\n  taints: [{key: k, effect: Sometimes}]\n",
        "pools:\n- name: a\n  objects: huge\n",
        "pools:\n- name: a\n  name: b\n",
        "pools:\n- count: 1\n",
        "nodes: []\n",
        "pools: 3\n",
        "pools: [\n",
        "pools:\n- name: a\n  labels: {k: x,\n    'bad key!': x}\n",
        "pools:\n- name: a\n  labels: {k: bad value!}\n",
        "pools:\n- name: a\n  taints: [\"k=v:Sometimes\"]\n",
        "pools:\n- name: a\n  taints: [{key: k, effekt: NoSchedule}]\n",
    ];
    insta::assert_snapshot!(cases.map(error).join("\n"), @r#"
    fleet.yaml:3:3: unknown field `gpu`, expected one of name, count, names, gpus, gpusBy, gpuProduct, gpuMemory, cpu, memory, ephemeralStorage, pods, labels, annotations, taints, topology, objects, kubelet
    fleet.yaml:3:9: gpus: got -1, expected a whole number from 0 to 1024
    fleet.yaml:3:10: count: got 0, expected a whole number from 1 to 100000
    fleet.yaml:3:8: cpu: got ten: not a quantity: write a number with at most one suffix of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei
    fleet.yaml:3:11: memory: got 1GB: not a quantity: write a number with at most one suffix of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei
    fleet.yaml:3:11: memory: got 99999999999Ei: too large: a quantity holds at most 9223372036854775807 (2^63 - 1)
    fleet.yaml:3:11: memory: got 0, expected more than zero
    fleet.yaml:3:11: memory: got -4Gi, expected more than zero
    fleet.yaml:3:9: pool name: got a twice, expected unique names; first at fleet.yaml:2:9
    fleet.yaml:5:14: node name: got a-1 twice, expected unique names; first at fleet.yaml:2:9
    fleet.yaml:2:9: name: got "Big_One", expected lower-case letters, digits, - and ., a letter or digit at both ends and around each ., and at most 63 characters in all
    fleet.yaml:3:10: count: got both count and names, expected one of them
    fleet.yaml:3:22: kubelet.startup: got soon, expected a duration such as 2s or 1h30m
    fleet.yaml:3:23: kubelet.exitCode: got 256, expected a whole number from 0 to 255
    fleet.yaml:3:39: annotations.schedlab.dev/startup: "soon": must be a duration such as 90s or 1h30m
    fleet.yaml:3:41: annotations.schedlab.dev/exit-code: "bad": must be a whole number
    fleet.yaml:3:29: taints[0].effect: unknown variant `Sometimes`, expected one of NoSchedule, PreferNoSchedule, NoExecute
    fleet.yaml:3:12: objects: unknown variant `huge`, expected one of slim, realistic
    fleet.yaml:3:3: got the key name twice, expected each key once
    fleet.yaml:2:3: missing field `name`
    fleet.yaml:1:1: unknown field `nodes`, expected one of pools
    fleet.yaml:1:8: pools: got 3, expected a list
    fleet.yaml:1:8: unclosed bracket '['
    fleet.yaml:4:17: labels: "bad key!": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
    fleet.yaml:3:15: labels.k: "bad value!": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
    fleet.yaml:3:12: taints: got k=v:Sometimes, expected key=value:Effect with NoSchedule, PreferNoSchedule or NoExecute
    fleet.yaml:3:21: unknown field `effekt`, expected one of key, value, effect
    "#);
}

#[test]
fn an_empty_fleet_is_refused() {
    let cases =
        ["pools:\n- name: a\n  gpuMemory: 80\n", "pools:\n- name: a\n  names: []\n", "pools: []\n"];
    insta::assert_snapshot!(cases.map(error).join("\n"), @r"
    fleet.yaml:3:14: gpuMemory: got 80, expected at least 1Mi
    fleet.yaml:3:10: names: got none, expected at least one
    fleet.yaml:1:8: pools: got none, expected at least one
    ");
}

#[test]
fn api_server_refusals_are_reported_with_their_location() {
    let cases = [
        "pools:\n- name: a\n  taints:\n  - {key: a b, effect: NoSchedule}\n",
        "pools:\n- name: a\n  taints: ['k=v v:NoSchedule']\n",
        "pools:\n- name: a\n  taints: ['k=v:NoSchedule',\n    'k=w:NoSchedule']\n",
        "pools:\n- name: a\n  annotations: {a b: c}\n",
        "pools:\n- name: a\n  topology: {a b: 2}\n",
        "pools:\n- name: a\n  gpuProduct: NVIDIA H100\n",
        "pools:\n- name: a..b\n",
        "pools:\n- name: a\n  labels: {k: a, k: b}\n",
        "# nothing\n",
    ];
    let all: Vec<String> = cases.iter().map(|text| error(text)).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    fleet.yaml:4:5: taints[0].key: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
    fleet.yaml:3:12: taints[0].value: "v v": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
    fleet.yaml:4:5: taints[1]: got k with NoSchedule again, expected each key and effect once
    fleet.yaml:3:22: annotations: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
    fleet.yaml:3:19: topology: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
    fleet.yaml:3:15: gpuProduct: "NVIDIA H100": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
    fleet.yaml:2:9: name: got "a..b", expected lower-case letters, digits, - and ., a letter or digit at both ends and around each ., and at most 63 characters in all
    fleet.yaml:3:18: got the key k twice, expected each key once
    fleet.yaml: got nothing, expected `pools:` with one or more pools, or Nodes as Kubernetes objects
    "#);
}

/// A string field keeps values that YAML would read as a boolean or a number.
#[test]
fn labels_are_read_as_they_are_written() {
    let fleet = fleet("pools: [{name: on, labels: {a: y, b: on, c: 0x10, d: 1.10, e: 010}}]");
    let labels = &fleet.nodes()[0]["metadata"]["labels"];
    let read = ["a", "b", "c", "d", "e"].map(|key| labels[key].as_str().unwrap_or("no text"));
    assert_eq!(read, ["y", "on", "0x10", "1.10", "010"]);
    assert_eq!(name(&fleet.nodes()[0]), "on-0");
}

/// Pool fields with a value of a wrong type.
const WRONG_TYPES: [&str; 37] = [
    "name: [a]",
    "name: {a: b}",
    "name: null",
    "count: [1]",
    "count: many",
    "names: x",
    "names: [[x]]",
    "gpus: [1]",
    "gpus: {a: 1}",
    "gpus: 1.5",
    "gpusBy: [plugin]",
    "gpusBy: magic",
    "gpuProduct: [x]",
    "gpuMemory: [80Gi]",
    "cpu: {a: 1}",
    "memory: [1Gi]",
    "ephemeralStorage: [1Gi]",
    "pods: yes",
    "labels: x",
    "labels: [x]",
    "labels: {k: [x]}",
    "annotations: x",
    "annotations: {k: {a: b}}",
    "taints: {key: k}",
    "taints: [3]",
    "taints: [[k]]",
    "taints: [{key: [k], effect: NoSchedule}]",
    "taints: [{key: k, value: [v], effect: NoSchedule}]",
    "taints: [{key: k}]",
    "topology: [x]",
    "topology: {rack: [2]}",
    "topology: {rack: two}",
    "objects: [slim]",
    "objects: 3",
    "kubelet: 2s",
    "kubelet: {startup: [2s]}",
    "kubelet: {runtime: 2s}",
];

#[test]
fn a_number_is_shown_as_it_was_written() {
    let errors = ["99999999999999999999", "1e400", "8.50"]
        .map(|gpus| error(&format!("pools:\n- gpus: {gpus}\n  name: a\n")));
    insta::assert_snapshot!(errors.join("\n"), @"
    fleet.yaml:2:9: gpus: got 99999999999999999999, expected a whole number from 0 to 1024
    fleet.yaml:2:9: gpus: got 1e400, expected a whole number from 0 to 1024
    fleet.yaml:2:9: gpus: got 8.50, expected a whole number from 0 to 1024
    ");
}

#[test]
fn every_field_of_a_wrong_type_is_named() {
    let errors = WRONG_TYPES.map(|field| {
        let name = if field.starts_with("name:") { "" } else { "  name: a\n" };
        error(&format!("pools:\n- {field}\n{name}"))
    });
    let whole = ["pools: {a: b}", "pools:", "[]", "x", ""].map(error);
    insta::assert_snapshot!([&errors[..], &whole].concat().join("\n"), @"
    fleet.yaml:2:9: name: got [a], expected a text
    fleet.yaml:2:9: name: got {a: b}, expected a text
    fleet.yaml:2:9: name: got null, expected a text
    fleet.yaml:2:10: count: got [1], expected a number or a text
    fleet.yaml:2:10: count: got many, expected a whole number from 1 to 100000
    fleet.yaml:2:10: names: got x, expected a list
    fleet.yaml:2:11: names[0]: got [x], expected a text
    fleet.yaml:2:9: gpus: got [1], expected a number or a text
    fleet.yaml:2:9: gpus: got {a: 1}, expected a number or a text
    fleet.yaml:2:9: gpus: got 1.5, expected a whole number from 0 to 1024
    fleet.yaml:2:11: gpusBy: got [plugin], expected a text
    fleet.yaml:2:11: gpusBy: unknown variant `magic`, expected one of plugin, claim
    fleet.yaml:2:15: gpuProduct: got [x], expected a text
    fleet.yaml:2:14: gpuMemory: got [80Gi], expected a number or a text
    fleet.yaml:2:8: cpu: got {a: 1}, expected a number or a text
    fleet.yaml:2:11: memory: got [1Gi], expected a number or a text
    fleet.yaml:2:21: ephemeralStorage: got [1Gi], expected a number or a text
    fleet.yaml:2:9: pods: got yes, expected a whole number from 1 to 100000
    fleet.yaml:2:11: labels: got x, expected a map
    fleet.yaml:2:11: labels: got [x], expected a map
    fleet.yaml:2:15: labels.k: got [x], expected a text
    fleet.yaml:2:16: annotations: got x, expected a map
    fleet.yaml:2:20: annotations.k: got {a: b}, expected a text
    fleet.yaml:2:11: taints: got {key: k}, expected a list
    fleet.yaml:2:12: taints[0]: invalid type: integer `3`, expected a taint as {key, value, effect} or key=value:Effect
    fleet.yaml:2:12: taints[0]: invalid type: sequence, expected a taint as {key, value, effect} or key=value:Effect
    fleet.yaml:2:18: taints[0].key: got [k], expected a text
    fleet.yaml:2:28: taints[0].value: got [v], expected a text
    fleet.yaml:2:13: taints[0]: missing field `effect`
    fleet.yaml:2:13: topology: got [x], expected a map
    fleet.yaml:2:20: topology.rack: got [2], expected a number or a text
    fleet.yaml:2:20: topology.rack: got two, expected a whole number from 1 to 100000
    fleet.yaml:2:12: objects: got [slim], expected a text
    fleet.yaml:2:12: objects: unknown variant `3`, expected one of slim, realistic
    fleet.yaml:2:12: kubelet: got 2s, expected a map
    fleet.yaml:2:22: kubelet.startup: got [2s], expected a number or a text
    fleet.yaml:2:13: unknown field `runtime`, expected one of startup, runTime, termination, exitCode
    fleet.yaml:1:8: pools: got {a: b}, expected a list
    fleet.yaml:1:6: pools: got none, expected at least one
    fleet.yaml:1:1: fleet: got [], expected a map
    fleet.yaml:1:1: fleet: got x, expected a map
    fleet.yaml: got nothing, expected `pools:` with one or more pools, or Nodes as Kubernetes objects
    ");
}

#[test]
fn a_taint_may_be_written_as_in_feature_tables() {
    let fleet = fleet("pools: [{name: a, taints: ['gpu=yes:NoSchedule', 'k:NoExecute']}]");
    let taints = &fleet.nodes()[0]["spec"]["taints"];
    insta::assert_snapshot!(taints, @r#"[{"effect":"NoSchedule","key":"gpu","value":"yes"},{"effect":"NoExecute","key":"k"}]"#);
}

/// The example in `docs/reference/fleets.md` is valid.
#[test]
fn the_documented_fleet_is_a_fleet() {
    let text = include_str!("../../../../docs/reference/fleets.md");
    let yaml = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(fleet(yaml).nodes().len(), 6);
}

#[test]
fn plain_nodes_are_a_fleet_too() {
    let fleet = fleet(
        "
apiVersion: v1
kind: Node
metadata: {name: a}
---
apiVersion: v1
kind: NodeList
items: [{metadata: {name: b}}, {metadata: {name: c}}]
",
    );
    let names: Vec<&str> = fleet.nodes().iter().map(name).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn nodes_are_a_fleet_as_kubectl_prints_them() {
    let yaml = "apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    creationTimestamp: \"2026-11-26T07:20:35Z\"
    generation: 1
    labels: {zone: z1}
    managedFields: [{manager: kubelet}]
    name: node-1
    resourceVersion: \"2225\"
    selfLink: /api/v1/nodes/node-1
    uid: ae747527-9349-4a7d-a209-2c3742e45c7e
  spec: {podCIDR: 10.0.0.0/24}
- kind: Node
  metadata: {name: node-2}
kind: List
metadata:
  resourceVersion: \"\"
";
    let fleet = fleet(yaml);
    let metadata = [&fleet.nodes()[0]["metadata"], &fleet.nodes()[1]["metadata"]];
    let metadata = metadata.map(Value::to_string).join("\n");
    insta::assert_snapshot!(metadata, @r#"
    {"labels":{"zone":"z1"},"name":"node-1"}
    {"name":"node-2"}
    "#);
    let locations: Vec<String> =
        fleet.nodes_with_locations().map(|(_, location)| location.to_string()).collect();
    assert_eq!(locations, ["fleet.yaml:3:3", "fleet.yaml:15:3"]);
    let object: Value = serde_saphyr::from_str(yaml).unwrap();
    let json = serde_json::to_string_pretty(&object).unwrap();
    assert_eq!(Fleet::parse("fleet.json", &json).unwrap().nodes(), fleet.nodes());
}

#[test]
fn a_plain_nodes_field_has_its_location() {
    let list = "apiVersion: v1\nkind: NodeList\nitems:\n- metadata: {name: b}\n  spec:\n    taints:\n    - key: a b\n";
    let text = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: a}}\nspec: {{podCIDRR: x}}\n---\n{list}"
    );
    let fleet = fleet(&text);
    let locations: Vec<&FleetLocation> =
        fleet.nodes_with_locations().map(|(_, location)| location).collect();
    assert_eq!(locations[0].location_of_field("spec.podCIDRR").to_string(), "fleet.yaml:4:18");
    assert_eq!(
        locations[1].location_of_field("spec.taints[0].key").to_string(),
        "fleet.yaml:12:12"
    );
    assert_eq!(locations[1].location_of_field("").to_string(), "fleet.yaml:9:3");
}

#[test]
fn errors_in_plain_nodes_name_their_document() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n";
    let cases = [
        format!("{node}---\n{node}"),
        format!("{node}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n"),
        format!("{node}---\napiVersion: v1\nkind: Node\n"),
        format!("{node}---\napiVersion: [\n"),
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n".to_owned(),
    ];
    let all: Vec<String> = cases.iter().map(|text| error(text)).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    fleet.yaml:5:1: node name: got a twice, expected unique names; first at fleet.yaml:1:1
    fleet.yaml:5:1: kind: got "Pod", expected Node, NodeList or List of nodes
    fleet.yaml:5:1: metadata.name: got none, expected a unique node name
    fleet.yaml:5:13: unclosed bracket '['
    fleet.yaml:4:9: metadata.name: got n, which YAML reads as false, expected a text: write "n" in quotes
    "#);
}
