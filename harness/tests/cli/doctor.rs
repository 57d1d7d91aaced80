//! `schedlab doctor` on machines that lack things: its PATH is a folder of ours.

use schedlab_json::Value;

use super::lab::{Ended, Lab};

/// A machine with these programs and nothing else.
fn doctor(programs: &[(&str, &str)], args: &[&str]) -> Ended {
    doctor_in(&Lab::of("diff"), programs, args)
}

fn doctor_in(lab: &Lab, programs: &[(&str, &str)], args: &[&str]) -> Ended {
    std::fs::create_dir(lab.path("bin")).expect("a folder can be made");
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

/// Whether each target can run, and what is missing where it cannot.
fn told(ended: &Ended) -> Vec<(String, bool, String)> {
    let json: Value = serde_json::from_str(&ended.out).expect("it is JSON");
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    let of = |ability: &Value| {
        let missing = ability["missing"].as_array().expect("a list");
        let missing: Vec<String> =
            missing.iter().map(|one| format!("{} -> {}", one["what"], one["remedy"])).collect();
        (word(&ability["target"]), ability["ready"] == true, missing.join("; "))
    };
    json["abilities"].as_array().expect("a list").iter().map(of).collect()
}

#[test]
fn with_nothing_installed_the_emulator_runs_and_all_else_comes_with_what_to_do() {
    let ended = doctor(&[], &["--format", "json"]);
    assert_eq!(ended.code, 0, "{}", ended.all());
    let told = told(&ended);
    let ready: Vec<&str> =
        told.iter().filter(|(_, ready, _)| *ready).map(|(name, ..)| name.as_str()).collect();
    assert_eq!(ready, ["emulator"], "{}", ended.out);
    let missing = |target: &str| {
        told.iter().find(|(name, ..)| name == target).map(|(_, _, missing)| missing.clone())
    };
    for (target, remedy) in [
        ("control-plane", "install go"),
        ("container", "apt-get install docker.io"),
        ("kind", "kind-configs/prepare"),
        ("kubeconfig", "set KUBECONFIG"),
        ("helm", "kind-configs/tool helm"),
        ("kubectl", "apt-get install kubernetes-client"),
    ] {
        let missing = missing(target).expect("the target is told");
        assert!(missing.contains(remedy), "{target}: {missing}");
    }
    let text = doctor(&[], &[]);
    assert!(text.out.contains("✔ emulator"), "{}", text.out);
    assert!(text.out.contains("✘ container\n    docker: there is no docker on the PATH\n"));
}

/// A docker whose daemon does not run.
const DEAD: &str = "#!/bin/sh\n[ $1 = --version ] && echo Docker version 20.10, build 1 && exit\n\
     echo 'Cannot connect to the Docker daemon at unix:///d.sock.' >&2; exit 1\n";

#[test]
fn in_a_checkout_a_dead_daemon_is_mended_by_what_is_there() {
    let lab = Lab::of("diff");
    lab.write_program("kind-configs/engine/start", "");
    let ended = doctor_in(&lab, &[("docker", DEAD)], &["container"]);
    assert!(ended.out.contains("export DOCKER_HOST=$(kind-configs/engine/start)"), "{}", ended.out);
}

#[test]
fn a_missing_kubeconfig_is_mended_without_an_option_that_doctor_has_not() {
    let ended = doctor(&[], &["kubeconfig"]);
    assert!(ended.out.contains("set KUBECONFIG"), "{}", ended.out);
    assert!(!ended.out.contains("--kubeconfig"), "{}", ended.out);
}

#[test]
fn a_dead_daemon_is_told_apart_from_a_missing_docker() {
    let ended = doctor(&[("docker", DEAD)], &["container"]);
    assert_eq!(ended.code, 3, "{}", ended.all());
    assert!(ended.out.contains("docker 20.10, build 1"), "{}", ended.out);
    assert!(ended.out.contains("daemon: Cannot connect to the Docker daemon"), "{}", ended.out);
    assert!(ended.out.contains("to do: start it"), "{}", ended.out);
    assert!(!ended.out.contains("emulator"), "{}", ended.out);
}

#[test]
fn the_daemon_that_is_spoken_to_is_told_with_the_context_that_names_it() {
    let docker = "#!/bin/sh\ncase \"$1\" in --version) echo Docker version 28.0;; version) echo \
                  28.0;; context) echo colima unix:///c/docker.sock;; esac\n";
    let ended = doctor(&[("docker", docker)], &["container"]);
    let told = "docker 28.0, context colima at unix:///c/docker.sock, daemon 28.0\n";
    assert!(ended.out.contains(told), "{}", ended.out);
}

#[test]
fn a_machine_with_docker_kind_and_a_node_image_runs_kind() {
    let docker = "#!/bin/sh\ncase \"$1\" in --version) echo Docker version 20.10;; version) echo \
                  20.10;; images) echo schedlab/node:v1;; esac\n";
    let with_image = [("docker", docker), ("kind", "#!/bin/sh\necho kind v0.33.0\n")];
    let ended = doctor(&with_image, &["kind", "--format", "json"]);
    assert_eq!(ended.code, 0, "{}", ended.all());
    let without = docker.replace("schedlab/node:v1", "registry/nodejs:v1");
    let ended = doctor(&[("docker", &without), with_image[1]], &["kind"]);
    assert_eq!(ended.code, 3, "{}", ended.all());
    assert!(ended.out.contains("no node image"), "{}", ended.out);
}

#[test]
fn a_control_plane_is_looked_for_where_a_run_looks_for_it() {
    let plane = |version: &str| {
        let path = |name| format!("../home/schedlab/control-plane/{version}/{name}");
        let paths = ["etcd", "kube-apiserver", "kube-controller-manager"].map(path);
        let script = "#!/bin/sh\necho Kubernetes v1.35.4\n";
        let programs: Vec<(&str, &str)> = paths.iter().map(|path| (&**path, script)).collect();
        doctor(&programs, &["control-plane"])
    };
    assert_eq!(plane("v1.35.4").code, 0, "{}", plane("v1.35.4").all());
    let other = plane("v1.1.0");
    assert_eq!(other.code, 3, "{}", other.all());
    assert!(other.out.contains("no etcd, kube-apiserver, kube-controller-manager in "));
    assert!(other.out.contains("/home/schedlab/control-plane/v1.35.4"), "{}", other.out);
}

#[test]
fn an_old_kubectl_is_not_enough() {
    let kubectl = "#!/bin/sh\necho '{\"clientVersion\": {\"gitVersion\": \"v1.20.2\"}}'\n";
    let ended = doctor(&[("kubectl", kubectl)], &["kubectl"]);
    assert_eq!(ended.code, 3, "{}", ended.all());
    assert!(ended.out.contains("kubectl has version 1.20"), "{}", ended.out);
    let new = kubectl.replace("1.20.2", "1.35.4");
    assert_eq!(doctor(&[("kubectl", &new)], &["kubectl"]).code, 0);
}
