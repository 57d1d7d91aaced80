//! Whether an expression can be compiled: it is CEL, all that it names is there, and what it calls
//! takes what it is given. Unknown kinds pass: nothing is refused that the real server takes.
//!
//! Left out: what an expression may cost, and arguments that are wrong as texts.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr,
};
use kube_cel::cel::parser::Parser;

use super::functions::{given, is_known, operated};
use super::kind::Kind;
use super::place::{self, Wrong};
use super::{is_bounded, is_plain, with_room};

/// Names of kinds, which are values, too.
const KINDS: [&str; 13] = [
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
/// Macros that the library does not know: how many of their first arguments are variables.
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

/// What an expression may speak of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) variables: Vec<(String, Kind)>,
    /// Whether it may name values, by `cel.bind`.
    pub(crate) binds: bool,
}

/// The kind of an expression's value, or everything that keeps it from being compiled.
pub(crate) fn check(text: &str, scope: &Scope) -> Result<Kind, String> {
    let unreadable = || Err("the expression cannot be read".to_owned());
    if !is_bounded(text) {
        return unreadable();
    }
    with_room(is_plain(text), || checked(text, scope)).unwrap_or_else(unreadable)
}

fn checked(text: &str, scope: &Scope) -> Result<Kind, String> {
    let parsed = Parser::new().enable_optional_syntax(true).parse(text);
    let parsed = parsed.map_err(|errors| place::of_parser(text, &errors))?;
    let mut checker = Checker { scope: scope.clone(), wrongs: Vec::new() };
    let kind = checker.kind(&parsed);
    if checker.wrongs.is_empty() { Ok(kind) } else { Err(place::told(text, checker.wrongs)) }
}

struct Checker {
    scope: Scope,
    wrongs: Vec<Wrong>,
}

impl Checker {
    /// Says what is wrong with a part, of whose value nothing is known then.
    fn refuse(&mut self, id: u64, why: String) -> Kind {
        self.wrongs.push(Wrong { id, why });
        Kind::Dyn
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Kind {
        self.refuse(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn variable(&self, name: &str) -> Option<&Kind> {
        let mut all = self.scope.variables.iter().rev();
        all.find(|(known, _)| known == name).map(|(_, kind)| kind)
    }

    /// Looks at a part in which more is named.
    fn within(&mut self, more: &[(&str, Kind)], part: &IdedExpr) -> Kind {
        let before = self.scope.variables.len();
        let more = more.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone()));
        self.scope.variables.extend(more);
        let kind = self.kind(part);
        self.scope.variables.truncate(before);
        kind
    }

    fn kind(&mut self, expr: &IdedExpr) -> Kind {
        match &expr.expr {
            Expr::Unspecified | Expr::Struct(_) => Kind::Dyn,
            Expr::Literal(value) => literal(value),
            Expr::Ident(name) => match self.variable(name) {
                Some(kind) => kind.clone(),
                None if KINDS.contains(&name.as_str()) => Kind::Dyn,
                None => self.undeclared(expr.id, name),
            },
            Expr::List(list) => Kind::list(self.alike(list.elements.iter())),
            Expr::Map(map) => {
                let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => Some(entry),
                    EntryExpr::StructField(_) => None,
                });
                let key = self.alike(entries.clone().map(|entry| &entry.key));
                let value = self.alike(entries.map(|entry| &entry.value));
                Kind::Map(key.into(), value.into())
            }
            Expr::Select(select) => self.selected(expr.id, select),
            Expr::Comprehension(comprehension) => self.comprehended(expr.id, comprehension),
            Expr::Call(call) => self.called(expr.id, call),
        }
    }

    /// What stands in one list is of one kind.
    fn alike<'e>(&mut self, parts: impl Iterator<Item = &'e IdedExpr>) -> Kind {
        let mut all = Kind::Dyn;
        for part in parts {
            let kind = self.kind(part);
            if !kind.fits(&all) {
                self.refuse(part.id, format!("expected type '{all}' but found '{kind}'"));
            } else if all.is_open() {
                all = kind;
            }
        }
        all
    }

    fn selected(&mut self, id: u64, select: &SelectExpr) -> Kind {
        let of = self.kind(&select.operand);
        let found = self.field(id, &of, &select.field);
        if select.test { Kind::Bool } else { found }
    }

    fn field(&mut self, id: u64, of: &Kind, field: &str) -> Kind {
        if let Kind::Map(_, value) = of {
            return Kind::clone(value);
        }
        if let Kind::Object(object) = of {
            let found = object.fields.get(field).cloned();
            return found.unwrap_or_else(|| self.refuse(id, format!("undefined field '{field}'")));
        }
        if of.is_open() {
            return Kind::Dyn;
        }
        self.refuse(id, format!("type '{of}' does not support field selection"))
    }

    fn comprehended(&mut self, id: u64, loops: &ComprehensionExpr) -> Kind {
        let range = self.kind(&loops.iter_range);
        let item = if let Kind::List(item) | Kind::Map(item, _) = &range {
            Kind::clone(item)
        } else if range.is_open() {
            Kind::Dyn
        } else {
            let why = format!(
                "expression of type '{range}' cannot be range of a comprehension (must be list, \
                 map, or dynamic)"
            );
            self.refuse(id, why)
        };
        let result = self.kind(&loops.accu_init);
        let names = [(loops.accu_var.as_str(), result), (loops.iter_var.as_str(), item)];
        self.within(&names, &loops.loop_cond);
        let stepped = self.within(&names, &loops.loop_step);
        self.within(&[(loops.accu_var.as_str(), stepped)], &loops.result)
    }

    fn called(&mut self, id: u64, call: &CallExpr) -> Kind {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            ("_&&_" | "_||_", parts) => {
                for part in parts {
                    self.test(part);
                }
                return Kind::Bool;
            }
            ("_?._", [of, field]) => {
                let of = self.kind(of);
                if let Expr::Literal(LiteralValue::String(field)) = &field.expr {
                    self.field(id, &of, field.inner());
                }
                return Kind::Dyn;
            }
            _ => {}
        }
        if let Some(kind) = self.expanded(call) {
            return kind;
        }
        let owner = call.target.as_deref().filter(|target| !self.is_library(target, name));
        let full = match &call.target {
            Some(target) if owner.is_none() => format!("{}.{name}", identifier(target)),
            _ => name.to_owned(),
        };
        let owner = owner.map(|owner| self.kind(owner));
        let arguments: Vec<Kind> = call.args.iter().map(|argument| self.kind(argument)).collect();
        let is_operator = name.contains('_') || name == "@in";
        if !is_operator && !is_known(&full) {
            return self.undeclared(id, name);
        }
        let taken: Vec<Kind> = owner.iter().chain(&arguments).cloned().collect();
        let found = match name {
            "@not_strictly_false" => Some(Kind::Bool),
            "_[?_]" => Some(Kind::Dyn),
            _ if is_operator => operated(name, &taken),
            _ => given(&full, &taken),
        };
        found.unwrap_or_else(|| {
            let shown: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            let owner = owner.map(|owner| format!("{owner}.")).unwrap_or_default();
            let shown = format!("{owner}({})", shown.join(", "));
            self.refuse(id, format!("found no matching overload for '{full}' applied to '{shown}'"))
        })
    }

    /// What is joined with others is true or false.
    fn test(&mut self, part: &IdedExpr) {
        let kind = self.kind(part);
        if !kind.fits(&Kind::Bool) {
            self.refuse(part.id, format!("expected type 'bool' but found '{kind}'"));
        }
    }

    /// Whether what stands before a function's name is a part of it.
    fn is_library(&self, target: &IdedExpr, name: &str) -> bool {
        let library = identifier(target);
        self.variable(library).is_none() && is_known(&format!("{library}.{name}"))
    }

    /// The value of a macro that the library leaves as it is.
    fn expanded(&mut self, call: &CallExpr) -> Option<Kind> {
        let (target, arguments) = (call.target.as_deref()?, call.args.as_slice());
        if let ("bind", [name, value, body]) = (call.func_name.as_str(), arguments)
            && self.scope.binds
            && identifier(target) == "cel"
        {
            let value = self.kind(value);
            return Some(self.within(&[(identifier(name), value)], body));
        }
        let (_, counts) = MACROS.iter().find(|(known, _)| *known == call.func_name)?;
        if !counts.contains(&arguments.len()) {
            return None;
        }
        let over = self.kind(target);
        let kinds = if let Kind::List(item) = &over {
            [Kind::Int, Kind::clone(item)]
        } else if let Kind::Map(key, value) = &over {
            [Kind::clone(key), Kind::clone(value)]
        } else {
            [Kind::Dyn, Kind::Dyn]
        };
        let names = arguments.len().min(3) - 1;
        let (variables, parts) = arguments.split_at(names);
        let variables: Vec<(&str, Kind)> = variables.iter().map(identifier).zip(kinds).collect();
        for part in parts {
            self.within(&variables, part);
        }
        let is_test = ["all", "exists", "existsOne", "exists_one"];
        Some(if is_test.contains(&call.func_name.as_str()) { Kind::Bool } else { Kind::Dyn })
    }
}

fn identifier(expr: &IdedExpr) -> &str {
    if let Expr::Ident(name) = &expr.expr { name } else { "" }
}

fn literal(value: &LiteralValue) -> Kind {
    match value {
        LiteralValue::Boolean(_) => Kind::Bool,
        LiteralValue::Bytes(_) => Kind::Bytes,
        LiteralValue::Double(_) => Kind::Double,
        LiteralValue::Int(_) => Kind::Int,
        LiteralValue::Null => Kind::Null,
        LiteralValue::String(_) => Kind::Text,
        LiteralValue::UInt(_) => Kind::Uint,
    }
}
