//! CEL expressions of webhooks and policies: `matchConditions`, which must hold for a webhook to be
//! called, and the validations of a policy. The variable `authorizer` is not supported: the
//! emulator has no authorization.

use kube_cel::cel::Value as CelValue;

use crate::api_types::expression::{
    EXPRESSION_COST_MAX, Program, fits_any_stack, untyped_value, with_large_stack,
};
use schedlab_api::{
    Value,
    object::{list, text},
};

/// The cost limit of all conditions of a webhook, and of all validations of a policy, as in
/// kube-apiserver.
const CONDITIONS_COST_MAX: u64 = 2_500_000;

/// Whether the expression uses the variable `authorizer`.
pub(crate) fn uses_authorizer(text: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(|letter: char| !is_part(letter)).any(|word| word == "authorizer")
}

/// Whether all match conditions of a webhook hold for a request. A condition that is false takes
/// precedence over one that cannot be evaluated.
pub(super) fn do_all_conditions_hold(webhook: &Value, request: &Value) -> Result<bool, String> {
    let conditions = list(webhook, &["matchConditions"]);
    if conditions.is_empty() {
        return Ok(true);
    }
    let is_shallow = conditions.iter().all(|one| fits_any_stack(text(one, &["expression"])));
    let result = with_large_stack(is_shallow, || evaluate_conditions(conditions, request));
    result.unwrap_or_else(|| Err("the CEL library panicked in a match condition".to_owned()))
}

/// The validation by which a policy denies a request.
pub(super) struct Violation {
    pub(super) message: String,
    /// The reason that the validation names; empty if it names none.
    pub(super) reason: String,
}

/// The first validation of a policy that is false. With `errors_count`, a validation that cannot be
/// evaluated counts as false.
pub(super) fn first_violation(
    validations: &[Value],
    request: &Value,
    errors_count: bool,
) -> Option<Violation> {
    let is_shallow = validations.iter().all(|one| fits_any_stack(text(one, &["expression"])));
    with_large_stack(is_shallow, || {
        let variables = condition_variables(request);
        let mut budget = CONDITIONS_COST_MAX;
        validations.iter().find_map(|validation| {
            let reason = text(validation, &["reason"]).to_owned();
            match evaluate_condition(text(validation, &["expression"]), &variables, &mut budget) {
                Ok(true) => None,
                Ok(false) => {
                    Some(Violation { message: violation_message(validation, &variables), reason })
                }
                Err(message) => errors_count.then_some(Violation { message, reason }),
            }
        })
    })
    .flatten()
}

/// The message of a validation that is false: by `messageExpression`, else `message`, else the
/// expression itself.
fn violation_message(validation: &Value, variables: &[(&str, CelValue)]) -> String {
    let by_expression = text(validation, &["messageExpression"]);
    if let Some(program) = Program::parse(by_expression).filter(|_| !by_expression.is_empty())
        && let Ok(CelValue::String(message)) =
            program.evaluate(variables, EXPRESSION_COST_MAX).result
        && !message.trim().is_empty()
    {
        return message.trim().to_owned();
    }
    match text(validation, &["message"]).trim() {
        "" => format!("failed expression: {}", text(validation, &["expression"]).trim()),
        message => message.to_owned(),
    }
}

fn evaluate_conditions(conditions: &[Value], request: &Value) -> Result<bool, String> {
    let variables = condition_variables(request);
    let mut errors = Vec::new();
    let mut budget = CONDITIONS_COST_MAX;
    for condition in conditions {
        match evaluate_condition(text(condition, &["expression"]), &variables, &mut budget) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if budget == 0 => return Err(error),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(true) } else { Err(errors.join(", ")) }
}

/// Whether an expression is true. The cost of the evaluation is subtracted from `budget`; a budget
/// that is exhausted is zero.
fn evaluate_condition(
    expression: &str,
    variables: &[(&str, CelValue)],
    budget: &mut u64,
) -> Result<bool, String> {
    let program = Program::parse(expression)
        .ok_or_else(|| format!("expression '{expression}' cannot be parsed"))?;
    // An exhausted budget stays exhausted: nothing else is evaluated.
    if *budget > 0 {
        let found = program.evaluate(variables, EXPRESSION_COST_MAX);
        *budget = budget.saturating_sub(found.cost);
        if *budget > 0 {
            return found.result.map(|value| value == true.into()).map_err(|error| {
                format!("expression '{expression}' resulted in error: {}", error.message())
            });
        }
    }
    Err("validation failed due to running out of cost budget, no further validation rules will be \
         run"
    .to_owned())
}

fn condition_variables(request: &Value) -> [(&'static str, CelValue); 3] {
    let attributes = request.as_object().into_iter().flatten();
    let attributes =
        attributes.filter(|(name, _)| !matches!(name.as_str(), "object" | "oldObject"));
    let attributes: Value = attributes.map(|(name, value)| (name.clone(), value.clone())).collect();
    [
        ("object", untyped_value(&request["object"])),
        ("oldObject", untyped_value(&request["oldObject"])),
        ("request", untyped_value(&attributes)),
    ]
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
        do_all_conditions_hold(&json!({"matchConditions": conditions}), &request)
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
