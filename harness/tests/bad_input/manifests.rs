//! YAML manifests that the API server or the scheduler rejects, and values that YAML does not parse
//! as strings.

use insta::assert_snapshot;

use crate::lab::Lab;
use crate::{FLEET, failure, manifest_failure, run_steps};

#[test]
fn invalid_topologies_and_pod_groups_are_rejected() {
    let topology = |levels: &str| {
        manifest_failure(&format!(
            "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {{name: t}}\nspec:\n  \
             levels: {levels}\n"
        ))
    };
    let messages = [
        topology("[{nodeLabel: rack}, {nodeLabel: rack}]"),
        topology("[{nodeLabel: kubernetes.io/hostname}, {nodeLabel: rack}]"),
        topology("[]"),
        topology("[{nodeLabel: bad label!}]"),
        manifest_failure(
            "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: a}\nspec:\n  \
             schedulingBackoff: 7\n",
        ),
    ];
    assert_snapshot!(messages.join("\n"), @r#"
    fixtures/x.yaml:5:3: Topology t: Topology.kai.scheduler "t" is invalid: spec.levels: Invalid value: each nodeLabel must be unique (Invalid)
    fixtures/x.yaml:5:3: Topology t: Topology.kai.scheduler "t" is invalid: spec.levels: Invalid value: kubernetes.io/hostname must be the last level (Invalid)
    fixtures/x.yaml:5:3: Topology t: Topology.kai.scheduler "t" is invalid: spec.levels: Invalid value: 0: spec.levels in body should have at least 1 items (Invalid)
    fixtures/x.yaml:5:24: Topology t: Topology.kai.scheduler "t" is invalid: spec.levels[0].nodeLabel: Invalid value: "bad label!": spec.levels[0].nodeLabel in body should match '^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$' (Invalid)
    fixtures/x.yaml:5:22: PodGroup a: PodGroup.scheduling.run.ai "a" is invalid: spec.schedulingBackoff: Unsupported value: 7: supported values: "-1", "1" (Invalid)
    "#);
}

#[test]
fn the_levels_of_a_topology_are_immutable() {
    let levels = |levels: &str| {
        format!(
            "\n  \"\"\"yaml\n  apiVersion: kai.scheduler/v1alpha1\n  kind: Topology\n  metadata: {{name: \
             t}}\n  spec: {{levels: [{{nodeLabel: {levels}}}]}}\n  \"\"\"\n"
        )
    };
    let (first, other) = (levels("rack"), levels("zone"));
    let steps = format!(
        "When this manifest is applied:{first}Then this manifest is refused with \"levels are \
         immutable\":{other}"
    );
    let run = run_steps(&Lab::empty(), &steps);
    assert_eq!(run.code, 0, "{}", run.all());
}

#[test]
fn unreachable_minimums_of_sub_groups_are_reported() {
    let pending_message = |spec: &str| {
        let lab = Lab::empty();
        lab.write(
            "fixtures/x.yaml",
            &format!(
                "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {{name: g}}\nspec: \
                 {{queue: a, {spec}}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p, labels: \
                 {{kai.scheduler/subgroup-name: x}}, annotations: {{pod-group-name: g, \
                 kai.scheduler/skip-podgrouper: \"true\"}}}}\nspec: {{schedulerName: kai-scheduler, \
                 containers: [{{name: c, image: i}}]}}\n"
            ),
        );
        failure(
            &lab,
            &format!(
                "{FLEET}And a queue \"a\" with a quota of 1\nWhen the manifest \"x.yaml\" is applied\nThen \
             pod \"p\" is running"
            ),
        )
    };
    let messages = [
        pending_message(
            "minSubGroup: 3, subGroups: [{name: x, minMember: 1}, {name: z, minMember: 1}]",
        ),
        pending_message(
            "minSubGroup: 1, subGroups: [{name: top, minSubGroup: 2}, {name: x, minMember: 1, parent: top}]",
        ),
        pending_message(
            "minSubGroup: 1, subGroups: [{name: top, minMember: 2}, {name: x, minMember: 1, parent: top}]",
        ),
    ];
    assert_snapshot!(messages.join("\n"), @r#"
    pod "p" is not running: 1 pending (p)
    (at +4.002s)
    pending in queue a: 1 pod (p): PodGroup g cannot be scheduled: spec.minSubGroup: got 3, with 2 sub-groups, expected at most the number of child sub-groups: lower it or add sub-groups
    pod "p" is not running: 1 pending (p)
    (at +4.002s)
    pending in queue a: 1 pod (p): PodGroup g cannot be scheduled: spec.subGroups: minSubGroup: got 2, with 1 sub-groups below top, expected at most the number of child sub-groups: lower it or add sub-groups
    pod "p" is not running: 1 pending (p)
    (at +4.002s)
    pending in queue a: 1 pod (p): PodGroup g cannot be scheduled: spec.subGroups: minMember: got 2 of top, expected minSubGroup, as the sub-group has child sub-groups
    "#);
}

/// YAML parses words such as `on` as booleans, and some names as numbers.
#[test]
fn values_that_yaml_does_not_parse_as_strings_are_rejected() {
    let pod = |metadata: &str| {
        manifest_failure(&format!("apiVersion: v1\nkind: Pod\nmetadata:\n  {metadata}\n"))
    };
    let messages = [
        pod("name: n"),
        pod("name: 0x10 # ten"),
        pod("name: 1e3"),
        pod("{name: a, labels: {app: web, debug: on}}"),
        pod("{name: a, annotations: {version: 1.10}}"),
        manifest_failure(
            "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: a}\nspec:\n  \
             displayName: no\n",
        ),
    ];
    assert_snapshot!(messages.join("\n"), @r#"
    fixtures/x.yaml:4:9: metadata.name: got n, which YAML parses as the Boolean false, expected a string: write "n" in quotes: Pod without a name: Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.name of type string (BadRequest)
    fixtures/x.yaml:4:9: metadata.name: got 0x10, which YAML parses as the number 16, expected a string: write "0x10" in quotes: Pod without a name: Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string (BadRequest)
    fixtures/x.yaml:4:9: metadata.name: got 1e3, which YAML parses as the number 1000.0, expected a string: write "1e3" in quotes: Pod without a name: Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string (BadRequest)
    fixtures/x.yaml:4:39: metadata.labels.debug: got on, which YAML parses as the Boolean true, expected a string: write "on" in quotes: Pod a: Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string (BadRequest)
    fixtures/x.yaml:4:36: metadata.annotations.version: got 1.10, which YAML parses as the number 1.1, expected a string: write "1.10" in quotes: Pod a: Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.annotations of type string (BadRequest)
    fixtures/x.yaml:5:16: spec.displayName: got no, which YAML parses as the Boolean false, expected a string: write "no" in quotes: Queue a: Queue.scheduling.run.ai "a" is invalid: spec.displayName: Invalid value: "boolean": spec.displayName in body must be of type string: "boolean" (Invalid)
    "#);
}
