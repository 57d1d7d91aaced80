//! The version of an API server. A proxy on the way may respond in its place.

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::Status;
use schedlab_api::Value;

use super::{Api, FIELD_MANAGER};

/// How many characters of an unexpected response are shown in the error.
const BODY_CHARS_MAX: usize = 80;

/// Why the version of an API server could not be determined.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// The request for the version failed.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// The response is not from a Kubernetes API server.
    #[error("the response is not from a Kubernetes API server: status {status}, body {body:?}")]
    NotKubernetes {
        /// The status code of the response.
        status: StatusCode,
        /// The first characters of the body.
        body: String,
    },
}

impl Api {
    /// The version of the API server, such as `v1.35.4`.
    ///
    /// # Errors
    /// The request fails, or the response does not come from a Kubernetes API server.
    pub async fn server_version(&self) -> Result<String, VersionError> {
        let request =
            Request::get("/version").header("user-agent", FIELD_MANAGER).body(Body::empty());
        let request = request.map_err(kube::Error::HttpError)?;
        let response = self.client.send(request).await?;
        let status = response.status();
        let text = response.into_body().collect().await?.to_bytes();
        let body: Value = serde_json::from_slice(&text).unwrap_or_default();
        match body["gitVersion"].as_str() {
            Some(version) if status.is_success() => return Ok(version.to_owned()),
            Some(_) | None => {}
        }
        if body["kind"] == "Status"
            && let Ok(status) = serde_json::from_slice::<Status>(&text)
        {
            return Err(kube::Error::Api(Box::new(status)).into());
        }
        Err(VersionError::NotKubernetes {
            status,
            body: first_words_of_body(&String::from_utf8_lossy(&text)),
        })
    }
}

fn first_words_of_body(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(BODY_CHARS_MAX) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;

    use super::*;
    use crate::api::error_chain_text;

    async fn version_or_error(status: u16, body: &'static str) -> Result<String, String> {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let body = Body::from(body.as_bytes().to_vec());
            Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
        });
        let api = Api::new(kube::Client::new(service, "default"));
        api.server_version().await.map_err(|error| match error {
            VersionError::Request(error) => error_chain_text(&error),
            VersionError::NotKubernetes { .. } => error.to_string(),
        })
    }

    #[tokio::test]
    async fn a_response_from_another_server_is_shown_with_its_status() {
        let page = "<!DOCTYPE html>\n<html><head>\n  <title>Sign in</title></head></html>";
        let not_kubernetes = |status: &str, body: &str| {
            let what = "the response is not from a Kubernetes API server: status";
            Err(format!("{what} {status}, body \"{body}\""))
        };
        let line = "<!DOCTYPE html> <html><head> <title>Sign in</title></head></html>";
        assert_eq!(version_or_error(200, page).await, not_kubernetes("200 OK", line));
        assert_eq!(version_or_error(403, page).await, not_kubernetes("403 Forbidden", line));
        assert_eq!(version_or_error(502, "").await, not_kubernetes("502 Bad Gateway", ""));
        assert_eq!(version_or_error(200, "{}").await, not_kubernetes("200 OK", "{}"));
        let long = "x".repeat(BODY_CHARS_MAX) + "…";
        assert_eq!(first_words_of_body(&"x".repeat(BODY_CHARS_MAX + 1)), long);
        assert_eq!(
            version_or_error(200, r#"{"gitVersion": "v1.35.4"}"#).await,
            Ok("v1.35.4".to_owned())
        );
        let status =
            r#"{"kind": "Status", "message": "no entry", "reason": "Forbidden", "code": 403}"#;
        assert_eq!(version_or_error(403, status).await, Err("no entry".to_owned()));
    }
}
