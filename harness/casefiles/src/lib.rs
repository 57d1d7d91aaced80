//! Case files: a customer's cluster in one file, for support engineers. [`read`] reads the
//! files of a customer, [`capture`] reads a live cluster, [`redact`] replaces every name,
//! [`audit`] judges decisions,
//! [`minimise`] keeps what a claim needs, and [`feature`] writes the rest as a feature. Decisions
//! come from [`schedlab_scheduler`]; this crate knows no emulator and runs no feature.

pub mod audit;
pub mod capture;
mod case;
pub mod change;
mod doc_string;
pub mod feature;
mod history;
mod kinds;
pub mod minimise;
mod pod_spec;
pub mod predicate;
pub mod read;
pub mod redact;
mod restore;
pub mod session;

pub use case::{Case, CaseError, FORMAT, Manifest};
pub use history::History;
pub use kinds::{CaseKind, KINDS, kind_of};
