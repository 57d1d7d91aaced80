//! Table tests: expression and object in, results out.

use insta::assert_snapshot;
use schedlab_api::json;

use super::*;

fn output(text: &str, object: &Value) -> String {
    let program = match Program::parse(text) {
        Ok(program) => program,
        Err(ParseError::Syntax) => return "no expression".to_owned(),
        Err(ParseError::UnknownName(name)) => return format!("{name} is unknown"),
    };
    let shown = |found: Vec<JqValue>| {
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        shown.join(" ")
    };
    program
        .run(&JqInput::from_object(object), &Budget::new())
        .map_or_else(|why| format!("error: {why}"), shown)
}

#[test]
fn supported_expressions_evaluate_as_in_jq() {
    let object = json!({
        "metadata": { "labels": { "a.b/c": "X", "count": "3" } },
        "spec": { "size": 4, "roles": [{ "name": "a", "replicas": 2 }, { "name": "b" }],
                  "pools": { "y": { "n": 1 }, "x": { "n": 2 } } },
    });
    let of = |text: &str| output(text, &object);
    assert_snapshot!(of(".spec.size"), @"4");
    assert_snapshot!(of(".spec.none.at.all"), @"nothing");
    assert_snapshot!(of(".spec.none // 1"), @"1");
    assert_snapshot!(of("(.spec.none // 1) * ((.spec.size // 1) - 1)"), @"3");
    assert_snapshot!(of(".spec.roles[] | (.replicas // 1)"), @"2 1");
    assert_snapshot!(of(".spec.pools | keys[]"), @r#""x" "y""#);
    assert_snapshot!(of(".spec.pools[].n"), @"2 1");
    assert_snapshot!(of(".spec.pools | to_entries[] | select(.value.n > 1) | .key"), @r#""x""#);
    assert_snapshot!(of(r#".metadata.labels["a.b/c"] | ascii_downcase"#), @r#""x""#);
    assert_snapshot!(of(".metadata.labels.count | tonumber"), @"3");
    assert_snapshot!(of(r#"[.spec.roles[].name] | join("-")"#), @r#""a-b""#);
    assert_snapshot!(of("[.spec.roles[] | .replicas // 1] | add"), @"3");
    assert_snapshot!(of("reduce .spec.roles[] as $role (0; . + ($role.replicas // 1))"), @"3");
    assert_snapshot!(of(r#""\(.spec.size)-\(.metadata.labels.count)""#), @r#""4-3""#);
    assert_snapshot!(of(".spec as $s | $s.roles[] | select(.name as $n | [\"b\"] | index($n) | not) | .name"), @r#""a""#);
    assert_snapshot!(of("if .spec.size > 3 then {size: .spec.size, name: .spec.roles[0].name} else empty end"), @"a map");
    assert_snapshot!(of(".spec.size[]?"), @"");
    assert_snapshot!(of(".spec.size[]"), @"error: cannot use 4 as iterable (array or object)");
}

#[test]
fn unbounded_and_impure_functions_are_rejected() {
    let of = |text: &str| output(text, &json!({}));
    for text in ["range(9)", "repeat(1)", "def f: f; f", "[..]", "recurse(.)", "until(false; .)"] {
        assert!(of(text).ends_with("is unknown"), "{text}: {}", of(text));
    }
    assert_snapshot!(of("env"), @"env is unknown");
    assert_snapshot!(of("$ENV"), @"no expression");
    assert_snapshot!(of("input"), @"input is unknown");
    assert_snapshot!(of("halt"), @"halt is unknown");
    assert_snapshot!(of("__program"), @"__program is unknown");
    assert_snapshot!(of(".a = 1"), @"an assignment is unknown");
    assert_snapshot!(of("del(.a)"), @"del is unknown");
    assert_snapshot!(of("@base64"), @"@base64 is unknown");
    assert_snapshot!(of(".a |"), @"no expression");
    assert_snapshot!(of(""), @"no expression");
    assert_snapshot!(of(&"(".repeat(EXPRESSION_BYTES_MAX)), @"no expression");
    assert_snapshot!(of(&format!("{}1{}", "[".repeat(2000), "]".repeat(2000))), @"a list");
    assert_snapshot!(of(&" ".repeat(EXPRESSION_BYTES_MAX + 1)), @"no expression");
}

#[test]
fn expressions_over_budget_fail() {
    let many = json!({ "items": vec![json!("0123456789"); 1000] });
    let of = |text: &str| output(text, &many);
    let given_up = "error: the expression exceeds its budget: too many or too large values";
    for step in ["[.[], .[]]", "[., .]", ". + .", "tojson"] {
        let text = format!("[.items[]]{}", format!(" | {step}").repeat(60));
        assert_eq!(of(&text), given_up, "{text}");
        assert_eq!(of(&format!("try ({text}) catch 1")), given_up, "{text}");
    }
    for one in [
        vec!["(1, 1)"; 60].join(" + "),
        format!("\"{}\"", "\\(1, 1)".repeat(60)),
        format!("{{{}}}", vec!["a: (1, 1)"; 60].join(", ")),
        "reduce .items[] as $x (1; [., .])".to_owned(),
    ] {
        assert_eq!(of(&format!("[{one}]")), given_up, "{one}");
    }
    assert_snapshot!(of(".items[0] * 1000000000"), @r#"error: cannot use "0123456789" as number"#);
    assert_snapshot!(of(&format!("9{}", " | . * .".repeat(60))), @"error: cannot use 3433683820292512484657849089281 as number");
    assert_snapshot!(of(".items | join([limit(7; .[])] | add)"), @r#"error: cannot use "0123456789012345678901234567890123456789012345678901234567890123456789" as short text"#);
    assert_snapshot!(of(".items[:2] | contains(.)"), @r#"error: cannot use ["0123456789","0123456789"] as short text"#);
    assert_snapshot!(of(".items[], .items[]"), @"error: more than 999 results");
    assert_snapshot!(of("[.items[] | split(\"\") | length] | add"), @"10000");
}
