//! Access to an existing cluster through a kubeconfig. The cluster is changed only if the user
//! confirmed its name.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http::Request;
use kube::config::KubeConfigOptions;

use crate::api::{VersionError, error_chain_text, is_unauthorized, to_anyhow_error};
use crate::kubeconfig;

/// Maximum wait for a server's response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Hint for a credential that the server rejects.
pub(crate) const LOG_IN_HINT: &str =
    "log in again: the credentials of that context are invalid or have expired";

/// Hint for a response that does not come from a Kubernetes API server.
pub(crate) const PROXY_HINT: &str =
    "is there a proxy or a sign-in page in between? kubectl get --raw /version shows the response";

/// How to reach an existing cluster: which kubeconfig and context.
#[derive(Clone, Debug, Default)]
pub struct KubeconfigAccess {
    /// Path of the kubeconfig; `None` means `KUBECONFIG`, then `~/.kube/config`.
    pub path: Option<PathBuf>,
    /// The context that the user confirmed with `--context NAME --confirm`.
    pub confirmed: Option<String>,
    /// The name of the scheduler under test, if it runs on the cluster.
    pub scheduler: Option<String>,
}

impl KubeconfigAccess {
    /// Loads the kubeconfig. Returns the client configuration, the absolute path of the kubeconfig,
    /// and the name of the context.
    pub(super) async fn connect(&self) -> anyhow::Result<(kube::Config, PathBuf, String)> {
        let path = kubeconfig::find_kubeconfig_path(self.path.as_deref())?;
        kubeconfig::check_rereadable(&path)?;
        let kubeconfig = kubeconfig::load_kubeconfig(&path)?;
        let contexts: Vec<&str> =
            kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
        let Some(confirmed) = &self.confirmed else {
            let current = kubeconfig::current_context_name(&kubeconfig).map_err(|why| {
                let (path, all) = (path.display(), contexts.join(", "));
                anyhow!(
                    "{path} {why}: name a context with --context NAME --confirm; contexts: {all}"
                )
            })?;
            anyhow::bail!(
                "the current context of {} is {current:?}; to let schedlab create nodes and \
                 namespaces there: --context {current} --confirm",
                path.display()
            );
        };
        anyhow::ensure!(
            contexts.contains(&confirmed.as_str()),
            "--context {confirmed:?}: {} has no such context; contexts: {}",
            path.display(),
            contexts.join(", ")
        );
        let options =
            KubeConfigOptions { context: Some(confirmed.clone()), ..KubeConfigOptions::default() };
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .with_context(|| format!("kubeconfig {} names no usable cluster", path.display()))?;
        config.connect_timeout = Some(RESPONSE_TIMEOUT);
        // Absolute: it is recorded, and `schedlab clean` may run in another folder.
        Ok((config, kubeconfig::absolute_path_list(&path)?, confirmed.clone()))
    }
}

/// Checks that the API server is ready.
pub(super) async fn check_ready(config: &kube::Config) -> anyhow::Result<()> {
    let request = Request::get("/readyz").body(Vec::new()).context("invalid request path")?;
    let client = super::admin_api(config)?.client().clone();
    let url = &config.cluster_url;
    let response = tokio::time::timeout(RESPONSE_TIMEOUT, client.request_text(request)).await;
    response
        .with_context(|| format!("{url} does not respond within {RESPONSE_TIMEOUT:?}"))?
        .map_err(|error| connection_error(url, error))
        .map(drop)
}

/// Checks that the cluster is reachable and that we have all rights: scenarios create and delete
/// objects of any kind. Returns the server's version.
pub(super) async fn check_access(config: &kube::Config) -> anyhow::Result<String> {
    let api = super::admin_api(config)?;
    let url = &config.cluster_url;
    let version = tokio::time::timeout(RESPONSE_TIMEOUT, api.server_version()).await;
    let version = version
        .with_context(|| format!("{url} does not respond within {RESPONSE_TIMEOUT:?}"))?
        .map_err(|error| match error {
            VersionError::Request(error) => connection_error(url, error),
            other @ VersionError::NotKubernetes { .. } => {
                anyhow!("{url}: {other}\nto do: {PROXY_HINT}")
            }
        })?;
    let allowed = api.has_full_access().await.map_err(to_anyhow_error);
    anyhow::ensure!(
        allowed.with_context(|| format!("{url} rejects a SelfSubjectAccessReview"))?,
        "{url} does not allow everything (kubectl auth can-i '*' '*.*'): schedlab needs \
         administrator rights there, as from ClusterRole cluster-admin; nothing was changed",
    );
    Ok(version)
}

/// The uid of the namespace `kube-system`, which identifies the cluster.
pub(super) async fn kube_system_uid(config: &kube::Config) -> anyhow::Result<Option<String>> {
    let url = &config.cluster_url;
    let uid = super::admin_api(config)?.cluster_uid().await.map_err(to_anyhow_error);
    uid.with_context(|| format!("cannot read namespace kube-system of {url}"))
}

/// An error about the connection to a server, with a hint.
fn connection_error(url: &http::Uri, error: kube::Error) -> anyhow::Error {
    if is_unauthorized(&error) {
        return anyhow!(
            "{url} rejects our credentials: {}\nto do: {LOG_IN_HINT}",
            error_chain_text(&error)
        );
    }
    if matches!(error, kube::Error::Api(_)) {
        return to_anyhow_error(error).context(format!("{url} rejects the request"));
    }
    let why = error_chain_text(&error);
    let to_do = if why.contains("certificate") {
        "is certificate-authority-data of the kubeconfig that of this server?"
    } else {
        "is the cluster running? kubectl config get-contexts shows others"
    };
    anyhow!("{url} cannot be reached: {why}\nto do: {to_do}")
}
