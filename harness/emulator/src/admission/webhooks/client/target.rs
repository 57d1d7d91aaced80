//! The endpoint of a webhook, from its `clientConfig`.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use schedlab_api::object::{number, text};

use crate::store::Webhook;

/// The endpoint at which a webhook is called.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The URL, as messages show it.
    pub(super) url: String,
    pub(super) path: String,
    /// The port of the service.
    pub(super) port: i64,
    /// Namespace and name of the service; `None` if the URL is called.
    pub(super) service: Option<(String, String)>,
    /// The trusted certificates (`caBundle`) in PEM; no other certificate is trusted.
    pub(super) ca_bundle: Vec<u8>,
    pub(super) timeout: Duration,
}

impl Target {
    pub(super) fn from_webhook(webhook: &Webhook) -> Self {
        let client = &webhook.client_config;
        let secs = webhook.timeout_secs;
        let ca_bundle = STANDARD.decode(text(client, &["caBundle"])).unwrap_or_default();
        let timeout = Duration::from_secs(secs);
        let of = |field: &str| text(client, &["service", field]).to_owned();
        if client["service"].is_object() {
            let (namespace, name, path) = (of("namespace"), of("name"), of("path"));
            let path = if path.is_empty() { "/".to_owned() } else { path };
            let port = number(client, &["service", "port"]).unwrap_or(443);
            let url = format!("https://{name}.{namespace}.svc:{port}{path}?timeout={secs}s");
            let service = Some((namespace, name));
            return Self { url, path, port, service, ca_bundle, timeout };
        }
        let url = text(client, &["url"]);
        let path = url.splitn(4, '/').nth(3).unwrap_or_default();
        let (url, path) = (format!("{url}?timeout={secs}s"), format!("/{path}"));
        Self { url, path, port: 443, service: None, ca_bundle, timeout }
    }
}
