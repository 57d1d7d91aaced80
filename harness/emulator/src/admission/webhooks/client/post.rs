//! POST of an `AdmissionReview` over TLS. It runs on a thread of its own and in real time, while a
//! virtual clock stands still. Errors have the texts of Go's HTTP client.

use std::io;
use std::sync::Arc;

use ::http::header::{CONTENT_TYPE, HOST};
use ::http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::target::Target;
use super::trust::client_config;
use crate::api_types::error::go_json;
use schedlab_api::{Value, object::go_type};

/// Sends an `AdmissionReview` to a webhook and parses the response.
pub(super) fn post_review(target: &Target, review: &Value) -> Result<Value, String> {
    let failed = |why: String| format!("Post {:?}: {why}", target.url);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let (code, body) = runtime.block_on(async {
        let exchange = send_request(target, review.to_string());
        let result = tokio::time::timeout(target.timeout, exchange).await;
        result.unwrap_or_else(|_| Err("context deadline exceeded".to_owned())).map_err(failed)
    })?;
    if !(200..=206).contains(&code) {
        return Err(status_error(code, String::from_utf8_lossy(&body).trim()));
    }
    let text = String::from_utf8_lossy(&body);
    let parsed = serde_json::from_str(&text).or_else(|_| serde_yaml::from_str(&text));
    let parse_error = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    match parsed {
        Ok(review @ Value::Object(_)) => Ok(review),
        Ok(other) => Err(parse_error(go_json::not_an_object_error(go_type(&other)))),
        Err(error) => Err(parse_error(error.to_string())),
    }
}

/// Sends a review over HTTPS; returns status code and body of the response.
async fn send_request(target: &Target, review: String) -> Result<(u16, Bytes), String> {
    let uri: Uri = target.url.parse().map_err(|error| format!("{error}"))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(443);
    let stream = TcpStream::connect((host.as_str(), port)).await;
    let stream = stream.map_err(|error| dial_error(&host, port, &error))?;
    let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(client_config(&target.ca_bundle)?));
    let stream = connector.connect(name, stream).await;
    let stream = stream.map_err(|error| tls_error(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // The connection task ends with this runtime.
    tokio::spawn(connection);
    let target_path = uri.path_and_query().map_or("/", ::http::uri::PathAndQuery::as_str);
    let authority = uri.authority().map_or("", ::http::uri::Authority::as_str);
    let request = Request::post(target_path)
        .header(HOST, authority)
        .header(CONTENT_TYPE, "application/json")
        .header("accept", "application/json, */*")
        .body(Full::new(Bytes::from(review)))
        .map_err(|error| error.to_string())?;
    let reply = sender.send_request(request).await.map_err(|_| "EOF".to_owned())?;
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.map_err(|_| "unexpected EOF".to_owned())?;
    Ok((code, body.to_bytes()))
}

fn dial_error(host: &str, port: u16, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return format!("dial tcp {host}:{port}: connect: connection refused");
    }
    if error.raw_os_error().is_none() {
        return format!("dial tcp: lookup {host}: no such host");
    }
    format!("dial tcp {host}:{port}: {error}")
}

/// The error of a TLS handshake as Go reports it.
fn tls_error(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(cause)) = inner else {
        return if error.kind() == io::ErrorKind::UnexpectedEof {
            "EOF".to_owned()
        } else {
            error.to_string()
        };
    };
    // rustls does not look for the issuer of a CA certificate unless that certificate is trusted
    // itself.
    let is_unknown_authority =
        matches!(cause, CertificateError::UnknownIssuer | CertificateError::Other(_));
    let why = if is_unknown_authority {
        "certificate signed by unknown authority".to_owned()
    } else {
        cause.to_string()
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

/// The message that client-go derives from a status code without a `Status` body.
fn status_error(code: u16, body: &str) -> String {
    let message = match code {
        401 => "the server has asked for the client to provide credentials",
        403 => body,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request"
        }
        500.. => {
            return format!(
                "an error on the server ({body:?}) has prevented the request from succeeding"
            );
        }
        _ => "the server rejected our request for an unknown reason",
    };
    message.to_owned()
}
