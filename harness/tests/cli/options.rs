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
        ("control-plane --image foo", "--image: has no effect on --cluster control-plane"),
        ("container --kind-cluster foo", "it is for --cluster kind"),
        ("emulator --context mine --confirm", "it is for --cluster kubeconfig"),
        ("kind --kubeconfig mine", "it is for --cluster kubeconfig"),
        ("kubeconfig --assets mine", "it is for --cluster control-plane"),
        ("control-plane --node-image foo", "it is for --cluster kind"),
        ("emulator --kind-config foo", "it is for --cluster kind"),
        ("emulator --time-scale 0.5", "it is for --cluster control-plane, kubeconfig"),
    ] {
        let said = refused(&words.split(' ').collect::<Vec<_>>());
        assert!(said.contains(told), "{words:?}: {said}");
    }
}

#[test]
fn nothing_is_installed_on_a_control_plane_of_ours() {
    let said = refused(&["control-plane", "--scheduler", "installed:kai-scheduler"]);
    assert!(said.contains("nothing is installed on a control plane of ours"), "{said}");
}

#[test]
fn the_target_of_another_scheduler_is_not_ours() {
    for target in ["kube-scheduler", "schedlab-scheduler", "kai-scheduler", "kueue"] {
        for cluster in ["emulator", "control-plane"] {
            let said = refused(&[cluster, "--target", target]);
            let told = format!(
                "schedlab: --target {target}: it declares another scheduler than ours, which is \
                 tested unless --scheduler names one; allowed with it are process:COMMAND,"
            );
            assert!(said.starts_with(&told), "{said}");
        }
    }
}

#[test]
fn a_target_file_whose_program_nobody_names_is_refused() {
    let lab = Lab::of("passes");
    let text = "name: mine\nqueues: none\ncapabilities: []\ncommand: '{program} {kubeconfig}'\n";
    lab.write("target.yaml", text);
    let ended = lab.run(&["run", "--cluster", "control-plane", "--target", "target.yaml"]);
    assert_eq!((ended.code, &*ended.out), (3, ""), "{}", ended.all());
    let told = "schedlab: target.yaml: command: {program} needs --scheduler \
                process:PROGRAM\n";
    assert_eq!(ended.err, told);
}

#[test]
fn a_scheduler_whose_program_is_not_there_is_told_before_anything_boots() {
    for (scheduler, told) in [
        ("process:/no/such", "scheduler schedlab-scheduler: there is no program /no/such"),
        ("process:no-such-program x", "there is no no-such-program on the PATH"),
    ] {
        let lab = Lab::of("passes");
        let state = lab.path("state");
        let args = ["run", "--cluster", "control-plane", "--scheduler", scheduler];
        let args = [&args[..], &["--target", "schedlab-scheduler"]].concat();
        let ended = lab.run_with(&args, &[("XDG_STATE_HOME", state.to_str().expect("text"))]);
        assert_eq!((ended.code, &*ended.out), (3, ""), "{}", ended.all());
        assert!(ended.err.contains(told), "{}", ended.all());
        assert!(!lab.exists("state"), "no run began: {}", ended.all());
    }
}
