//! Text files of users: read errors name the line with the first invalid byte. Also shell quoting,
//! the duration syntax, and the nearest known word to a misspelt one.

mod duration;

use std::collections::BTreeSet;
use std::path::Path;

pub use duration::parse_duration;
pub(crate) use duration::{DURATION_REGEX, go_duration_text, normalize_go_duration};

/// Why a text file cannot be read: an error of the file system, or text that is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFileError {
    /// Line number, counted from 1; 0 means the whole file.
    pub line: usize,
    /// What was found in the file, or the error of the file system.
    pub found: String,
}

const EXPECTED_UTF8_TEXT: &str = "UTF-8 text";

impl TextFileError {
    /// The message, beginning with the name of the file.
    pub fn message_with_file(&self, file: &str) -> String {
        match self.line {
            0 => format!("{file}: {}", self.message_without_file()),
            line => format!("{file}:{line}: {}", self.message_without_file()),
        }
    }

    /// The message without the name of the file.
    pub fn message_without_file(&self) -> String {
        match self.line {
            0 => self.found.clone(),
            _ => format!("got {}, expected {EXPECTED_UTF8_TEXT}", self.found),
        }
    }
}

/// Reads a text file. A byte order mark at its beginning is left out.
///
/// # Errors
/// The file cannot be read or is not UTF-8.
pub fn read_text_file(path: &Path) -> Result<String, TextFileError> {
    let bytes =
        std::fs::read(path).map_err(|error| TextFileError { line: 0, found: error.to_string() })?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) => Err(invalid_utf8_error(error.as_bytes(), error.utf8_error().valid_up_to())),
    }
}

fn invalid_utf8_error(bytes: &[u8], first_bad_byte: usize) -> TextFileError {
    let (before, rest) = bytes.split_at(first_bad_byte);
    let line = before.split(|byte| *byte == b'\n').count();
    let column = 1 + before.rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
    let byte = rest.first().copied().unwrap_or_default();
    TextFileError { line, found: format!("the byte 0x{byte:02x} at byte {column} of the line") }
}

/// A number with its noun: `1 pod`, `2 pods`, `3 crashes`.
pub fn counted_noun(count: usize, noun: &str) -> String {
    let ending = match count {
        1 => "",
        _ if ["s", "x", "ch", "sh"].iter().any(|sibilant| noun.ends_with(sibilant)) => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

/// The known word that a misspelt word most likely means; `None` when no word is near. Case does
/// not count, and neither do words that differ in a digit only, such as `node-1` and `node-2`.
pub fn nearest_word<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let lower = word.to_lowercase();
    let without_digits = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    let allowed = match lower.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    };
    let distances = known.into_iter().map(|near| {
        let near_lower = near.to_lowercase();
        let differs_in_digits = without_digits(&near_lower) == without_digits(&lower);
        let other_number = differs_in_digits && near_lower != lower;
        (if other_number { usize::MAX } else { strsim::osa_distance(&near_lower, &lower) }, near)
    });
    let near = distances.filter(|(distance, near)| *distance <= allowed && *near != word);
    near.min_by_key(|(distance, _)| *distance).map(|(_, near)| near)
}

/// The suffix `; did you mean `x`?` with the known word nearest to `word`; empty if no word is
/// near.
pub fn did_you_mean_suffix<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest_word(word, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// Maximum number of names that a message lists.
const NAMES_MAX: usize = 12;

/// A list of the first names in alphabetical order, each once: `a, b, …`; `none` if there is no
/// name.
pub(crate) fn shortened_name_list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let sorted: BTreeSet<&str> = names.into_iter().collect();
    let more = if sorted.len() > NAMES_MAX { ", …" } else { "" };
    let first: Vec<&str> = sorted.into_iter().take(NAMES_MAX).collect();
    if first.is_empty() { "none".to_owned() } else { format!("{}{more}", first.join(", ")) }
}

/// Quotes a word for a shell, if necessary.
pub fn shell_quoted_word(word: &str) -> String {
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
    fn a_long_list_of_names_is_cut() {
        assert_eq!(shortened_name_list([]), "none");
        assert_eq!(shortened_name_list(["b", "a", "b"]), "a, b");
        let many: Vec<String> = (10..23).map(|at| format!("n{at}")).collect();
        assert!(shortened_name_list(many.iter().map(String::as_str)).ends_with("n20, n21, …"));
    }

    #[test]
    fn a_word_is_quoted_when_a_shell_would_split_or_expand_it() {
        assert_eq!(shell_quoted_word("features/a.feature:5"), "features/a.feature:5");
        assert_eq!(shell_quoted_word("my features/a.feature:5"), "'my features/a.feature:5'");
        assert_eq!(shell_quoted_word("it's"), r"'it'\''s'");
    }

    #[test]
    fn a_noun_agrees_with_its_number() {
        let words: Vec<String> = [0, 1, 2].map(|count| counted_noun(count, "pod")).into();
        assert_eq!(words, ["0 pods", "1 pod", "2 pods"]);
        assert_eq!(counted_noun(2, "crash"), "2 crashes");
    }

    #[test]
    fn the_nearest_word_allows_two_letters_in_long_words_and_none_in_short_ones() {
        let known = ["team-a", "prod", "node-1", "db"];
        let near = ["taem-a", "Prod", "prdo", "porduct", "node-2", "da", "team-a"];
        assert_eq!(
            near.map(|word| nearest_word(word, known)),
            [Some("team-a"), Some("prod"), Some("prod"), None, None, None, None]
        );
        assert_eq!(did_you_mean_suffix("tem-a", known), "; did you mean `team-a`?");
        assert_eq!(did_you_mean_suffix("else", known), "");
    }

    #[test]
    fn invalid_utf8_is_reported_with_its_line_and_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read_text_file(&path).unwrap_or_else(|error| error.message_with_file("f"))
        };
        assert_eq!(read("\u{feff}é".as_bytes()), "é");
        assert_eq!(
            read(b"one\ntwo \xff\n"),
            "f:2: got the byte 0xff at byte 5 of the line, expected UTF-8 text"
        );
        assert!(
            read_text_file(folder.path()).unwrap_err().message_with_file("d").starts_with("d: ")
        );
    }
}
