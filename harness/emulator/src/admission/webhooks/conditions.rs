//! `matchConditions`: CEL expressions that must hold for a webhook to be called. The variable
//! `authorizer` is not supported: the emulator has no authorization.

use kube_cel::{
    AdmissionRequest, GroupVersionKind, GroupVersionResource, VapEvaluator, VapExpression,
};

use crate::api_types::expression::{is_shallow, with_large_stack};
use schedlab_api::{
    Value,
    object::{list, text},
};

/// The message of an expression that is false.
const FALSE_MESSAGE: &str = "false";

/// Whether the expression uses the variable `authorizer`.
pub(crate) fn uses_authorizer(text: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(|letter: char| !is_part(letter)).any(|word| word == "authorizer")
}

/// Whether all conditions hold for a request. A false condition takes precedence over one that
/// cannot be evaluated.
pub(super) fn all_hold(webhook: &Value, request: &Value) -> Result<bool, String> {
    let conditions = list(webhook, &["matchConditions"]);
    if conditions.is_empty() {
        return Ok(true);
    }
    let is_shallow = conditions.iter().all(|one| is_shallow(text(one, &["expression"])));
    let result = with_large_stack(is_shallow, || evaluate(conditions, request));
    result.unwrap_or_else(|| Err("the expressions cannot be evaluated".to_owned()))
}

/// Why a policy denies a request.
pub(super) struct Violation {
    pub(super) message: String,
    /// The reason that the validation names; empty if it names none.
    pub(super) reason: String,
}

/// The first of a policy's validations that is false, or that cannot be evaluated if that counts.
pub(super) fn first_violation(
    validations: &[Value],
    request: &Value,
    errors_count: bool,
) -> Option<Violation> {
    let is_shallow = validations.iter().all(|one| is_shallow(text(one, &["expression"])));
    let results = with_large_stack(is_shallow, || {
        let expressions: Vec<VapExpression> = validations.iter().map(validation).collect();
        evaluator(request).evaluate(&expressions)
    })
    .unwrap_or_default();
    results.iter().zip(validations).find_map(|(result, validation)| {
        let message = result.message.clone().unwrap_or_default();
        let is_error = message.starts_with("evaluation error: ");
        (!result.passed && (errors_count || !is_error)).then(|| Violation {
            message: if is_error { in_cel_go_style(&message) } else { message },
            reason: text(validation, &["reason"]).to_owned(),
        })
    })
}

fn validation(validation: &Value) -> VapExpression {
    let expression = text(validation, &["expression"]).trim().to_owned();
    let stated = text(validation, &["message"]).trim();
    let message = match stated {
        "" => format!("failed expression: {expression}"),
        stated => stated.to_owned(),
    };
    let by_expression = validation["messageExpression"].as_str().map(str::to_owned);
    VapExpression { expression, message: Some(message), message_expression: by_expression }
}

fn evaluate(conditions: &[Value], request: &Value) -> Result<bool, String> {
    let expressions: Vec<VapExpression> = conditions.iter().map(expression).collect();
    let mut errors = Vec::new();
    for (found, condition) in evaluator(request).evaluate(&expressions).iter().zip(conditions) {
        match found.message.as_deref() {
            _ if found.passed => {}
            Some(FALSE_MESSAGE) => return Ok(false),
            why => {
                let expression = text(condition, &["expression"]);
                let why = in_cel_go_style(why.unwrap_or_default());
                errors.push(format!("expression '{expression}' resulted in error: {why}"));
            }
        }
    }
    if errors.is_empty() { Ok(true) } else { Err(errors.join(", ")) }
}

/// The message as cel-go writes it.
fn in_cel_go_style(why: &str) -> String {
    let why = why.strip_prefix("evaluation error: ").unwrap_or(why);
    let mut letters = why.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn expression(condition: &Value) -> VapExpression {
    VapExpression {
        expression: text(condition, &["expression"]).to_owned(),
        message: Some(FALSE_MESSAGE.to_owned()),
        message_expression: None,
    }
}

fn evaluator(request: &Value) -> VapEvaluator {
    let of = |path: &[&str]| text(request, path).to_owned();
    let groups = list(request, &["userInfo", "groups"]).iter().filter_map(Value::as_str);
    let attributes = AdmissionRequest {
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
    let builder =
        VapEvaluator::builder().object(request["object"].clone().into()).request(attributes);
    let old = Some(&request["oldObject"]).filter(|old| !old.is_null());
    match old {
        None => builder.build(),
        Some(old) => builder.old_object(old.clone().into()).build(),
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    fn all_hold_for_test(expressions: &[&str]) -> Result<bool, String> {
        let condition = |text: &&str| json!({"name": "c", "expression": text});
        let conditions: Vec<Value> = expressions.iter().map(condition).collect();
        let request = json!({
            "operation": "CREATE", "userInfo": {"username": "kim"}, "object": {"a": 1},
        });
        all_hold(&json!({"matchConditions": conditions}), &request)
    }

    #[test]
    fn all_conditions_must_hold_and_a_false_one_counts_more_than_a_broken_one() {
        assert_eq!(all_hold_for_test(&[]), Ok(true));
        assert_eq!(
            all_hold_for_test(&["object.a == 1", "request.userInfo.username == 'kim'"]),
            Ok(true)
        );
        assert_eq!(all_hold_for_test(&["oldObject == null", "object.a == 2"]), Ok(false));
        assert_eq!(all_hold_for_test(&["object.b.c == 1", "object.a == 2"]), Ok(false));
        assert!(all_hold_for_test(&["object.a == 1", "object.b.c == 1"]).is_err());
    }

    #[test]
    fn long_and_nested_expressions_are_evaluated() {
        let nested = format!("{}object.a == 1{}", "(".repeat(90), ")".repeat(90));
        let long = format!("{}1 > 0", "1 + ".repeat(2500));
        assert_eq!(all_hold_for_test(&[&nested, &long]), Ok(true));
    }

    #[test]
    fn only_the_whole_word_authorizer_uses_the_authorizer() {
        assert!(uses_authorizer("authorizer.group('')") && !uses_authorizer("my_authorizer"));
    }
}
