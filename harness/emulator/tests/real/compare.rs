//! What differs between two answers, place by place.

use std::collections::BTreeMap;

use schedlab_json::Value;

use crate::player::Answer;

/// A place in which two answers differ.
pub(crate) struct Difference {
    /// `code`, `header NAME` or a path in the body: `.metadata.labels.app`.
    pub(crate) place: String,
    real: Option<String>,
    ours: Option<String>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "(nothing)".to_owned());
        let (real, ours) = (show(&self.real), show(&self.ours));
        write!(f, "{}\n        real     {real}\n        emulator {ours}", self.place)
    }
}

/// Every place in which two answers differ.
pub(crate) fn differences(real: &Answer, ours: &Answer) -> Vec<Difference> {
    let (mut real, mut ours) = (flat(real), flat(ours));
    let mut places: Vec<String> = real.keys().chain(ours.keys()).cloned().collect();
    places.sort();
    places.dedup();
    let all = places.into_iter().map(|place| {
        let (real, ours) = (real.remove(&place), ours.remove(&place));
        Difference { place, real, ours }
    });
    all.filter(|difference| difference.real != difference.ours).collect()
}

fn flat(answer: &Answer) -> BTreeMap<String, String> {
    let mut places = BTreeMap::from([("code".to_owned(), answer.code.to_string())]);
    for (name, value) in &answer.headers {
        places.insert(format!("header {name}"), value.clone());
    }
    flatten(&answer.body, String::new(), &mut places);
    places
}

fn flatten(value: &Value, path: String, places: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                flatten(field, format!("{path}.{name}"), places);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                flatten(item, format!("{path}.{index}"), places);
            }
        }
        // Go writes null where others leave the field out.
        Value::Null => {}
        leaf @ (Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => {
            places.insert(path, leaf.to_string());
        }
    }
}
