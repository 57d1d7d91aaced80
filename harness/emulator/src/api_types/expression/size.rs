//! How large the parts of an object may be, by its schema: what the cost estimate of an expression
//! is based on. A part without a limit is as large as the largest request allows.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum size of a request, in bytes.
pub(crate) const REQUEST_BYTES_MAX: u64 = 3 << 20;

/// The maximum size of a value (an object, or a part of it), and the sizes of its parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredSize {
    /// The maximum number of items, entries or characters of the value.
    pub(crate) elements_max: u64,
    /// The minimum length of the value's JSON text.
    pub(crate) encoded_min: u64,
    pub(crate) fields: BTreeMap<String, Arc<DeclaredSize>>,
    /// The size of fields that are not in `fields`.
    pub(crate) other_field: Option<Arc<DeclaredSize>>,
    /// The size of the items of a list, or of the values of a map.
    pub(crate) element: Option<Arc<DeclaredSize>>,
    /// The size of the keys of a map.
    pub(crate) key: Option<Arc<DeclaredSize>>,
}

impl DeclaredSize {
    /// The size of a value without parts, such as a string.
    pub(crate) fn scalar(elements_max: u64, encoded_min: u64) -> Self {
        Self { elements_max, encoded_min, ..Self::default() }
    }

    /// How many of these values fit into one request, at most.
    pub(crate) fn cardinality_max(&self) -> u64 {
        REQUEST_BYTES_MAX / (self.encoded_min + 1)
    }
}
