//! Keys and tokens of a control plane.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The credentials of the administrator of a control plane.
#[derive(Clone, Debug)]
pub(super) struct Credentials {
    /// The certificate of the authority, as PEM.
    pub(super) authority: String,
    /// The bearer token of the administrator.
    pub(super) token: String,
}

impl Credentials {
    /// Creates credentials and writes the files of the API server and the controller manager:
    /// `authority.crt`, `serving.crt`, `serving.key`, `accounts.key`, `accounts.pub`, `tokens.csv`.
    pub(super) fn write(folder: &Path) -> anyhow::Result<Self> {
        let authority_key = KeyPair::generate().context("cannot generate a key")?;
        let mut authority = CertificateParams::new(Vec::new())
            .context("cannot create the authority's certificate parameters")?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "schedlab-control-plane");
        authority.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let pem = authority.self_signed(&authority_key).context("cannot sign the authority")?.pem();
        let issuer = Issuer::new(authority, authority_key);

        let key = KeyPair::generate().context("cannot generate a key")?;
        let names = ["localhost", "127.0.0.1", "kubernetes.default.svc"].map(str::to_owned);
        let mut server = CertificateParams::new(names)
            .context("cannot create the server's certificate parameters")?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        let certificate = server.signed_by(&key, &issuer).context("cannot sign the server")?;

        let accounts = KeyPair::generate().context("cannot generate a key")?;
        let token = random_token()?;
        let write = |name: &str, text: &str| write_private(&folder.join(name), text);
        write("authority.crt", &pem)?;
        write("serving.crt", &certificate.pem())?;
        write("serving.key", &key.serialize_pem())?;
        write("accounts.key", &accounts.serialize_pem())?;
        write("accounts.pub", &accounts.public_key_pem())?;
        write("tokens.csv", &format!("{token},schedlab,schedlab,\"system:masters\"\n"))?;
        Ok(Self { authority: pem, token })
    }
}

/// A random token of 128 bits.
fn random_token() -> anyhow::Result<String> {
    let half = || getrandom::u64().context("cannot generate random numbers");
    Ok(format!("{:016x}{:016x}", half()?, half()?))
}

/// Writes a file that only its owner can read.
pub(super) fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}
