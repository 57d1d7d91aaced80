//! Pods as a kubelet and an API server have them, from a capture to a feature and a cluster: with
//! service accounts, mounts, projected volumes, init containers, probes and variables.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use schedlab_api::{Value, json};
use schedlab_casefiles::capture::capture;
use schedlab_scheduler::Config;

use super::case_files::{queue, schedlab};
use super::lab::Lab;

/// Mounts as the pods of a customer have them.
fn mounts() -> Value {
    json!([{ "name": "settings", "mountPath": "/etc/settings" },
           { "name": "scratch", "mountPath": "/scratch" },
           { "name": "tokens", "mountPath": "/tokens", "readOnly": true }])
}

fn volumes() -> Value {
    json!([
        { "name": "settings", "configMap": { "name": "settings" } },
        { "name": "maybe", "configMap": { "name": "absent", "optional": true } },
        { "name": "scratch", "emptyDir": {} },
        { "name": "tokens", "projected": { "sources": [
            { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
            { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
            { "configMap": { "name": "settings" } },
            { "downwardAPI": { "items": [{ "path": "namespace", "fieldRef": { "fieldPath": "metadata.namespace" } }] } } ] } },
    ])
}

/// A pod with most of what pods have.
fn pod(name: &str, gpus: &str) -> Value {
    let probe = json!({ "httpGet": { "path": "/healthz", "port": "http" }, "periodSeconds": 10 });
    let main = json!({
        "name": "main", "image": "registry.acme.com/train:v7",
        "ports": [{ "name": "http", "containerPort": 8080 }, { "containerPort": 9100, "hostPort": 9100 }],
        "env": [
            { "name": "PASSWORD", "value": "swordfish" },
            { "name": "MODE", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "mode" } } },
            { "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
        ],
        "envFrom": [{ "configMapRef": { "name": "settings" } }],
        "livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
        "lifecycle": { "preStop": { "exec": { "command": ["sleep", "1"] } } },
        "securityContext": { "runAsUser": 1000 },
        "volumeMounts": mounts(),
        "resources": { "requests": { "cpu": "1" }, "limits": { "nvidia.com/gpu": gpus } },
    });
    let init = json!([
        { "name": "fetch", "image": "registry.acme.com/fetch:v1", "volumeMounts": mounts() },
        { "name": "proxy", "image": "registry.acme.com/proxy:v1", "restartPolicy": "Always" },
    ]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "acme", "labels": { "kai.scheduler/queue": "acme-team" } },
        "spec": { "schedulerName": "kai-scheduler", "serviceAccountName": "default", "volumes": volumes(),
                  "initContainers": init, "containers": [main] },
    })
}

/// Serves a case, and returns what the command says until the cluster is there.
fn serve(folder: &Path, case: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["up", "--case", case, "--no-scheduler", "--kubeconfig", "kc"]);
    let mut child = command
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("schedlab starts");
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("Ctrl-C ends it") {
        assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert!(child.wait().unwrap().success());
    said
}

#[test]
fn pods_with_all_that_pods_have_are_admitted_after_each_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let original = Lab::run(async |mut lab| {
        lab.nodes(2, 8);
        lab.create("scheduling.run.ai", "queues", &queue("acme-team", None, 16, -1));
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "acme" } });
        lab.create("", "namespaces", &namespace);
        let settings = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "mode": "apollo" },
                               "metadata": { "name": "settings", "namespace": "acme" } });
        lab.create("", "configmaps", &settings);
        lab.start();
        lab.advance(5).await;
        for (name, gpus) in [("small-1", "2"), ("small-2", "7"), ("large", "7")] {
            lab.create("", "pods", &pod(name, gpus));
            lab.advance(10).await;
        }
        let case = capture(lab.emulator.client(), Config::kai(), "2026-11-29T00:00:00Z").await;
        lab.stop().await;
        case.unwrap()
    });
    let bound = original.objects("pods").filter(|pod| pod["spec"]["nodeName"].is_string());
    assert_eq!(bound.count(), 2);
    let text = format!("{:?}", original.cluster.objects["pods"]);
    assert!(
        text.contains("kube-api-access-"),
        "the API server adds the volume of the account: {text}"
    );
    original.write(&path.join("full.zip")).unwrap();

    let run = |args: &[&str]| {
        let (code, text) = schedlab(path, args);
        assert_eq!(code, Some(0), "{args:?}\n{text}");
        text
    };
    run(&["redact", "full.zip", "-o", "case.zip", "--table", "names.json"]);
    let table = std::fs::read_to_string(path.join("names.json")).unwrap();
    let table: Value = serde_json::from_str(&table).unwrap();
    let mut names = table["originals"].as_object().unwrap().iter();
    let (large, _) = names
        .find(|(name, original)| name.starts_with("pod-") && original.as_str() == Some("large"))
        .expect("the pod has a replacement");
    let claim = format!("pod {large} pending");
    run(&["minimise", "case.zip", "--keep", &claim, "-o", "small.zip"]);
    run(&["minimise", "full.zip", "--keep", "pod large pending", "-o", "small-full.zip"]);
    for case in ["full.zip", "case.zip", "small.zip", "small-full.zip"] {
        let said = serve(path, case);
        assert!(!said.contains("warning"), "{case}: {said}");
    }
    // Their folder does not exist yet.
    run(&["feature", "small.zip", "-o", "features/bugs/small.feature"]);
    run(&["run", "features/bugs/small.feature"]);
    run(&["feature", "case.zip", "--shows", &claim, "-o", "features/bugs/case.feature"]);
    run(&[
        "feature",
        "full.zip",
        "--shows",
        "pod large pending",
        "-o",
        "features/bugs/full.feature",
    ]);
}
