//! Invalid feature files, and invalid files on the command line.

use insta::assert_snapshot;

use crate::lab::Lab;

/// The message about an invalid feature file, which must be the same for all commands that load it.
fn load_error(feature: &str) -> String {
    let lab = Lab::empty();
    lab.write("features/f.feature", feature);
    let run = lab.run(&["run"]);
    for command in ["list", "check"] {
        assert_eq!(lab.run(&[command]).all(), run.all());
    }
    assert_eq!((run.code, &*run.stdout), (1, ""), "{}", run.all());
    assert!(!lab.exists("results"), "nothing ran");
    run.stderr
}

/// A scenario without assertions.
const WITHOUT_THEN: &str =
    "Feature: f\n  Scenario: s\n    Given a fleet of 1 node with 8 GPUs each\n";

#[test]
fn files_that_are_not_utf8_are_reported_with_the_line() {
    let lab = Lab::empty();
    let write = |path: &str, bytes: &[u8]| {
        lab.write(path, "");
        std::fs::write(lab.path(path), bytes).expect("the file can be written");
    };
    write("features/f.feature", b"Feature: f\n  Scenario: s\xff\n");
    write("fleet.yaml", b"pools:\n- name: a\n  gpuProduct: \xfc\n");
    write("n.csv", b"sn,cpu_milli,memory_mib,gpu\nn\xe4,1,1,1\n");
    write("p.csv", b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1000\n");
    write("cases/c.json", b"{\"cases\":\n [\xfe]}");
    write("target.yaml", b"name: t\xe9\n");
    write("old/report.json", b"{\"cases\": \"\xe9\"}");
    let messages = [
        lab.run(&["run"]).stderr,
        lab.run(&["up", "--fleet", "fleet.yaml"]).stderr,
        lab.run(&["simulate", "--nodes", "n.csv", "--pods", "p.csv"]).stderr,
        lab.run(&["cases", "cases"]).stderr,
        lab.run(&["run", "--target", "target.yaml"]).stderr,
        lab.run(&["diff", "old", "old"]).stderr,
    ];
    assert_snapshot!(messages.concat(), @r"
    features/f.feature:2: got the byte 0xff at byte 14 of the line, expected UTF-8 text
    schedlab: fleet.yaml:3: got the byte 0xfc at byte 15 of the line, expected UTF-8 text
    schedlab: n.csv:2: got the byte 0xe4 at byte 2 of the line, expected UTF-8 text
    schedlab: cases/c.json:2: got the byte 0xfe at byte 3 of the line, expected UTF-8 text
    schedlab: target file target.yaml:1: got the byte 0xe9 at byte 8 of the line, expected UTF-8 text
    schedlab: old/report.json:1: got the byte 0xe9 at byte 12 of the line, expected UTF-8 text
    ");
}

#[test]
fn line_0_of_a_feature_is_rejected() {
    let lab = Lab::empty();
    lab.write("features/f.feature", &format!("{WITHOUT_THEN}    Then the cluster has no pods\n"));
    for command in ["run", "list", "check"] {
        let output = lab.run(&[command, "features/f.feature:0"]);
        assert_eq!((output.code, &*output.stdout), (2, ""), "{}", output.all());
        let expected =
            "schedlab: features/f.feature:0: got line 0, expected the line of a scenario, from 1\n";
        assert_eq!(output.stderr, expected);
    }
}

#[test]
fn star_steps_and_example_scenarios_run() {
    let lab = Lab::empty();
    lab.write(
        "features/f.feature",
        "Feature: f\n  Example: s\n    * a fleet of 1 node with 8 GPUs each\n    * a queue \"a\" with \
         a quota of 8\n    When 2 pods \"p\" with 4 GPUs each are submitted to queue \"a\"\n    Then \
         the cluster has 2 running and 0 pending pods\n    * node \"node-1\" has 0 free GPUs\n",
    );
    let run = lab.run(&["run"]);
    assert_eq!(run.code, 0, "{}", run.all());
    assert!(run.stdout.contains("5 steps: 5 passed"), "{}", run.stdout);
}

#[test]
fn unwritable_results_are_reported_before_a_scenario_runs() {
    let lab = Lab::empty();
    lab.write("file", "unchanged");
    lab.write(
        "features/f.feature",
        &format!("{WITHOUT_THEN}    Then node \"node-1\" has 8 free GPUs\n"),
    );
    let run = |args: &[&str]| {
        let run = lab.run(&[&["run"], args].concat());
        assert_eq!((run.code, &*run.stdout), (2, ""), "{}", run.all());
        run.stderr
    };
    let messages = [
        run(&["--results", "file"]),
        run(&["--reporter", "junit=missing/x.xml"]),
        run(&["--reporter", "pretty,json=features"]),
    ];
    assert_snapshot!(messages.concat(), @r"
    schedlab: --results file: cannot be written: file is not a folder
    schedlab: --reporter missing/x.xml: cannot be written: the folder missing is not there
    schedlab: --reporter features: cannot be written: Is a directory (os error 21)
    ");
    assert!(!lab.exists("results") && !lab.exists("missing"));
    assert_eq!(lab.read("file"), "unchanged");
}

#[test]
fn invalid_features_are_rejected() {
    let messages = [
        load_error("Scenario: s\n  Given a fleet\n"),
        load_error("Feature: f\n"),
        load_error("Feature: f\n  Scenario: s\n"),
        load_error("Feature: f\n  Scenario: s\n    Gven a fleet\n"),
        load_error("Feature: f\n  Scenario: s\n    Given a\n    Nothing more\n"),
        load_error(
            "Feature: f\n  Given a fleet of 1 node with 8 GPUs each\n  Scenario: s\n    Given a\n",
        ),
        load_error("Feature: f\n  Scenario: s\n    Then a\n  Scenario: s\n    Given a\n"),
        load_error(""),
        load_error("Feature: f\n  Scenario Outline: s\n    Given <a>\n"),
        load_error("Feature: f\n  Scenario: s\n    Given a:\n      \"\"\"\n      a\n"),
    ];
    assert_snapshot!(messages.concat(), @r#"
    features/f.feature:1: got no `Feature:`, expected `Feature:` and a name
    features/f.feature:1: this feature has no scenario
    features/f.feature:2: scenario `s` has no step
    features/f.feature:3: `Gven` is not a keyword and would be read as description; did you mean `Given`?
    features/f.feature:4: got `Nothing more` among steps, expected Given, When, Then, And, But, *
    features/f.feature:2: this step is in a description and would be ignored; expected steps below Background:, Scenario:, Example: and Scenario Outline:
    features/f.feature:4: duplicate scenario name `s`, first used in line 2
    features/f.feature:4: this scenario asserts nothing: got no `Then` step, expected at least one
    features/f.feature: got an empty file, expected `Feature:` and a name
    features/f.feature:2: outline `s` has no examples
    features/f.feature:4: the doc string that begins here is not closed by """
    "#);
}

#[test]
fn a_scenario_without_assertions_does_not_hide_other_errors() {
    let messages = [
        load_error(&format!(
            "{WITHOUT_THEN}  Scenario: t\n    Then the cluster has 0 pending pods\n"
        )),
        load_error(
            &format!("{WITHOUT_THEN}    Examples:\n    |n|\n    |1|\n    |2|\n")
                .replace("Scenario:", "Scenario Outline:")
                .replace("of 1", "of <n>"),
        ),
        load_error(&format!(
            "{WITHOUT_THEN}    When it rains\n  Scenario: t\n    Given a flet\n    Then x\n"
        )),
    ];
    assert_snapshot!(messages.concat(), @r#"
    features/f.feature:2: this scenario asserts nothing: got no `Then` step, expected at least one
    features/f.feature:2: this scenario asserts nothing: got no `Then` step, expected at least one
    features/f.feature:2: this scenario asserts nothing: got no `Then` step, expected at least one
    features/f.feature:4: no step matches `When it rains`
    nearest: When {duration} pass(es)
    example: When 10 minutes pass
    all steps: schedlab steps; to add one (harness/conformance/src/steps):
        #[when(expr = "it rains")]
        async fn step(world: &mut World) -> StepResult { … }
    features/f.feature:6: no step matches `Given a flet`
    nearest: Given a fleet:
    example: Given a fleet:
               | pool | nodes | gpus | labels  | taints              |
               | h100 | 2     | 8    | rack=r1 | gpu=true:NoSchedule |
               | cpu  | 1     | 0    | rack=r2 |                     |
    all steps: schedlab steps; to add one (harness/conformance/src/steps):
        #[given(expr = "a flet")]
        async fn step(world: &mut World) -> StepResult { … }
    features/f.feature:7: no step matches `Then x`
    nearest: Then {when}{workload} is {state}{stays}
    example: Then gang "train" is pending
             Then after 30 seconds pod "a" is gone
    all steps: schedlab steps; to add one (harness/conformance/src/steps):
        #[then(expr = "x")]
        async fn step(world: &mut World) -> StepResult { … }
    "#);
}

#[test]
fn descriptions_may_begin_with_step_keywords() {
    let lab = Lab::empty();
    lab.write(
        "features/f.feature",
        "Feature: f\n  The owner of a queue comes back.\n  When it does, others leave\n  and wait.\n  \
         Scenario: s\n    The rest is easy,\n    given time.\n    Given a fleet of 1 node with 8 \
         GPUs each\n    Then node \"node-1\" has 8 free GPUs\n",
    );
    let run = lab.run(&["run"]);
    assert_eq!(run.code, 0, "{}", run.all());
    assert!(run.stdout.contains("2 steps: 2 passed"), "{}", run.stdout);
}

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n";

#[test]
fn invalid_fleets_are_rejected() {
    let up = |fleet: &str| {
        let lab = Lab::empty();
        lab.write("fleet.yaml", fleet);
        let run = lab.run(&["up", "--fleet", "fleet.yaml"]);
        assert_eq!((run.code, &*run.stdout), (2, ""), "{}", run.all());
        assert!(!lab.exists("schedlab.kubeconfig"));
        run.stderr
    };
    let messages = [
        up("pools:\n- name: a\n  gpu: 8\n"),
        up("pools:\n- name: a\n  gpus: -1\n"),
        up("pools:\n- name: a\n  memory: 99999999999Ei\n"),
        up("pools:\n- name: a\n- name: a\n"),
        up("pools: [\n"),
        up(""),
        up("pools:\n- name: a\n- name: b\n  taints: [\"a b:NoSchedule\"]\n"),
        up(&format!("{NODE}---\n{NODE}spec: {{taints: [{{key: k, effect: Never}}]}}\n")
            .replacen("name: a", "name: b", 1)),
    ];
    assert_snapshot!(messages.concat(), @r#"
    schedlab: fleet.yaml:3:3: unknown field `gpu`, expected one of name, count, names, gpus, gpusBy, gpuProduct, gpuMemory, cpu, memory, ephemeralStorage, pods, labels, annotations, taints, topology, objects, kubelet
    schedlab: fleet.yaml:3:9: gpus: got -1, expected a whole number from 0 to 1024
    schedlab: fleet.yaml:3:11: memory: got 99999999999Ei: too large: a quantity holds at most 9223372036854775807 (2^63 - 1)
    schedlab: fleet.yaml:3:9: pool name: got a twice, expected unique names; first at fleet.yaml:2:9
    schedlab: fleet.yaml:1:8: unclosed bracket '['
    schedlab: fleet.yaml: got nothing, expected `pools:` with one or more pools, or Nodes as Kubernetes objects
    schedlab: fleet.yaml:4:12: taints[0].key: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
    schedlab: fleet.yaml:8:34: Node "a" is invalid: metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
    "#);
    let missing = Lab::empty().run(&["up", "--fleet", "fleet.yaml"]);
    assert_eq!(missing.code, 2);
    assert_snapshot!(missing.stderr, @"schedlab: fleet.yaml: No such file or directory (os error 2); expected a file, or a fleet of schedlab: claims, lab, mig, mixed-claims");
}
