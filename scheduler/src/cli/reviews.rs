//! Component admission on the command line: where it answers, and what has it asked.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use schedlab_scheduler::{
    Component, Config,
    admission::{self, Admission, Certificate, Changed, Service},
    config::names,
};
use tokio::net::TcpListener;

use super::Run;

#[derive(Debug, clap::Args)]
pub(crate) struct Webhooks {
    /// Namespace of the service in front of the scheduler.
    #[arg(long, default_value = "kai-scheduler")]
    namespace: String,
    /// Its name; its port 443 leads to --webhook-address.
    #[arg(long, default_value = "schedlab-scheduler")]
    service: String,
    /// The certificate of who signed tls.crt, as PEM; without it `caBundle` is left to whoever
    /// fills it in, as cert-manager does.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The scheduler whose pods are given what they need to share GPUs.
    #[arg(long, default_value = "kai-scheduler", value_parser = names::scheduler_name)]
    scheduler_name: String,
    /// The configuration sets blockNvidiaVisibleDevices: all its pods are changed, not only those
    /// that share GPUs.
    #[arg(long)]
    block_nvidia_visible_devices: bool,
    /// The configuration sets gpuPodRuntimeClassName: as above.
    #[arg(long)]
    gpu_pod_runtime_class_name: bool,
}

/// Answers the API server's reviews, whether this process leads or not; never, without a
/// certificate.
pub(super) async fn answered(
    arguments: &Run,
    config: &Config,
    client: &kube::Client,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + use<>> {
    let only = config.components.iter().eq([&Component::Admission]);
    let runs = config.runs(Component::Admission);
    let parts = match &arguments.webhook_cert_dir {
        None if only => anyhow::bail!("component admission alone: needs --webhook-cert-dir"),
        None => None,
        Some(_) if !runs => anyhow::bail!("--webhook-cert-dir: needs component admission"),
        Some(folder) => {
            let certificate = Certificate::read(folder.clone()).context("--webhook-cert-dir")?;
            let address = arguments.webhook_address;
            let listener = TcpListener::bind(address)
                .await
                .with_context(|| format!("--webhook-address {address}: cannot listen there"))?;
            Some((listener, certificate, Admission::new(client.clone(), config)))
        }
    };
    Ok(async move {
        let Some((listener, certificate, admission)) = parts else {
            return std::future::pending().await;
        };
        match admission::serve(listener, certificate, admission).await {
            Ok(never) => match never {},
            Err(error) => Err(error).context("reviews are answered no more"),
        }
    })
}

/// Prints the configurations of the webhooks.
pub(crate) fn print_webhooks(arguments: &Webhooks) -> anyhow::Result<()> {
    let authority = match &arguments.ca_file {
        Some(path) => {
            let pem = std::fs::read(path);
            let pem = pem.with_context(|| format!("--ca-file: cannot read {}", path.display()))?;
            Some(STANDARD.encode(pem))
        }
        None => None,
    };
    let service = Service {
        namespace: &arguments.namespace,
        name: &arguments.service,
        authority: authority.as_deref(),
        scheduler_name: &arguments.scheduler_name,
        changed: Changed::where_set([
            arguments.block_nvidia_visible_devices,
            arguments.gpu_pod_runtime_class_name,
        ]),
    };
    let mut out = io::stdout().lock();
    for configuration in &admission::configurations(&service) {
        let yaml = serde_yaml::to_string(configuration).context("a configuration is no YAML")?;
        write!(out, "---\n{yaml}").context("cannot write to standard output")?;
    }
    Ok(())
}
