use schedlab_json::{Value, json};

use super::{
    super::{example::changed, format::NOTHING_EXPECTED, read},
    *,
};

/// `failed`, `not applicable` or `passed`, and why.
fn told(changes: &[(&str, Value)]) -> String {
    match verdict(&read::case(changed(changes)).unwrap()) {
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
fn states_stay_in_a_pass_and_go_on_in_rounds() {
    let table = [
        ("Binding", "Binding", "Running"),
        ("Allocated", "Allocated", "Allocated"),
        ("Bound", "Bound", "Bound"),
        ("Deleted", "Deleted", "Deleted"),
        ("Pending", "Binding", "Running"),
        ("Pipelined", "Pipelined", "Running"),
    ];
    for (begins, passed, rounds) in table {
        // Promises stay where nothing is allocated; a stale gang is none of these.
        let actions = if begins == "Pipelined" { "stalegangeviction" } else { "allocate" };
        for (mode, ends) in [("single_pass", passed), ("rounds", rounds)] {
            let actions = if mode == "rounds" { "allocate" } else { actions };
            let told = told(&[
                (MODE, json!(mode)),
                ("/actions", json!([actions])),
                (STATE, json!(begins)),
                (NODE, json!("n")),
                (EXPECTED, outcome(ends)),
            ]);
            assert_eq!(told, "passed", "{begins} {mode}");
        }
    }
}

#[test]
fn only_leaves_whose_parents_are_there_take_jobs() {
    let waits = outcome("Pending");
    let jobs = |queue: &str| ("/jobs/0/queue", json!(queue));
    let parent = ("/queues/1/parent", json!("nobody"));
    assert_eq!(told(&[jobs("a"), (EXPECTED, waits.clone())]), "passed", "not a leaf");
    assert_eq!(told(&[parent, (EXPECTED, waits)]), "passed", "its parent is missing");
    assert_eq!(told(&[]), "passed", "a leaf");
}

#[test]
fn the_cases_about_stale_gangs_alone_have_a_grace() {
    let grace = |actions: Value| {
        let case = read::case(changed(&[("/actions", actions)])).unwrap();
        build::config(&case).unwrap().profile.staleness_grace.as_secs()
    };
    assert_eq!(grace(json!(["stalegangeviction"])), 60);
    assert_eq!(grace(json!(["allocate", "stalegangeviction"])), 0);
}

#[test]
fn what_shows_nothing_is_not_counted_as_passed_and_what_is_passed_over_is_told() {
    let nothing = told(&[(EXPECTED, json!({}))]);
    assert_eq!(nothing, format!("not applicable: {NOTHING_EXPECTED}"));
    let plugins = json!({ "plugins": ["predicates", "nonesuch"] });
    let notes = read::case(changed(&[("/config", plugins)])).unwrap().notes.join("\n");
    assert!(notes.contains("nonesuch"), "{notes}");
}

#[test]
fn limits_of_calls_hold_after_the_match_too() {
    // Nothing is allowed to be bound, and it is not before the last round.
    let told = told(&[
        ("/rounds", json!({ "until_match": 0, "after_match": 1 })),
        ("/call_limits_per_session", json!({ "binds": 0, "evictions": 0, "pipelines": 0 })),
        ("/expected", json!({ "nodes": { "n": { "idle_gpus": 4, "releasing_gpus": 0 } } })),
    ]);
    assert!(told.contains("1 binds in one session, 0 allowed"), "{told}");
}

/// A GPU by a claim of this class, which the task names, or a template does.
fn told_of_claim(class: &str, names: (&str, Value), expected: Value) -> String {
    let claim = json!({ "name": "c", "deviceClassName": "gpu.x", "count": 1 });
    let slice = json!({ "Name": "s", "DeviceClassName": "gpu.x", "nodeName": "n", "Count": 4 });
    let dra = json!({
        "device_classes": [class], "resource_claims": [claim], "resource_slices": [slice],
    });
    let (field, names) = names;
    told(&[
        ("/cluster/dra", dra),
        ("/jobs/0/tasks/0/request", json!({ "gpus": 1 })),
        (&format!("/jobs/0/tasks/0/{field}"), names),
        (EXPECTED, expected),
    ])
}

#[test]
fn claims_are_named_or_made_from_templates_and_their_class_has_to_be_there() {
    let names = || ("resource_claim_names", json!(["c"]));
    let made = || ("resource_claim_templates", json!({ "t": "c" }));
    // Without the label of a queue nobody may share a claim on GPUs.
    assert_eq!(told_of_claim("gpu.x", names(), outcome("Pending")), "passed");
    assert_eq!(told_of_claim("gpu.x", made(), outcome("Binding")), "passed");
    assert_eq!(told_of_claim("gpu.y", made(), outcome("Pending")), "passed");
    let unknown = ("resource_claim_templates", json!({ "t": "nobody" }));
    assert_eq!(told_of_claim("gpu.x", unknown, outcome("Pending")), "passed");
    let gpus = json!({ "nodes": { "n": { "idle_gpus": 3, "releasing_gpus": 0 } } });
    assert_eq!(told_of_claim("gpu.x", made(), gpus), "passed");
}

#[test]
fn who_is_moved_leaves_the_node_where_it_was() {
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
    // The one that moves is still there, and promised room where the other one stays.
    let figures =
        |idle: u32, releasing: i32| json!({ "idle_gpus": idle, "releasing_gpus": releasing });
    let told = told(&[
        ("/actions", json!(["consolidation"])),
        ("/cluster/nodes", json!([node("m"), node("n")])),
        ("/jobs", json!(jobs)),
        (EXPECTED, json!({ "nodes": { "m": figures(1, -1), "n": figures(1, -1) } })),
    ]);
    assert_eq!(told, "passed");
}
