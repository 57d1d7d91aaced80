//! Rules for names, label keys and label values, with the API server's texts. Each function returns
//! the violated rules; `None` or an empty list means valid.

/// RFC 1123 label, for instance a namespace or container name.
pub(crate) fn dns_label_violation(name: &str) -> Option<String> {
    if name.len() > 63 {
        return Some("must be no more than 63 characters".to_owned());
    }
    if name.contains('.') && dns_subdomain_violation(name).is_none() {
        return Some("must not contain dots".to_owned());
    }
    (!is_dns_label(name)).then(|| {
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
         and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
         regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    })
}

/// RFC 1123 subdomain: the rule for most object names.
pub(crate) fn dns_subdomain_violation(name: &str) -> Option<String> {
    if name.len() > 253 {
        return Some("must be no more than 253 characters".to_owned());
    }
    let fine = !name.is_empty() && name.split('.').all(is_dns_label);
    (!fine).then(|| {
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
         or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
         used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .to_owned()
    })
}

/// The rule for DNS subdomains that may have upper case letters, such as names of drivers.
pub(crate) const CASELESS_SUBDOMAIN_RULE: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and \
     end with an alphanumeric character (e.g. 'Example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// RFC 1035 label: the rule for service names.
pub(crate) fn dns_1035_label_violation(name: &str) -> Option<String> {
    if name.len() > 63 {
        return Some("must be no more than 63 characters".to_owned());
    }
    let fine = is_dns_label(name) && name.starts_with(|letter: char| letter.is_ascii_lowercase());
    (!fine).then(|| {
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
         an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
         'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    })
}

/// C identifier.
pub(crate) fn c_identifier_violation(name: &str) -> Option<&'static str> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fine =
        name.bytes().all(is_part) && name.bytes().next().is_some_and(|it| !it.is_ascii_digit());
    (!fine).then_some(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of \
         alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used \
         for validation is '[A-Za-z_][A-Za-z0-9_]*')",
    )
}

/// Port name (`IANA_SVC_NAME`).
pub(crate) fn port_name_violations(name: &str) -> Vec<&'static str> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            !name.bytes().all(is_part),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            !name.bytes().any(|byte| byte.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ]
    .into_iter()
    .filter_map(|(is_wrong, rule)| is_wrong.then_some(rule))
    .collect()
}

/// Key of a config map or a secret.
pub(crate) fn config_key_violation(key: &str) -> Option<&'static str> {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.len() > 253 {
        return Some("must be no more than 253 characters");
    }
    match key {
        "." => return Some("must not be '.'"),
        ".." => return Some("must not be '..'"),
        _ if key.starts_with("..") => return Some("must not start with '..'"),
        _ => {}
    }
    (key.is_empty() || !key.chars().all(letter)).then_some(
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
         'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
         '[-._a-zA-Z0-9]+')",
    )
}

fn is_dns_label(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Key of a label, annotation, taint or resource: `[prefix/]name`.
pub(crate) fn qualified_name_violations(key: &str) -> Vec<String> {
    const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
                        and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                        '123-abc', regex used for validation is \
                        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'";
    let (prefix, name) = match key.split('/').collect::<Vec<_>>().as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix), *name),
        _ => {
            return vec![format!(
                "a qualified name {NAME} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName'))"
            )];
        }
    };
    let mut rules = Vec::new();
    match prefix {
        Some("") => rules.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            rules.extend(dns_subdomain_violation(prefix).map(|why| format!("prefix part {why}")));
        }
        None => {}
    }
    if name.is_empty() {
        rules.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        rules.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        rules.push(format!("name part {NAME})"));
    }
    rules
}

/// Percentage, such as `25%`.
pub(crate) fn percentage_violation(text: &str) -> Option<String> {
    let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty());
    let is_share = digits.is_some_and(|digits| digits.bytes().all(|one| one.is_ascii_digit()));
    (!is_share).then(|| {
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
         '93%', regex used for validation is '[0-9]+%')"
            .to_owned()
    })
}

/// Label value.
pub(crate) fn label_value_violation(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    (!value.is_empty() && !is_name(value)).then(|| {
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
         '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
         'my_value',  or '12345', regex used for validation is \
         '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            .to_owned()
    })
}

fn is_name(name: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    outer(bytes.first())
        && outer(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_rfc() {
        assert_eq!(dns_subdomain_violation("web-0.example"), None);
        for name in ["", "Web", "web_0", "-web", "web.", "a..b", "é"] {
            assert!(dns_subdomain_violation(name).is_some(), "{name}");
        }
        assert!(dns_label_violation("a.b").is_some());
        assert!(dns_1035_label_violation("1a").is_some());
        assert!(dns_label_violation(&"a".repeat(64)).is_some());
    }

    #[test]
    fn keys_may_have_a_prefix_and_values_may_be_empty() {
        assert_eq!(qualified_name_violations("nvidia.com/gpu"), [""; 0]);
        assert_eq!(qualified_name_violations("a/b/c").len(), 1);
        assert_eq!(qualified_name_violations("/b"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name_violations("").len(), 2);
        assert_eq!(label_value_violation(""), None);
        assert_eq!(config_key_violation(".a"), None);
        for key in ["", ".", "..", "..a", "a/b", &"a".repeat(254)] {
            assert!(config_key_violation(key).is_some(), "{key}");
        }
        assert!(label_value_violation("a b").is_some());
    }
}
