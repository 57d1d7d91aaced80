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
