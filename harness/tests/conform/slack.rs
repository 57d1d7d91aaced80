//! Numbers that may differ: a scenario that passes with another number there is right.
//!
//! A mark is a comment directly above a step: `# slack: 32` for a number of the sentence,
//! `# slack: quota 32` for cells of a column, `# slack: quota` for all cells of the column. Several
//! are separated by commas, and words in parentheses explain them.

use std::collections::BTreeMap;
use std::path::Path;

use super::numbers::NumberSite;

/// The marks of feature files.
pub(crate) struct SlackMarks(BTreeMap<(String, usize), Vec<SlackMark>>);

struct SlackMark {
    column: Option<String>,
    number: Option<String>,
    /// Whether a case passed though a number that the mark covers was changed.
    is_needed: bool,
}

impl SlackMarks {
    /// Reads the marks of these files.
    pub(crate) fn read<'p>(files: impl Iterator<Item = &'p Path>) -> Self {
        let mut marks = BTreeMap::new();
        for path in files {
            let text = std::fs::read_to_string(path).expect("the feature was loaded before");
            let file = path.to_string_lossy();
            let found = marks_by_line(&text).into_iter();
            marks.extend(found.map(|(line, marks)| ((file.clone().into_owned(), line), marks)));
        }
        Self(marks)
    }

    /// Whether a mark covers a number. `fails` is whether the case failed with another number.
    pub(crate) fn covers(&mut self, file: &str, site: &NumberSite, fails: bool) -> bool {
        let marks = self.0.get_mut(&(file.to_owned(), site.line));
        let mut is_covered = false;
        for mark in marks.into_iter().flatten() {
            let same_number = mark.number.as_ref().is_none_or(|number| *number == site.number);
            if mark.column == site.column && same_number {
                is_covered = true;
                mark.is_needed |= !fails;
            }
        }
        is_covered
    }

    /// Marks that cover no number with which a case passes.
    pub(crate) fn needless(&self) -> Vec<String> {
        let all =
            self.0.iter().flat_map(|(place, marks)| marks.iter().map(move |mark| (place, mark)));
        let needless = all.filter(|(_, mark)| !mark.is_needed);
        let line = |((file, line), mark): (&(String, usize), &SlackMark)| {
            let words = [mark.column.as_deref(), mark.number.as_deref()];
            let words: Vec<&str> = words.into_iter().flatten().collect();
            format!("{file}:{line}: slack: {}", words.join(" "))
        };
        needless.map(line).collect()
    }
}

/// The marks of one file, by the number of the line below them.
fn marks_by_line(text: &str) -> BTreeMap<usize, Vec<SlackMark>> {
    let mut marks = BTreeMap::new();
    let mut above: Vec<SlackMark> = Vec::new();
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        if let Some(comment) = line.strip_prefix('#') {
            let listed = comment.trim().strip_prefix("slack:");
            above.extend(listed.map(parse_marks).into_iter().flatten());
        } else if !above.is_empty() {
            marks.insert(number, std::mem::take(&mut above));
        }
    }
    marks
}

fn parse_marks(text: &str) -> Vec<SlackMark> {
    let listed = text.split('(').next().unwrap_or_default();
    listed.split(',').map(str::trim).filter(|mark| !mark.is_empty()).map(parse_mark).collect()
}

fn parse_mark(mark: &str) -> SlackMark {
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit());
    let (column, number) = match mark.rsplit_once(' ') {
        Some((column, number)) if is_number(number) => (Some(column), Some(number)),
        None if is_number(mark) => (None, Some(mark)),
        Some(_) | None => (Some(mark), None),
    };
    SlackMark {
        column: column.map(str::to_owned),
        number: number.map(str::to_owned),
        is_needed: false,
    }
}

#[test]
fn a_mark_names_a_number_a_column_or_both() {
    let parsed = |text: &str| -> Vec<(Option<String>, Option<String>)> {
        parse_marks(text).into_iter().map(|mark| (mark.column, mark.number)).collect()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        parsed(" 32, cpu limit 6, weight (any that is enough, such as 33)"),
        [(None, some("32")), (some("cpu limit"), some("6")), (some("weight"), None)]
    );
}
