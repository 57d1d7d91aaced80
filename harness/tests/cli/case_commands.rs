//! What surrounds a case: bisecting versions, comparing two schedulers, recording a session with
//! kubectl, and inputs that are no case.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use futures::{StreamExt as _, TryStreamExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::WatchEvent;
use schedlab_api::{Value, json, object};

use super::lab::{CommandOutput, Lab};

#[test]
fn bisecting_programs_names_the_first_bad_one() {
    let lab = Lab::empty();
    let between: Vec<String> = (2..9)
        .map(|number| format!("--between=process:scheduler-v{number} {{kubeconfig}}"))
        .collect();
    let ends = ["--good", "process:scheduler-v1", "--bad", "process:scheduler-v9"];
    let check = "case '{scheduler}' in *v[1-6]*) exit 0;; esac; exit 1";
    let mut args = vec!["bisect", "--command", check];
    args.extend(ends);
    args.extend(between.iter().map(String::as_str));
    let run = lab.run(&args);
    assert_eq!(run.code, 0, "{}", run.all());
    assert_eq!(run.stdout, "first bad: process:scheduler-v7 {kubeconfig}\n");
    assert_eq!(run.stderr.lines().count(), 5, "2 ends and 3 steps: {}", run.stderr);
    let turned = ["bisect", "--command", "exit 1", "--good", "process:a", "--bad", "process:b"];
    let turned = lab.run(&turned);
    assert_eq!(turned.code, 2, "{}", turned.all());
    let message = "--good process:a: got a version that fails, expected a version that passes";
    assert!(turned.stderr.contains(message), "{}", turned.stderr);
}

#[test]
fn bisecting_revisions_builds_each_and_skips_those_that_do_not_build() {
    let lab = Lab::empty();
    let git = |args: &[&str]| {
        let name =
            ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
        let run =
            Command::new("git").current_dir(lab.path("")).args(name).args(args).output().unwrap();
        assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    };
    git(&["init", "--quiet"]);
    for (number, (code, builds)) in
        [(0, "yes"), (0, "yes"), (0, "no"), (1, "yes"), (1, "yes")].into_iter().enumerate()
    {
        lab.write("tool", &format!("#!/bin/sh\n# {number}\nexit {code}\n"));
        lab.write("builds", builds);
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", &format!("change {number}")]);
    }
    let revisions = ["--good", "git:HEAD~4", "--bad", "git:HEAD"];
    let build = ["--build", "grep -q yes builds && chmod +x tool", "--program", "tool"];
    let args = [&["bisect", "bug.feature"][..], &revisions, &build].concat();
    let run = lab.run(&args);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(
        run.stdout.starts_with("first bad: ") && run.stdout.contains("change 3"),
        "{}",
        run.all()
    );
    assert!(run.stderr.contains("1 version before it could not be tested"), "{}", run.stderr);
    let worktrees =
        Command::new("git").current_dir(lab.path("")).args(["worktree", "list"]).output();
    let worktrees = String::from_utf8(worktrees.unwrap().stdout).unwrap();
    assert_eq!(worktrees.lines().count(), 1, "{worktrees}");
}

#[test]
fn a_run_on_two_schedulers_names_the_scenarios_that_differ() {
    let lab = Lab::empty();
    lab.write(
        "features/two.feature",
        "Feature: two\n  Background:\n    Given a fleet of 1 node with 8 GPUs each\n    \
         And a queue \"a\" with a quota of 8\n\n  \
         Scenario: A pod is placed\n    When 1 pod \"p\" with 1 GPU each is submitted to queue \"a\"\n    \
         Then eventually within 1 minute pod \"p\" has 1 running pod\n\n  \
         Scenario: A pod is too large\n    When 1 pod \"p\" with 9 GPUs each is submitted to queue \"a\"\n    \
         Then for 1 minute pod \"p\" has 1 pending pod\n",
    );
    let run = lab.run(&["run", "--scheduler", "ours", "--and", "none"]);
    assert_eq!(run.code, 1, "{}", run.all());
    let compared = run.stdout.split("ours: 2 scenarios").nth(1).expect("the comparison is printed");
    assert!(compared.contains("A pod is placed"), "{}", run.all());
    let same = lab.run(&["run", "--scheduler", "ours", "--and", "ours"]);
    assert_eq!(same.code, 0, "{}", same.all());
    let file = lab.run(&["run", "--and", "none", "--reporter", "json=x.json"]);
    assert_eq!(file.code, 2, "{}", file.all());
}

/// A client that says it is kubectl.
struct Kubectl(kube::Client);

impl Kubectl {
    async fn request(&self, method: &str, path: &str, body: &Value) {
        let request = http::Request::builder().method(method).uri(path);
        let content =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request =
            request.header("content-type", content).header("user-agent", "kubectl/v1.37.2");
        let body = if method == "DELETE" { Vec::new() } else { body.to_string().into_bytes() };
        self.0.request::<Value>(request.body(body).unwrap()).await.unwrap();
    }

    /// Waits until so many pods run.
    async fn wait_for_running(&self, count: usize) {
        let request = http::Request::get("/api/v1/pods?watch=true").body(Vec::new()).unwrap();
        let mut events = self.0.request_events::<Value>(request).await.unwrap().boxed();
        let mut running = std::collections::BTreeSet::new();
        while running.len() < count {
            let event = events.try_next().await.unwrap().expect("the watch goes on");
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event
                && object::text(&pod, &["status", "phase"]) == "Running"
            {
                running.insert(object::name(&pod).to_owned());
            }
        }
    }
}

async fn play_session(kubeconfig: &str) {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let kubectl = Kubectl(kube::Client::try_from(config).unwrap());
    let all = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
    let gpu = json!({ "quota": 4, "limit": -1, "overQuotaWeight": 1 });
    let queue = json!({ "apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
        "metadata": { "name": "team" },
        "spec": { "resources": { "gpu": gpu, "cpu": all, "memory": all } } });
    kubectl.request("POST", "/apis/scheduling.run.ai/v2/queues", &queue).await;
    let container = json!({ "name": "main", "image": "i", "resources": { "limits": { "nvidia.com/gpu": "1" } } });
    let labels = json!({ "app": "web", "kai.scheduler/queue": "team" });
    let web = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": labels },
                "spec": { "schedulerName": "kai-scheduler", "containers": [container] } } } });
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    kubectl.request("POST", deployments, &web).await;
    kubectl.wait_for_running(1).await;
    let cordon = json!({ "spec": { "unschedulable": true } });
    kubectl.request("PATCH", "/api/v1/nodes/node-1", &cordon).await;
    kubectl
        .request("PATCH", &format!("{deployments}/web"), &json!({ "spec": { "replicas": 3 } }))
        .await;
    kubectl.wait_for_running(3).await;
    let quota = json!({ "spec": { "resources": { "gpu": { "quota": 2 } } } });
    kubectl.request("PATCH", "/apis/scheduling.run.ai/v2/queues/team", &quota).await;
    let pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "late", "labels": { "kai.scheduler/queue": "team" } },
        "spec": { "schedulerName": "kai-scheduler", "containers": [container] } });
    kubectl.request("POST", "/api/v1/namespaces/default/pods", &pod).await;
    kubectl.request("DELETE", "/api/v1/namespaces/default/pods/late", &Value::Null).await;
}

#[test]
fn what_is_done_with_kubectl_is_recorded_as_a_feature_that_passes() {
    let lab = Lab::empty();
    let mut command = lab.command(&["up", "--record", "session.feature", "--kubeconfig", "kc"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("Ctrl-C ends it") {
        assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
    }
    assert!(said.contains("4 nodes"), "{said}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(play_session(&lab.read("kc")));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert!(child.wait().unwrap().success());
    let text = lab.read("session.feature");
    for step in [
        "Given a fleet of 4 nodes with 8 GPUs each",
        "this manifest is applied:",
        "node \"node-1\" is cordoned",
        "deployment \"web\" is scaled to 3",
        "the quota of queue \"team\" becomes 2",
        "pod \"late\" is deleted",
        "deployment \"web\" has 3 running pods",
    ] {
        assert!(text.contains(step), "{step}\n{text}");
    }
    let check = lab.run(&["check", "session.feature"]);
    assert_eq!(check.code, 0, "{}\n{text}", check.all());
    let run = lab.run(&["run", "session.feature"]);
    assert_eq!(run.code, 0, "{}\n{text}", run.all());
}

/// Runs every command that reads a case.
fn all_commands(lab: &Lab, input: &str) -> Vec<(String, CommandOutput)> {
    let claim = "gang g pending";
    [
        &["replay", input][..],
        &["explain", input],
        &["redact", input, "-o", "out.zip"],
        &["minimise", input, "--keep", claim, "-o", "out.zip"],
        &["feature", input, "--shows", claim, "-o", "out.feature"],
        &["capture", "--from", input, "-o", "out.zip"],
        &["up", "--case", input, "--kubeconfig", "-"],
        &["simulate", "--nodes", input, "--pods", "pods.csv"],
    ]
    .into_iter()
    .map(|args| (args.join(" "), lab.run(args)))
    .collect()
}

#[test]
fn an_input_that_is_no_case_is_one_line_with_exit_code_2_for_every_command() {
    let lab = Lab::empty();
    lab.write("pods.csv", "");
    lab.write("half.zip", "PK\u{3}\u{4}half");
    lab.write("text.yaml", "just words");
    lab.write("broken.yaml", "a: [1,");
    lab.write("broken.yaml.gz", "\u{1f}no gzip");
    std::fs::write(lab.path("broken.yaml.gz"), [0x1f, 0x8b, 8, 0, 1, 2]).unwrap();
    lab.write("wrong.yaml", "kindless: 1");
    let snapshot = json!({ "rawObjects": { "pods": {} } }).to_string();
    lab.write("mistyped.yaml", &snapshot);
    for input in [
        "half.zip",
        "text.yaml",
        "broken.yaml",
        "broken.yaml.gz",
        "wrong.yaml",
        "mistyped.yaml",
        "missing.zip",
    ] {
        for (command, run) in all_commands(&lab, input) {
            assert_eq!(run.code, 2, "{command}: {}", run.all());
            assert_eq!(run.stderr.lines().count(), 1, "{command}: {}", run.all());
            assert!(run.stderr.contains(input), "{command}: {}", run.all());
        }
    }
    for command in ["replay", "explain"] {
        let run = lab.run(&[command, "text.yaml", "--max-size", "0"]);
        assert_eq!((run.code, run.stderr.contains("--max-size")), (2, true), "{}", run.all());
    }
}

#[test]
fn an_empty_input_is_a_warning() {
    let lab = Lab::empty();
    lab.write("empty.yaml", "");
    let replay = lab.run(&["replay", "empty.yaml"]);
    assert_eq!(replay.code, 0, "{}", replay.all());
    assert!(replay.stderr.contains("empty.yaml: the file is empty"), "{}", replay.stderr);
}

#[test]
fn foreign_fields_newer_versions_and_a_null_configuration_are_notes() {
    let lab = Lab::empty();
    let container = json!({ "name": "c", "resources": { "limits": { "nvidia.com/gpu": "1" } } });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "p", "namespace": "ns", "annotations": { "pod-group-name": "g" } },
        "spec": { "schedulerName": "kai-scheduler", "futureField": { "a": [1] }, "containers": [container] },
        "status": { "phase": "Pending" } });
    let node = json!({ "metadata": { "name": "n1" }, "futureSpec": {},
        "status": { "allocatable": { "nvidia.com/gpu": "8", "cpu": "8", "memory": "8Gi", "pods": "110" },
                    "conditions": [{ "type": "Ready", "status": "True" }] } });
    let queue = json!({ "apiVersion": "scheduling.run.ai/v3", "kind": "Queue", "metadata": { "name": "q" },
        "spec": { "resources": { "gpu": { "quota": 1, "limit": -1, "overQuotaWeight": 1, "burst": 7 },
                                 "cpu": { "quota": -1, "limit": -1, "overQuotaWeight": 1 },
                                 "memory": { "quota": -1, "limit": -1, "overQuotaWeight": 1 } } } });
    let group = json!({ "apiVersion": "scheduling.run.ai/v2beta9", "kind": "PodGroup",
        "metadata": { "name": "g", "namespace": "ns" }, "spec": { "queue": "q", "minMember": 1, "newer": true } });
    let snapshot = json!({ "config": null, "schedulerParams": null, "future": 1, "rawObjects": {
        "nodes": [node], "pods": [pod], "queues": [queue], "podGroups": [group],
        "futureKinds": [{}], "configMaps": null } });
    lab.write("kai.json", &snapshot.to_string());
    let documents = [&node, &queue, &group, &pod].map(|object| {
        let mut object = object.clone();
        if object["kind"].is_null() {
            (object["apiVersion"], object["kind"]) = (json!("v1"), json!("Node"));
        }
        object.to_string()
    });
    lab.write("kubectl.json", &documents.join("\n"));
    for file in ["kai.json", "kubectl.json"] {
        let run = lab.run(&["replay", file, "--expect", "pod p placed"]);
        assert_eq!(run.code, 0, "{file}: {}", run.all());
        assert!(run.stdout.contains("bind ns/p to n1"), "{file}: {}", run.all());
    }
    let noted = lab.run(&["replay", "kai.json"]);
    assert!(noted.stderr.contains("futureKinds"), "{}", noted.all());
}
