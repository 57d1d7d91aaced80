//! A feature's text with checks that the Gherkin parser omits: rows with too many or too few cells,
//! and misspelt steps, which the parser would read as description. Doc strings lose their media
//! type, which the parser would make part of the text.

use std::collections::BTreeMap;
use std::sync::Arc;

use gherkin::{Feature, GherkinEnv};

use super::StepCheck;
use super::keywords::{
    LineSurroundings, MisspeltHeading, STEP_KEYWORDS, is_gherkin_line, misspelt_heading,
};
use super::requirements::misspelt_tag;
use crate::report::{Diagnostic, Diagnostics};
use crate::text::counted_noun;

/// English words that are one letter away from a step keyword but may begin a line of description.
const PROSE_WORDS_LIKE_KEYWORDS: [&str; 6] = ["The", "They", "Them", "Than", "Thin", "Hen"];

/// The text of a feature file, and the lines of its table rows.
#[derive(Clone, Debug, Default)]
pub(super) struct FeatureSource {
    /// The text of the file, without the media types of doc strings.
    text: String,
    /// Line numbers of the rows of each table, by the line of the table's first row.
    pub(super) tables: Arc<BTreeMap<usize, Vec<usize>>>,
    /// Number of lines of the file.
    pub(super) lines: usize,
}

impl FeatureSource {
    /// Reads the text of a feature file and checks its lines.
    pub(super) fn parse(file: &str, text: &str, is_step: StepCheck) -> Result<Self, Diagnostics> {
        let mut reader = SourceReader::new(file, is_step);
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            reader.next = first_content_line(&lines[index + 1..]);
            reader.read_line(index + 1, line);
        }
        if let Some((fence, line)) = reader.fence {
            let message = format!("the doc string that begins here is not closed by {fence}");
            reader.problems.push(Diagnostic::new(file, line, message));
        }
        reader.source.tables = Arc::new(reader.tables);
        if reader.problems.is_empty() {
            Ok(reader.source)
        } else {
            Err(Diagnostics(reader.problems))
        }
    }

    /// The line numbers of the rows of the table whose first row is at `line`.
    pub(super) fn rows_of_table_at(&self, line: usize) -> &[usize] {
        self.tables.get(&line).map_or(&[], Vec::as_slice)
    }
}

struct SourceReader<'a> {
    file: &'a str,
    is_step: StepCheck,
    source: FeatureSource,
    tables: BTreeMap<usize, Vec<usize>>,
    problems: Vec<Diagnostic>,
    /// The open doc string: its fence and its first line.
    fence: Option<(&'static str, usize)>,
    /// The open table: its first line and its header.
    table: Option<(usize, Vec<String>)>,
    /// The next line that is neither empty nor a comment.
    next: &'a str,
    /// What the next line of the file may contain.
    context: LineContext,
}

/// What the current line may contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LineContext {
    /// Description only: below `Feature:`, `Rule:` and `Examples:`.
    #[default]
    Prose,
    /// Steps or description: directly below `Scenario:` and the like.
    Opened,
    /// Steps or description, after a line of description.
    Described,
    /// Steps only: a step came before.
    Steps,
}

impl<'a> SourceReader<'a> {
    fn new(file: &'a str, is_step: StepCheck) -> Self {
        Self {
            file,
            is_step,
            source: FeatureSource::default(),
            tables: BTreeMap::new(),
            problems: Vec::new(),
            fence: None,
            table: None,
            next: "",
            context: LineContext::default(),
        }
    }
}

impl SourceReader<'_> {
    fn read_line(&mut self, number: usize, line: &str) {
        self.source.lines = number;
        let line = self.checked_line(number, line);
        self.source.text.push_str(&line);
        self.source.text.push('\n');
    }

    fn checked_line(&mut self, number: usize, line: &str) -> String {
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
            self.read_table_row(number, trimmed);
        } else if !trimmed.is_empty() && !trimmed.starts_with('#') {
            self.table = None;
            self.check_line(number, trimmed);
            if let (LineContext::Steps, Some(step)) = (self.context, trimmed.strip_prefix("* ")) {
                // The parser treats each `*` as a Given, whatever keyword it continues.
                return format!("{}And {step}", line.split('*').next().unwrap_or_default());
            }
        }
        line.to_owned()
    }

    /// Checks a line that is a heading, a step or description.
    fn check_line(&mut self, number: usize, line: &str) {
        if line.starts_with('@') {
            self.check_tags(number, line);
        }
        let begins = |heads: &[&str]| heads.iter().any(|head| line.starts_with(head));
        let word = first_word(line);
        let outlines = ["Scenario Outline:", "Scenario Template:"];
        if begins(&["Scenario:", "Example:", "Background:"]) || begins(&outlines) {
            self.context = LineContext::Opened;
        } else if begins(&["Feature:", "Rule:", "Examples:", "Scenarios:", "@"]) {
            self.context = LineContext::Prose;
        } else if !STEP_KEYWORDS.contains(&word) && self.handle_misspelt_heading(number, line) {
            // It was reported; the lines below it are read as if it were right.
        } else if !STEP_KEYWORDS.contains(&word) {
            let wrong = self.problems.len();
            self.check_keyword_spelling(number, line);
            if self.context == LineContext::Opened && self.problems.len() == wrong {
                self.context = LineContext::Described;
            }
        } else if self.context != LineContext::Prose {
            self.context = LineContext::Steps;
        } else if self.is_step_line(line) {
            let message = "this step is in a description and would be ignored; expected steps \
                below Background:, Scenario:, Example: and Scenario Outline:";
            self.add_problem(number, message.to_owned());
        }
    }

    /// Reports a misspelt heading, which would silently become description. Returns whether there
    /// was one.
    fn handle_misspelt_heading(&mut self, number: usize, line: &str) -> bool {
        let between_steps = self.context == LineContext::Steps || is_gherkin_line(self.next);
        let surroundings =
            if between_steps { LineSurroundings::Gherkin } else { LineSurroundings::Prose };
        let Some(MisspeltHeading { found, meant }) = misspelt_heading(line, surroundings) else {
            return false;
        };
        let message = format!(
            "`{found}` is not a keyword and would be read as description; did you mean `{meant}:`?"
        );
        self.add_problem(number, message);
        self.context = match meant {
            "Feature" | "Rule" | "Examples" | "Scenarios" => LineContext::Prose,
            _ => LineContext::Opened,
        };
        true
    }

    /// Checks a line of tags. The parser would report an error in it at the line below.
    fn check_tags(&mut self, number: usize, line: &str) {
        let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
        if let Some(message) = words.find_map(tag_problem) {
            self.add_problem(number, message);
        }
    }

    fn read_table_row(&mut self, number: usize, row: &str) {
        let Some(cells) = table_cells(row) else {
            self.add_problem(number, format!("this row does not end in `|`: {row}"));
            return;
        };
        let Some((first, header)) = &self.table else {
            self.start_table(number, cells);
            return;
        };
        self.tables.entry(*first).or_default().push(number);
        if cells.len() != header.len() {
            let message = format!(
                "got {} in this row, expected {} as in line {first}: {}",
                counted_noun(cells.len(), "cell"),
                header.len(),
                header.join(", ")
            );
            self.add_problem(number, message);
        }
    }

    fn start_table(&mut self, number: usize, cells: Vec<String>) {
        for (index, cell) in cells.iter().enumerate() {
            if !cell.is_empty() && cells.iter().take(index).any(|earlier| earlier == cell) {
                self.add_problem(number, format!("duplicate column `{cell}` in this table"));
            }
        }
        self.tables.insert(number, vec![number]);
        self.table = Some((number, cells));
    }

    /// Reports a misspelt step keyword, since the step would silently become description.
    fn check_keyword_spelling(&mut self, number: usize, line: &str) {
        let word = first_word(line);
        let same_but_case = STEP_KEYWORDS.iter().find(|k| k.eq_ignore_ascii_case(word));
        let near = |distance: usize, length: usize| {
            let mut long = STEP_KEYWORDS.iter().filter(|keyword| keyword.len() >= length);
            long.find(|keyword| strsim::osa_distance(keyword, word) == distance)
        };
        // The rest of the line is a step, so its first word is a keyword, however misspelt.
        let before_step = || near(1, 3).or_else(|| near(2, 4)).filter(|_| self.is_step_line(line));
        let Some(keyword) = same_but_case.or_else(|| near(1, 4)).or_else(before_step) else {
            if self.context == LineContext::Steps {
                let keywords = STEP_KEYWORDS.join(", ");
                let message = format!("got `{line}` among steps, expected {keywords}");
                self.add_problem(number, message);
            }
            return;
        };
        // Prose may begin with `The`, and continue with `and` in its next line.
        let is_prose = match same_but_case {
            Some(_) => matches!(self.context, LineContext::Prose | LineContext::Described),
            None => PROSE_WORDS_LIKE_KEYWORDS.contains(&word),
        };
        if self.context == LineContext::Steps || !is_prose || self.is_step_line(line) {
            let message = format!(
                "`{word}` is not a keyword and would be read as description; did you mean \
                 `{keyword}`?"
            );
            self.add_problem(number, message);
        }
    }

    /// Whether a line without its first word is a step.
    fn is_step_line(&self, line: &str) -> bool {
        line.strip_prefix(first_word(line)).is_some_and(|rest| (self.is_step)(rest.trim()))
    }

    fn add_problem(&mut self, number: usize, message: String) {
        self.problems.push(Diagnostic::new(self.file, number, message));
    }
}

/// The message about an invalid word in a line of tags; `None` if the word is a valid tag.
fn tag_problem(word: &str) -> Option<String> {
    match word.strip_prefix('@') {
        None | Some("") => {
            Some(format!("got `{word}` among tags, expected words that begin with @"))
        }
        Some(tag) => misspelt_tag(tag).map(|meant| {
            format!(
                "got the tag `{word}`, expected one with a meaning or a name of your own that is \
                 not near it; did you mean `@{meant}`?"
            )
        }),
    }
}

/// The first of these lines that is neither empty nor a comment.
fn first_content_line<'l>(lines: &[&'l str]) -> &'l str {
    let content = |line: &&str| !line.is_empty() && !line.starts_with('#');
    lines.iter().map(|line| line.trim()).find(content).unwrap_or_default()
}

/// The first word of a line, which could be a keyword.
fn first_word(line: &str) -> &str {
    line.split([' ', ':']).next().unwrap_or_default()
}

/// The cells of a table row `| a | b |`; `None` if the last cell has no closing `|`.
fn table_cells(row: &str) -> Option<Vec<String>> {
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

/// Parses the text after its lines were checked.
pub(super) fn parse_feature(file: &str, source: &FeatureSource) -> Result<Feature, Diagnostics> {
    Feature::parse(&source.text, GherkinEnv::default()).map_err(|error| {
        if source.text.trim().is_empty() {
            let message = "got an empty file, expected `Feature:` and a name";
            return Diagnostics::single(file, 0, message.to_owned());
        }
        if !source.text.lines().any(|line| line.trim_start().starts_with("Feature:")) {
            let message = "got no `Feature:`, expected `Feature:` and a name";
            return Diagnostics::single(file, 1, message.to_owned());
        }
        let (line, column) = line_and_column(&error.to_string());
        let found = source.text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim();
        let message = format!(
            "column {column}: got `{found}`, expected Feature:, Rule:, \
             Background:, Scenario:, Example:, Scenario Outline:, Examples:, @tags, steps ({}), \
             tables and doc strings",
            STEP_KEYWORDS.join(", ")
        );
        Diagnostics::single(file, line, message)
    })
}

/// Line and column in an error message of the parser, `Error at LINE:COLUMN: …`. The parser reports
/// them nowhere else.
fn line_and_column(text: &str) -> (usize, usize) {
    let mut numbers = text.split([' ', ':']).filter_map(|word| word.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn problems(text: &str) -> String {
        FeatureSource::parse("a.feature", text, crate::steps::catalogue::is_step)
            .map_or_else(|e| e.to_string(), |_| String::new())
    }

    #[test]
    fn a_short_and_a_long_row_are_rejected_with_their_line() {
        assert_snapshot!(
            problems("Given queues\n| queue | quota |\n| a |\n# note\n| b | 1 | 2 |\n"),
            @r"
        a.feature:3: got 1 cell in this row, expected 2 as in line 2: queue, quota
        a.feature:5: got 3 cells in this row, expected 2 as in line 2: queue, quota
        "
        );
    }

    #[test]
    fn an_escaped_bar_does_not_end_a_cell() {
        assert_eq!(problems("| a | b |\n| 1 \\| 2 | 3 |\n"), "");
    }

    #[test]
    fn an_unterminated_row_or_doc_string_and_a_duplicate_column_are_rejected() {
        assert_snapshot!(problems("| a | a |\n| 1\n\"\"\"yaml\nx\n"), @r#"
        a.feature:1: duplicate column `a` in this table
        a.feature:2: this row does not end in `|`: | 1
        a.feature:3: the doc string that begins here is not closed by """
        "#);
    }

    #[test]
    fn a_misspelt_keyword_is_rejected() {
        assert_snapshot!(
            problems("Scenario: x\n  Gven a fleet\n  given a fleet\n"),
            @r"
        a.feature:2: `Gven` is not a keyword and would be read as description; did you mean `Given`?
        a.feature:3: `given` is not a keyword and would be read as description; did you mean `Given`?
        "
        );
    }

    #[test]
    fn a_misspelt_heading_is_rejected_on_its_own_line_only() {
        let step = "Given a fleet of 1 node with 8 GPUs each";
        assert_snapshot!(problems(&format!("Feature: f
  Rules: these are prose, and so is the
  example: above.
  Bakground:
    {step}
  Scenaro: one
    {step}
  Scenario two
    {step}
  Scenario outline: three
    {step}
    Exmaples:
    | a |
    | 1 |
")), @r"
        a.feature:4: `Bakground:` is not a keyword and would be read as description; did you mean `Background:`?
        a.feature:6: `Scenaro:` is not a keyword and would be read as description; did you mean `Scenario:`?
        a.feature:8: `Scenario` is not a keyword and would be read as description; did you mean `Scenario:`?
        a.feature:10: `Scenario outline:` is not a keyword and would be read as description; did you mean `Scenario Outline:`?
        a.feature:12: `Exmaples:` is not a keyword and would be read as description; did you mean `Examples:`?
        ");
    }

    #[test]
    fn a_keyword_before_a_step_may_be_misspelt_by_two_letters() {
        let text =
            "Scenario: x\n  Gvene a fleet of 1 node with 8 GPUs each\n  Adn 1 cycle passes\n";
        assert_snapshot!(problems(text), @r"
        a.feature:2: `Gvene` is not a keyword and would be read as description; did you mean `Given`?
        a.feature:3: `Adn` is not a keyword and would be read as description; did you mean `And`?
        ");
    }

    #[test]
    fn prose_may_begin_with_the_and_continue_with_and() {
        let text = "Feature: x\n  The owner comes back\n  and takes its share. Given time,\n  \
                    when it likes.\n  Given enough of it.\n  Scenario: x\n    The others leave,\n    \
                    then rest.\n    Given a fleet of 1 node with 8 GPUs each\n";
        assert_eq!(problems(text), "");
    }

    #[test]
    fn a_star_continues_the_keyword_before_it_and_an_example_is_a_scenario() {
        let text = "Feature: f\n  Example: s\n    * a\n    Then b\n    * c * d\n    \"\"\"\n    \
                    * e\n    \"\"\"\n";
        let source =
            FeatureSource::parse("a.feature", text, crate::steps::catalogue::is_step).unwrap();
        let feature = parse_feature("a.feature", &source).unwrap();
        let step_text = |step: &gherkin::Step| format!("{:?} {}", step.ty, step.value);
        let steps: Vec<String> = feature.scenarios[0].steps.iter().map(step_text).collect();
        assert_eq!(steps, ["Given a", "Then b", "Then c * d"]);
        let text = feature.scenarios[0].steps[2].docstring.clone().unwrap();
        assert_eq!(text.trim(), "* e");
    }

    #[test]
    fn a_word_among_tags_is_rejected_with_its_line() {
        let text = |tags: &str| format!("{tags}\nFeature: f\n  Scenario: s\n    Given a\n");
        assert_snapshot!(problems(&text("@a b")), @"a.feature:1: got `b` among tags, expected words that begin with @");
        assert_snapshot!(problems(&text("@a @")), @"a.feature:1: got `@` among tags, expected words that begin with @");
        assert_eq!(problems(&text("@a  @b # c d")), "");
    }

    #[test]
    fn a_tag_near_one_with_a_meaning_is_rejected() {
        let text = |tags: &str| format!("{tags}\nFeature: f\n  Scenario: s\n    Given a\n");
        assert_snapshot!(problems(&text("@gang @virtualtime")), @"a.feature:1: got the tag `@virtualtime`, expected one with a meaning or a name of your own that is not near it; did you mean `@virtual-time`?");
        assert_snapshot!(problems(&text("@Consolidaton")), @"a.feature:1: got the tag `@Consolidaton`, expected one with a meaning or a name of your own that is not near it; did you mean `@consolidation`?");
        assert_eq!(problems(&text("@mine @nightly @bug-x-1 @jobs @lap @webhooks @slow")), "");
    }

    #[test]
    fn a_step_that_would_be_read_as_description_is_rejected() {
        assert_snapshot!(problems("Feature: x
  Given a fleet of 1 node with 8 GPUs each
  Scenario: x
    The nodes are many.
    The a fleet of 1 node with 8 GPUs each
    and the scheduler is restarted
    Given a fleet of 1 node with 8 GPUs each
    The owner comes
"), @r"
        a.feature:2: this step is in a description and would be ignored; expected steps below Background:, Scenario:, Example: and Scenario Outline:
        a.feature:5: `The` is not a keyword and would be read as description; did you mean `Then`?
        a.feature:6: `and` is not a keyword and would be read as description; did you mean `And`?
        a.feature:8: `The` is not a keyword and would be read as description; did you mean `Then`?
        ");
    }

    #[test]
    fn the_media_type_of_a_doc_string_is_not_part_of_its_text() {
        let text = "Feature: f\n  Scenario: s\n    Given the manifest\n      \"\"\"yaml\n      a: 1\n      \"\"\"\n";
        let source =
            FeatureSource::parse("a.feature", text, crate::steps::catalogue::is_step).unwrap();
        let feature = parse_feature("a.feature", &source).unwrap();
        let docstring = feature.scenarios[0].steps[0].docstring.clone().unwrap();
        assert_eq!(docstring.trim(), "a: 1");
    }
}
