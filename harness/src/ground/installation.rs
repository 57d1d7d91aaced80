//! Versions of a scheduler as Deployments of a kind cluster: brought, stopped, and heard.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use http::Request;
use schedlab_json::{Value, json};
use serde::Deserialize as _;
use tokio::time::{Instant, sleep};

use super::deployment::{self, NAMESPACE};
use crate::api::{Api, refusal};
use crate::leftovers::Run;
use crate::tools::Tool;

/// The release's name; resources of our chart are named after it.
const RELEASE: &str = "schedlab-scheduler";

/// How long replicas may take to go.
const GONE_WITHIN: Duration = Duration::from_mins(1);

/// How often it is asked.
const ASK: Duration = Duration::from_millis(100);

/// A Helm chart, and what else helm is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// A folder, an archive, or whatever else helm takes for one.
    pub chart: String,
    /// Arguments for helm, as `--set image.tag=v2`.
    pub arguments: Vec<String>,
}

impl Chart {
    /// The images of what it installs, found without a cluster.
    pub(crate) fn images(&self) -> anyhow::Result<Vec<String>> {
        let mut words = vec!["template", RELEASE, &self.chart, "--namespace", NAMESPACE];
        words.extend(self.arguments.iter().map(String::as_str));
        let rendered = Tool::Helm.run(&words)?;
        let mut images = Vec::new();
        for document in serde_yaml::Deserializer::from_str(&rendered) {
            let object = Value::deserialize(document);
            let object = object.with_context(|| format!("helm makes no YAML of {}", self.chart))?;
            of_containers(&object, &mut images);
        }
        anyhow::ensure!(!images.is_empty(), "{} installs nothing that runs", self.chart);
        Ok(images)
    }
}

/// The images that an object names, wherever it has containers.
fn of_containers(value: &Value, images: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_str() {
                    Some(image) if name == "image" && !images.iter().any(|one| one == image) => {
                        images.push(image.to_owned());
                    }
                    _ => of_containers(field, images),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| of_containers(item, images)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether the local docker has an image.
pub(crate) fn is_local(image: &str) -> Result<(), crate::tools::ToolError> {
    Tool::Docker.run(&["image", "inspect", "--format", "{{.Id}}", image]).map(drop)
}

/// Where a scheduler is installed.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    pub(super) config: kube::Config,
    pub(super) kubeconfig: PathBuf,
    pub(super) run: Run,
}

impl Installation {
    /// Brings our manifests with this image, and waits until all replicas do their part.
    pub(crate) async fn image(&self, image: &str) -> anyhow::Result<()> {
        deployment::install(&self.config, (image, &[]), self.run.id()).await
    }

    /// Brings a release to this chart, and waits until all replicas do their part.
    pub(crate) async fn chart(&self, chart: &Chart) -> anyhow::Result<()> {
        let kubeconfig = self.kubeconfig.display().to_string();
        let mut words = vec!["upgrade", "--install", RELEASE, &chart.chart];
        words.extend(["--namespace", NAMESPACE, "--create-namespace", "--wait", "--timeout", "2m"]);
        // The classes that features share are there before it.
        words.extend(["--take-ownership", "--kubeconfig", &kubeconfig]);
        words.extend(chart.arguments.iter().map(String::as_str));
        Tool::Helm.wait(&words, &[self.run.mark()]).await?;
        Ok(())
    }

    /// Ends all replicas, and waits until they are gone.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        let api = super::api(&self.config)?;
        let collection = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
        for name in names(&api, &collection).await? {
            let none = json!({ "spec": { "replicas": 0 } });
            api.merge(&format!("{collection}/{name}"), &none).await.map_err(refusal)?;
        }
        let end = Instant::now() + GONE_WITHIN;
        while let [first, ..] = &*names(&api, PODS).await? {
            anyhow::ensure!(Instant::now() < end, "{first} does not end within {GONE_WITHIN:?}");
            sleep(ASK).await;
        }
        Ok(())
    }

    /// What keeps its pods from being ready, and the end of what each of them said.
    pub(crate) async fn last_words(&self) -> String {
        match self.heard().await {
            Ok(words) => words,
            Err(error) => format!("{error:#}"),
        }
    }

    async fn heard(&self) -> anyhow::Result<String> {
        let api = super::api(&self.config)?;
        let mut words = format!("its pods:{}", deployment::complaints(&api).await);
        for name in names(&api, PODS).await? {
            let request = Request::get(format!("{PODS}/{name}/log?tailLines=5"));
            let request = request.body(Vec::new()).context("a name makes a path")?;
            let log = api.client().request_text(request).await.unwrap_or_default();
            let _ = write!(words, "\n{name} said:");
            words.extend(log.lines().map(|line| format!("\n  {line}")));
        }
        Ok(words)
    }
}

const PODS: &str = "/api/v1/namespaces/kai-scheduler/pods";

async fn names(api: &Api, collection: &str) -> anyhow::Result<Vec<String>> {
    let list = api.get(collection).await.map_err(refusal)?;
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

    /// The images of the pods that are there and stay.
    async fn running(api: &Api) -> Vec<String> {
        let pods = api.get(PODS).await.unwrap();
        let pods = pods["items"].as_array().unwrap().iter();
        let stay = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let image =
            |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        stay.map(image).collect()
    }

    /// Where helm is not on the `PATH` this is skipped; `SCHEDLAB_REQUIRE=helm` makes that a failure.
    #[tokio::test]
    #[expect(clippy::print_stdout, reason = "a test says what it leaves out")]
    async fn the_real_helm_installs_our_chart_and_brings_another_version_in_its_place() {
        if let Err(error) = Tool::Helm.run(&["version"]) {
            let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
            assert!(!required.contains("helm"), "{error}");
            println!("skipped: {error}");
            return;
        }
        let emulator = Emulator::start(Options::at(Clock::real()));
        emulator.add_fleet(&Fleet::parse("fleet", FLEET).unwrap()).unwrap();
        let api = Api::new(emulator.client());
        crate::cluster::install(&api).await.unwrap();
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
        let there = Installation { config, kubeconfig, run };
        let chart = |set: &str| Chart {
            chart: concat!(env!("CARGO_MANIFEST_DIR"), "/../kind-configs/chart").to_owned(),
            arguments: vec!["--set".to_owned(), set.to_owned()],
        };
        for version in ["v1", "v2", "v1"] {
            let (chart, image) = (chart(&format!("image.tag={version}")), "schedlab/scheduler");
            let image = format!("{image}:{version}");
            assert_eq!(chart.images().unwrap(), std::slice::from_ref(&image));
            there.chart(&chart).await.unwrap();
            assert_eq!(running(&api).await, [image.clone(), image]);
        }
        let refused = there.chart(&chart("config.kvalue=1")).await.unwrap_err().to_string();
        assert!(refused.contains("kvalue"), "{refused}");
        there.stop().await.unwrap();
        assert_eq!(running(&api).await, [""; 0]);
    }

    #[test]
    fn images_are_found_wherever_containers_are_and_once() {
        let container = |image: &str| json!({ "name": "main", "image": image });
        let object = json!({ "kind": "CronJob", "spec": { "jobTemplate": { "spec": {
            "initContainers": [container("a:1")],
            "containers": [container("b:2"), container("a:1")],
        } } } });
        let mut images = Vec::new();
        of_containers(&object, &mut images);
        images.sort();
        assert_eq!(images, ["a:1", "b:2"]);
    }
}
