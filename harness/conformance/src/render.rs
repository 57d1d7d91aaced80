//! Renders text for review: where everything runs ([`placement_text`]) and what happened
//! ([`event_stream`]). The text is the same in every run: it has no uid, revision or wall time, and
//! random name suffixes are replaced by ordinals. Not here: snapshot files and their review
//! (`snapshots`).

pub(crate) mod aliases;
mod events;
mod placement;

pub use events::event_stream;
pub(crate) use events::{eviction_causes, eviction_word};
pub use placement::{ClusterObjects, FairShares, placement_text};
