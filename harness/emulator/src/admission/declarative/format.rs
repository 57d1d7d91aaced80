//! The text formats of declarative validation, with the API server's texts.

use crate::api_types::names;

const POOL_BYTES_MAX: usize = 253;
const DOMAIN_BYTES_MAX: usize = 63;
const IDENTIFIER_BYTES_MAX: usize = 32;

/// A format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// An RFC 1123 label.
    ShortName,
    /// An RFC 1123 subdomain.
    LongName,
    /// An RFC 1123 subdomain that may have upper case letters.
    LongNameCaseless,
    /// A segment of an URL path.
    PathSegment,
    LabelKey,
    Uuid,
    /// Subdomains separated by slashes.
    PoolName,
    /// A name of a resource that only device classes define.
    ExtendedResource,
    /// A domain and a C identifier.
    FullyQualifiedName,
}

/// A violation of a format.
pub(super) enum Violation {
    Invalid(String),
    /// A part of the text is invalid: the part, and the rule.
    InvalidPart(String, String),
    /// The text is longer than this number of bytes.
    TooLong(usize),
}

impl Format {
    /// The format with a name of `rules.txt`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "short-name" => Self::ShortName,
            "long-name" => Self::LongName,
            "long-name-caseless" => Self::LongNameCaseless,
            "path-segment" => Self::PathSegment,
            "label-key" => Self::LabelKey,
            "uuid" => Self::Uuid,
            "pool-name" => Self::PoolName,
            "extended-resource" => Self::ExtendedResource,
            "fully-qualified-name" => Self::FullyQualifiedName,
            _ => return None,
        })
    }

    /// The violations of a text.
    pub(super) fn violations(self, text: &str) -> Vec<Violation> {
        let rules = match self {
            Self::ShortName => names::dns_label_violation(text).map(in_bytes).into_iter().collect(),
            Self::LongName => long_name_violation(text).into_iter().collect(),
            Self::LongNameCaseless => caseless_violation(text).into_iter().collect(),
            Self::PathSegment => path_segment_violations(text),
            Self::LabelKey => label_key_violations(text),
            Self::Uuid => uuid_violation(text).into_iter().collect(),
            Self::PoolName => return pool_name_violations(text),
            Self::ExtendedResource => extended_resource_violations(text),
            Self::FullyQualifiedName => return fully_qualified_violations(text),
        };
        rules.into_iter().map(Violation::Invalid).collect()
    }
}

fn long_name_violation(text: &str) -> Option<String> {
    names::dns_subdomain_violation(text).map(in_bytes)
}

fn caseless_violation(text: &str) -> Option<String> {
    let rule = long_name_violation(&text.to_lowercase())?;
    let rule = rule.replacen("a lowercase RFC 1123", "an RFC 1123", 1);
    let rule = rule.replacen("lower case alphanumeric", "alphanumeric", 1);
    Some(rule.replacen("'example.com'", "'Example.com'", 1))
}

fn uuid_violation(text: &str) -> Option<String> {
    let is_hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_valid = text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => is_hexadecimal(byte),
        });
    (!is_valid).then(|| "must be a lowercase UUID in 8-4-4-4-12 format".to_owned())
}

fn pool_name_violations(text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    if text.len() > POOL_BYTES_MAX {
        violations.push(Violation::TooLong(POOL_BYTES_MAX));
    }
    for (index, part) in text.split('/').enumerate() {
        if part.is_empty() {
            violations.push(Violation::Invalid(format!("segment {index}: must not be empty")));
        } else if let Some(rule) = long_name_violation(part) {
            let rule = format!("segment {index}: {rule}");
            violations.push(Violation::InvalidPart(part.to_owned(), rule));
        }
    }
    violations
}

fn extended_resource_violations(text: &str) -> Vec<String> {
    let mut rules = Vec::new();
    if !text.contains('/') {
        let rule = "a name must be a domain-prefixed path, such as 'example.com/my-prop'";
        rules.push(rule.to_owned());
    } else if text.contains("kubernetes.io/") {
        rules.push("must not have \"kubernetes.io/\" domain".to_owned());
    }
    if text.starts_with("requests.") {
        rules.push("must not have \"requests.\" prefix".to_owned());
    }
    rules.extend(label_key_violations(&format!("requests.{text}")));
    rules
}

fn fully_qualified_violations(text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let part = |part: &str, rule: &str| Violation::InvalidPart(part.to_owned(), rule.to_owned());
    let identifier = |violations: &mut Vec<Violation>, name: &str| {
        if name.len() > IDENTIFIER_BYTES_MAX {
            violations.push(Violation::TooLong(IDENTIFIER_BYTES_MAX));
        }
        violations.extend(names::c_identifier_violation(name).map(|rule| part(name, rule)));
    };
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => identifier(&mut violations, name),
        [prefix, name] => {
            if prefix.is_empty() {
                violations.push(part("", "prefix must not be empty"));
            } else {
                if prefix.len() > DOMAIN_BYTES_MAX {
                    violations.push(Violation::TooLong(DOMAIN_BYTES_MAX));
                }
                let rule = long_name_violation(prefix).map(|rule| format!("prefix: {rule}"));
                violations.extend(rule.map(|rule| part(prefix, &rule)));
            }
            if name.is_empty() {
                violations.push(part("", "name must not be empty"));
            } else {
                identifier(&mut violations, name);
            }
        }
        _ => {}
    }
    if !text.contains('/') {
        let rule = "a fully qualified name must be a domain and a name separated by a slash";
        violations.push(Violation::Invalid(rule.to_owned()));
    }
    violations
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
        rule.replacen("a qualified name must", "a valid label key must", 1)
            .replacen("[A-Za-z0-9]' with", "[A-Za-z0-9]') with", 1)
            .replacen("'example.com/MyName'))", "'example.com/MyName')", 1)
    });
    reworded.collect()
}
