//! Our scheduler as a Deployment: the manifests of `kind-configs/kustomize` with an image of the
//! caller's choice.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_api::{Value, json, labels};
use serde::Deserialize as _;
use tokio::time::Instant;

use crate::api::{Api, is_not_found, to_anyhow_error};
use crate::scheduler_source::DEPLOYED_CYCLE_PERIOD;

const SCHEDULER_MANIFESTS: [&str; 4] = [
    include_str!("../../../../kind-configs/kustomize/namespace.yaml"),
    include_str!("../../../../kind-configs/kustomize/rbac.yaml"),
    include_str!("../../../../kind-configs/kustomize/service.yaml"),
    include_str!("../../../../kind-configs/kustomize/deployment.yaml"),
];
/// The scheduler name that the Deployment serves.
pub(super) const SCHEDULER_NAME: &str = "kai-scheduler";
pub(super) const SCHEDULER_NAMESPACE: &str = "kai-scheduler";
const DEPLOYMENTS_PATH: &str = "/apis/apps/v1/namespaces/kai-scheduler/deployments";
/// The label that distinguishes the pods of different Deployments.
const APP_LABEL: &str = "app.kubernetes.io/name";

/// Maximum wait for the scheduler's replicas to become ready.
const DEPLOYMENT_READY_TIMEOUT: Duration = Duration::from_mins(2);
/// Interval at which the Deployments are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The objects of our manifests, as kustomize would create them, with two scheduling cycles per
/// second and the label of a run. With node pools, there is one Deployment per pool.
fn deployment_objects(image: &str, run: &str, pools: &[String]) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in SCHEDULER_MANIFESTS.into_iter().flat_map(serde_yaml::Deserializer::from_str) {
        let mut object = Value::deserialize(document).context("a manifest is not valid YAML")?;
        match object["kind"].as_str().unwrap_or_default() {
            "Namespace" | "ClusterRole" | "ClusterRoleBinding" => {}
            _ => object["metadata"]["namespace"] = json!(SCHEDULER_NAMESPACE),
        }
        object["metadata"]["labels"][labels::RUN] = json!(run);
        if object["kind"] == "Deployment" {
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            container["image"] = json!(image);
            let period = format!("--period={}ms", DEPLOYED_CYCLE_PERIOD.as_millis());
            add_container_argument(&mut object, &period)?;
            for pool in pools {
                objects.extend(config_map_and_deployment_of_pool(object.clone(), pool)?);
            }
            if !pools.is_empty() {
                continue;
            }
        }
        objects.push(object);
    }
    Ok(objects)
}

/// Appends an argument to the Deployment's first container.
fn add_container_argument(deployment: &mut Value, argument: &str) -> anyhow::Result<()> {
    let arguments = &mut deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    arguments
        .as_array_mut()
        .context("the Deployment's container has no arguments")?
        .push(json!(argument));
    Ok(())
}

/// The ConfigMap and the Deployment for the scheduler of one node pool.
fn config_map_and_deployment_of_pool(
    mut deployment: Value,
    pool: &str,
) -> anyhow::Result<[Value; 2]> {
    let name = format!("schedlab-scheduler-{pool}");
    let mut config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": {} });
    config["data"]["config.yaml"] = json!(format!("nodePool: {{value: {pool}}}\n"));
    config["metadata"] = deployment["metadata"].clone();
    for metadata in [&mut config["metadata"], &mut deployment["metadata"]] {
        metadata["name"] = json!(name);
        metadata["labels"][APP_LABEL] = json!(name);
    }
    deployment["spec"]["selector"]["matchLabels"][APP_LABEL] = json!(name);
    let template = &mut deployment["spec"]["template"];
    template["metadata"]["labels"][APP_LABEL] = json!(name);
    let volumes = template["spec"]["volumes"].as_array_mut().into_iter().flatten();
    for volume in volumes.filter(|volume| volume["name"] == "config") {
        volume["configMap"] = json!({ "name": name });
    }
    add_container_argument(&mut deployment, "--config=/etc/schedlab/config/config.yaml")?;
    add_container_argument(&mut deployment, &format!("--leader-elect-resource-name={name}"))?;
    Ok([config, deployment])
}

/// Installs the scheduler with this image, for all nodes or once per node pool; updates it if it is
/// installed already. Waits until all replicas are ready.
pub(super) async fn install_scheduler(
    config: &kube::Config,
    image: &str,
    pools: &[String],
    run: &str,
) -> anyhow::Result<()> {
    let mut api = super::admin_api(config)?;
    let objects = deployment_objects(image, run, pools)?;
    refuse_foreign_objects(&mut api, &objects).await?;
    for object in &objects {
        api.apply(object).await?;
    }
    let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    let expected: Vec<&Value> = deployments.map(|one| &one["metadata"]["name"]).collect();
    let end = Instant::now() + DEPLOYMENT_READY_TIMEOUT;
    loop {
        let deployments = api.get(DEPLOYMENTS_PATH).await.map_err(to_anyhow_error)?;
        let existing = || deployments["items"].as_array().into_iter().flatten();
        let is_ready = |name: &Value| {
            existing().any(|one| one["metadata"]["name"] == *name && is_rolled_out(one))
        };
        if expected.iter().all(|name| is_ready(name)) {
            return Ok(());
        }
        if Instant::now() > end {
            let why = pod_problems_text(&api).await;
            anyhow::bail!(
                "the scheduler's replicas are not ready after {DEPLOYMENT_READY_TIMEOUT:?}: {why}"
            );
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Fails if one of the objects exists and was not created by schedlab, because the end of the run
/// would delete it.
async fn refuse_foreign_objects(api: &mut Api, objects: &[Value]) -> anyhow::Result<()> {
    for object in objects {
        let path = api.object_path(object).await?;
        let existing = match api.get(&path).await {
            Ok(there) => there,
            Err(error) if is_not_found(&error) => continue,
            Err(error) => return Err(to_anyhow_error(error)).context(path),
        };
        anyhow::ensure!(
            existing["metadata"]["labels"].get(labels::RUN).is_some(),
            "the cluster already has a {}, which schedlab did not create; test the installed \
             scheduler with --scheduler installed:NAME, or use another cluster",
            crate::api::object_title(object)
        );
    }
    Ok(())
}

/// Whether every replica of the Deployment is up to date and available.
fn is_rolled_out(deployment: &Value) -> bool {
    let number = |at: &str| deployment.pointer(at).and_then(Value::as_i64).unwrap_or(0);
    let replicas = number("/spec/replicas");
    number("/status/observedGeneration") >= number("/metadata/generation")
        && number("/status/updatedReplicas") == replicas
        && number("/status/replicas") == replicas
        && number("/status/availableReplicas") == replicas
}

/// Why the scheduler's pods are not ready, as reported by the kubelet.
pub(super) async fn pod_problems_text(api: &Api) -> String {
    let path = format!("/api/v1/namespaces/{SCHEDULER_NAMESPACE}/pods");
    let pods = match api.get(&path).await {
        Ok(pods) => pods,
        Err(error) => return format!("{:#}", to_anyhow_error(error)),
    };
    let mut text = String::new();
    for pod in pods["items"].as_array().into_iter().flatten() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let state = &pod["status"]["containerStatuses"][0]["state"];
        let waiting_field = |key: &str| state["waiting"][key].as_str().unwrap_or_default();
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        let _ = write!(
            text,
            "\n  {name}: {phase} {} {}",
            waiting_field("reason"),
            waiting_field("message")
        );
    }
    if text.is_empty() { "there are no pods".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_emulator::clock::Clock;
    use schedlab_emulator::{Emulator, Options};

    #[test]
    fn all_kustomize_objects_are_installed_with_the_image() {
        let objects = deployment_objects("registry.example/scheduler:7", "r1", &[]).unwrap();
        let titles: Vec<String> = objects.iter().map(crate::api::object_title).collect();
        assert_eq!(
            titles,
            [
                "Namespace kai-scheduler",
                "ServiceAccount kai-scheduler/schedlab-scheduler",
                "ClusterRole schedlab-scheduler",
                "ClusterRoleBinding schedlab-scheduler",
                "Role kai-scheduler/schedlab-scheduler",
                "RoleBinding kai-scheduler/schedlab-scheduler",
                "Service kai-scheduler/schedlab-scheduler",
                "Deployment kai-scheduler/schedlab-scheduler",
            ]
        );
        let of_run = |object: &Value| object["metadata"]["labels"]["schedlab.dev/run"] == "r1";
        assert!(objects.iter().all(of_run), "{objects:#?}");
        let containers = &objects[7]["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["image"], "registry.example/scheduler:7");
        let period = containers[0]["args"].as_array().unwrap().last();
        assert_eq!(period, Some(&json!("--period=500ms")));
    }

    #[test]
    fn each_node_pool_has_a_scheduler_of_its_own() {
        let objects =
            deployment_objects("scheduler:7", "r1", &["a".to_owned(), "b".to_owned()]).unwrap();
        let lines = objects.iter().filter_map(|object| {
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap();
            match object["kind"].as_str().unwrap() {
                "ConfigMap" => Some(format!("{name}: {}", object["data"]["config.yaml"])),
                "Deployment" => {
                    let pod = &object["spec"]["template"];
                    assert_eq!(metadata["labels"][APP_LABEL], name);
                    assert_eq!(object["spec"]["selector"]["matchLabels"][APP_LABEL], name);
                    assert_eq!(pod["metadata"]["labels"][APP_LABEL], name);
                    let arguments = pod["spec"]["containers"][0]["args"].as_array().unwrap();
                    let argument_list: Vec<&str> =
                        arguments.iter().filter_map(Value::as_str).collect();
                    let mounted = &pod["spec"]["volumes"][0]["configMap"]["name"];
                    Some(format!("{name} of {mounted}: {}", argument_list.join(" ")))
                }
                _ => None,
            }
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
        schedlab-scheduler-a: "nodePool: {value: a}\n"
        schedlab-scheduler-a of "schedlab-scheduler-a": run --leader-elect --health-address=0.0.0.0:8080 --period=500ms --config=/etc/schedlab/config/config.yaml --leader-elect-resource-name=schedlab-scheduler-a
        schedlab-scheduler-b: "nodePool: {value: b}\n"
        schedlab-scheduler-b of "schedlab-scheduler-b": run --leader-elect --health-address=0.0.0.0:8080 --period=500ms --config=/etc/schedlab/config/config.yaml --leader-elect-resource-name=schedlab-scheduler-b
        "#);
    }

    #[tokio::test(start_paused = true)]
    async fn foreign_objects_are_refused() {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let emulator = Emulator::start(Options::with_clock(clock));
        let mut api = Api::new(emulator.client());
        let ours = deployment_objects("scheduler:7", "r1", &[]).unwrap();
        refuse_foreign_objects(&mut api, &ours).await.unwrap();
        api.apply(&ours[0]).await.unwrap();
        refuse_foreign_objects(&mut api, &ours).await.unwrap();
        let mut theirs = ours[2].clone();
        theirs["metadata"]["labels"] = json!({});
        api.apply(&theirs).await.unwrap();
        let error = refuse_foreign_objects(&mut api, &ours).await.unwrap_err().to_string();
        assert!(error.contains("already has a ClusterRole schedlab-scheduler"), "{error}");
    }

    #[test]
    fn replicas_of_an_older_image_do_not_count_as_ready() {
        let ready = json!({
            "metadata": {"generation": 2}, "spec": {"replicas": 2},
            "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2,
                       "availableReplicas": 2},
        });
        assert!(is_rolled_out(&ready));
        for (field, value) in [("observedGeneration", 1), ("updatedReplicas", 1), ("replicas", 3)] {
            let mut not = ready.clone();
            not["status"][field] = json!(value);
            assert!(!is_rolled_out(&not), "{field}");
        }
    }
}
