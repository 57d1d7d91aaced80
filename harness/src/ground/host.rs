//! What keeps a cluster alive, and goes when a run ends or stays.

use schedlab_control_plane::ControlPlane;

use super::container::Container;
use super::kind::Kind;
use crate::processes::Kept;

/// What keeps a cluster alive.
#[derive(Debug)]
pub(super) enum Host {
    /// Processes of ours: it goes with them.
    Processes(Box<ControlPlane<Kept>>),
    /// A container of ours: it goes with it.
    Container(Box<Container>),
    /// kind.
    Kind(Kind),
    /// Somebody else.
    Others,
}

impl Host {
    /// Whether it is our own image: an emulator.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Container(container) if container.is_ours())
    }

    /// Says which process of ours has ended that belongs to it, if one has.
    pub(super) fn alive(&mut self) -> anyhow::Result<()> {
        let Self::Processes(plane) = self else { return Ok(()) };
        plane.alive()
    }
}
