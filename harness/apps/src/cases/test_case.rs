//! The base case of tests.

use schedlab_api::{Value, json};

/// A job of one pod on one node, with other values at the given JSON pointers.
pub(super) fn case_with(changes: &[(&str, Value)]) -> Value {
    let share = json!({ "quota": 4, "limit": -1, "over_quota_weight": 1 });
    let resources = json!({ "gpu": share, "cpu_millis": share, "memory_mb": share });
    let mut whole = json!({
        "id": "c",
        "actions": ["allocate"],
        "cluster": { "nodes": [{ "name": "n", "allocatable": { "gpus": 4 } }] },
        "queues": [{ "name": "a", "resources": resources }, { "name": "q", "parent": "a", "resources": resources }],
        "jobs": [{
            "name": "j", "queue": "q", "priority": 50, "preemptibility": "preemptible", "age_s": 60,
            "gang": {},
            "tasks": [{ "id": "j-0", "state": "Pending", "request": { "gpus": 1 } }],
        }],
        "expected": { "jobs": { "j": { "status": "Binding", "gpus_requested_sum": 0 } } },
    });
    for (pointer, change) in changes {
        let (above, field) = pointer.rsplit_once('/').unwrap();
        whole.pointer_mut(above).unwrap()[field] = change.clone();
    }
    whole
}
