//! What else runs on the harness, beside the features: [`simulate`] replays a trace of jobs,
//! [`compare`] replays it with two policies, both as an [`experiment`]; [`upgrade`] compares two
//! versions of a scheduler, [`cases`] runs the cases of another project, [`whatif`] tells what a
//! change of a captured cluster would do, [`prometheus`] reads the pods of a cluster's past.

pub mod cases;
pub mod compare;
pub mod experiment;
mod inputs;
mod palette;
mod plots;
pub mod prometheus;
pub mod simulate;
pub mod upgrade;
pub mod whatif;
