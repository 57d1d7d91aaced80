//! Values in API messages as Go prints them.
//!
//! [`go_value`] prints like `%v`. [`go_struct_json`] prints like the JSON encoding of internal types:
//! fields in declaration order, under their Go names, and `null` for unset fields.

use schedlab_api::Value;

/// Formats a value like Go's `%v`.
pub(crate) fn go_value(value: &Value) -> String {
    let several = |parts: Vec<String>| parts.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(switch) => switch.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => format!("[{}]", several(items.iter().map(go_value).collect())),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| format!("{name}:{}", go_value(field)));
            format!("map[{}]", several(fields.collect()))
        }
    }
}

/// A field of a Go struct: its JSON name, and the fields of its value.
pub(crate) struct GoField(pub(crate) &'static str, pub(crate) &'static [GoField]);

/// Formats a value, or each item of a list, as a struct with these fields.
pub(crate) fn go_struct_json(value: &Value, fields: &[GoField]) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(|item| go_struct_json(item, fields)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(_) if !fields.is_empty() => {
            let shown = fields.iter().map(|GoField(name, below)| {
                format!("\"{}\":{}", go_field_name(name), go_struct_json(&value[*name], below))
            });
            format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
        }
        plain @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)) => plain.to_string(),
    }
}

/// The Go name of a field; initialisms are in capitals.
pub(crate) fn go_field_name(name: &str) -> String {
    match name {
        "cel" => "CEL".to_owned(),
        "seLinuxOptions" => "SELinuxOptions".to_owned(),
        _ => {
            let (first, rest) = name.split_at(1);
            first.to_uppercase() + rest
        }
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::{GoField, go_struct_json};

    #[test]
    fn fields_are_shown_in_their_order_and_absent_ones_as_null() {
        let fields = &[GoField("type", &[]), GoField("rules", &[GoField("count", &[])])];
        let shown = go_struct_json(&json!({"rules": [{"count": 2}, {}], "type": "a"}), fields);
        assert_eq!(shown, r#"{"Type":"a","Rules":[{"Count":2},{"Count":null}]}"#);
        assert_eq!(go_struct_json(&json!({}), fields), r#"{"Type":null,"Rules":null}"#);
    }
}
