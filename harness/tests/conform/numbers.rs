//! The numbers of a case's steps. Times, and text in quotes, are no numbers here: a time bounds how
//! long a condition is awaited or observed, and quoted text is a name or somebody's wording.

use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use schedlab_conformance::features::Case;

/// A number in a case.
#[derive(Clone, Debug)]
pub(crate) struct NumberSite {
    /// The line of the step.
    pub(crate) line: usize,
    /// The column of the table that has the number; `None` for the step's sentence.
    pub(crate) column: Option<String>,
    /// The number as it is written.
    pub(crate) number: String,
    /// What is added to the number.
    by: i64,
    step: usize,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Sentence(Range<usize>),
    Cell { row: usize, column: usize },
    DocString(Range<usize>),
}

impl fmt::Display for NumberSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.column.as_ref().map_or(String::new(), |column| format!("{column} "));
        let change = if self.by > 0 { "one more" } else { "one less" };
        write!(f, "{column}{} ({change})", self.number)
    }
}

impl NumberSite {
    /// The number, with what is added to it.
    pub(crate) fn with_change(self, by: i64) -> Self {
        Self { by, ..self }
    }

    /// The case with the number changed; `None` if that is no number, or less than 0.
    pub(crate) fn changed(&self, case: &Case) -> Option<Case> {
        let changed = self.number.parse::<i64>().ok()?.checked_add(self.by)?;
        let changed = (changed >= 0).then(|| changed.to_string())?;
        let mut case = case.clone();
        let step = case.steps.get_mut(self.step)?;
        match &self.place {
            Place::Sentence(range) => step.value.replace_range(range.clone(), &changed),
            Place::Cell { row, column } => {
                *step.table.as_mut()?.rows.get_mut(*row)?.get_mut(*column)? = changed;
            }
            Place::DocString(range) => {
                step.docstring.as_mut()?.replace_range(range.clone(), &changed);
            }
        }
        Some(case)
    }
}

/// Columns of workload tables whose numbers are seconds.
const TIME_COLUMNS: [&str; 1] = ["grace"];

/// The numbers of a case.
pub(crate) fn number_sites(case: &Case) -> Vec<NumberSite> {
    let mut sites = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        let site = |column: Option<&String>, number: &str, place| NumberSite {
            line: step.position.line,
            column: column.cloned(),
            number: number.to_owned(),
            by: 0,
            step: index,
            place,
        };
        for (range, number) in sentence_numbers(&step.value) {
            sites.push(site(None, number, Place::Sentence(range)));
        }
        let rows = step.table.iter().flat_map(|table| table.rows.iter().enumerate().skip(1));
        for (row, cells) in rows {
            let header = step.table.as_ref().and_then(|table| table.rows.first());
            let name = |column: usize| header.and_then(|header| header.get(column));
            let is_time = |column: usize| {
                name(column).is_some_and(|name| TIME_COLUMNS.contains(&name.as_str()))
            };
            let numbers = cells
                .iter()
                .enumerate()
                .filter(|(column, cell)| !is_time(*column) && cell.parse::<u32>().is_ok());
            for (column, cell) in numbers {
                sites.push(site(name(column), cell, Place::Cell { row, column }));
            }
        }
        for (range, number) in step.docstring.iter().flat_map(|text| yaml_numbers(text)) {
            sites.push(site(None, number, Place::DocString(range)));
        }
    }
    sites
}

/// The numbers of a sentence outside of quotes, without times and numbers of cycles.
fn sentence_numbers(sentence: &str) -> Vec<(Range<usize>, &str)> {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#""[^"]*"|'[^']*'|\b(\d+) (?:second|minute|hour|day|cycle)s?\b|\b(\d+)\b"#)
            .expect("the pattern is valid")
    });
    let found = NUMBER.captures_iter(sentence).filter_map(|found| found.get(2));
    found.map(|number| (number.range(), number.as_str())).collect()
}

/// The numbers that are whole values of a YAML text.
fn yaml_numbers(text: &str) -> Vec<(Range<usize>, &str)> {
    static NUMBER: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(?m): "?(\d+)"?(?:[,}\]]|$)"#).expect("it is valid"));
    let found = NUMBER.captures_iter(text).filter_map(|found| found.get(1));
    found.map(|number| (number.range(), number.as_str())).collect()
}

/// The case without steps about the wording of reasons and events, so that nothing but behaviour
/// can fail.
pub(crate) fn without_wording_steps(case: &Case) -> Case {
    static WORDING: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#" (?:because|says?|with) ["']"#).expect("the pattern is valid")
    });
    let mut case = case.clone();
    case.steps
        .retain(|step| !(step.ty == gherkin::StepType::Then && WORDING.is_match(&step.value)));
    case
}

#[test]
fn times_and_names_are_no_numbers() {
    let numbers = |text| sentence_numbers(text).into_iter().map(|(_, number)| number).collect();
    let found: Vec<&str> = numbers("for 10 minutes queue \"a-1\" has 8 running and 4 pending pods");
    assert_eq!(found, ["8", "4"]);
    let found: Vec<&str> = numbers("pod \"a\" is running and stays so for 5 cycles");
    assert!(found.is_empty(), "{found:?}");
    let found: Vec<&str> = yaml_numbers("spec: {replicas: 3, pods: \"9\"}\na: 60Gi\nb: 2")
        .into_iter()
        .map(|(_, n)| n)
        .collect();
    assert_eq!(found, ["3", "9", "2"]);
}
