//! The actions of a scheduling cycle, one per file.

pub(crate) mod allocate;
pub mod consolidate;
pub mod preempt;
pub mod reclaim;
pub(crate) mod stale_gangs;
