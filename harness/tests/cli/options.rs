//! Options that mean nothing where they stand, and schedulers that cannot be there.

use super::lab::Lab;

/// What a run with these words is refused with.
fn refused(words: &[&str]) -> String {
    let ended = Lab::of("passes").run(&[&["run", "--cluster"], words].concat());
    assert_eq!((ended.code, &*ended.out), (2, ""), "{}", ended.all());
    ended.err
}

#[test]
fn an_option_of_another_cluster_is_refused() {
    for (words, told) in [
        (
            ["control-plane", "--image", "foo"],
            "--image: it means nothing on --cluster control-plane",
        ),
        (["container", "--kind-cluster", "foo"], "it is for --cluster kind"),
        (["emulator", "--yes-this-cluster", "mine"], "it is for --cluster kubeconfig"),
        (["kind", "--kubeconfig", "mine"], "it is for --cluster kubeconfig"),
        (["kubeconfig", "--assets", "mine"], "it is for --cluster control-plane"),
        (["control-plane", "--node-image", "foo"], "it is for --cluster kind"),
        (["emulator", "--kind-config", "foo"], "it is for --cluster kind"),
        (["emulator", "--time-scale", "0.5"], "it is for --cluster control-plane, kubeconfig"),
    ] {
        let said = refused(&words);
        assert!(said.contains(told), "{words:?}: {said}");
    }
}

#[test]
fn nothing_is_installed_on_a_control_plane_of_ours() {
    let said = refused(&["control-plane", "--scheduler", "installed:kai-scheduler"]);
    assert!(said.contains("nothing is installed on a control plane of ours"), "{said}");
}
