//! `matchConditions`: what must hold, in CEL, for a webhook to be asked. `authorizer` is not known:
//! there is nobody to be authorized.

use kube_cel::{
    AdmissionRequest, GroupVersionKind, GroupVersionResource, VapEvaluator, VapExpression,
};

use crate::expression::{is_plain, with_room};
use crate::object::{list, text};
use schedlab_json::Value;

/// What the evaluator says of an expression that is false.
const FALSE: &str = "false";

/// Whether it asks for what nobody here can answer.
pub(crate) fn needs_authorizer(text: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(|letter: char| !is_part(letter)).any(|word| word == "authorizer")
}

/// Whether all conditions of a webhook hold for a request; one that does not hold counts more than
/// one that cannot be evaluated.
pub(super) fn hold(webhook: &Value, request: &Value) -> Result<bool, String> {
    let conditions = list(webhook, &["matchConditions"]);
    if conditions.is_empty() {
        return Ok(true);
    }
    let plain = conditions.iter().all(|one| is_plain(text(one, &["expression"])));
    let judged = with_room(plain, || judge(conditions, request));
    judged.unwrap_or_else(|| Err("the expressions cannot be evaluated".to_owned()))
}

fn judge(conditions: &[Value], request: &Value) -> Result<bool, String> {
    let expressions: Vec<VapExpression> = conditions.iter().map(expression).collect();
    let mut wrong = Vec::new();
    for (found, condition) in evaluator(request).evaluate(&expressions).iter().zip(conditions) {
        match found.message.as_deref() {
            _ if found.passed => {}
            Some(FALSE) => return Ok(false),
            why => {
                let expression = text(condition, &["expression"]);
                let why = in_go(why.unwrap_or_default());
                wrong.push(format!("expression '{expression}' resulted in error: {why}"));
            }
        }
    }
    if wrong.is_empty() { Ok(true) } else { Err(wrong.join(", ")) }
}

/// As the real server's library says it.
fn in_go(why: &str) -> String {
    let why = why.strip_prefix("evaluation error: ").unwrap_or(why);
    let mut letters = why.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn expression(condition: &Value) -> VapExpression {
    VapExpression {
        expression: text(condition, &["expression"]).to_owned(),
        message: Some(FALSE.to_owned()),
        message_expression: None,
    }
}

fn evaluator(request: &Value) -> VapEvaluator {
    let of = |path: &[&str]| text(request, path).to_owned();
    let groups = list(request, &["userInfo", "groups"]).iter().filter_map(Value::as_str);
    let told = AdmissionRequest {
        operation: of(&["operation"]),
        username: of(&["userInfo", "username"]),
        uid: of(&["userInfo", "uid"]),
        groups: groups.map(str::to_owned).collect(),
        name: of(&["name"]),
        namespace: of(&["namespace"]),
        dry_run: request["dryRun"] == true,
        kind: GroupVersionKind {
            group: of(&["kind", "group"]),
            version: of(&["kind", "version"]),
            kind: of(&["kind", "kind"]),
        },
        resource: GroupVersionResource {
            group: of(&["resource", "group"]),
            version: of(&["resource", "version"]),
            resource: of(&["resource", "resource"]),
        },
    };
    let builder = VapEvaluator::builder().object(request["object"].clone().into()).request(told);
    let old = Some(&request["oldObject"]).filter(|old| !old.is_null());
    match old {
        None => builder.build(),
        Some(old) => builder.old_object(old.clone().into()).build(),
    }
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;

    fn held(expressions: &[&str]) -> Result<bool, String> {
        let condition = |text: &&str| json!({"name": "c", "expression": text});
        let conditions: Vec<Value> = expressions.iter().map(condition).collect();
        let request = json!({
            "operation": "CREATE", "userInfo": {"username": "kim"}, "object": {"a": 1},
        });
        hold(&json!({"matchConditions": conditions}), &request)
    }

    #[test]
    fn all_conditions_must_hold_and_a_false_one_counts_more_than_a_broken_one() {
        assert_eq!(held(&[]), Ok(true));
        assert_eq!(held(&["object.a == 1", "request.userInfo.username == 'kim'"]), Ok(true));
        assert_eq!(held(&["oldObject == null", "object.a == 2"]), Ok(false));
        assert_eq!(held(&["object.b.c == 1", "object.a == 2"]), Ok(false));
        assert!(held(&["object.a == 1", "object.b.c == 1"]).is_err());
    }

    #[test]
    fn long_and_nested_expressions_are_judged_like_others() {
        let nested = format!("{}object.a == 1{}", "(".repeat(90), ")".repeat(90));
        let long = format!("{}1 > 0", "1 + ".repeat(2500));
        assert_eq!(held(&[&nested, &long]), Ok(true));
    }

    #[test]
    fn the_words_of_an_expression_are_looked_at() {
        assert!(needs_authorizer("authorizer.group('')") && !needs_authorizer("my_authorizer"));
    }
}
