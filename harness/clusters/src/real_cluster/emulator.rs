//! The emulator in this process, in real time: for schedulers that are programs of their own and
//! cannot follow virtual time. It runs on threads of its own and serves its API on the loopback
//! interface; clients in this process need no socket.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::feature_gates::FeatureGates;
use schedlab_emulator::{Emulator, Options, Server};
use tokio::runtime::Runtime;

/// How long watches can start from a revision in the past, as with kube-apiserver.
const LOG_RETENTION: Duration = Duration::from_mins(5);

/// Controllers that each scenario runs itself, because they create cluster-scoped objects, of which
/// each scenario has its own.
pub(super) const ACTORS_OF_SHARED_EMULATOR: &[&str] = &["gpu-driver"];

/// A running emulator and its server. Both stop when this value is dropped.
#[derive(Debug)]
pub(super) struct EmulatorServer {
    emulator: Emulator,
    server: Server,
    programs: Option<PathBuf>,
    /// Runs the controllers, the kubelets and the server; `None` only while this value is dropped.
    runtime: Option<Runtime>,
}

impl EmulatorServer {
    /// Starts an emulated cluster without nodes. `programs` is a folder that may contain a
    /// scheduler.
    pub(super) fn start(
        feature_gates: FeatureGates,
        programs: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("emulator")
            .enable_all()
            .build()
            .context("cannot start a runtime for the emulator")?;
        let (emulator, server) = runtime.block_on(async {
            let emulator = Emulator::start(Options {
                feature_gates,
                log_retention: Some(LOG_RETENTION),
                replaced_controllers: ACTORS_OF_SHARED_EMULATOR.to_vec(),
                ..Options::with_clock(Clock::real())
            });
            let server = emulator.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
            anyhow::Ok((emulator, server))
        })?;
        Ok(Self { emulator, server, programs, runtime: Some(runtime) })
    }

    /// An administrator's kubeconfig, as YAML.
    pub(super) fn kubeconfig(&self) -> &str {
        &self.server.kubeconfig
    }

    /// A client without a socket, bound to the current runtime.
    pub(super) fn client(&self) -> kube::Client {
        self.emulator.client()
    }

    /// A folder that may contain a scheduler.
    pub(super) fn programs(&self) -> Option<&Path> {
        self.programs.as_deref()
    }
}

impl Drop for EmulatorServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Interrupt, RealCluster};
    use super::*;
    use crate::api::Api;

    #[test]
    fn the_emulator_runs_pods_in_real_time_for_clients_with_and_without_a_socket() {
        let cluster =
            RealCluster::start_emulator(None, FeatureGates::default(), &Interrupt::default())
                .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let inside = Api::new(cluster.cluster_client().unwrap());
            let outside = Api::new(kube::Client::try_from(cluster.config.clone()).unwrap());
            let pod = schedlab_api::json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
            });
            let node = schedlab_api::json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
                "status": {"allocatable": {"cpu": "4", "pods": "9"}},
            });
            inside.post("/api/v1/nodes", &node).await.unwrap();
            inside.post("/api/v1/namespaces/default/pods", &pod).await.unwrap();
            let read = || outside.get("/api/v1/namespaces/default/pods/p");
            while read().await.unwrap()["status"]["phase"] != "Running" {
                tokio::task::yield_now().await;
            }
        });
        assert!(cluster.description().contains("its emulator simulates its nodes"));
        assert_eq!(cluster.close(), Vec::<String>::new());
    }
}
