//! The real etcd and kube-apiserver, as processes on loopback.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;

const TOKEN: &str = "a-token-for-the-loopback-interface";

/// Starts its arguments, and ends them when standard input does: also when we are killed.
const KEEPER: &str = r#""$@" </dev/null & pid=$!; read -r _; kill -9 "$pid""#;

/// A running control plane; it ends with the test.
pub(crate) struct ControlPlane {
    pub(crate) kubeconfig: String,
    home: TempDir,
    _processes: Vec<Process>,
}

struct Process {
    keeper: Child,
    /// Closing it ends the process.
    life: Option<ChildStdin>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.life = None;
        let _ = self.keeper.wait();
    }
}

/// The folder with etcd and kube-apiserver in it, or why there is none.
pub(crate) fn assets() -> Result<PathBuf, String> {
    let named = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cache =
        std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    let folder = named.unwrap_or_else(|| cache.join("schedlab/control-plane/v1.35.4"));
    for name in ["etcd", "kube-apiserver"] {
        if !folder.join(name).is_file() {
            return Err(format!(
                "no {name} in {} (make control-plane builds it)",
                folder.display()
            ));
        }
    }
    let version = Command::new(folder.join("kube-apiserver")).arg("--version").output();
    let version = version.map_err(|error| format!("{}: {error}", folder.display()))?.stdout;
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    if !version.contains(" v1.35.") {
        return Err(format!("{} has {version}; the cases hold for v1.35", folder.display()));
    }
    Ok(folder)
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

impl ControlPlane {
    pub(crate) async fn start(assets: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        let (client, peer, secure) = (free_port(), free_port(), free_port());
        let etcd_url = format!("http://127.0.0.1:{client}");
        let peer_url = format!("http://127.0.0.1:{peer}");
        let etcd = run(
            home.path(),
            &assets.join("etcd"),
            &[
                format!("--data-dir={}", home.path().join("data").display()),
                format!("--listen-client-urls={etcd_url}"),
                format!("--advertise-client-urls={etcd_url}"),
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
                format!("--initial-cluster=default={peer_url}"),
                "--unsafe-no-fsync".to_owned(),
            ],
        );
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(home.path().join("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(home.path().join("public.pem"), key.public_key_pem()).unwrap();
        std::fs::write(home.path().join("tokens.csv"), format!("{TOKEN},admin,1,system:masters\n"))
            .unwrap();
        let file = |name: &str| home.path().join(name).display().to_string();
        let server = run(
            home.path(),
            &assets.join("kube-apiserver"),
            &[
                format!("--etcd-servers={etcd_url}"),
                format!("--secure-port={secure}"),
                "--bind-address=127.0.0.1".to_owned(),
                "--advertise-address=127.0.0.1".to_owned(),
                "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                format!("--cert-dir={}", file("certificates")),
                format!("--token-auth-file={}", file("tokens.csv")),
                "--authorization-mode=AlwaysAllow".to_owned(),
                "--allow-privileged=true".to_owned(),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--service-account-signing-key-file={}", file("key.pem")),
                format!("--service-account-key-file={}", file("public.pem")),
            ],
        );
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:{secure}', insecure-skip-tls-verify: true}}}}]\n\
             users: [{{name: a, user: {{token: {TOKEN}}}}}]\n\
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n"
        );
        let plane = Self { kubeconfig, home, _processes: vec![server, etcd] };
        plane.ready().await;
        plane
    }

    async fn ready(&self) {
        let client = client(&self.kubeconfig).await;
        let mut last = String::new();
        for _ in 0..200 {
            let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
            match client.request_text(request).await {
                Ok(text) if text == "ok" => return,
                Ok(text) => last = text,
                Err(error) => last = format!("{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let log = std::fs::read_to_string(self.home.path().join("kube-apiserver.log")).unwrap();
        let end: Vec<&str> = log.lines().rev().take(5).collect();
        panic!("kube-apiserver is not ready after 20 seconds: {last}\n{}", end.join("\n"));
    }
}

fn run(home: &Path, program: &Path, arguments: &[String]) -> Process {
    let log = File::create(home.join(program.file_name().unwrap()).with_extension("log")).unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg(KEEPER).arg("sh").arg(program).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
    let mut keeper = command.spawn().unwrap();
    Process { life: keeper.stdin.take(), keeper }
}

/// A client of whoever wrote a kubeconfig. It retries nothing: every answer is seen.
pub(crate) async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}
