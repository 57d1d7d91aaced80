//! Finds and deletes objects on an existing cluster.

use std::path::Path;

use anyhow::Context as _;
use futures::StreamExt as _;
use http::Request;
use kube::config::KubeConfigOptions;
use kube::core::WatchEvent;
use schedlab_api::{Value, labels};

use crate::api::{Api, is_not_found, to_anyhow_error};
use crate::kubeconfig;

/// Maximum time for the deletion of one object, in seconds.
const REMOVAL_TIMEOUT_SECONDS: u32 = 90;

/// A client for the cluster of a kubeconfig's context.
pub(super) async fn connect_to_context(path: &Path, context: Option<&str>) -> anyhow::Result<Api> {
    let shown = path.display();
    let kubeconfig = kubeconfig::load_kubeconfig(path)?;
    let options =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.with_context(|| format!("kubeconfig {shown} names no usable cluster"))?;
    Ok(Api::new(
        kube::Client::try_from(config)
            .with_context(|| format!("cannot create a client for kubeconfig {shown}"))?,
    ))
}

/// Fails unless the cluster has the recorded uid: contexts of different clusters can have the same
/// name.
pub(super) async fn check_cluster_uid(api: &Api, uid: Option<&str>) -> anyhow::Result<()> {
    let Some(uid) = uid else { return Ok(()) };
    let now = api.cluster_uid().await.map_err(to_anyhow_error).context("namespace kube-system")?;
    let now = now.as_deref().unwrap_or("none");
    anyhow::ensure!(
        now == uid,
        "the kubeconfig leads to another cluster now: uid of namespace kube-system: got {now}, \
         expected {uid}; restore the kubeconfig of the run"
    );
    Ok(())
}

/// The object, if it exists and has the run's label; else `None`.
pub(super) async fn get_if_owned(
    api: &Api,
    path: &str,
    run: &str,
) -> anyhow::Result<Option<Value>> {
    match api.get(path).await {
        Ok(object) if object["metadata"]["labels"][labels::RUN] == *run => Ok(Some(object)),
        Ok(_) => Ok(None),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(to_anyhow_error(error)).with_context(|| path.to_owned()),
    }
}

/// Deletes an object and waits until it is gone.
pub(super) async fn delete_and_wait(api: &Api, path: &str, object: &Value) -> anyhow::Result<()> {
    match api.delete(path).await {
        Ok(_) => {}
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(to_anyhow_error(error)).with_context(|| path.to_owned()),
    }
    let (collection, name) = path.rsplit_once('/').context("the path of an object has no name")?;
    let since = object["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let watch = format!(
        "{collection}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={since}\
         &timeoutSeconds={REMOVAL_TIMEOUT_SECONDS}"
    );
    let request = Request::get(watch).body(Vec::new())?;
    let mut events = api.client().request_events::<Value>(request).await?.boxed();
    while let Some(event) = events.next().await {
        if matches!(event?, WatchEvent::Deleted(_)) {
            return Ok(());
        }
    }
    anyhow::bail!("{path} is not deleted after {REMOVAL_TIMEOUT_SECONDS} s")
}

/// Deletes an object or a collection. If it does not exist, that is no error.
pub(super) async fn delete_if_present(api: &Api, path: &str) -> anyhow::Result<()> {
    ignore_not_found(path, api.delete(path).await)
}

/// Treats the response "not found" as success.
pub(super) fn ignore_not_found(
    path: &str,
    deleted: Result<Value, kube::Error>,
) -> anyhow::Result<()> {
    match deleted {
        Err(error) if !is_not_found(&error) => Err(to_anyhow_error(error)).context(path.to_owned()),
        Ok(_) | Err(_) => Ok(()),
    }
}
