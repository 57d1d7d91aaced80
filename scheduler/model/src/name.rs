//! Names of objects.

/// A name or label value, shared instead of copied.
pub type Name = std::sync::Arc<str>;
