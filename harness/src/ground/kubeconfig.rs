//! A cluster that is there, by its kubeconfig. It is touched only when its name is said.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http::Request;
use kube::config::KubeConfigOptions;

use crate::api::{NoVersion, causes, is_unauthorized, refusal};
use crate::kubeconfig;

/// How long a server may take to answer at all.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What to do where a server does not know who asks.
pub(crate) const LOG_IN: &str =
    "log in there again: the credentials of that context are not valid, or no longer";

/// What to do where something else answers.
pub(crate) const NO_PROXY: &str =
    "is there a proxy or a sign-in page on the way? kubectl get --raw /version shows what answers";

/// How to get at a cluster.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The kubeconfig; `KUBECONFIG` and `~/.kube/config` when it is not named.
    pub path: Option<PathBuf>,
    /// The cluster's name (its context), said by somebody who means it.
    pub confirmed: Option<String>,
    /// The scheduler that runs there and is to be tested, if so.
    pub scheduler: Option<String>,
}

impl Access {
    /// Reads the kubeconfig; answers it with its path and context.
    pub(super) async fn connect(&self) -> anyhow::Result<(kube::Config, PathBuf, String)> {
        let path = kubeconfig::place(self.path.as_deref())?;
        kubeconfig::can_be_read_again(&path)?;
        let kubeconfig = kubeconfig::read(&path)?;
        let contexts: Vec<&str> =
            kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
        let Some(confirmed) = &self.confirmed else {
            let current = kubeconfig::current(&kubeconfig).map_err(|why| {
                let (path, all) = (path.display(), contexts.join(", "));
                anyhow!("{path} {why}: name one with --yes-this-cluster; it has: {all}")
            })?;
            anyhow::bail!(
                "{} means the cluster {current:?}; if that is the one in which schedlab shall \
                 make nodes and namespaces: --yes-this-cluster {current}",
                path.display()
            );
        };
        anyhow::ensure!(
            contexts.contains(&confirmed.as_str()),
            "--yes-this-cluster {confirmed:?}: {} has no such context; it has: {}",
            path.display(),
            contexts.join(", ")
        );
        let options =
            KubeConfigOptions { context: Some(confirmed.clone()), ..KubeConfigOptions::default() };
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .with_context(|| format!("kubeconfig {} names no usable cluster", path.display()))?;
        config.connect_timeout = Some(ANSWER_WITHIN);
        // It is noted, and cleaned up from wherever.
        Ok((config, kubeconfig::absolute(&path)?, confirmed.clone()))
    }
}

/// Asks whether the cluster serves.
pub(super) async fn is_ready(config: &kube::Config) -> anyhow::Result<()> {
    let question = Request::get("/readyz").body(Vec::new()).context("a path is one")?;
    let client = super::api(config)?.client().clone();
    let url = &config.cluster_url;
    let answer = tokio::time::timeout(ANSWER_WITHIN, client.request_text(question)).await;
    answer
        .with_context(|| format!("{url} does not answer within {ANSWER_WITHIN:?}"))?
        .map_err(|error| unusable(url, error))
        .map(drop)
}

/// Asks whether the cluster is there and whether we may do everything: scenarios make objects of any
/// kind, and all of them are taken away. Answers its version.
pub(super) async fn examine(config: &kube::Config) -> anyhow::Result<String> {
    let api = super::api(config)?;
    let url = &config.cluster_url;
    let version = tokio::time::timeout(ANSWER_WITHIN, api.version()).await;
    let version = version
        .with_context(|| format!("{url} does not answer within {ANSWER_WITHIN:?}"))?
        .map_err(|error| match error {
            NoVersion::Untold(error) => unusable(url, error),
            stranger @ NoVersion::Stranger { .. } => {
                anyhow!("{url}: {stranger}\nto do: {NO_PROXY}")
            }
        })?;
    let allowed = api.allows_everything().await.map_err(refusal);
    anyhow::ensure!(
        allowed.with_context(|| format!("{url} refuses to tell our rights"))?,
        "{url} does not let us do everything (kubectl auth can-i '*' '*.*'): schedlab needs the \
         rights of an administrator there, as ClusterRole cluster-admin gives them; nothing was \
         changed",
    );
    Ok(version)
}

/// Which cluster it is.
pub(super) async fn identity(config: &kube::Config) -> anyhow::Result<Option<String>> {
    let url = &config.cluster_url;
    let uid = super::api(config)?.cluster_uid().await.map_err(refusal);
    uid.with_context(|| format!("{url} does not tell of namespace kube-system"))
}

/// Why a server does not tell its version.
fn unusable(url: &http::Uri, error: kube::Error) -> anyhow::Error {
    if is_unauthorized(&error) {
        return anyhow!("{url} does not know us: {}\nto do: {LOG_IN}", causes(&error));
    }
    if matches!(error, kube::Error::Api(_)) {
        return refusal(error).context(format!("{url} refuses us"));
    }
    let why = causes(&error);
    let to_do = if why.contains("certificate") {
        "is certificate-authority-data of the kubeconfig that of this server?"
    } else {
        "does it run? kubectl config get-contexts shows others"
    };
    anyhow!("{url} cannot be reached: {why}\nto do: {to_do}")
}
