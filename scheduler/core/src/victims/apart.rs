//! A job of which no two pods can be in one place, as far as the search is concerned: it needs as
//! many places with room as it has pods, and room for one in each.

use std::collections::BTreeSet;

use super::{Rooms, Unit, Wanted};
use crate::{
    model::{NodeId, ShapeId},
    session::Session,
};

/// The places, and which of them have room for a pod.
pub(crate) struct Apart {
    shape: ShapeId,
    /// By node.
    places: Vec<usize>,
    open: BTreeSet<usize>,
    needed: usize,
}

impl Apart {
    /// `None`: pods of the job may be together, or are not all alike.
    pub(super) fn of(session: &Session<'_>, rooms: &Rooms, wanted: &Wanted) -> Option<Self> {
        let shape = session.pod(*wanted.pods.first()?).shape;
        if wanted.pods.iter().any(|pod| session.pod(*pod).shape != shape) {
            return None;
        }
        let places = session.places_apart(&wanted.pods)?;
        let open = rooms.nodes(shape).iter().map(|node| places[node.0 as usize]).collect();
        Some(Self { shape, places, open, needed: wanted.pods.len() })
    }

    /// This unit is imagined gone.
    pub(super) fn note_gone(&mut self, rooms: &Rooms, unit: &Unit) {
        for (_, node) in &unit.pods {
            if rooms.on(self.shape, *node) > 0 {
                self.open.insert(self.place_of(*node));
            }
        }
    }

    /// Each pod finds a place of its own.
    pub(super) fn suffices(&self) -> bool {
        self.open.len() >= self.needed
    }

    pub(super) fn place_of(&self, node: NodeId) -> usize {
        self.places[node.0 as usize]
    }
}
