//! The text formats of declarative validation, with the API server's texts.

use crate::api_types::names;

/// A format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// An RFC 1123 label.
    ShortName,
    /// An RFC 1123 subdomain.
    LongName,
    /// A segment of an URL path.
    PathSegment,
    LabelKey,
}

impl Format {
    /// The rules that a text violates.
    pub(super) fn violations(self, text: &str) -> Vec<String> {
        match self {
            Self::ShortName => names::dns_label_violation(text).map(in_bytes).into_iter().collect(),
            Self::LongName => {
                names::dns_subdomain_violation(text).map(in_bytes).into_iter().collect()
            }
            Self::PathSegment => path_segment_violations(text),
            Self::LabelKey => label_key_violations(text),
        }
    }
}

/// Declarative validation counts bytes where the other validation names characters.
fn in_bytes(rule: String) -> String {
    if rule.starts_with("must be no more than") {
        rule.replace("characters", "bytes")
    } else {
        rule
    }
}

fn path_segment_violations(text: &str) -> Vec<String> {
    if [".", ".."].contains(&text) {
        return vec![format!("may not be '{text}'")];
    }
    let forbidden = ["/", "%"].into_iter().filter(|part| text.contains(part));
    forbidden.map(|part| format!("may not contain '{part}'")).collect()
}

fn label_key_violations(text: &str) -> Vec<String> {
    let rules = names::qualified_name_violations(text);
    let reworded = rules.into_iter().map(|rule| {
        rule.replacen("a qualified name must", "a valid label key must", 1).replacen(
            "'example.com/MyName'))",
            "'example.com/MyName')",
            1,
        )
    });
    reworded.collect()
}
