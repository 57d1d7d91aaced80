//! Renders text for review: where everything runs ([`placement`]) and what happened
//! ([`event_stream`]). The text is the same in every run: it has no uid, revision or wall time, and
//! random name suffixes are replaced by ordinals. Not here: snapshot files and their review
//! (`snapshots`).

mod aliases;
mod canonical;
mod events;
mod normal_form;
mod placement;

pub use canonical::{canonical, canonical_without_shares};
pub use events::event_stream;
pub use normal_form::run_outcome;
pub use placement::{ClusterObjects, FairShares, placement};
