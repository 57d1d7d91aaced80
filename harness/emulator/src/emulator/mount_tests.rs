//! Pods that wait for what they mount or read.

use crate::emulator::lab::Lab;
use crate::object::{list, text};

impl Lab {
    /// Makes a pod on a node with more in its spec and its container.
    fn wanting(&self, spec: &str, container: &str) {
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

    /// The messages of the warnings about the pod.
    fn warnings(&self) -> Vec<String> {
        let events = self.all("events");
        let warnings = events.iter().filter(|one| text(one, &["type"]) == "Warning");
        warnings.map(|one| text(one, &["message"]).to_owned()).collect()
    }
}

const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {k: v}}";
const SECRET: &str = "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: v}}";

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_what_it_mounts_or_reads_and_starts_when_it_comes() {
    for (spec, container, waits, says, comes) in [
        (
            "volumes: [{name: v, configMap: {name: m}}]",
            "",
            "ContainerCreating",
            "MountVolume.SetUp failed for volume \"v\" : configmap \"m\" not found",
            MAP,
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
            MAP,
        ),
        (
            "",
            ", env: [{name: E, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
            "CreateContainerConfigError",
            "Error: secret \"s\" not found",
            SECRET,
        ),
    ] {
        let lab = Lab::new();
        lab.nodes(&["n1"]).await;
        lab.wanting(spec, container);
        lab.secs(5).await;
        assert_eq!(lab.pods(), format!("p {waits} n1"), "{spec}{container}");
        assert_eq!(lab.warnings(), [says]);
        lab.apply(comes);
        lab.secs(1).await;
        assert_eq!(lab.pods(), "p Running n1", "{spec}{container}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_there_is_waited_for_too() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(MAP);
    lab.wanting("", ", env: [{name: E, valueFrom: {configMapKeyRef: {name: m, key: x}}}]");
    lab.secs(5).await;
    assert_eq!(lab.pods(), "p CreateContainerConfigError n1");
    let waiting = lab.get("pods", "p");
    let waiting = &list(&waiting, &["status", "containerStatuses"])[0]["state"]["waiting"];
    assert_eq!(text(waiting, &["message"]), "couldn't find key x in ConfigMap default/m");
}

#[tokio::test(start_paused = true)]
async fn what_is_optional_or_in_every_namespace_is_not_waited_for() {
    for (spec, container) in [
        ("volumes: [{name: v, configMap: {name: m, optional: true}}]", ""),
        ("volumes: [{name: v, secret: {secretName: s, optional: true}}]", ""),
        ("volumes: [{name: v, projected: {sources: [{configMap: {name: kube-root-ca.crt}}]}}]", ""),
        ("", ", envFrom: [{secretRef: {name: s, optional: true}}]"),
    ] {
        let lab = Lab::new();
        lab.nodes(&["n1"]).await;
        lab.wanting(spec, container);
        lab.secs(1).await;
        assert_eq!(lab.pods(), "p Running n1", "{spec}{container}");
    }
}
