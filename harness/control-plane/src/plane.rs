//! A control plane: etcd, kube-apiserver and kube-controller-manager on free ports, with their own
//! keys and folder.

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
use crate::identity::{Credentials, write_private};

/// The time limit until the API server is ready, with a margin for busy machines.
const READY_WITHIN: Duration = Duration::from_mins(2);

/// The interval of readiness checks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The URL paths of the objects that the API server creates last during startup.
const BOOTSTRAP_PATHS: [&str; 3] = [
    "/api/v1/namespaces/kube-node-lease",
    "/api/v1/namespaces/default",
    "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
];

/// The controllers that run: workloads, namespaces, service accounts, garbage collection. The
/// emulator's controllers run the nodes.
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,\
    serviceaccount-controller,serviceaccount-token-controller,\
    root-ca-certificate-publisher-controller,\
    deployment-controller,replicaset-controller,statefulset-controller,job-controller,\
    disruption-controller,ttl-after-finished-controller,persistentvolume-binder-controller,\
    persistentvolume-protection-controller,persistentvolumeclaim-protection-controller,\
    ephemeral-volume-controller,resourceclaim-controller";

/// A process that is killed on drop.
pub trait Process {
    /// Whether the process is running.
    fn is_running(&mut self) -> bool;
}

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane<P> {
    assets: Assets,
    folder: PathBuf,
    kubeconfig: String,
    /// etcd, the API server, the controller manager, and attached processes.
    processes: Vec<(&'static str, P)>,
}

impl<P> Drop for ControlPlane<P> {
    fn drop(&mut self) {
        while self.processes.pop().is_some() {}
    }
}

impl<P: Process> ControlPlane<P> {
    /// Starts etcd and the API server in parallel. `own` are additional arguments of the API
    /// server; `keep` starts a program with its output in a file.
    ///
    /// # Errors
    ///
    /// No port is free, the folder is not writable, or a program cannot be started.
    pub fn start(
        assets: &Assets,
        folder: &Path,
        own: &[&str],
        keep: impl Fn(&Path, &[String], &Path) -> anyhow::Result<P>,
    ) -> anyhow::Result<Self> {
        let identity = Credentials::write(folder)?;
        let [etcd, peers, api] = free_ports()?;
        let kubeconfig = kubeconfig(api, &identity)?;
        write_private(&folder.join("kubeconfig"), &kubeconfig)?;
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

    /// The programs of the control plane.
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// The kubeconfig of the administrator, which is also in the file `kubeconfig` of the folder.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Starts the controller manager with additional arguments. Call it when the API server is
    /// ready: the controller manager exits if the API server does not respond within some seconds.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn start_controller_manager(
        &mut self,
        own: &[&str],
        keep: impl Fn(&Path, &[String], &Path) -> anyhow::Result<P>,
    ) -> anyhow::Result<()> {
        let mut arguments = manager_arguments(&self.folder);
        arguments.extend(own.iter().map(|argument| (*argument).to_owned()));
        self.run("kube-controller-manager", &arguments, keep)
    }

    /// Attaches a process that ends with the control plane. Its log is `NAME.log` in the folder.
    pub fn attach(&mut self, name: &'static str, process: P) {
        self.processes.push((name, process));
    }

    /// Returns an error with the end of the log if a process has ended.
    ///
    /// # Errors
    ///
    /// A process has ended. The error has the end of its log.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        let mut processes = self.processes.iter_mut();
        match processes.find_map(|(name, process)| (!process.is_running()).then_some(*name)) {
            Some(name) => anyhow::bail!("{name} ended: {}", log_tail(&self.folder, name)),
            None => Ok(()),
        }
    }

    /// Waits until the API server is ready and returns its version.
    ///
    /// # Errors
    ///
    /// A process ends, or the API server is not ready in time. The error has the end of the log.
    pub async fn wait_ready(&mut self) -> anyhow::Result<String> {
        let client = Client::try_from(client_config(&self.kubeconfig).await?)
            .context("cannot create a client")?;
        let end = Instant::now() + READY_WITHIN;
        loop {
            self.check_running()?;
            if is_ready(&client).await {
                let version = get(&client, "/version").await?;
                let version: Value = serde_json::from_str(&version)?;
                return Ok(version["gitVersion"].as_str().unwrap_or("unknown").to_owned());
            }
            if Instant::now() > end {
                let log = log_tail(&self.folder, "kube-apiserver");
                anyhow::bail!("the control plane is not ready after {READY_WITHIN:?}: {log}");
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// The arguments that set feature gates, and serve the API groups that need them.
#[derive(Clone, Debug)]
pub struct FeatureGateArguments(Option<String>);

impl FeatureGateArguments {
    /// The arguments for gates such as `GenericWorkload=true`; none for an empty text.
    pub fn new(gates: &str) -> Self {
        Self((!gates.is_empty()).then(|| format!("--feature-gates={gates}")))
    }

    /// Arguments of the API server. Kinds in alpha and beta are not served by default.
    pub fn of_api_server(&self) -> Vec<&str> {
        let own =
            self.0.as_deref().map(|gates| [gates, "--runtime-config=api/beta=true,api/alpha=true"]);
        own.into_iter().flatten().collect()
    }

    /// Arguments of the controller manager. Pod groups have a controller that older ones do not
    /// know.
    pub fn of_controller_manager(&self) -> Vec<&str> {
        let has_groups =
            self.0.as_deref().is_some_and(|gates| gates.contains("GenericWorkload=true"));
        let groups = has_groups.then_some("--controllers=podgroup-protection-controller");
        self.0.as_deref().into_iter().chain(groups).collect()
    }
}

/// The client configuration of a kubeconfig.
///
/// # Errors
///
/// The text is not a kubeconfig, or names files that cannot be read.
pub async fn client_config(kubeconfig: &str) -> anyhow::Result<kube::Config> {
    let kubeconfig =
        Kubeconfig::from_yaml(kubeconfig).context("invalid kubeconfig of the control plane")?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.context("invalid kubeconfig of the control plane")
}

async fn is_ready(client: &Client) -> bool {
    for path in BOOTSTRAP_PATHS.into_iter().chain(["/healthz"]) {
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

/// The last lines of a process's log, as text for errors.
fn log_tail(folder: &Path, name: &str) -> String {
    let log = fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    if lines.is_empty() {
        return "its log is empty".to_owned();
    }
    let last = lines.len().saturating_sub(8);
    format!("its log ends with\n  {}", lines[last..].join("\n  "))
}

/// Three ports that are currently free.
fn free_ports() -> anyhow::Result<[u16; 3]> {
    let free = || TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let bound = [free(), free(), free()]
        .map(|bound| bound.and_then(|listener| Ok((listener.local_addr()?.port(), listener))));
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&bound) {
        match listener {
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
        // The data is temporary and need not survive a crash.
        "--unsafe-no-fsync=true".to_owned(),
    ]
}

fn api_arguments(folder: &Path, etcd: u16, port: u16) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // Since 1.37 endpoints may not be of the loopback interface.
        "--endpoint-reconciler-type=none".to_owned(),
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
        // The interval at which pending claims are retried. Each retry records an event, so a
        // shorter one would keep the cluster from settling.
        "--pvclaimbinder-sync-period=5s".to_owned(),
        "--profiling=false".to_owned(),
    ]
}

fn kubeconfig(port: u16, identity: &Credentials) -> anyhow::Result<String> {
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
    serde_yaml::to_string(&config).context("cannot serialize the kubeconfig")
}
