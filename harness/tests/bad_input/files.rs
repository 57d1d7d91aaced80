//! Feature files and fleets on the command line.

use insta::assert_snapshot;

use crate::lab::Lab;

/// What a feature that cannot be read is told, by each verb that reads it.
fn refused(feature: &str) -> String {
    let lab = Lab::empty();
    lab.write("features/f.feature", feature);
    let run = lab.run(&["run"]);
    for verb in ["list", "check"] {
        assert_eq!(lab.run(&[verb]).all(), run.all());
    }
    assert_eq!((run.code, &*run.out), (1, ""), "{}", run.all());
    assert!(!lab.exists("results"), "nothing ran");
    run.err
}

#[test]
fn features_that_cannot_be_read() {
    let told = [
        refused("Scenario: s\n  Given a fleet\n"),
        refused("Feature: f\n"),
        refused("Feature: f\n  Scenario: s\n"),
        refused("Feature: f\n  Scenario: s\n    Gven a fleet\n"),
        refused("Feature: f\n  Scenario: s\n    Given a\n    Nothing more\n"),
        refused(
            "Feature: f\n  Given a fleet of 1 node with 8 GPUs each\n  Scenario: s\n    Given a\n",
        ),
        refused("Feature: f\n  Scenario: s\n    Given a\n  Scenario: s\n    Given a\n"),
        refused("Feature: f\n  Scenario Outline: s\n    Given <a>\n"),
        refused("Feature: f\n  Scenario: s\n    Given a:\n      \"\"\"\n      a\n"),
        refused("Feature: f\n  Scenario: s\n    Given a\n    When b\n  Scenario: t\n    Then a\n"),
        refused(
            "Feature: f\n  Scenario Outline: s\n    Given <a>\n    Examples:\n    |a|\n    |b|\n    |c|\n",
        ),
    ];
    assert_snapshot!(told.concat(), @r#"
    features/f.feature:1: found no `Feature:`, a feature begins with it and its name
    features/f.feature:1: this feature has no scenario
    features/f.feature:2: scenario `s` has no step
    features/f.feature:3: `Gven` is no keyword and would be read as description; did you mean `Given`?
    features/f.feature:4: found `Nothing more` among steps, allowed are Given, When, Then, And, But
    features/f.feature:2: this step stands where only description is read; allowed are steps below Background:, Scenario: and Scenario Outline:
    features/f.feature:4: the name `s` stands already at line 2
    features/f.feature:2: outline `s` has no examples
    features/f.feature:4: the doc string that begins here is not closed by """
    features/f.feature:2: this scenario asserts nothing: found no `Then`, it needs at least one
    features/f.feature:2: this scenario asserts nothing: found no `Then`, it needs at least one
    "#);
}

#[test]
fn prose_may_begin_as_steps_do() {
    let lab = Lab::empty();
    lab.write(
        "features/f.feature",
        "Feature: f\n  The owner of a queue comes back.\n  When it does, others leave\n  and wait.\n  \
         Scenario: s\n    The rest is easy,\n    given time.\n    Given a fleet of 1 node with 8 \
         GPUs each\n    Then node \"node-1\" has 8 free GPUs\n",
    );
    let run = lab.run(&["run"]);
    assert_eq!(run.code, 0, "{}", run.all());
    assert!(run.out.contains("2 steps: 2 passed"), "{}", run.out);
}

#[test]
fn fleets_that_cannot_be_read() {
    let up = |fleet: &str| {
        let lab = Lab::empty();
        lab.write("fleet.yaml", fleet);
        let run = lab.run(&["up", "--fleet", "fleet.yaml"]);
        assert_eq!((run.code, &*run.out), (2, ""), "{}", run.all());
        assert!(!lab.exists("schedlab.kubeconfig"));
        run.err
    };
    let told = [
        up("pools:\n- name: a\n  gpu: 8\n"),
        up("pools:\n- name: a\n  gpus: -1\n"),
        up("pools:\n- name: a\n  memory: 99999999999Ei\n"),
        up("pools:\n- name: a\n- name: a\n"),
        up("pools: [\n"),
    ];
    assert_snapshot!(told.concat(), @r"
    schedlab: fleet.yaml:3:3: unknown field `gpu`, expected one of name, count, names, gpus, gpusBy, gpuProduct, gpuMemory, cpu, memory, ephemeralStorage, pods, labels, annotations, taints, topology, objects, kubelet
    schedlab: fleet.yaml:3:9: gpus: found -1, allowed is a whole number from 0 to 1024
    schedlab: fleet.yaml:3:11: memory: found 99999999999Ei: too large: a quantity holds at most 9223372036854775807 (2^63 - 1)
    schedlab: fleet.yaml:3:9: name: found a twice, pools need names of their own
    schedlab: fleet.yaml:1:8: unclosed bracket '['
    ");
    let missing = Lab::empty().run(&["up", "--fleet", "fleet.yaml"]);
    assert_eq!(missing.code, 2);
    assert_snapshot!(missing.err, @"schedlab: fleet.yaml: No such file or directory (os error 2)");
}
