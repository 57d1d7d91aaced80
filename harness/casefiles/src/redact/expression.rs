//! Replaces the names in CEL expressions over devices: texts in quotes, and names of attributes.

/// Names of the language and of the variables of such expressions.
const LANGUAGE: &[&str] = &[
    "device",
    "driver",
    "attributes",
    "capacity",
    "allowMultipleAllocations",
    "true",
    "false",
    "null",
    "in",
    "has",
    "all",
    "exists",
    "exists_one",
    "map",
    "filter",
    "size",
    "quantity",
    "semver",
    "isSemver",
    "isQuantity",
    "compareTo",
    "isGreaterThan",
    "isLessThan",
    "isEqual",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "lowerAscii",
    "upperAscii",
    "major",
    "minor",
    "patch",
    "cel",
    "bind",
    "int",
    "string",
    "bool",
    "double",
    "uint",
    "orValue",
    "optional",
];

/// The expression with each name replaced by `replace`.
pub(super) fn redact(text: &str, replace: &mut dyn FnMut(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '"' || c == '\'' {
            let inner = rest.get(1..).unwrap_or_default();
            let end = inner.find(c).unwrap_or(inner.len());
            let (literal, after) = inner.split_at(end);
            out.push(c);
            out.push_str(&redact_literal(literal, replace));
            rest = after.strip_prefix(c).map_or(after, |after| {
                out.push(c);
                after
            });
        } else if c.is_ascii_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
            if LANGUAGE.contains(&name) {
                out.push_str(name);
            } else {
                out.push_str(&replace(name));
            }
            rest = after;
        } else {
            out.push(if c.is_ascii() { c } else { '?' });
            rest = rest.strip_prefix(c).unwrap_or_default();
        }
    }
    out
}

fn redact_literal(literal: &str, replace: &mut dyn FnMut(&str) -> String) -> String {
    if super::public::is_plain(literal) {
        return literal.to_owned();
    }
    let parts = literal.split('/').map(replace);
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_attributes_are_replaced_and_the_language_stays() {
        let redacted = |text: &str| redact(text, &mut |name| format!("<{name}>"));
        insta::assert_snapshot!(
            redacted(r#"device.driver == "gpu.acme.com" && device.attributes['gpu.acme.com'].big && device.capacity["acme"].mem.compareTo(quantity("80Gi")) >= 0"#),
            @r#"device.driver == "<gpu.acme.com>" && device.attributes['<gpu.acme.com>'].<big> && device.capacity["<acme>"].<mem>.compareTo(quantity("80Gi")) >= 0"#
        );
    }
}
