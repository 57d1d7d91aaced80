//! Verification of webhook certificates against `caBundle`. As in Go, a certificate in the bundle
//! is trusted for its own server even if it is no CA certificate, as `openssl req -x509` creates
//! them.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

/// A TLS client configuration that trusts only the certificates in `ca_bundle` (PEM).
pub(super) fn client_config(ca_bundle: &[u8]) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let trust = CaBundleVerifier::from_pem(ca_bundle)?;
    let Some(trust) = trust.map(Arc::new) else {
        return Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    };
    Ok(config.dangerous().with_custom_certificate_verifier(trust).with_no_client_auth())
}

#[derive(Debug)]
struct CaBundleVerifier {
    bundle: Vec<CertificateDer<'static>>,
    signature_verifier: Arc<WebPkiServerVerifier>,
}

impl CaBundleVerifier {
    /// Builds the verifier; `None` if the bundle holds no certificate.
    fn from_pem(ca_bundle: &[u8]) -> Result<Option<Self>, String> {
        let bundle: Vec<_> = CertificateDer::pem_slice_iter(ca_bundle).flatten().collect();
        if bundle.is_empty() {
            return Ok(None);
        }
        let mut roots = RootCertStore::empty();
        for certificate in &bundle {
            roots.add(certificate.clone()).map_err(|error| error.to_string())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let signed = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build();
        Ok(Some(Self { bundle, signature_verifier: signed.map_err(|error| error.to_string())? }))
    }
}

impl ServerCertVerifier for CaBundleVerifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.bundle.contains(server) {
            return self.signature_verifier.verify_server_cert(server, others, name, stapled, now);
        }
        check_server_certificate(server, now)?;
        verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature_verifier.verify_tls12_signature(message, server, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature_verifier.verify_tls13_signature(message, server, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signature_verifier.supported_verify_schemes()
    }
}

/// Checks the validity period and, if present, the extended key usage of a server certificate.
fn check_server_certificate(certificate: &[u8], now: UnixTime) -> Result<(), CertificateError> {
    let bad_encoding = CertificateError::BadEncoding;
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| bad_encoding.clone())?;
    let now = i64::try_from(now.as_secs()).map_err(|_| bad_encoding.clone())?;
    let now = ASN1Time::from_timestamp(now).map_err(|_| bad_encoding.clone())?;
    if now < parsed.validity.not_before {
        return Err(CertificateError::NotValidYet);
    }
    if now > parsed.validity.not_after {
        return Err(CertificateError::Expired);
    }
    let uses = parsed.extended_key_usage().map_err(|_| bad_encoding)?;
    match uses {
        Some(uses) if !uses.value.server_auth && !uses.value.any => {
            Err(CertificateError::InvalidPurpose)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, Certificate, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair,
        date_time_ymd,
    };

    use super::*;

    /// A self-signed CA certificate for `localhost`, valid in 2026.
    fn certificate(changed: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        changed(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    /// The verdict of a client in the middle of `year`.
    fn verification(server: &Certificate, trusted: &Certificate, name: &str, year: u64) -> String {
        let trust = CaBundleVerifier::from_pem(trusted.pem().as_bytes()).unwrap().unwrap();
        let name = ServerName::try_from(name).unwrap();
        let years = u128::from(year - 1970) * 365 + 180;
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(
            u64::try_from(years).unwrap() * 86_400,
        ));
        match trust.verify_server_cert(server.der(), &[], &name, &[], now) {
            Ok(_) => "fine".to_owned(),
            Err(Error::InvalidCertificate(cause)) => {
                format!("{cause:?}").chars().take(20).collect()
            }
            Err(other) => other.to_string(),
        }
    }

    #[test]
    fn a_certificate_in_the_bundle_is_trusted_for_its_server() {
        let own = certificate(|_| {});
        assert_eq!(verification(&own, &own, "localhost", 2026), "fine");
        assert_eq!(verification(&own, &own, "localhost", 2025), "NotValidYet");
        assert_eq!(verification(&own, &own, "localhost", 2027), "Expired");
        assert_eq!(verification(&own, &own, "example.com", 2026), "NotValidForNameConte");
        assert_ne!(verification(&certificate(|_| {}), &own, "localhost", 2026), "fine");
        let of_clients = certificate(|params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        });
        assert_eq!(verification(&of_clients, &of_clients, "localhost", 2026), "InvalidPurpose");
    }
}
