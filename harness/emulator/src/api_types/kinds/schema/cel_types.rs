//! The CEL types of a schema, with escaped field names.

use crate::api_types::expression::CelType;
use schedlab_api::{
    Value,
    object::{map, text},
};

/// The reserved words of CEL.
const RESERVED_WORDS: [&str; 21] = [
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
/// The fields of every whole object, besides `metadata`, that rules can access.
const OBJECT_FIELDS: [&str; 2] = ["apiVersion", "kind"];
const METADATA_FIELDS: [&str; 2] = ["name", "generateName"];

/// The type of `self` in rules at the root of a schema.
pub(super) fn root_self_type(raw: &Value) -> CelType {
    object_type(raw, true)
}

/// The type of `self` in rules of a nested schema.
pub(super) fn self_type(raw: &Value) -> CelType {
    if raw["x-kubernetes-int-or-string"] == true {
        return CelType::Dyn;
    }
    match (text(raw, &["type"]), text(raw, &["format"])) {
        ("boolean", _) => CelType::Bool,
        ("integer", _) => CelType::Int,
        ("number", _) => CelType::Double,
        ("string", "byte") => CelType::Bytes,
        ("string", "duration") => CelType::Duration,
        ("string", "date" | "date-time") => CelType::Timestamp,
        ("string", _) => CelType::Text,
        ("array", _) => CelType::list(self_type(&raw["items"])),
        ("object", _) => object_type(raw, raw["x-kubernetes-embedded-resource"] == true),
        _ => CelType::Dyn,
    }
}

fn object_type(raw: &Value, is_whole: bool) -> CelType {
    match &raw["additionalProperties"] {
        Value::Object(_) => return CelType::map(self_type(&raw["additionalProperties"])),
        Value::Bool(true) => return CelType::map(CelType::Dyn),
        Value::Bool(false)
        | Value::Null
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_) => {}
    }
    let fields = map(raw, &["properties"]).into_iter().flatten();
    let seen = fields.filter(|(_, field)| has_known_type(field));
    let mut all: Vec<(String, CelType)> =
        seen.map(|(name, field)| (escape_field_name(name), self_type(field))).collect();
    if is_whole {
        let named = |names: [&str; 2]| names.map(|name| (name.to_owned(), CelType::Text));
        all.retain(|(name, _)| name != "metadata");
        all.extend(named(OBJECT_FIELDS));
        all.push((
            "metadata".to_owned(),
            CelType::object("selfType.metadata", named(METADATA_FIELDS)),
        ));
    }
    CelType::object("selfType", all)
}

/// Whether the schema of a field declares a type. Rules cannot access fields without one.
fn has_known_type(field: &Value) -> bool {
    field["x-kubernetes-int-or-string"] == true || !text(field, &["type"]).is_empty()
}

/// The name of a field in CEL: reserved words and special characters are escaped.
pub(super) fn escape_field_name(name: &str) -> String {
    if RESERVED_WORDS.contains(&name) {
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
    use schedlab_api::json;

    use super::{escape_field_name, root_self_type, self_type};
    use crate::api_types::expression::{TypeScope, check_type};

    #[test]
    fn field_names_are_escaped_for_cel() {
        let cases = [
            ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
            ("in", "__in__"),
            ("a__b", "a__underscores__b"),
        ];
        for (name, seen) in cases {
            assert_eq!(escape_field_name(name), seen);
        }
    }

    #[test]
    fn rules_see_the_fields_that_the_schema_declares() {
        let schema = json!({"type": "object", "properties": {
            "n": {"type": "integer"}, "i": {"x-kubernetes-int-or-string": true},
            "l": {"type": "array", "items": {"type": "string"}},
            "m": {"type": "object", "additionalProperties": {"type": "number"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
        }});
        let is_sound = |rule: &str, kind| {
            check_type(
                rule,
                &TypeScope { variables: vec![("self".to_owned(), kind)], allows_bind: false },
            )
            .is_ok()
        };
        for rule in
            ["self.n > 1 && self.l[0] == 'a'", "self.m.a > 1", "self.i == 1 || self.i == 'a'"]
        {
            assert!(is_sound(rule, self_type(&schema)), "{rule}");
        }
        for rule in
            ["self.free.x == 1", "self.any == 1", "self.metadata.name == 'a'", "self.l == [1]"]
        {
            assert!(!is_sound(rule, self_type(&schema)), "{rule}");
        }
        assert!(is_sound("self.metadata.name == self.kind", root_self_type(&schema)));
        assert!(!is_sound("self.metadata.labels.a == 'b'", root_self_type(&schema)));
    }
}
