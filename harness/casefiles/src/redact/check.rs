//! The proof of a redaction: no word of the original is left.

use std::{collections::BTreeSet, fmt};

use schedlab_api::{Value, json};

use super::public;
use crate::Case;

/// Which words of the original are left in a redacted case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedactionCheck {
    /// Number of distinct words of the original that are not public.
    pub private_words: usize,
    /// Those that are left.
    pub left: BTreeSet<String>,
}

impl fmt::Display for RedactionCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { private_words, left } = self;
        if left.is_empty() {
            return write!(f, "none of {private_words} words of the original is left");
        }
        let shown: Vec<&str> = left.iter().take(20).map(String::as_str).collect();
        let more = if left.len() > shown.len() { ", …" } else { "" };
        write!(
            f,
            "{} of {private_words} words of the original are left: {}{more}",
            left.len(),
            shown.join(", ")
        )
    }
}

/// Looks for words of the original in the redacted case: in names, values and keys of all fields,
/// events, settings and the manifest. Words of public APIs are not looked for.
pub fn check_redaction(original: &Case, redacted: &Case) -> RedactionCheck {
    let private: BTreeSet<String> = private_words(original);
    let left = private_words(redacted);
    let left = left.intersection(&private).cloned().collect();
    RedactionCheck { private_words: private.len(), left }
}

/// The words of a case that are not public.
fn private_words(case: &Case) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for (array, objects) in &case.cluster.objects {
        collect(&Value::from(array.as_str()), &mut words);
        for object in objects {
            collect(object, &mut words);
        }
    }
    for object in case.events.iter().chain(case.changes.iter().map(|change| &*change.object)) {
        collect(object, &mut words);
    }
    let cluster = &case.cluster;
    for settings in
        [&cluster.config, &cluster.scheduler_params, &cluster.schedlab, &cluster.discovery]
    {
        collect(settings, &mut words);
    }
    let manifest = &case.manifest;
    collect(&json!([manifest.shows, manifest.kubernetes]), &mut words);
    for image in &manifest.scheduler_images {
        collect(&Value::from(image.as_str()), &mut words);
    }
    words
}

fn collect(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => collect_text(text, words),
        Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        Value::Object(map) => {
            for (key, value) in map {
                collect_text(key, words);
                collect(value, words);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn collect_text(text: &str, words: &mut BTreeSet<String>) {
    for word in public::words(text) {
        let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
        if !public::is_public_word(word) && !public::is_public_word(stem) && !words.contains(word) {
            words.insert(word.to_owned());
        }
    }
}
