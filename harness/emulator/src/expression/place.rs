//! Where in an expression something is wrong, told as the real server's compiler tells it.

use kube_cel::cel::parser::{ParseErrors, Parser};

/// Something wrong with a part of an expression.
pub(super) struct Wrong {
    /// The number of the part, by the parser.
    pub(super) id: u64,
    pub(super) why: String,
}

/// What the parser found.
pub(super) fn of_parser(text: &str, errors: &ParseErrors) -> String {
    let told = errors.errors.iter().map(|error| {
        let at = |number: isize| usize::try_from(number).unwrap_or(0);
        one(text, (at(error.pos.0), at(error.pos.1)), &error.msg)
    });
    told.collect::<Vec<_>>().join("\n")
}

/// What the checker found, in the order of the text.
pub(super) fn told(text: &str, wrongs: Vec<Wrong>) -> String {
    let starts = starts(text, &wrongs);
    let mut all: Vec<(usize, String)> =
        starts.into_iter().zip(wrongs.into_iter().map(|wrong| wrong.why)).collect();
    all.sort_by_key(|(start, _)| *start);
    let told = all.iter().map(|(start, why)| {
        let before: String = text.chars().take(*start).collect();
        let line = before.matches('\n').count();
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count();
        one(text, (line + 1, column + 1), why)
    });
    told.collect::<Vec<_>>().join("\n")
}

/// Where the parts begin. The parser gives places away only with a mistake: so one is made behind
/// the expression, which does not change the numbers of what comes before.
fn starts(text: &str, wrongs: &[Wrong]) -> Vec<usize> {
    let broken = format!("{text}\n|| has(0)");
    let parsed = Parser::new().enable_optional_syntax(true).parse(&broken);
    let places = parsed.err().and_then(|errors| errors.errors.into_iter().next()?.source_info);
    let start = |wrong: &Wrong| {
        let range = places.as_ref().and_then(|places| places.offset_for(wrong.id));
        range.and_then(|(start, _)| usize::try_from(start).ok()).unwrap_or(0)
    };
    wrongs.iter().map(start).collect()
}

fn one(text: &str, (line, column): (usize, usize), why: &str) -> String {
    let column = if text.is_empty() { 0 } else { column };
    let mut told = format!("ERROR: <input>:{line}:{column}: {why}");
    let shown = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    if !shown.is_empty() {
        let dots = ".".repeat(column.saturating_sub(1));
        told = format!("{told}\n | {shown}\n | {dots}^");
    }
    told
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Scope, check};

    fn refusal(text: &str) -> String {
        let object =
            Kind::object("thing", [("n".to_owned(), Kind::Int), ("s".to_owned(), Kind::Text)]);
        let scope = Scope { variables: vec![("self".to_owned(), object)], binds: true };
        check(text, &scope).map_or_else(
            |why| why.lines().next().unwrap_or_default().to_owned(),
            |kind| kind.to_string(),
        )
    }

    #[test]
    fn an_expression_has_a_kind_or_is_refused_with_its_place() {
        for (text, answer) in [
            ("self.n > 0", "bool"),
            ("self.s", "string"),
            ("self.n > 1.0 && 'a' in [self.s]", "bool"),
            ("[1, 2].map(x, x + self.n)", "list(dyn)"),
            ("cel.bind(x, self.s, x.size())", "int"),
            ("self.?n.orValue(1) > 0", "bool"),
            ("self.o", "ERROR: <input>:1:5: undefined field 'o'"),
            ("self.s.x", "ERROR: <input>:1:7: type 'string' does not support field selection"),
            ("true ||\n x", "ERROR: <input>:2:2: undeclared reference to 'x' (in container '')"),
            ("foo(1)", "ERROR: <input>:1:4: undeclared reference to 'foo' (in container '')"),
            (
                "self.s == 1 ? true : false",
                "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(string, int)'",
            ),
            (
                "self.n.startsWith('a')",
                "ERROR: <input>:1:18: found no matching overload for 'startsWith' applied to 'int.(string)'",
            ),
            ("[1, 'a'] == []", "ERROR: <input>:1:5: expected type 'int' but found 'string'"),
            ("self.n && true", "ERROR: <input>:1:5: expected type 'bool' but found 'int'"),
        ] {
            assert_eq!(refusal(text), answer, "{text}");
        }
    }

    #[test]
    fn long_and_nested_expressions_are_read_like_others_and_odd_ones_break_nothing() {
        let nested = format!("{}1 == 1{}", "(".repeat(90), ")".repeat(90));
        let long = format!("{}1 > 0", "1 + ".repeat(2500));
        assert_eq!([refusal(&nested), refusal(&long)], ["bool", "bool"]);
        for odd in ["", "'", "1 +", &"(".repeat(10 * 1024), &"true?1:".repeat(200)] {
            assert!(check(odd, &Scope::default()).is_err(), "{odd:?}");
        }
    }
}
