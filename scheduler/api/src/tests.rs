//! Comparison with `serde_json` and the maps of the standard library.

use std::collections::BTreeMap;

use proptest::prelude::{any, *};
use serde::Serialize;
use serde_json::json as foreign;

use super::*;

fn trees() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<u64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 64, 24, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map("[a-z]{0,2}", inner, 0..24)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// An operation on a map.
#[derive(Clone, Debug)]
enum MapOperation {
    Insert(String, u8),
    Remove(String),
    Default(String, u8),
    Keep(u8),
}

fn map_operations() -> impl Strategy<Value = Vec<MapOperation>> {
    // Keys of all lengths that are compared differently.
    let key = "[a-e]{1,2}|name(space|d)?|label(s|[a-c]{3,13})|[a-b]{3}other[a-b]{3}";
    let doing = prop_oneof![
        3 => (key, any::<u8>()).prop_map(|(key, number)| MapOperation::Insert(key, number)),
        1 => key.prop_map(MapOperation::Remove),
        1 => (key, any::<u8>()).prop_map(|(key, number)| MapOperation::Default(key, number)),
        1 => any::<u8>().prop_map(MapOperation::Keep),
    ];
    prop::collection::vec(doing, 0..64)
}

proptest! {
    #[test]
    fn values_are_read_written_and_converted_as_by_serde_json(tree in trees()) {
        let text = tree.to_string();
        let read: Value = serde_json::from_str(&text).unwrap();
        // Both may round numbers while parsing.
        let tree: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::to_vec(&read).unwrap(), serde_json::to_vec(&tree).unwrap());
        prop_assert_eq!(format!("{read} {read:#}"), format!("{tree} {tree:#}"));
        prop_assert_eq!(&read, &Value::from(tree.clone()));
        prop_assert_eq!(serde_json::Value::from(read), tree);
    }

    #[test]
    fn a_map_behaves_like_a_btree_map(doings in map_operations()) {
        let (mut map, mut model) = (Map::new(), BTreeMap::<String, Value>::new());
        for doing in doings {
            match doing {
                MapOperation::Insert(key, number) => {
                    let stood = map.insert(key.clone(), number.into());
                    prop_assert_eq!(stood, model.insert(key, number.into()));
                }
                MapOperation::Remove(key) => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                MapOperation::Default(key, number) => {
                    let is = map.entry(key.as_str()).or_insert(number.into()).clone();
                    prop_assert_eq!(&is, model.entry(key).or_insert(number.into()));
                }
                MapOperation::Keep(most) => {
                    let keeps = |value: &Value| value.as_u64() <= Some(most.into());
                    map.retain(|_, value| keeps(value));
                    model.retain(|_, value| keeps(value));
                }
            }
            prop_assert_eq!(map.len(), model.len());
            prop_assert!(map.iter().map(|(key, value)| (key.as_str(), value))
                .eq(model.iter().map(|(key, value)| (key.as_str(), value))));
            for (key, value) in &model {
                prop_assert_eq!(map.get(key), Some(value));
            }
            prop_assert_eq!(map.get("f"), None);
        }
    }

    #[test]
    fn pointers_resolve_as_in_serde_json(tree in trees(), pointer in "(/[a-b0-2]{1,2}){0,3}") {
        let value = Value::from(tree.clone());
        let found = value.pointer(&pointer).cloned().map(serde_json::Value::from);
        prop_assert_eq!(found.as_ref(), tree.pointer(&pointer));
    }
}

#[test]
fn the_last_value_of_a_duplicate_key_is_kept() {
    let read: Value = serde_json::from_str(r#"{"b": 1, "a": 2, "b": 3}"#).unwrap();
    assert_eq!(read.to_string(), r#"{"a":2,"b":3}"#);
    let made: Map = [("b", 1), ("a", 2), ("b", 3)].into_iter().collect();
    assert_eq!(Value::Object(made), read);
}

/// One field for each type in the data model of serde.
#[derive(Serialize)]
struct Everything {
    unit: (),
    nothing: Option<u8>,
    some: Option<u8>,
    letter: char,
    small: i8,
    large: u128,
    half: f32,
    infinite: f64,
    tuple: (bool, &'static str),
    keys: BTreeMap<u16, Option<Unit>>,
    truths: BTreeMap<bool, Pair>,
    variants: Vec<Variant>,
    tree: Value,
}

#[derive(Serialize)]
struct Unit;

#[derive(Serialize)]
struct Pair(i32, i32);

#[derive(Serialize)]
enum Variant {
    Bare,
    One(u8),
    Two(u8, u8),
    Named { a: u8 },
}

#[test]
fn to_value_equals_that_of_serde_json() {
    let everything = Everything {
        unit: (),
        nothing: None,
        some: Some(1),
        letter: 'ß',
        small: -8,
        large: u128::from(u64::MAX),
        half: 0.5,
        infinite: f64::INFINITY,
        tuple: (true, "x"),
        keys: [(2, Some(Unit)), (10, None)].into(),
        truths: [(true, Pair(1, -1))].into(),
        variants: vec![Variant::Bare, Variant::One(1), Variant::Two(1, 2), Variant::Named { a: 1 }],
        tree: json!({"b": [1, null], "a": "y".repeat(30)}),
    };
    let theirs = serde_json::to_value(&everything).unwrap();
    assert_eq!(to_value(&everything).unwrap(), Value::from(theirs));
}

/// With the errors of `serde_json`.
#[test]
fn to_value_fails_with_the_messages_of_serde_json() {
    let keys = BTreeMap::from([(vec![1], 1)]);
    let theirs = serde_json::to_value(&keys).unwrap_err();
    assert_eq!(to_value(&keys).unwrap_err().to_string(), theirs.to_string());
    let theirs = serde_json::to_value(u128::MAX).unwrap_err();
    assert_eq!(to_value(&u128::MAX).unwrap_err().to_string(), theirs.to_string());
}

/// As the macro of `serde_json`.
#[test]
fn json_literals_may_be_nested_and_contain_expressions() {
    let (name, list) = ("n", [1, 2]);
    let ours = json!({
        "a": {}, "b": [], "c": [null, true, -1.5, "x", [], {}, {"d": [{}]}], (name): list.len() + 1,
        (format!("{name}2")): list.iter().map(|one| one + 1).collect::<Vec<_>>(), "e": null,
        "f": [list[0], list[1],], "g": {name: name.to_owned(),},
    });
    let theirs = foreign!({
        "a": {}, "b": [], "c": [null, true, -1.5, "x", [], {}, {"d": [{}]}], (name): list.len() + 1,
        (format!("{name}2")): list.iter().map(|one| one + 1).collect::<Vec<_>>(), "e": null,
        "f": [list[0], list[1],], "g": {name: name.to_owned(),},
    });
    assert_eq!(ours, Value::from(theirs));
    assert_eq!(json!([[2][0], null]), json!([2, null]));
    assert_eq!(json!(null), Value::Null);
    assert_eq!(json!(name), "n");
}

#[test]
fn indexing_returns_null_for_missing_values_and_creates_assigned_ones() {
    let mut value = json!({"a": [1, {"b": "x"}]});
    assert_eq!(value["a"][1]["b"], "x");
    assert_eq!(value["a"][7]["b"], Value::Null);
    value["c"]["d"] = 5.into();
    value["a"][0] = Value::Null;
    assert_eq!(value, Value::from(foreign!({"a": [null, {"b": "x"}], "c": {"d": 5}})));
}

#[test]
fn pointers_may_contain_escapes() {
    let mut value = json!({"a/b": {"c~d": [1, 2]}});
    assert_eq!(value.pointer("/a~1b/c~0d/1"), Some(&json!(2)));
    assert_eq!(value.pointer("/a~1b/c~0d/01"), None);
    assert_eq!(value.pointer("a~1b"), None);
    *value.pointer_mut("/a~1b/c~0d/0").unwrap() = "x".into();
    assert_eq!(value, json!({"a/b": {"c~d": ["x", 2]}}));
}
