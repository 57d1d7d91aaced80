//! Type check of CEL expressions: syntax, declared names, and argument types. Unknown types pass,
//! so nothing is rejected that the API server accepts.
//!
//! Left out: constant arguments with invalid content.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr,
};
use kube_cel::cel::parser::Parser;

use super::cel_type::CelType;
use super::functions::{function_result_type, is_function, operator_result_type};
use super::location::{self, Issue};
use super::{fits_any_stack, is_within_length_limit, with_large_stack};

/// The names of types. In CEL a type is also a value.
const TYPE_NAMES: [&str; 13] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "google",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];
/// The macros that the CEL library does not expand, with the allowed numbers of arguments.
const MACROS: [(&str, &[usize]); 9] = [
    ("all", &[3]),
    ("exists", &[3]),
    ("existsOne", &[3]),
    ("exists_one", &[3]),
    ("transformList", &[3, 4]),
    ("transformMap", &[3, 4]),
    ("transformMapEntry", &[3, 4]),
    ("optMap", &[2]),
    ("optFlatMap", &[2]),
];

/// The names that an expression may use.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeScope {
    pub(crate) variables: Vec<(String, CelType)>,
    /// Whether `cel.bind` is available.
    pub(crate) allows_bind: bool,
}

/// Checks an expression and returns the type of its value.
///
/// # Errors
///
/// All compile errors, in the format of cel-go.
pub(crate) fn check_type(text: &str, scope: &TypeScope) -> Result<CelType, String> {
    let unreadable = || Err("the expression cannot be parsed".to_owned());
    if !is_within_length_limit(text) {
        return unreadable();
    }
    with_large_stack(fits_any_stack(text), || parse_and_check(text, scope))
        .unwrap_or_else(unreadable)
}

fn parse_and_check(text: &str, scope: &TypeScope) -> Result<CelType, String> {
    let parsed = Parser::new().enable_optional_syntax(true).parse(text);
    let parsed = parsed.map_err(|errors| location::format_parse_errors(text, &errors))?;
    let mut checker = TypeChecker { scope: scope.clone(), issues: Vec::new() };
    let kind = checker.type_of(&parsed);
    if checker.issues.is_empty() {
        Ok(kind)
    } else {
        Err(location::format_issues(text, checker.issues))
    }
}

struct TypeChecker {
    scope: TypeScope,
    issues: Vec<Issue>,
}

impl TypeChecker {
    /// Records an error in a part of the expression. Returns the unknown type, as the type of the
    /// part.
    fn report_issue(&mut self, id: u64, why: String) -> CelType {
        self.issues.push(Issue { id, message: why });
        CelType::Dyn
    }

    fn report_undeclared(&mut self, id: u64, name: &str) -> CelType {
        self.report_issue(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn variable_type(&self, name: &str) -> Option<&CelType> {
        let mut all = self.scope.variables.iter().rev();
        all.find(|(known, _)| known == name).map(|(_, kind)| kind)
    }

    /// The type of a part in which `additional_variables` are declared, too.
    fn type_in_scope(
        &mut self,
        additional_variables: &[(&str, CelType)],
        part: &IdedExpr,
    ) -> CelType {
        let before = self.scope.variables.len();
        let additional_variables =
            additional_variables.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone()));
        self.scope.variables.extend(additional_variables);
        let kind = self.type_of(part);
        self.scope.variables.truncate(before);
        kind
    }

    fn type_of(&mut self, expr: &IdedExpr) -> CelType {
        match &expr.expr {
            Expr::Unspecified | Expr::Struct(_) => CelType::Dyn,
            Expr::Literal(value) => literal_type(value),
            Expr::Ident(name) => match self.variable_type(name) {
                Some(kind) => kind.clone(),
                None if TYPE_NAMES.contains(&name.as_str()) => CelType::Dyn,
                None => self.report_undeclared(expr.id, name),
            },
            Expr::List(list) => CelType::list(self.common_type(list.elements.iter())),
            Expr::Map(map) => {
                let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => Some(entry),
                    EntryExpr::StructField(_) => None,
                });
                let key = self.common_type(entries.clone().map(|entry| &entry.key));
                let value = self.common_type(entries.map(|entry| &entry.value));
                CelType::Map(key.into(), value.into())
            }
            Expr::Select(select) => self.selection_type(expr.id, select),
            Expr::Comprehension(comprehension) => self.comprehension_type(expr.id, comprehension),
            Expr::Call(call) => self.call_type(expr.id, call),
        }
    }

    /// The common type of the items of a list, or of the keys or values of a map: that of the first
    /// part with a known type. Parts of other types are errors.
    fn common_type<'e>(&mut self, parts: impl Iterator<Item = &'e IdedExpr>) -> CelType {
        let mut all = CelType::Dyn;
        for part in parts {
            let kind = self.type_of(part);
            if !kind.is_assignable_to(&all) {
                self.report_issue(part.id, format!("expected type '{all}' but found '{kind}'"));
            } else if all.is_dynamic() {
                all = kind;
            }
        }
        all
    }

    fn selection_type(&mut self, id: u64, select: &SelectExpr) -> CelType {
        let of = self.type_of(&select.operand);
        let found = self.field_type(id, &of, &select.field);
        if select.test { CelType::Bool } else { found }
    }

    fn field_type(&mut self, id: u64, object_type: &CelType, field: &str) -> CelType {
        if let CelType::Map(_, value) = object_type {
            return CelType::clone(value);
        }
        if let CelType::Object(object) = object_type {
            let found = object.fields.get(field).cloned();
            return found
                .unwrap_or_else(|| self.report_issue(id, format!("undefined field '{field}'")));
        }
        if object_type.is_dynamic() {
            return CelType::Dyn;
        }
        self.report_issue(id, format!("type '{object_type}' does not support field selection"))
    }

    fn comprehension_type(&mut self, id: u64, comprehension: &ComprehensionExpr) -> CelType {
        let range = self.type_of(&comprehension.iter_range);
        let item = if let CelType::List(item) | CelType::Map(item, _) = &range {
            CelType::clone(item)
        } else if range.is_dynamic() {
            CelType::Dyn
        } else {
            let why = format!(
                "expression of type '{range}' cannot be range of a comprehension (must be list, \
                 map, or dynamic)"
            );
            self.report_issue(id, why)
        };
        let result = self.type_of(&comprehension.accu_init);
        let names =
            [(comprehension.accu_var.as_str(), result), (comprehension.iter_var.as_str(), item)];
        self.type_in_scope(&names, &comprehension.loop_cond);
        let stepped = self.type_in_scope(&names, &comprehension.loop_step);
        self.type_in_scope(&[(comprehension.accu_var.as_str(), stepped)], &comprehension.result)
    }

    fn call_type(&mut self, id: u64, call: &CallExpr) -> CelType {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            ("_&&_" | "_||_", parts) => {
                for part in parts {
                    self.check_bool_operand(part);
                }
                return CelType::Bool;
            }
            ("_?._", [of, field]) => {
                let of = self.type_of(of);
                if let Expr::Literal(LiteralValue::String(field)) = &field.expr {
                    self.field_type(id, &of, field.inner());
                }
                return CelType::Dyn;
            }
            _ => {}
        }
        if let Some(kind) = self.macro_type(call) {
            return kind;
        }
        let owner = call.target.as_deref().filter(|target| !self.is_namespace_of(target, name));
        let full = match &call.target {
            Some(target) if owner.is_none() => format!("{}.{name}", identifier_name(target)),
            _ => name.to_owned(),
        };
        let owner = owner.map(|owner| self.type_of(owner));
        let arguments: Vec<CelType> =
            call.args.iter().map(|argument| self.type_of(argument)).collect();
        let is_operator = name.contains('_') || name == "@in";
        if !is_operator && !is_function(&full) {
            return self.report_undeclared(id, name);
        }
        let taken: Vec<CelType> = owner.iter().chain(&arguments).cloned().collect();
        let found = match name {
            "@not_strictly_false" => Some(CelType::Bool),
            "_[?_]" => Some(CelType::Dyn),
            _ if is_operator => operator_result_type(name, &taken),
            _ => function_result_type(&full, &taken),
        };
        found.unwrap_or_else(|| {
            let shown: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            let owner = owner.map(|owner| format!("{owner}.")).unwrap_or_default();
            let shown = format!("{owner}({})", shown.join(", "));
            self.report_issue(
                id,
                format!("found no matching overload for '{full}' applied to '{shown}'"),
            )
        })
    }

    /// Checks that an operand of `&&` or `||` is a bool.
    fn check_bool_operand(&mut self, part: &IdedExpr) {
        let kind = self.type_of(part);
        if !kind.is_assignable_to(&CelType::Bool) {
            self.report_issue(part.id, format!("expected type 'bool' but found '{kind}'"));
        }
    }

    /// Whether the target of a call is the namespace of a function, as in `sets.contains`.
    fn is_namespace_of(&self, target: &IdedExpr, name: &str) -> bool {
        let library = identifier_name(target);
        self.variable_type(library).is_none() && is_function(&format!("{library}.{name}"))
    }

    /// The type of a macro that the library does not expand.
    fn macro_type(&mut self, call: &CallExpr) -> Option<CelType> {
        let (target, arguments) = (call.target.as_deref()?, call.args.as_slice());
        if let ("bind", [name, value, body]) = (call.func_name.as_str(), arguments)
            && self.scope.allows_bind
            && identifier_name(target) == "cel"
        {
            let value = self.type_of(value);
            return Some(self.type_in_scope(&[(identifier_name(name), value)], body));
        }
        let (_, counts) = MACROS.iter().find(|(known, _)| *known == call.func_name)?;
        if !counts.contains(&arguments.len()) {
            return None;
        }
        let over = self.type_of(target);
        let kinds = if let CelType::List(item) = &over {
            [CelType::Int, CelType::clone(item)]
        } else if let CelType::Map(key, value) = &over {
            [CelType::clone(key), CelType::clone(value)]
        } else {
            [CelType::Dyn, CelType::Dyn]
        };
        let names = arguments.len().min(3) - 1;
        let (variables, parts) = arguments.split_at(names);
        let variables: Vec<(&str, CelType)> =
            variables.iter().map(identifier_name).zip(kinds).collect();
        for part in parts {
            self.type_in_scope(&variables, part);
        }
        let is_test = ["all", "exists", "existsOne", "exists_one"];
        Some(if is_test.contains(&call.func_name.as_str()) { CelType::Bool } else { CelType::Dyn })
    }
}

fn identifier_name(expr: &IdedExpr) -> &str {
    if let Expr::Ident(name) = &expr.expr { name } else { "" }
}

pub(super) fn literal_type(value: &LiteralValue) -> CelType {
    match value {
        LiteralValue::Boolean(_) => CelType::Bool,
        LiteralValue::Bytes(_) => CelType::Bytes,
        LiteralValue::Double(_) => CelType::Double,
        LiteralValue::Int(_) => CelType::Int,
        LiteralValue::Null => CelType::Null,
        LiteralValue::String(_) => CelType::Text,
        LiteralValue::UInt(_) => CelType::Uint,
    }
}
