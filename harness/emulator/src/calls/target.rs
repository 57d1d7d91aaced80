//! Where a webhook is called: its `clientConfig`.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::object::{number, text};
use crate::store::Webhook;

/// One place to call.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// As messages show it.
    pub(super) url: String,
    pub(super) path: String,
    /// Of the service.
    pub(super) port: i64,
    /// Namespace and name of a service; otherwise the URL is called.
    pub(super) service: Option<(String, String)>,
    /// Who signs its certificate, as PEM; nobody is trusted beside.
    pub(super) authority: Vec<u8>,
    pub(super) patience: Duration,
}

impl Target {
    pub(super) fn of(webhook: &Webhook) -> Self {
        let client = &webhook.client;
        let secs = webhook.timeout_secs;
        let authority = STANDARD.decode(text(client, &["caBundle"])).unwrap_or_default();
        let patience = Duration::from_secs(secs);
        let of = |field: &str| text(client, &["service", field]).to_owned();
        if client["service"].is_object() {
            let (namespace, name, path) = (of("namespace"), of("name"), of("path"));
            let path = if path.is_empty() { "/".to_owned() } else { path };
            let port = number(client, &["service", "port"]).unwrap_or(443);
            let url = format!("https://{name}.{namespace}.svc:{port}{path}?timeout={secs}s");
            let service = Some((namespace, name));
            return Self { url, path, port, service, authority, patience };
        }
        let url = text(client, &["url"]);
        let path = url.splitn(4, '/').nth(3).unwrap_or_default();
        let (url, path) = (format!("{url}?timeout={secs}s"), format!("/{path}"));
        Self { url, path, port: 443, service: None, authority, patience }
    }
}
