//! Texts that a person reviews: where everything runs ([`placement`]), and what happened
//! ([`event_stream`]). Stable from run to run: no uid, revision or wall time, and made-up name
//! endings are replaced by ordinals. Files and their review are not here.

mod comparable;
mod events;
mod ordinals;
mod placement;
mod symmetric;

pub use comparable::showing;
pub use events::event_stream;
pub use placement::{Cluster, FairShares, placement};
pub use symmetric::{symmetric, symmetric_but_shares};
