//! Deletes objects from an API server without kubelets and controllers, where a graceful deletion
//! would never end.

use anyhow::Context as _;
use http::Request;
use schedlab_api::{Value, json};
use schedlab_clusters::api::Api;

/// Deletes an object, or all objects of a collection, without a grace period.
pub(crate) async fn delete_now(api: &Api, path: &str) -> anyhow::Result<()> {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    });
    let request = Request::delete(path).header("content-type", "application/json");
    let request = request.body(options.to_string().into_bytes())?;
    api.client().request::<Value>(request).await.map(drop).with_context(|| path.to_owned())
}
