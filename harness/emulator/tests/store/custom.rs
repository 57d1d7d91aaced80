//! Custom kinds: definitions, schemas, registration and removal.

use insta::assert_snapshot;
use schedlab_api::{Value, json, object::condition};
use schedlab_emulator::FieldSelector;
use schedlab_emulator::store::{FieldValidation, Op, PatchBody, Subresource, Write};

use crate::test_store::{TestStore, outcome};

/// A definition of `Gang` with a schema for its `spec`.
pub(crate) fn definition(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gangs.lab.dev"},
        "spec": {
            "group": "lab.dev",
            "scope": "Namespaced",
            "names": {"plural": "gangs", "kind": "Gang"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "selectableFields": [{"jsonPath": ".spec.queue"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": spec,
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    })
}

fn typical() -> Value {
    json!({
        "type": "object",
        "required": ["queue"],
        "properties": {
            "queue": {"type": "string", "minLength": 2, "maxLength": 8, "pattern": "^[a-z]+$"},
            "replicas": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10},
            "mode": {"type": "string", "enum": ["Hard", "Soft"], "default": "Hard"},
            "share": {"x-kubernetes-int-or-string": true},
            "note": {"type": "string", "nullable": true},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "tasks": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string"},
                        "size": {"type": "integer", "default": 1},
                    },
                },
            },
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    })
}

fn store_with_gang_kind() -> TestStore {
    let mut fixture = TestStore::new();
    fixture.create(definition(&typical())).expect("a valid definition");
    fixture
}

pub(crate) fn gang(spec: &Value) -> Value {
    json!({"apiVersion": "lab.dev/v1", "kind": "Gang", "metadata": {"name": "a"}, "spec": spec})
}

#[test]
fn a_definition_is_established_and_its_kind_is_there_at_once() {
    let fixture = store_with_gang_kind();
    let key = fixture.key("apiextensions.k8s.io", "CustomResourceDefinition", "gangs.lab.dev");
    let crd = fixture.store.get(&key).unwrap();
    assert_eq!(condition(&crd, "Established"), Some("True"));
    assert_eq!(condition(&crd, "NamesAccepted"), Some("True"));
    assert_eq!(crd["spec"]["names"]["listKind"], "GangList");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert!(fixture.store.kinds().by_path("lab.dev", "v1", "gangs").is_some());
}

#[test]
fn defaults_are_filled_in_at_every_depth() {
    let created = store_with_gang_kind()
        .create(gang(&json!({"queue": "team", "tasks": [{"name": "x"}]})))
        .unwrap();
    assert_eq!(
        created["spec"],
        json!({"queue": "team", "mode": "Hard", "tasks": [{"name": "x", "size": 1}]})
    );
}

#[test]
fn unknown_fields_are_dropped_but_where_they_may_stand() {
    let mut fixture = store_with_gang_kind();
    let spec = json!({"queue": "team", "colour": "red", "free": {"any": {"thing": 1}},
        "labels": {"a": "b"}, "tasks": [{"name": "x", "kind": "y"}]});
    let mut write = Write::new(fixture.key("lab.dev", "Gang", ""), Op::Create(gang(&spec)), "test");
    let written = fixture.store.write(write.clone(), fixture.now).unwrap();
    assert_eq!(
        written.warnings,
        ["unknown field \"spec.colour\"", "unknown field \"spec.tasks[0].kind\""]
    );
    assert_eq!(written.object["spec"]["free"], json!({"any": {"thing": 1}}));
    assert_eq!(written.object["spec"]["labels"], json!({"a": "b"}));
    assert_eq!(written.object["spec"].get("colour"), None);
    write.field_validation = FieldValidation::Strict;
    assert_snapshot!(outcome(fixture.store.write(write, fixture.now)), @r#"400 BadRequest: Gang in version "v1" cannot be handled as a Gang: strict decoding error: unknown field "spec.colour", unknown field "spec.tasks[0].kind""#);
}

#[test]
fn a_schema_violation_is_refused_with_its_cause() {
    let mut fixture = store_with_gang_kind();
    let mut refusal = |field: &str, value: Value| {
        let mut spec = json!({"queue": "team"});
        spec[field] = value;
        outcome(fixture.create(gang(&spec)))
    };
    assert_snapshot!(refusal("replicas", json!("3")), @r#"422 Invalid: Gang.lab.dev "a" is invalid: [spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string", .spec.replicas: Invalid value: 0: .spec.replicas accessor error: 3 is of the type string, expected int64]"#);
    assert_snapshot!(refusal("replicas", json!(0)), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1"#);
    assert_snapshot!(refusal("replicas", json!(11)), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10"#);
    assert_snapshot!(refusal("replicas", json!(1.5)), @r#"422 Invalid: Gang.lab.dev "a" is invalid: [<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.replicas, spec.replicas: Invalid value: "number": spec.replicas in body must be of type integer: "number", .spec.replicas: Invalid value: 0: .spec.replicas accessor error: 1.5 is of the type float64, expected int64]"#);
    assert_snapshot!(refusal("mode", json!("Loose")), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.mode: Unsupported value: "Loose": supported values: "Hard", "Soft""#);
    assert_snapshot!(refusal("queue", json!("T")), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.queue: Invalid value: "T": spec.queue in body should be at least 2 chars long"#);
    assert_snapshot!(refusal("queue", json!("abcdefghi")), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.queue: Too long: may not be more than 8 bytes"#);
    assert_snapshot!(refusal("queue", Value::Null), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.queue: Required value"#);
    assert_snapshot!(refusal("share", json!(true)), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.share: Invalid value: "boolean": spec.share in body must be of type integer,string: "boolean""#);
    assert_snapshot!(refusal("tags", json!(["a", "a"])), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.tags[1]: Duplicate value: "a""#);
    assert_snapshot!(refusal("tasks", json!([{"name": "x"}, {"name": "x", "size": 2}])), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.tasks[1]: Duplicate value: {"name":"x"}"#);
    assert_snapshot!(refusal("labels", json!({"a": 1})), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer""#);
    assert_eq!(refusal("note", Value::Null), "accepted", "null may stand where it is nullable");
}

#[test]
fn every_wrong_field_is_named_at_once() {
    let error = store_with_gang_kind()
        .create(gang(&json!({"replicas": "x", "mode": "Loose"})))
        .unwrap_err();
    let fields: Vec<&str> =
        error.details.as_ref().unwrap().causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["spec.queue", "spec.mode", "spec.replicas", ".spec.replicas"]);
}

#[test]
fn a_wrong_field_that_was_there_before_may_stay() {
    let mut fixture = TestStore::new();
    let mut loose = definition(&typical());
    loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["replicas"] = json!({"type": "integer"});
    fixture.create(loose).unwrap();
    fixture.create(gang(&json!({"queue": "team", "replicas": 99}))).unwrap();
    let crd = fixture.key("apiextensions.k8s.io", "CustomResourceDefinition", "gangs.lab.dev");
    fixture
        .edit(crd, &["spec", "versions"], definition(&typical())["spec"]["versions"].clone())
        .unwrap();
    let key = fixture.key("lab.dev", "Gang", "a");
    fixture.edit(key.clone(), &["spec", "queue"], json!("other")).unwrap();
    assert!(outcome(fixture.edit(key, &["spec", "replicas"], json!(98))).starts_with("422"));
}

#[test]
fn status_and_spec_are_written_apart_and_only_the_spec_counts_up() {
    let mut fixture = store_with_gang_kind();
    let mut body = gang(&json!({"queue": "team"}));
    body["status"] = json!({"phase": "Made up"});
    assert_eq!(fixture.create(body).unwrap().get("status"), None);
    let key = fixture.key("lab.dev", "Gang", "a");
    let written = fixture.set_status(key.clone(), json!({"phase": "Running"})).unwrap();
    assert_eq!(written["metadata"]["generation"], 1);
    let written = fixture.edit(key.clone(), &["spec", "mode"], json!("Soft")).unwrap();
    assert_eq!(written["status"]["phase"], "Running");
    assert_eq!(written["metadata"]["generation"], 2);
    let written = fixture.edit(key, &["status"], json!({})).unwrap();
    assert_eq!(written["status"]["phase"], "Running");
}

#[test]
fn an_update_must_name_a_resource_version() {
    let mut fixture = store_with_gang_kind();
    fixture.create(gang(&json!({"queue": "team"}))).unwrap();
    let key = fixture.key("lab.dev", "Gang", "a");
    assert_snapshot!(outcome(fixture.update(key, gang(&json!({"queue": "other"})))), @r#"422 Invalid: gangs.lab.dev "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"#);
}

#[test]
fn strategic_merge_is_not_for_custom_kinds() {
    let mut fixture = store_with_gang_kind();
    fixture.create(gang(&json!({"queue": "team"}))).unwrap();
    let patch = PatchBody::Strategic(json!({"spec": {"queue": "other"}}));
    let key = fixture.key("lab.dev", "Gang", "a");
    let error = fixture.write(key, Op::Patch(Subresource::None, patch)).unwrap_err();
    assert_eq!((error.code, error.reason.as_str()), (415, "UnsupportedMediaType"));
}

#[test]
fn a_definition_can_make_fields_selectable() {
    let mut fixture = store_with_gang_kind();
    let created = fixture.create(gang(&json!({"queue": "team"}))).unwrap();
    let kind = fixture.store.kinds().by_kind("lab.dev", "Gang").unwrap();
    assert!(FieldSelector::parse("spec.queue=team", kind).unwrap().matches(&created));
    let refusal = FieldSelector::parse("spec.mode=Hard", kind).unwrap_err();
    assert_eq!(refusal.message, "field label not supported: spec.mode");
}

#[test]
fn scale_reaches_the_fields_that_the_definition_names() {
    let mut fixture = store_with_gang_kind();
    fixture.create(gang(&json!({"queue": "team", "replicas": 2}))).unwrap();
    let key = fixture.key("lab.dev", "Gang", "a");
    fixture.set_status(key.clone(), json!({"replicas": 1, "selector": "app=a"})).unwrap();
    let kind = fixture.store.kinds().get(&key.resource).unwrap().clone();
    let scale = kind.scale_of(&fixture.store.get(&key).unwrap()).unwrap();
    assert_eq!(scale["spec"], json!({"replicas": 2}));
    assert_eq!(scale["status"], json!({"replicas": 1, "selector": "app=a"}));
    let op = Op::Patch(Subresource::Scale, PatchBody::Merge(json!({"spec": {"replicas": 5}})));
    assert_eq!(fixture.write(key.clone(), op).unwrap().object["spec"]["replicas"], 5);
    let op = Op::Patch(Subresource::Scale, PatchBody::Merge(json!({"spec": {"replicas": 11}})));
    assert_snapshot!(outcome(fixture.write(key.clone(), op)), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10"#);
    let op = Op::Update(Subresource::Scale, json!({"spec": {"replicas": 0}}));
    assert_snapshot!(outcome(fixture.write(key, op)), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1"#);
}

#[test]
fn a_definition_that_defines_nothing_is_refused() {
    let mut fixture = TestStore::new();
    let mut refusal = |path: &str, value: Value| {
        let mut crd = definition(&typical());
        *crd.pointer_mut(path).expect("the path exists in the definition") = value;
        outcome(fixture.create(crd))
    };
    assert_snapshot!(refusal("/metadata/name", json!("gang")), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "gang" is invalid: metadata.name: Invalid value: "gang": must be spec.names.plural+"."+spec.group"#);
    assert_snapshot!(refusal("/spec/scope", json!("Global")), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "gangs.lab.dev" is invalid: spec.scope: Unsupported value: "Global": supported values: "Cluster", "Namespaced""#);
    assert_snapshot!(refusal("/spec/versions/0/schema", json!({})), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "gangs.lab.dev" is invalid: spec.versions[0].schema.openAPIV3Schema: Required value"#);
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    assert_snapshot!(refusal(schema, json!({"queue": {"type": "string"}, "a": {}})), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "gangs.lab.dev" is invalid: spec.validation.openAPIV3Schema.properties[spec].properties[a].type: Required value: must not be empty for specified object fields"#);
    assert_snapshot!(refusal(schema, json!({"queue": {"type": "string"}, "a": {"type": "text"}})), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "gangs.lab.dev" is invalid: spec.validation.openAPIV3Schema.properties[spec].properties[a].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#);
    assert_snapshot!(refusal(schema, json!({"queue": {"type": "string"}, "a": {"type": "array"}})), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "gangs.lab.dev" is invalid: spec.validation.openAPIV3Schema.properties[spec].properties[a].items: Required value: must be specified"#);
    assert_snapshot!(refusal(schema, json!({"queue": {"type": "string"}, "a": {"type": "string", "pattern": "["}})), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "gangs.lab.dev" is invalid: spec.validation.openAPIV3Schema.properties[spec].properties[a].pattern: Invalid value: "[": must be a valid regular expression, but isn't"#);
    assert!(refusal("/spec/versions/0/storage", json!(false)).contains("exactly one version"));
}

#[test]
fn a_version_that_objects_may_be_stored_in_stays() {
    let version = |name: &str, stored: bool| {
        json!({"name": name, "served": true, "storage": stored,
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let mut crd = definition(&typical());
    crd["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
    let mut fixture = TestStore::new();
    fixture.create(crd).unwrap();
    let key = fixture.key("apiextensions.k8s.io", "CustomResourceDefinition", "gangs.lab.dev");
    let mut edit = |path: &[&str], value| outcome(fixture.edit(key.clone(), path, value));
    let moved = json!([version("v1", false), version("v2", true)]);
    assert_eq!(edit(&["spec", "versions"], moved), "accepted");
    let alone = json!([version("v2", true)]);
    assert_snapshot!(edit(&["spec", "versions"], alone.clone()), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "gangs.lab.dev" is invalid: status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"#);
    fixture.set_status(key.clone(), json!({"storedVersions": ["v2"]})).unwrap();
    assert_eq!(outcome(fixture.edit(key, &["spec", "versions"], alone)), "accepted");
}

#[test]
fn unrecognized_formats_are_warned_of_once() {
    let with = |format: &str| {
        definition(&json!({"type": "object", "properties": {
            "queue": {"type": "string", "format": format}}}))
    };
    let mut fixture = TestStore::new();
    let definitions = fixture.key("apiextensions.k8s.io", "CustomResourceDefinition", "");
    let create = Write::new(definitions, Op::Create(with("odd")), "test");
    let warnings = fixture.store.write(create, fixture.now).unwrap().warnings;
    assert_eq!(warnings, ["unrecognized format \"odd\""]);
    let key = fixture.key("apiextensions.k8s.io", "CustomResourceDefinition", "gangs.lab.dev");
    let mut warned = |format: &str| {
        let patch =
            PatchBody::Merge(json!({"spec": {"versions": with(format)["spec"]["versions"]},
            "metadata": {"labels": {"format": format}}}));
        fixture.write(key.clone(), Op::Patch(Subresource::None, patch)).unwrap().warnings
    };
    assert!(warned("odd").is_empty());
    assert_eq!(warned("odder"), ["unrecognized format \"odder\""]);
    assert!(warned("uri").is_empty());
}

#[test]
fn a_definition_takes_its_objects_along() {
    let mut fixture = store_with_gang_kind();
    fixture.create(gang(&json!({"queue": "team"}))).unwrap();
    let key = fixture.key("lab.dev", "Gang", "a");
    let crd = fixture.key("apiextensions.k8s.io", "CustomResourceDefinition", "gangs.lab.dev");
    assert!(fixture.delete(crd).unwrap().deleted);
    assert_eq!(fixture.store.get(&key).unwrap_err().code, 404);
    assert!(fixture.store.kinds().by_kind("lab.dev", "Gang").is_none());
}

#[test]
fn a_definition_waits_for_objects_that_wait_for_finalizers() {
    let mut fixture = store_with_gang_kind();
    let mut body = gang(&json!({"queue": "team"}));
    body["metadata"]["finalizers"] = json!(["lab.dev/hold"]);
    fixture.create(body).unwrap();
    let key = fixture.key("lab.dev", "Gang", "a");
    let crd = fixture.key("apiextensions.k8s.io", "CustomResourceDefinition", "gangs.lab.dev");
    assert!(!fixture.delete(crd.clone()).unwrap().deleted);
    assert!(fixture.store.get(&crd).is_ok());
    fixture.edit(key.clone(), &["metadata", "finalizers"], json!([])).unwrap();
    assert_eq!(fixture.store.get(&key).unwrap_err().code, 404);
    assert_eq!(fixture.store.get(&crd).unwrap_err().code, 404);
}

#[test]
fn versions_share_their_objects() {
    let mut fixture = TestStore::new();
    let mut crd = definition(&typical());
    let mut older = crd["spec"]["versions"][0].clone();
    older["name"] = "v1alpha1".into();
    older["storage"] = false.into();
    crd["spec"]["versions"].as_array_mut().unwrap().push(older);
    fixture.create(crd).unwrap();
    let mut body = gang(&json!({"queue": "team"}));
    body["apiVersion"] = "lab.dev/v1alpha1".into();
    let created = fixture.create(body).unwrap();
    assert_eq!(created["apiVersion"], "lab.dev/v1");
    let kind = fixture.store.kinds().by_path("lab.dev", "v1alpha1", "gangs").unwrap();
    assert_eq!(kind.in_version("v1alpha1", &created)["apiVersion"], "lab.dev/v1alpha1");
}

#[test]
fn a_version_that_is_not_defined_is_refused() {
    let mut body = gang(&json!({"queue": "team"}));
    body["apiVersion"] = "lab.dev/v9".into();
    assert_snapshot!(outcome(store_with_gang_kind().create(body)), @"400 BadRequest: the API version in the data (lab.dev/v9) does not match the expected API version (lab.dev/v1)");
}

/// A store with a kind `Gang` that has validation rules for its spec.
fn ruled(rules: &Value) -> TestStore {
    let mut spec = typical();
    spec["x-kubernetes-validations"] = rules.clone();
    let mut fixture = TestStore::new();
    fixture.create(definition(&spec)).expect("a valid definition");
    fixture
}

#[test]
fn rules_in_cel_are_kept() {
    let mut fixture = ruled(&json!([
        {"rule": "self.replicas <= 3 || self.mode == 'Soft'", "message": "more than 3 must be soft"},
        {"rule": "self.queue == oldSelf.queue", "message": "the queue stays"},
    ]));
    let many = gang(&json!({"queue": "team", "replicas": 5}));
    assert_snapshot!(outcome(fixture.create(many)), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec: Invalid value: more than 3 must be soft"#);
    fixture.create(gang(&json!({"queue": "team", "replicas": 2}))).unwrap();
    let key = fixture.key("lab.dev", "Gang", "a");
    assert_snapshot!(outcome(fixture.edit(key.clone(), &["spec", "queue"], json!("other"))), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec: Invalid value: the queue stays"#);
    fixture.edit(key, &["spec", "replicas"], json!(3)).unwrap();
}

#[test]
fn rules_can_test_for_an_old_value() {
    let rule = "!oldSelf.hasValue() || oldSelf.value().queue == self.queue";
    let mut fixture = ruled(&json!([{"rule": rule, "optionalOldSelf": true}]));
    fixture.create(gang(&json!({"queue": "team"}))).unwrap();
    let key = fixture.key("lab.dev", "Gang", "a");
    assert_snapshot!(outcome(fixture.edit(key.clone(), &["spec", "queue"], json!("other"))), @r#"422 Invalid: Gang.lab.dev "a" is invalid: spec: Invalid value: failed rule: !oldSelf.hasValue() || oldSelf.value().queue == self.queue"#);
    fixture.edit(key, &["spec", "replicas"], json!(3)).unwrap();
}

#[test]
fn rules_know_the_functions_of_kubernetes() {
    let broken = |rule: &str, queue: &str| {
        let mut spec = typical();
        spec["properties"]["queue"] = json!({"type": "string", "maxLength": 253});
        spec["x-kubernetes-validations"] = json!([{"rule": rule}]);
        let mut fixture = TestStore::new();
        fixture.create(definition(&spec)).expect("a valid definition");
        outcome(fixture.create(gang(&json!({"queue": queue}))))
    };
    for (rule, sound, wrong) in [
        ("isURL(self.queue)", "https://a/b", "nope"),
        ("cidr(self.queue).prefixLength() == 8", "10.0.0.0/8", "11.0.0.0/16"),
        ("cidr(self.queue).containsIP(ip('10.0.0.1'))", "10.0.0.0/8", "11.0.0.0/8"),
        ("!format.dns1123Label().validate(self.queue).hasValue()", "a-b", "A_B"),
        ("isSemver(self.queue)", "1.2.3", "x"),
        ("semver(self.queue).isLessThan(semver('2.0.0'))", "1.2.3", "2.2.3"),
    ] {
        assert!(!broken(rule, sound).contains("Invalid"), "{rule}: {}", broken(rule, sound));
        assert!(broken(rule, wrong).contains("failed rule"), "{rule}: {}", broken(rule, wrong));
    }
}

#[test]
fn a_rule_that_is_no_cel_is_refused() {
    let mut spec = typical();
    spec["x-kubernetes-validations"] = json!([{"rule": "self.replicas <="}]);
    let refusal = outcome(TestStore::new().create(definition(&spec)));
    assert_snapshot!(refusal.split(" expecting").next().unwrap(), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "gangs.lab.dev" is invalid: spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.replicas \u003c=","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:17: Syntax error: mismatched input '<EOF>'"#);
}
