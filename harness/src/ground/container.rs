//! A cluster in one container: our own image, k3s, or kwok's cluster image.
//!
//! Docker's own program is asked, as for kind. testcontainers 0.28 speaks the API of Docker 29 and
//! nothing older, so Debian's daemon refuses it, and it leaves orphans behind when it is killed.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::time::Instant;

use crate::interrupt::Interrupt;
use crate::leftovers::{Run, Thing};
use crate::target::Which;
use crate::tools::Tool;

/// How long it may take to answer.
const READY_WITHIN: Duration = Duration::from_mins(2);
/// How often it is asked.
const ASK: Duration = Duration::from_millis(200);

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

    /// For `docker run`, before the image.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Ours | Self::Kwok => &[],
            Self::K3s => &["--privileged", "--tmpfs", "/run", "--tmpfs", "/var/run"],
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

/// A container that runs.
#[derive(Debug)]
pub(super) struct Container {
    id: String,
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
        Tool::daemon().await?;
        run.note(Thing::Docker)?;
        tell(&format!("starting a container of {image}"));
        let (label, publish) = (run.label(), format!("127.0.0.1::{}", sort.port()));
        let mut args = vec!["run", "--detach", "--label", &label, "--publish", &publish];
        args.extend(sort.options());
        args.push(image);
        args.extend(sort.arguments());
        if sort == Sort::Ours && scheduler.installed().is_none() {
            args.push("--no-scheduler");
        }
        // An image that is not here yet may take minutes to come.
        let id = interrupt.unless(Tool::Docker.wait(&args, &[run.mark()])).await?.trim().to_owned();
        Ok(Self { id, sort })
    }

    /// Waits until it answers; how to reach it as an administrator, and its version.
    pub(super) async fn ready(&self) -> anyhow::Result<(kube::Config, String)> {
        let end = Instant::now() + READY_WITHIN;
        loop {
            let why = match self.try_it().await {
                Ok(answered) => return Ok(answered),
                Err(error) => error,
            };
            let runs = Tool::Docker.run(&["inspect", "-f", "{{.State.Running}}", &self.id])?;
            anyhow::ensure!(runs.trim() == "true", "the container ended: {}", self.last_words());
            if Instant::now() > end {
                let words = self.last_words();
                return Err(why
                    .context(format!("the container was not ready in {READY_WITHIN:?}: {words}")));
            }
            tokio::time::sleep(ASK).await;
        }
    }

    async fn try_it(&self) -> anyhow::Result<(kube::Config, String)> {
        let port = format!("{}/tcp", self.sort.port());
        let bound = Tool::Docker.run(&["port", &self.id, &port])?;
        let bound = bound.lines().next().context("its port is not published yet")?.to_owned();
        let config = match self.sort {
            Sort::Kwok => kube::Config::new(format!("http://{bound}").parse()?),
            Sort::Ours => {
                let text = Tool::Docker.run(&["logs", &self.id])?;
                with_server(&text, &bound).await?
            }
            Sort::K3s => {
                let file = "/etc/rancher/k3s/k3s.yaml";
                let text = Tool::Docker.run(&["exec", &self.id, "cat", file])?;
                with_server(&text, &bound).await?
            }
        };
        let version = super::api(&config)?.get("/version").await?;
        Ok((config, version["gitVersion"].as_str().unwrap_or("unknown").to_owned()))
    }

    fn last_words(&self) -> String {
        let said = Tool::Docker.run_for_all(&["logs", "--tail", "5", &self.id]);
        said.map_or_else(|error| error.to_string(), |said| said.trim().replace('\n', " | "))
    }

    /// Whether kinds of the scheduler are in it already, and nodes' lives are played in it.
    pub(super) fn is_ours(&self) -> bool {
        self.sort == Sort::Ours
    }

    /// Whether it has nodes of its own, with daemons on them.
    pub(super) fn has_nodes(&self) -> bool {
        self.sort == Sort::K3s
    }

    /// Writes what it said into a folder.
    pub(super) fn export_logs(&self, folder: &Path) -> anyhow::Result<()> {
        let said = Tool::Docker.run_for_all(&["logs", &self.id])?;
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(folder.join("container.log"), said))
            .with_context(|| format!("cannot write into {}", folder.display()))
    }
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
}
