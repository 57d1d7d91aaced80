//! The certificate authority, server certificate and token of a server.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// The TLS identity of a server.
pub(super) struct Identity {
    /// The certificate of the authority, as PEM.
    pub(super) authority: String,
    /// The acceptor of TLS connections.
    pub(super) acceptor: TlsAcceptor,
}

impl Identity {
    /// Creates a certificate authority and a server certificate for an address and `localhost`.
    pub(super) fn new(address: IpAddr) -> anyhow::Result<Self> {
        let authority_key = KeyPair::generate().context("cannot generate a key")?;
        let mut authority = CertificateParams::new(Vec::new())
            .context("cannot create the authority's certificate parameters")?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "schedlab-ca");
        authority.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_pem =
            authority.self_signed(&authority_key).context("cannot sign the authority")?.pem();
        let issuer = Issuer::new(authority, authority_key);

        let key = KeyPair::generate().context("cannot generate a key")?;
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        if !address.is_loopback() && !address.is_unspecified() {
            names.push(address.to_string());
        }
        let mut server = CertificateParams::new(names)
            .context("cannot create the server's certificate parameters")?;
        server.distinguished_name.push(DnType::CommonName, "schedlab");
        server.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        let certificate = server.signed_by(&key, &issuer).context("cannot sign the server")?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { authority: authority_pem, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}

/// A certificate for `localhost` and the addresses of the loopback interface, which no authority has
/// signed.
#[derive(Clone, Debug)]
pub struct SelfSignedCertificate {
    /// The certificate, as PEM.
    pub certificate: String,
    /// The private key, as PEM.
    pub key: String,
}

impl SelfSignedCertificate {
    /// Creates a certificate.
    ///
    /// # Errors
    /// No key can be generated.
    pub fn generate() -> anyhow::Result<Self> {
        let key = KeyPair::generate().context("cannot generate a key")?;
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        let parameters =
            CertificateParams::new(names).context("cannot create the certificate's parameters")?;
        let certificate = parameters.self_signed(&key).context("cannot sign the certificate")?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// A random token of 128 bits.
///
/// # Errors
///
/// The operating system has no random numbers.
pub fn random_token() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    let provider = rustls::crypto::ring::default_provider();
    provider
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| anyhow!("cannot generate random numbers"))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
