//! The actions of a scheduling cycle, one per file.

pub(crate) mod allocate;
pub(crate) mod consolidate;
pub(crate) mod preempt;
pub(crate) mod reclaim;
pub(crate) mod stale_gangs;
