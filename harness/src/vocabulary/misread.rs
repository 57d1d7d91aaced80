//! A sentence whose words are those of a step, and of whose values one is none.

use cucumber::codegen::Regex;

use crate::steps::ALLOWED;

/// A part of a pattern.
#[derive(Clone, Copy, Debug)]
enum Part<'p> {
    /// A value, by its kind.
    Value(&'p str),
    /// Words between values.
    Words(&'p str),
}

/// What was found for the value that is none, and what is allowed: the first of them, if all else
/// is as the pattern wants it.
pub(super) fn value(text: &str, pattern: &str) -> Option<String> {
    let parts = parts(pattern);
    let values = parts.iter().enumerate().filter_map(|(at, part)| match part {
        Part::Value(name) => Some((at, *name)),
        Part::Words(_) => None,
    });
    for (at, name) in values {
        let allowed = ALLOWED.iter().find(|allowed| allowed.name == name)?;
        let found = found_at(text, &parts, at);
        if let Some(found) = found.as_deref().map(str::trim).filter(|found| !found.is_empty()) {
            let words = allowed.words;
            return Some(format!("found `{found}` for {{{name}}}, allowed is {words}"));
        }
    }
    None
}

fn parts(pattern: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some((words, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        parts.extend([Part::Words(words), Part::Value(name)]);
        rest = after;
    }
    parts.push(Part::Words(rest));
    parts
}

/// What stands where the value at this position should be.
fn found_at(text: &str, parts: &[Part<'_>], any: usize) -> Option<String> {
    let part = |(at, part): (usize, &Part<'_>)| match part {
        Part::Value(_) if at == any => "(.+)".to_owned(),
        Part::Value(name) => {
            let known = ALLOWED.iter().find(|allowed| allowed.name == *name);
            format!("(?:{})", known.map_or(".+", |allowed| allowed.regex))
        }
        Part::Words(words) => said(words),
    };
    let regex: String = parts.iter().enumerate().map(part).collect();
    let captures = Regex::new(&format!("^{regex}$")).ok()?.captures(text)?;
    Some(captures.get(1)?.as_str().to_owned())
}

/// Words as a regular expression: `(s)` may be left out, of `is/are` one is said.
fn said(words: &str) -> String {
    let word = |word: &str| {
        let either = word
            .split('/')
            .map(|one| regex::escape(one).replace("\\(", "(?:").replace("\\)", ")?"));
        format!("(?:{})", either.collect::<Vec<_>>().join("|"))
    };
    words.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
