//! `oneOf`, `anyOf`, `allOf` and `not` in schemas of custom kinds, and rules for a single value.

use insta::assert_snapshot;
use schedlab_api::{Value, json};

use crate::custom::{definition, gang};
use crate::test_store::{TestStore, outcome};

/// The result of creating a `Gang` with a value and its schema.
fn create_outcome(schema: &Value, value: &Value) -> String {
    let mut fixture = TestStore::new();
    let spec = json!({"type": "object", "properties": {"queue": {"type": "string"}, "x": schema}});
    fixture.create(definition(&spec)).expect("a valid definition");
    outcome(fixture.create(gang(&json!({"x": value}))))
}

/// A schema with properties `a` and `b` and another keyword.
fn pair(word: &str, branches: &Value) -> Value {
    json!({"type": "object", word: branches,
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}}})
}

#[test]
fn one_of_several_branches_must_fit() {
    let either = json!([{"required": ["a"]}, {"required": ["b"]}]);
    let any = pair("anyOf", &either);
    assert_eq!(create_outcome(&any, &json!({"a": "x", "b": "y"})), "accepted");
    assert_snapshot!(create_outcome(&any, &json!({})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: [<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf), spec.x.a: Required value]"#);
    let one = pair("oneOf", &either);
    assert_eq!(create_outcome(&one, &json!({"b": "y"})), "accepted");
    assert_snapshot!(create_outcome(&one, &json!({})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: [<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid, spec.x.a: Required value]"#);
    assert_snapshot!(create_outcome(&one, &json!({"a": "x", "b": "y"})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: <nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#);
}

#[test]
fn the_closest_branch_is_reported() {
    let far = json!({"properties": {"a": {"minLength": 9}, "b": {"minLength": 9}}});
    let any = pair("anyOf", &json!([{"required": ["a"]}, far]));
    assert_snapshot!(create_outcome(&any, &json!({"b": "x"})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: [<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf), spec.x.b: Invalid value: "x": spec.x.b in body should be at least 9 chars long]"#);
}

#[test]
fn all_branches_fit_and_a_negated_one_does_not() {
    let all = json!({"type": "integer", "allOf": [{"minimum": 3}, {"multipleOf": 2}]});
    assert_eq!(create_outcome(&all, &json!(4)), "accepted");
    assert_snapshot!(create_outcome(&all, &json!(1)), @r#"422 Invalid: Gang.lab.dev "a" is invalid: [<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf). None validated, spec.x: Invalid value: 1: spec.x in body should be greater than or equal to 3, spec.x: Invalid value: 1: spec.x in body should be a multiple of 2]"#);
    assert_snapshot!(create_outcome(&all, &json!(5)), @r#"422 Invalid: Gang.lab.dev "a" is invalid: [<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf), spec.x: Invalid value: 5: spec.x in body should be a multiple of 2]"#);
    let not = json!({"type": "string", "not": {"enum": ["x"]}});
    assert_eq!(create_outcome(&not, &json!("y")), "accepted");
    assert_snapshot!(create_outcome(&not, &json!("x")), @r#"422 Invalid: Gang.lab.dev "a" is invalid: <nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#);
}

#[test]
fn a_broken_rule_shows_a_single_value() {
    let rule = |kind: &str, rule: &str| json!({"type": kind, "x-kubernetes-validations": [{"rule": rule, "message": "wrong"}]});
    assert_snapshot!(create_outcome(&rule("string", "self != 'red'"), &json!("red")), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.x: Invalid value: "red": wrong"#);
    assert_snapshot!(create_outcome(&rule("integer", "self != 3"), &json!(3)), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.x: Invalid value: 3: wrong"#);
    assert_snapshot!(create_outcome(&rule("boolean", "self"), &json!(false)), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.x: Invalid value: false: wrong"#);
    let list = json!({"type": "array", "items": {"type": "string"},
        "x-kubernetes-validations": [{"rule": "size(self) != 1", "message": "wrong"}]});
    assert_snapshot!(create_outcome(&list, &json!(["a"])), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.x: Invalid value: wrong"#);
}
