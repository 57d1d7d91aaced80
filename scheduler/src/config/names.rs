//! Name rules of the Kubernetes API, for validation and messages.

/// Rule for scheduler names, which are also used as event source and field manager.
pub const SCHEDULER_NAME_RULE: &str =
    "1 to 63 letters, digits, -, _ or ., starting and ending with a letter or digit";

/// Rule for object names of most kinds, such as Lease (DNS subdomain).
pub const OBJECT_NAME_RULE: &str = "1 to 253 lower-case letters, digits, - or ., each dot-separated \
                                    part starting and ending with a letter or digit";

/// Rule for label values.
pub const LABEL_VALUE_RULE: &str = "an empty value, or 1 to 63 letters, digits, -, _ or ., starting \
                                    and ending with a letter or digit";

/// Rule for label keys.
pub const LABEL_KEY_RULE: &str = "a label key, with or without a domain prefix and /";

/// Whether the name is a valid scheduler name.
pub fn is_scheduler_name(name: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
    let is_one = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    name.len() <= 63
        && is_end(name.chars().next())
        && is_end(name.chars().last())
        && name.chars().all(is_one)
}

/// Whether the name is a valid object name.
pub fn is_object_name(name: &str) -> bool {
    let is_end =
        |end: Option<char>| end.is_some_and(|end| end.is_ascii_digit() || end.is_ascii_lowercase());
    let is_part = |part: &str| {
        let is_one = |one: char| is_end(Some(one)) || one == '-';
        is_end(part.chars().next()) && is_end(part.chars().last()) && part.chars().all(is_one)
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

/// Whether the text is a valid label value.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_scheduler_name(value)
}

/// Whether the text is a valid label key.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, name)) => is_object_name(domain) && is_scheduler_name(name),
        None => is_scheduler_name(key),
    }
}

/// Parses a scheduler name that is the value of a command line flag.
///
/// # Errors
///
/// The rule that the name breaks.
pub fn parse_scheduler_name(name: &str) -> Result<String, String> {
    if is_scheduler_name(name) {
        return Ok(name.to_owned());
    }
    Err(format!("expected {SCHEDULER_NAME_RULE}"))
}

/// Parses an object name that is the value of a command line flag.
///
/// # Errors
///
/// The rule that the name breaks.
pub fn parse_object_name(name: &str) -> Result<String, String> {
    if is_object_name(name) {
        return Ok(name.to_owned());
    }
    Err(format!("expected {OBJECT_NAME_RULE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_the_api_server() {
        for name in ["kai-scheduler", "my_sched", "a.B-3", "x", &"a".repeat(63)] {
            assert!(is_scheduler_name(name), "{name}");
        }
        for name in ["", "My Sched", "-a", "a-", "a/b", "ä", &"a".repeat(64)] {
            assert!(!is_scheduler_name(name), "{name}");
        }
        assert!(is_object_name("a.b-c.3") && is_object_name(&"a".repeat(253)));
        for name in ["", "a b", "A", "a..b", "a_b", "-a", &"a".repeat(254)] {
            assert!(!is_object_name(name), "{name}");
        }
        assert!(is_label_value("") && is_label_value("a100") && !is_label_value("a b"));
        assert!(is_label_key("kai.scheduler/node-pool") && is_label_key("pool"));
        assert!(!is_label_key("a/b/c") && !is_label_key("/b") && !is_label_key("a/"));
    }
}
