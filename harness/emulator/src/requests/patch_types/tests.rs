//! Patch tables: an object, a patch, and the result.

mod apply;
mod json;
mod managed;
mod strategic;

use schedlab_api::Value;

/// JSON or YAML, whichever reads better in a table.
fn object(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap()
}
