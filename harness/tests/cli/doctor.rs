//! `schedlab doctor` on machines that lack prerequisites: `PATH` is a folder of the test.

use schedlab_api::Value;

use super::lab::{CommandOutput, Lab};

/// Runs `schedlab doctor` on a machine with these programs only.
fn doctor(programs: &[(&str, &str)], args: &[&str]) -> CommandOutput {
    doctor_in(&Lab::from_fixture("diff"), programs, args)
}

fn doctor_in(lab: &Lab, programs: &[(&str, &str)], args: &[&str]) -> CommandOutput {
    std::fs::create_dir(lab.path("bin")).expect("a folder can be created");
    for (name, script) in programs {
        lab.write_program(&format!("bin/{name}"), script);
    }
    let (bin, home) = (lab.path("bin"), lab.path("home"));
    let text = |path: &std::path::Path| path.display().to_string();
    let environment = [
        ("PATH", text(&bin)),
        ("HOME", text(&home)),
        ("XDG_CACHE_HOME", text(&home)),
        ("KUBECONFIG", text(&home.join("config"))),
        ("SCHEDLAB_SOCKETS", text(&home)),
        ("KUBEBUILDER_ASSETS", String::new()),
        ("SCHEDLAB_KIND", String::new()),
        ("DOCKER_HOST", String::new()),
    ];
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    lab.run_with(&[&["doctor"], args].concat(), &environment)
}

/// Each target, whether it can run, and its missing prerequisites with suggestions.
fn abilities(output: &CommandOutput) -> Vec<(String, bool, String)> {
    let json: Value = serde_json::from_str(&output.stdout).expect("the output is JSON");
    let word = |value: &Value| value.as_str().expect("the field is a string").to_owned();
    let describe = |ability: &Value| {
        let missing = ability["missing"].as_array().expect("the field is a list");
        let missing: Vec<String> =
            missing.iter().map(|one| format!("{} -> {}", one["what"], one["remedy"])).collect();
        (word(&ability["target"]), ability["ready"] == true, missing.join("; "))
    };
    json["abilities"].as_array().expect("the field is a list").iter().map(describe).collect()
}

#[test]
fn without_programs_only_the_emulator_is_ready_and_other_targets_have_suggestions() {
    let output = doctor(&[], &["--format", "json"]);
    assert_eq!(output.code, 0, "{}", output.all());
    let abilities = abilities(&output);
    let ready: Vec<&str> =
        abilities.iter().filter(|(_, ready, _)| *ready).map(|(name, ..)| name.as_str()).collect();
    assert_eq!(ready, ["emulator"], "{}", output.stdout);
    let missing = |target: &str| {
        abilities.iter().find(|(name, ..)| name == target).map(|(_, _, missing)| missing.clone())
    };
    for (target, suggestion) in [
        ("control-plane", "install go"),
        ("container", "apt-get install docker.io"),
        ("kind", "kind-configs/prepare"),
        ("kubeconfig", "set KUBECONFIG"),
        ("helm", "kind-configs/tool helm"),
        ("kubectl", "apt-get install kubernetes-client"),
    ] {
        let missing = missing(target).expect("the target is listed");
        assert!(missing.contains(suggestion), "{target}: {missing}");
    }
    let text = doctor(&[], &[]);
    assert!(text.stdout.contains("✔ emulator"), "{}", text.stdout);
    assert!(text.stdout.contains("✘ container\n    docker: there is no docker on the PATH\n"));
}

/// A docker CLI whose daemon does not run.
const DEAD_DAEMON: &str = "#!/bin/sh\n[ $1 = --version ] && echo Docker version 20.10, build 1 && exit\n\
     echo 'Cannot connect to the Docker daemon at unix:///d.sock.' >&2; exit 1\n";

#[test]
fn in_a_checkout_the_suggestion_for_a_dead_daemon_is_its_own_script() {
    let lab = Lab::from_fixture("diff");
    lab.write_program("kind-configs/engine/start", "");
    let output = doctor_in(&lab, &[("docker", DEAD_DAEMON)], &["container"]);
    assert!(
        output.stdout.contains("export DOCKER_HOST=$(kind-configs/engine/start)"),
        "{}",
        output.stdout
    );
}

#[test]
fn the_suggestion_for_a_missing_kubeconfig_uses_no_option_that_doctor_lacks() {
    let output = doctor(&[], &["kubeconfig"]);
    assert!(output.stdout.contains("set KUBECONFIG"), "{}", output.stdout);
    assert!(!output.stdout.contains("--kubeconfig"), "{}", output.stdout);
}

#[test]
fn a_dead_daemon_is_distinguished_from_a_missing_docker() {
    let output = doctor(&[("docker", DEAD_DAEMON)], &["container"]);
    assert_eq!(output.code, 3, "{}", output.all());
    assert!(output.stdout.contains("docker 20.10, build 1"), "{}", output.stdout);
    assert!(
        output.stdout.contains("daemon: Cannot connect to the Docker daemon"),
        "{}",
        output.stdout
    );
    assert!(output.stdout.contains("to do: start docker's daemon"), "{}", output.stdout);
    assert!(!output.stdout.contains("emulator"), "{}", output.stdout);
}

#[test]
fn the_daemon_in_use_is_reported_with_its_context() {
    let docker = "#!/bin/sh\ncase \"$1\" in --version) echo Docker version 28.0;; version) echo \
                  28.0;; context) echo colima unix:///c/docker.sock;; esac\n";
    let output = doctor(&[("docker", docker)], &["container"]);
    let line = "docker 28.0, context colima at unix:///c/docker.sock, daemon 28.0\n";
    assert!(output.stdout.contains(line), "{}", output.stdout);
}

#[test]
fn docker_kind_and_a_node_image_are_enough_for_kind() {
    let docker = "#!/bin/sh\ncase \"$1\" in --version) echo Docker version 20.10;; version) echo \
                  20.10;; images) echo schedlab/node:v1;; esac\n";
    let with_image = [("docker", docker), ("kind", "#!/bin/sh\necho kind v0.33.0\n")];
    let output = doctor(&with_image, &["kind", "--format", "json"]);
    assert_eq!(output.code, 0, "{}", output.all());
    let without = docker.replace("schedlab/node:v1", "registry/nodejs:v1");
    let output = doctor(&[("docker", &without), with_image[1]], &["kind"]);
    assert_eq!(output.code, 3, "{}", output.all());
    assert!(output.stdout.contains("no node image"), "{}", output.stdout);
}

#[test]
fn doctor_looks_for_a_control_plane_where_a_run_does() {
    let plane = |version: &str| {
        let path = |name| format!("../home/schedlab/control-plane/{version}/{name}");
        let paths = ["etcd", "kube-apiserver", "kube-controller-manager"].map(path);
        let script = "#!/bin/sh\necho Kubernetes v1.37.2\n";
        let programs: Vec<(&str, &str)> = paths.iter().map(|path| (&**path, script)).collect();
        doctor(&programs, &["control-plane"])
    };
    assert_eq!(plane("v1.37.2").code, 0, "{}", plane("v1.37.2").all());
    let other = plane("v1.1.0");
    assert_eq!(other.code, 3, "{}", other.all());
    assert!(other.stdout.contains("no etcd, kube-apiserver, kube-controller-manager in "));
    assert!(other.stdout.contains("/home/schedlab/control-plane/v1.37.2"), "{}", other.stdout);
}

#[test]
fn an_old_kubectl_is_not_enough() {
    let kubectl = "#!/bin/sh\necho '{\"clientVersion\": {\"gitVersion\": \"v1.20.2\"}}'\n";
    let output = doctor(&[("kubectl", kubectl)], &["kubectl"]);
    assert_eq!(output.code, 3, "{}", output.all());
    assert!(output.stdout.contains("kubectl has version 1.20"), "{}", output.stdout);
    let new = kubectl.replace("1.20.2", "1.35.4");
    assert_eq!(doctor(&[("kubectl", &new)], &["kubectl"]).code, 0);
}
