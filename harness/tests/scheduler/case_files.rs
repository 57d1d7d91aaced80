//! From a customer's cluster to a feature: capture, redact, minimise, feature.

use std::{path::Path, process::Command};

use schedlab_api::{Value, json};
use schedlab_casefiles::capture::{capture, capture_for};
use schedlab_scheduler::Config;

use super::lab::Lab;

/// Names that must not be left.
const DEPARTMENTS: [&str; 3] = ["acme-research", "acme-platform", "acme-vision"];
const TEAMS: [&str; 7] = ["apollo", "gemini", "mercury", "voyager", "cassini", "juno", "kepler"];

/// Words of which none may be left after the redaction.
const PRIVATE_WORDS: [&str; 9] = [
    "acme",
    "apollo",
    "gemini",
    "saturn",
    "swordfish",
    "registry",
    "jane",
    "launcher-x",
    "moonshot",
];

/// A queue of the customer.
pub(crate) fn queue(name: &str, parent: Option<&str>, quota: i64, limit: i64) -> Value {
    let all = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
    json!({ "apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": { "name": name },
            "spec": { "parentQueue": parent, "resources": {
                "gpu": { "quota": quota, "limit": limit, "overQuotaWeight": 1 },
                "cpu": all, "memory": all } } })
}

/// A job of the customer, with a password in the environment and an image of a private registry.
fn job(name: &str, team: &str, pods: i64, gpus: i64) -> Value {
    let gpus = gpus.to_string();
    json!({ "apiVersion": "batch/v1", "kind": "Job",
            "metadata": { "name": name, "namespace": format!("acme-{team}"),
                          "labels": { "kai.scheduler/queue": team },
                          "annotations": { "kai.scheduler/batch-min-member": pods.to_string() } },
            "spec": { "parallelism": pods, "completions": pods, "template": {
                "metadata": { "labels": { "kai.scheduler/queue": team, "acme.com/owner": "jane" } },
                "spec": { "schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [{
                    "name": "launcher-x", "image": "registry.acme.com/saturn/train:v7",
                    "args": ["--moonshot"],
                    "env": [{ "name": "DB_PASSWORD", "value": "swordfish" }],
                    "resources": { "requests": { "cpu": "2", "memory": "1Gi" },
                                   "limits": { "nvidia.com/gpu": gpus } } }] } } } })
}

/// 12 nodes, 10 queues on two levels and 276 pods; gang `saturn-main` is larger than the limit of
/// its queue.
async fn play_customer_cluster(lab: &mut Lab) {
    lab.nodes(12, 8);
    let mut objects: Vec<Value> = DEPARTMENTS.map(|name| queue(name, None, 32, -1)).into();
    for (at, team) in TEAMS.iter().enumerate() {
        let limit = if *team == "apollo" { 8 } else { -1 };
        objects.push(queue(team, Some(DEPARTMENTS[at % 3]), 8, limit));
        objects.push(json!({ "apiVersion": "v1", "kind": "Namespace",
                             "metadata": { "name": format!("acme-{team}") } }));
    }
    apply(lab, &objects);
    lab.start();
    let jobs: Vec<Value> = TEAMS
        .iter()
        .flat_map(|team| (0..11).map(move |number| (team, number)))
        .filter(|(team, number)| **team != "apollo" || *number < 3)
        .map(|(team, number)| job(&format!("crew-{number}"), team, 4 - number % 2, 1))
        .collect();
    apply(lab, &jobs);
    lab.advance(10).await;
    apply(lab, &[job("saturn-main", "apollo", 12, 1), job("saturn-late", "kepler", 17, 1)]);
    lab.advance(10).await;
    lab.stop().await;
}

/// Creates objects in their own namespaces.
fn apply(lab: &Lab, objects: &[Value]) {
    for object in objects {
        let (group, plural) = match object["kind"].as_str().unwrap_or_default() {
            "Queue" => ("scheduling.run.ai", "queues"),
            "Namespace" => ("", "namespaces"),
            _ => ("batch", "jobs"),
        };
        lab.create(group, plural, object);
    }
}

/// Runs `schedlab` in a folder. Returns its exit code with all of its output.
pub(crate) fn schedlab(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    for name in ["CI", "GITHUB_ACTIONS", "INSTA_UPDATE", "INSTA_FORCE_UPDATE", "RUST_LOG"] {
        command.env_remove(name);
    }
    let output = command.args(args).current_dir(folder).output().expect("schedlab starts");
    let text = |bytes| String::from_utf8(bytes).expect("schedlab writes UTF-8");
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

#[test]
fn four_commands_lead_from_a_cluster_to_a_feature_that_fails_for_the_same_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let original = Lab::run(async |mut lab| {
        play_customer_cluster(&mut lab).await;
        capture(lab.emulator.client(), Config::kai(), "2026-11-29T00:00:00Z").await.unwrap()
    });
    assert!(original.objects("pods").count() >= 270, "{}", original.objects("pods").count());
    original.write(&path.join("original.zip")).unwrap();

    let run = |args: &[&str]| {
        let (code, text) = schedlab(path, args);
        assert_eq!(code, Some(0), "{args:?}\n{text}");
        text
    };
    run(&["capture", "--from", "original.zip", "--no-redact", "-o", "full.zip"]);
    run(&["redact", "full.zip", "-o", "case.zip", "--table", "names.json"]);
    let check = run(&["redact", "case.zip", "--check", "full.zip"]);
    assert!(check.contains("is left"), "{check}");
    let redacted = schedlab_casefiles::read::read_case(&[path.join("case.zip")], u64::MAX).unwrap();
    let all = format!("{:?}", redacted.case);
    for word in PRIVATE_WORDS {
        assert!(!all.contains(word), "{word}");
    }

    // Decisions are the same up to names.
    std::fs::write(path.join("plan.txt"), run(&["replay", "case.zip", "--cycles", "3"])).unwrap();
    let revealed = run(&["redact", "--reveal", "names.json", "plan.txt"]);
    assert_eq!(revealed, run(&["replay", "full.zip", "--cycles", "3"]));

    // The pending gang has another name now.
    let table = std::fs::read_to_string(path.join("names.json")).unwrap();
    let table: Value = serde_json::from_str(&table).unwrap();
    let mut names = table["originals"].as_object().unwrap().iter();
    let is_gang = |(replacement, original): &(&schedlab_api::Text, &Value)| {
        let is_group = original.as_str().is_some_and(|name| name.starts_with("pg-saturn-main"));
        is_group && replacement.starts_with("workload-")
    };
    let (name, _) = names.find(is_gang).expect("the gang has a replacement");
    let claim = format!("gang {name} pending");
    run(&["replay", "case.zip", "--expect", &claim]);
    let overview = run(&["explain", "case.zip"]);
    assert!(overview.contains("OverLimit"), "{overview}");
    let minimised = run(&["minimise", "case.zip", "--keep", &claim, "-o", "small.zip"]);
    assert!(minimised.contains("minimal: without any one of its"), "{minimised}");
    let written = run(&["feature", "small.zip", "-o", "case.feature"]);
    assert!(written.contains("it passes"), "{written}");
    let feature = std::fs::read_to_string(path.join("case.feature")).unwrap();
    assert!(feature.lines().count() <= 30, "{feature}");
    assert!(feature.contains("is pending because"), "{feature}");
    run(&["run", "case.feature"]);

    // The claim of a fix: it fails before, for the same reason.
    let should = format!("gang {name} placed");
    run(&["feature", "small.zip", "--should", &should, "-o", "fix.feature"]);
    let (code, text) = schedlab(path, &["run", "fix.feature"]);
    assert_eq!(code, Some(1), "{text}");
}

#[test]
fn an_unusable_case_is_one_clear_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("half.zip"), "PK\u{3}\u{4}half").unwrap();
    for command in [
        &["replay", "half.zip"][..],
        &["explain", "half.zip"],
        &["redact", "half.zip", "-o", "out.zip"],
        &["minimise", "half.zip", "--keep", "gang g pending", "-o", "out.zip"],
        &["feature", "half.zip", "-o", "out.feature"],
        &["capture", "--from", "half.zip", "-o", "out.zip"],
    ] {
        let (code, text) = schedlab(folder.path(), command);
        assert_eq!(code, Some(2), "{command:?}: {text}");
        assert!(text.starts_with("schedlab: half.zip: got no complete zip"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn a_capture_that_lasts_records_how_the_cluster_got_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let case = Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        apply(&lab, &[queue("owner", None, 8, -1), queue("borrower", None, 0, -1)]);
        for team in ["owner", "borrower"] {
            apply(
                &lab,
                &[json!({ "apiVersion": "v1", "kind": "Namespace",
                                  "metadata": { "name": format!("acme-{team}") } })],
            );
        }
        lab.start();
        apply(&lab, &[job("borrowed", "borrower", 1, 8)]);
        lab.advance(30).await;
        let clock = lab.emulator.clock().clone();
        let now = move || clock.now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
        let client = lab.emulator.client();
        let duration = std::time::Duration::from_mins(10);
        let recording =
            tokio::spawn(async move { capture_for(client, Config::kai(), duration, &now).await });
        lab.advance(60).await;
        apply(&lab, &[job("owned", "owner", 1, 8)]);
        lab.advance(600).await;
        lab.stop().await;
        recording.await.unwrap().unwrap()
    });
    case.write(&folder.path().join("case.zip")).unwrap();
    let (code, text) = schedlab(folder.path(), &["replay", "case.zip"]);
    assert_eq!(code, Some(0), "{text}");
    let history: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    let position = |kind: &str, name: &str, verb: &str| {
        let at = history
            .iter()
            .position(|line| line.contains(kind) && line.contains(name) && line.ends_with(verb));
        at.unwrap_or_else(|| panic!("{kind} {name} {verb}\n{text}"))
    };
    let arrives = position("Pod ", "acme-owner/owned", "arrives");
    let evicted = position("Pod ", "acme-borrower/borrowed", "is evicted");
    let bound = position("Pod ", "acme-owner/owned", "is bound to n-0");
    assert!(arrives < evicted && evicted < bound, "{text}");
    let age = history[arrives].trim_start().split_once(" s").unwrap().0;
    assert!((60.0..62.0).contains(&age.trim_start_matches('+').parse::<f64>().unwrap()), "{text}");

    // Names are replaced in the history, too.
    let (code, text) = schedlab(folder.path(), &["redact", "case.zip", "-o", "private.zip"]);
    assert_eq!(code, Some(0), "{text}");
    let (_, text) = schedlab(folder.path(), &["replay", "private.zip"]);
    assert!(text.contains("is evicted") && !text.contains("acme"), "{text}");
}
