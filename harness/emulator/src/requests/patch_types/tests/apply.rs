//! Server-side apply: ownership of fields, and the resulting objects.

use super::super::{
    MergeShape, WriteAuthor, apply_configuration, builtin_shape, custom_resource_shape,
    record_update,
};
use super::object;
use crate::api_types::error::ApiError;
use schedlab_api::{Value, json};

/// An object under several managers.
struct Live {
    shape: std::sync::Arc<MergeShape>,
    object: Option<Value>,
    second: i64,
}

impl Live {
    fn new(group: &str, kind: &str) -> Self {
        Self { shape: builtin_shape(group, kind), object: None, second: 0 }
    }

    fn with_schema(schema: &Value) -> Self {
        Self { shape: custom_resource_shape(schema), object: None, second: 0 }
    }

    fn author<'m>(&mut self, manager: &'m str) -> WriteAuthor<'m> {
        self.second += 1;
        let now = jiff::Timestamp::from_second(1_767_225_600 + self.second).unwrap();
        WriteAuthor { manager, api_version: "v1", subresource: "", now }
    }

    fn try_apply(&mut self, manager: &str, config: &str, force: bool) -> Result<(), ApiError> {
        let author = self.author(manager);
        let object = object(config);
        self.object = Some(apply_configuration(
            self.object.as_ref(),
            &object,
            &object,
            force,
            &self.shape,
            &author,
        )?);
        Ok(())
    }

    fn apply(&mut self, manager: &str, config: &str) -> &mut Self {
        self.try_apply(manager, config, false).unwrap();
        self
    }

    fn conflict(&mut self, manager: &str, config: &str) -> ApiError {
        self.try_apply(manager, config, false).unwrap_err()
    }

    fn update(&mut self, manager: &str, after: &str) -> &mut Self {
        let author = self.author(manager);
        let mut after = object(after);
        record_update(self.object.as_ref(), &mut after, &self.shape, &author);
        self.object = Some(after);
        self
    }

    /// The object without its managers.
    fn text(&self) -> String {
        let mut object = self.object.clone().unwrap();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            if metadata.is_empty() {
                object.as_object_mut().unwrap().remove("metadata");
            }
        }
        object.to_string()
    }

    /// `manager operation fields`, one a line.
    fn owners(&self) -> String {
        let object = self.object.as_ref().unwrap();
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let line = |entry: &Value| {
            let text = |field: &str| entry[field].as_str().unwrap().to_owned();
            format!("{} {} {}", text("manager"), text("operation"), entry["fieldsV1"])
        };
        entries.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn an_apply_creates_the_object_and_owns_its_fields() {
    let mut live = Live::new("", "ConfigMap");
    live.apply("ci", "{metadata: {name: c, labels: {a: '1'}}, data: {k: v}}");
    assert_eq!(
        live.owners(),
        r#"ci Apply {"f:data":{"f:k":{}},"f:metadata":{"f:labels":{"f:a":{}}}}"#
    );
    assert_eq!(live.text(), r#"{"data":{"k":"v"},"metadata":{"labels":{"a":"1"},"name":"c"}}"#);
}

#[test]
fn applying_the_same_configuration_again_changes_nothing() {
    let mut live = Live::new("", "ConfigMap");
    live.apply("ci", "{data: {k: v}}");
    let first = live.object.clone();
    live.apply("ci", "{data: {k: v}}");
    assert_eq!(live.object, first);
}

#[test]
fn a_field_its_manager_no_longer_applies_is_removed() {
    let mut live = Live::new("", "ConfigMap");
    live.apply("ci", "{data: {k: v, old: x}, metadata: {labels: {a: '1'}}}");
    live.apply("ci", "{data: {k: v}}");
    assert_eq!(live.text(), r#"{"data":{"k":"v"}}"#);
}

#[test]
fn a_field_another_manager_also_applies_stays() {
    let mut live = Live::new("", "ConfigMap");
    live.apply("ci", "{data: {k: v, shared: x}}").apply("ops", "{data: {shared: x}}");
    live.apply("ci", "{data: {k: v}}");
    assert_eq!(live.text(), r#"{"data":{"k":"v","shared":"x"}}"#);
    assert_eq!(
        live.owners(),
        "ci Apply {\"f:data\":{\"f:k\":{}}}\nops Apply {\"f:data\":{\"f:shared\":{}}}"
            .lines()
            .rev()
            .collect::<Vec<_>>()
            .join("\n")
    );
}

#[test]
fn another_managers_value_is_not_overwritten() {
    let mut live = Live::new("apps", "Deployment");
    live.update("kubectl", "{spec: {replicas: 3}}");
    let refused = live.conflict("ci", "{spec: {replicas: 5}}");
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"kubectl\" using v1: .spec.replicas"
    );
    let cause = &refused.details.unwrap().causes[0];
    assert_eq!(cause.reason, "FieldManagerConflict");
    assert_eq!(cause.field, ".spec.replicas");
    assert_eq!(live.text(), r#"{"spec":{"replicas":3}}"#);
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let mut live = Live::new("", "ConfigMap");
    live.apply("ops", "{data: {b: x}}").apply("dev", "{data: {a: x, c: x}}");
    assert_eq!(
        live.conflict("ci", "{data: {a: y, b: y, c: y}}").message,
        "Apply failed with 3 conflicts: conflicts with \"dev\":\n- .data.a\n- .data.c\n\
         conflicts with \"ops\":\n- .data.b"
    );
}

#[test]
fn the_same_value_is_shared_without_conflict() {
    let mut live = Live::new("", "ConfigMap");
    live.apply("ci", "{data: {k: v}}").apply("ops", "{data: {k: v}}");
    assert_eq!(live.owners().lines().count(), 2);
}

#[test]
fn force_takes_the_field_over() {
    let mut live = Live::new("apps", "Deployment");
    live.update("kubectl", "{spec: {replicas: 3, paused: true}}");
    live.try_apply("ci", "{spec: {replicas: 5}}", true).unwrap();
    assert_eq!(live.text(), r#"{"spec":{"paused":true,"replicas":5}}"#);
    assert_eq!(
        live.owners(),
        "ci Apply {\"f:spec\":{\"f:replicas\":{}}}\nkubectl Update {\"f:spec\":{\"f:paused\":{}}}"
    );
}

#[test]
fn an_update_takes_fields_from_their_applier() {
    let mut live = Live::new("", "ConfigMap");
    live.apply("ci", "{data: {a: '1', b: '2'}}");
    let mut after = live.object.clone().unwrap();
    after["data"]["a"] = json!("3");
    live.update("editor", &after.to_string());
    assert_eq!(
        live.owners(),
        "ci Apply {\"f:data\":{\"f:b\":{}}}\neditor Update {\"f:data\":{\"f:a\":{}}}"
    );
    assert_eq!(
        live.conflict("ci", "{data: {a: '1', b: '2'}}").message,
        "Apply failed with 1 conflict: conflict with \"editor\" using v1: .data.a"
    );
}

#[test]
fn containers_are_identified_by_name() {
    let mut live = Live::new("", "Pod");
    live.apply("ci", "{spec: {containers: [{name: a, image: x}]}}");
    live.apply("mesh", "{spec: {containers: [{name: proxy, image: p}]}}");
    assert_eq!(
        live.text(),
        r#"{"spec":{"containers":[{"image":"x","name":"a"},{"image":"p","name":"proxy"}]}}"#
    );
    assert_eq!(
        live.owners().lines().next().unwrap(),
        r#"ci Apply {"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:name":{}}}}}"#
    );
    live.apply("ci", "{spec: {containers: [{name: b, image: x}]}}");
    assert_eq!(
        live.text(),
        r#"{"spec":{"containers":[{"image":"p","name":"proxy"},{"image":"x","name":"b"}]}}"#
    );
}

#[test]
fn a_conflict_inside_a_list_names_the_item() {
    let mut live = Live::new("", "Pod");
    live.apply("ci", "{spec: {containers: [{name: a, image: x}]}}");
    assert_eq!(
        live.conflict("ops", "{spec: {containers: [{name: a, image: y}]}}").message,
        "Apply failed with 1 conflict: conflict with \"ci\": .spec.containers[name=\"a\"].image"
    );
}

#[test]
fn an_item_with_fields_of_another_manager_keeps_those_fields() {
    let mut live = Live::new("", "Pod");
    live.apply("ci", "{spec: {containers: [{name: a, image: x}, {name: b}]}}");
    live.apply("ops", "{spec: {containers: [{name: a, tty: true}]}}");
    live.apply("ci", "{spec: {containers: [{name: b}]}}");
    assert_eq!(live.text(), r#"{"spec":{"containers":[{"name":"a","tty":true},{"name":"b"}]}}"#);
}

#[test]
fn ports_have_two_keys_of_which_one_has_a_default() {
    let mut live = Live::new("", "Service");
    live.apply("ci", "{spec: {ports: [{port: 53, protocol: UDP}, {port: 53}]}}");
    let owners = live.owners();
    assert!(owners.contains(r#"k:{\"port\":53,\"protocol\":\"UDP\"}"#), "{owners}");
    assert!(owners.contains(r#"k:{\"port\":53,\"protocol\":\"TCP\"}"#), "{owners}");
    live.apply("ci", "{spec: {ports: [{port: 53}]}}");
    assert_eq!(live.text(), r#"{"spec":{"ports":[{"port":53}]}}"#);
}

#[test]
fn an_atomic_list_has_one_owner() {
    let mut live = Live::new("", "Pod");
    live.apply("ci", "{spec: {tolerations: [{key: a}]}}");
    assert_eq!(
        live.conflict("ops", "{spec: {tolerations: [{key: b}]}}").message,
        "Apply failed with 1 conflict: conflict with \"ci\": .spec.tolerations"
    );
    live.apply("ci", "{spec: {tolerations: [{key: c}]}}");
    assert_eq!(live.text(), r#"{"spec":{"tolerations":[{"key":"c"}]}}"#);
}

#[test]
fn an_atomic_map_is_replaced_as_a_whole() {
    let mut live = Live::new("", "Pod");
    live.apply("ci", "{spec: {nodeSelector: {a: '1'}}}");
    live.apply("ci", "{spec: {nodeSelector: {b: '2'}}}");
    assert_eq!(live.text(), r#"{"spec":{"nodeSelector":{"b":"2"}}}"#);
    assert_eq!(live.owners(), r#"ci Apply {"f:spec":{"f:nodeSelector":{}}}"#);
}

#[test]
fn finalizers_are_a_set_shared_by_value() {
    let mut live = Live::new("", "ConfigMap");
    live.apply("one", "{metadata: {finalizers: [a/a]}}");
    live.apply("two", "{metadata: {finalizers: [b/b]}}");
    assert_eq!(live.text(), r#"{"metadata":{"finalizers":["a/a","b/b"]}}"#);
    assert!(live.owners().contains(r#"{"f:metadata":{"f:finalizers":{"v:\"a/a\"":{}}}}"#));
    live.apply("one", "{metadata: {labels: {l: x}}}");
    assert_eq!(live.text(), r#"{"metadata":{"finalizers":["b/b"],"labels":{"l":"x"}}}"#);
}

#[test]
fn items_of_other_managers_keep_their_position() {
    let mut live = Live::new("", "Pod");
    live.update("x", "{spec: {containers: [{name: a}, {name: x}, {name: b}]}}");
    live.apply("ci", "{spec: {containers: [{name: b}, {name: c}]}}");
    let order = live.text();
    assert_eq!(
        order,
        r#"{"spec":{"containers":[{"name":"a"},{"name":"x"},{"name":"b"},{"name":"c"}]}}"#
    );
}

#[test]
fn a_custom_resource_follows_its_schema() {
    let schema = json!({"properties": {"spec": {"properties": {
        "steps": {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {"properties": {"id": {"type": "string"}}}
        },
        "tags": {"x-kubernetes-list-type": "set"},
        "plain": {"type": "array"},
        "whole": {"x-kubernetes-map-type": "atomic"},
        "free": {"additionalProperties": {"type": "object"}}
    }}}});
    let mut live = Live::with_schema(&schema);
    live.apply(
        "ci",
        "{spec: {steps: [{id: a, n: 1}], tags: [t], plain: [1], whole: {x: 1}, free: {f: {g: 1}}}}",
    );
    assert_eq!(
        live.owners(),
        "ci Apply {\"f:spec\":{\"f:free\":{\"f:f\":{\".\":{},\"f:g\":{}}},\"f:plain\":{},\
         \"f:steps\":{\"k:{\\\"id\\\":\\\"a\\\"}\":{\".\":{},\"f:id\":{},\"f:n\":{}}},\
         \"f:tags\":{\"v:\\\"t\\\"\":{}},\"f:whole\":{}}}"
    );
    live.apply("ops", "{spec: {steps: [{id: b}], tags: [u]}}");
    assert!(live.text().contains(r#""steps":[{"id":"a","n":1},{"id":"b"}],"tags":["t","u"]"#));
}

#[test]
fn a_keyed_list_without_keys_or_with_the_same_key_twice_is_refused() {
    let schema = json!({"properties": {"steps": {
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"], "items": {}
    }}});
    let mut live = Live::with_schema(&schema);
    let refused = live.conflict("ci", "{apiVersion: g/v1, kind: Gang, steps: [{n: 1}]}");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            500,
            "failed to create typed patch object (/; g/v1, Kind=Gang): .steps: element 0: \
             associative list with keys has an element that omits key field \"id\""
        )
    );
    let mut live = Live::new("", "Pod");
    let pod = "metadata: {name: p, namespace: n}, apiVersion: v1, kind: Pod";
    let refused = live
        .conflict("ci", &format!("{{{pod}, spec: {{containers: [{{name: a}}, {{name: a}}]}}}}"));
    assert!(refused.message.ends_with(".spec.containers: duplicate entries for key [name=\"a\"]"));
}

#[test]
fn a_configuration_may_not_name_owners() {
    let mut live = Live::new("", "ConfigMap");
    let refused = live.conflict("ci", "{metadata: {managedFields: []}}");
    assert_eq!(refused.message, "metadata.managedFields must be nil");
}

#[test]
fn fields_without_a_recorded_owner_belong_to_before_first_apply() {
    let mut live = Live::new("", "ConfigMap");
    live.object = Some(object("{apiVersion: v1, data: {k: v}}"));
    assert_eq!(
        live.conflict("ci", "{data: {k: w}}").message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.k"
    );
}

#[test]
fn defaults_without_an_owner_survive_an_apply() {
    let mut live = Live::new("", "Pod");
    live.apply("ci", "{spec: {containers: [{name: a, image: x}]}}");
    let object = live.object.as_mut().unwrap();
    object["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    live.apply("ci", "{spec: {containers: [{name: a, image: y}]}}");
    assert_eq!(
        live.text(),
        r#"{"spec":{"containers":[{"image":"y","imagePullPolicy":"Always","name":"a"}]}}"#
    );
}
