//! JSON paths such as `.spec.tasks['a.b']` in a schema.

use schedlab_api::{Value, object::map};

/// Whether a JSON path may contain keys in brackets, as in `.a['b']`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BracketKeys {
    Allowed,
    Rejected,
}

/// Resolves a JSON path in a schema: the names in the path, and the schema of the field.
///
/// # Errors
///
/// The reason why the path is not valid in this schema.
pub(crate) fn resolve_json_path<'s>(
    path: &str,
    schema: &'s Value,
    brackets: BracketKeys,
) -> Result<(Vec<String>, &'s Value), String> {
    const END: &str = "unexpected end of JSON path";
    let (mut names, mut here) = (Vec::new(), schema);
    let mut tokens = path_tokens(path).into_iter();
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or(END)?.to_owned(),
            "[" if brackets == BracketKeys::Rejected => {
                return Err("array notation is not allowed".to_owned());
            }
            "[" => {
                let key = tokens.next().ok_or(END)?;
                let bare = key.strip_prefix('\'').and_then(|key| key.strip_suffix('\''));
                let bare = bare.ok_or(format!("expected single quoted string but got {key}"))?;
                let close = tokens.next().ok_or(END)?;
                if close != "]" {
                    return Err(format!("expected ] but got {close}"));
                }
                bare.replace("\\'", "'").replace("\\\\", "\\")
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        here = property_schema(here, &name).ok_or("does not refer to a valid field")?;
        names.push(name);
    }
    Ok((names, here))
}

fn property_schema<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    match map(schema, &["properties"]) {
        Some(properties) => properties.get(name),
        None => schema.get("additionalProperties").filter(|values| !values.is_null()),
    }
}

/// Splits a path into dots, brackets and the names between them.
fn path_tokens(path: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => quoted_length(rest),
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end);
        all.push(token);
        rest = after;
    }
    all
}

/// The length of the quoted string at the start of `text`.
fn quoted_length(text: &str) -> usize {
    let ends = text.match_indices('\'').skip(1);
    let mut ends = ends.filter(|(at, _)| !text.as_bytes()[..*at].ends_with(b"\\"));
    ends.next().map_or(text.len(), |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn a_json_path_resolves_in_a_schema() {
        let text = json!({"type": "string"});
        let schema = json!({"properties": {"a": {"properties": {"b.c": text}},
            "m": {"additionalProperties": text}}});
        for (path, names) in [(".a['b.c']", ["a", "b.c"]), (".m.x", ["m", "x"])] {
            let (found, found_schema) =
                resolve_json_path(path, &schema, BracketKeys::Allowed).unwrap();
            assert_eq!((found, found_schema), (names.map(str::to_owned).to_vec(), &text));
        }
        for (path, why) in [
            (".b", "does not refer to a valid field"),
            (".", "unexpected end of JSON path"),
            ("a", "expected [ or . but got: a"),
            (".a[0]", "expected single quoted string but got 0"),
        ] {
            assert_eq!(resolve_json_path(path, &schema, BracketKeys::Allowed).unwrap_err(), why);
        }
        let refused = resolve_json_path(".a['b']", &schema, BracketKeys::Rejected).unwrap_err();
        assert_eq!(refused, "array notation is not allowed");
    }
}
