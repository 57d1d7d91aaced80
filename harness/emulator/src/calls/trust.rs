//! Whom a caller of webhooks trusts: who is in a bundle of certificates, and whoever one of those
//! has signed. As in Go, a certificate that is in the bundle itself is good for its server, whether or
//! not it may sign others; `openssl req -x509` makes such ones.

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

/// Who trusts a bundle of certificates, and nobody else.
pub(super) fn trusting(authority: &[u8]) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let trust = Trust::in_bundle(authority)?;
    let Some(trust) = trust.map(Arc::new) else {
        return Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    };
    Ok(config.dangerous().with_custom_certificate_verifier(trust).with_no_client_auth())
}

#[derive(Debug)]
struct Trust {
    bundle: Vec<CertificateDer<'static>>,
    signed: Arc<WebPkiServerVerifier>,
}

impl Trust {
    /// `None`: nobody is in the bundle.
    fn in_bundle(authority: &[u8]) -> Result<Option<Self>, String> {
        let bundle: Vec<_> = CertificateDer::pem_slice_iter(authority).flatten().collect();
        if bundle.is_empty() {
            return Ok(None);
        }
        let mut roots = RootCertStore::empty();
        for certificate in &bundle {
            roots.add(certificate.clone()).map_err(|error| error.to_string())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let signed = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build();
        Ok(Some(Self { bundle, signed: signed.map_err(|error| error.to_string())? }))
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.bundle.contains(server) {
            return self.signed.verify_server_cert(server, others, name, stapled, now);
        }
        serves(server, now)?;
        verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, server, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, server, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

/// It is in its time, and for servers if it says what it is for.
fn serves(certificate: &[u8], now: UnixTime) -> Result<(), CertificateError> {
    let unreadable = CertificateError::BadEncoding;
    let (_, read) = X509Certificate::from_der(certificate).map_err(|_| unreadable.clone())?;
    let now = i64::try_from(now.as_secs()).map_err(|_| unreadable.clone())?;
    let now = ASN1Time::from_timestamp(now).map_err(|_| unreadable.clone())?;
    if now < read.validity.not_before {
        return Err(CertificateError::NotValidYet);
    }
    if now > read.validity.not_after {
        return Err(CertificateError::Expired);
    }
    let uses = read.extended_key_usage().map_err(|_| unreadable)?;
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

    /// A certificate of 2026 for `localhost` that may sign others, signed by itself.
    fn certificate(changed: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        changed(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    /// What a client says of a server in the middle of a year.
    fn judged(server: &Certificate, trusted: &Certificate, (name, year): (&str, u64)) -> String {
        let trust = Trust::in_bundle(trusted.pem().as_bytes()).unwrap().unwrap();
        let name = ServerName::try_from(name).unwrap();
        let years = u128::from(year - 1970) * 365 + 180;
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(
            u64::try_from(years).unwrap() * 86_400,
        ));
        match trust.verify_server_cert(server.der(), &[], &name, &[], now) {
            Ok(_) => "fine".to_owned(),
            Err(Error::InvalidCertificate(wrong)) => {
                format!("{wrong:?}").chars().take(20).collect()
            }
            Err(other) => other.to_string(),
        }
    }

    #[test]
    fn a_certificate_in_the_bundle_is_good_for_its_server() {
        let own = certificate(|_| {});
        assert_eq!(judged(&own, &own, ("localhost", 2026)), "fine");
        assert_eq!(judged(&own, &own, ("localhost", 2025)), "NotValidYet");
        assert_eq!(judged(&own, &own, ("localhost", 2027)), "Expired");
        assert_eq!(judged(&own, &own, ("example.com", 2026)), "NotValidForNameConte");
        assert_ne!(judged(&certificate(|_| {}), &own, ("localhost", 2026)), "fine");
        let of_clients = certificate(|params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        });
        assert_eq!(judged(&of_clients, &of_clients, ("localhost", 2026)), "InvalidPurpose");
    }
}
