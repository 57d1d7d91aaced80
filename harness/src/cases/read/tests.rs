use schedlab_json::json;

use super::{super::example::changed, *};

fn told(pointer: &str, change: Value) -> String {
    match case(changed(&[(pointer, change)])) {
        Ok(case) => case.notes.join("\n"),
        Err(wrong) => wrong.join("\n"),
    }
}

#[test]
fn what_is_wrong_is_told_with_object_field_and_what_is_allowed() {
    let outcome = || json!({ "x": { "status": "Pending", "gpus_requested_sum": 0 } });
    let table = [
        ("/queues/0/parent", json!("q"), "queue a: parent: found the circle a -> q -> a"),
        ("/queues/0/parent", json!("a"), "queue a: parent: found the circle a -> a"),
        ("/jobs/0/tasks/0/subgroup", json!("z"), "task j-0: subgroup: found z, allowed: a pod set"),
        ("/jobs/0/tasks/0/gpu_fracton", json!(0.5), "jobs[0].tasks[0].gpu_fracton: unknown field"),
        ("/jobs/0/tasks/0/state", json!("Odd"), "jobs[0].tasks[0].state: unknown variant `Odd`"),
        ("/jobs/0/preemptibility", json!("sometimes"), "jobs[0].preemptibility: unknown variant"),
        ("/actions", json!(["odd"]), "actions[0]: unknown variant `odd`, expected one of"),
        ("/expected/jobs", outcome(), "expected.jobs: found x, allowed: a job of the case"),
        ("/expected/tasks", outcome(), "expected.tasks: found x, allowed: a task of the case"),
    ];
    for (pointer, change, text) in table {
        let told = told(pointer, change);
        assert!(told.starts_with(text), "{pointer}: {told}");
    }
}

#[test]
fn what_the_format_has_a_default_for_or_names_may_be_so() {
    let dead = json!({ "tasks": { "x": { "status": "Pending", "gpus_requested_sum": 0 } }, "dead_task_ids": ["x"] });
    let table = [
        ("/queues/1/parent", json!("nobody")),
        ("/jobs/0/tasks/0/state", json!("Pipelined")),
        ("/jobs/0/tasks/0/state", json!("Deleted")),
        ("/rounds", json!({})),
        ("/expected", dead),
    ];
    for (pointer, change) in table {
        assert_eq!(told(pointer, change), "", "{pointer}");
    }
}
