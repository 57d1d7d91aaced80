//! What else runs on the harness, beside the features: [`simulate`] replays a trace of jobs,
//! [`upgrade`] compares two versions of a scheduler, [`cases`] runs the cases of another project,
//! [`whatif`] tells what a change of a captured cluster would do.

pub mod cases;
pub mod simulate;
pub mod upgrade;
pub mod whatif;
