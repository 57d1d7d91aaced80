//! An API server with a scheduler and nothing else beside it: nobody makes accounts or ends pods.

use anyhow::Context as _;
use http::Request;
use schedlab::api::Api;
use schedlab_json::{Value, json};

/// Its arguments: nobody makes the accounts and takes away the taints that it would ask for.
pub(crate) const NOBODY_ELSE: &[&str] =
    &["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"];

/// Deletes an object, or all of a collection, at once.
pub(crate) async fn wipe(api: &Api, path: &str) -> anyhow::Result<()> {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    });
    let request = Request::delete(path).header("content-type", "application/json");
    let request = request.body(options.to_string().into_bytes())?;
    api.client().request::<Value>(request).await.map(drop).with_context(|| path.to_owned())
}
