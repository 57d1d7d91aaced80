//! Embedded objects in custom resources.

use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_emulator::store::{FieldValidation, Op, Write};

use crate::custom::{definition, gang};
use crate::test_store::{TestStore, outcome};

/// A store with a kind `Gang` that embeds one object, a list and a map of objects.
fn store_with_embedding_kind() -> TestStore {
    let whole = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    let narrow = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}});
    let mut fixture = TestStore::new();
    fixture
        .create(definition(&json!({"type": "object", "properties": {
            "queue": {"type": "string"},
            "one": whole,
            "list": {"type": "array", "items": narrow},
            "map": {"type": "object", "additionalProperties": whole},
        }})))
        .expect("a valid definition");
    fixture
}

#[test]
fn an_embedded_object_has_a_version_and_a_kind() {
    let mut fixture = store_with_embedding_kind();
    let mut refusal = |spec: Value| outcome(fixture.create(gang(&spec)));
    assert_snapshot!(refusal(json!({"one": {"a": 1}})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: [spec.one.apiVersion: Required value, spec.one.kind: Required value]"#);
    assert_snapshot!(refusal(json!({"list": [{"spec": {}, "kind": "Pod"}]})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.list[0].apiVersion: Required value"#);
    assert_snapshot!(refusal(json!({"map": {"x": {"apiVersion": "v1"}}})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.map[x].kind: Required value"#);
    assert_snapshot!(refusal(json!({"one": {"apiVersion": "a/b/c", "kind": ""}})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: [spec.one.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c, spec.one.kind: Invalid value: "": must not be empty]"#);
    assert_snapshot!(refusal(json!({"one": {"apiVersion": "v1", "kind": "A_"}})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.one.kind: Invalid value: "A_": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"#);
    assert_snapshot!(refusal(json!({"one": {"apiVersion": 1, "kind": "Pod"}})), @r#"400 BadRequest: Gang in version "v1" cannot be handled as a Gang: spec.one.apiVersion: Invalid value: 1: must be a string"#);
}

#[test]
fn metadata_of_an_embedded_object_is_checked() {
    let mut fixture = store_with_embedding_kind();
    let mut refusal = |metadata: Value| {
        outcome(fixture.create(gang(&json!({"one": {"apiVersion": "v1", "kind": "Pod",
            "metadata": metadata}}))))
    };
    assert_snapshot!(refusal(json!({"name": "a/b"})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.one.metadata.name: Invalid value: "a/b": may not contain '/'"#);
    assert_snapshot!(refusal(json!({"namespace": "A_"})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.one.metadata.namespace: Invalid value: "A_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#);
    assert_snapshot!(refusal(json!({"labels": {"a": "c d"}})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.one.metadata.labels: Invalid value: "c d": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#);
    assert_snapshot!(refusal(json!({"annotations": {"a b": "c"}})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.one.metadata.annotations: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#);
    assert_snapshot!(refusal(json!({"finalizers": ["a b"]})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.one.metadata.finalizers: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#);
    assert_snapshot!(refusal(json!({"labels": ["a"]})), @r#"400 BadRequest: Gang in version "v1" cannot be handled as a Gang: spec.one.metadata: Invalid value: {"labels":["a"]}: json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string"#);
    assert_snapshot!(refusal(json!({"labels": {"a": 1}})), @r#"400 BadRequest: Gang in version "v1" cannot be handled as a Gang: spec.one.metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"#);
    assert_snapshot!(refusal(json!("x")), @r#"400 BadRequest: Gang in version "v1" cannot be handled as a Gang: spec.one.metadata: Invalid value: "x": json: cannot unmarshal string into Go value of type v1.ObjectMeta"#);
    assert_eq!(refusal(json!({"name": "a"})), "accepted");
}

#[test]
fn unknown_metadata_of_an_embedded_object_is_dropped() {
    let mut fixture = store_with_embedding_kind();
    let embedded = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n", "odd": 1},
        "spec": {"a": "x", "b": "y"}, "free": 1});
    let spec = json!({"one": embedded, "list": [embedded]});
    let create = Op::Create(gang(&spec));
    let mut write = Write::new(fixture.key("lab.dev", "Gang", ""), create, "test");
    let written = fixture.store.write(write.clone(), fixture.now).unwrap();
    let mut kept = embedded.clone();
    kept["metadata"] = json!({"name": "n"});
    assert_eq!(written.object["spec"]["one"], kept);
    let kept = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"},
        "spec": {"a": "x"}});
    assert_eq!(written.object["spec"]["list"], json!([kept]));
    write.field_validation = FieldValidation::Strict;
    assert_snapshot!(outcome(fixture.store.write(write, fixture.now)), @r#"400 BadRequest: Gang in version "v1" cannot be handled as a Gang: strict decoding error: unknown field "spec.list[0].free", unknown field "spec.list[0].spec.b", unknown field "spec.list[0].metadata.odd", unknown field "spec.one.metadata.odd""#);
}
