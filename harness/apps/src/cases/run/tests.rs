use schedlab_api::{Value, json};

use super::{
    super::{format::NOTHING_EXPECTED, read, test_case::case_with},
    *,
};

/// `failed`, `not applicable` or `passed`, and why.
fn verdict_text(changes: &[(&str, Value)]) -> String {
    match run_case(&read::parse_case(case_with(changes)).unwrap()) {
        Verdict::Passed => "passed".to_owned(),
        Verdict::Failed(why) => format!("failed: {}", why.join("\n")),
        Verdict::NotApplicable(why) => format!("not applicable: {why}"),
    }
}

fn outcome(status: &str) -> Value {
    json!({ "jobs": { "j": { "status": status, "gpus_requested_sum": 0 } } })
}

const EXPECTED: &str = "/expected";
const MODE: &str = "/mode";
const STATE: &str = "/jobs/0/tasks/0/state";
const NODE: &str = "/jobs/0/tasks/0/node";

#[test]
fn states_stay_in_a_single_pass_and_advance_in_rounds() {
    let table = [
        ("Binding", "Binding", "Running"),
        ("Allocated", "Allocated", "Allocated"),
        ("Bound", "Bound", "Bound"),
        ("Deleted", "Deleted", "Deleted"),
        ("Pending", "Binding", "Running"),
        ("Pipelined", "Pipelined", "Running"),
    ];
    for (begins, passed, rounds) in table {
        // Pipelined pods stay so when nothing is allocated; the stale gang action allocates
        // nothing.
        let actions = if begins == "Pipelined" { "stalegangeviction" } else { "allocate" };
        for (mode, ends) in [("single_pass", passed), ("rounds", rounds)] {
            let actions = if mode == "rounds" { "allocate" } else { actions };
            let text = verdict_text(&[
                (MODE, json!(mode)),
                ("/actions", json!([actions])),
                (STATE, json!(begins)),
                (NODE, json!("n")),
                (EXPECTED, outcome(ends)),
            ]);
            assert_eq!(text, "passed", "{begins} {mode}");
        }
    }
}

#[test]
fn only_leaf_queues_with_existing_parents_accept_jobs() {
    let waits = outcome("Pending");
    let jobs = |queue: &str| ("/jobs/0/queue", json!(queue));
    let parent = ("/queues/1/parent", json!("nobody"));
    assert_eq!(verdict_text(&[jobs("a"), (EXPECTED, waits.clone())]), "passed", "not a leaf");
    assert_eq!(verdict_text(&[parent, (EXPECTED, waits)]), "passed", "its parent is missing");
    assert_eq!(verdict_text(&[]), "passed", "a leaf");
}

#[test]
fn only_cases_about_stale_gangs_have_a_staleness_grace() {
    let grace = |actions: Value| {
        let case = read::parse_case(case_with(&[("/actions", actions)])).unwrap();
        build::scheduler_config_of_case(&case).unwrap().profile.staleness_grace.as_secs()
    };
    assert_eq!(grace(json!(["stalegangeviction"])), 60);
    assert_eq!(grace(json!(["allocate", "stalegangeviction"])), 0);
}

#[test]
fn a_case_without_expectations_is_not_applicable_and_ignored_settings_are_noted() {
    let nothing = verdict_text(&[(EXPECTED, json!({}))]);
    assert_eq!(nothing, format!("not applicable: {NOTHING_EXPECTED}"));
    let plugins = json!({ "plugins": ["predicates", "nonesuch"] });
    let notes = read::parse_case(case_with(&[("/config", plugins)])).unwrap().notes.join("\n");
    assert!(notes.contains("nonesuch"), "{notes}");
}

#[test]
fn call_limits_hold_after_the_match_too() {
    // No bind is allowed, and the only bind happens in the last round.
    let text = verdict_text(&[
        ("/rounds", json!({ "until_match": 0, "after_match": 1 })),
        ("/call_limits_per_session", json!({ "binds": 0, "evictions": 0, "pipelines": 0 })),
        ("/expected", json!({ "nodes": { "n": { "idle_gpus": 4, "releasing_gpus": 0 } } })),
    ]);
    assert!(text.contains("got 1 bind in one session, expected at most 0"), "{text}");
}

/// The verdict on a task with a GPU claim of this class, named directly or through a template.
fn claim_verdict_text(class: &str, field: &str, names: Value, expected: Value) -> String {
    let claim = json!({ "name": "c", "deviceClassName": "gpu.x", "count": 1 });
    let slice = json!({ "Name": "s", "DeviceClassName": "gpu.x", "nodeName": "n", "Count": 4 });
    let dra = json!({
        "device_classes": [class], "resource_claims": [claim], "resource_slices": [slice],
    });
    verdict_text(&[
        ("/cluster/dra", dra),
        ("/jobs/0/tasks/0/request", json!({ "gpus": 1 })),
        (&format!("/jobs/0/tasks/0/{field}"), names),
        (EXPECTED, expected),
    ])
}

#[test]
fn claims_come_by_name_or_template_and_need_an_existing_class() {
    let by_name =
        |class, expected| claim_verdict_text(class, "resource_claim_names", json!(["c"]), expected);
    let by_template = |class, claim: &str, expected| {
        claim_verdict_text(class, "resource_claim_templates", json!({ "t": claim }), expected)
    };
    // A GPU claim without a queue label cannot be shared.
    assert_eq!(by_name("gpu.x", outcome("Pending")), "passed");
    assert_eq!(by_template("gpu.x", "c", outcome("Binding")), "passed");
    assert_eq!(by_template("gpu.y", "c", outcome("Pending")), "passed");
    assert_eq!(by_template("gpu.x", "nobody", outcome("Pending")), "passed");
    let gpus = json!({ "nodes": { "n": { "idle_gpus": 3, "releasing_gpus": 0 } } });
    assert_eq!(by_template("gpu.x", "c", gpus), "passed");
}

#[test]
fn a_moved_pod_releases_its_old_node() {
    let task = |id: &str, node: &str, gpus: u32| {
        let state = if node.is_empty() { "Pending" } else { "Running" };
        let mut task =
            json!({ "id": id, "state": state, "gpus_total": gpus, "request": { "gpus": gpus } });
        if !node.is_empty() {
            task["node"] = json!(node);
        }
        task
    };
    let job = |name: &str, task: Value| {
        json!({ "name": name, "queue": "q", "priority": 50, "preemptibility": "preemptible",
                "age_s": 60, "gang": { "pod_sets": [{ "name": "default", "min_available": 1 }] },
                "tasks": [task] })
    };
    let node = |name: &str| json!({ "name": name, "allocatable": { "gpus": 2 } });
    let jobs = [
        job("j", task("j-0", "m", 1)),
        job("k", task("k-0", "n", 1)),
        job("l", task("l-0", "", 2)),
    ];
    // The moved task still holds its old node and is pipelined to the other one.
    let figures =
        |idle: u32, releasing: i32| json!({ "idle_gpus": idle, "releasing_gpus": releasing });
    let text = verdict_text(&[
        ("/actions", json!(["consolidation"])),
        ("/cluster/nodes", json!([node("m"), node("n")])),
        ("/jobs", json!(jobs)),
        (EXPECTED, json!({ "nodes": { "m": figures(1, -1), "n": figures(1, -1) } })),
    ]);
    assert_eq!(text, "passed");
}
