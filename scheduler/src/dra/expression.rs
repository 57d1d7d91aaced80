//! CEL expressions of users. The library parses and evaluates recursively with large stack frames,
//! and panics on some input: all calls run on a separate stack, and a panic counts as invalid.
//! Extensions of Kubernetes that the library lacks are rewritten before evaluation: `cel.bind`, and
//! domains without attributes.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use kube_cel::{
    KubeCelExt as _,
    cel::{
        self, Context, ExecutionError,
        common::ast::{
            CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue,
            MapExpr, SelectExpr, operators,
        },
        parser::Parser,
    },
};

use crate::parse::Malformed;

/// The longest expression in bytes, as in the API.
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
/// Stack size in bytes: enough for the longest expression in a debug build. The memory is reserved,
/// and committed only as it is used.
const STACK_BYTES: usize = 1 << 30;

const EXPECTED_NAMES: &str =
    "variables, fields, functions and macros of CEL that this scheduler supports";

/// Fields of variable `device`.
pub(super) const DEVICE_FIELDS: [&str; 4] =
    ["driver", "allowMultipleAllocations", "attributes", "capacity"];

/// A compiled expression.
pub(super) struct Expression(IdedExpr);

/// Why an expression cannot be compiled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CompileError {
    Invalid,
    /// The name of an unknown variable, field, function or macro.
    UnknownName(String),
}

impl CompileError {
    /// The error about an expression in this field.
    pub(super) fn into_malformed(self, field: String, text: &str) -> Malformed {
        match self {
            Self::Invalid => Malformed::new(field, text, "a CEL expression"),
            Self::UnknownName(name) => Malformed::new(field, name, EXPECTED_NAMES),
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid => f.write_str("it is not a valid CEL expression"),
            Self::UnknownName(name) => write!(f, "{name} is unknown"),
        }
    }
}

/// Runs a function that compiles or evaluates expressions on a large stack.
pub(super) fn with_large_stack<R>(run: impl FnOnce() -> R) -> R {
    stacker::grow(STACK_BYTES, run)
}

/// The functions that expressions may call.
pub(super) fn cel_functions() -> Context<'static> {
    Context::default().with_all()
}

pub(super) fn compile(text: &str, functions: &Context<'_>) -> Result<Expression, CompileError> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(CompileError::Invalid);
    }
    let parse = || Parser::new().enable_optional_syntax(true).parse(text).ok();
    let parsed = catch_unwind(parse).ok().flatten();
    let mut parsed = parsed.ok_or(CompileError::Invalid)?;
    ExpressionRewriter { functions, bound: Vec::new() }
        .rewrite(&mut parsed)
        .map_err(CompileError::UnknownName)?;
    Ok(Expression(parsed))
}

/// The value that a CEL function returns for a string argument; `None` on error.
pub(super) fn call_on_text(
    function: &str,
    argument: &str,
    functions: &Context<'_>,
) -> Option<cel::Value> {
    let call =
        call_expression(function, vec![literal_expression(LiteralValue::String(argument.into()))]);
    functions.resolve(&expression_node(call)).ok()
}

/// Whether the expression holds, or the error.
pub(super) fn evaluate(expression: &Expression, context: &Context<'_>) -> Result<bool, String> {
    let judged = catch_unwind(AssertUnwindSafe(|| context.resolve(&expression.0)));
    match judged {
        Ok(Ok(cel::Value::Bool(holds))) => Ok(holds),
        Ok(Ok(_)) => Err("its result is neither true nor false".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("this scheduler's CEL does not support it".to_owned()),
    }
}

/// Checks the names in an expression, and rewrites what the library does not support. The error is
/// an unknown name.
struct ExpressionRewriter<'c> {
    functions: &'c Context<'c>,
    /// Variables of the enclosing macros, the innermost last.
    bound: Vec<String>,
}

impl ExpressionRewriter<'_> {
    fn rewrite(&mut self, tree: &mut IdedExpr) -> Result<(), String> {
        if let Some(bind) = expand_bind(&mut tree.expr) {
            tree.expr = bind;
        }
        match &mut tree.expr {
            Expr::Call(call_expression) => self.rewrite_call(call_expression)?,
            Expr::Comprehension(of) => self.rewrite_comprehension(of)?,
            Expr::Ident(name) if name == "device" || self.bound.contains(name) => {}
            Expr::Ident(name) => return Err(std::mem::take(name)),
            Expr::List(list) => list.elements.iter_mut().try_for_each(|one| self.rewrite(one))?,
            Expr::Map(map) => self.rewrite_map(map)?,
            Expr::Select(select) => {
                self.rewrite(&mut select.operand)?;
                if self.is_device(&select.operand) && !DEVICE_FIELDS.contains(&&*select.field) {
                    return Err(format!("device.{}", select.field));
                }
            }
            Expr::Struct(of) => return Err(std::mem::take(&mut of.type_name)),
            Expr::Literal(_) | Expr::Unspecified => {}
        }
        if !self.bound.iter().any(|name| name == "device")
            && let Some(expr) = with_empty_map_default(&tree.expr)
        {
            tree.expr = expr;
        }
        Ok(())
    }

    fn rewrite_call(&mut self, call: &mut CallExpr) -> Result<(), String> {
        // The library fails on `a.?b` if map `a` lacks `b`, and returns none for `a[?'b']`.
        if call.func_name == operators::OPT_SELECT {
            operators::OPT_INDEX.clone_into(&mut call.func_name);
        }
        match (self.namespace_prefix(call), &mut call.target) {
            (Some(prefix), _) => {
                let name = format!("{prefix}.{}", call.func_name);
                if !self.is_known_function(&name) {
                    return Err(name);
                }
            }
            (None, _) if !self.is_known_function(&call.func_name) => {
                return Err(std::mem::take(&mut call.func_name));
            }
            (None, Some(target)) => self.rewrite(target)?,
            (None, None) => {}
        }
        call.args.iter_mut().try_for_each(|one| self.rewrite(one))
    }

    /// Whether an expression is variable `device`, not shadowed by a variable of a macro.
    fn is_device(&self, tree: &IdedExpr) -> bool {
        is_named_device(tree) && !self.bound.iter().any(|name| name == "device")
    }

    /// The namespace of a function, such as `math` in `math.greatest(1, 2)`.
    fn namespace_prefix(&self, call: &CallExpr) -> Option<String> {
        let Expr::Ident(name) = &call.target.as_ref()?.expr else { return None };
        (name != "device" && !self.bound.contains(name)).then(|| name.clone())
    }

    fn rewrite_comprehension(
        &mut self,
        comprehension: &mut ComprehensionExpr,
    ) -> Result<(), String> {
        self.rewrite(&mut comprehension.iter_range)?;
        self.rewrite(&mut comprehension.accu_init)?;
        let around = self.bound.len();
        self.bound.extend([comprehension.iter_var.clone(), comprehension.accu_var.clone()]);
        self.bound.extend(comprehension.iter_var2.clone());
        for inside in
            [&mut comprehension.loop_cond, &mut comprehension.loop_step, &mut comprehension.result]
        {
            self.rewrite(inside)?;
        }
        self.bound.truncate(around);
        Ok(())
    }

    fn rewrite_map(&mut self, map: &mut MapExpr) -> Result<(), String> {
        map.entries.iter_mut().try_for_each(|entry| match &mut entry.expr {
            EntryExpr::StructField(field) => self.rewrite(&mut field.value),
            EntryExpr::MapEntry(entry) => {
                self.rewrite(&mut entry.key)?;
                self.rewrite(&mut entry.value)
            }
        })
    }

    /// Whether a function exists. The library reports an unknown function only when the function is
    /// called, so each is called once without arguments, which has no effect.
    fn is_known_function(&self, function: &str) -> bool {
        let is_operator = !function.chars().all(|c| c.is_alphanumeric() || c == '.' || c == '_');
        let called =
            || self.functions.resolve(&expression_node(call_expression(function, Vec::new())));
        let missing = |called| matches!(called, Ok(Err(ExecutionError::UndeclaredReference(_))));
        is_operator || !missing(catch_unwind(AssertUnwindSafe(called)))
    }
}

/// Rewrites `cel.bind(name, value, result)` to a fold over an empty list that starts with the
/// value.
fn expand_bind(expr: &mut Expr) -> Option<Expr> {
    let Expr::Call(CallExpr { func_name, target: Some(target), args }) = expr else { return None };
    if func_name != "bind" || target.expr != Expr::Ident("cel".to_owned()) {
        return None;
    }
    let [IdedExpr { expr: Expr::Ident(name), .. }, value, result] = args.as_mut_slice() else {
        return None;
    };
    Some(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: expression_node(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        accu_var: name.clone(),
        accu_init: std::mem::take(value),
        loop_cond: literal_expression(LiteralValue::Boolean(false.into())),
        loop_step: expression_node(Expr::Ident(name.clone())),
        result: std::mem::take(result),
    })))
}

/// A lookup of a domain in the attributes or capacity of the device, and the domain. Computed
/// domains are excluded, since they would be evaluated twice.
fn domain_lookup(expr: &Expr) -> Option<(&IdedExpr, IdedExpr)> {
    if let Expr::Select(SelectExpr { operand, field, test: false }) = expr {
        let key = literal_expression(LiteralValue::String(field.as_str().into()));
        return is_domain_map(operand).then_some((operand, key));
    }
    let Expr::Call(CallExpr { func_name, target: None, args }) = expr else { return None };
    let [of, key] = args.as_slice() else { return None };
    let is_plain = matches!(key.expr, Expr::Literal(_) | Expr::Ident(_));
    (func_name == operators::INDEX && is_plain && is_domain_map(of)).then(|| (of, key.clone()))
}

/// Whether an expression is a field of the device that maps domains to values.
fn is_domain_map(expr: &IdedExpr) -> bool {
    let Expr::Select(SelectExpr { operand, field, test: false }) = &expr.expr else { return false };
    is_named_device(operand) && (field == "attributes" || field == "capacity")
}

fn is_named_device(tree: &IdedExpr) -> bool {
    matches!(&tree.expr, Expr::Ident(name) if name == "device")
}

/// Rewrites the lookup of a domain so that a missing domain gives an empty map instead of an error.
fn with_empty_map_default(found: &Expr) -> Option<Expr> {
    let (of, key) = domain_lookup(found)?;
    let is_there = expression_node(call_expression(operators::IN, vec![key, of.clone()]));
    let empty = expression_node(Expr::Map(MapExpr::default()));
    Some(call_expression(
        operators::CONDITIONAL,
        vec![is_there, expression_node(found.clone()), empty],
    ))
}

fn call_expression(function: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args })
}

fn literal_expression(value: LiteralValue) -> IdedExpr {
    expression_node(Expr::Literal(value))
}

/// A node of the expression tree without ID. IDs refer to source positions, which are not used.
fn expression_node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}
