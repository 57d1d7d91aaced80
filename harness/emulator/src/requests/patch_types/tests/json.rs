//! JSON Patch and merge patch.

use super::super::{apply_json_patch, apply_merge_patch};
use super::object;

/// The patched object as JSON text, or `code reason: message`.
fn json_patched(current: &str, patch: &str) -> String {
    text(apply_json_patch(&object(current), &object(patch)))
}

fn merged(current: &str, patch: &str) -> String {
    text(apply_merge_patch(&object(current), &object(patch)))
}

pub(super) fn text(
    result: Result<schedlab_api::Value, crate::api_types::error::ApiError>,
) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(error) => format!("{} {}: {}", error.code, error.reason, error.message),
    }
}

const UNFIT: &str = "422 Invalid: the server rejected our request due to an error in our request";

#[test]
fn json_patch_operations_change_what_their_paths_name() {
    let cases = [
        ("{a: 1}", "[{op: add, path: /b, value: 2}]", r#"{"a":1,"b":2}"#),
        ("{a: [1, 3]}", "[{op: add, path: /a/1, value: 2}]", r#"{"a":[1,2,3]}"#),
        ("{a: [1]}", "[{op: add, path: /a/-, value: 2}]", r#"{"a":[1,2]}"#),
        ("{a: 1, b: 2}", "[{op: remove, path: /a}]", r#"{"b":2}"#),
        ("{a: 1}", "[{op: replace, path: /a, value: {b: 1}}]", r#"{"a":{"b":1}}"#),
        ("{a: 1}", "[{op: move, from: /a, path: /b}]", r#"{"b":1}"#),
        ("{a: 1}", "[{op: copy, from: /a, path: /b}]", r#"{"a":1,"b":1}"#),
        ("{a: 1}", "[{op: test, path: /a, value: 1}]", r#"{"a":1}"#),
        ("{a/b: 1}", "[{op: remove, path: /a~1b}]", "{}"),
        ("{a: 1}", "[]", r#"{"a":1}"#),
        // Here the library of the API server differs from RFC 6902.
        ("{a: 1}", "[{op: replace, path: /b, value: 2}]", r#"{"a":1,"b":2}"#),
        ("{a: 1}", "[{op: test, path: /b, value: null}]", r#"{"a":1}"#),
        ("{a: 1}", "[{op: test, path: /b}]", r#"{"a":1}"#),
        ("{a: null}", "[{op: test, path: /a, value: null}]", r#"{"a":null}"#),
        ("{a: [1, 2]}", "[{op: replace, path: /a/-1, value: 3}]", r#"{"a":[1,3]}"#),
        ("{a: [1, 2]}", "[{op: remove, path: /a/-2}]", r#"{"a":[2]}"#),
        ("{a: [1, 2]}", "[{op: add, path: /a/-1, value: 3}]", r#"{"a":[1,2,3]}"#),
        ("{a: [{b: 1}]}", "[{op: test, path: /a/-1/b, value: 1}]", r#"{"a":[{"b":1}]}"#),
        ("{a: {}}", "[{op: test, path: /a/b, value: null}]", r#"{"a":{}}"#),
        ("{a: 1}", "[{op: copy, from: /b, path: /c}]", r#"{"a":1,"c":null}"#),
        ("{a: 1}", "[{op: add, path: /b}]", r#"{"a":1,"b":null}"#),
    ];
    for (current, patch, expected) in cases {
        assert_eq!(json_patched(current, patch), expected, "{current} with {patch}");
    }
}

#[test]
fn a_json_patch_that_does_not_fit_is_refused_and_changes_nothing() {
    let cases = [
        ("{a: 1}", "[{op: test, path: /a, value: 2}]"),
        ("{a: 1}", "[{op: test, path: /b, value: 2}]"),
        ("{a: [1]}", "[{op: remove, path: /a/-2}]"),
        ("{a: 1}", "[{op: test, path: /a, value: null}]"),
        ("{a: 1}", "[{op: test, path: /b/c, value: null}]"),
        ("{a: [1]}", "[{op: test, path: /a/1, value: null}]"),
        ("{a: 1}", "[{op: move, from: /b, path: /c}]"),
        ("{a: 1}", "[{op: remove, path: /b}]"),
        ("{a: [1]}", "[{op: replace, path: /a/1, value: 1}]"),
        ("{a: 1}", "[{op: fly, path: /a}]"),
        ("{a: 1}", "[{path: /a}]"),
        ("{a: 1}", "[{op: add, path: /b/c, value: 1}]"),
        ("{a: [1]}", "[{op: add, path: /a/7, value: 1}]"),
        ("{a: 1}", "[{op: replace, path: '', value: 3}]"),
    ];
    for (current, patch) in cases {
        assert_eq!(json_patched(current, patch), UNFIT, "{current} with {patch}");
    }
}

#[test]
fn a_json_patch_that_is_not_a_list_is_a_bad_request() {
    let answer = json_patched("{a: 1}", "{a: 1}");
    assert!(answer.starts_with("400 BadRequest: error decoding patch: "), "{answer}");
}

#[test]
fn a_json_patch_has_at_most_ten_thousand_operations() {
    let operation = schedlab_api::json!({"op": "test", "path": "/a", "value": 1});
    let patch = schedlab_api::Value::Array(vec![operation; 10_001]);
    let refused = apply_json_patch(&object("{a: 1}"), &patch).unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (413, "RequestEntityTooLarge"));
}

#[test]
fn merge_patch_follows_rfc_7386() {
    let cases = [
        ("{a: b}", "{a: c}", r#"{"a":"c"}"#),
        ("{a: b}", "{b: c}", r#"{"a":"b","b":"c"}"#),
        ("{a: b}", "{a: null}", "{}"),
        ("{a: b, b: c}", "{a: null}", r#"{"b":"c"}"#),
        ("{a: [b]}", "{a: c}", r#"{"a":"c"}"#),
        ("{a: c}", "{a: [b]}", r#"{"a":["b"]}"#),
        ("{a: {b: c}}", "{a: {b: d, c: null}}", r#"{"a":{"b":"d"}}"#),
        ("{a: [{b: c}]}", "{a: [1]}", r#"{"a":[1]}"#),
        ("{e: null}", "{a: 1}", r#"{"a":1,"e":null}"#),
        ("{}", "{a: {bb: {ccc: null}}}", r#"{"a":{"bb":{}}}"#),
    ];
    for (current, patch, expected) in cases {
        assert_eq!(merged(current, patch), expected, "{current} with {patch}");
    }
}

#[test]
fn a_merge_patch_that_is_not_an_object_is_a_bad_request() {
    assert!(merged("{a: 1}", "[1]").starts_with("400 BadRequest: "));
}

#[test]
fn a_json_patch_copies_at_most_3_mib() {
    let doubled = |times: usize| {
        let copies =
            (0..times).map(|nth| format!(r#"{{"op": "copy", "from": "/a", "path": "/a/k{nth}"}}"#));
        let copies: Vec<String> = copies.collect();
        json_patched("{a: {c: 1}}", &format!("[{}]", copies.join(",")))
    };
    assert!(doubled(10).starts_with(r#"{"a":{"c":1,"k0":{"c":1}"#));
    assert_eq!(doubled(30), UNFIT);
}

#[test]
fn a_json_patch_nests_at_most_500_levels() {
    let nested = |times: usize| {
        let steps = (0..times).map(|nth| {
            let path = "/a".repeat(nth + 1);
            format!(r#"{{"op": "add", "path": "{path}", "value": {{}}}}"#)
        });
        json_patched("{}", &format!("[{}]", steps.collect::<Vec<_>>().join(",")))
    };
    assert!(nested(100).starts_with(r#"{"a":{"a":"#));
    assert_eq!(nested(1_000), UNFIT);
    let moved =
        r#"{"op": "move", "from": "/a", "path": "/b"}, {"op": "move", "from": "/b", "path": "/a"}"#;
    let often = format!("[{}]", [moved].repeat(600).join(","));
    assert_eq!(json_patched("{a: 1}", &often), r#"{"a":1}"#);
}
