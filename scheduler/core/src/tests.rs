//! Tables of whole cycles, by area.

mod amounts;
mod auditor;
mod claims;
mod consolidate;
mod explained;
mod gangs;
mod judged;
mod kube;
mod limits;
mod mig;
mod numa;
mod parts;
mod placement;
mod preempt;
mod properties;
mod queue_audit;
mod random;
mod reclaim;
mod remedies;
mod restraint;
mod scores;
mod stale;
mod steady;
mod time;
mod topology;
mod volumes;
