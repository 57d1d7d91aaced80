//! Evaluates the rules of a schema for an object, with the cost limits of kube-apiserver. Rules
//! that use functions missing in the CEL library are skipped: kube-apiserver has these functions.

use super::cel_rules::VALIDATIONS_KEYWORD;
use super::rule_shape::cel_shape;
use super::validate::path_or_nil;
use super::{ListType, Schema, compile};
use crate::api_types::error::FieldErrors;
use crate::api_types::expression::{
    CelShape, EXPRESSION_COST_MAX, EvaluationError, Program, fits_any_stack,
    is_within_length_limit, optional_value, with_large_stack,
};
use schedlab_api::{
    Map, Value,
    object::{list, map, text},
};

/// The cost limit of all rules for one object, as in kube-apiserver.
const OBJECT_COST_MAX: u64 = 10_000_000;
/// The cost limit of rules that are evaluated under the store's lock: about a millisecond.
const QUICK_COST_MAX: u64 = 20_000;
/// The maximum number of values in an object whose rules are evaluated under the store's lock.
const QUICK_VALUES_MAX: usize = 10_000;
/// The maximum length of a text that `messageExpression` returns, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 << 10;
const BUDGET_EXCEEDED: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The compiled rules of a schema.
#[derive(Debug)]
pub(crate) struct CompiledRules {
    root: RuleNode,
    /// Whether the stack of any thread suffices for the evaluation.
    is_shallow: bool,
}

/// The compiled rules of one part of a schema, and those of the parts below it.
#[derive(Debug)]
struct RuleNode {
    kind: String,
    shape: CelShape,
    list_type: ListType,
    rules: Vec<Rule>,
    properties: Vec<(String, RuleNode)>,
    items: Option<Box<RuleNode>>,
    values: Option<Box<RuleNode>>,
}

#[derive(Debug)]
struct Rule {
    program: Program,
    message_program: Option<Program>,
    uses_old_self: bool,
    is_old_optional: bool,
    message: String,
    /// The name of the rule in messages.
    name: String,
    reason: String,
    field_path: String,
}

/// Compiles the rules of a schema; `None` if there are none, or if one of them is too long.
pub(super) fn compile_rules(raw: &Value, is_whole_object: bool) -> Option<CompiledRules> {
    let expressions = all_expressions(raw);
    if expressions.is_empty() || !expressions.iter().all(|rule| is_within_length_limit(rule)) {
        return None;
    }
    let is_shallow = expressions.iter().all(|rule| fits_any_stack(rule));
    let root = with_large_stack(is_shallow, || RuleNode::compile(raw, is_whole_object))??;
    Some(CompiledRules { root, is_shallow })
}

/// All CEL expressions in a schema.
fn all_expressions(raw: &Value) -> Vec<&str> {
    let rules = list(raw, &[VALIDATIONS_KEYWORD]).iter();
    let own = rules.flat_map(|rule| ["rule", "messageExpression"].map(|it| text(rule, &[it])));
    own.chain(child_parts(raw).flat_map(all_expressions)).collect()
}

/// The direct parts of a schema: properties, map values and list items.
fn child_parts(raw: &Value) -> impl Iterator<Item = &Value> {
    let properties = map(raw, &["properties"]).into_iter().flatten().map(|(_, part)| part);
    let others = ["items", "additionalProperties"].into_iter().filter_map(|name| raw.get(name));
    properties.chain(others.filter(|part| part.is_object()))
}

impl RuleNode {
    /// Compiles the rules of a part and of the parts below it; `None` if there are none.
    fn compile(raw: &Value, is_whole_object: bool) -> Option<Self> {
        let part = |part: &Value| {
            part.is_object()
                .then(|| Self::compile(part, part["x-kubernetes-embedded-resource"] == true))?
        };
        let properties = map(raw, &["properties"]).into_iter().flatten();
        let node = Self {
            kind: text(raw, &["type"]).to_owned(),
            shape: cel_shape(raw, is_whole_object),
            list_type: compile::parse_list_type(raw),
            rules: list(raw, &[VALIDATIONS_KEYWORD]).iter().filter_map(Rule::compile).collect(),
            properties: properties
                .filter_map(|(name, property)| Some((name.to_string(), part(property)?)))
                .collect(),
            items: part(&raw["items"]).map(Box::new),
            values: part(&raw["additionalProperties"]).map(Box::new),
        };
        let is_empty = node.rules.is_empty()
            && node.properties.is_empty()
            && node.items.is_none()
            && node.values.is_none();
        (!is_empty).then_some(node)
    }

    /// The old item that corresponds to an item. Only items of lists with list type `map` can have
    /// one.
    fn old_item<'v>(&self, old: Option<&'v Value>, item: &Value) -> Option<&'v Value> {
        let ListType::Map(keys) = &self.list_type else { return None };
        let is_same = |old: &&Value| keys.iter().all(|key| old[key.as_str()] == item[key.as_str()]);
        old?.as_array()?.iter().find(is_same)
    }
}

impl Rule {
    fn compile(raw: &Value) -> Option<Self> {
        let of = |field: &str| text(raw, &[field]);
        let program = Program::parse(of("rule"))?;
        let message = of("message").trim();
        let name = if message.is_empty() { of("rule").trim() } else { message };
        let default = || format!("failed rule: {name}");
        Some(Self {
            uses_old_self: program.uses("oldSelf"),
            program,
            message_program: Some(of("messageExpression"))
                .filter(|text| !text.is_empty())
                .and_then(Program::parse),
            is_old_optional: raw["optionalOldSelf"] == true,
            message: if message.is_empty() { default() } else { message.to_owned() },
            name: name.to_owned(),
            reason: of("reason").to_owned(),
            field_path: of("fieldPath").to_owned(),
        })
    }
}

/// Error: the rules of an object cost too much to be evaluated under the store's lock.
#[derive(Clone, Debug)]
pub struct CostlyRules;

impl Schema {
    /// Whether the schema has CEL rules.
    pub fn has_rules(&self) -> bool {
        self.cel.is_some()
    }

    /// The rules that `new` violates, except those about an unchanged part.
    pub fn rule_violations(&self, old: Option<&Value>, new: &Value) -> FieldErrors {
        self.cel.as_ref().map_or_else(FieldErrors::new, |rules| rules.violations(old, new))
    }

    /// Like [`Self::rule_violations`], but stops after about a millisecond.
    ///
    /// # Errors
    ///
    /// The evaluation may take longer.
    pub fn quick_rule_violations(
        &self,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<FieldErrors, CostlyRules> {
        let Some(rules) = &self.cel else { return Ok(FieldErrors::new()) };
        if has_more_values(new, &mut { QUICK_VALUES_MAX }) {
            return Err(CostlyRules);
        }
        let run = rules.run(old, new, QUICK_COST_MAX);
        if run.is_exhausted { Err(CostlyRules) } else { Ok(run.errors) }
    }
}

/// Whether a value contains more values than `limit`. The number of values is subtracted from
/// `limit`.
fn has_more_values(value: &Value, limit: &mut usize) -> bool {
    let Some(left) = limit.checked_sub(1) else { return true };
    *limit = left;
    match value {
        Value::Array(items) => items.iter().any(|item| has_more_values(item, limit)),
        Value::Object(fields) => fields.values().any(|value| has_more_values(value, limit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

impl CompiledRules {
    pub(super) fn violations(&self, old: Option<&Value>, new: &Value) -> FieldErrors {
        self.run(old, new, OBJECT_COST_MAX).errors
    }

    fn run(&self, old: Option<&Value>, new: &Value, budget: u64) -> RuleEvaluationRun {
        let run = || {
            let mut run =
                RuleEvaluationRun { budget, errors: FieldErrors::new(), is_exhausted: false };
            let data = PartValues { old, new, is_in_unchanged: false };
            run.check_node(&self.root, "", data);
            run
        };
        let failed =
            || RuleEvaluationRun { budget: 0, errors: FieldErrors::new(), is_exhausted: false };
        with_large_stack(self.is_shallow, run).unwrap_or_else(failed)
    }
}

/// The values of a part of the object before and after the write.
#[derive(Clone, Copy)]
struct PartValues<'v> {
    /// The old value that corresponds to the new one.
    old: Option<&'v Value>,
    new: &'v Value,
    /// Whether the closest enclosing part with a corresponding old value is unchanged.
    is_in_unchanged: bool,
}

impl PartValues<'_> {
    fn is_unchanged(self) -> bool {
        self.old.map_or(self.is_in_unchanged, |old| old == self.new)
    }

    /// The values of a part below this part. `is_in_unchanged` matters only if the lower part has
    /// no old value.
    fn values_of_child<'p>(self, old: Option<&'p Value>, new: &'p Value) -> PartValues<'p> {
        let is_in_unchanged = old.is_none() && self.is_unchanged();
        PartValues { old, new, is_in_unchanged }
    }
}

/// The state of one evaluation of all rules of an object.
struct RuleEvaluationRun {
    /// The rest of the cost limit.
    budget: u64,
    errors: FieldErrors,
    /// The cost limit was exceeded: no further rules are evaluated.
    is_exhausted: bool,
}

impl RuleEvaluationRun {
    fn check_node(&mut self, node: &RuleNode, path: &str, data: PartValues<'_>) {
        if self.is_exhausted || data.new.is_null() {
            return;
        }
        self.check_rules(node, path, data);
        match data.new {
            Value::Array(items) => self.check_items(node, path, data, items),
            Value::Object(fields) => self.check_fields(node, path, data, fields),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn check_items(&mut self, node: &RuleNode, path: &str, data: PartValues<'_>, items: &[Value]) {
        let Some(inner) = &node.items else { return };
        for (index, item) in items.iter().enumerate() {
            let part = data.values_of_child(node.old_item(data.old, item), item);
            self.check_node(inner, &format!("{path}[{index}]"), part);
        }
    }

    fn check_fields(&mut self, node: &RuleNode, path: &str, data: PartValues<'_>, fields: &Map) {
        let old = |name: &str| data.old.and_then(|old| old.get(name));
        if let Some(inner) = &node.values {
            for (name, value) in fields {
                self.check_node(
                    inner,
                    &format!("{path}[{name}]"),
                    data.values_of_child(old(name), value),
                );
            }
        }
        let dot = if path.is_empty() { "" } else { "." };
        for (name, inner) in &node.properties {
            if let Some(value) = fields.get(name) {
                let path = format!("{path}{dot}{name}");
                self.check_node(inner, &path, data.values_of_child(old(name), value));
            }
        }
    }

    fn check_rules(&mut self, node: &RuleNode, path: &str, data: PartValues<'_>) {
        if node.rules.is_empty() {
            return;
        }
        let of_self = node.shape.cel_value(data.new);
        let of_old = data.old.filter(|old| !old.is_null()).map(|old| node.shape.cel_value(old));
        for rule in &node.rules {
            if self.is_exhausted {
                return;
            }
            if rule.uses_old_self && of_old.is_none() && !rule.is_old_optional {
                continue;
            }
            let mut variables = vec![("self", of_self.clone())];
            if rule.is_old_optional {
                variables.push(("oldSelf", optional_value(of_old.clone())));
            } else if let Some(old) = &of_old {
                variables.push(("oldSelf", old.clone()));
            }
            let site = EvaluatedRule { node, rule, path, data };
            let limit = self.budget.saturating_add(1).min(EXPRESSION_COST_MAX);
            let found = rule.program.evaluate(&variables, limit);
            if !self.spend_budget(found.cost, &site) {
                return;
            }
            match found.result {
                Ok(value) if value == true.into() => {}
                Ok(_) => {
                    let message = self.violation_message(&site, &variables);
                    self.report_violation(&site, &message);
                }
                Err(error) => self.report_failure(&site, &error),
            }
        }
    }

    /// Subtracts the cost of a rule from the budget; `false`, and an error is reported, if the
    /// budget is exceeded.
    fn spend_budget(&mut self, cost: u64, site: &EvaluatedRule<'_>) -> bool {
        if cost > self.budget {
            self.errors.invalid(site.field_path(), &site.type_name(), BUDGET_EXCEEDED);
            self.is_exhausted = true;
            return false;
        }
        self.budget -= cost;
        true
    }

    fn report_failure(&mut self, site: &EvaluatedRule<'_>, error: &EvaluationError) {
        if error.is_unsupported() {
            return;
        }
        let (why, name) = (error.message(), &site.rule.name);
        let message = match error {
            EvaluationError::CostLimit => {
                self.is_exhausted = true;
                format!(
                    "'{why}': no further validation rules will be run due to call cost exceeds \
                     limit for rule: {name}"
                )
            }
            EvaluationError::Failed(_) if why.starts_with("no such overload") => format!(
                "'{why}': call arguments did not match a supported operator, function or macro \
                 signature for rule: {name}"
            ),
            EvaluationError::Failed(_) => format!("{why} evaluating rule: {name}"),
        };
        self.errors.invalid(site.field_path(), &site.type_name(), &message);
    }

    /// The message of a rule that does not hold.
    fn violation_message(
        &mut self,
        site: &EvaluatedRule<'_>,
        variables: &[(&str, kube_cel::cel::Value)],
    ) -> String {
        let Some(program) = &site.rule.message_program else { return site.rule.message.clone() };
        let found = program.evaluate(variables, self.budget.min(EXPRESSION_COST_MAX));
        self.budget = self.budget.saturating_sub(found.cost);
        match found.result {
            Ok(kube_cel::cel::Value::String(text))
                if text.len() <= MESSAGE_BYTES_MAX
                    && !text.trim().is_empty()
                    && !text.contains('\n') =>
            {
                text.trim().to_owned()
            }
            Ok(_) | Err(_) => site.rule.message.clone(),
        }
    }

    fn report_violation(&mut self, site: &EvaluatedRule<'_>, message: &str) {
        if !site.rule.uses_old_self && site.data.is_unchanged() {
            return;
        }
        let field = site.field_path();
        match (&*site.rule.reason, site.data.new) {
            ("FieldValueForbidden", _) => self.errors.forbidden(field, message),
            ("FieldValueRequired", _) => self.errors.required(field, message),
            ("FieldValueDuplicate", value) => self.errors.duplicate(field, value),
            // The message shows scalars only.
            (_, Value::Object(_) | Value::Array(_)) => {
                self.errors.invalid_without_value(field, message);
            }
            (_, value) => self.errors.invalid(field, value, message),
        }
    }
}

/// A rule and the part of the object that it is evaluated for.
struct EvaluatedRule<'s> {
    node: &'s RuleNode,
    rule: &'s Rule,
    path: &'s str,
    data: PartValues<'s>,
}

impl EvaluatedRule<'_> {
    fn field_path(&self) -> String {
        let below = self.rule.field_path.trim().trim_start_matches('.');
        let dot = if self.path.is_empty() || below.is_empty() { "" } else { "." };
        path_or_nil(format!("{}{dot}{below}", self.path))
    }

    /// The type of the part as text; messages show it instead of the value.
    fn type_name(&self) -> Value {
        self.node.kind.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    /// Rules for a list of numbers and for its items.
    fn rules() -> CompiledRules {
        let schema = json!({"type": "object", "properties": {"l": {
            "type": "array",
            "x-kubernetes-validations": [{"rule": "self.size() < 3", "message": "too long"}],
            "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self + 0 > 0"}]},
        }}});
        compile_rules(&schema, true).unwrap()
    }

    fn messages(run: &RuleEvaluationRun) -> Vec<String> {
        let causes = run.errors.causes().iter();
        causes.map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn rules_are_evaluated_until_the_budget_is_exceeded() {
        let object = json!({"l": [1, 0, 1]});
        let complete = rules().run(None, &object, 100);
        let long = "l: Invalid value: too long";
        let wrong = "l[1]: Invalid value: 0: failed rule: self + 0 > 0";
        assert_eq!(messages(&complete), [long, wrong]);
        // The list's rule costs 3, and that of an item 3.
        assert_eq!(complete.budget, 100 - 3 - 3 * 3);
        let partial = rules().run(None, &object, 3 + 2 * 3);
        let exceeded = format!("l[2]: Invalid value: \"integer\": {BUDGET_EXCEEDED}");
        assert_eq!(messages(&partial), [long, wrong, &exceeded]);
        assert!(partial.is_exhausted);
    }

    #[test]
    fn violations_of_unchanged_parts_are_tolerated() {
        let object = json!({"l": [0]});
        assert!(rules().violations(Some(&object), &object).is_empty());
        assert_eq!(rules().violations(Some(&json!({"l": [1]})), &object).causes().len(), 1);
    }
}
