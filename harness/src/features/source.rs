//! A feature's text, checked for what the Gherkin parser lets pass: rows that are too long or
//! too short, media types of doc strings (it would make them text), steps that are misspelt and
//! so become description.

use std::collections::BTreeMap;
use std::sync::Arc;

use gherkin::{Feature, GherkinEnv};

use super::problem::Problems;
use crate::report::Problem;

const KEYWORDS: [&str; 6] = ["Given", "When", "Then", "And", "But", "*"];

/// Words of their own that are one letter away from a keyword.
const WORDS: [&str; 6] = ["The", "They", "Them", "Than", "Thin", "Hen"];

/// A feature's text and where its table rows are.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    /// The text with media types blanked out.
    text: String,
    /// Lines of a table's rows by the line of its first.
    pub(super) tables: Arc<BTreeMap<usize, Vec<usize>>>,
    /// Number of lines.
    pub(super) lines: usize,
}

impl Source {
    /// Reads and checks a text.
    pub(super) fn read(file: &str, text: &str) -> Result<Self, Problems> {
        let mut reader = Reader { file, ..Reader::default() };
        for (index, line) in text.lines().enumerate() {
            reader.line(index + 1, line);
        }
        if let Some((fence, line)) = reader.fence {
            let message = format!("the doc string that begins here is not closed by {fence}");
            reader.problems.push(Problem::new(file, line, message));
        }
        reader.source.tables = Arc::new(reader.tables);
        if reader.problems.is_empty() { Ok(reader.source) } else { Err(Problems(reader.problems)) }
    }

    /// The lines of the rows of the table whose first row is at this line.
    pub(super) fn rows_of_table_at(&self, line: usize) -> &[usize] {
        self.tables.get(&line).map_or(&[], Vec::as_slice)
    }
}

#[derive(Default)]
struct Reader<'a> {
    file: &'a str,
    source: Source,
    tables: BTreeMap<usize, Vec<usize>>,
    problems: Vec<Problem>,
    /// The open doc string: its fence and line.
    fence: Option<(&'static str, usize)>,
    /// The open table: its first line and header.
    table: Option<(usize, Vec<String>)>,
    /// What may stand in the next line.
    part: Part,
}

/// What may stand where the reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Description only: below `Feature:`, `Rule:` and `Examples:`.
    #[default]
    Prose,
    /// Steps or description: right below `Scenario:` and the like.
    Opened,
    /// The same, after a line of description.
    Described,
    /// Steps only.
    Steps,
}

impl Reader<'_> {
    fn line(&mut self, number: usize, line: &str) {
        self.source.lines = number;
        let line = self.checked(number, line);
        self.source.text.push_str(&line);
        self.source.text.push('\n');
    }

    fn checked(&mut self, number: usize, line: &str) -> String {
        let trimmed = line.trim();
        if let Some((fence, _)) = self.fence {
            if trimmed.starts_with(fence) {
                self.fence = None;
            }
            return line.to_owned();
        }
        if let Some(fence) = ["\"\"\"", "```"].into_iter().find(|f| trimmed.starts_with(f)) {
            self.fence = Some((fence, number));
            self.table = None;
            let indent = line.len() - line.trim_start().len();
            return format!("{}{fence}", " ".repeat(indent));
        }
        if trimmed.starts_with('|') {
            self.row(number, trimmed);
        } else if !trimmed.is_empty() && !trimmed.starts_with('#') {
            self.table = None;
            self.words(number, trimmed);
            if let (Part::Steps, Some(step)) = (self.part, trimmed.strip_prefix("* ")) {
                // The parser takes each `*` for a Given, whatever it goes on from.
                return format!("{}And {step}", line.split('*').next().unwrap_or_default());
            }
        }
        line.to_owned()
    }

    /// A line of words: a heading, a step, or description.
    fn words(&mut self, number: usize, line: &str) {
        if line.starts_with('@') {
            self.tags(number, line);
        }
        let begins = |heads: &[&str]| heads.iter().any(|head| line.starts_with(head));
        let word = line.split([' ', ':']).next().unwrap_or_default();
        let outlines = ["Scenario Outline:", "Scenario Template:"];
        if begins(&["Scenario:", "Example:", "Background:"]) || begins(&outlines) {
            self.part = Part::Opened;
        } else if begins(&["Feature:", "Rule:", "Examples:", "Scenarios:", "@"]) {
            self.part = Part::Prose;
        } else if !KEYWORDS.contains(&word) {
            let wrong = self.problems.len();
            self.misspelt(number, (word, line));
            if self.part == Part::Opened && self.problems.len() == wrong {
                self.part = Part::Described;
            }
        } else if self.part != Part::Prose {
            self.part = Part::Steps;
        } else if is_step((word, line)) {
            let message = "this step stands where only description is read; allowed are steps \
                           below Background:, Scenario:, Example: and Scenario Outline:";
            self.problem(number, message.to_owned());
        }
    }

    /// The parser would tell of the line below.
    fn tags(&mut self, number: usize, line: &str) {
        let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
        let is_tag = |word: &str| word.len() > 1 && word.starts_with('@');
        if let Some(word) = words.find(|word| !is_tag(word)) {
            let message = format!("found `{word}` among tags, allowed are words that begin with @");
            self.problem(number, message);
        }
    }

    fn row(&mut self, number: usize, row: &str) {
        let Some(cells) = cells(row) else {
            self.problem(number, format!("this row does not end in `|`: {row}"));
            return;
        };
        let Some((first, header)) = &self.table else {
            self.header(number, cells);
            return;
        };
        self.tables.entry(*first).or_default().push(number);
        if cells.len() != header.len() {
            let message = format!(
                "this row has {} cells, but line {first} gives the table {}: {}",
                cells.len(),
                header.len(),
                header.join(", ")
            );
            self.problem(number, message);
        }
    }

    fn header(&mut self, number: usize, cells: Vec<String>) {
        for (index, cell) in cells.iter().enumerate() {
            if !cell.is_empty() && cells.iter().take(index).any(|earlier| earlier == cell) {
                self.problem(number, format!("the column `{cell}` stands twice in this table"));
            }
        }
        self.tables.insert(number, vec![number]);
        self.table = Some((number, cells));
    }

    /// Description that was meant to be a step would be passed over in silence.
    fn misspelt(&mut self, number: usize, (word, line): (&str, &str)) {
        let same_but_case = KEYWORDS.iter().find(|k| k.eq_ignore_ascii_case(word));
        let close = KEYWORDS.iter().find(|k| k.len() > 3 && one_edit_apart(k, word));
        let Some(keyword) = same_but_case.or(close) else {
            if self.part == Part::Steps {
                let keywords = KEYWORDS.join(", ");
                let message = format!("found `{line}` among steps, allowed are {keywords}");
                self.problem(number, message);
            }
            return;
        };
        // Prose may begin with `The`, and go on with `and` in its next line.
        let is_prose = match same_but_case {
            Some(_) => matches!(self.part, Part::Prose | Part::Described),
            None => WORDS.contains(&word),
        };
        if self.part == Part::Steps || !is_prose || is_step((word, line)) {
            let message = format!(
                "`{word}` is no keyword and would be read as description; did you mean `{keyword}`?"
            );
            self.problem(number, message);
        }
    }

    fn problem(&mut self, number: usize, message: String) {
        self.problems.push(Problem::new(self.file, number, message));
    }
}

/// Whether a line without its first word is a step of the vocabulary.
fn is_step((word, line): (&str, &str)) -> bool {
    line.strip_prefix(word).is_some_and(|rest| crate::vocabulary::says(rest.trim()))
}

fn one_edit_apart(a: &str, b: &str) -> bool {
    crate::vocabulary::edit_distance(a, b) == 1
}

/// The cells of `| a | b |`, or `None` when the last is not closed.
fn cells(row: &str) -> Option<Vec<String>> {
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut escaped = false;
    for c in row.chars().skip(1) {
        match c {
            _ if escaped => {
                cell.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '|' => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            _ => cell.push(c),
        }
    }
    let rest = cell.trim();
    (rest.is_empty() || rest.starts_with('#')).then_some(cells)
}

/// Parses the checked text.
pub(super) fn parse(file: &str, source: &Source) -> Result<Feature, Problems> {
    Feature::parse(&source.text, GherkinEnv::default()).map_err(|error| {
        if source.text.trim().is_empty() {
            let message = "found an empty file, a feature begins with `Feature:` and its name";
            return Problems::one(file, 0, message.to_owned());
        }
        if !source.text.lines().any(|line| line.trim_start().starts_with("Feature:")) {
            let message = "found no `Feature:`, a feature begins with it and its name";
            return Problems::one(file, 1, message.to_owned());
        }
        let (line, column) = position(&error.to_string());
        let found = source.text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim();
        let message = format!(
            "column {column}: not understood: `{found}`; allowed here are Feature:, Rule:, \
             Background:, Scenario:, Example:, Scenario Outline:, Examples:, @tags, steps ({}), \
             tables and doc strings",
            KEYWORDS.join(", ")
        );
        Problems::one(file, line, message)
    })
}

/// The parser tells its position only in its text, `Error at LINE:COLUMN: …`.
fn position(text: &str) -> (usize, usize) {
    let mut numbers = text.split([' ', ':']).filter_map(|word| word.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn problems(text: &str) -> String {
        Source::read("a.feature", text).map_or_else(|e| e.to_string(), |_| String::new())
    }

    #[test]
    fn a_short_and_a_long_row_are_refused_with_their_line() {
        assert_snapshot!(
            problems("Given queues\n| queue | quota |\n| a |\n# note\n| b | 1 | 2 |\n"),
            @r"
        a.feature:3: this row has 1 cells, but line 2 gives the table 2: queue, quota
        a.feature:5: this row has 3 cells, but line 2 gives the table 2: queue, quota
        "
        );
    }

    #[test]
    fn an_escaped_bar_does_not_end_a_cell() {
        assert_eq!(problems("| a | b |\n| 1 \\| 2 | 3 |\n"), "");
    }

    #[test]
    fn an_open_row_an_open_doc_string_and_a_double_column_are_refused() {
        assert_snapshot!(problems("| a | a |\n| 1\n\"\"\"yaml\nx\n"), @r#"
        a.feature:1: the column `a` stands twice in this table
        a.feature:2: this row does not end in `|`: | 1
        a.feature:3: the doc string that begins here is not closed by """
        "#);
    }

    #[test]
    fn a_misspelt_keyword_is_not_swallowed_as_description() {
        assert_snapshot!(
            problems("Scenario: x\n  Gven a fleet\n  given a fleet\n"),
            @r"
        a.feature:2: `Gven` is no keyword and would be read as description; did you mean `Given`?
        a.feature:3: `given` is no keyword and would be read as description; did you mean `Given`?
        "
        );
    }

    #[test]
    fn prose_may_begin_with_the_and_go_on_with_and() {
        let text = "Feature: x\n  The owner comes back\n  and takes its share. Given time,\n  \
                    when it likes.\n  Given enough of it.\n  Scenario: x\n    The others leave,\n    \
                    then rest.\n    Given a fleet of 1 node with 8 GPUs each\n";
        assert_eq!(problems(text), "");
    }

    #[test]
    fn a_star_goes_on_with_the_step_before_it_and_an_example_is_a_scenario() {
        let text = "Feature: f\n  Example: s\n    * a\n    Then b\n    * c * d\n    \"\"\"\n    \
                    * e\n    \"\"\"\n";
        let source = Source::read("a.feature", text).unwrap();
        let feature = parse("a.feature", &source).unwrap();
        let told = |step: &gherkin::Step| format!("{:?} {}", step.ty, step.value);
        let steps: Vec<String> = feature.scenarios[0].steps.iter().map(told).collect();
        assert_eq!(steps, ["Given a", "Then b", "Then c * d"]);
        let text = feature.scenarios[0].steps[2].docstring.clone().unwrap();
        assert_eq!(text.trim(), "* e");
    }

    #[test]
    fn a_word_among_tags_is_told_where_it_stands() {
        let text = |tags: &str| format!("{tags}\nFeature: f\n  Scenario: s\n    Given a\n");
        assert_snapshot!(problems(&text("@a b")), @"a.feature:1: found `b` among tags, allowed are words that begin with @");
        assert_snapshot!(problems(&text("@a @")), @"a.feature:1: found `@` among tags, allowed are words that begin with @");
        assert_eq!(problems(&text("@a  @b # c d")), "");
    }

    #[test]
    fn a_step_that_would_be_read_as_description_is_refused() {
        assert_snapshot!(problems("Feature: x
  Given a fleet of 1 node with 8 GPUs each
  Scenario: x
    The nodes are many.
    The a fleet of 1 node with 8 GPUs each
    and the scheduler is restarted
    Given a fleet of 1 node with 8 GPUs each
    The owner comes
"), @r"
        a.feature:2: this step stands where only description is read; allowed are steps below Background:, Scenario:, Example: and Scenario Outline:
        a.feature:5: `The` is no keyword and would be read as description; did you mean `Then`?
        a.feature:6: `and` is no keyword and would be read as description; did you mean `And`?
        a.feature:8: `The` is no keyword and would be read as description; did you mean `Then`?
        ");
    }

    #[test]
    fn the_media_type_of_a_doc_string_is_not_part_of_its_text() {
        let text = "Feature: f\n  Scenario: s\n    Given the manifest\n      \"\"\"yaml\n      a: 1\n      \"\"\"\n";
        let source = Source::read("a.feature", text).unwrap();
        let feature = parse("a.feature", &source).unwrap();
        let docstring = feature.scenarios[0].steps[0].docstring.clone().unwrap();
        assert_eq!(docstring.trim(), "a: 1");
    }
}
