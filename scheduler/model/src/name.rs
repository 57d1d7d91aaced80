//! Names of objects.

/// A name or label value; clones share the text.
pub type Name = std::sync::Arc<str>;
