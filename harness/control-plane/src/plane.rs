//! One control plane: each process on a port that was free, with keys of its own in a folder of
//! its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::ByteString;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::assets::Assets;
use crate::identity::{Identity, secretly};

/// How long it may take to be ready; a machine that is very busy needs a while.
const READY_WITHIN: Duration = Duration::from_mins(2);

/// How often it is asked.
const ASK: Duration = Duration::from_millis(50);

/// What the API server makes last of what its first user needs.
const LAST_MADE: [&str; 3] = [
    "/api/v1/namespaces/kube-node-lease",
    "/api/v1/namespaces/default",
    "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
];

/// What a control plane does besides storing: workloads, namespaces and the accounts in them,
/// garbage. Nodes are ours.
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,\
    serviceaccount-controller,serviceaccount-token-controller,\
    root-ca-certificate-publisher-controller,\
    deployment-controller,replicaset-controller,statefulset-controller,job-controller,\
    disruption-controller,ttl-after-finished-controller,persistentvolume-binder-controller,\
    persistentvolume-protection-controller,persistentvolumeclaim-protection-controller,\
    ephemeral-volume-controller,resourceclaim-controller";

/// A process that ends when it is dropped.
pub trait Process {
    /// Whether it runs.
    fn lives(&mut self) -> bool;
}

/// A control plane that runs.
#[derive(Debug)]
pub struct ControlPlane<P> {
    assets: Assets,
    folder: PathBuf,
    kubeconfig: String,
    /// etcd, the API server, the controller manager, and who else belongs to it.
    processes: Vec<(&'static str, P)>,
}

impl<P> Drop for ControlPlane<P> {
    fn drop(&mut self) {
        while self.processes.pop().is_some() {}
    }
}

impl<P: Process> ControlPlane<P> {
    /// Starts etcd and the API server; they come up beside each other. `own` are the caller's
    /// arguments for the API server; `keep` starts a program with its output in a file.
    pub fn start(
        assets: &Assets,
        folder: &Path,
        own: &[&str],
        keep: impl Fn(&Path, &[String], &Path) -> anyhow::Result<P>,
    ) -> anyhow::Result<Self> {
        let identity = Identity::write(folder)?;
        let [etcd, peers, api] = free_ports()?;
        let kubeconfig = kubeconfig(api, &identity)?;
        secretly(&folder.join("kubeconfig"), &kubeconfig)?;
        let (assets, folder) = (assets.clone(), folder.to_path_buf());
        let mut plane = Self { assets, folder, kubeconfig, processes: Vec::new() };
        plane.run("etcd", &etcd_arguments(&plane.folder, etcd, peers), &keep)?;
        let mut arguments = api_arguments(&plane.folder, etcd, api);
        arguments.extend(own.iter().map(|argument| (*argument).to_owned()));
        plane.run("kube-apiserver", &arguments, &keep)?;
        Ok(plane)
    }

    fn run(
        &mut self,
        name: &'static str,
        arguments: &[String],
        keep: impl Fn(&Path, &[String], &Path) -> anyhow::Result<P>,
    ) -> anyhow::Result<()> {
        let log = self.folder.join(format!("{name}.log"));
        self.processes.push((name, keep(&self.assets.program(name), arguments, &log)?));
        Ok(())
    }

    /// Its programs.
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// How others reach it as an administrator. The same is in the file `kubeconfig` of its
    /// folder.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Starts the controller manager. It gives up after some seconds where the API server does
    /// not answer for it, and on a busy machine that takes longer: so it comes last.
    pub fn manage(
        &mut self,
        keep: impl Fn(&Path, &[String], &Path) -> anyhow::Result<P>,
    ) -> anyhow::Result<()> {
        self.run("kube-controller-manager", &manager_arguments(&self.folder), keep)
    }

    /// Has a process that serves it end with it. It writes to `NAME.log` in its folder.
    pub fn keep(&mut self, name: &'static str, process: P) {
        self.processes.push((name, process));
    }

    /// Says which of its processes has ended, with its last words, if one has.
    pub fn alive(&mut self) -> anyhow::Result<()> {
        let mut processes = self.processes.iter_mut();
        match processes.find_map(|(name, kept)| (!kept.lives()).then_some(*name)) {
            Some(name) => anyhow::bail!("{name} ended: {}", last_words(&self.folder, name)),
            None => Ok(()),
        }
    }

    /// Waits until the API server is ready; answers its version.
    pub async fn ready(&mut self) -> anyhow::Result<String> {
        let client = Client::try_from(config(&self.kubeconfig).await?).context("no client")?;
        let end = Instant::now() + READY_WITHIN;
        loop {
            self.alive()?;
            if is_ready(&client).await {
                let version = get(&client, "/version").await?;
                let version: Value = serde_json::from_str(&version)?;
                return Ok(version["gitVersion"].as_str().unwrap_or("unknown").to_owned());
            }
            if Instant::now() > end {
                let words = last_words(&self.folder, "kube-apiserver");
                anyhow::bail!("the control plane was not ready in {READY_WITHIN:?}: {words}");
            }
            sleep(ASK).await;
        }
    }
}

/// How to reach what a kubeconfig names, on the current runtime.
pub async fn config(kubeconfig: &str) -> anyhow::Result<kube::Config> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).context("our own kubeconfig")?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.context("our own kubeconfig")
}

async fn is_ready(client: &Client) -> bool {
    for path in LAST_MADE.into_iter().chain(["/healthz"]) {
        if get(client, path).await.is_err() {
            return false;
        }
    }
    true
}

async fn get(client: &Client, path: &str) -> anyhow::Result<String> {
    let request = http::Request::get(path).body(Vec::new())?;
    client.request_text(request).await.with_context(|| path.to_owned())
}

/// The end of a process's log.
fn last_words(folder: &Path, name: &str) -> String {
    let log = fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    if lines.is_empty() {
        return "it said nothing".to_owned();
    }
    let last = lines.len().saturating_sub(8);
    format!("its log ends with\n  {}", lines[last..].join("\n  "))
}

/// Ports that are free now.
fn free_ports() -> anyhow::Result<[u16; 3]> {
    let free = || TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let held = [free(), free(), free()]
        .map(|bound| bound.and_then(|listener| Ok((listener.local_addr()?.port(), listener))));
    let mut ports = [0; 3];
    for (port, bound) in ports.iter_mut().zip(&held) {
        match bound {
            Ok((free, _)) => *port = *free,
            Err(error) => anyhow::bail!("no free port on the loopback interface: {error}"),
        }
    }
    Ok(ports)
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
        // It is gone with the run: nothing has to be on a disk.
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
        format!("--tls-cert-file={}", file("serving.crt")),
        format!("--tls-private-key-file={}", file("serving.key")),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", file("accounts.pub")),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--max-requests-inflight=3000".to_owned(),
        "--max-mutating-requests-inflight=1000".to_owned(),
        "--profiling=false".to_owned(),
    ]
}

fn manager_arguments(folder: &Path) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--kubeconfig={}", file("kubeconfig")),
        format!("--root-ca-file={}", file("authority.crt")),
        format!("--service-account-private-key-file={}", file("accounts.key")),
        format!("--controllers={CONTROLLERS}"),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=300".to_owned(),
        "--kube-api-burst=600".to_owned(),
        "--concurrent-namespace-syncs=20".to_owned(),
        // A claim without a volume is looked at again no sooner, whatever volume comes; each time
        // there is an event, and nobody may wait for quiet in vain.
        "--pvclaimbinder-sync-period=5s".to_owned(),
        "--profiling=false".to_owned(),
    ]
}

fn kubeconfig(port: u16, identity: &Identity) -> anyhow::Result<String> {
    let authority = ByteString(identity.authority.as_bytes().to_vec());
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "schedlab", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority-data": authority,
        }}],
        "users": [{"name": "schedlab", "user": {"token": identity.token}}],
        "contexts": [{"name": "schedlab", "context": {"cluster": "schedlab", "user": "schedlab"}}],
        "current-context": "schedlab",
    });
    serde_yaml::to_string(&config).context("a kubeconfig can be written as YAML")
}
