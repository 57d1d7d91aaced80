//! Compares two responses field by field.

use std::collections::BTreeMap;

use schedlab_api::Value;

use crate::case_player::RecordedResponse;

/// A field in which two responses differ.
pub(crate) struct Difference {
    /// `code`, `header NAME` or a path in the body: `.metadata.labels.app`.
    pub(crate) path: String,
    real: Option<String>,
    ours: Option<String>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "(nothing)".to_owned());
        let (real, ours) = (show(&self.real), show(&self.ours));
        write!(f, "{}\n        real     {real}\n        emulator {ours}", self.path)
    }
}

/// All fields in which two responses differ.
pub(crate) fn differences(real: &RecordedResponse, ours: &RecordedResponse) -> Vec<Difference> {
    let (mut real, mut ours) = (flat(real), flat(ours));
    let mut paths: Vec<String> = real.keys().chain(ours.keys()).cloned().collect();
    paths.sort();
    paths.dedup();
    let all = paths.into_iter().map(|path| {
        let (real, ours) = (real.remove(&path), ours.remove(&path));
        Difference { path, real, ours }
    });
    all.filter(|difference| difference.real != difference.ours).collect()
}

fn flat(response: &RecordedResponse) -> BTreeMap<String, String> {
    let mut leaves = BTreeMap::from([("code".to_owned(), response.code.to_string())]);
    for (name, value) in &response.headers {
        leaves.insert(format!("header {name}"), value.clone());
    }
    flatten(&response.body, String::new(), &mut leaves);
    leaves
}

fn flatten(value: &Value, path: String, leaves: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                flatten(field, format!("{path}.{name}"), leaves);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                flatten(item, format!("{path}.{index}"), leaves);
            }
        }
        // Go serializes absent values as null.
        Value::Null => {}
        leaf @ (Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => {
            leaves.insert(path, leaf.to_string());
        }
    }
}
