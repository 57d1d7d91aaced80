//! Finds functions with an anonymous tuple as a parameter.

use crate::source::{Declaration, Source};

/// Every function of a source file that takes a tuple. Closures are exempt, as iterators call them
/// with tuples.
pub(crate) fn tuple_parameters(source: &Source) -> impl Iterator<Item = Declaration<'_>> {
    source.declarations().filter(|declaration| {
        let list = declaration.rest.get(generics_len(declaration.rest)..).unwrap_or_default();
        parameters(list).into_iter().any(is_tuple)
    })
}

/// Length of the generic parameters `<…>` at the start of `code`; 0 if there are none.
fn generics_len(code: &str) -> usize {
    if !code.starts_with('<') {
        return 0;
    }
    let mut depth = 0_u32;
    let mut previous = ' ';
    for (at, c) in code.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if previous != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
        previous = c;
    }
    0
}

/// The parameters of the list in parentheses at the start of `code`.
fn parameters(code: &str) -> Vec<&str> {
    let Some(list) = code.strip_prefix('(') else { return Vec::new() };
    let (mut found, mut depth, mut start, mut previous) = (Vec::new(), 0_u32, 0, ' ');
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' if depth == 0 => {
                found.push(list.get(start..at).unwrap_or_default());
                return found;
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '>' if previous != '-' && previous != '=' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(list.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
        previous = c;
    }
    Vec::new()
}

/// Whether the pattern of a parameter or its type, references ignored, is a tuple other than `()`.
fn is_tuple(parameter: &str) -> bool {
    let kind = parameter.replace("::", "  ");
    let kind = kind.split_once(':').map_or("", |(_, kind)| kind).trim_start();
    let kind = kind.trim_start_matches('&').trim_start();
    let kind = match kind.strip_prefix('\'') {
        Some(lifetime) => lifetime.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
        None => kind,
    };
    let kind = kind.trim_start().trim_start_matches("mut ").trim_start();
    // `(dyn Error)` is a type in parentheses; a tuple has a comma.
    let Some(inner) = kind.strip_prefix('(') else { return false };
    let mut depth = 0_i32;
    for c in inner.chars() {
        match c {
            '(' | '<' | '[' => depth += 1,
            ')' if depth == 0 => return false,
            ')' | '>' | ']' => depth -= 1,
            ',' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}
