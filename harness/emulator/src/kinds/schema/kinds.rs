//! What rules in CEL see of a schema: kinds of values under the names that fields have there.

use crate::expression::Kind;
use crate::object::{map, text};
use schedlab_json::Value;

/// Words of CEL, which are no names of fields.
const WORDS: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];
/// What every object has, and all of its metadata that rules see.
const OBJECT: [&str; 2] = ["apiVersion", "kind"];
const METADATA: [&str; 2] = ["name", "generateName"];

/// What rules that stand at the top of a schema see as `self`.
pub(super) fn of_root(raw: &Value) -> Kind {
    object(raw, true)
}

/// What rules that stand in a schema see as `self`.
pub(super) fn of(raw: &Value) -> Kind {
    if raw["x-kubernetes-int-or-string"] == true {
        return Kind::Dyn;
    }
    match (text(raw, &["type"]), text(raw, &["format"])) {
        ("boolean", _) => Kind::Bool,
        ("integer", _) => Kind::Int,
        ("number", _) => Kind::Double,
        ("string", "byte") => Kind::Bytes,
        ("string", "duration") => Kind::Duration,
        ("string", "date" | "date-time") => Kind::Timestamp,
        ("string", _) => Kind::Text,
        ("array", _) => Kind::list(of(&raw["items"])),
        ("object", _) => object(raw, raw["x-kubernetes-embedded-resource"] == true),
        _ => Kind::Dyn,
    }
}

fn object(raw: &Value, is_whole: bool) -> Kind {
    match &raw["additionalProperties"] {
        Value::Object(_) => return Kind::map(of(&raw["additionalProperties"])),
        Value::Bool(true) => return Kind::map(Kind::Dyn),
        Value::Bool(false)
        | Value::Null
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_) => {}
    }
    let fields = map(raw, &["properties"]).into_iter().flatten();
    let seen = fields.filter(|(_, field)| is_seen(field));
    let mut all: Vec<(String, Kind)> =
        seen.map(|(name, field)| (escaped(name), of(field))).collect();
    if is_whole {
        let named = |names: [&str; 2]| names.map(|name| (name.to_owned(), Kind::Text));
        all.retain(|(name, _)| name != "metadata");
        all.extend(named(OBJECT));
        all.push(("metadata".to_owned(), Kind::object("selfType.metadata", named(METADATA))));
    }
    Kind::object("selfType", all)
}

/// Whether it is known what stands there.
fn is_seen(field: &Value) -> bool {
    field["x-kubernetes-int-or-string"] == true || !text(field, &["type"]).is_empty()
}

/// A field's name, where it would be none in CEL.
fn escaped(name: &str) -> String {
    if WORDS.contains(&name) {
        return format!("__{name}__");
    }
    let escapes =
        [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];
    let mut rest = name;
    let mut all = String::new();
    while let Some(letter) = rest.chars().next() {
        let found = escapes.iter().find_map(|(from, to)| Some((rest.strip_prefix(from)?, *to)));
        if let Some((after, to)) = found {
            all.push_str(to);
            rest = after;
        } else {
            all.push(letter);
            rest = rest.split_at(letter.len_utf8()).1;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::{escaped, of, of_root};
    use crate::expression::{Scope, check};

    #[test]
    fn names_of_fields_are_names_in_cel() {
        let cases = [
            ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
            ("in", "__in__"),
            ("a__b", "a__underscores__b"),
        ];
        for (name, seen) in cases {
            assert_eq!(escaped(name), seen);
        }
    }

    #[test]
    fn rules_see_what_a_schema_says() {
        let schema = json!({"type": "object", "properties": {
            "n": {"type": "integer"}, "i": {"x-kubernetes-int-or-string": true},
            "l": {"type": "array", "items": {"type": "string"}},
            "m": {"type": "object", "additionalProperties": {"type": "number"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
        }});
        let is_sound = |rule: &str, kind| {
            check(rule, &Scope { variables: vec![("self".to_owned(), kind)], binds: false }).is_ok()
        };
        for rule in
            ["self.n > 1 && self.l[0] == 'a'", "self.m.a > 1", "self.i == 1 || self.i == 'a'"]
        {
            assert!(is_sound(rule, of(&schema)), "{rule}");
        }
        for rule in
            ["self.free.x == 1", "self.any == 1", "self.metadata.name == 'a'", "self.l == [1]"]
        {
            assert!(!is_sound(rule, of(&schema)), "{rule}");
        }
        assert!(is_sound("self.metadata.name == self.kind", of_root(&schema)));
        assert!(!is_sound("self.metadata.labels.a == 'b'", of_root(&schema)));
    }
}
