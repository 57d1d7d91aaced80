//! A real control plane for one test or benchmark: etcd and kube-apiserver on loopback, and
//! whatever else is started beside them. Everything ends when it is dropped, or when we do.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rcgen::KeyPair;
use schedlab::api::Api;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

const TOKEN: &str = "one-control-plane-on-loopback";
const READY_WITHIN: Duration = Duration::from_mins(2);
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Starts its arguments, and ends them when standard input does: also when we are killed.
const KEEPER: &str = r#""$@" & pid=$!; read -r _; kill -9 "$pid""#;

/// The folder of the programs, or why there is none.
pub(crate) fn assets() -> Result<PathBuf, String> {
    let named = std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty());
    let folder = named.map_or_else(built_folder, PathBuf::from);
    let programs = ["etcd", "kube-apiserver", "kube-scheduler"];
    let missing: Vec<&str> =
        programs.into_iter().filter(|name| !folder.join(name).is_file()).collect();
    if missing.is_empty() {
        return Ok(folder);
    }
    let missing = missing.join(", ");
    Err(format!(
        "{} has no {missing}: run `make control-plane`, or name a folder in KUBEBUILDER_ASSETS",
        folder.display()
    ))
}

/// Nothing can be tested here: says so, or fails where that is not allowed.
#[expect(clippy::print_stdout, reason = "a test says what it leaves out")]
pub(crate) fn skip(why: &str) {
    let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|kind| kind.trim() == "control-plane"), "{why}");
    println!("skipped: {why}");
}

/// Where `make control-plane` puts them.
fn built_folder() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    cache.unwrap_or_else(home).join("schedlab/control-plane/v1.35.4")
}

/// A process that ends with us.
pub(crate) struct Kept {
    keeper: Child,
    life: Option<ChildStdin>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.life = None;
        let _ = self.keeper.wait();
    }
}

/// etcd and kube-apiserver.
pub(crate) struct Plane {
    // In the order in which they end.
    api_server: Kept,
    _etcd: Kept,
    folder: TempDir,
    kubeconfig: PathBuf,
}

impl Plane {
    /// Starts both, and waits until they are ready.
    pub(crate) async fn boot(assets: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let [store, peers, port] = free_ports()?;
        let kubeconfig = write_identity(folder.path(), port)?;
        let etcd = keep(
            &assets.join("etcd"),
            &etcd_arguments(folder.path(), store, peers),
            folder.path(),
        )?;
        let api_arguments = api_arguments(folder.path(), store, port);
        let api_server = keep(&assets.join("kube-apiserver"), &api_arguments, folder.path())?;
        let mut plane = Self { api_server, _etcd: etcd, folder, kubeconfig };
        plane.ready().await?;
        Ok(plane)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let api = Api::new(self.client().await?);
        let end = Instant::now() + READY_WITHIN;
        // Priority classes come last of what is needed.
        let last = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
        while api.get("/api/v1/namespaces/default").await.is_err() || api.get(last).await.is_err() {
            if self.api_server.keeper.try_wait()?.is_some() || Instant::now() > end {
                bail!("kube-apiserver is not ready: {}", self.log("kube-apiserver"));
            }
            sleep(ASK_AGAIN).await;
        }
        Ok(())
    }

    /// A client that may do everything.
    pub(crate) async fn client(&self) -> anyhow::Result<kube::Client> {
        client(&self.kubeconfig).await
    }

    /// Where its files and logs are; gone when it is.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How programs reach it.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Starts a program beside it; its output goes to the log of that name.
    pub(crate) fn start(&self, program: &Path, arguments: &[String]) -> anyhow::Result<Kept> {
        keep(program, arguments, self.folder.path())
    }

    /// What a program has said.
    pub(crate) fn log(&self, program: &str) -> String {
        fs::read_to_string(self.folder.path().join(format!("{program}.log"))).unwrap_or_default()
    }
}

/// A client that may do everything, on the current runtime.
pub(crate) async fn client(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("our own kubeconfig")?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    kube::Client::try_from(config.context("our own kubeconfig")?).context("no client")
}

/// Deletes an object, or all of a collection, at once: nobody else ends pods here.
pub(crate) async fn wipe(api: &Api, path: &str) -> anyhow::Result<()> {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    });
    let request = Request::delete(path).header("content-type", "application/json");
    let request = request.body(options.to_string().into_bytes())?;
    api.client().request::<Value>(request).await.map(drop).with_context(|| path.to_owned())
}

fn keep(program: &Path, arguments: &[String], folder: &Path) -> anyhow::Result<Kept> {
    let name = program.file_name().context("a program has a name")?.to_string_lossy();
    let log = File::create(folder.join(format!("{name}.log"))).context("cannot write a log")?;
    let mut keeper = Command::new("sh")
        .args(["-c", KEEPER, "keeper"])
        .arg(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let life = keeper.stdin.take();
    Ok(Kept { keeper, life })
}

fn free_ports() -> anyhow::Result<[u16; 3]> {
    let held = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut ports = [0; 3];
    for (port, held) in ports.iter_mut().zip(&held) {
        let held = held.as_ref().map_err(|error| anyhow::anyhow!("no free port: {error}"))?;
        *port = held.local_addr()?.port();
    }
    Ok(ports)
}

/// Keys, the administrator's token, and a kubeconfig with it.
fn write_identity(folder: &Path, port: u16) -> anyhow::Result<PathBuf> {
    let accounts = KeyPair::generate().context("cannot make a key")?;
    fs::write(folder.join("accounts.key"), accounts.serialize_pem())?;
    fs::write(folder.join("accounts.pub"), accounts.public_key_pem())?;
    fs::write(folder.join("tokens.csv"), format!("{TOKEN},admin,admin,\"system:masters\"\n"))?;
    let server = format!("https://127.0.0.1:{port}");
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "plane", "cluster": {
            "server": server, "insecure-skip-tls-verify": true,
        } }],
        "users": [{ "name": "admin", "user": { "token": TOKEN } }],
        "contexts": [{ "name": "plane", "context": { "cluster": "plane", "user": "admin" } }],
        "current-context": "plane",
    });
    let path = folder.join("kubeconfig");
    fs::write(&path, kubeconfig.to_string())?;
    Ok(path)
}

fn etcd_arguments(folder: &Path, port: u16, peers: u16) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
    vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--log-level=warn".to_owned(),
        // It is gone with us: nothing has to be on a disk.
        "--unsafe-no-fsync=true".to_owned(),
    ]
}

fn api_arguments(folder: &Path, etcd: u16, port: u16) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", file("")),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", file("accounts.pub")),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        // Nobody makes the accounts and takes away the taints that they ask for.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
        "--max-requests-inflight=3000".to_owned(),
        "--max-mutating-requests-inflight=1000".to_owned(),
        "--profiling=false".to_owned(),
    ]
}
