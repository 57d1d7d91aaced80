//! Reviews over TLS. The certificate lies in a folder, as a Secret is mounted (`tls.crt`,
//! `tls.key`), and is read anew with each connection: whoever renews it need not restart us.

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
use schedlab_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::Admission;

/// An API server's limit for the body of a request, twice: the old object and the new one.
const BODY_BYTES_MAX: usize = 7 * 1024 * 1024;

/// Who has not said hello by then is gone.
const HELLO: Duration = Duration::from_secs(10);

/// Who we are, as a folder says it.
#[derive(Debug)]
pub struct Certificate {
    folder: PathBuf,
    /// Certificate and key, as read.
    read: (Vec<u8>, Vec<u8>),
    config: Arc<ServerConfig>,
}

impl Certificate {
    /// Reads `tls.crt` and `tls.key` of a folder.
    ///
    /// # Errors
    /// They are not there, are no PEM, or do not belong together.
    pub fn read(folder: PathBuf) -> anyhow::Result<Self> {
        let read = files(&folder)?;
        let config = config(&read).with_context(|| folder.display().to_string())?;
        Ok(Self { folder, read, config })
    }

    /// As the files are now; what cannot be used (a half-written pair) leaves the old one.
    fn renewed(&mut self) -> Arc<ServerConfig> {
        if let Ok(read) = files(&self.folder)
            && read != self.read
            && let Ok(config) = config(&read)
        {
            (self.read, self.config) = (read, config);
        }
        Arc::clone(&self.config)
    }
}

fn files(folder: &std::path::Path) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let file = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    Ok((file("tls.crt")?, file("tls.key")?))
}

fn config((certificate, key): &(Vec<u8>, Vec<u8>)) -> anyhow::Result<Arc<ServerConfig>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.context("tls.crt: found no certificate, allowed: certificates as PEM")?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .ok()
        .context("tls.key: found no key, allowed: a private key as PEM")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("tls.crt and tls.key do not belong together")?;
    Ok(Arc::new(config))
}

/// Answers reviews until it is dropped.
///
/// # Errors
/// The listener is broken.
pub async fn serve(
    listener: TcpListener,
    mut certificate: Certificate,
    admission: Admission,
) -> io::Result<Infallible> {
    loop {
        let (stream, _) = listener.accept().await?;
        let acceptor = TlsAcceptor::from(certificate.renewed());
        tokio::spawn(connection(acceptor, stream, admission.clone()));
    }
}

async fn connection(acceptor: TlsAcceptor, stream: TcpStream, admission: Admission) {
    let Ok(Ok(stream)) = timeout(HELLO, acceptor.accept(stream)).await else { return };
    let service = service_fn(|request: Request<Incoming>| {
        let admission = admission.clone();
        async move { Ok::<_, Infallible>(reply(&admission, request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HELLO * 6);
    // Whoever goes away in the middle asks again.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn reply(admission: &Admission, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.method() != Method::POST {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "allowed: POST of an AdmissionReview");
    }
    let path = request.uri().path().to_owned();
    let Ok(body) = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await else {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large, or broke off");
    };
    let Ok(review) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return plain(StatusCode::BAD_REQUEST, "found no JSON, allowed: an AdmissionReview");
    };
    match admission.answer(&path, &review).await {
        Some(answer) => {
            let mut reply = Response::new(Full::from(answer.to_string()));
            let media_type = http::HeaderValue::from_static("application/json");
            reply.headers_mut().insert(CONTENT_TYPE, media_type);
            reply
        }
        None => plain(StatusCode::NOT_FOUND, "nothing is judged at this path"),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
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

    fn refused(folder: &std::path::Path) -> String {
        let error = Certificate::read(folder.to_owned()).unwrap_err();
        format!("{error:#}").replace(&folder.display().to_string(), "DIR")
    }

    #[test]
    fn what_is_no_certificate_is_told_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let missing = refused(folder);
        assert!(missing.starts_with("cannot read DIR/tls.crt: No such file"), "{missing}");
        issue(folder);
        let certificate = std::fs::read(folder.join("tls.crt")).unwrap();
        std::fs::write(folder.join("tls.crt"), "none").unwrap();
        let none = "DIR: tls.crt: found no certificate, allowed: certificates as PEM";
        assert_eq!(refused(folder), none);
        issue(folder);
        std::fs::write(folder.join("tls.crt"), certificate).unwrap();
        let other = refused(folder);
        assert!(other.starts_with("DIR: tls.crt and tls.key do not belong together"), "{other}");
    }

    #[test]
    fn a_renewed_certificate_is_taken_up_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        issue(folder.path());
        let mut certificate = Certificate::read(folder.path().to_owned()).unwrap();
        let first = certificate.renewed();
        assert!(Arc::ptr_eq(&first, &certificate.renewed()));
        issue(folder.path());
        let second = certificate.renewed();
        assert!(!Arc::ptr_eq(&first, &second));
        std::fs::write(folder.path().join("tls.key"), "half").unwrap();
        assert!(Arc::ptr_eq(&second, &certificate.renewed()));
    }
}
