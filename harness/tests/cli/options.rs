//! Options that do not apply to the chosen cluster, and schedulers that cannot run on it.

use super::lab::Lab;

/// Runs `schedlab run --cluster` with these arguments, expects a usage error and returns it.
fn usage_error(args: &[&str]) -> String {
    let output = Lab::from_fixture("passes").run(&[&["run", "--cluster"], args].concat());
    assert_eq!((output.code, &*output.stdout), (2, ""), "{}", output.all());
    output.stderr
}

#[test]
fn an_option_of_another_cluster_is_refused() {
    for (args, expected) in [
        ("control-plane --image foo", "--image: has no effect on --cluster control-plane"),
        ("container --kind-cluster foo", "it is for --cluster kind"),
        ("emulator --context mine --confirm", "it is for --cluster kubeconfig"),
        ("kind --kubeconfig mine", "it is for --cluster kubeconfig"),
        ("kubeconfig --assets mine", "it is for --cluster control-plane"),
        ("control-plane --node-image foo", "it is for --cluster kind"),
        ("emulator --kind-config foo", "it is for --cluster kind"),
        ("emulator --time-scale 0.5", "it is for --cluster control-plane, kubeconfig"),
    ] {
        let error = usage_error(&args.split(' ').collect::<Vec<_>>());
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}

#[test]
fn an_installed_scheduler_needs_an_existing_cluster() {
    let error = usage_error(&["control-plane", "--scheduler", "installed:kai-scheduler"]);
    assert!(error.contains("nothing is installed on --cluster control-plane"), "{error}");
}

#[test]
fn no_scheduler_needs_virtual_time() {
    let error = usage_error(&["control-plane", "--scheduler", "none"]);
    assert!(error.contains("--scheduler none: got a real cluster, expected"), "{error}");
}

#[test]
fn a_target_without_programs_needs_the_scheduler_option() {
    for target in ["kai-scheduler", "volcano"] {
        for cluster in ["emulator", "control-plane"] {
            let error = usage_error(&[cluster, "--target", target]);
            let expected = format!(
                "schedlab: --target {target}: declares another scheduler than `--scheduler ours`, which \
                 is the default, and has no `command`; expected with it --scheduler process:COMMAND,"
            );
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}

#[test]
fn a_program_runs_on_the_emulator_in_real_time() {
    let lab = Lab::from_fixture("passes");
    let example = format!("{}/examples/python-scheduler", env!("CARGO_MANIFEST_DIR"));
    let target = std::fs::read_to_string(format!("{example}/target.yaml"));
    let command = format!("python3 {example}/scheduler.py");
    let target = target.expect("the example has a target file");
    let target = target.replace("python3 harness/examples/python-scheduler/scheduler.py", &command);
    assert!(target.contains(&command), "{target}");
    lab.write("target.yaml", &target);
    let output = lab.run(&["run", "--target", "target.yaml"]);
    assert_eq!(output.code, 0, "{}", output.all());
    assert!(output.stdout.contains(" s of real time, in parallel in "), "{}", output.all());
}

#[test]
fn a_target_file_without_its_program_is_refused() {
    let lab = Lab::from_fixture("passes");
    let text = "name: mine\nqueues: none\ncapabilities: []\ncommand: '{program} {kubeconfig}'\n";
    lab.write("target.yaml", text);
    let output = lab.run(&["run", "--cluster", "control-plane", "--target", "target.yaml"]);
    assert_eq!((output.code, &*output.stdout), (3, ""), "{}", output.all());
    let expected = "schedlab: target.yaml: command: {program} needs --scheduler \
                process:PROGRAM\n";
    assert_eq!(output.stderr, expected);
}

#[test]
fn a_missing_scheduler_program_is_reported_before_a_cluster_boots() {
    for (scheduler, expected) in [
        ("process:/no/such", "scheduler schedlab-scheduler: there is no program /no/such"),
        ("process:no-such-program x", "there is no no-such-program on the PATH"),
    ] {
        let lab = Lab::from_fixture("passes");
        let state = lab.path("state");
        let args = ["run", "--cluster", "control-plane", "--scheduler", scheduler];
        let args = [&args[..], &["--target", "schedlab-scheduler"]].concat();
        let output =
            lab.run_with(&args, &[("XDG_STATE_HOME", state.to_str().expect("the path is UTF-8"))]);
        assert_eq!((output.code, &*output.stdout), (3, ""), "{}", output.all());
        assert!(output.stderr.contains(expected), "{}", output.all());
        assert!(!lab.exists("state"), "no run may have started: {}", output.all());
    }
}

#[test]
fn a_scenario_that_needs_a_newer_kubernetes_is_skipped_with_the_reason() {
    let lab = Lab::from_fixture("passes");
    let feature = "Feature: f\n  @kubernetes-1.37\n  Scenario: s\n    Given a fleet of 1 node with 1 GPU each\n    \
                   Then the cluster has 0 running pods\n";
    lab.write("features/new.feature", feature);
    let run = |version| lab.run(&["run", "features/new.feature", "--kubernetes", version]).all();
    let reason = "it needs Kubernetes 1.37 or later, and the cluster has 1.35";
    assert!(run("1.35").contains(reason), "{}", run("1.35"));
    assert!(run("1.37").contains("1 scenario: 1 passed"), "{}", run("1.37"));
}
