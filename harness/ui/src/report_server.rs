//! Serves one page that is complete in itself, such as the report of a run.

use axum::Router;
use axum::response::Html;
use axum::routing::get;

use crate::access::{self, Access};

/// The page has its styles and scripts inside, and loads nothing.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; \
    style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct ReportServer {
    access: Access,
    html: String,
}

impl ReportServer {
    /// Listens on this port of the loopback interface; port 0 picks a free one.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn bind(html: String, port: u16) -> anyhow::Result<Self> {
        Ok(Self { access: Access::bind(port).await?, html })
    }

    /// The link to the page, with its token.
    ///
    /// # Errors
    /// The operating system does not tell the address.
    pub fn url(&self) -> anyhow::Result<String> {
        self.access.url()
    }

    /// Serves the page until the future is dropped.
    ///
    /// # Errors
    /// Connections can no longer be accepted.
    pub async fn serve(self) -> anyhow::Result<()> {
        let Access { listener, token } = self.access;
        let html = self.html;
        let routes = Router::new().route("/", get(|| async move { Html(html.clone()) }));
        let router = access::protect(routes, Router::new(), token, CONTENT_SECURITY_POLICY);
        Ok(axum::serve(listener, router).await?)
    }
}
