//! Pods that wait for `ConfigMaps` and Secrets.

use schedlab_api::object::{list, text};

use crate::emulator::test_cluster::TestCluster;

impl TestCluster {
    /// Creates a pod on a node, with additional fields of the spec and of the container.
    fn create_pod_with(&self, spec: &str, container: &str) {
        self.apply(&format!(
            "
            apiVersion: v1
            kind: Pod
            metadata: {{name: p}}
            spec:
              nodeName: n1
              containers: [{{name: c, image: i{container}}}]
              {spec}
            "
        ));
    }

    /// The messages of the pod's Events of type `Warning`.
    fn warning_messages(&self) -> Vec<String> {
        let events = self.objects_of("events");
        let warnings = events.iter().filter(|one| text(one, &["type"]) == "Warning");
        warnings.map(|one| text(one, &["message"]).to_owned()).collect()
    }
}

const CONFIG_MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {k: v}}";
const SECRET: &str = "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: v}}";

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_config_maps_and_secrets() {
    for (spec, container, waiting_reason, warning, missing_object) in [
        (
            "volumes: [{name: v, configMap: {name: m}}]",
            "",
            "ContainerCreating",
            "MountVolume.SetUp failed for volume \"v\" : configmap \"m\" not found",
            CONFIG_MAP,
        ),
        (
            "volumes: [{name: v, secret: {secretName: s}}]",
            "",
            "ContainerCreating",
            "MountVolume.SetUp failed for volume \"v\" : secret \"s\" not found",
            SECRET,
        ),
        (
            "volumes: [{name: v, projected: {sources: [{secret: {name: s}}]}}]",
            "",
            "ContainerCreating",
            "MountVolume.SetUp failed for volume \"v\" : secret \"s\" not found",
            SECRET,
        ),
        (
            "",
            ", envFrom: [{configMapRef: {name: m}}]",
            "CreateContainerConfigError",
            "Error: configmap \"m\" not found",
            CONFIG_MAP,
        ),
        (
            "",
            ", env: [{name: E, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
            "CreateContainerConfigError",
            "Error: secret \"s\" not found",
            SECRET,
        ),
    ] {
        let cluster = TestCluster::new();
        cluster.create_gpu_nodes(&["n1"]).await;
        cluster.create_pod_with(spec, container);
        cluster.advance_secs(5).await;
        assert_eq!(cluster.pod_lines(), format!("p {waiting_reason} n1"), "{spec}{container}");
        assert_eq!(cluster.warning_messages(), [warning]);
        cluster.apply(missing_object);
        cluster.advance_secs(1).await;
        assert_eq!(cluster.pod_lines(), "p Running n1", "{spec}{container}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_a_missing_key() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(CONFIG_MAP);
    cluster
        .create_pod_with("", ", env: [{name: E, valueFrom: {configMapKeyRef: {name: m, key: x}}}]");
    cluster.advance_secs(5).await;
    assert_eq!(cluster.pod_lines(), "p CreateContainerConfigError n1");
    let waiting = cluster.get("pods", "p");
    let waiting = &list(&waiting, &["status", "containerStatuses"])[0]["state"]["waiting"];
    assert_eq!(text(waiting, &["message"]), "couldn't find key x in ConfigMap default/m");
}

#[tokio::test(start_paused = true)]
async fn optional_references_and_the_root_ca_are_not_awaited() {
    for (spec, container) in [
        ("volumes: [{name: v, configMap: {name: m, optional: true}}]", ""),
        ("volumes: [{name: v, secret: {secretName: s, optional: true}}]", ""),
        ("volumes: [{name: v, projected: {sources: [{configMap: {name: kube-root-ca.crt}}]}}]", ""),
        ("", ", envFrom: [{secretRef: {name: s, optional: true}}]"),
    ] {
        let cluster = TestCluster::new();
        cluster.create_gpu_nodes(&["n1"]).await;
        cluster.create_pod_with(spec, container);
        cluster.advance_secs(1).await;
        assert_eq!(cluster.pod_lines(), "p Running n1", "{spec}{container}");
    }
}
