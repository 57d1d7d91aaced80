//! Component admission on the command line: serving reviews in `run`, and verb `webhooks`.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use crate::{
    Component, Config,
    admission::{self, Admission, Certificate, PatchedPods, WebhookService},
    config::names,
};
use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use tokio::net::TcpListener;

use super::Run;

const SERVICE_HEADING: &str = "Service";
const MUTATED_PODS_HEADING: &str = "Mutated pods";

/// Arguments of verb `webhooks`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  schedlab-scheduler webhooks --ca-file ca.crt | kubectl apply -f -"
)]
pub struct Webhooks {
    /// Namespace of the Service in front of the scheduler
    #[arg(long, default_value = "kai-scheduler", help_heading = SERVICE_HEADING)]
    namespace: String,
    /// Name of the Service; its port 443 must lead to --webhook-address of `run`
    #[arg(long, value_name = "NAME", default_value = "schedlab-scheduler", help_heading = SERVICE_HEADING)]
    service: String,
    /// CA certificate of tls.crt as PEM [default: `caBundle` is omitted, for cert-manager to set]
    #[arg(long, value_name = "FILE", help_heading = SERVICE_HEADING)]
    ca_file: Option<PathBuf>,
    /// Mutate pods of this scheduler
    #[arg(
        long,
        value_name = "NAME",
        default_value = "kai-scheduler",
        value_parser = names::parse_scheduler_name,
        help_heading = MUTATED_PODS_HEADING
    )]
    scheduler_name: String,
    /// Mutate all of its pods, not only those that share GPUs, as the configuration sets
    /// blockNvidiaVisibleDevices
    #[arg(long, help_heading = MUTATED_PODS_HEADING)]
    block_nvidia_visible_devices: bool,
    /// Mutate all of its pods, as the configuration sets gpuPodRuntimeClassName
    #[arg(long, help_heading = MUTATED_PODS_HEADING)]
    gpu_pod_runtime_class_name: bool,
}

/// Serves admission reviews, whether this process leads or not; never returns if no certificate is
/// configured.
pub(super) async fn serve_reviews(
    arguments: &Run,
    config: &Config,
    client: &kube::Client,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + use<>> {
    let only = config.components.iter().eq([&Component::Admission]);
    let runs = config.runs(Component::Admission);
    let parts = match &arguments.webhook_cert_dir {
        None if only => anyhow::bail!("--components admission: needs --webhook-cert-dir"),
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
            Err(error) => Err(error).context("the webhooks failed"),
        }
    })
}

/// Prints the configurations of the webhooks.
pub(super) fn print_webhooks(arguments: &Webhooks) -> anyhow::Result<()> {
    let authority = match &arguments.ca_file {
        Some(path) => {
            let pem = std::fs::read(path);
            let pem = pem.with_context(|| format!("--ca-file: cannot read {}", path.display()))?;
            Some(STANDARD.encode(pem))
        }
        None => None,
    };
    let service = WebhookService {
        namespace: &arguments.namespace,
        name: &arguments.service,
        ca_bundle: authority.as_deref(),
        scheduler_name: &arguments.scheduler_name,
        patched_pods: PatchedPods::for_settings([
            arguments.block_nvidia_visible_devices,
            arguments.gpu_pod_runtime_class_name,
        ]),
    };
    let mut out = io::stdout().lock();
    for configuration in &admission::webhook_configurations(&service) {
        let yaml = serde_yaml::to_string(configuration)
            .context("cannot format a configuration as YAML")?;
        write!(out, "---\n{yaml}").context("cannot write to standard output")?;
    }
    Ok(())
}
