//! A cluster in one container: our own image, k3s, or kwok's cluster image.
//!
//! testcontainers starts it and asks for its port, its words and its files. What takes it away is
//! its label, as with everything else that a run has in docker: testcontainers has no reaper, and
//! what it drops lives on when this program is killed.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use testcontainers::bollard::models::{HostConfig, PortBinding};
use testcontainers::core::{ExecCommand, IntoContainerPort as _};
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, GenericImage, ImageExt as _, TestcontainersError};

use super::wait::answered;
use super::{Kubelets, is_local};
use crate::interrupt::Interrupt;
use crate::leftovers::{DOCKER_LABEL, Run, Thing};
use crate::target::Which;
use crate::tools::{DOCKER_HOST, Endpoint, Tool, ToolError, remedy};

/// How long it may take to answer.
const READY_WITHIN: Duration = Duration::from_mins(2);
/// How long docker may take to make it.
const MADE_WITHIN: Duration = Duration::from_secs(10);

/// What is in an image, told by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// `schedlab/cluster`: our emulator, and the scheduler beside it.
    Ours,
    /// `rancher/k3s`.
    K3s,
    /// `kwok/cluster`: etcd, API server, controllers and kwok.
    Kwok,
}

impl Sort {
    fn of(image: &str) -> anyhow::Result<Self> {
        let name = image.split('@').next().unwrap_or_default();
        let repository = match name.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => repository,
            Some(_) | None => name,
        };
        let is = |known: &str| repository == known || repository.ends_with(&format!("/{known}"));
        if is("schedlab/cluster") {
            Ok(Self::Ours)
        } else if is("k3s") {
            Ok(Self::K3s)
        } else if is("kwok/cluster") {
            Ok(Self::Kwok)
        } else {
            anyhow::bail!(
                "--image {image}: how it becomes a cluster is not known; allowed are \
                 schedlab/cluster (kind-configs/image cluster), rancher/k3s and kwok/cluster, of \
                 any registry and tag"
            )
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Ours | Self::K3s => 6443,
            Self::Kwok => 8080,
        }
    }

    /// What the machine gives it: one port, for us alone, and k3s all it asks for.
    fn given(self, host: &mut HostConfig) {
        let here = PortBinding { host_ip: Some("127.0.0.1".to_owned()), host_port: None };
        host.publish_all_ports = Some(false);
        host.port_bindings =
            Some(HashMap::from([(format!("{}/tcp", self.port()), Some(vec![here]))]));
        if self == Self::K3s {
            let folders = ["/run", "/var/run"].map(|folder| (folder.to_owned(), String::new()));
            host.privileged = Some(true);
            host.tmpfs = Some(HashMap::from(folders));
        }
    }

    /// For the program in the image.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Ours => {
                &["up", "--empty", "--address", "0.0.0.0", "--port", "6443", "--kubeconfig", "-"]
            }
            Self::K3s => &[
                "server",
                "--tls-san=127.0.0.1",
                "--disable=traefik,servicelb,metrics-server,local-storage,coredns",
            ],
            Self::Kwok => &[],
        }
    }
}

/// Finds what there is to object before anything is made.
pub(super) async fn examine(image: &str, kubelets: Kubelets) -> anyhow::Result<()> {
    anyhow::ensure!(
        Sort::of(image)? != Sort::Ours || kubelets != Kubelets::Kwok,
        "--kubelets kwok: in {image} the emulator plays the nodes; allowed are auto and schedlab"
    );
    let (endpoint, daemon) = tokio::join!(Endpoint::of_docker(), Tool::daemon());
    if let Some(endpoint) = endpoint.as_ref().filter(|endpoint| !endpoint.is_here()) {
        anyhow::bail!(
            "docker speaks to another machine ({endpoint}), and a container's port is open to that \
             machine alone: run schedlab there, or choose a daemon of this one (docker context ls, \
             docker context use NAME, or {DOCKER_HOST})"
        );
    }
    daemon?;
    match endpoint.filter(|endpoint| endpoint.context.is_some()) {
        Some(endpoint) => Err(start_again(&endpoint)),
        None => Ok(()),
    }
}

/// Starts this program again, in the same process, with the daemon of docker's context in
/// `DOCKER_HOST`: testcontainers asks nobody else, and a process with threads cannot change its
/// own environment. Answers only when that fails.
fn start_again(endpoint: &Endpoint) -> anyhow::Error {
    let own = std::env::current_exe().map(|own| {
        Command::new(own).args(std::env::args_os().skip(1)).env(DOCKER_HOST, &endpoint.host).exec()
    });
    let (Ok(error) | Err(error)) = own;
    let host = &endpoint.host;
    anyhow::Error::new(error).context(format!(
        "cannot start again for docker's {endpoint}; set it yourself: export {DOCKER_HOST}={host}"
    ))
}

/// A container that runs. Its end is the run's, by its label.
#[derive(Debug)]
pub(super) struct Container {
    runs: ManuallyDrop<ContainerAsync<GenericImage>>,
    sort: Sort,
}

impl Container {
    /// Starts it; ours has a scheduler in it only if that is the one to be tested. `tell` hears
    /// what takes its time.
    pub(super) async fn start(
        (image, scheduler): (&str, &Which),
        run: &Run,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        let sort = Sort::of(image)?;
        run.note(Thing::Docker)?;
        tell(&format!("starting a container of {image}"));
        let mut arguments = sort.arguments().to_vec();
        if sort == Sort::Ours && scheduler.installed().is_none() {
            arguments.push("--no-scheduler");
        }
        let (name, tag) = name_and_tag(image);
        let request = GenericImage::new(name, tag)
            .with_exposed_port(sort.port().tcp())
            .with_labels([(DOCKER_LABEL, run.id())])
            .with_host_config_modifier(move |host| sort.given(host))
            .with_startup_timeout(READY_WITHIN)
            .with_cmd(arguments);
        // An image that is not here yet may take minutes to come.
        let request = match is_local(image) {
            Ok(()) => request,
            Err(_) => interrupt
                .unless(request.pull_image())
                .await
                .map_err(|error| in_dockers_words(image, error))?,
        };
        // The daemon makes it whether or not anybody waits, and can take it away only then.
        let runs = interrupt.unless_after(MADE_WITHIN, request.start()).await;
        let runs = runs.map_err(|error| in_dockers_words(image, error))?;
        Ok(Self { runs: ManuallyDrop::new(runs), sort })
    }

    /// Waits until it answers; how to reach it as an administrator, and its version.
    pub(super) async fn ready(&self) -> anyhow::Result<(kube::Config, String)> {
        let ready = answered(READY_WITHIN, async || {
            let tried = self.try_it().await;
            if tried.is_err() && !self.runs.is_running().await? {
                anyhow::bail!("the container ended: {}", self.last_words().await);
            }
            Ok(tried)
        });
        match ready.await? {
            Ok(answer) => Ok(answer),
            Err(why) => {
                let words = self.last_words().await;
                let late = format!("the container was not ready in {READY_WITHIN:?}: {words}");
                Err(why.context(late))
            }
        }
    }

    async fn try_it(&self) -> anyhow::Result<(kube::Config, String)> {
        let port = self.runs.get_host_port_ipv4(self.sort.port().tcp()).await?;
        let bound = format!("127.0.0.1:{port}");
        let config = match self.sort {
            Sort::Kwok => kube::Config::new(format!("http://{bound}").parse()?),
            Sort::Ours => {
                let said = self.runs.stdout_to_vec().await?;
                with_server(&String::from_utf8_lossy(&said), &bound).await?
            }
            Sort::K3s => {
                let read = ExecCommand::new(["cat", "/etc/rancher/k3s/k3s.yaml"]);
                let text = self.runs.exec(read).await?.stdout_to_vec().await?;
                with_server(&String::from_utf8_lossy(&text), &bound).await?
            }
        };
        let version = super::api(&config)?.get("/version").await?;
        Ok((config, version["gitVersion"].as_str().unwrap_or("unknown").to_owned()))
    }

    /// All that it said, on both of its outputs.
    async fn said(&self) -> Result<String, TestcontainersError> {
        let said = [self.runs.stdout_to_vec().await?, self.runs.stderr_to_vec().await?].concat();
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    async fn last_words(&self) -> String {
        let said = self.said().await.unwrap_or_else(|error| error.to_string());
        let lines: Vec<&str> = said.trim().lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    /// Whether kinds of the scheduler are in it already, and nodes' lives are played in it.
    pub(super) fn is_ours(&self) -> bool {
        self.sort == Sort::Ours
    }

    /// Whether kwok plays nodes in it.
    pub(super) fn is_kwoks(&self) -> bool {
        self.sort == Sort::Kwok
    }

    /// Whether it has nodes of its own, with daemons on them.
    pub(super) fn has_nodes(&self) -> bool {
        self.sort == Sort::K3s
    }

    /// Writes what it said into a folder.
    pub(super) async fn export_logs(&self, folder: &Path) -> anyhow::Result<()> {
        let said = self.said().await?;
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(folder.join("container.log"), said))
            .with_context(|| format!("cannot write into {}", folder.display()))
    }
}

/// An image's name, and the tag or the digest after its last colon.
fn name_and_tag(image: &str) -> (&str, &str) {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        Some(_) | None => (image, "latest"),
    }
}

/// What docker said of a container that it could not start, with what to do about it.
fn in_dockers_words(image: &str, error: anyhow::Error) -> anyhow::Error {
    let Some(refused) = error.downcast_ref::<TestcontainersError>() else { return error };
    let said = refused.to_string();
    let remedy = remedy(Tool::Docker, &said);
    ToolError { command: format!("docker run {image}"), said, remedy }.into()
}

/// A kubeconfig of the inside, for somebody outside.
async fn with_server(text: &str, bound: &str) -> anyhow::Result<kube::Config> {
    let mut kubeconfig = Kubeconfig::from_yaml(text).context("it has told no kubeconfig yet")?;
    let cluster = kubeconfig.clusters.first_mut().and_then(|named| named.cluster.as_mut());
    cluster.context("it has told no kubeconfig yet")?.server = Some(format!("https://{bound}"));
    let options = KubeConfigOptions::default();
    Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_repository_whatever_registry_and_tag() {
        let sort = |image: &str| Sort::of(image).map_err(|error| error.to_string());
        assert_eq!(sort("schedlab/cluster:dev"), Ok(Sort::Ours));
        assert_eq!(sort("localhost:5000/schedlab/cluster"), Ok(Sort::Ours));
        assert_eq!(sort("rancher/k3s:v1.35.4-k3s1"), Ok(Sort::K3s));
        assert_eq!(sort("registry.k8s.io/kwok/cluster:v0.7.0-k8s.v1.33.0"), Ok(Sort::Kwok));
        assert_eq!(sort("k3s@sha256:00"), Ok(Sort::K3s));
        assert!(sort("nginx:1").unwrap_err().contains("--image nginx:1"));
    }

    #[test]
    fn what_follows_the_last_colon_of_an_image_is_its_tag_unless_it_is_a_registrys_port() {
        assert_eq!(name_and_tag("rancher/k3s:v1.35.4-k3s1"), ("rancher/k3s", "v1.35.4-k3s1"));
        assert_eq!(name_and_tag("schedlab/cluster"), ("schedlab/cluster", "latest"));
        assert_eq!(name_and_tag("localhost:5000/k3s"), ("localhost:5000/k3s", "latest"));
        assert_eq!(name_and_tag("k3s@sha256:00"), ("k3s@sha256", "00"));
    }

    #[test]
    fn no_port_is_open_to_other_machines() {
        for sort in [Sort::Ours, Sort::K3s, Sort::Kwok] {
            let mut host = HostConfig { publish_all_ports: Some(true), ..HostConfig::default() };
            sort.given(&mut host);
            assert_eq!(host.publish_all_ports, Some(false));
            let bindings = host.port_bindings.unwrap();
            let mut bindings = bindings.into_values().flatten().flatten();
            assert!(bindings.all(|binding| binding.host_ip.as_deref() == Some("127.0.0.1")));
        }
    }
}
