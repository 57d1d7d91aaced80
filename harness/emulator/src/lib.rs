//! A Kubernetes API in memory: API server, kubelets, garbage collector and workload
//! controllers in one process, on a clock that can be virtual. It contains no scheduler.
//!
//! The modules build on each other in this order: shared types, the object store ([`store`]),
//! admission and writes, shared access, the HTTP API, the controllers ([`controllers`]), and the
//! cluster as a whole ([`Emulator`]).

pub mod clock;
pub mod error;
mod expression;
mod kubelet_timing;
mod names;
pub mod object;
mod pod_requests;
pub mod quantity;
pub mod yaml;

pub mod kinds;
pub mod select;
pub mod store;

mod quota;
mod watch_notifier;

mod admission;
pub mod patch;
mod webhook_matching;
mod write;

mod shared;

pub mod webhook_client;

pub mod http;
pub mod serve;
pub mod watch;

mod controller_manager;
pub mod controllers;
pub mod fleet;
pub mod remote_controllers;
pub mod third_party_crds;

mod emulator;

pub use admission::NOT_READY;
pub use controllers::{KubeletDefaults, NODE_DOWN};
pub use emulator::{Emulator, Options, SettleTimeout, initial_store};
pub use fleet::{Fleet, FleetError, FleetLocation};
pub use http::Router;
pub use serve::{Reach, Server};
pub use shared::{Observer, SharedStore};
pub use webhook_client::{ServiceHandler, Webhooks};
