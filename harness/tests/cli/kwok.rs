//! `run --kubelets kwok` where there is no kwok that could play the nodes: one message, exit code 3
//! (2 where nobody ever could), and nothing is left.

use super::lab::{Ended, Lab};

/// A run on a control plane whose programs do what this says.
fn on_control_plane(program: &str, kwok: Option<&str>) -> (Lab, Ended) {
    let lab = Lab::of("passes");
    for name in ["etcd", "kube-apiserver", "kube-controller-manager"] {
        lab.write_program(&format!("assets/{name}"), program);
    }
    if let Some(script) = kwok {
        lab.write_program("bin/kwok", script);
    }
    let [state, named] = ["state", "bin/kwok"].map(|name| lab.path(name).display().to_string());
    let args = ["run", "--cluster", "control-plane", "--assets", "assets", "--kubelets", "kwok"];
    let with = [("XDG_STATE_HOME", state.as_str()), ("SCHEDLAB_KWOK", named.as_str())];
    let ended = lab.run_with(&args, &with);
    (lab, ended)
}

#[test]
fn a_kwok_that_is_not_there_is_told_before_anything_is_started() {
    let (lab, ended) = on_control_plane("touch started", None);
    assert_eq!(ended.code, 3, "{}", ended.all());
    assert!(ended.err.contains("--kubelets kwok: cannot start it"), "{}", ended.err);
    assert!(ended.err.contains("SCHEDLAB_KWOK names"), "{}", ended.err);
    assert!(ended.err.contains("name a program that is kwok"), "{}", ended.err);
    assert!(!lab.exists("started") && !lab.exists("state/schedlab/runs"), "{}", ended.all());
}

#[test]
fn a_kwok_that_tells_no_version_is_not_started() {
    let (lab, ended) =
        on_control_plane("touch started", Some("#!/bin/sh\necho broken >&2; exit 1"));
    assert_eq!(ended.code, 3, "{}", ended.all());
    assert!(ended.err.contains("`kwok --version` failed: broken"), "{}", ended.err);
    assert!(!lab.exists("started"), "{}", ended.all());
}

#[test]
fn emulated_clusters_have_kubelets_of_their_own() {
    let lab = Lab::of("passes");
    let ended = lab.run(&["run", "--kubelets", "kwok"]);
    assert_eq!(ended.code, 2, "{}", ended.all());
    assert!(ended.err.contains("the emulator has kubelets of its own"), "{}", ended.err);
    let ended = lab.run(&["run", "--cluster", "container", "--kubelets", "kwok"]);
    assert_eq!(ended.code, 3, "{}", ended.all());
    assert!(ended.err.contains("in schedlab/cluster:dev the emulator plays"), "{}", ended.err);
    let ended = lab.run(&["run", "--kubelets", "nobody"]);
    assert_eq!(ended.code, 2, "{}", ended.all());
    assert!(ended.err.contains("auto, schedlab, kwok"), "{}", ended.err);
}
