//! Values as the real server's own types print them in its messages: fields in their order, under
//! the names that they have in Go, and `null` where nothing stands.

use schedlab_json::Value;

/// A field of such a type, as the API names it, and the fields of what stands there.
pub(crate) struct Field(pub(crate) &'static str, pub(crate) &'static [Field]);

/// Prints a value, or each item of a list, as a type with these fields.
pub(crate) fn in_go(value: &Value, fields: &[Field]) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| in_go(item, fields)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(_) if !fields.is_empty() => {
            let shown = fields.iter().map(|Field(name, below)| {
                format!("\"{}\":{}", name_in_go(name), in_go(&value[*name], below))
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

/// A field's name there: an abbreviation is all in capitals.
fn name_in_go(name: &str) -> String {
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
    use schedlab_json::json;

    use super::{Field, in_go};

    #[test]
    fn fields_are_shown_in_their_order_and_absent_ones_as_null() {
        let fields = &[Field("type", &[]), Field("rules", &[Field("count", &[])])];
        let shown = in_go(&json!({"rules": [{"count": 2}, {}], "type": "a"}), fields);
        assert_eq!(shown, r#"{"Type":"a","Rules":[{"Count":2},{"Count":null}]}"#);
        assert_eq!(in_go(&json!({}), fields), r#"{"Type":null,"Rules":null}"#);
    }
}
