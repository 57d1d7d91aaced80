use schedlab_api::json;

use super::{super::test_case::case_with, *};

fn messages_for(pointer: &str, change: Value) -> String {
    match parse_case(case_with(&[(pointer, change)])) {
        Ok(case) => case.notes.join("\n"),
        Err(wrong) => wrong.join("\n"),
    }
}

#[test]
fn an_invalid_case_names_object_field_and_expected_values() {
    let outcome = || json!({ "x": { "status": "Pending", "gpus_requested_sum": 0 } });
    let table = [
        ("/queues/0/parent", json!("q"), "queue a: parent: got the cycle a -> q -> a"),
        ("/queues/0/parent", json!("a"), "queue a: parent: got the cycle a -> a"),
        ("/jobs/0/tasks/0/subgroup", json!("z"), "task j-0: subgroup: got z, expected a pod set"),
        ("/jobs/0/tasks/0/gpu_fracton", json!(0.5), "jobs[0].tasks[0].gpu_fracton: unknown field"),
        ("/jobs/0/tasks/0/state", json!("Odd"), "jobs[0].tasks[0].state: unknown variant `Odd`"),
        ("/jobs/0/preemptibility", json!("sometimes"), "jobs[0].preemptibility: unknown variant"),
        ("/actions", json!(["odd"]), "actions[0]: unknown variant `odd`, expected one of"),
        ("/expected/jobs", outcome(), "expected.jobs: got x, expected a job of the case"),
        ("/expected/tasks", outcome(), "expected.tasks: got x, expected a task of the case"),
    ];
    for (pointer, change, text) in table {
        let messages = messages_for(pointer, change);
        assert!(messages.starts_with(text), "{pointer}: {messages}");
    }
}

#[test]
fn fields_with_defaults_and_named_states_are_accepted() {
    let dead = json!({ "tasks": { "x": { "status": "Pending", "gpus_requested_sum": 0 } }, "dead_task_ids": ["x"] });
    let table = [
        ("/queues/1/parent", json!("nobody")),
        ("/jobs/0/tasks/0/state", json!("Pipelined")),
        ("/jobs/0/tasks/0/state", json!("Deleted")),
        ("/rounds", json!({})),
        ("/expected", dead),
    ];
    for (pointer, change) in table {
        assert_eq!(messages_for(pointer, change), "", "{pointer}");
    }
}
