//! Recorded scheduling cases in a neutral JSON format: a cluster, the actions to run and the
//! expected outcome of every job; and single decisions with their inputs. They run on the
//! scheduler's core directly, without API, clock or store. A case that the core does not support,
//! or in which it differs on purpose, is not applicable, with a reason. Cases with rounds run a
//! second time through the whole scheduler on an emulated cluster.

mod build;
mod compare;
mod decisions;
mod e2e;
mod expected_failures;
mod folder;
mod format;
mod read;
mod report;
mod run;
#[cfg(test)]
mod test_case;

pub use folder::run_folder;
pub use report::{CaseResult, FileReport, Report, Verdict, VerdictCounts};
