//! Invalid input of users: each mistake gets one message with file, line, the value and what was
//! expected, and the right exit code; nothing is applied in part.

#[path = "bad_input/check.rs"]
mod check;
#[path = "bad_input/files.rs"]
mod files;
#[path = "cli/lab.rs"]
#[expect(dead_code, reason = "the tests of the command line use the rest")]
mod lab;
#[path = "bad_input/manifests.rs"]
mod manifests;
#[path = "bad_input/steps.rs"]
mod steps;
#[path = "bad_input/traces.rs"]
mod traces;

use insta::assert_snapshot;
use lab::{CommandOutput, Lab};

const FLEET: &str = "Given a fleet of 1 node with 8 GPUs each\n";

/// Runs a scenario of these steps, with an assertion added if there is none.
fn run_steps(lab: &Lab, steps: &str) -> CommandOutput {
    let assertion = if steps.contains("Then ") {
        ""
    } else {
        "\nThen the cluster has 0 running and 0 pending pods"
    };
    let steps = format!("{}{assertion}", steps.trim_end()).replace('\n', "\n    ");
    lab.write(
        "features/f.feature",
        &format!("Feature: f\n  Scenario: s\n    {}\n", steps.trim_end()),
    );
    lab.run(&["run", "features/f.feature"])
}

/// The failure message of a scenario of these steps, which must be printed once.
fn failure(lab: &Lab, steps: &str) -> String {
    let run = run_steps(lab, steps);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(run.stdout.contains("1 scenario: 0 passed, 1 failed"), "{}", run.all());
    assert!(!run.all().contains("panic"), "{}", run.all());
    let report: schedlab_api::Value =
        serde_json::from_str(&lab.read("results/latest/report.json")).expect("the report is JSON");
    let failure = &report["cases"][0]["failure"];
    let message = failure["message"].as_str().expect("a failure has a message").to_owned();
    assert_eq!(run.stdout.matches(message.lines().next().unwrap_or_default()).count(), 1);
    message
}

/// The failure messages of several scenarios, one after the other.
fn failures(steps: &[&str]) -> String {
    let lab = Lab::empty();
    steps.iter().map(|steps| failure(&lab, steps)).collect::<Vec<_>>().join("\n")
}

/// The failure message of a scenario that applies this manifest.
fn manifest_failure(yaml: &str) -> String {
    let lab = Lab::empty();
    lab.write("fixtures/x.yaml", yaml);
    failure(&lab, &format!("{FLEET}When the manifest \"x.yaml\" is applied"))
}

#[test]
fn unknown_parents_and_cycles_of_queues_are_rejected() {
    assert_snapshot!(failures(&[
        "Given these queues:\n| queue | parent |\n| a | ghost |",
        "Given these queues:\n| queue | parent |\n| a | b |\n| b | a |",
        "Given these queues:\n| queue | parent |\n| a | a |",
    ]), @r"
    features/f.feature:5: column `parent`: got ghost, expected an existing queue, but there is no other
    features/f.feature:5: column `parent`: got the cycle a below b below a, expected a tree
    features/f.feature:5: column `parent`: got the cycle a below a, expected a tree
    ");
}

#[test]
fn queues_of_a_manifest_must_form_a_tree() {
    let queue = |name: &str, parent: &str| {
        format!(
            "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {{name: {name}}}\nspec:\n  \
             parentQueue: {parent}\n"
        )
    };
    let (orphan, hen) = (queue("a", "ghost"), queue("hen", "egg"));
    assert_snapshot!([orphan, format!("{hen}---\n{}", queue("egg", "hen"))].map(|yaml| manifest_failure(&yaml)).join("\n"), @r"
    fixtures/x.yaml:5:16: Queue a: spec.parentQueue: got ghost, expected an existing queue, but there is no other
    fixtures/x.yaml:5:16: Queue hen: spec.parentQueue: got the cycle hen below egg below hen, expected a tree
    ");
}

#[test]
fn invalid_quantities_of_queues_are_rejected() {
    let quota = |quota: &str| format!("Given these queues:\n| queue | quota |\n| a | {quota} |");
    let weight = "Given these queues:\n| queue | weight |\n| a | -1 |".to_owned();
    let runtime = "Given these queues:\n| queue | reclaim min runtime |\n| a | soon |".to_owned();
    let steps = [quota("-3"), quota("NaN"), quota("1e99"), quota("8GPU"), weight, runtime];
    assert_snapshot!(failures(&steps.each_ref().map(|steps| &**steps)), @r"
    features/f.feature:5: column `quota`: got -3, expected a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`
    features/f.feature:5: column `quota`: got NaN, expected a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`
    features/f.feature:5: column `quota`: got 1e99, expected a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`
    features/f.feature:5: column `quota`: got 8GPU, expected a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`
    features/f.feature:5: column `weight`: got -1, expected a number from 0 to 1000000000, or `unset`
    features/f.feature:5: column `reclaim min runtime`: got soon, expected a duration such as 90s or 1h30m
    ");
}

#[test]
fn invalid_quantities_of_workloads_are_rejected() {
    let table = |column: &str, cell: &str| {
        format!("When these workloads are submitted:\n| name | {column} |\n| a | {cell} |")
    };
    let steps = [
        table("gpus", "-1"),
        table("gpus", "0.5"),
        table("gpus", "99999999999999999999"),
        table("cpu", "-1"),
        table("cpu", "lots"),
        table("memory", "99999999999Ei"),
        table("pods", "-2"),
        table("pods", "4000000000"),
        table("run time", "soon"),
        table("exit code", "256"),
    ];
    assert_snapshot!(failures(&steps.each_ref().map(|steps| &**steps)), @r"
    features/f.feature:5: column `gpus`: got -1, expected a whole number from 0 to 4294967295
    features/f.feature:5: column `gpus`: got 0.5, expected a whole number from 0 to 4294967295
    features/f.feature:5: column `gpus`: got 99999999999999999999, expected a whole number from 0 to 4294967295
    features/f.feature:5: column `cpu`: got -1, expected a quantity of at least 0
    features/f.feature:5: column `cpu`: got lots: not a quantity: write a number with at most one suffix of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei
    features/f.feature:5: column `memory`: got 99999999999Ei: too large: a quantity holds at most 9223372036854775807 (2^63 - 1)
    features/f.feature:5: column `pods`: got -2, expected a whole number from 1 to 100000
    features/f.feature:5: column `pods`: got 4000000000, expected a whole number from 1 to 100000
    features/f.feature:5: column `run time`: got soon, expected a duration such as 90s or 1h30m
    features/f.feature:5: column `exit code`: got 256, expected a whole number from 0 to 255
    ");
}

#[test]
fn unexpected_tables_and_doc_strings_are_rejected() {
    let table =
        "When 3 pods \"x\" with 1 GPU each are submitted to queue \"a\"\n| priority |\n| odd |";
    let text = "Then the cluster has 0 running and 0 pending pods\n\"\"\"\nodd\n\"\"\"";
    assert_snapshot!(failures(&[table, text]), @r#"
    got a table below `3 pods "x" with 1 GPU each are submitted to queue "a"`, which takes none: steps that take one end with a colon
    got a doc string below `the cluster has 0 running and 0 pending pods`, which takes none: steps that take one end with a colon
    "#);
}

#[test]
fn invalid_quantities_of_fleets_are_rejected() {
    assert_snapshot!(failures(&[
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
    features/f.feature:5: memory: got -4Gi, expected more than zero
    features/f.feature:5: cpu: got ten: not a quantity: write a number with at most one suffix of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei
    ");
}

#[test]
fn invalid_quantities_of_manifests_are_rejected() {
    let limit = |amount: &str| {
        manifest_failure(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n  - name: a\n    \
             image: b\n    resources:\n      limits:\n        nvidia.com/gpu: {amount}\n"
        ))
    };
    let messages = [limit("-2"), limit("1500m"), limit("lots"), limit("99999999999999999999")];
    assert_snapshot!(messages.join("\n"), @r#"
    fixtures/x.yaml:10:25: Pod a: Pod "a" is invalid: [spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "-2": must be greater than or equal to 0, spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "-2": must be greater than or equal to 0] (Invalid)
    fixtures/x.yaml:10:25: Pod a: Pod "a" is invalid: [spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "1500m": must be an integer, spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "1500m": must be an integer] (Invalid)
    fixtures/x.yaml:10:25: spec.containers[0].resources.limits[nvidia.com/gpu]: got "lots": Pod a: Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (BadRequest)
    fixtures/x.yaml:10:25: spec.containers[0].resources.limits[nvidia.com/gpu]: got 1e+20: Pod a: Pod in version "v1" cannot be handled as a Pod: quantity "1e+20": too large: a quantity holds at most 9223372036854775807 (2^63 - 1) (BadRequest)
    "#);
}

#[test]
fn duplicate_names_are_rejected() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
    let messages = failures(&[
        "Given these queues:\n| queue |\n| a |\n| a |",
        "When these workloads are submitted:\n| name |\n| a |\n| b |\n| a |",
        "Given a fleet:\n| pool |\n| a |\n| a |",
        "Given a queue \"a\" with a quota of 1\nAnd a queue \"a\" with a quota of 2",
    ]);
    assert_snapshot!(format!("{messages}\n{}", manifest_failure(&format!("{pod}---\n{pod}"))), @r#"
    features/f.feature:6: duplicate object Queue a, first defined at features/f.feature:5
    features/f.feature:7: duplicate object Pod default/a, first defined at features/f.feature:5
    features/f.feature:6: duplicate object Node a, first defined at features/f.feature:5
    features/f.feature:4: Queue a: queues.scheduling.run.ai "a" already exists (AlreadyExists)
    fixtures/x.yaml:7:18: duplicate object Pod a, first defined at fixtures/x.yaml:3:18
    "#);
}

#[test]
fn malformed_tables_are_rejected() {
    let lab = Lab::empty();
    let load_error = |rows: &str| {
        let run = run_steps(&lab, &format!("Given these queues:\n{rows}"));
        assert_eq!((run.code, &*run.stdout), (1, ""), "{}", run.all());
        run.stderr
    };
    let short = load_error("| queue | quota |\n| a |");
    let long = load_error("| queue | quota |\n| a | 8 | 9 |");
    let open = load_error("| queue | quota |\n| a | 8");
    let twice = load_error("| queue | queue |\n| a | 8 |");
    let rest = failures(&[
        "Given these queues:\n| queue | qouta |\n| a | 8 |",
        "Given these queues:\n| queue | quota |",
        "Given a fleet:",
    ]);
    assert_snapshot!([short, long, open, twice, rest].concat(), @r"
    features/f.feature:5: got 1 cell in this row, expected 2 as in line 4: queue, quota
    features/f.feature:5: got 3 cells in this row, expected 2 as in line 4: queue, quota
    features/f.feature:5: this row does not end in `|`: | a | 8
    features/f.feature:4: duplicate column `queue` in this table
    features/f.feature:4: got column `qouta`, expected one of queue, parent, quota, weight, limit, priority, cpu quota, cpu weight, cpu limit, memory quota, memory weight, memory limit, reclaim min runtime, preempt min runtime; did you mean `quota`?
    features/f.feature:4: got no row below this header, expected one or more
    features/f.feature:3: this step needs a table below it; its columns are pool, nodes, gpus, gpu model, gpu memory, gpus by, cpu, memory, pods, labels, taints
    ");
}

#[test]
fn undefined_steps_are_rejected() {
    let check = Lab::from_fixture("undefined").run(&["check"]);
    assert_eq!(check.code, 1, "{}", check.all());
    let lab = Lab::empty();
    let undefined = failure(&lab, "Given a flet of 2 nodes with 8 GPUs each");
    assert_snapshot!(undefined, @r#"
    no step matches `Given a flet of 2 nodes with 8 GPUs each`
    nearest: Given a fleet of {int} node(s) with {int} GPU(s) each
    example: Given a fleet of 4 nodes with 8 GPUs each
    all steps: schedlab steps; to add one (harness/conformance/src/steps):
        #[given(expr = "a flet of 2 nodes with 8 GPUs each")]
        async fn step(world: &mut World) -> StepResult { … }
    "#);
}

#[test]
fn assertions_about_unknown_objects_are_rejected() {
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
    assert_snapshot!(failures(&steps.each_ref().map(String::as_str)), @r#"
    queue "typo" does not exist and never did; known: a
    queue "typo" does not exist and never did; known: a
    gang "typo" does not exist and never did; submitted: p, train
    pod "typo" does not exist and never did; submitted: p, train
    node "node-9" does not exist and never did; known: node-1
    node "node-9" does not exist and never did; known: node-1
    namespace "typo" does not exist and never did; known: default
    statefulset "train" does not exist; "train" is a Pod and a PodGroup
    got "", which every text contains, expected some text
    "#);
}

#[test]
fn a_gang_larger_than_the_fleet_is_reported_as_pending() {
    let lab = Lab::empty();
    let steps = format!(
        "{FLEET}And a queue \"a\" with a quota of 8\n\
         And a gang \"big\" of 10 pods with 1 GPU each is submitted to queue \"a\"\n\
         Then gang \"big\" is running"
    );
    assert_snapshot!(failure(&lab, &steps), @r#"
    gang "big" is not running: 10 pending (big-0, big-1, big-2, big-3, …)
    (at +4.002s)
    pending in queue a: 10 pods (big-0, big-1, big-2, …): The workload cannot run on this cluster as it is: 10 pods that must run together request 10 GPUs, and all nodes on which they may run offer 8 GPUs.
    "#);
}

#[test]
fn a_wrong_count_of_a_queue_says_what_the_queue_may_use() {
    let lab = Lab::empty();
    let steps = format!(
        "{FLEET}And these queues:\n| queue | quota | limit | cpu limit |\n| a | 2 | 4 | 16 |\n\
         When 6 pods \"p\" with 1 GPU each are submitted to queue \"a\"\n\
         Then queue \"a\" has 6 running pods"
    );
    assert_snapshot!(failure(&lab, &steps), @r#"
    got 4 running pods of queue "a", expected 6: 2 pending (p-2, p-4), 4 running (p-0, p-1, p-3, p-5)
    queue "a" uses 4 GPUs: quota 2, fair share 4, limit 4
    queue "a" uses 0 CPU cores: quota unlimited, fair share 0, limit 16
    (at +4.002s)
    pending in queue a: 2 pods (p-2, p-4): a quota has reached the allowable limit of GPUs. Limit is 4 GPUs, currently 4 GPUs allocated and workload requested 1 GPUs
    "#);
}

#[test]
fn invalid_fields_kinds_and_types_in_a_manifest_are_rejected() {
    let queue = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: a}\n";
    let group = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: a}\n";
    let messages = [
        manifest_failure(&format!("# one\n{queue}spec:\n  resources: {{gpu: {{qouta: 3}}}}\n")),
        manifest_failure(&format!("{queue}---\n{group}spec:\n  queue: a\n  minMember: many\n")),
        manifest_failure(&format!("{group}spec: {{minMember: -1}}\n")),
        manifest_failure(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: {}}\n",
        ),
        manifest_failure("apiVersion: v1\nkind: Podd\nmetadata: {name: a}\n"),
        manifest_failure("kind: Pod\nmetadata: {name: a}\n"),
        manifest_failure("apiVersion: v1\nkind: Namespace\nmetadata: {}\n"),
        manifest_failure("apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n"),
        manifest_failure("apiVersion: v1\nkind: Pod\nkind: Pod\n"),
        manifest_failure("# nothing\n"),
    ];
    assert_snapshot!(messages.join("\n"), @r#"
    fixtures/x.yaml:6:28: Queue a: unknown field spec.resources.gpu.qouta, expected one of limit, overQuotaWeight, quota
    fixtures/x.yaml:1:1: Queue a: Queue.scheduling.run.ai "a" is invalid: spec: Required value (Invalid)
    fixtures/x.yaml:4:19: PodGroup a: PodGroup.scheduling.run.ai "a" is invalid: spec.minMember: Invalid value: -1: spec.minMember in body should be greater than or equal to 0 (Invalid)
    fixtures/x.yaml:4:8: Pod a: Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container (BadRequest)
    fixtures/x.yaml:1:1: kind: got Podd, expected ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount
    fixtures/x.yaml:1:1: apiVersion: got nothing, expected a value
    fixtures/x.yaml:3:1: Namespace without a name: Namespace "" is invalid: metadata.name: Required value: name or generateName is required (Invalid)
    fixtures/x.yaml:4:2: invalid YAML: tabs disallowed within this context (block indentation)
    fixtures/x.yaml:3:1: invalid YAML: duplicate mapping key: kind not allowed here
    fixtures/x.yaml:1: got no object, expected one or more
    "#);
    let version =
        manifest_failure("apiVersion: apps/v1beta9\nkind: Deployment\nmetadata: {name: a}\n");
    assert!(version.starts_with("fixtures/x.yaml:1:1: apiVersion: got apps/v1beta9, expected"));
    assert!(version.contains(", apps/v1,"), "{version}");
}

#[test]
fn excessive_durations_are_rejected() {
    assert_snapshot!(failures(&[
        "Given a queue \"a\" with a quota of 1\nThen for 99999999999999999999h queue \"a\" has 0 running pods",
        "When 99999999 days pass",
    ]), @r"
    features/f.feature:4: when: got 99999999999999999999h, expected a duration such as 90s, 10m, 1h 30m or 2d, at most 36525d
    features/f.feature:3: span: got 99999999 days, expected a duration such as 90s, 10m, 1h 30m or 2d, at most 36525d
    ");
}

#[test]
fn an_invalid_field_in_a_doc_string_is_reported_with_its_line() {
    let lab = Lab::empty();
    let pod = "When this manifest is applied:\n  \"\"\"yaml\n  apiVersion: v1\n  kind: Pod\n  \
               metadata: {name: a}\n  spec:\n    restartPolicy: Sometimes\n    \
               containers: [{name: a, image: b}]\n  \"\"\"";
    assert_snapshot!(failure(&lab, pod), @r#"features/f.feature:9: Pod a: Pod "a" is invalid: spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never" (Invalid)"#);
}

#[test]
fn missing_fixtures_and_fleets_are_reported() {
    let lab = Lab::empty();
    lab.write("fixtures/queues.yaml", "");
    let fixture = failure(&lab, "When the manifest \"quees.yaml\" is applied");
    let fleet = failure(&lab, "Given the fleet \"fleets/lab.yaml\"");
    assert_snapshot!(format!("{fixture}\n{fleet}"), @r"
    features/f.feature:3: fixtures/quees.yaml: No such file or directory (os error 2); its folder has queues.yaml
    features/f.feature:3: fixtures/fleets/lab.yaml: No such file or directory (os error 2); fixtures are in fixtures/ beside features/
    ");
}

#[test]
fn an_invalid_fleet_file_is_reported_with_its_line() {
    let fleet_failure = |yaml: &str| {
        let lab = Lab::empty();
        lab.write("fixtures/fleets/x.yaml", yaml);
        failure(&lab, "Given the fleet \"fleets/x.yaml\"")
    };
    let messages = [
        fleet_failure(""),
        fleet_failure("pools:\n- name: a\n  gpuProduct: NVIDIA H100\n"),
        fleet_failure(
            "\napiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {taints: [{key: k, effect: Never}]}\n",
        ),
    ];
    assert_snapshot!(messages.join("\n"), @r#"
    fixtures/fleets/x.yaml: got nothing, expected `pools:` with one or more pools, or Nodes as Kubernetes objects
    fixtures/fleets/x.yaml:3:15: gpuProduct: "NVIDIA H100": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
    fixtures/fleets/x.yaml:5:34: Node a: Node "a" is invalid: metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute" (Invalid)
    "#);
}

#[test]
fn no_object_of_a_refused_manifest_is_created() {
    let run = run_steps(
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
fn no_object_of_a_file_with_an_invalid_object_is_created() {
    let lab = Lab::empty();
    lab.write(
        "fixtures/x.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: \
         Namespace\nmetadata: {name: B}\n",
    );
    let steps = format!("{FLEET}When the manifest \"x.yaml\" is applied");
    assert_snapshot!(failure(&lab, &steps), @r#"fixtures/x.yaml:7:18: Namespace B: Namespace "B" is invalid: metadata.name: Invalid value: "B": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?') (Invalid)"#);
    assert!(!lab.exists("snapshots"));
}
