//! Runs the shards of a run as the pods of an Indexed Job, and reads what they print.
//!
//! The Job owns all that is created for it, so that one deletion removes everything; a Job that is
//! left behind by a killed process is deleted by its time to live.

mod manifests;
mod progress;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::api::{error_chain_text, to_anyhow_error};
use crate::interrupt::{Interrupt, Interrupted};
use crate::kubeconfig;

use manifests::{CONTAINER, config_maps, job_manifest};
use progress::{JobProgress, job_verdict};

/// How often the Job and its pods are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long the pods may take to disappear after their Job was deleted.
const CLEANUP_TIMEOUT: Duration = Duration::from_mins(1);

/// Where the pods run: which kubeconfig, context and namespace.
#[derive(Clone, Debug, Default)]
pub struct PodPlace {
    /// Path of the kubeconfig; `None` means `KUBECONFIG`, then `~/.kube/config`, then the service
    /// account of this pod.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; `None` means the current one.
    pub context: Option<String>,
    /// Namespace; `None` means that of the context.
    pub namespace: Option<String>,
}

/// The pods of a run in shards.
#[derive(Clone, Debug)]
pub struct ShardJob {
    /// Number of shards.
    pub shards: usize,
    /// The image, whose entry point is schedlab.
    pub image: String,
    /// When nodes pull the image.
    pub pull_policy: String,
    /// CPU that each pod requests.
    pub cpu: String,
    /// Memory that each pod requests.
    pub memory: String,
    /// The words of the command; `$(JOB_COMPLETION_INDEX)` is the index of the shard, from 0.
    pub words: Vec<String>,
    /// Files for the pods.
    pub files: Vec<PodFile>,
}

/// A file that pods find below their current folder.
#[derive(Clone, Debug)]
pub struct PodFile {
    /// The path, relative, with `/`.
    pub path: String,
    /// The text of the file.
    pub text: String,
}

/// The folder of the results in a pod.
pub const POD_RESULTS_FOLDER: &str = "/results";

impl PodPlace {
    /// Connects to the cluster.
    ///
    /// # Errors
    /// There is no kubeconfig, or it names no usable cluster.
    pub async fn connect(&self) -> anyhow::Result<Client> {
        let path = kubeconfig::find_kubeconfig_path(self.kubeconfig.as_deref())?;
        let is_named = self.kubeconfig.is_some() || self.context.is_some();
        let in_cluster = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let mut config = if !is_named && in_cluster && !path.exists() {
            kube::Config::incluster().context("the service account of this pod is not usable")?
        } else {
            let options =
                KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
            let loaded = kubeconfig::load_kubeconfig(&path)?;
            kube::Config::from_custom_kubeconfig(loaded, &options)
                .await
                .with_context(|| format!("kubeconfig {} names no usable cluster", path.display()))?
        };
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        Ok(Client::try_from(config)?)
    }
}

/// Runs the shards in the default namespace of the client. Returns the logs of the pods by index,
/// and removes everything, also after an error or an interrupt. `report` gets progress messages.
///
/// # Errors
/// The Job cannot be created, a pod fails or cannot start, or the run is interrupted.
pub async fn run_shard_job(
    client: &Client,
    name: &str,
    job: &ShardJob,
    interrupt: &Interrupt,
    report: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<String>> {
    let objects = JobObjects::new(client, name);
    let ran = interrupt.run_unless_interrupted(objects.run(job, report)).await;
    let interrupted = ran.as_ref().is_err_and(anyhow::Error::is::<Interrupted>);
    if interrupted {
        report("interrupted: deleting the pods");
    }
    match objects.delete().await {
        Ok(()) => ran,
        Err(left) if ran.is_ok() => Err(left),
        Err(left) => {
            report(&format!("{left:#}"));
            ran
        }
    }
}

/// The objects of one run.
struct JobObjects {
    name: String,
    jobs: Api<Job>,
    pods: Api<Pod>,
    config_maps: Api<ConfigMap>,
}

impl JobObjects {
    fn new(client: &Client, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            jobs: Api::default_namespaced(client.clone()),
            pods: Api::default_namespaced(client.clone()),
            config_maps: Api::default_namespaced(client.clone()),
        }
    }

    async fn run(
        &self,
        job: &ShardJob,
        report: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Vec<String>> {
        self.create(job).await?;
        let shards = job.shards;
        report(&format!("created Job {} with {shards} shards", self.name));
        self.wait_until_complete(shards, report).await?;
        self.read_logs(shards).await
    }

    /// Creates the Job suspended, then the ConfigMaps that it owns, then starts it. If the program
    /// ends in between, every ConfigMap has an owner, with which it is deleted.
    async fn create(&self, job: &ShardJob) -> anyhow::Result<()> {
        let maps = config_maps(&self.name, &job.files)?;
        let manifest = job_manifest(&self.name, job, &maps)?;
        let create = PostParams::default();
        let created = self.jobs.create(&create, &manifest).await;
        let created = created
            .map_err(to_anyhow_error)
            .with_context(|| format!("cannot create Job {}", self.name))?;
        let uid = created.metadata.uid.unwrap_or_default();
        for map in &maps {
            let object = map.object(&self.name, &uid)?;
            let created = self.config_maps.create(&create, &object).await;
            created
                .map_err(to_anyhow_error)
                .with_context(|| format!("cannot create ConfigMap {}", map.name))?;
        }
        let start = Patch::Merge(json!({"spec": {"suspend": false}}));
        let started = self.jobs.patch(&self.name, &PatchParams::default(), &start).await;
        let started = started.map_err(to_anyhow_error).map(drop);
        started.with_context(|| format!("cannot start Job {}", self.name))
    }

    async fn wait_until_complete(
        &self,
        shards: usize,
        report: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let mut last = String::new();
        loop {
            let job = self.jobs.get_status(&self.name).await;
            let job = job
                .map_err(to_anyhow_error)
                .with_context(|| format!("cannot read Job {}", self.name))?;
            let pods = self.pods().await?;
            let progress = JobProgress::of_pods(&pods, shards);
            match job_verdict(&job) {
                Some(Ok(())) => return Ok(()),
                Some(Err(why)) => return Err(self.failure(&why, &progress).await),
                None => {}
            }
            if let Some(why) = &progress.cannot_start {
                return Err(anyhow!("Job {}: {why}", self.name));
            }
            if progress.text != last {
                report(&progress.text);
                last = progress.text;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// The error that the Job failed, with the end of the log of a failed pod.
    async fn failure(&self, why: &str, progress: &JobProgress) -> anyhow::Error {
        let Some(pod) = &progress.failed_pod else { return anyhow!("Job {}: {why}", self.name) };
        let params = LogParams { tail_lines: Some(10), ..log_params() };
        let log =
            self.pods.logs(pod, &params).await.unwrap_or_else(|error| error_chain_text(&error));
        anyhow!("Job {}: {why}; the last lines of pod {pod}:\n{}", self.name, log.trim_end())
    }

    async fn pods(&self) -> anyhow::Result<Vec<Pod>> {
        let selector = format!("batch.kubernetes.io/job-name={}", self.name);
        let listed = self.pods.list(&ListParams::default().labels(&selector)).await;
        let listed = listed.map_err(to_anyhow_error);
        Ok(listed.with_context(|| format!("cannot list the pods of Job {}", self.name))?.items)
    }

    async fn read_logs(&self, shards: usize) -> anyhow::Result<Vec<String>> {
        let pods = self.pods().await?;
        let mut logs = Vec::new();
        for index in 0..shards {
            let pod = progress::succeeded_pod(&pods, index).with_context(|| {
                format!("Job {}: shard {} has no pod that succeeded", self.name, index + 1)
            })?;
            let log = self.pods.logs(pod, &log_params()).await.map_err(to_anyhow_error);
            logs.push(log.with_context(|| format!("cannot read the log of pod {pod}"))?);
        }
        Ok(logs)
    }

    /// Deletes the Job with all that it owns, and waits until its pods are gone.
    async fn delete(&self) -> anyhow::Result<()> {
        let left = || format!("Job {} may be left behind", self.name);
        match self.jobs.delete(&self.name, &DeleteParams::background()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(to_anyhow_error(error).context(left())),
        }
        let end = Instant::now() + CLEANUP_TIMEOUT;
        loop {
            let pods = self.pods().await.with_context(left)?;
            let maps = self.config_map_names().await.with_context(left)?;
            if pods.is_empty() && maps.is_empty() {
                return Ok(());
            }
            for map in &maps {
                // The garbage collector may be faster.
                let _ = self.config_maps.delete(map, &DeleteParams::default()).await;
            }
            if Instant::now() > end {
                let names = pods.iter().filter_map(|pod| pod.metadata.name.clone()).chain(maps);
                let names = names.collect::<Vec<_>>().join(", ");
                return Err(anyhow!("could not be removed within a minute: {names}"));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn config_map_names(&self) -> anyhow::Result<Vec<String>> {
        let selector = format!("{}={}", manifests::RUN_LABEL, self.name);
        let listed = self.config_maps.list(&ListParams::default().labels(&selector)).await;
        let items = listed.map_err(to_anyhow_error)?.items;
        Ok(items.into_iter().filter_map(|map| map.metadata.name).collect())
    }
}

fn log_params() -> LogParams {
    LogParams { container: Some(CONTAINER.to_owned()), ..LogParams::default() }
}

#[cfg(test)]
mod tests;
