//! Errors of expressions with their location, in the format of cel-go.

use kube_cel::cel::parser::{ParseErrors, Parser};

/// An error in a part of an expression.
pub(super) struct Issue {
    /// The id that the CEL parser gave the part.
    pub(super) id: u64,
    pub(super) message: String,
}

/// Formats syntax errors as cel-go does.
pub(super) fn format_parse_errors(text: &str, errors: &ParseErrors) -> String {
    let messages = errors.errors.iter().map(|error| {
        let at = |number: isize| usize::try_from(number).unwrap_or(0);
        format_issue(text, at(error.pos.0), at(error.pos.1), &error.msg)
    });
    messages.collect::<Vec<_>>().join("\n")
}

/// Formats errors of the type check as cel-go does, in the order of their positions in the text.
pub(super) fn format_issues(text: &str, issues: Vec<Issue>) -> String {
    let starts = issue_offsets(text, &issues);
    let mut all: Vec<(usize, String)> =
        starts.into_iter().zip(issues.into_iter().map(|issue| issue.message)).collect();
    all.sort_by_key(|(start, _)| *start);
    let messages = all.iter().map(|(start, why)| {
        let before: String = text.chars().take(*start).collect();
        let line = before.matches('\n').count();
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count();
        format_issue(text, line + 1, column + 1, why)
    });
    messages.collect::<Vec<_>>().join("\n")
}

/// The start offset of the part of each issue. The CEL parser returns source positions only
/// together with an error, so a syntax error is appended to the expression. This does not change
/// the ids of the parts before it.
fn issue_offsets(text: &str, issues: &[Issue]) -> Vec<usize> {
    let broken = format!("{text}\n|| has(0)");
    let parsed = Parser::new().enable_optional_syntax(true).parse(&broken);
    let source_info = parsed.err().and_then(|errors| errors.errors.into_iter().next()?.source_info);
    let start = |issue: &Issue| {
        let range = source_info.as_ref().and_then(|places| places.offset_for(issue.id));
        range.and_then(|(start, _)| usize::try_from(start).ok()).unwrap_or(0)
    };
    issues.iter().map(start).collect()
}

fn format_issue(text: &str, line: usize, column: usize, why: &str) -> String {
    let column = if text.is_empty() { 0 } else { column };
    let mut message = format!("ERROR: <input>:{line}:{column}: {why}");
    let shown = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    if !shown.is_empty() {
        let dots = ".".repeat(column.saturating_sub(1));
        message = format!("{message}\n | {shown}\n | {dots}^");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::super::{CelType, TypeScope, check_type};

    fn type_or_first_error(text: &str) -> String {
        let object = CelType::object(
            "thing",
            [("n".to_owned(), CelType::Int), ("s".to_owned(), CelType::Text)],
        );
        let scope = TypeScope { variables: vec![("self".to_owned(), object)], allows_bind: true };
        check_type(text, &scope).map_or_else(
            |why| why.lines().next().unwrap_or_default().to_owned(),
            |kind| kind.to_string(),
        )
    }

    #[test]
    fn an_expression_has_a_type_or_an_error_with_its_location() {
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
            assert_eq!(type_or_first_error(text), answer, "{text}");
        }
    }

    #[test]
    fn long_and_nested_expressions_compile_and_malformed_ones_are_errors() {
        let nested = format!("{}1 == 1{}", "(".repeat(90), ")".repeat(90));
        let long = format!("{}1 > 0", "1 + ".repeat(2500));
        assert_eq!([type_or_first_error(&nested), type_or_first_error(&long)], ["bool", "bool"]);
        for odd in ["", "'", "1 +", &"(".repeat(10 * 1024), &"true?1:".repeat(200)] {
            assert!(check_type(odd, &TypeScope::default()).is_err(), "{odd:?}");
        }
    }
}
