//! Evaluation of CEL expressions within a cost budget, which is counted as cel-go counts it: an
//! identifier or a selection costs 1, a list 10, a map 30, a call what [`super::cost`] says.
//!
//! Functions are those of the CEL library; operators and comprehensions are evaluated here, so that
//! every step is counted, and a comprehension does not copy its result at every iteration.
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kinds of values that are not named are treated alike"
)]

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr,
    SelectExpr,
};
use kube_cel::cel::objects::{AsKeyRef, Key, KeyRef, Map, OptionalValue};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, Value};

use super::cost::{self, LIST_COST, MAP_COST};

/// The cost limit of one expression, as in kube-apiserver.
pub(crate) const EXPRESSION_COST_MAX: u64 = 1_000_000;
/// The maximum number of values that the functions and comparisons of an expression may copy or
/// visit. kube-apiserver has no such limit; without it, an expression with a low cost can take
/// seconds.
const VISITED_VALUES_MAX: u64 = 20_000_000;

/// A parsed CEL expression.
#[derive(Debug)]
pub(crate) struct Program {
    expr: IdedExpr,
}

/// Why an expression has no value.
#[derive(Debug)]
pub(crate) enum EvaluationError {
    /// The evaluation cost more than the limit.
    CostLimit,
    Failed(ExecutionError),
}

impl From<ExecutionError> for EvaluationError {
    fn from(error: ExecutionError) -> Self {
        Self::Failed(error)
    }
}

impl EvaluationError {
    /// Whether the CEL library lacks a function, macro or variable of the expression.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(self, Self::Failed(ExecutionError::UndeclaredReference(_)))
    }

    /// The error message as cel-go words it.
    pub(crate) fn message(&self) -> String {
        let Self::Failed(error) = self else {
            return "operation cancelled: actual cost limit exceeded".to_owned();
        };
        match error {
            ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
            ExecutionError::NoSuchOverload
            | ExecutionError::UnsupportedBinaryOperator(..)
            | ExecutionError::UnsupportedUnaryOperator(..)
            | ExecutionError::ValuesNotComparable(..) => "no such overload".to_owned(),
            ExecutionError::IndexOutOfBounds(index) => {
                let index = if let Value::Int(index) = index { *index } else { 0 };
                format!("index out of bounds: {index}")
            }
            ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
            ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
            ExecutionError::Overflow(..) => "integer overflow".to_owned(),
            other => other.to_string(),
        }
    }
}

type EvaluationResult = Result<Value, EvaluationError>;

/// The value of an expression, or its error, and the cost of the evaluation.
pub(crate) struct Evaluation {
    pub(crate) result: EvaluationResult,
    pub(crate) cost: u64,
}

impl Program {
    /// Parses an expression; `None` if it has syntax errors.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parsed = Parser::new().enable_optional_syntax(true).parse(text);
        parsed.ok().map(|expr| Self { expr })
    }

    /// Whether the expression uses the variable.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.expr.references().has_variable(variable)
    }

    /// Evaluates the expression, up to a cost limit.
    pub(crate) fn evaluate(&self, variables: &[(&str, Value)], cost_max: u64) -> Evaluation {
        thread_local! {
            static FUNCTIONS: Context<'static> = Context::default().with_all();
        }
        FUNCTIONS.with(|functions| {
            let variables =
                variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            let mut evaluator = Evaluator {
                functions,
                variables: variables.collect(),
                cost: 0,
                cost_max,
                visits: 0,
            };
            let result = evaluator.evaluate_expr(&self.expr);
            Evaluation { result, cost: evaluator.cost }
        })
    }
}

struct Evaluator<'f> {
    functions: &'f Context<'static>,
    /// The variables in scope; later ones hide earlier ones of the same name.
    variables: Vec<(String, Value)>,
    cost: u64,
    cost_max: u64,
    visits: u64,
}

impl Evaluator<'_> {
    /// Adds to the cost; an error if the cost exceeds the limit.
    fn add_cost(&mut self, cost: u64) -> Result<(), EvaluationError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.cost_max { Err(EvaluationError::CostLimit) } else { Ok(()) }
    }

    /// Counts the values that an operation visits; an error if there are too many.
    fn count_visits(&mut self, values: &[&Value]) -> Result<(), EvaluationError> {
        for value in values {
            self.visits += cost::count_values(value, VISITED_VALUES_MAX);
            if self.visits > VISITED_VALUES_MAX {
                return Err(EvaluationError::CostLimit);
            }
        }
        Ok(())
    }

    fn evaluate_expr(&mut self, expr: &IdedExpr) -> EvaluationResult {
        match &expr.expr {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Ident(name) => {
                self.add_cost(1)?;
                let mut all = self.variables.iter().rev();
                let found = all.find(|(known, _)| known == name).map(|(_, value)| value.clone());
                found.ok_or_else(|| ExecutionError::undeclared_reference(name).into())
            }
            Expr::Select(select) => self.evaluate_selection(select),
            Expr::Call(call) => self.evaluate_call(call),
            Expr::List(list) => self.evaluate_list(list),
            Expr::Map(map) => self.evaluate_map(map),
            Expr::Comprehension(comprehension) => self.evaluate_comprehension(comprehension),
            Expr::Struct(_) | Expr::Unspecified => Err(ExecutionError::NoSuchOverload.into()),
        }
    }

    fn evaluate_list(&mut self, list: &ListExpr) -> EvaluationResult {
        let mut items = Vec::with_capacity(list.elements.len());
        for (index, element) in list.elements.iter().enumerate() {
            let is_optional = list.optional_indices.contains(&index);
            items.extend(unwrap_optional(self.evaluate_expr(element)?, is_optional));
        }
        self.add_cost(LIST_COST)?;
        Ok(Value::List(Arc::new(items)))
    }

    fn evaluate_map(&mut self, map: &MapExpr) -> EvaluationResult {
        let mut fields = HashMap::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                return Err(ExecutionError::NoSuchOverload.into());
            };
            let key = self.evaluate_expr(&entry.key)?;
            let key: Key = key.try_into().map_err(ExecutionError::unsupported_key_type)?;
            let value = unwrap_optional(self.evaluate_expr(&entry.value)?, entry.optional);
            fields.extend(value.map(|value| (key, value)));
        }
        self.add_cost(MAP_COST)?;
        Ok(Value::Map(Map { map: Arc::new(fields) }))
    }

    fn evaluate_selection(&mut self, select: &SelectExpr) -> EvaluationResult {
        let of = self.evaluate_expr(&select.operand)?;
        if !select.test {
            self.add_cost(1)?;
        }
        match &of {
            Value::Map(map) => {
                let found = find_entry(map, KeyRef::String(&select.field));
                match found {
                    _ if select.test => Ok(Value::Bool(found.is_some())),
                    Some(value) => Ok(value.clone()),
                    None => Err(ExecutionError::no_such_key(&select.field).into()),
                }
            }
            Value::Opaque(_) => {
                self.count_visits(&[&of])?;
                let operand = Box::new(argument_name(0));
                let select = SelectExpr { operand, ..select.clone() };
                self.call_library_function(&Expr::Select(select), vec![of])
            }
            _ => Err(ExecutionError::NoSuchOverload.into()),
        }
    }

    fn evaluate_comprehension(&mut self, comprehension: &ComprehensionExpr) -> EvaluationResult {
        let range = self.evaluate_expr(&comprehension.iter_range)?;
        let result = self.evaluate_expr(&comprehension.accu_init)?;
        let items: Vec<Value> = match &range {
            Value::List(items) => items.to_vec(),
            Value::Map(map) => {
                let mut keys: Vec<&Key> = map.map.keys().collect();
                keys.sort_unstable();
                keys.into_iter().map(Value::from).collect()
            }
            _ => return Err(ExecutionError::NoSuchOverload.into()),
        };
        self.visits += items.len() as u64;
        let slot = self.variables.len();
        self.variables.push((comprehension.accu_var.clone(), result));
        let found = self.run_loop(comprehension, items, slot);
        self.variables.truncate(slot);
        found
    }

    /// Runs the loop of a comprehension over `items`. `slot` is the index of the variable that
    /// accumulates the result.
    fn run_loop(
        &mut self,
        comprehension: &ComprehensionExpr,
        items: Vec<Value>,
        slot: usize,
    ) -> EvaluationResult {
        for item in items {
            match self.evaluate_expr(&comprehension.loop_cond)? {
                Value::Bool(true) => {}
                Value::Bool(false) => break,
                _ => return Err(ExecutionError::NoSuchOverload.into()),
            }
            self.variables.push((comprehension.iter_var.clone(), item));
            let stepped = self.run_loop_step(&comprehension.loop_step, slot);
            self.variables.truncate(slot + 1);
            self.variables[slot].1 = stepped?;
        }
        self.evaluate_expr(&comprehension.result)
    }

    /// Evaluates one step of a loop and returns the accumulated result. A step `result + [item]`,
    /// which `map` and `filter` use, appends in place.
    fn run_loop_step(&mut self, step: &IdedExpr, slot: usize) -> EvaluationResult {
        let Expr::Call(call) = &step.expr else { return self.evaluate_expr(step) };
        match (call.func_name.as_str(), call.args.as_slice()) {
            ("_?_:_", [test, then, otherwise]) => match self.evaluate_expr(test)? {
                Value::Bool(true) => self.run_loop_step(then, slot),
                Value::Bool(false) => self.run_loop_step(otherwise, slot),
                _ => Err(ExecutionError::NoSuchOverload.into()),
            },
            ("_+_", [IdedExpr { expr: Expr::Ident(name), .. }, added])
                if *name == self.variables[slot].0 =>
            {
                self.add_cost(1)?;
                let added = self.evaluate_expr(added)?;
                let result = std::mem::replace(&mut self.variables[slot].1, Value::Null);
                self.add_cost(cost::call_cost("_+_", &[&result, &added]))?;
                Ok((result + added)?)
            }
            _ => self.evaluate_expr(step),
        }
    }

    fn evaluate_call(&mut self, call: &CallExpr) -> EvaluationResult {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            ("_?_:_", [test, then, otherwise]) => {
                return match self.evaluate_expr(test)? {
                    Value::Bool(true) => self.evaluate_expr(then),
                    Value::Bool(false) => self.evaluate_expr(otherwise),
                    _ => Err(ExecutionError::NoSuchOverload.into()),
                };
            }
            ("_&&_", [one, other]) => return self.evaluate_logical(one, other, false),
            ("_||_", [one, other]) => return self.evaluate_logical(one, other, true),
            ("@not_strictly_false", [one]) => {
                let found = self.evaluate_expr(one);
                self.add_cost(1)?;
                return match found {
                    Err(EvaluationError::CostLimit) => found,
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    Ok(_) | Err(EvaluationError::Failed(_)) => Ok(Value::Bool(true)),
                };
            }
            ("bind", [IdedExpr { expr: Expr::Ident(variable), .. }, value, body])
                if call.target.as_deref().is_some_and(|target| is_identifier(target, "cel")) =>
            {
                let value = self.evaluate_expr(value)?;
                self.variables.push((variable.clone(), value));
                let found = self.evaluate_expr(body);
                self.variables.pop();
                return found;
            }
            _ => {}
        }
        let owner = call.target.as_deref().filter(|target| !self.is_namespace_of(target, name));
        let mut arguments = Vec::with_capacity(call.args.len() + 1);
        for part in owner.into_iter().chain(&call.args) {
            arguments.push(self.evaluate_expr(part)?);
        }
        let full = match (&call.target, owner) {
            (Some(target), None) => format!("{}.{name}", identifier_name(target)),
            _ => name.to_owned(),
        };
        self.apply_function(call, &full, owner.is_some(), arguments)
    }

    /// Whether the target of a call is the namespace of a function, as in `sets.contains`.
    fn is_namespace_of(&self, target: &IdedExpr, name: &str) -> bool {
        let library = identifier_name(target);
        !library.is_empty()
            && !self.variables.iter().any(|(known, _)| known == library)
            && super::functions::is_function(&format!("{library}.{name}"))
    }

    /// Evaluates `&&` (`deciding` is false) or `||` (`deciding` is true). If one operand is
    /// `deciding`, that is the result, even if the other operand is an error.
    fn evaluate_logical(
        &mut self,
        left: &IdedExpr,
        right: &IdedExpr,
        deciding: bool,
    ) -> EvaluationResult {
        let first = match self.evaluate_expr(left) {
            Err(EvaluationError::CostLimit) => return Err(EvaluationError::CostLimit),
            Ok(Value::Bool(value)) if value == deciding => return Ok(Value::Bool(deciding)),
            Ok(Value::Bool(_)) => Ok(()),
            Ok(_) => Err(ExecutionError::NoSuchOverload.into()),
            Err(error) => Err(error),
        };
        match self.evaluate_expr(right)? {
            Value::Bool(value) if value == deciding => Ok(Value::Bool(deciding)),
            Value::Bool(value) => first.map(|()| Value::Bool(value)),
            _ => first.and(Err(ExecutionError::NoSuchOverload.into())),
        }
    }

    /// Applies an operator or a function to its arguments, the owner of a method first.
    fn apply_function(
        &mut self,
        call: &CallExpr,
        full: &str,
        has_owner: bool,
        arguments: Vec<Value>,
    ) -> EvaluationResult {
        let shown: Vec<&Value> = arguments.iter().collect();
        let texts: Vec<&Value> = shown.iter().copied().filter(|value| is_text(value)).collect();
        self.count_visits(&texts)?;
        self.add_cost(cost::call_cost(full, &shown))?;
        if cost::result_size_max(full, &shown) > cost::RESULT_SIZE_MAX {
            return Err(EvaluationError::CostLimit);
        }
        match (full, arguments.as_slice()) {
            ("_==_" | "_!=_", [one, other]) => {
                if is_container(one) && is_container(other) {
                    self.count_visits(&[one])?;
                }
                return Ok(Value::Bool((one == other) == (full == "_==_")));
            }
            ("@in", [item, Value::List(items)]) => {
                self.visits += items.len() as u64;
                return Ok(Value::Bool(items.contains(item)));
            }
            ("@in", [item, Value::Map(map)]) => {
                let key = KeyRef::try_from(item).ok();
                return Ok(Value::Bool(key.is_some_and(|key| find_entry(map, key).is_some())));
            }
            ("_[_]", [Value::List(items), Value::Int(index)]) => {
                let found = usize::try_from(*index).ok().and_then(|index| items.get(index));
                let missing = || ExecutionError::IndexOutOfBounds(Value::Int(*index)).into();
                return found.cloned().ok_or_else(missing);
            }
            ("_[_]", [Value::Map(map), key]) => {
                let found = KeyRef::try_from(key).ok().and_then(|key| find_entry(map, key));
                let missing = || ExecutionError::no_such_key(&format_key(key)).into();
                return found.cloned().ok_or_else(missing);
            }
            ("_?._" | "_[?_]", [Value::Map(map), key]) => {
                let found =
                    KeyRef::try_from(key).ok().and_then(|key| find_entry(map, key)).cloned();
                let optional = found.map_or_else(OptionalValue::none, OptionalValue::of);
                return Ok(Value::Opaque(Arc::new(optional)));
            }
            ("size", [Value::List(items)]) => return Ok(length_value(items.len())),
            ("size", [Value::Map(map)]) => return Ok(length_value(map.map.len())),
            ("size", [Value::String(text)]) => return Ok(length_value(text.chars().count())),
            ("dyn", [_]) => return Ok(arguments.into_iter().next().unwrap_or(Value::Null)),
            ("_+_", [_, _]) => {
                let mut both = arguments.into_iter();
                let (one, other) = (both.next(), both.next());
                return Ok((one.unwrap_or(Value::Null) + other.unwrap_or(Value::Null))?);
            }
            _ => {}
        }
        self.count_visits(&shown)?;
        let skipped = usize::from(has_owner);
        let call = CallExpr {
            func_name: call.func_name.clone(),
            target: call
                .target
                .as_ref()
                .map(|target| if has_owner { Box::new(argument_name(0)) } else { target.clone() }),
            args: (skipped..arguments.len()).map(argument_name).collect(),
        };
        self.call_library_function(&Expr::Call(call), arguments)
    }

    /// Evaluates a call by the CEL library. The arguments are bound to the names `@0`, `@1`, …,
    /// which the call's expression uses.
    fn call_library_function(&self, call: &Expr, arguments: Vec<Value>) -> EvaluationResult {
        let mut context = self.functions.new_inner_scope();
        for (index, value) in arguments.into_iter().enumerate() {
            context.add_variable_from_value(format!("@{index}"), value);
        }
        Ok(Value::resolve(&IdedExpr { id: 0, expr: call.clone() }, &context)?)
    }
}

fn find_entry<'m>(map: &'m Map, key: KeyRef<'_>) -> Option<&'m Value> {
    map.map.get(&key as &dyn AsKeyRef)
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Bytes(_))
}

fn is_container(value: &Value) -> bool {
    matches!(value, Value::List(_) | Value::Map(_))
}

fn length_value(length: usize) -> Value {
    Value::Int(i64::try_from(length).unwrap_or(i64::MAX))
}

fn format_key(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Bool(is) => is.to_string(),
        other => other.type_of().to_string(),
    }
}

/// The name of a call's argument in the scope of the CEL library.
fn argument_name(index: usize) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Ident(format!("@{index}")) }
}

fn identifier_name(expr: &IdedExpr) -> &str {
    if let Expr::Ident(name) = &expr.expr { name } else { "" }
}

fn is_identifier(expr: &IdedExpr, name: &str) -> bool {
    identifier_name(expr) == name
}

/// The value of an item or entry; `None` if it is optional (`?item`) and has no value.
fn unwrap_optional(value: Value, is_optional: bool) -> Option<Value> {
    if let (true, Value::Opaque(opaque)) = (is_optional, &value)
        && let Some(optional) = opaque.downcast_ref::<OptionalValue>()
    {
        return optional.value().cloned();
    }
    Some(value)
}

fn literal_value(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(is) => Value::Bool(*is.inner()),
        LiteralValue::Bytes(bytes) => Value::Bytes(Arc::new(bytes.inner().to_vec())),
        LiteralValue::Double(number) => Value::Float(*number.inner()),
        LiteralValue::Int(number) => Value::Int(*number.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(text) => Value::String(Arc::new(text.inner().to_owned())),
        LiteralValue::UInt(number) => Value::UInt(*number.inner()),
    }
}
