//! A cluster in one container: our own image, k3s, or kwok's cluster image.
//!
//! testcontainers starts the container and gives access to its port, logs and files. The container
//! is removed by its label, like everything else that a run has in docker: testcontainers has no
//! reaper, and a container that it would remove on drop survives `kill -9` of this program.

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

use super::poll::poll_until_ok;
use super::{Kubelets, check_local_image};
use crate::cleanup::{DOCKER_LABEL, Resource, Run};
use crate::external_tools::{
    DOCKER_HOST_ENV, DockerEndpoint, ExternalTool, ToolError, hint_for_output,
};
use crate::interrupt::Interrupt;
use crate::scheduler_source::SchedulerSource;

/// Maximum wait for the API server in the container to become ready.
const READY_TIMEOUT: Duration = Duration::from_mins(2);
/// Maximum wait for docker to create the container.
const CREATE_TIMEOUT: Duration = Duration::from_secs(10);

/// Which kind of cluster an image contains, derived from the image's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImageProvider {
    /// `schedlab/cluster`: our emulator, optionally with our scheduler.
    Ours,
    /// `rancher/k3s`: a small Kubernetes distribution.
    K3s,
    /// `kwok/cluster`: etcd, API server, controller manager and kwok.
    Kwok,
}

impl ImageProvider {
    fn from_image(image: &str) -> anyhow::Result<Self> {
        let name = image.split('@').next().unwrap_or_default();
        let repository = match name.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => repository,
            Some(_) | None => name,
        };
        let matches_name =
            |known: &str| repository == known || repository.ends_with(&format!("/{known}"));
        if matches_name("schedlab/cluster") {
            Ok(Self::Ours)
        } else if matches_name("k3s") {
            Ok(Self::K3s)
        } else if matches_name("kwok/cluster") {
            Ok(Self::Kwok)
        } else {
            anyhow::bail!(
                "--image: got {image}, expected schedlab/cluster (kind-configs/image cluster), \
                 rancher/k3s or kwok/cluster, of any registry and tag"
            )
        }
    }

    fn api_server_port(self) -> u16 {
        match self {
            Self::Ours | Self::K3s => 6443,
            Self::Kwok => 8080,
        }
    }

    /// Publishes the API server's port, on the loopback interface only. k3s also gets the
    /// privileges that it needs.
    fn configure_host(self, host: &mut HostConfig) {
        let local_port = PortBinding { host_ip: Some("127.0.0.1".to_owned()), host_port: None };
        host.publish_all_ports = Some(false);
        host.port_bindings = Some(HashMap::from([(
            format!("{}/tcp", self.api_server_port()),
            Some(vec![local_port]),
        )]));
        if self == Self::K3s {
            let folders = ["/run", "/var/run"].map(|folder| (folder.to_owned(), String::new()));
            host.privileged = Some(true);
            host.tmpfs = Some(HashMap::from(folders));
        }
    }

    /// Arguments for the entrypoint of the image.
    fn container_arguments(self) -> &'static [&'static str] {
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

/// Fails if the command line or docker cannot work, before anything is created.
pub(super) async fn check_prerequisites(image: &str, kubelets: Kubelets) -> anyhow::Result<()> {
    anyhow::ensure!(
        ImageProvider::from_image(image)? != ImageProvider::Ours || kubelets != Kubelets::Kwok,
        "--kubelets: got kwok, expected auto or schedlab: in {image} the emulator simulates the nodes"
    );
    let (endpoint, daemon) =
        tokio::join!(DockerEndpoint::from_docker_context(), ExternalTool::check_docker_daemon());
    if let Some(endpoint) = endpoint.as_ref().filter(|endpoint| !endpoint.is_on_this_machine()) {
        anyhow::bail!(
            "docker uses a daemon on another machine ({endpoint}), and container ports are \
             reachable only there: run schedlab on that machine, or choose a local daemon (docker \
             context ls, docker context use NAME, or {DOCKER_HOST_ENV})"
        );
    }
    daemon?;
    match endpoint.filter(|endpoint| endpoint.context.is_some()) {
        Some(endpoint) => Err(reexec_with_docker_host(&endpoint)),
        None => Ok(()),
    }
}

/// Replaces this process by a new one with `DOCKER_HOST` set to the daemon of docker's current
/// context. testcontainers knows only `DOCKER_HOST`, and a process with threads cannot change its
/// own environment. Returns only if that fails.
fn reexec_with_docker_host(endpoint: &DockerEndpoint) -> anyhow::Error {
    let exec_result = std::env::current_exe().map(|own| {
        Command::new(own)
            .args(std::env::args_os().skip(1))
            .env(DOCKER_HOST_ENV, &endpoint.host)
            .exec()
    });
    let (Ok(error) | Err(error)) = exec_result;
    let host = &endpoint.host;
    anyhow::Error::new(error).context(format!(
        "cannot restart with docker's {endpoint}; set it manually: export {DOCKER_HOST_ENV}={host}"
    ))
}

/// A running container with a cluster. It is not stopped on drop: the run removes it by its label.
#[derive(Debug)]
pub(super) struct Container {
    container: ManuallyDrop<ContainerAsync<GenericImage>>,
    kind: ImageProvider,
}

impl Container {
    /// Starts the container. Our own image starts its scheduler only if that scheduler is the one
    /// under test. `on_progress` receives one line before each slow step.
    pub(super) async fn start(
        image: &str,
        scheduler: &SchedulerSource,
        run: &Run,
        interrupt: &Interrupt,
        on_progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        let sort = ImageProvider::from_image(image)?;
        run.register(Resource::Docker)?;
        on_progress(&format!("starting a container of {image}"));
        let mut arguments = sort.container_arguments().to_vec();
        if sort == ImageProvider::Ours && scheduler.installed_scheduler_name().is_none() {
            arguments.push("--no-scheduler");
        }
        let (name, tag) = split_name_and_tag(image);
        let request = GenericImage::new(name, tag)
            .with_exposed_port(sort.api_server_port().tcp())
            .with_labels([(DOCKER_LABEL, run.id())])
            .with_host_config_modifier(move |host| sort.configure_host(host))
            .with_startup_timeout(READY_TIMEOUT)
            .with_cmd(arguments);
        // Pulling an image that is not local may take minutes.
        let request = match check_local_image(image) {
            Ok(()) => request,
            Err(_) => interrupt
                .run_unless_interrupted(request.pull_image())
                .await
                .map_err(|error| docker_error_with_hint(image, error))?,
        };
        // The daemon creates the container even if this call is cancelled, and it can be removed
        // only after that.
        let runs = interrupt.run_with_grace_after_interrupt(CREATE_TIMEOUT, request.start()).await;
        let runs = runs.map_err(|error| docker_error_with_hint(image, error))?;
        Ok(Self { container: ManuallyDrop::new(runs), kind: sort })
    }

    /// Waits until the API server is ready. Returns an administrator's configuration and the
    /// server's version.
    pub(super) async fn wait_until_ready(&self) -> anyhow::Result<(kube::Config, String)> {
        let ready = poll_until_ok(READY_TIMEOUT, async || {
            let attempt = self.try_connect().await;
            if attempt.is_err() && !self.container.is_running().await? {
                anyhow::bail!("the container ended: {}", self.last_log_lines().await);
            }
            Ok(attempt)
        });
        match ready.await? {
            Ok(connection) => Ok(connection),
            Err(why) => {
                let last_lines = self.last_log_lines().await;
                let late =
                    format!("the container was not ready within {READY_TIMEOUT:?}: {last_lines}");
                Err(why.context(late))
            }
        }
    }

    async fn try_connect(&self) -> anyhow::Result<(kube::Config, String)> {
        let port = self.container.get_host_port_ipv4(self.kind.api_server_port().tcp()).await?;
        let bound = format!("127.0.0.1:{port}");
        let config = match self.kind {
            ImageProvider::Kwok => kube::Config::new(format!("http://{bound}").parse()?),
            ImageProvider::Ours => {
                let output = self.container.stdout_to_vec().await?;
                config_with_server(&String::from_utf8_lossy(&output), &bound).await?
            }
            ImageProvider::K3s => {
                let read = ExecCommand::new(["cat", "/etc/rancher/k3s/k3s.yaml"]);
                let text = self.container.exec(read).await?.stdout_to_vec().await?;
                config_with_server(&String::from_utf8_lossy(&text), &bound).await?
            }
        };
        let version = super::admin_api(&config)?.get("/version").await?;
        Ok((config, version["gitVersion"].as_str().unwrap_or("unknown").to_owned()))
    }

    /// Standard output and standard error of the container.
    async fn container_logs(&self) -> Result<String, TestcontainersError> {
        let output =
            [self.container.stdout_to_vec().await?, self.container.stderr_to_vec().await?].concat();
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    async fn last_log_lines(&self) -> String {
        let output = self.container_logs().await.unwrap_or_else(|error| error.to_string());
        let lines: Vec<&str> = output.trim().lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    /// Whether the container runs our emulator, which has the scheduler's CRDs and simulates the
    /// node lifecycle itself.
    pub(super) fn runs_emulator(&self) -> bool {
        self.kind == ImageProvider::Ours
    }

    /// Whether kwok simulates nodes in the container.
    pub(super) fn runs_kwok(&self) -> bool {
        self.kind == ImageProvider::Kwok
    }

    /// Whether the cluster in the container has nodes of its own, with DaemonSet pods on them.
    pub(super) fn has_nodes(&self) -> bool {
        self.kind == ImageProvider::K3s
    }

    /// Writes the container's logs into a folder.
    pub(super) async fn export_logs(&self, folder: &Path) -> anyhow::Result<()> {
        let output = self.container_logs().await?;
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(folder.join("container.log"), output))
            .with_context(|| format!("cannot write into {}", folder.display()))
    }
}

/// Splits an image reference at its last colon into name and tag (or digest).
fn split_name_and_tag(image: &str) -> (&str, &str) {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        Some(_) | None => (image, "latest"),
    }
}

/// An error of docker with the same hint as for a failed `docker run`.
fn docker_error_with_hint(image: &str, error: anyhow::Error) -> anyhow::Error {
    let Some(docker_failure) = error.downcast_ref::<TestcontainersError>() else { return error };
    let output = docker_failure.to_string();
    let hint = hint_for_output(ExternalTool::Docker, &output);
    ToolError { command: format!("docker run {image}"), output, hint }.into()
}

/// A client configuration for use on this machine, from the kubeconfig that is used inside the
/// container. `bound` is the address to which the port was bound.
async fn config_with_server(text: &str, bound: &str) -> anyhow::Result<kube::Config> {
    let mut kubeconfig =
        Kubeconfig::from_yaml(text).context("the container has not printed a kubeconfig yet")?;
    let cluster = kubeconfig.clusters.first_mut().and_then(|named| named.cluster.as_mut());
    cluster.context("the container has not printed a kubeconfig yet")?.server =
        Some(format!("https://{bound}"));
    let options = KubeConfigOptions::default();
    Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_kind_depends_on_the_repository_not_on_registry_and_tag() {
        let sort =
            |image: &str| ImageProvider::from_image(image).map_err(|error| error.to_string());
        assert_eq!(sort("schedlab/cluster:dev"), Ok(ImageProvider::Ours));
        assert_eq!(sort("localhost:5000/schedlab/cluster"), Ok(ImageProvider::Ours));
        assert_eq!(sort("rancher/k3s:v1.35.4-k3s1"), Ok(ImageProvider::K3s));
        assert_eq!(
            sort("registry.k8s.io/kwok/cluster:v0.7.0-k8s.v1.33.0"),
            Ok(ImageProvider::Kwok)
        );
        assert_eq!(sort("k3s@sha256:00"), Ok(ImageProvider::K3s));
        assert!(sort("nginx:1").unwrap_err().contains("--image: got nginx:1"));
    }

    #[test]
    fn the_last_colon_starts_the_tag_unless_it_starts_a_registrys_port() {
        assert_eq!(split_name_and_tag("rancher/k3s:v1.35.4-k3s1"), ("rancher/k3s", "v1.35.4-k3s1"));
        assert_eq!(split_name_and_tag("schedlab/cluster"), ("schedlab/cluster", "latest"));
        assert_eq!(split_name_and_tag("localhost:5000/k3s"), ("localhost:5000/k3s", "latest"));
        assert_eq!(split_name_and_tag("k3s@sha256:00"), ("k3s@sha256", "00"));
    }

    #[test]
    fn ports_are_published_on_the_loopback_interface_only() {
        for sort in [ImageProvider::Ours, ImageProvider::K3s, ImageProvider::Kwok] {
            let mut host = HostConfig { publish_all_ports: Some(true), ..HostConfig::default() };
            sort.configure_host(&mut host);
            assert_eq!(host.publish_all_ports, Some(false));
            let bindings = host.port_bindings.unwrap();
            let mut bindings = bindings.into_values().flatten().flatten();
            assert!(bindings.all(|binding| binding.host_ip.as_deref() == Some("127.0.0.1")));
        }
    }
}
