//! Everything that can be wrong in what people write: each gets one message with file, line, what
//! was found and what is allowed, and the right exit code; nothing is half-applied.

#[path = "bad_input/files.rs"]
mod files;
#[path = "cli/lab.rs"]
#[expect(dead_code, reason = "the test of the commands uses more of it")]
mod lab;
#[path = "bad_input/manifests.rs"]
mod manifests;
#[path = "bad_input/steps.rs"]
mod steps;
#[path = "bad_input/traces.rs"]
mod traces;

use insta::assert_snapshot;
use lab::{Ended, Lab};

const FLEET: &str = "Given a fleet of 1 node with 8 GPUs each\n";

/// Runs one scenario of these steps, and what it ended with. It asserts something, whether it
/// comes so far or not.
fn ended(lab: &Lab, steps: &str) -> Ended {
    let claim = if steps.contains("Then ") {
        ""
    } else {
        "\nThen the cluster has 0 running and 0 pending pods"
    };
    let steps = format!("{}{claim}", steps.trim_end()).replace('\n', "\n    ");
    lab.write(
        "features/f.feature",
        &format!("Feature: f\n  Scenario: s\n    {}\n", steps.trim_end()),
    );
    lab.run(&["run", "features/f.feature"])
}

/// The one message about a scenario of these steps, which begins at its place.
fn told(lab: &Lab, steps: &str) -> String {
    let run = ended(lab, steps);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(run.out.contains("1 scenarios: 0 passed, 1 failed"), "{}", run.all());
    assert!(!run.all().contains("panic"), "{}", run.all());
    let report: schedlab_json::Value =
        serde_json::from_str(&lab.read("results/latest/report.json")).expect("a report is JSON");
    let failure = &report["cases"][0]["failure"];
    let message = failure["message"].as_str().expect("a failure has a message").to_owned();
    assert_eq!(run.out.matches(message.lines().next().unwrap_or_default()).count(), 1);
    message
}

/// The messages about steps, one after another.
fn all_told(steps: &[&str]) -> String {
    let lab = Lab::empty();
    steps.iter().map(|steps| told(&lab, steps)).collect::<Vec<_>>().join("\n")
}

/// The message about a fixture that is applied.
fn of_fixture(yaml: &str) -> String {
    let lab = Lab::empty();
    lab.write("fixtures/x.yaml", yaml);
    told(&lab, &format!("{FLEET}When the manifest \"x.yaml\" is applied"))
}

#[test]
fn a_queue_with_an_unknown_parent_and_a_circle_of_queues() {
    assert_snapshot!(all_told(&[
        "Given these queues:\n| queue | parent |\n| a | ghost |",
        "Given these queues:\n| queue | parent |\n| a | b |\n| b | a |",
        "Given these queues:\n| queue | parent |\n| a | a |",
    ]), @r"
    features/f.feature:5: column `parent`: got ghost, expected a queue beside it or in the cluster, and there is no other
    features/f.feature:5: column `parent`: got the circle a below b below a, expected a tree
    features/f.feature:5: column `parent`: got the circle a below a, expected a tree
    ");
}

#[test]
fn queues_of_a_fixture_that_form_no_tree() {
    let queue = |name: &str, parent: &str| {
        format!(
            "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {{name: {name}}}\nspec:\n  \
             parentQueue: {parent}\n"
        )
    };
    let (lost, hen) = (queue("a", "ghost"), queue("hen", "egg"));
    assert_snapshot!([lost, format!("{hen}---\n{}", queue("egg", "hen"))].map(|yaml| of_fixture(&yaml)).join("\n"), @r#"
    fixtures/x.yaml:5:16: Queue a: spec.parentQueue: got ghost, expected a queue beside it or in the cluster, and there is no other
    fixtures/x.yaml:5:16: Queue hen: spec.parentQueue: got the circle hen below egg below hen, expected a tree
    "#);
}

#[test]
fn quantities_of_queues() {
    let quota = |quota: &str| format!("Given these queues:\n| queue | quota |\n| a | {quota} |");
    let weight = "Given these queues:\n| queue | weight |\n| a | -1 |".to_owned();
    let runtime = "Given these queues:\n| queue | reclaim min runtime |\n| a | soon |".to_owned();
    let steps = [quota("-3"), quota("NaN"), quota("1e99"), quota("8GPU"), weight, runtime];
    assert_snapshot!(all_told(&steps.each_ref().map(|steps| &**steps)), @r"
    features/f.feature:5: column `quota`: got -3, expected a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`
    features/f.feature:5: column `quota`: got NaN, expected a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`
    features/f.feature:5: column `quota`: got 1e99, expected a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`
    features/f.feature:5: column `quota`: got 8GPU, expected a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`
    features/f.feature:5: column `weight`: got -1, expected a number from 0 to 1000000000, or `unset`
    features/f.feature:5: column `reclaim min runtime`: got soon, expected a duration such as 90s or 1h30m
    ");
}

#[test]
fn quantities_of_workloads() {
    let of = |column: &str, cell: &str| {
        format!("When these workloads are submitted:\n| name | {column} |\n| a | {cell} |")
    };
    let steps = [
        of("gpus", "-1"),
        of("gpus", "0.5"),
        of("gpus", "99999999999999999999"),
        of("cpu", "-1"),
        of("cpu", "lots"),
        of("memory", "99999999999Ei"),
        of("pods", "-2"),
        of("pods", "4000000000"),
        of("run time", "soon"),
        of("exit code", "256"),
    ];
    assert_snapshot!(all_told(&steps.each_ref().map(|steps| &**steps)), @r"
    features/f.feature:5: column `gpus`: got -1, expected a whole number from 0 to 4294967295
    features/f.feature:5: column `gpus`: got 0.5, expected a whole number from 0 to 4294967295
    features/f.feature:5: column `gpus`: got 99999999999999999999, expected a whole number from 0 to 4294967295
    features/f.feature:5: column `cpu`: got -1, expected a quantity from 0 on
    features/f.feature:5: column `cpu`: found lots: not a quantity: write a number with at most one suffix of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei
    features/f.feature:5: column `memory`: found 99999999999Ei: too large: a quantity holds at most 9223372036854775807 (2^63 - 1)
    features/f.feature:5: column `pods`: got -2, expected a whole number from 1 to 100000
    features/f.feature:5: column `pods`: got 4000000000, expected a whole number from 1 to 100000
    features/f.feature:5: column `run time`: got soon, expected a duration such as 90s or 1h30m
    features/f.feature:5: column `exit code`: got 256, expected a whole number from 0 to 255
    ");
}

#[test]
fn a_table_or_a_text_below_a_step_that_reads_none() {
    let table =
        "When 3 pods \"x\" with 1 GPU each are submitted to queue \"a\"\n| priority |\n| odd |";
    let text = "Then the cluster has 0 running and 0 pending pods\n\"\"\"\nodd\n\"\"\"";
    assert_snapshot!(all_told(&[table, text]), @r#"
    found a table below `3 pods "x" with 1 GPU each are submitted to queue "a"`, which reads none: steps that do end with a colon
    found a text below `the cluster has 0 running and 0 pending pods`, which reads none: steps that do end with a colon
    "#);
}

#[test]
fn quantities_of_fleets() {
    assert_snapshot!(all_told(&[
        "Given a fleet of 0 nodes with 8 GPUs each",
        "Given a fleet of -2 nodes with 8 GPUs each",
        "Given a fleet of 99999999999 nodes with 8 GPUs each",
        "Given a fleet of 1 node with 5000 GPUs each",
        "Given a fleet:\n| pool | memory |\n| a | -4Gi |",
        "Given a fleet:\n| pool | cpu |\n| a | ten |",
    ]), @r"
    features/f.feature:3: column `nodes`: got 0, expected a whole number from 1 to 100000
    features/f.feature:3: column `nodes`: got -2, expected a whole number from 1 to 100000
    features/f.feature:3: column `nodes`: got 99999999999, expected a whole number from 1 to 100000
    features/f.feature:3: gpus: got 5000, expected a whole number from 0 to 1024
    features/f.feature:5: memory: got -4Gi: negative; expected more than zero
    features/f.feature:5: cpu: found ten: not a quantity: write a number with at most one suffix of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei
    ");
}

#[test]
fn quantities_of_fixtures() {
    let limit = |amount: &str| {
        of_fixture(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n  - name: a\n    \
             image: b\n    resources:\n      limits:\n        nvidia.com/gpu: {amount}\n"
        ))
    };
    let told = [limit("-2"), limit("1500m"), limit("lots"), limit("99999999999999999999")];
    assert_snapshot!(told.join("\n"), @r#"
    fixtures/x.yaml:10:25: Pod a: Pod "a" is invalid: [spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "-2": must be greater than or equal to 0, spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "-2": must be greater than or equal to 0] (Invalid)
    fixtures/x.yaml:10:25: Pod a: Pod "a" is invalid: [spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "1500m": must be an integer, spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "1500m": must be an integer] (Invalid)
    fixtures/x.yaml:10:25: spec.containers[0].resources.limits[nvidia.com/gpu]: found "lots": Pod a: Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (BadRequest)
    fixtures/x.yaml:10:25: spec.containers[0].resources.limits[nvidia.com/gpu]: found 1e+20: Pod a: Pod in version "v1" cannot be handled as a Pod: quantity "1e+20": too large: a quantity holds at most 9223372036854775807 (2^63 - 1) (BadRequest)
    "#);
}

#[test]
fn names_that_stand_twice() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
    let told = all_told(&[
        "Given these queues:\n| queue |\n| a |\n| a |",
        "When these workloads are submitted:\n| name |\n| a |\n| b |\n| a |",
        "Given a fleet:\n| pool |\n| a |\n| a |",
        "Given a queue \"a\" with a quota of 1\nAnd a queue \"a\" with a quota of 2",
    ]);
    assert_snapshot!(format!("{told}\n{}", of_fixture(&format!("{pod}---\n{pod}"))), @r#"
    features/f.feature:6: got Queue a again, which features/f.feature:5 has already; expected each object once
    features/f.feature:7: got Pod default/a again, which features/f.feature:5 has already; expected each object once
    features/f.feature:6: got Node a again, which features/f.feature:5 has already; expected each object once
    features/f.feature:4: Queue a: queues.scheduling.run.ai "a" already exists (AlreadyExists)
    fixtures/x.yaml:7:18: got Pod a again, which fixtures/x.yaml:3:18 has already; expected each object once
    "#);
}

#[test]
fn rows_that_are_short_or_long_and_tables_without_rows() {
    let lab = Lab::empty();
    let told = |rows: &str| {
        let run = ended(&lab, &format!("Given these queues:\n{rows}"));
        assert_eq!((run.code, &*run.out), (1, ""), "{}", run.all());
        run.err
    };
    let short = told("| queue | quota |\n| a |");
    let long = told("| queue | quota |\n| a | 8 | 9 |");
    let open = told("| queue | quota |\n| a | 8");
    let twice = told("| queue | queue |\n| a | 8 |");
    let rest = all_told(&[
        "Given these queues:\n| queue | qouta |\n| a | 8 |",
        "Given these queues:\n| queue | quota |",
        "Given a fleet:",
    ]);
    assert_snapshot!([short, long, open, twice, rest].concat(), @r"
    features/f.feature:5: this row has 1 cells, but line 4 gives the table 2: queue, quota
    features/f.feature:5: this row has 3 cells, but line 4 gives the table 2: queue, quota
    features/f.feature:5: this row does not end in `|`: | a | 8
    features/f.feature:4: the column `queue` stands twice in this table
    features/f.feature:4: there is no column `qouta`; expected queue, parent, quota, weight, limit, priority, cpu quota, cpu weight, cpu limit, memory quota, memory weight, memory limit, reclaim min runtime, preempt min runtime
    features/f.feature:4: got no row below this header, expected one or more
    features/f.feature:3: this step needs a table below it; its columns are pool, nodes, gpus, gpu model, gpu memory, cpu, memory, pods, labels, taints
    ");
}

#[test]
fn steps_that_nobody_knows() {
    let check = Lab::of("undefined").run(&["check"]);
    assert_eq!(check.code, 1, "{}", check.all());
    let lab = Lab::empty();
    let undefined = told(&lab, "Given a flet of 2 nodes with 8 GPUs each");
    assert_snapshot!(undefined, @r#"
    no step of the vocabulary says `Given a flet of 2 nodes with 8 GPUs each`
    nearest: Given a fleet of {int} node(s) with {int} GPU(s) each
    as in:   Given a fleet of 4 nodes with 8 GPUs each
    all of them: schedlab steps; or teach it (harness/src/steps):
        #[given(expr = "a flet of 2 nodes with 8 GPUs each")]
        async fn step(world: &mut World) -> StepResult { … }
    "#);
}

#[test]
fn claims_about_nobody() {
    let one = "Given a queue \"a\" with a quota of 1\nAnd 1 pods \"p\" with 1 GPU each are submitted to queue \"a\"\nWhen a gang \"train\" of 2 pods with 1 GPU each is submitted to queue \"a\"\n";
    let claims = [
        "queue \"typo\" has 0 running pods",
        "no pods of queue \"a\" were evicted for queue \"typo\"",
        "never within 1 minute gang \"typo\" is running",
        "pod \"typo\" is gone",
        "workload \"p\" is not on node \"node-9\"",
        "node \"node-9\" is gone",
        "namespace \"typo\" has 0 running pods",
        "statefulset \"train\" is running",
        "no events of pod \"p\" say \"\"",
    ];
    let steps = claims.map(|claim| format!("{FLEET}{one}Then {claim}"));
    assert_snapshot!(all_told(&steps.each_ref().map(String::as_str)), @r#"
    there is no queue "typo" and there was none; known are: a
    there is no queue "typo" and there was none; known are: a
    there is no gang "typo" and there was none; submitted were: p, train
    there is no pod "typo" and there was none; submitted were: p, train
    there is no node "node-9" and there was none; known are: node-1
    there is no node "node-9" and there was none; known are: node-1
    there is no namespace "typo" and there was none; known are: default
    there is no statefulset "train"; "train" is Pod and PodGroup
    found "", which every text contains; name some words
    "#);
}

#[test]
fn a_gang_that_is_larger_than_the_fleet_waits_and_says_so() {
    let lab = Lab::empty();
    let steps = format!(
        "{FLEET}And a queue \"a\" with a quota of 8\n\
         And a gang \"big\" of 10 pods with 1 GPU each is submitted to queue \"a\"\n\
         Then gang \"big\" is running"
    );
    assert_snapshot!(told(&lab, &steps), @r#"
    gang "big" is not running: 10 pending (big-0, big-1, big-2, big-3, …)
    (at +4.002s)
    pending big-0, big-1, big-2 and 7 more: The workload cannot run on this cluster as it is: 10 pods that must run together request 10 GPUs, and all nodes on which they may run offer 8 GPUs.
    "#);
}

#[test]
fn fields_kinds_and_types_that_are_wrong_in_a_fixture() {
    let queue = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: a}\n";
    let group = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: a}\n";
    let told = [
        of_fixture(&format!("# one\n{queue}spec:\n  resources: {{gpu: {{qouta: 3}}}}\n")),
        of_fixture(&format!("{queue}---\n{group}spec:\n  queue: a\n  minMember: many\n")),
        of_fixture(&format!("{group}spec: {{minMember: -1}}\n")),
        of_fixture("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: {}}\n"),
        of_fixture("apiVersion: v1\nkind: Podd\nmetadata: {name: a}\n"),
        of_fixture("kind: Pod\nmetadata: {name: a}\n"),
        of_fixture("apiVersion: v1\nkind: Namespace\nmetadata: {}\n"),
        of_fixture("apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n"),
        of_fixture("apiVersion: v1\nkind: Pod\nkind: Pod\n"),
        of_fixture("# nothing\n"),
    ];
    assert_snapshot!(told.join("\n"), @r#"
    fixtures/x.yaml:6:28: Queue a: found the unknown field spec.resources.gpu.qouta, allowed beside it are limit, overQuotaWeight, quota
    fixtures/x.yaml:1:1: Queue a: Queue.scheduling.run.ai "a" is invalid: spec: Required value (Invalid)
    fixtures/x.yaml:4:19: PodGroup a: PodGroup.scheduling.run.ai "a" is invalid: spec.minMember: Invalid value: -1: spec.minMember in body should be greater than or equal to 0 (Invalid)
    fixtures/x.yaml:4:8: Pod a: Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container (BadRequest)
    fixtures/x.yaml:1:1: kind: got Podd, expected ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount
    fixtures/x.yaml:1:1: apiVersion: found nothing, an object needs one
    fixtures/x.yaml:3:1: Namespace without a name: Namespace "" is invalid: metadata.name: Required value: name or generateName is required (Invalid)
    fixtures/x.yaml:4:2: not YAML that can be read: tabs disallowed within this context (block indentation)
    fixtures/x.yaml:3:1: not YAML that can be read: duplicate mapping key: kind not allowed here
    fixtures/x.yaml:1: got no object, expected one or more
    "#);
    let version = of_fixture("apiVersion: apps/v1beta9\nkind: Deployment\nmetadata: {name: a}\n");
    assert!(version.starts_with("fixtures/x.yaml:1:1: apiVersion: got apps/v1beta9, expected"));
    assert!(version.contains(", apps/v1,"), "{version}");
}

#[test]
fn a_length_of_time_that_nobody_lives_to_see() {
    assert_snapshot!(all_told(&[
        "Given a queue \"a\" with a quota of 1\nThen for 99999999999999999999h queue \"a\" has 0 running pods",
        "When 99999999 days pass",
    ]), @r"
    features/f.feature:4: when: got 99999999999999999999h, expected a length of time such as 90s, 10m, 1h 30m or 2d, at most 36525d
    features/f.feature:3: span: got 99999999 days, expected a length of time such as 90s, 10m, 1h 30m or 2d, at most 36525d
    ");
}

#[test]
fn a_wrong_field_below_a_step_is_told_with_its_own_line() {
    let lab = Lab::empty();
    let pod = "When this manifest is applied:\n  \"\"\"yaml\n  apiVersion: v1\n  kind: Pod\n  \
               metadata: {name: a}\n  spec:\n    restartPolicy: Sometimes\n    \
               containers: [{name: a, image: b}]\n  \"\"\"";
    assert_snapshot!(told(&lab, pod), @r#"features/f.feature:9: Pod a: Pod "a" is invalid: spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never" (Invalid)"#);
}

#[test]
fn fixtures_and_fleets_that_are_not_there() {
    let lab = Lab::empty();
    lab.write("fixtures/queues.yaml", "");
    let fixture = told(&lab, "When the manifest \"quees.yaml\" is applied");
    let fleet = told(&lab, "Given the fleet \"fleets/lab.yaml\"");
    assert_snapshot!(format!("{fixture}\n{fleet}"), @r"
    features/f.feature:3: fixtures/quees.yaml: No such file or directory (os error 2); in its folder are queues.yaml
    features/f.feature:3: fixtures/fleets/lab.yaml: No such file or directory (os error 2); fixtures stand in fixtures/ beside features/
    ");
}

#[test]
fn a_fleet_file_that_is_refused_is_named_with_the_line_in_it() {
    let of_fleet = |yaml: &str| {
        let lab = Lab::empty();
        lab.write("fixtures/fleets/x.yaml", yaml);
        told(&lab, "Given the fleet \"fleets/x.yaml\"")
    };
    let told = [
        of_fleet(""),
        of_fleet("pools:\n- name: a\n  gpuProduct: NVIDIA H100\n"),
        of_fleet(
            "\napiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {taints: [{key: k, effect: Never}]}\n",
        ),
    ];
    assert_snapshot!(told.join("\n"), @r#"
    fixtures/fleets/x.yaml: got nothing, expected `pools:` with one or more pools, or Nodes as Kubernetes objects
    fixtures/fleets/x.yaml:3:15: gpuProduct: "NVIDIA H100": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
    fixtures/fleets/x.yaml:5:34: Node a: Node "a" is invalid: metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute" (Invalid)
    "#);
}

#[test]
fn a_manifest_that_is_refused_leaves_nothing_behind() {
    let run = ended(
        &Lab::empty(),
        &format!(
            "{FLEET}And a queue \"a\" with a quota of 4
When 4 pods \"w\" with 1 GPU each are submitted to queue \"a\"
Then this manifest is refused with \"minMember\":
  \"\"\"yaml
  apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata: {{name: a}}
  spec: {{resources: {{gpu: {{quota: 0, limit: 0}}}}}}
  ---
  apiVersion: v1
  kind: Pod
  metadata: {{name: b, labels: {{kai.scheduler/queue: a}}}}
  spec: {{schedulerName: kai-scheduler, containers: [{{name: a, image: b}}]}}
  ---
  apiVersion: scheduling.run.ai/v2alpha2
  kind: PodGroup
  metadata: {{name: c}}
  spec: {{minMember: many}}
  \"\"\"
And queue \"a\" has 4 running pods
And the cluster has 4 running and 0 pending pods
And the field \"spec.resources.gpu.limit\" of queue \"a\" is \"-1\""
        ),
    );
    assert_eq!(run.code, 0, "{}", run.all());
}

#[test]
fn nothing_of_a_table_is_made_when_a_row_is_refused() {
    let lab = Lab::empty();
    lab.write(
        "fixtures/x.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: \
         Namespace\nmetadata: {name: B}\n",
    );
    let steps = format!("{FLEET}When the manifest \"x.yaml\" is applied");
    assert_snapshot!(told(&lab, &steps), @r#"fixtures/x.yaml:7:18: Namespace B: Namespace "B" is invalid: metadata.name: Invalid value: "B": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?') (Invalid)"#);
    assert!(!lab.exists("snapshots"));
}
