//! The kubeconfig of a server.

use std::net::SocketAddr;

use anyhow::Context;
use k8s_openapi::ByteString;
use schedlab_api::json;

const NAME: &str = "schedlab";

/// Renders a kubeconfig with one cluster, user and context as YAML.
pub(super) fn render(address: SocketAddr, authority: &str, token: &str) -> anyhow::Result<String> {
    let mut reachable = address;
    if address.ip().is_unspecified() {
        reachable.set_ip([127, 0, 0, 1].into());
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {
            "server": format!("https://{reachable}"),
            "certificate-authority-data": ByteString(authority.as_bytes().to_vec()),
        }}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {
            "cluster": NAME, "user": NAME, "namespace": "default",
        }}],
        "current-context": NAME,
    });
    serde_yaml::to_string(&config).context("cannot serialize the kubeconfig")
}
