//! The node pool of a scenario, if an installed scheduler serves one pool per scenario. Nodes,
//! queues, pods and pod groups get the pool's label, which the scenario does not see.

use schedlab_api::{Map, Value, json, labels};

use super::names::TenantNames;

/// Adds the scenario's node pool to the labels of an object, unless they name another pool.
pub(super) fn add_pool_label(names: &TenantNames, metadata: &mut Value) {
    if let Some(pool) = &names.node_pool
        && metadata["labels"].get(labels::NODE_POOL).is_none()
    {
        metadata["labels"][labels::NODE_POOL] = json!(pool);
    }
}

/// Removes the node pool label that [`add_pool_label`] has added.
pub(super) fn remove_pool_label(names: &TenantNames, labels: &mut Map) {
    let Some(pool) = &names.node_pool else { return };
    if labels.get(labels::NODE_POOL).and_then(Value::as_str) == Some(pool) {
        labels.remove(labels::NODE_POOL);
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::{rewrite_request, rewrite_response};
    use super::*;

    #[test]
    fn scheduling_objects_get_the_node_pool_of_their_scenario() {
        let names = TenantNames { node_pool: Some("pool-2".to_owned()), ..TenantNames::for_test() };
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
            let (_, target) = rewrite_request::rewrite_uri(&names, &path.parse().unwrap());
            let mut in_cluster = object.clone();
            rewrite_request::object_to_cluster(&names, &target, &Method::POST, &mut in_cluster);
            let found =
                in_cluster.pointer(&format!("{labelled}/metadata/labels/kai.scheduler~1node-pool"));
            assert_eq!(found, Some(&json!("pool-2")), "{in_cluster}");
            rewrite_response::object_to_tenant(&names, &target, &mut in_cluster);
            assert!(!in_cluster.to_string().contains("node-pool"), "{in_cluster}");
        }
        let (_, target) = rewrite_request::rewrite_uri(&names, &"/api/v1/nodes".parse().unwrap());
        let original = json!({"metadata": {"labels": {(labels::NODE_POOL): "a100"}, "name": "n"}, "spec": {"taints": []}});
        let mut node = original.clone();
        rewrite_request::object_to_cluster(&names, &target, &Method::POST, &mut node);
        rewrite_response::object_to_tenant(&names, &target, &mut node);
        assert_eq!(node["metadata"]["labels"], original["metadata"]["labels"]);
    }
}
