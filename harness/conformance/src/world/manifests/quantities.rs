//! Finds invalid quantities in objects.

use schedlab_api::{Value, quantity::thousandths};

/// Names of fields whose values are maps of quantities.
const QUANTITY_FIELDS: [&str; 6] =
    ["requests", "limits", "overhead", "capacity", "allocatable", "hard"];

/// The path and the value of the first invalid quantity in an object, such as
/// `spec.containers[0].resources.limits[cpu]`.
pub(crate) fn first_invalid_quantity(object: &Value) -> Option<(String, &Value)> {
    find_invalid_quantity(object, "")
}

fn find_invalid_quantity<'v>(value: &'v Value, path: &str) -> Option<(String, &'v Value)> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, field)| {
            let inner = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            let held = field.as_object().filter(|_| QUANTITY_FIELDS.contains(&name.as_str()));
            let mut quantities = held.into_iter().flatten();
            let bad = quantities.find(|(_, quantity)| thousandths(quantity).is_none());
            let bad = bad.map(|(key, quantity)| (format!("{inner}[{key}]"), quantity));
            bad.or_else(|| find_invalid_quantity(field, &inner))
        }),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| find_invalid_quantity(item, &format!("{path}[{index}]")))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn the_first_invalid_quantity_is_found() {
        let with =
            |limits| json!({"spec": {"containers": [{}, {"resources": {"limits": limits}}]}});
        let object = with(json!({"cpu": "1", "memory": "lots"}));
        let path = "spec.containers[1].resources.limits[memory]".to_owned();
        assert_eq!(first_invalid_quantity(&object), Some((path, &json!("lots"))));
        assert_eq!(first_invalid_quantity(&with(json!({"cpu": "1", "memory": "1Gi"}))), None);
    }
}
