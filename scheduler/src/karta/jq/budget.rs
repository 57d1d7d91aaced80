//! Restricts expressions to supported syntax and functions, and instruments them so that every
//! value they yield is charged to the budget.

use jaq_core::{
    Cv, Error, ValXs,
    load::{
        lex::StrPart,
        parse::{BinaryOp, Def, Pattern, Term},
    },
    native::{self, Fun, bome, v},
    ops::Math,
    path::{Part, Path},
};
use jaq_json::{Num, Val};

use super::{BUDGET_EXCEEDED, BudgetedData};

/// Helper function: charges its input and yields it.
const CHARGE_FUNCTION: &str = "__paid";
/// Helper function: yields its input if it is a number of fixed size, else fails.
const SMALL_NUMBER_FUNCTION: &str = "__number";
/// Helper function: yields its input unless it is a list, a map or a long string, else fails.
const SHORT_VALUE_FUNCTION: &str = "__short";
/// Helper function: `tonumber` for numbers and numeric strings. (That of the jaq library parses any
/// JSON.)
const TO_NUMBER_FUNCTION: &str = "__tonumber";
/// Maximum length in bytes of a search or separator string.
const SHORT_STRING_BYTES_MAX: usize = 64;

/// Supported functions by name and number of arguments: they terminate, and their output is at most
/// a small multiple of their input.
const SUPPORTED_FUNCTIONS: [(&str, usize); 73] = [
    ("abs", 0),
    ("add", 0),
    ("add", 1),
    ("all", 0),
    ("all", 1),
    ("all", 2),
    ("any", 0),
    ("any", 1),
    ("any", 2),
    ("arrays", 0),
    ("ascii_downcase", 0),
    ("ascii_upcase", 0),
    ("booleans", 0),
    ("ceil", 0),
    ("empty", 0),
    ("endswith", 1),
    ("error", 0),
    ("error", 1),
    ("false", 0),
    ("first", 0),
    ("first", 1),
    ("flatten", 0),
    ("floor", 0),
    ("from_entries", 0),
    ("group_by", 1),
    ("has", 1),
    ("isempty", 1),
    ("iterables", 0),
    ("keys", 0),
    ("keys_unsorted", 0),
    ("last", 0),
    ("last", 1),
    ("length", 0),
    ("limit", 2),
    ("ltrimstr", 1),
    ("ltrim", 0),
    ("map", 1),
    ("map_values", 1),
    ("max", 0),
    ("max_by", 1),
    ("min", 0),
    ("min_by", 1),
    ("not", 0),
    ("nth", 1),
    ("nth", 2),
    ("null", 0),
    ("nulls", 0),
    ("numbers", 0),
    ("objects", 0),
    ("reverse", 0),
    ("round", 0),
    ("rtrim", 0),
    ("rtrimstr", 1),
    ("scalars", 0),
    ("select", 1),
    ("skip", 2),
    ("sort", 0),
    ("sort_by", 1),
    ("split", 1),
    ("startswith", 1),
    ("strings", 0),
    ("to_entries", 0),
    ("tojson", 0),
    ("tonumber", 0),
    ("tostring", 0),
    ("trim", 0),
    ("true", 0),
    ("type", 0),
    ("unique", 0),
    ("unique_by", 1),
    ("utf8bytelength", 0),
    ("values", 0),
    ("with_entries", 1),
];
/// Functions whose single argument must be short; otherwise their cost could be the product of both
/// inputs.
const SHORT_ARGUMENT_FUNCTIONS: [&str; 5] = ["contains", "index", "indices", "join", "rindex"];

/// Definitions that supported functions use internally.
const INTERNAL_DEFINITIONS: [&str; 5] =
    ["isarray", "isboolean", "isnumber", "isobject", "isstring"];

/// Whether a definition is a supported function, or used by one. Other definitions use functions
/// that are not defined.
pub(super) fn is_needed_definition(definition: &Def) -> bool {
    let (name, count) = (definition.name, definition.args.len());
    let is_called = SUPPORTED_FUNCTIONS.contains(&(name, count)) && name != "tonumber";
    is_called || INTERNAL_DEFINITIONS.contains(&name) || SHORT_ARGUMENT_FUNCTIONS.contains(&name)
}

/// Rewrites an expression so that each value that a part of it yields is charged.
///
/// # Errors
/// The name of an unsupported function or construct.
pub(super) fn instrument_term(term: Term<&str>) -> Result<Term<&str>, &str> {
    Ok(match term {
        Term::Id | Term::Num(_) | Term::Var(_) => with_charge(term),
        Term::Str(None, parts) => {
            let part = |part| {
                Ok(match part {
                    StrPart::Term(term) => StrPart::Term(instrument_term(term)?),
                    StrPart::Str(_) | StrPart::Char(_) => part,
                })
            };
            with_charge(Term::Str(None, try_map(parts, part)?))
        }
        Term::Arr(items) => Term::Arr(items.map(|items| instrument_boxed(*items)).transpose()?),
        Term::Obj(fields) => {
            with_charge(Term::Obj(try_map(fields, |(key, value)| instrument_field(key, value))?))
        }
        Term::Neg(term) => {
            Term::Neg(Box::new(pipe_to(instrument_term(*term)?, SMALL_NUMBER_FUNCTION)))
        }
        Term::BinOp(left, op, right) => instrument_operator(*left, op, *right)?,
        Term::Fold(name, term, pattern, parts) => with_charge(Term::Fold(
            name,
            instrument_boxed(*term)?,
            instrument_pattern(pattern)?,
            try_map(parts, instrument_term)?,
        )),
        Term::TryCatch(term, caught) => Term::TryCatch(
            instrument_boxed(*term)?,
            caught.map(|term| instrument_boxed(*term)).transpose()?,
        ),
        Term::IfThenElse(cases, otherwise) => {
            let case = |(when, so)| Ok((instrument_term(when)?, instrument_term(so)?));
            let otherwise = otherwise.map(|term| instrument_boxed(*term)).transpose()?;
            Term::IfThenElse(try_map(cases, case)?, otherwise)
        }
        Term::Call(name, arguments) => with_charge(instrument_call(name, arguments)?),
        Term::Path(term, Path(parts)) => {
            // Only the indexed value is new; the input itself is charged already.
            let is_whole = matches!(*term, Term::Id | Term::Var(_));
            let term = if is_whole { term } else { instrument_boxed(*term)? };
            let part = |(part, opt)| Ok((instrument_step(part)?, opt));
            with_charge(Term::Path(term, Path(try_map(parts, part)?)))
        }
        Term::Recurse => return Err(".."),
        Term::Str(Some(name), _) | Term::Break(name) | Term::Label(name, _) => return Err(name),
        Term::Def(..) => return Err("def"),
    })
}

fn instrument_boxed(term: Term<&str>) -> Result<Box<Term<&str>>, &str> {
    Ok(Box::new(instrument_term(term)?))
}

fn try_map<'s, T>(items: Vec<T>, one: impl Fn(T) -> Result<T, &'s str>) -> Result<Vec<T>, &'s str> {
    items.into_iter().map(one).collect()
}

fn pipe_to<'s>(term: Term<&'s str>, function: &'static str) -> Term<&'s str> {
    let function = Term::Call(function, Vec::new());
    Term::BinOp(Box::new(term), BinaryOp::Pipe(None), Box::new(function))
}

fn with_charge(term: Term<&str>) -> Term<&str> {
    pipe_to(term, CHARGE_FUNCTION)
}

type ObjectEntry<'s> = (Term<&'s str>, Option<Term<&'s str>>);

fn instrument_field<'s>(
    key: Term<&'s str>,
    value: Option<Term<&'s str>>,
) -> Result<ObjectEntry<'s>, &'s str> {
    Ok(match (key, value) {
        (key @ Term::Var(_), None) => (key, None),
        (key, value) => (instrument_term(key)?, value.map(instrument_term).transpose()?),
    })
}

type PathPart<'s> = Part<Term<&'s str>>;

fn instrument_step(part: PathPart<'_>) -> Result<PathPart<'_>, &str> {
    Ok(match part {
        Part::Index(of) => Part::Index(instrument_term(of)?),
        Part::Range(from, to) => Part::Range(
            from.map(instrument_term).transpose()?,
            to.map(instrument_term).transpose()?,
        ),
    })
}

fn instrument_operator<'s>(
    left: Term<&'s str>,
    op: BinaryOp<&'s str>,
    right: Term<&'s str>,
) -> Result<Term<&'s str>, &'s str> {
    let (left, right) = (instrument_term(left)?, instrument_term(right)?);
    let (left, op, right) = match op {
        BinaryOp::Pipe(Some(pattern)) => {
            (left, BinaryOp::Pipe(Some(instrument_pattern(pattern)?)), right)
        }
        // On strings, lists and maps these operators could yield arbitrarily large values.
        BinaryOp::Math(Math::Sub | Math::Mul | Math::Div | Math::Rem) => {
            (pipe_to(left, SMALL_NUMBER_FUNCTION), op, pipe_to(right, SMALL_NUMBER_FUNCTION))
        }
        BinaryOp::Pipe(None)
        | BinaryOp::Comma
        | BinaryOp::Alt
        | BinaryOp::Or
        | BinaryOp::And
        | BinaryOp::Math(Math::Add)
        | BinaryOp::Cmp(_) => (left, op, right),
        BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
            return Err("an assignment");
        }
    };
    Ok(Term::BinOp(Box::new(left), op, Box::new(right)))
}

fn instrument_pattern(pattern: Pattern<&str>) -> Result<Pattern<&str>, &str> {
    Ok(match pattern {
        Pattern::Var(_) => pattern,
        Pattern::Arr(items) => Pattern::Arr(try_map(items, instrument_pattern)?),
        Pattern::Obj(fields) => {
            let field = |(key, of)| {
                let key = if matches!(key, Term::Var(_)) { key } else { instrument_term(key)? };
                Ok((key, instrument_pattern(of)?))
            };
            Pattern::Obj(try_map(fields, field)?)
        }
    })
}

fn instrument_call<'s>(
    name: &'s str,
    arguments: Vec<Term<&'s str>>,
) -> Result<Term<&'s str>, &'s str> {
    let count = arguments.len();
    let arguments = try_map(arguments, instrument_term)?;
    if count == 1 && SHORT_ARGUMENT_FUNCTIONS.contains(&name) {
        let arguments = arguments.into_iter().map(|of| pipe_to(of, SHORT_VALUE_FUNCTION)).collect();
        return Ok(Term::Call(name, arguments));
    }
    if !SUPPORTED_FUNCTIONS.contains(&(name, count)) {
        return Err(name);
    }
    Ok(Term::Call(if name == "tonumber" { TO_NUMBER_FUNCTION } else { name }, arguments))
}

/// The helper functions that rewritten expressions call.
pub(super) fn helper_functions() -> impl Iterator<Item = Fun<BudgetedData>> {
    type Run = for<'a> fn(Cv<'a, BudgetedData>) -> ValXs<'a, Val>;
    let paid: Run = |cv| {
        let is_paid = cv.0.data().charge_value(&cv.1);
        bome(if is_paid { Ok(cv.1) } else { Err(Error::str(BUDGET_EXCEEDED)) })
    };
    let number: Run = |cv| {
        let is_small = matches!(cv.1, Val::Num(Num::Int(_) | Num::Float(_)));
        bome(if is_small { Ok(cv.1) } else { Err(Error::typ(cv.1, "number")) })
    };
    let short: Run = |cv| {
        let is_short = match &cv.1 {
            Val::Null | Val::Bool(_) | Val::Num(_) => true,
            Val::BStr(text) | Val::TStr(text) => text.len() <= SHORT_STRING_BYTES_MAX,
            Val::Arr(_) | Val::Obj(_) => false,
        };
        bome(if is_short { Ok(cv.1) } else { Err(Error::typ(cv.1, "short text")) })
    };
    let to_number: Run = |cv| {
        let number = match &cv.1 {
            Val::Num(_) => Some(cv.1.clone()),
            Val::TStr(text) => parse_number(text),
            Val::Null | Val::Bool(_) | Val::BStr(_) | Val::Arr(_) | Val::Obj(_) => None,
        };
        bome(number.ok_or_else(|| Error::typ(cv.1, "number")))
    };
    let all = [
        (CHARGE_FUNCTION, paid),
        (SMALL_NUMBER_FUNCTION, number),
        (SHORT_VALUE_FUNCTION, short),
        (TO_NUMBER_FUNCTION, to_number),
    ];
    all.into_iter().map(|(name, run)| native::run::<BudgetedData>((name, v(0), run)))
}

fn parse_number(text: &[u8]) -> Option<Val> {
    let text = std::str::from_utf8(text).ok()?;
    let whole = text.parse().ok().map(Num::Int);
    let number =
        whole.or_else(|| text.parse().ok().filter(|it: &f64| it.is_finite()).map(Num::Float))?;
    Some(Val::Num(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::karta::jq::Program;

    #[test]
    fn every_supported_function_compiles() {
        let called =
            SUPPORTED_FUNCTIONS.into_iter().chain(SHORT_ARGUMENT_FUNCTIONS.map(|name| (name, 1)));
        for (name, arguments) in called {
            let arguments = vec!["."; arguments].join("; ");
            let text =
                if arguments.is_empty() { name.to_owned() } else { format!("{name}({arguments})") };
            assert!(Program::parse(&text).is_ok(), "{text}");
        }
    }
}
