//! A Kubernetes API in memory: API server, kubelets, garbage collector and workload
//! controllers in one process, on a clock that can be virtual. It knows no scheduler.
//!
//! Read downwards: [`clock`] and [`error`] first, then what the API stores ([`store`]), what
//! changes on the way in, who acts on it, and the two doors onto it.

mod admit;
pub mod clock;
pub mod error;
pub mod kinds;
mod names;
pub mod object;
pub mod patch;
pub mod select;
pub mod store;
mod write;

pub mod quantity;

pub mod actors;
pub mod crds;
mod driver;
mod emulator;
pub mod fleet;
mod shared;

pub mod http;
pub mod serve;
pub mod watch;

pub use actors::KubeletDefaults;
pub use emulator::{Emulator, Options, Unsettled};
pub use fleet::{Fleet, FleetError};
pub use http::Router;
pub use serve::{Reach, Server};
pub use shared::{Observer, SharedStore};
