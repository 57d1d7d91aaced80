//! What provides a cluster, and thereby whether the cluster ends with the run.

use schedlab_control_plane::ControlPlane;

use super::container::Container;
use super::kind::KindCluster;
use crate::process::ChildProcess;

/// The provider of a cluster.
#[derive(Debug)]
pub(super) enum Provider {
    /// Processes of ours: the cluster ends with them.
    ControlPlane(Box<ControlPlane<ChildProcess>>),
    /// A container of ours: the cluster ends with it.
    Container(Box<Container>),
    /// kind.
    Kind(KindCluster),
    /// Not ours: the cluster existed before the run.
    Existing,
}

impl Provider {
    /// Whether the cluster is our own image, an emulator.
    pub(super) fn is_emulator(&self) -> bool {
        matches!(self, Self::Container(container) if container.is_emulator())
    }

    /// Fails if a process of our control plane has ended.
    pub(super) fn check_alive(&mut self) -> anyhow::Result<()> {
        let Self::ControlPlane(control_plane) = self else { return Ok(()) };
        control_plane.check_running()
    }
}
