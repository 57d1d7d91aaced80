//! Checks whether a program is up.

use std::path::Path;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use schedlab_clusters::api::Api;
use tokio::net::TcpStream;

use super::Readiness;

/// How long a program may take to answer an HTTP request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether a program with this log is up.
pub(super) async fn is_ready(ready: &Readiness, log: &Path, api: &Api) -> bool {
    match ready {
        Readiness::Log(text) => {
            std::fs::read_to_string(log).is_ok_and(|log| log.contains(text.as_str()))
        }
        Readiness::Object(path) => api.get(path).await.is_ok(),
        Readiness::Http(url) => {
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, status_of(url)).await;
            matches!(answer, Ok(Ok(StatusCode::OK)))
        }
    }
}

/// The status of the answer to a GET of `ADDRESS:PORT/PATH`.
async fn status_of(url: &str) -> anyhow::Result<StatusCode> {
    let (address, path) = url.split_once('/').unwrap_or((url, ""));
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(format!("/{path}"))
        .header(http::header::HOST, address)
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await;
    connection.abort();
    Ok(response?.status())
}
