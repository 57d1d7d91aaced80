//! Scheduling cases as neutral data: one cluster, the actions to take, and what must have become
//! of every job. They are read, run on the scheduler's core directly (without an API, a clock or
//! a store) and compared. What a case needs and the core does not know yet is said by
//! [`Case::unsupported`]; such cases are not run.

mod build;
mod compare;
mod format;
mod run;

pub use format::{Case, CaseFile};
pub use run::differences;
