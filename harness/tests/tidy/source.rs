//! Rust source files with comments and strings blanked out, their functions, and the modules of the
//! crate that they import.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A source file of a crate.
pub(crate) struct Source {
    /// Relative to the repository.
    pub(crate) path: PathBuf,
    pub(crate) lines: usize,
    /// Comments and strings are replaced by spaces; line breaks stay.
    pub(crate) code: String,
}

/// A function with its first line and the number of non-empty lines between its braces.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// A function's name, its line, and the code after the name.
pub(crate) struct Declaration<'s> {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) rest: &'s str,
}

/// Every Rust source below a folder.
pub(crate) fn sources(root: &Path, folder: &str) -> Vec<Source> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a source can be read");
        Source {
            path: path.strip_prefix(root).expect("the path is below the root").to_owned(),
            lines: text.lines().count(),
            code: blank_comments_and_strings(&text),
        }
    };
    let files = files(&root.join(folder)).into_iter();
    files.filter(|path| path.extension().is_some_and(|end| end == "rs")).map(read).collect()
}

/// Every file below a folder, sorted; empty if the folder does not exist.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(files(&path));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    found
}

impl Source {
    /// The code before the inline module `tests`.
    pub(crate) fn non_test_code(&self) -> &str {
        let tests = self.code.find("#[cfg(test)]\nmod tests {");
        self.code
            .get(..tests.unwrap_or(self.code.len()))
            .expect("find returns a character boundary")
    }

    /// Modules declared as `#[cfg(test)] mod name;`.
    pub(crate) fn test_modules(&self) -> Vec<String> {
        let after = self.code.split("#[cfg(test)]").skip(1);
        let declared = after.filter_map(|code| {
            let line = code.trim_start().lines().next()?;
            let name = line.split_once("mod ")?.1.strip_suffix(';')?;
            Some(name.to_owned())
        });
        declared.collect()
    }

    /// Top-level modules of the crate that [`Self::non_test_code`] names as `crate::name`.
    pub(crate) fn imported_modules(&self) -> Vec<String> {
        let mut named: Vec<String> =
            self.non_test_code().split("crate::").skip(1).flat_map(first_names).collect();
        named.sort();
        named.dedup();
        named
    }

    /// Every function, with or without a body.
    pub(crate) fn declarations(&self) -> impl Iterator<Item = Declaration<'_>> {
        self.code.match_indices("fn ").filter_map(|(at, keyword)| {
            let (before, from) = self.code.split_at(at);
            let is_keyword = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let signature = from.split_at(keyword.len()).1;
            let name = ident(signature);
            let rest = signature.strip_prefix(name.as_str())?;
            let is_declaration = is_keyword && !name.is_empty();
            is_declaration.then(|| Declaration { name, line: before.lines().count(), rest })
        })
    }

    pub(crate) fn functions(&self) -> Vec<Function> {
        let declarations = self.declarations();
        let with_body = declarations.filter_map(|Declaration { name, line, rest }| {
            let lines = body(rest)?.lines().filter(|line| !line.trim().is_empty()).count();
            Some(Function { name, line, lines })
        });
        with_body.collect()
    }
}

/// `a` of `a::b`, and `a` and `b` of `{a::x, b}`.
fn first_names(code: &str) -> Vec<String> {
    let Some(group) = code.strip_prefix('{') else { return vec![ident(code)] };
    let mut depth = 0_u32;
    let mut names = vec![ident(group)];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(ident(group.split_at(at + 1).1)),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn ident(code: &str) -> String {
    code.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The text between a function's braces; `None` for a declaration without a body.
fn body(code: &str) -> Option<&str> {
    let (mut braces, mut brackets, mut start) = (0_u32, 0_i32, 0);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if braces == 0 && brackets == 0 => return None,
            '{' => {
                braces += 1;
                start = if braces == 1 { at + 1 } else { start };
            }
            '}' if braces == 1 => return code.get(start..at),
            '}' => braces = braces.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// The source with comments, strings and character literals replaced by spaces.
fn blank_comments_and_strings(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let (hidden, shown) = match opaque_len(rest, code.chars().next_back()) {
            0 => (0, first.len_utf8()),
            hidden => (hidden, 0),
        };
        let (head, tail) = rest.split_at(hidden + shown);
        if hidden > 0 {
            code.extend(head.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            code.push_str(head);
        }
        rest = tail;
    }
    code
}

/// Length in bytes of the comment, string or character literal at the start of `code`; 0 if there
/// is none. `before` is the character in front of it.
fn opaque_len(code: &str, before: Option<char>) -> usize {
    let until = |end: &str, from: usize| {
        let tail = code.get(from..).unwrap_or_default();
        tail.find(end).map_or(code.len(), |at| from + at + end.len())
    };
    if code.starts_with("//") {
        return code.find('\n').unwrap_or(code.len());
    }
    if code.starts_with("/*") {
        return until("*/", 2);
    }
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if code.starts_with('r') && !in_word {
        let hashes = code.chars().skip(1).take_while(|c| *c == '#').count();
        if code.chars().nth(1 + hashes) == Some('"') {
            return until(&format!("\"{}", "#".repeat(hashes)), hashes + 2);
        }
    }
    match code.chars().next() {
        Some('"') => quoted_len(code, '"'),
        Some('\'') => char_literal_len(code),
        _ => 0,
    }
}

fn quoted_len(code: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in code.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    code.len()
}

/// Length of a character literal such as `'x'` or `'\n'`; 0 for the lifetime `'x`.
fn char_literal_len(code: &str) -> usize {
    let mut chars = code.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted_len(code, '\''),
        _ => 0,
    }
}
