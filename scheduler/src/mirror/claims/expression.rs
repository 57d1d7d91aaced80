//! CEL expressions as users write them. The library reads and judges them by recursion with large
//! frames, and panics on some: all of it happens on a stack of its own, and what makes the library
//! panic is no expression. What Kubernetes adds for devices and the library lacks is put in other
//! words when an expression is read: `cel.bind`, and domains without names.

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

/// How many bytes an expression may have, by the API.
const LENGTH_MAX: usize = 10 * 1024;
/// Enough for the longest expression in a debug build. It is reserved, and taken as it is used.
const STACK: usize = 1 << 30;

const KNOWN: &str = "variables, fields, functions and macros of CEL that this scheduler knows";

/// What a device is asked for.
pub(super) const FIELDS: [&str; 4] =
    ["driver", "allowMultipleAllocations", "attributes", "capacity"];

/// An expression that can be judged.
pub(super) struct Expression(IdedExpr);

/// Why it cannot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    NoExpression,
    /// It uses a variable, field, function or macro of this name.
    Unknown(String),
}

impl Unreadable {
    /// In an expression that stands in this field.
    pub(super) fn told(self, field: String, text: &str) -> Malformed {
        match self {
            Self::NoExpression => Malformed::new(field, text, "a CEL expression"),
            Self::Unknown(name) => Malformed::new(field, name, KNOWN),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoExpression => f.write_str("it is no CEL expression"),
            Self::Unknown(name) => write!(f, "{name} is unknown"),
        }
    }
}

/// Where expressions may be compiled and judged.
pub(super) fn with_room<R>(of: impl FnOnce() -> R) -> R {
    stacker::grow(STACK, of)
}

/// The functions that expressions may call.
pub(super) fn functions() -> Context<'static> {
    Context::default().with_all()
}

pub(super) fn compiled(text: &str, functions: &Context<'_>) -> Result<Expression, Unreadable> {
    if text.len() > LENGTH_MAX {
        return Err(Unreadable::NoExpression);
    }
    let parse = || Parser::new().enable_optional_syntax(true).parse(text).ok();
    let parsed = catch_unwind(parse).ok().flatten();
    let mut parsed = parsed.ok_or(Unreadable::NoExpression)?;
    Reader { functions, bound: Vec::new() }.read(&mut parsed).map_err(Unreadable::Unknown)?;
    Ok(Expression(parsed))
}

/// What a function makes of a text; `None`: nothing.
pub(super) fn made(function: &str, of: &str, functions: &Context<'_>) -> Option<cel::Value> {
    let call = call(function, vec![literal(LiteralValue::String(of.into()))]);
    functions.resolve(&node(call)).ok()
}

/// Whether it holds, or why that cannot be told.
pub(super) fn judged(expression: &Expression, context: &Context<'_>) -> Result<bool, String> {
    let judged = catch_unwind(AssertUnwindSafe(|| context.resolve(&expression.0)));
    match judged {
        Ok(Ok(cel::Value::Bool(holds))) => Ok(holds),
        Ok(Ok(_)) => Err("it is neither true nor false".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it is beyond this scheduler's CEL".to_owned()),
    }
}

/// Puts an expression in words that the library knows. An error is a name that it does not.
struct Reader<'c> {
    functions: &'c Context<'c>,
    /// Variables of the macros around, the innermost last.
    bound: Vec<String>,
}

impl Reader<'_> {
    fn read(&mut self, tree: &mut IdedExpr) -> Result<(), String> {
        if let Some(bind) = as_bind(&mut tree.expr) {
            tree.expr = bind;
        }
        match &mut tree.expr {
            Expr::Call(call) => self.read_call(call)?,
            Expr::Comprehension(of) => self.read_comprehension(of)?,
            Expr::Ident(name) if name == "device" || self.bound.contains(name) => {}
            Expr::Ident(name) => return Err(std::mem::take(name)),
            Expr::List(list) => list.elements.iter_mut().try_for_each(|one| self.read(one))?,
            Expr::Map(map) => self.read_map(map)?,
            Expr::Select(select) => {
                self.read(&mut select.operand)?;
                if self.is_device(&select.operand) && !FIELDS.contains(&&*select.field) {
                    return Err(format!("device.{}", select.field));
                }
            }
            Expr::Struct(of) => return Err(std::mem::take(&mut of.type_name)),
            Expr::Literal(_) | Expr::Unspecified => {}
        }
        if !self.bound.iter().any(|name| name == "device")
            && let Some(expr) = or_empty(&tree.expr)
        {
            tree.expr = expr;
        }
        Ok(())
    }

    fn read_call(&mut self, call: &mut CallExpr) -> Result<(), String> {
        // The library takes `a.?b` of a map without `b` for an error, and `a[?'b']` for nothing.
        if call.func_name == operators::OPT_SELECT {
            operators::OPT_INDEX.clone_into(&mut call.func_name);
        }
        match (self.prefix(call), &mut call.target) {
            (Some(prefix), _) => {
                let name = format!("{prefix}.{}", call.func_name);
                if !self.knows(&name) {
                    return Err(name);
                }
            }
            (None, _) if !self.knows(&call.func_name) => {
                return Err(std::mem::take(&mut call.func_name));
            }
            (None, Some(target)) => self.read(target)?,
            (None, None) => {}
        }
        call.args.iter_mut().try_for_each(|one| self.read(one))
    }

    /// No macro around gives the name to something else.
    fn is_device(&self, tree: &IdedExpr) -> bool {
        is_named_device(tree) && !self.bound.iter().any(|name| name == "device")
    }

    /// `math` in `math.greatest(1, 2)`: it is no variable.
    fn prefix(&self, call: &CallExpr) -> Option<String> {
        let Expr::Ident(name) = &call.target.as_ref()?.expr else { return None };
        (name != "device" && !self.bound.contains(name)).then(|| name.clone())
    }

    fn read_comprehension(&mut self, of: &mut ComprehensionExpr) -> Result<(), String> {
        self.read(&mut of.iter_range)?;
        self.read(&mut of.accu_init)?;
        let around = self.bound.len();
        self.bound.extend([of.iter_var.clone(), of.accu_var.clone()]);
        self.bound.extend(of.iter_var2.clone());
        for inside in [&mut of.loop_cond, &mut of.loop_step, &mut of.result] {
            self.read(inside)?;
        }
        self.bound.truncate(around);
        Ok(())
    }

    fn read_map(&mut self, map: &mut MapExpr) -> Result<(), String> {
        map.entries.iter_mut().try_for_each(|entry| match &mut entry.expr {
            EntryExpr::StructField(field) => self.read(&mut field.value),
            EntryExpr::MapEntry(entry) => {
                self.read(&mut entry.key)?;
                self.read(&mut entry.value)
            }
        })
    }

    /// The library tells by calling only; without arguments a call does nothing.
    fn knows(&self, function: &str) -> bool {
        let is_operator = !function.chars().all(|c| c.is_alphanumeric() || c == '.' || c == '_');
        let called = || self.functions.resolve(&node(call(function, Vec::new())));
        let missing = |called| matches!(called, Ok(Err(ExecutionError::UndeclaredReference(_))));
        is_operator || !missing(catch_unwind(AssertUnwindSafe(called)))
    }
}

/// `cel.bind(name, value, result)`, as a fold of nothing that starts with the value.
fn as_bind(expr: &mut Expr) -> Option<Expr> {
    let Expr::Call(CallExpr { func_name, target: Some(target), args }) = expr else { return None };
    if func_name != "bind" || target.expr != Expr::Ident("cel".to_owned()) {
        return None;
    }
    let [IdedExpr { expr: Expr::Ident(name), .. }, value, result] = args.as_mut_slice() else {
        return None;
    };
    Some(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: node(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        accu_var: name.clone(),
        accu_init: std::mem::take(value),
        loop_cond: literal(LiteralValue::Boolean(false.into())),
        loop_step: node(Expr::Ident(name.clone())),
        result: std::mem::take(result),
    })))
}

/// Where it looks up a domain in the device's attributes or capacity, and the domain. One that is
/// computed is left alone: it would be computed twice.
fn lookup(expr: &Expr) -> Option<(&IdedExpr, IdedExpr)> {
    if let Expr::Select(SelectExpr { operand, field, test: false }) = expr {
        let key = literal(LiteralValue::String(field.as_str().into()));
        return are_domains(operand).then_some((operand, key));
    }
    let Expr::Call(CallExpr { func_name, target: None, args }) = expr else { return None };
    let [of, key] = args.as_slice() else { return None };
    let is_plain = matches!(key.expr, Expr::Literal(_) | Expr::Ident(_));
    (func_name == operators::INDEX && is_plain && are_domains(of)).then(|| (of, key.clone()))
}

/// A field of the device whose values stand there by their domains.
fn are_domains(expr: &IdedExpr) -> bool {
    let Expr::Select(SelectExpr { operand, field, test: false }) = &expr.expr else { return false };
    is_named_device(operand) && (field == "attributes" || field == "capacity")
}

fn is_named_device(tree: &IdedExpr) -> bool {
    matches!(&tree.expr, Expr::Ident(name) if name == "device")
}

/// A device has no names of a domain that it does not have, and that is no error.
fn or_empty(found: &Expr) -> Option<Expr> {
    let (of, key) = lookup(found)?;
    let is_there = node(call(operators::IN, vec![key, of.clone()]));
    let empty = node(Expr::Map(MapExpr::default()));
    Some(call(operators::CONDITIONAL, vec![is_there, node(found.clone()), empty]))
}

fn call(function: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args })
}

fn literal(value: LiteralValue) -> IdedExpr {
    node(Expr::Literal(value))
}

/// Numbers of nodes tell where they stand in the text, which nobody asks.
fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}
