//! Selectors: by labels ([`LabelSelector`]) and by fields ([`FieldSelector`]).

mod field;
mod label;

pub use field::FieldSelector;
pub use label::{LabelSelector, Requirement};
