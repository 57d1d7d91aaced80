//! Patch tables: an object, a patch, and the result.

mod apply;
mod json;
mod managed;
mod strategic;

use schedlab_api::Value;

/// JSON or YAML, whichever reads better in a table.
fn object(text: &str) -> Value {
    // As in the bodies of requests, `y` is a string.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).unwrap()
}
