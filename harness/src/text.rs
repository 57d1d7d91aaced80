//! Text files of users: what cannot be read is told with the line at which it stops being text.

mod duration;

use std::path::Path;

pub(crate) use duration::{DURATION, as_go_writes, duration, written};

/// Why a file's text cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What was found.
    pub found: String,
}

const ALLOWED: &str = "UTF-8 text";

impl Unreadable {
    /// With the file's name in front.
    pub fn of(&self, file: &str) -> String {
        match self.line {
            0 => format!("{file}: {}", self.message()),
            line => format!("{file}:{line}: {}", self.message()),
        }
    }

    /// What was found and what is allowed.
    pub fn message(&self) -> String {
        match self.line {
            0 => self.found.clone(),
            _ => format!("found {}, allowed is {ALLOWED}", self.found),
        }
    }
}

/// The text of a file, without the byte order mark that editors of some systems begin it with.
pub fn read(path: &Path) -> Result<String, Unreadable> {
    let bytes =
        std::fs::read(path).map_err(|error| Unreadable { line: 0, found: error.to_string() })?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) => Err(no_text(error.as_bytes(), error.utf8_error().valid_up_to())),
    }
}

fn no_text(bytes: &[u8], bad: usize) -> Unreadable {
    let (before, rest) = bytes.split_at(bad);
    let line = before.split(|byte| *byte == b'\n').count();
    let column = 1 + before.rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
    let byte = rest.first().copied().unwrap_or_default();
    Unreadable { line, found: format!("the byte 0x{byte:02x} at byte {column} of the line") }
}

/// A word for a shell.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_split_or_read_it() {
        assert_eq!(shell_word("features/a.feature:5"), "features/a.feature:5");
        assert_eq!(shell_word("my features/a.feature:5"), "'my features/a.feature:5'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }

    #[test]
    fn the_line_of_the_first_byte_that_is_no_text_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read(&path).unwrap_or_else(|error| error.of("f"))
        };
        assert_eq!(read("\u{feff}é".as_bytes()), "é");
        assert_eq!(
            read(b"one\ntwo \xff\n"),
            "f:2: found the byte 0xff at byte 5 of the line, allowed is UTF-8 text"
        );
        assert!(super::read(folder.path()).unwrap_err().of("d").starts_with("d: "));
    }
}
