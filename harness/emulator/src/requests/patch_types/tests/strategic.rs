//! Strategic merge patch: current, patch, result.

use super::super::{apply_strategic_patch, builtin_shape};
use super::json::text;
use super::object;

/// Patches the containers' list, or any other field, of a pod's spec.
fn pod_spec(current: &str, patch: &str) -> String {
    let shape = builtin_shape("", "Pod");
    let within = |text: &str| schedlab_api::json!({ "spec": object(text) });
    let result = apply_strategic_patch(&within(current), &within(patch), &shape);
    text(result.map(|value| value["spec"].clone()))
}

fn patched(group: &str, kind: &str, current: &str, patch: &str) -> String {
    let shape = builtin_shape(group, kind);
    text(apply_strategic_patch(&object(current), &object(patch), &shape))
}

#[test]
fn keyed_lists_merge_by_their_key() {
    let cases = [
        (
            "{containers: [{name: a, image: x}]}",
            "{containers: [{name: a, image: y}]}",
            r#"{"containers":[{"image":"y","name":"a"}]}"#,
        ),
        (
            "{containers: [{name: a}, {name: b}]}",
            "{containers: [{name: b, image: y}]}",
            r#"{"containers":[{"name":"a"},{"image":"y","name":"b"}]}"#,
        ),
        (
            "{containers: [{name: a, env: [{name: k, value: v}]}]}",
            "{containers: [{name: a, env: [{name: k, value: w}]}]}",
            r#"{"containers":[{"env":[{"name":"k","value":"w"}],"name":"a"}]}"#,
        ),
        (
            "{containers: [{name: a, ports: [{containerPort: 1, name: p}]}]}",
            "{containers: [{name: a, ports: [{containerPort: 1, protocol: UDP}]}]}",
            r#"{"containers":[{"name":"a","ports":[{"containerPort":1,"name":"p","protocol":"UDP"}]}]}"#,
        ),
        (
            "{containers: [{name: a, volumeMounts: [{mountPath: /m, name: v}]}]}",
            "{containers: [{name: a, volumeMounts: [{mountPath: /m, readOnly: true}]}]}",
            r#"{"containers":[{"name":"a","volumeMounts":[{"mountPath":"/m","name":"v","readOnly":true}]}]}"#,
        ),
        (
            "{imagePullSecrets: [{name: a}]}",
            "{imagePullSecrets: [{name: a}]}",
            r#"{"imagePullSecrets":[{"name":"a"}]}"#,
        ),
        (
            "{hostAliases: [{ip: 1.1.1.1, hostnames: [a]}]}",
            "{hostAliases: [{ip: 1.1.1.1, hostnames: [b]}]}",
            r#"{"hostAliases":[{"hostnames":["b"],"ip":"1.1.1.1"}]}"#,
        ),
    ];
    for (current, patch, expected) in cases {
        assert_eq!(pod_spec(current, patch), expected, "{current} with {patch}");
    }
}

#[test]
fn lists_without_a_merge_key_are_replaced() {
    let cases = [
        (
            "{tolerations: [{key: a}]}",
            "{tolerations: [{key: b}]}",
            r#"{"tolerations":[{"key":"b"}]}"#,
        ),
        (
            "{containers: [{name: a, command: [x, y]}]}",
            "{containers: [{name: a, command: [z]}]}",
            r#"{"containers":[{"command":["z"],"name":"a"}]}"#,
        ),
    ];
    for (current, patch, expected) in cases {
        assert_eq!(pod_spec(current, patch), expected, "{current} with {patch}");
    }
}

#[test]
fn a_new_item_comes_first_unless_the_patch_says_the_order() {
    assert_eq!(
        pod_spec("{containers: [{name: a}, {name: b}]}", "{containers: [{name: c}]}"),
        r#"{"containers":[{"name":"c"},{"name":"a"},{"name":"b"}]}"#
    );
    assert_eq!(
        pod_spec(
            "{containers: [{name: a}, {name: b}]}",
            "{$setElementOrder/containers: [{name: b}, {name: c}, {name: a}], \
              containers: [{name: c}]}"
        ),
        r#"{"containers":[{"name":"b"},{"name":"c"},{"name":"a"}]}"#
    );
}

#[test]
fn an_order_alone_reorders_and_unnamed_items_keep_their_place() {
    assert_eq!(
        pod_spec(
            "{containers: [{name: x}, {name: a}, {name: b}]}",
            "{$setElementOrder/containers: [{name: b}, {name: a}]}"
        ),
        r#"{"containers":[{"name":"x"},{"name":"b"},{"name":"a"}]}"#
    );
}

#[test]
fn a_patch_that_contradicts_its_own_order_is_refused() {
    assert_eq!(
        pod_spec(
            "{containers: [{name: a}, {name: b}]}",
            "{$setElementOrder/containers: [{name: a}], containers: [{name: b}]}"
        ),
        "400 BadRequest: invalid patch format of setElementOrder list"
    );
}

#[test]
fn directives_delete_replace_and_merge() {
    let cases = [
        (
            "{containers: [{name: a}, {name: b}]}",
            "{containers: [{name: a, $patch: delete}]}",
            r#"{"containers":[{"name":"b"}]}"#,
        ),
        (
            "{containers: [{name: a}, {name: b}]}",
            "{containers: [{$patch: replace}, {name: c}]}",
            r#"{"containers":[{"name":"c"}]}"#,
        ),
        (
            "{nodeSelector: {a: '1', b: '2'}}",
            "{nodeSelector: {$patch: replace, c: '3'}}",
            r#"{"nodeSelector":{"c":"3"}}"#,
        ),
        ("{nodeSelector: {a: '1'}}", "{nodeSelector: {$patch: delete}}", r#"{"nodeSelector":{}}"#),
        (
            "{nodeSelector: {a: '1'}}",
            "{nodeSelector: {$patch: merge, b: '2'}}",
            r#"{"nodeSelector":{"a":"1","b":"2"}}"#,
        ),
        ("{nodeSelector: {a: '1'}, x: 1}", "{nodeSelector: null}", r#"{"x":1}"#),
        ("{}", "{containers: [{name: c, image: null}]}", r#"{"containers":[{"name":"c"}]}"#),
    ];
    for (current, patch, expected) in cases {
        assert_eq!(pod_spec(current, patch), expected, "{current} with {patch}");
    }
}

#[test]
fn retained_keys_drop_the_others() {
    assert_eq!(
        pod_spec(
            "{volumes: [{name: v, emptyDir: {}}]}",
            "{volumes: [{name: v, $retainKeys: [name, hostPath], hostPath: {path: /x}}]}"
        ),
        r#"{"volumes":[{"hostPath":{"path":"/x"},"name":"v"}]}"#
    );
    assert_eq!(
        patched(
            "apps",
            "Deployment",
            "{spec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}}",
            "{spec: {strategy: {$retainKeys: [type], type: Recreate}}}"
        ),
        r#"{"spec":{"strategy":{"type":"Recreate"}}}"#
    );
    assert_eq!(
        pod_spec("{volumes: []}", "{volumes: [{name: v}], $retainKeys: [other]}"),
        "400 BadRequest: invalid patch format of retainKeys"
    );
}

#[test]
fn sets_of_scalars_are_united_and_a_directive_removes_values() {
    let finalizers = |text: &str| format!("{{metadata: {text}}}");
    let cases = [
        (
            "{finalizers: [a/a]}",
            "{finalizers: [b/b]}",
            r#"{"metadata":{"finalizers":["b/b","a/a"]}}"#,
        ),
        ("{finalizers: [a/a]}", "{finalizers: [a/a]}", r#"{"metadata":{"finalizers":["a/a"]}}"#),
        (
            "{finalizers: [a/a, b/b]}",
            "{$deleteFromPrimitiveList/finalizers: [a/a]}",
            r#"{"metadata":{"finalizers":["b/b"]}}"#,
        ),
    ];
    for (current, patch, expected) in cases {
        let found = patched("", "ConfigMap", &finalizers(current), &finalizers(patch));
        assert_eq!(found, expected, "{current} with {patch}");
    }
}

#[test]
fn each_kind_has_its_own_keys() {
    let cases = [
        (
            ("", "Node"),
            "{spec: {taints: [{key: a, effect: NoSchedule}]}}",
            "{spec: {taints: [{key: a, effect: NoExecute}]}}",
            r#"{"spec":{"taints":[{"effect":"NoExecute","key":"a"}]}}"#,
        ),
        (
            ("", "Service"),
            "{spec: {ports: [{port: 80, name: w}]}}",
            "{spec: {ports: [{port: 80, targetPort: 8080}]}}",
            r#"{"spec":{"ports":[{"name":"w","port":80,"targetPort":8080}]}}"#,
        ),
        (
            ("", "Pod"),
            "{status: {conditions: [{type: Ready, status: 'False'}]}}",
            "{status: {conditions: [{type: Ready, status: 'True'}]}}",
            r#"{"status":{"conditions":[{"status":"True","type":"Ready"}]}}"#,
        ),
        (
            ("", "ConfigMap"),
            "{metadata: {ownerReferences: [{uid: u, name: a}]}}",
            "{metadata: {ownerReferences: [{uid: u, $patch: delete}]}}",
            r#"{"metadata":{"ownerReferences":[]}}"#,
        ),
        (
            ("policy", "PodDisruptionBudget"),
            "{spec: {selector: {matchLabels: {a: '1'}}}}",
            "{spec: {selector: {matchLabels: {b: '2'}}}}",
            r#"{"spec":{"selector":{"matchLabels":{"b":"2"}}}}"#,
        ),
        (
            ("batch", "CronJob"),
            "{spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: a}]}}}}}}",
            "{spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: x}]}}}}}}",
            r#"{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"image":"x","name":"a"}]}}}}}}"#,
        ),
    ];
    for (kind, current, patch, expected) in cases {
        assert_eq!(
            patched(kind.0, kind.1, current, patch),
            expected,
            "{kind:?} {current} with {patch}"
        );
    }
}

#[test]
fn malformed_patches_are_rejected_with_the_servers_message() {
    let cases = [
        (
            "{containers: [{name: a}]}",
            "{containers: [{image: y}]}",
            "500 : map: map[image:y] does not contain declared merge key: name",
        ),
        (
            "{containers: [{name: a}]}",
            "{containers: [x]}",
            "422 Invalid: the server rejected our request due to an error in our request",
        ),
        (
            "{containers: [{name: a}]}",
            "{containers: [{name: a, $patch: fly}]}",
            "400 BadRequest: unknown patch type: fly",
        ),
        ("{a: {}}", "{a: {$patch: fly}}", "400 BadRequest: unknown patch type: fly"),
    ];
    for (current, patch, expected) in cases {
        assert_eq!(pod_spec(current, patch), expected, "{current} with {patch}");
    }
}
