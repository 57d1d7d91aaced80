//! Our scheduler as people install it: the manifests of `kind-configs/kustomize`, with an image
//! of the caller's choice.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_json::{Value, json};
use serde::Deserialize as _;
use tokio::time::Instant;

use crate::api::{Api, is_not_found, refusal};
use crate::leftovers::OBJECT_LABEL;
use crate::target::DEPLOYED_PERIOD;

const MANIFESTS: [&str; 4] = [
    include_str!("../../../kind-configs/kustomize/namespace.yaml"),
    include_str!("../../../kind-configs/kustomize/rbac.yaml"),
    include_str!("../../../kind-configs/kustomize/service.yaml"),
    include_str!("../../../kind-configs/kustomize/deployment.yaml"),
];
/// What pods name it.
pub(super) const SCHEDULER: &str = "kai-scheduler";
pub(super) const NAMESPACE: &str = "kai-scheduler";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/kai-scheduler/deployments";
/// The label that tells the pods of Deployments apart.
const APP: &str = "app.kubernetes.io/name";

/// How long its replicas may take to be ready.
const READY_WITHIN: Duration = Duration::from_mins(2);
/// How often it is asked.
const ASK: Duration = Duration::from_millis(100);

/// The objects, as kustomize makes them, with two cycles a second and the label of a run. Where
/// node pools are named, each has a Deployment of its own.
fn objects(image: &str, run: &str, pools: &[String]) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in MANIFESTS.into_iter().flat_map(serde_yaml::Deserializer::from_str) {
        let mut object = Value::deserialize(document).context("a manifest is no YAML")?;
        match object["kind"].as_str().unwrap_or_default() {
            "Namespace" | "ClusterRole" | "ClusterRoleBinding" => {}
            _ => object["metadata"]["namespace"] = json!(NAMESPACE),
        }
        object["metadata"]["labels"][OBJECT_LABEL] = json!(run);
        if object["kind"] == "Deployment" {
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            container["image"] = json!(image);
            let period = format!("--period={}ms", DEPLOYED_PERIOD.as_millis());
            say(&mut object, &period)?;
            for pool in pools {
                objects.extend(shard(object.clone(), pool)?);
            }
            if !pools.is_empty() {
                continue;
            }
        }
        objects.push(object);
    }
    Ok(objects)
}

/// Gives the program of a Deployment one more argument.
fn say(deployment: &mut Value, argument: &str) -> anyhow::Result<()> {
    let arguments = &mut deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    arguments.as_array_mut().context("it has arguments")?.push(json!(argument));
    Ok(())
}

/// The scheduler of one node pool, and its configuration.
fn shard(mut deployment: Value, pool: &str) -> anyhow::Result<[Value; 2]> {
    let name = format!("schedlab-scheduler-{pool}");
    let mut config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": {} });
    config["data"]["config.yaml"] = json!(format!("nodePool: {{value: {pool}}}\n"));
    config["metadata"] = deployment["metadata"].clone();
    for metadata in [&mut config["metadata"], &mut deployment["metadata"]] {
        metadata["name"] = json!(name);
        metadata["labels"][APP] = json!(name);
    }
    deployment["spec"]["selector"]["matchLabels"][APP] = json!(name);
    let template = &mut deployment["spec"]["template"];
    template["metadata"]["labels"][APP] = json!(name);
    let volumes = template["spec"]["volumes"].as_array_mut().into_iter().flatten();
    for volume in volumes.filter(|volume| volume["name"] == "config") {
        volume["configMap"] = json!({ "name": name });
    }
    say(&mut deployment, "--config=/etc/schedlab/config/config.yaml")?;
    say(&mut deployment, &format!("--leader-elect-resource-name={name}"))?;
    Ok([config, deployment])
}

/// Installs it, for all nodes or once for each of these node pools, or brings what is installed
/// to this image, and waits until all replicas do their part.
pub(super) async fn install(
    config: &kube::Config,
    (image, pools): (&str, &[String]),
    run: &str,
) -> anyhow::Result<()> {
    let mut api = super::api(config)?;
    let objects = objects(image, run, pools)?;
    spare_others(&mut api, &objects).await?;
    for object in &objects {
        api.apply(object).await?;
    }
    let wanted = objects.iter().filter(|object| object["kind"] == "Deployment");
    let wanted: Vec<&Value> = wanted.map(|one| &one["metadata"]["name"]).collect();
    let end = Instant::now() + READY_WITHIN;
    loop {
        let deployments = api.get(DEPLOYMENTS).await.map_err(refusal)?;
        let there = || deployments["items"].as_array().into_iter().flatten();
        let is_ready =
            |name: &Value| there().any(|one| one["metadata"]["name"] == *name && is_ready(one));
        if wanted.iter().all(|name| is_ready(name)) {
            return Ok(());
        }
        if Instant::now() > end {
            let why = complaints(&api).await;
            anyhow::bail!("the scheduler's replicas are not ready after {READY_WITHIN:?}: {why}");
        }
        tokio::time::sleep(ASK).await;
    }
}

/// Refuses where one of them is there and no run of ours made it: the run would take it away.
async fn spare_others(api: &mut Api, objects: &[Value]) -> anyhow::Result<()> {
    for object in objects {
        let path = api.path(object).await?;
        let there = match api.get(&path).await {
            Ok(there) => there,
            Err(error) if is_not_found(&error) => continue,
            Err(error) => return Err(refusal(error)).context(path),
        };
        anyhow::ensure!(
            there["metadata"]["labels"].get(OBJECT_LABEL).is_some(),
            "the cluster has a {} of somebody else, which stays as it is; run against what is \
             installed with --scheduler installed:NAME, or use another cluster",
            crate::api::title(object)
        );
    }
    Ok(())
}

/// Whether every replica is of the newest version and does its part.
fn is_ready(deployment: &Value) -> bool {
    let number = |at: &str| deployment.pointer(at).and_then(Value::as_i64).unwrap_or(0);
    let wanted = number("/spec/replicas");
    number("/status/observedGeneration") >= number("/metadata/generation")
        && number("/status/updatedReplicas") == wanted
        && number("/status/replicas") == wanted
        && number("/status/availableReplicas") == wanted
}

/// What keeps its pods from being ready, as the kubelet says it.
pub(super) async fn complaints(api: &Api) -> String {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let pods = match api.get(&path).await {
        Ok(pods) => pods,
        Err(error) => return format!("{:#}", refusal(error)),
    };
    let mut text = String::new();
    for pod in pods["items"].as_array().into_iter().flatten() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let state = &pod["status"]["containerStatuses"][0]["state"];
        let said = |key: &str| state["waiting"][key].as_str().unwrap_or_default();
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        let _ = write!(text, "\n  {name}: {phase} {} {}", said("reason"), said("message"));
    }
    if text.is_empty() { "it has no pods".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_emulator::clock::Clock;
    use schedlab_emulator::{Emulator, Options};

    #[test]
    fn everything_that_kustomize_names_is_installed_and_runs_the_image() {
        let objects = objects("registry.example/scheduler:7", "r1", &[]).unwrap();
        let told: Vec<String> = objects.iter().map(crate::api::title).collect();
        assert_eq!(
            told,
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
        let objects = objects("scheduler:7", "r1", &["a".to_owned(), "b".to_owned()]).unwrap();
        let lines = objects.iter().filter_map(|object| {
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap();
            match object["kind"].as_str().unwrap() {
                "ConfigMap" => Some(format!("{name}: {}", object["data"]["config.yaml"])),
                "Deployment" => {
                    let pod = &object["spec"]["template"];
                    assert_eq!(metadata["labels"][APP], name);
                    assert_eq!(object["spec"]["selector"]["matchLabels"][APP], name);
                    assert_eq!(pod["metadata"]["labels"][APP], name);
                    let arguments = pod["spec"]["containers"][0]["args"].as_array().unwrap();
                    let said: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
                    let mounted = &pod["spec"]["volumes"][0]["configMap"]["name"];
                    Some(format!("{name} of {mounted}: {}", said.join(" ")))
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
    async fn what_somebody_else_installed_is_spared() {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let emulator = Emulator::start(Options::at(clock));
        let mut api = Api::new(emulator.client());
        let ours = objects("scheduler:7", "r1", &[]).unwrap();
        spare_others(&mut api, &ours).await.unwrap();
        api.apply(&ours[0]).await.unwrap();
        spare_others(&mut api, &ours).await.unwrap();
        let mut theirs = ours[2].clone();
        theirs["metadata"]["labels"] = json!({});
        api.apply(&theirs).await.unwrap();
        let refused = spare_others(&mut api, &ours).await.unwrap_err().to_string();
        assert!(refused.contains("has a ClusterRole schedlab-scheduler of somebody"), "{refused}");
    }

    #[test]
    fn replicas_of_an_older_image_do_not_count_as_ready() {
        let ready = json!({
            "metadata": {"generation": 2}, "spec": {"replicas": 2},
            "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2,
                       "availableReplicas": 2},
        });
        assert!(is_ready(&ready));
        for (field, value) in [("observedGeneration", 1), ("updatedReplicas", 1), ("replicas", 3)] {
            let mut not = ready.clone();
            not["status"][field] = json!(value);
            assert!(!is_ready(&not), "{field}");
        }
    }
}
