//! A Kubernetes API in memory: API server, kubelets, garbage collector and workload
//! controllers in one process, on a clock that can be virtual. It knows no scheduler.
//!
//! Read downwards: what everything speaks of, what the API stores ([`store`]), what changes it on
//! the way in, how many share it, the two doors onto it, who acts on it ([`actors`]), and the
//! whole ([`Emulator`]).

pub mod clock;
pub mod error;
mod expression;
mod names;
pub mod object;
mod pace;
pub mod quantity;
mod requests;
pub mod yaml;

pub mod kinds;
pub mod select;
pub mod store;

mod listener;
mod quota;

mod admit;
mod hooks;
pub mod patch;
mod write;

mod shared;

pub mod calls;

pub mod http;
pub mod serve;
pub mod watch;

pub mod actors;
pub mod crds;
mod driver;
pub mod fleet;
pub mod remote;

mod emulator;

pub use actors::{DOWN, KubeletDefaults};
pub use admit::NOT_READY;
pub use calls::{Service, Webhooks};
pub use emulator::{Emulator, Options, Unsettled, beginning};
pub use fleet::{Fleet, FleetError, FleetPlace};
pub use http::Router;
pub use serve::{Reach, Server};
pub use shared::{Observer, SharedStore};
