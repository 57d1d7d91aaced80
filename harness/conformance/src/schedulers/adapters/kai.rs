//! KAI's Queues below one root: KAI's scheduler v0.12 never tries the workloads of a queue without
//! a parent. A target file names such a root with `rootQueue`.

use schedlab_api::{Value, api_versions, json, pointer as fields};

use super::is_kai_queue;

/// Puts queues without a parent below the root queue.
pub(crate) fn put_below_root<'o>(objects: impl Iterator<Item = &'o mut Value>, root: &str) {
    for queue in objects.filter(|object| is_kai_queue(object)) {
        let is_top = fields::text(queue, "/spec/parentQueue").is_none_or(str::is_empty);
        if is_top && queue["metadata"]["name"] != *root {
            queue["spec"]["parentQueue"] = json!(root);
        }
    }
}

/// The root queue, without any bound.
pub(crate) fn root_queue_object(root: &str) -> Value {
    let unlimited = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    json!({
        "apiVersion": api_versions::QUEUE,
        "kind": "Queue",
        "metadata": {"name": root},
        "spec": {"resources": {"gpu": unlimited, "cpu": unlimited, "memory": unlimited}},
    })
}
