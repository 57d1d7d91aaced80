//! Validating admission policies.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, PostParams};

use super::test_cluster::TestCluster;
use schedlab_api::json;

/// The YAML of a policy and its binding. `rule` is the rest of the resource rule, `policy_fields`
/// are further fields of the policy and `binding_fields` those of the binding.
fn policy_and_binding(rule: &str, policy_fields: &str, binding_fields: &str) -> String {
    format!(
        "
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicy
        metadata: {{name: guard}}
        spec:
          matchConstraints:
            resourceRules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], {rule}}}]
          {policy_fields}
\n---\n
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicyBinding
        metadata: {{name: everywhere}}
        spec: {{policyName: guard, validationActions: [Deny], {binding_fields}}}
        "
    )
}

/// The error of creating a `ConfigMap`; empty if the ConfigMap is accepted.
async fn config_map_creation_error(cluster: &TestCluster, name: &str) -> String {
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.emulator.client());
    let map = schedlab_api::from_value(json!({"metadata": {"name": name}})).unwrap();
    let made = maps.create(&PostParams::default(), &map).await;
    made.err().map_or_else(String::new, |error| {
        if let kube::Error::Api(status) = &error {
            return format!("{} {}: {}", status.code, status.reason, status.message);
        }
        error.to_string()
    })
}

#[tokio::test(start_paused = true)]
async fn a_policy_denies_what_its_expression_says() {
    let cluster = TestCluster::new();
    let validations = "validations: [{expression: \"object.metadata.name != 'bad'\"}]";
    cluster.apply(&policy_and_binding("resources: [configmaps]", validations, ""));
    assert_eq!(config_map_creation_error(&cluster, "good").await, "");
    assert_eq!(
        config_map_creation_error(&cluster, "bad").await,
        "422 Invalid: configmaps \"bad\" is forbidden: ValidatingAdmissionPolicy 'guard' with \
         binding 'everywhere' denied request: failed expression: object.metadata.name != 'bad'"
    );
    cluster.delete("validatingadmissionpolicybindings", "/everywhere");
    assert_eq!(config_map_creation_error(&cluster, "bad").await, "");
}

#[tokio::test(start_paused = true)]
async fn a_policy_applies_where_its_rules_conditions_and_binding_match() {
    let validations = "validations: [{expression: 'false', message: denied, reason: Forbidden}]";
    for (rule, more, to, is_denied) in [
        ("resources: [configmaps]", "", "", true),
        ("resources: [configmaps], resourceNames: [other]", "", "", false),
        ("resources: [secrets]", "", "", false),
        (
            "resources: [configmaps]",
            "matchConditions: [{name: c, expression: \"request.name == 'b'\"}]",
            "",
            false,
        ),
        (
            "resources: [configmaps]",
            "",
            "matchResources: {namespaceSelector: {matchLabels: {a: b}}}",
            false,
        ),
    ] {
        let cluster = TestCluster::new();
        cluster.apply(&policy_and_binding(rule, &format!("{more}\n          {validations}"), to));
        let found = config_map_creation_error(&cluster, "a").await;
        assert_eq!(found.starts_with("403 Forbidden: "), is_denied, "{rule} {more} {to}: {found}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_refuses_to_bind_a_pod() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    let validations = "validations: [{expression: \"request.name != 'p'\", message: not now}]";
    cluster.apply(&policy_and_binding("resources: [pods/binding]", validations, ""));
    let pods: Api<Pod> = Api::default_namespaced(cluster.emulator.client());
    let binding = |name: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}});
    for (name, is_bound) in [("p", false), ("q", true)] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        pods.create(&PostParams::default(), &schedlab_api::from_value(pod).unwrap()).await.unwrap();
        let made: Result<schedlab_api::Value, _> =
            pods.create_subresource("binding", name, &PostParams::default(), &binding(name)).await;
        let error = made.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert_eq!(made.is_ok(), is_bound, "{error}");
        assert_eq!(error.contains("binding 'everywhere' denied request: not now"), !is_bound);
    }
}
