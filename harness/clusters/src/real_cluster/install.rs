//! Installs, stops and diagnoses versions of a scheduler on a kind cluster, for `schedlab upgrade`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use http::Request;
use schedlab_api::{Value, json};
use serde::Deserialize as _;
use tokio::time::{Instant, sleep};

use super::deployment::{self, SCHEDULER_NAMESPACE};
use crate::api::{Api, to_anyhow_error};
use crate::cleanup::Run;
use crate::external_tools::ExternalTool;

/// The name of the Helm release; resources of our chart are named after it.
const RELEASE_NAME: &str = "schedlab-scheduler";

/// Maximum wait for the replicas to terminate.
const REMOVAL_TIMEOUT: Duration = Duration::from_mins(1);

/// Interval at which pods are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A Helm chart and further arguments for helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmChart {
    /// A folder, an archive, or any other reference to a chart that helm accepts.
    pub source: String,
    /// Arguments for helm, for example `--set image.tag=v2`.
    pub arguments: Vec<String>,
}

impl HelmChart {
    /// The container images that the chart installs, found with `helm template`.
    ///
    /// # Errors
    /// Helm fails or its output is not YAML.
    pub fn chart_images(&self) -> anyhow::Result<Vec<String>> {
        let mut arguments =
            vec!["template", RELEASE_NAME, &self.source, "--namespace", SCHEDULER_NAMESPACE];
        arguments.extend(self.arguments.iter().map(String::as_str));
        let rendered = ExternalTool::Helm.run(&arguments)?;
        let mut images = Vec::new();
        for document in serde_yaml::Deserializer::from_str(&rendered) {
            let object = Value::deserialize(document);
            let object = object.with_context(|| {
                format!("helm template prints invalid YAML for {}", self.source)
            })?;
            collect_images(&object, &mut images);
        }
        anyhow::ensure!(!images.is_empty(), "{} installs no containers", self.source);
        Ok(images)
    }
}

/// Collects the `image` of every container in an object.
fn collect_images(value: &Value, images: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_str() {
                    Some(image) if name == "image" && !images.iter().any(|one| one == image) => {
                        images.push(image.to_owned());
                    }
                    _ => collect_images(field, images),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_images(item, images)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Fails unless the local docker has the image.
///
/// # Errors
/// Docker cannot be run or does not have the image.
pub fn check_local_image(image: &str) -> Result<(), crate::external_tools::ToolError> {
    ExternalTool::Docker.run(&["image", "inspect", "--format", "{{.Id}}", image]).map(drop)
}

/// Installs and stops schedulers on one cluster.
#[derive(Clone, Debug)]
pub struct SchedulerInstaller {
    pub(super) config: kube::Config,
    pub(super) kubeconfig: PathBuf,
    pub(super) run: Run,
}

impl SchedulerInstaller {
    /// Installs the scheduler with our manifests and this image, and waits until all replicas are
    /// ready.
    ///
    /// # Errors
    /// A request fails, or the replicas do not become ready.
    pub async fn install_image(&self, image: &str) -> anyhow::Result<()> {
        deployment::install_scheduler(&self.config, image, &[], self.run.id()).await
    }

    /// Installs or upgrades the Helm release of the scheduler, and waits until all replicas are
    /// ready.
    ///
    /// # Errors
    /// Helm fails, or the replicas do not become ready.
    pub async fn install_chart(&self, chart: &HelmChart) -> anyhow::Result<()> {
        let kubeconfig = self.kubeconfig.display().to_string();
        let mut arguments = vec!["upgrade", "--install", RELEASE_NAME, &chart.source];
        arguments.extend([
            "--namespace",
            SCHEDULER_NAMESPACE,
            "--create-namespace",
            "--wait",
            "--timeout",
            "2m",
        ]);
        // The priority classes that scenarios share are there before the chart.
        arguments.extend(["--take-ownership", "--kubeconfig", &kubeconfig]);
        arguments.extend(chart.arguments.iter().map(String::as_str));
        ExternalTool::Helm.run_async(&arguments, &[self.run.run_id_env()]).await?;
        Ok(())
    }

    /// Stops the scheduler: scales all its Deployments to zero and waits until their pods are gone.
    ///
    /// # Errors
    /// A request fails, or a pod does not terminate in time.
    pub async fn uninstall(&self) -> anyhow::Result<()> {
        let api = super::admin_api(&self.config)?;
        let collection = format!("/apis/apps/v1/namespaces/{SCHEDULER_NAMESPACE}/deployments");
        for name in list_object_names(&api, &collection).await? {
            let none = json!({ "spec": { "replicas": 0 } });
            api.merge_patch(&format!("{collection}/{name}"), &none)
                .await
                .map_err(to_anyhow_error)?;
        }
        let end = Instant::now() + REMOVAL_TIMEOUT;
        while let [first, ..] = &*list_object_names(&api, PODS_PATH).await? {
            anyhow::ensure!(
                Instant::now() < end,
                "pod {first} does not terminate within {REMOVAL_TIMEOUT:?}"
            );
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Why the scheduler's pods are not ready, and the last lines of each pod's log.
    pub async fn diagnostics_text(&self) -> String {
        match self.collect_diagnostics().await {
            Ok(diagnostics) => diagnostics,
            Err(error) => format!("{error:#}"),
        }
    }

    async fn collect_diagnostics(&self) -> anyhow::Result<String> {
        let api = super::admin_api(&self.config)?;
        let mut diagnostics = format!("its pods:{}", deployment::pod_problems_text(&api).await);
        for name in list_object_names(&api, PODS_PATH).await? {
            let request = Request::get(format!("{PODS_PATH}/{name}/log?tailLines=5"));
            let request =
                request.body(Vec::new()).context("the pod's name is not valid in a path")?;
            let log = api.client().request_text(request).await.unwrap_or_default();
            let _ = write!(diagnostics, "\n{name} logged:");
            diagnostics.extend(log.lines().map(|line| format!("\n  {line}")));
        }
        Ok(diagnostics)
    }
}

const PODS_PATH: &str = "/api/v1/namespaces/kai-scheduler/pods";

async fn list_object_names(api: &Api, collection: &str) -> anyhow::Result<Vec<String>> {
    let list = api.get(collection).await.map_err(to_anyhow_error)?;
    let items = list["items"].as_array().into_iter().flatten();
    Ok(items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    use kube::config::{KubeConfigOptions, Kubeconfig};
    use schedlab_emulator::clock::Clock;
    use schedlab_emulator::{Emulator, Fleet, Options};

    use super::*;

    const FLEET: &str = "pools:\n- name: node\n  names: [node-1]\n  gpus: 8\n";

    /// The images of the pods that are not being deleted.
    async fn running(api: &Api) -> Vec<String> {
        let pods = api.get(PODS_PATH).await.unwrap();
        let pods = pods["items"].as_array().unwrap().iter();
        let stay = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let image =
            |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        stay.map(image).collect()
    }

    /// Skipped where helm is not on the `PATH`; `SCHEDLAB_REQUIRE=helm` makes that a failure.
    #[tokio::test]
    #[expect(clippy::print_stdout, reason = "a test reports that it was skipped")]
    async fn helm_installs_our_chart_and_replaces_it_by_another_version() {
        if let Err(error) = ExternalTool::Helm.run(&["version"]) {
            let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
            assert!(!required.contains("helm"), "{error}");
            println!("skipped: {error}");
            return;
        }
        let emulator = Emulator::start(Options::with_clock(Clock::real()));
        emulator.add_fleet(&Fleet::parse("fleet", FLEET).unwrap()).unwrap();
        let api = Api::new(emulator.client());
        crate::scheduler_objects::install_scheduler_objects(&api).await.unwrap();
        let now: schedlab_scheduler::Clock = Arc::new(|| Clock::real().now());
        let kube = schedlab_scheduler::Config::kube();
        tokio::spawn(schedlab_scheduler::run(emulator.client(), kube, now));
        let server = emulator.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, &server.kubeconfig).unwrap();
        let (read, options) = (Kubeconfig::read_from(&kubeconfig), KubeConfigOptions::default());
        let config = kube::Config::from_custom_kubeconfig(read.unwrap(), &options).await.unwrap();
        let run = Run::begin_in(folder.path(), "test").unwrap();
        let there = SchedulerInstaller { config, kubeconfig, run };
        let chart = |set: &str| HelmChart {
            source: concat!(env!("CARGO_MANIFEST_DIR"), "/../../kind-configs/chart").to_owned(),
            arguments: vec!["--set".to_owned(), set.to_owned()],
        };
        for version in ["v1", "v2", "v1"] {
            let (chart, image) = (chart(&format!("image.tag={version}")), "schedlab/scheduler");
            let image = format!("{image}:{version}");
            assert_eq!(chart.chart_images().unwrap(), std::slice::from_ref(&image));
            there.install_chart(&chart).await.unwrap();
            assert_eq!(running(&api).await, [image.clone(), image]);
        }
        let error = there.install_chart(&chart("config.kvalue=1")).await.unwrap_err().to_string();
        assert!(error.contains("kvalue"), "{error}");
        there.uninstall().await.unwrap();
        assert_eq!(running(&api).await, [""; 0]);
    }

    #[test]
    fn each_container_image_is_collected_once() {
        let container = |image: &str| json!({ "name": "main", "image": image });
        let object = json!({ "kind": "CronJob", "spec": { "jobTemplate": { "spec": {
            "initContainers": [container("a:1")],
            "containers": [container("b:2"), container("a:1")],
        } } } });
        let mut images = Vec::new();
        collect_images(&object, &mut images);
        images.sort();
        assert_eq!(images, ["a:1", "b:2"]);
    }
}
