//! Room for one trial.

use super::Wanted;
use crate::{model::ShapeId, resources::Resources, session::Session};

/// What a shape of the job asks for, and on which nodes its pods may run, whoever leaves.
pub(super) fn about<'s>(
    session: &Session<'s>,
    wanted: &Wanted,
    shape: ShapeId,
) -> (&'s Resources, Vec<bool>) {
    let of_shape = wanted.pods.iter().find(|pod| session.pod(**pod).shape == shape);
    let eligible = session.eligible_nodes(*of_shape.expect("shapes asked about are the job's"));
    (&session.snapshot.shapes[shape.0 as usize].requests, eligible)
}
