//! Parser of label selectors, with the error messages of the API server.

use std::collections::BTreeSet;

use super::Requirement;

const OPERATOR_SIGNS: [char; 7] = ['=', '!', '(', ')', ',', '>', '<'];

type ParseResult<T> = Result<T, String>;

/// Parses the text of a label selector into its requirements.
pub(super) fn parse_requirements(text: &str) -> ParseResult<Vec<Requirement>> {
    let mut tokens = Tokens { rest: text };
    let mut found = Vec::new();
    loop {
        match tokens.peek() {
            "" => return Ok(found),
            token if is_word(token) || token == "!" => {}
            other => {
                return Err(format!(
                    "found '{other}', expected: !, identifier, or 'end of string'"
                ));
            }
        }
        let requirement = parse_requirement(&mut tokens);
        found.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
        match tokens.next() {
            "" => return Ok(found),
            "," => {
                let next = tokens.peek();
                if !is_word(next) && next != "!" {
                    return Err(format!("found '{next}', expected: identifier after ','"));
                }
            }
            other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
        }
    }
}

/// The tokens of a selector: words and operators; an empty token is the end.
struct Tokens<'t> {
    rest: &'t str,
}

fn is_word(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(OPERATOR_SIGNS)
}

impl<'t> Tokens<'t> {
    fn peek(&self) -> &'t str {
        Tokens { rest: self.rest }.next()
    }

    fn next(&mut self) -> &'t str {
        let rest = self.rest.trim_start();
        let length =
            match rest.find(|letter: char| OPERATOR_SIGNS.contains(&letter) || is_space(letter)) {
                None => rest.len(),
                Some(0) if rest.starts_with("==") || rest.starts_with("!=") => 2,
                Some(0) => 1,
                Some(length) => length,
            };
        let (token, rest) = rest.split_at(length);
        self.rest = rest;
        token
    }
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n')
}

fn parse_requirement(tokens: &mut Tokens<'_>) -> ParseResult<Requirement> {
    let mut key = tokens.next();
    let is_absent = key == "!";
    if is_absent {
        key = tokens.next();
    }
    if !is_word(key) {
        return Err(format!("found '{key}', expected: identifier"));
    }
    if let Some(rule) = crate::api_types::names::qualified_name_violations(key).into_iter().next() {
        return Err(format!("<nil>: Invalid value: {key:?}: {rule}"));
    }
    let key = key.to_owned();
    if is_absent {
        return Ok(Requirement::Absent(key));
    }
    if matches!(tokens.peek(), "" | ",") {
        return Ok(Requirement::Exists(key));
    }
    match tokens.next() {
        "in" => Ok(Requirement::In(key.clone(), validated_values(&key, parse_values(tokens)?)?)),
        "notin" => {
            Ok(Requirement::NotIn(key.clone(), validated_values(&key, parse_values(tokens)?)?))
        }
        "=" | "==" => {
            Ok(Requirement::In(key.clone(), validated_values(&key, parse_value(tokens)?.into())?))
        }
        "!=" => Ok(Requirement::NotIn(
            key.clone(),
            validated_values(&key, parse_value(tokens)?.into())?,
        )),
        ">" => Ok(Requirement::Above(key, parse_bound(parse_value(tokens)?)?)),
        "<" => Ok(Requirement::Below(key, parse_bound(parse_value(tokens)?)?)),
        other => Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
    }
}

/// Parses one value, which may be empty. An array, like the set of several values.
fn parse_value(tokens: &mut Tokens<'_>) -> ParseResult<[String; 1]> {
    if matches!(tokens.peek(), "" | ",") {
        return Ok([String::new()]);
    }
    match tokens.next() {
        word if is_word(word) => Ok([word.to_owned()]),
        other => Err(format!("found '{other}', expected: identifier")),
    }
}

fn parse_values(tokens: &mut Tokens<'_>) -> ParseResult<BTreeSet<String>> {
    let first = tokens.next();
    if first != "(" {
        return Err(format!("found '{first}' expected: '('"));
    }
    let next = tokens.peek();
    if next != "," && next != ")" && !is_word(next) {
        return Err(format!("found '{next}', expected: ',', ')' or identifier"));
    }
    let mut found = BTreeSet::new();
    loop {
        // Between two commas is an empty value.
        let word = if is_word(tokens.peek()) { tokens.next() } else { "" };
        found.insert(word.to_owned());
        match tokens.next() {
            ")" => return Ok(found),
            "," => {}
            other if word.is_empty() => {
                return Err(format!("found '{other}', expected: ',', or identifier"));
            }
            other => return Err(format!("found '{other}', expected: ',' or ')'")),
        }
    }
}

fn parse_bound([value]: [String; 1]) -> ParseResult<i64> {
    value.parse().map_err(|_| {
        format!(
            "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an \
             integer"
        )
    })
}

fn validated_values(key: &str, values: BTreeSet<String>) -> ParseResult<BTreeSet<String>> {
    for (index, value) in values.iter().enumerate() {
        if let Some(rule) = crate::api_types::names::label_value_violation(value) {
            return Err(format!("values[{index}][{key}]: Invalid value: {value:?}: {rule}"));
        }
    }
    Ok(values)
}
