//! What a server says it is. A proxy on the way may answer in its place.

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::Status;
use schedlab_json::Value;

use super::{Api, MANAGER};

/// How many characters of what no API server says are shown.
const SHOWN_MAX: usize = 80;

/// Why a server does not tell its version.
#[derive(Debug, thiserror::Error)]
pub enum NoVersion {
    /// It cannot be reached, or refuses to tell it.
    #[error(transparent)]
    Untold(#[from] kube::Error),
    /// It is something else.
    #[error("what answers there is no Kubernetes API server: status {status}, it says {said:?}")]
    Stranger {
        /// Of its answer.
        status: StatusCode,
        /// First words of its answer.
        said: String,
    },
}

impl Api {
    /// The server's version.
    pub async fn version(&self) -> Result<String, NoVersion> {
        let request = Request::get("/version").header("user-agent", MANAGER).body(Body::empty());
        let request = request.map_err(kube::Error::HttpError)?;
        let answer = self.client.send(request).await?;
        let status = answer.status();
        let text = answer.into_body().collect().await?.to_bytes();
        let told: Value = serde_json::from_slice(&text).unwrap_or_default();
        match told["gitVersion"].as_str() {
            Some(version) if status.is_success() => return Ok(version.to_owned()),
            Some(_) | None => {}
        }
        if told["kind"] == "Status"
            && let Ok(refusal) = serde_json::from_slice::<Status>(&text)
        {
            return Err(kube::Error::Api(Box::new(refusal)).into());
        }
        Err(NoVersion::Stranger { status, said: first_words(&String::from_utf8_lossy(&text)) })
    }
}

fn first_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;

    use super::*;
    use crate::api::causes;

    async fn told(status: u16, body: &'static str) -> Result<String, String> {
        let answer = tower::service_fn(move |_: Request<Body>| async move {
            let body = Body::from(body.as_bytes().to_vec());
            Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
        });
        let api = Api::new(kube::Client::new(answer, "default"));
        api.version().await.map_err(|error| match error {
            NoVersion::Untold(error) => causes(&error),
            NoVersion::Stranger { .. } => error.to_string(),
        })
    }

    #[tokio::test]
    async fn who_is_no_api_server_is_told_by_status_and_first_words() {
        let page = "<!DOCTYPE html>\n<html><head>\n  <title>Sign in</title></head></html>";
        let stranger = |status: &str, said: &str| {
            let what = "what answers there is no Kubernetes API server: status";
            Err(format!("{what} {status}, it says \"{said}\""))
        };
        let line = "<!DOCTYPE html> <html><head> <title>Sign in</title></head></html>";
        assert_eq!(told(200, page).await, stranger("200 OK", line));
        assert_eq!(told(403, page).await, stranger("403 Forbidden", line));
        assert_eq!(told(502, "").await, stranger("502 Bad Gateway", ""));
        assert_eq!(told(200, "{}").await, stranger("200 OK", "{}"));
        let long = "x".repeat(SHOWN_MAX) + "…";
        assert_eq!(first_words(&"x".repeat(SHOWN_MAX + 1)), long);
        assert_eq!(told(200, r#"{"gitVersion": "v1.35.4"}"#).await, Ok("v1.35.4".to_owned()));
        let refusal =
            r#"{"kind": "Status", "message": "no entry", "reason": "Forbidden", "code": 403}"#;
        assert_eq!(told(403, refusal).await, Err("no entry".to_owned()));
    }
}
