//! What Kubernetes takes as a name.

/// What a scheduler may be called: it signs its events, and manages fields, under that name.
pub const SCHEDULER_NAME: &str =
    "1 to 63 letters, digits, -, _ and ., a letter or digit first and last";

/// What an object of most kinds, as a lease, may be called.
pub const OBJECT_NAME: &str = "1 to 253 lower case letters, digits, - and ., a letter or digit at \
                               both ends of what is between dots";

/// What may stand in a label.
pub const LABEL_VALUE: &str = "nothing, or 1 to 63 letters, digits, -, _ and ., a letter or digit \
                               first and last";

/// What a label may be called.
pub const LABEL_KEY: &str = "the name of a label, with or without its domain and / before it";

/// Whether a scheduler may be called so.
pub fn is_scheduler_name(name: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
    let is_one = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    name.len() <= 63
        && is_end(name.chars().next())
        && is_end(name.chars().last())
        && name.chars().all(is_one)
}

/// Whether an object may be called so.
pub fn is_object_name(name: &str) -> bool {
    let is_end =
        |end: Option<char>| end.is_some_and(|end| end.is_ascii_digit() || end.is_ascii_lowercase());
    let is_part = |part: &str| {
        let is_one = |one: char| is_end(Some(one)) || one == '-';
        is_end(part.chars().next()) && is_end(part.chars().last()) && part.chars().all(is_one)
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

/// Whether it may stand in a label.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_scheduler_name(value)
}

/// Whether a label may be called so.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, name)) => is_object_name(domain) && is_scheduler_name(name),
        None => is_scheduler_name(key),
    }
}

/// As the value of a flag.
pub fn scheduler_name(name: &str) -> Result<String, String> {
    if is_scheduler_name(name) {
        return Ok(name.to_owned());
    }
    Err(format!("allowed: {SCHEDULER_NAME}"))
}

/// As the value of a flag.
pub fn object_name(name: &str) -> Result<String, String> {
    if is_object_name(name) {
        return Ok(name.to_owned());
    }
    Err(format!("allowed: {OBJECT_NAME}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_an_api_server_takes() {
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
