//! Skeleton.

pub mod audit;
pub mod happenings;
pub mod quantity;
pub mod snapshots;
