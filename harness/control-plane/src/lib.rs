//! The real etcd, kube-apiserver and kube-controller-manager as processes on the loopback
//! interface: for features that run on them, and for tests that hold us against them. What a
//! process needs to end with its caller is the caller's to say; tests have [`Temporary`].

mod assets;
mod identity;
mod plane;
mod temporary;

pub use assets::{Assets, Missing, PROGRAMS, find};
pub use plane::{ControlPlane, Process, config};
pub use temporary::{Kept, Temporary, assets_for_a_test};
