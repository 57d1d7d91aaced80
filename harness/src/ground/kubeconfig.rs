//! A cluster that is there, by its kubeconfig. It is touched only when its name is said.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::api::refusal;

/// How long a server may take to answer at all.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What has to be allowed: verb, group, resource.
const RIGHTS: [(&str, &str, &str); 7] = [
    ("create", "", "namespaces"),
    ("delete", "", "namespaces"),
    ("create", "", "nodes"),
    ("update", "", "nodes/status"),
    ("update", "", "pods/status"),
    ("create", "", "pods/binding"),
    ("create", "apiextensions.k8s.io", "customresourcedefinitions"),
];

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
        let path = self.file()?;
        let kubeconfig = Kubeconfig::read_from(&path)
            .with_context(|| format!("cannot read kubeconfig {}", path.display()))?;
        let current = kubeconfig.current_context.clone().unwrap_or_default();
        let contexts: Vec<&str> =
            kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
        let Some(confirmed) = &self.confirmed else {
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
        Ok((config, path, confirmed.clone()))
    }

    fn file(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.path {
            return Ok(path.clone());
        }
        let named = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
        if let Some(named) = named {
            // Of several the first has the current context.
            return std::env::split_paths(&named).next().context("KUBECONFIG names no file");
        }
        let home = std::env::var_os("HOME")
            .context("no kubeconfig: name one with --kubeconfig, or set KUBECONFIG")?;
        Ok(PathBuf::from(home).join(".kube/config"))
    }
}

/// Asks whether the cluster is there and whether we may do what we have to. Answers its version.
pub(super) async fn examine(config: &kube::Config) -> anyhow::Result<String> {
    let api = super::api(config)?;
    let url = &config.cluster_url;
    let version = tokio::time::timeout(ANSWER_WITHIN, api.get("/version")).await;
    let version = version
        .with_context(|| format!("{url} does not answer within {ANSWER_WITHIN:?}"))?
        .map_err(refusal)
        .with_context(|| format!("{url} cannot be reached"))?;
    let mut missing = Vec::new();
    for (verb, group, resource) in RIGHTS {
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "subresource": part,
            }},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = api.post(path, &review).await.map_err(refusal);
        let answer = answer.with_context(|| format!("{url} refuses to tell our rights"))?;
        if answer["status"]["allowed"] != Value::Bool(true) {
            missing.push(format!("{verb} {resource}"));
        }
    }
    anyhow::ensure!(
        missing.is_empty(),
        "{url} does not let us {}: schedlab needs the rights of an administrator there; nothing \
         was changed",
        missing.join(", ")
    );
    Ok(version["gitVersion"].as_str().unwrap_or("unknown").to_owned())
}
