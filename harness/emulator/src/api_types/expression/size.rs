//! How large the parts of an object may be, by its schema: what the cost estimate of an expression
//! is based on. A part without a limit is as large as the largest request allows.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The size of the largest request.
pub(crate) const REQUEST_BYTES_MAX: u64 = 3 << 20;

/// The maximum size of a part of an object, and of its own parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredSize {
    /// The maximum number of items, entries or characters.
    pub(crate) elements_max: u64,
    /// The minimum length of its JSON.
    pub(crate) encoded_min: u64,
    pub(crate) fields: BTreeMap<String, Arc<DeclaredSize>>,
    /// Fields of any other name.
    pub(crate) other_field: Option<Arc<DeclaredSize>>,
    /// Items of a list, or values of a map.
    pub(crate) element: Option<Arc<DeclaredSize>>,
    /// Keys of a map.
    pub(crate) key: Option<Arc<DeclaredSize>>,
}

impl DeclaredSize {
    /// A part without parts.
    pub(crate) fn scalar(elements_max: u64, encoded_min: u64) -> Self {
        Self { elements_max, encoded_min, ..Self::default() }
    }

    /// The number of times that the part fits into a request.
    pub(crate) fn cardinality_max(&self) -> u64 {
        REQUEST_BYTES_MAX / (self.encoded_min + 1)
    }
}
