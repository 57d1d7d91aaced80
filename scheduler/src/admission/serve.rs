//! Serves the webhooks over TLS. Certificate and key are files in a folder (`tls.crt`, `tls.key`),
//! as in a mounted Secret; they are read again for each connection, so that a renewed certificate
//! needs no restart.

use std::{convert::Infallible, io, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use schedlab_api::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::Admission;

/// Maximum size of a review in bytes: twice the request limit of an API server, since a review
/// holds the old and the new object.
const BODY_BYTES_MAX: usize = 7 * 1024 * 1024;

/// Time limit for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serving certificate and key, with the folder that contains them.
#[derive(Debug)]
pub struct Certificate {
    folder: PathBuf,
    pem: PemFiles,
    config: Arc<ServerConfig>,
}

/// Contents of `tls.crt` and `tls.key`.
#[derive(Debug, PartialEq, Eq)]
struct PemFiles {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Certificate {
    /// Reads `tls.crt` and `tls.key` of a folder.
    ///
    /// # Errors
    /// A file is missing or not PEM, or certificate and key do not match.
    pub fn read(folder: PathBuf) -> anyhow::Result<Self> {
        let pem = read_pem_files(&folder)?;
        let config = tls_config(&pem).with_context(|| folder.display().to_string())?;
        Ok(Self { folder, pem, config })
    }

    /// Reloads the files if they changed. If the new pair is invalid, such as half-written, the old
    /// one stays in use.
    fn reload(&mut self) -> Arc<ServerConfig> {
        if let Ok(pem) = read_pem_files(&self.folder)
            && pem != self.pem
            && let Ok(config) = tls_config(&pem)
        {
            (self.pem, self.config) = (pem, config);
        }
        Arc::clone(&self.config)
    }
}

fn read_pem_files(folder: &std::path::Path) -> anyhow::Result<PemFiles> {
    let file = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    Ok(PemFiles { certificate: file("tls.crt")?, key: file("tls.key")? })
}

fn tls_config(PemFiles { certificate, key }: &PemFiles) -> anyhow::Result<Arc<ServerConfig>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.context("tls.crt: got no certificate, expected certificates as PEM")?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .ok()
        .context("tls.key: got no key, expected a private key as PEM")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("tls.crt and tls.key do not match")?;
    Ok(Arc::new(config))
}

/// Serves reviews until the future is dropped.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    mut certificate: Certificate,
    admission: Admission,
) -> io::Result<Infallible> {
    loop {
        let (stream, _) = listener.accept().await?;
        let acceptor = TlsAcceptor::from(certificate.reload());
        tokio::spawn(serve_connection(acceptor, stream, admission.clone()));
    }
}

async fn serve_connection(acceptor: TlsAcceptor, stream: TcpStream, admission: Admission) {
    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else { return };
    let service = service_fn(|request: Request<Incoming>| {
        let admission = admission.clone();
        async move { Ok::<_, Infallible>(respond(&admission, request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIMEOUT * 6);
    // A client whose connection breaks repeats its request.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(admission: &Admission, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.method() != Method::POST {
        return text_response(
            StatusCode::METHOD_NOT_ALLOWED,
            "expected POST of an AdmissionReview",
        );
    }
    let path = request.uri().path().to_owned();
    let Ok(body) = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await else {
        return text_response(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large or incomplete");
    };
    let Ok(review) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return text_response(StatusCode::BAD_REQUEST, "got no JSON, expected an AdmissionReview");
    };
    match admission.review(&path, &review).await {
        Some(answer) => {
            let mut reply = Response::new(Full::from(answer.to_string()));
            let media_type = http::HeaderValue::from_static("application/json");
            reply.headers_mut().insert(CONTENT_TYPE, media_type);
            reply
        }
        None => text_response(StatusCode::NOT_FOUND, "no webhook is served at this path"),
    }
}

fn text_response(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::from(text));
    *reply.status_mut() = status;
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a new pair of certificate and key.
    fn issue(folder: &std::path::Path) {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["a.b.svc".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        std::fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    }

    fn read_error(folder: &std::path::Path) -> String {
        let error = Certificate::read(folder.to_owned()).unwrap_err();
        format!("{error:#}").replace(&folder.display().to_string(), "DIR")
    }

    #[test]
    fn an_invalid_certificate_is_reported_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let missing = read_error(folder);
        assert!(missing.starts_with("cannot read DIR/tls.crt: No such file"), "{missing}");
        issue(folder);
        let certificate = std::fs::read(folder.join("tls.crt")).unwrap();
        std::fs::write(folder.join("tls.crt"), "none").unwrap();
        let none = "DIR: tls.crt: got no certificate, expected certificates as PEM";
        assert_eq!(read_error(folder), none);
        issue(folder);
        std::fs::write(folder.join("tls.crt"), certificate).unwrap();
        let other = read_error(folder);
        assert!(other.starts_with("DIR: tls.crt and tls.key do not match"), "{other}");
    }

    #[test]
    fn a_renewed_certificate_is_loaded_and_a_broken_one_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        issue(folder.path());
        let mut certificate = Certificate::read(folder.path().to_owned()).unwrap();
        let first = certificate.reload();
        assert!(Arc::ptr_eq(&first, &certificate.reload()));
        issue(folder.path());
        let second = certificate.reload();
        assert!(!Arc::ptr_eq(&first, &second));
        std::fs::write(folder.path().join("tls.key"), "half").unwrap();
        assert!(Arc::ptr_eq(&second, &certificate.reload()));
    }
}
