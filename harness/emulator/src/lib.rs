//! A Kubernetes API in memory: API server, kubelets, garbage collector and workload
//! controllers in one process, on a clock that can be virtual. It contains no scheduler.
//!
//! The modules build on each other in this order: types of the API ([`kinds`], [`error`]), the
//! object store with its watches ([`store`]), admission, write requests, the HTTP API ([`http`]),
//! kubelets and controllers ([`controllers`]), and the cluster as a whole ([`Emulator`]).
//!
//! A test that drives it:
//!
//! ```
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::Pod;
//! use kube::{Api, api::PostParams};
//! use schedlab_emulator::{Emulator, Fleet, Options, clock::Clock};
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)] // virtual time
//! async fn main() -> anyhow::Result<()> {
//!     let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse()?);
//!     let emulator = Emulator::start(Options::with_clock(clock));
//!     emulator.add_fleet(&Fleet::parse("fleet.yaml", "pools: [{name: gpu, count: 2, gpus: 8}]")?)?;
//!
//!     // Any Kubernetes client works. There is no scheduler, so this test binds the pod itself.
//!     let pods: Api<Pod> = Api::default_namespaced(emulator.client());
//!     let pod = serde_json::json!({
//!         "metadata": { "name": "train" },
//!         "spec": { "nodeName": "gpu-0", "containers": [{ "name": "main", "image": "train" }] },
//!     });
//!     pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
//!
//!     // Waits until nothing was written for a second of virtual time, at most for an hour.
//!     emulator.settle(Duration::from_secs(1), Duration::from_secs(3600)).await?;
//!     let status = pods.get("train").await?.status.unwrap_or_default();
//!     assert_eq!(status.phase.as_deref(), Some("Running"));
//!     Ok(())
//! }
//! ```

mod api_types;
pub mod clock;
pub mod yaml;

pub mod store;

mod admission;
mod requests;

pub mod http;
mod reconcile;

mod kubelet;

pub mod controllers;
pub mod fleet;

mod emulator;

pub use admission::webhooks::client::{ServiceHandler, Webhooks};
pub use api_types::field_selector::FieldSelector;
pub use api_types::kubernetes_version::{KubernetesVersion, UnknownVersion};
pub use api_types::label_selector::{LabelSelector, Requirement};
pub use api_types::third_party_crds::workload_crds;
pub use api_types::{error, feature_gates, kinds};
pub use emulator::{Emulator, Options, SettleTimeout, initial_store};
pub use fleet::{Fleet, FleetError, FleetLocation};
pub use http::Router;
pub use http::serve::{Reach, Server};
pub use reconcile::KubeletDefaults;
pub use store::shared::{Observer, SharedStore};
