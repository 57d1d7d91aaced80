//! What else runs on the harness, beside the features: [`simulate`] replays a trace of jobs,
//! [`upgrade`] compares two versions of a scheduler, [`cases`] runs the cases of another project,
//! [`prometheus`] reads the pods of a cluster's past.

pub mod cases;
pub mod prometheus;
pub mod simulate;
pub mod upgrade;
