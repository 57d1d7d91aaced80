//! `run --kubelets kwok` without a usable kwok: one message, exit code 3 (2 for clusters that can
//! never use kwok), and nothing is left behind.

use super::lab::{CommandOutput, Lab};

/// Runs on a control plane whose programs are this script, with this script as kwok.
fn run_on_control_plane(program: &str, kwok: Option<&str>) -> (Lab, CommandOutput) {
    let lab = Lab::from_fixture("passes");
    for name in ["etcd", "kube-apiserver", "kube-controller-manager"] {
        lab.write_program(&format!("assets/{name}"), program);
    }
    if let Some(script) = kwok {
        lab.write_program("bin/kwok", script);
    }
    let [state, named] = ["state", "bin/kwok"].map(|name| lab.path(name).display().to_string());
    let args = ["run", "--cluster", "control-plane", "--assets", "assets", "--kubelets", "kwok"];
    let with = [("XDG_STATE_HOME", state.as_str()), ("SCHEDLAB_KWOK", named.as_str())];
    let output = lab.run_with(&args, &with);
    (lab, output)
}

#[test]
fn a_missing_kwok_is_reported_before_anything_is_started() {
    let (lab, output) = run_on_control_plane("touch started", None);
    assert_eq!(output.code, 3, "{}", output.all());
    assert!(output.stderr.contains("--kubelets kwok: cannot start kwok"), "{}", output.stderr);
    assert!(output.stderr.contains("SCHEDLAB_KWOK names"), "{}", output.stderr);
    assert!(
        output.stderr.contains("set SCHEDLAB_KWOK to a kwok program, or unset it"),
        "{}",
        output.stderr
    );
    assert!(!lab.exists("started") && !lab.exists("state/schedlab/runs"), "{}", output.all());
}

#[test]
fn a_kwok_without_a_version_is_not_started() {
    let (lab, output) =
        run_on_control_plane("touch started", Some("#!/bin/sh\necho broken >&2; exit 1"));
    assert_eq!(output.code, 3, "{}", output.all());
    assert!(output.stderr.contains("`kwok --version` failed: broken"), "{}", output.stderr);
    assert!(!lab.exists("started"), "{}", output.all());
}

#[test]
fn emulated_clusters_do_not_use_kwok() {
    let lab = Lab::from_fixture("passes");
    let output = lab.run(&["run", "--kubelets", "kwok"]);
    assert_eq!(output.code, 2, "{}", output.all());
    assert!(output.stderr.contains("the emulator has its own kubelets"), "{}", output.stderr);
    let output = lab.run(&["run", "--cluster", "container", "--kubelets", "kwok"]);
    assert_eq!(output.code, 3, "{}", output.all());
    assert!(
        output.stderr.contains("in schedlab/cluster:dev the emulator simulates"),
        "{}",
        output.stderr
    );
    let output = lab.run(&["run", "--kubelets", "other"]);
    assert_eq!(output.code, 2, "{}", output.all());
    assert!(output.stderr.contains("auto, schedlab, kwok"), "{}", output.stderr);
}
