//! Completion indexes in the format of the API: `0,2-4`.

use std::collections::BTreeSet;
use std::fmt::Write;

/// Parses a list of indexes such as `1,3-5`. Malformed parts are ignored.
pub(super) fn parse_indexes(text: &str) -> BTreeSet<i64> {
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
            // The maximum number of indexes of a job.
            all.extend(first..=last.min(first.saturating_add(100_000)));
        }
    }
    all
}

/// Formats indexes as a list such as `1,3-5`: three or more consecutive indexes as a range.
pub(super) fn format_indexes(all: &BTreeSet<i64>) -> String {
    let mut text = String::new();
    let mut indexes = all.iter().copied().peekable();
    while let Some(first) = indexes.next() {
        let mut last = first;
        while indexes.next_if_eq(&(last + 1)).is_some() {
            last += 1;
        }
        let comma = if text.is_empty() { "" } else { "," };
        let written = match last - first {
            0 => write!(text, "{comma}{first}"),
            1 => write!(text, "{comma}{first},{last}"),
            _ => write!(text, "{comma}{first}-{last}"),
        };
        written.expect("writing to a string does not fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{format_indexes, parse_indexes};

    #[test]
    fn indexes_in_a_row_are_written_as_ranges_and_read_back() {
        for text in ["", "0", "0,1", "0-2", "1,3-5,7", "0,2,4"] {
            assert_eq!(format_indexes(&parse_indexes(text)), text);
        }
    }

    #[test]
    fn malformed_indexes_are_passed_over() {
        assert_eq!(format_indexes(&parse_indexes("1,x,3-,-4,5")), "1,5");
    }
}
