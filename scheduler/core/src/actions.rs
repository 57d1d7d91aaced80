//! What a cycle does, one file an action.

pub(crate) mod allocate;
pub(crate) mod consolidate;
pub(crate) mod preempt;
pub(crate) mod reclaim;
pub(crate) mod stale_gangs;
