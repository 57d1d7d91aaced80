//! Compares runs of the same scenarios: texts and outcomes in a normal form, their differences, and
//! an earlier run as baseline.

mod baseline;
mod canonical;
mod diff;
mod expected_differences;
mod normal_form;

pub use baseline::Baseline;
pub(crate) use canonical::{canonical_text, canonical_text_without_shares};
pub use diff::{CaseDiff, Difference, EventOrder, RunDiff, diff_reports, diff_text};
pub use expected_differences::ExpectedDifferences;
pub(crate) use normal_form::run_outcome;
