//! Runs the real etcd, kube-apiserver and kube-controller-manager as processes on the loopback
//! interface: for features that run on a real control plane, and for tests that compare the
//! emulator with it. The caller provides processes that end with it; tests use
//! [`TemporaryControlPlane`].

mod assets;
mod identity;
mod plane;
mod temporary;

pub use assets::{Assets, MissingPrograms, PROGRAMS, VERSIONS, built_folder, find_assets};
pub use plane::{ControlPlane, FeatureGateArguments, Process, client_config};
pub use temporary::{ChildProcess, TemporaryControlPlane, test_assets};
