//! The node pool of a scenario, where a scheduler of the cluster serves that pool alone. Nodes, queues,
//! pods and pod groups are of it by a label that the scenario does not see.

use schedlab_json::{Map, Value, json};

use super::names::Names;

/// The label.
const POOL: &str = "kai.scheduler/node-pool";

/// Has what bears this metadata be of the scenario's pool, unless it names another.
pub(super) fn put(names: &Names, metadata: &mut Value) {
    if let Some(pool) = &names.pool
        && metadata["labels"].get(POOL).is_none()
    {
        metadata["labels"][POOL] = json!(pool);
    }
}

/// Hides that again.
pub(super) fn remove(names: &Names, labels: &mut Map) {
    let Some(pool) = &names.pool else { return };
    if labels.get(POOL).and_then(Value::as_str) == Some(pool) {
        labels.remove(POOL);
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::{answers, requests};
    use super::*;

    #[test]
    fn what_is_scheduled_is_of_the_pool_of_its_scenario() {
        let names = Names { pool: Some("pool-2".to_owned()), ..Names::of_a_test() };
        let template = json!({"spec": {"schedulerName": "x", "containers": []}});
        for (path, object, labelled) in [
            ("/api/v1/nodes", json!({"metadata": {"name": "n"}, "spec": {"taints": []}}), ""),
            ("/apis/g/v2/queues", json!({"metadata": {"name": "q"}}), ""),
            ("/apis/g/v1/namespaces/a/podgroups", json!({"metadata": {"name": "g"}}), ""),
            (
                "/api/v1/namespaces/a/pods",
                json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": template["spec"]}),
                "",
            ),
            (
                "/apis/batch/v1/namespaces/a/jobs",
                json!({"spec": {"template": template}}),
                "/spec/template",
            ),
        ] {
            let (_, place) = requests::uri(&names, &path.parse().unwrap());
            let mut hidden = object.clone();
            requests::hide(&names, &place, &Method::POST, &mut hidden);
            let found =
                hidden.pointer(&format!("{labelled}/metadata/labels/kai.scheduler~1node-pool"));
            assert_eq!(found, Some(&json!("pool-2")), "{hidden}");
            answers::show(&names, &place, &mut hidden);
            assert!(!hidden.to_string().contains("node-pool"), "{hidden}");
        }
        let (_, place) = requests::uri(&names, &"/api/v1/nodes".parse().unwrap());
        let said =
            json!({"metadata": {"labels": {POOL: "a100"}, "name": "n"}, "spec": {"taints": []}});
        let mut node = said.clone();
        requests::hide(&names, &place, &Method::POST, &mut node);
        answers::show(&names, &place, &mut node);
        assert_eq!(node["metadata"]["labels"], said["metadata"]["labels"]);
    }
}
