//! The kubeconfig of a server.

use std::net::SocketAddr;

use anyhow::Context;
use k8s_openapi::ByteString;
use schedlab_api::json;

const ENTRY_NAME: &str = "schedlab";

/// Renders a kubeconfig with one cluster, user and context as YAML.
pub(super) fn render_kubeconfig(
    address: SocketAddr,
    authority: &str,
    token: &str,
) -> anyhow::Result<String> {
    let mut reachable = address;
    if address.ip().is_unspecified() {
        reachable.set_ip([127, 0, 0, 1].into());
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": ENTRY_NAME, "cluster": {
            "server": format!("https://{reachable}"),
            "certificate-authority-data": ByteString(authority.as_bytes().to_vec()),
        }}],
        "users": [{"name": ENTRY_NAME, "user": {"token": token}}],
        "contexts": [{"name": ENTRY_NAME, "context": {
            "cluster": ENTRY_NAME, "user": ENTRY_NAME, "namespace": "default",
        }}],
        "current-context": ENTRY_NAME,
    });
    serde_yaml::to_string(&config).context("cannot serialize the kubeconfig")
}
