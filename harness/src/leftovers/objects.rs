//! Objects on a cluster that was there before the run.

use std::path::Path;

use anyhow::Context as _;
use futures::StreamExt as _;
use http::Request;
use kube::config::KubeConfigOptions;
use kube::core::WatchEvent;
use schedlab_json::Value;

use super::OBJECT_LABEL;
use crate::api::{Api, is_not_found, refusal};
use crate::kubeconfig;

/// How long an object may take to go.
const SECONDS_MAX: u32 = 90;

/// A client of the cluster that a kubeconfig means.
pub(super) async fn connect(path: &Path, context: Option<&str>) -> anyhow::Result<Api> {
    let shown = path.display();
    let kubeconfig = kubeconfig::read(path)?;
    let options =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.with_context(|| format!("kubeconfig {shown} names no usable cluster"))?;
    Ok(Api::new(kube::Client::try_from(config).context("cannot make a client of it")?))
}

/// The cluster that answers is the one that answered the run: contexts of many clusters have the
/// same names.
pub(super) async fn is_still(api: &Api, uid: Option<&str>) -> anyhow::Result<()> {
    let Some(uid) = uid else { return Ok(()) };
    let now = api.cluster_uid().await.map_err(refusal).context("namespace kube-system")?;
    let now = now.as_deref().unwrap_or("none");
    anyhow::ensure!(
        now == uid,
        "another cluster answers there: its namespace kube-system has uid {now}, that of the run's \
         has {uid}; bring the kubeconfig of that time back"
    );
    Ok(())
}

/// The object, if it is there and the run's own.
pub(super) async fn own(api: &Api, path: &str, run: &str) -> anyhow::Result<Option<Value>> {
    match api.get(path).await {
        Ok(object) if object["metadata"]["labels"][OBJECT_LABEL] == *run => Ok(Some(object)),
        Ok(_) => Ok(None),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(refusal(error)).with_context(|| path.to_owned()),
    }
}

/// Deletes an object and waits until it is gone.
pub(super) async fn remove(api: &Api, path: &str, object: &Value) -> anyhow::Result<()> {
    match api.delete(path).await {
        Ok(_) => {}
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(refusal(error)).with_context(|| path.to_owned()),
    }
    let (collection, name) = path.rsplit_once('/').context("an object's path has its name")?;
    let since = object["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let watch = format!(
        "{collection}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={since}\
         &timeoutSeconds={SECONDS_MAX}"
    );
    let request = Request::get(watch).body(Vec::new())?;
    let mut events = api.client().request_events::<Value>(request).await?.boxed();
    while let Some(event) = events.next().await {
        if matches!(event?, WatchEvent::Deleted(_)) {
            return Ok(());
        }
    }
    anyhow::bail!("{path} was asked to go and is still there after {SECONDS_MAX} s")
}

/// Deletes it, or all of a collection, unless it is gone.
pub(super) async fn end(api: &Api, path: &str) -> anyhow::Result<()> {
    gone(path, api.delete(path).await)
}

/// What is not there any more needs no deletion.
pub(super) fn gone(path: &str, deleted: Result<Value, kube::Error>) -> anyhow::Result<()> {
    match deleted {
        Err(error) if !is_not_found(&error) => Err(refusal(error)).context(path.to_owned()),
        Ok(_) | Err(_) => Ok(()),
    }
}
