//! Outlines: one case for each example row, with the row's values in the place of `<column>`.

use gherkin::{Examples, Scenario, Step};

use super::case::Case;
use super::problem::Problems;
use super::source::Source;
use crate::report::Problem;

/// The cases of a scenario: itself, or one for each of its example rows.
pub(super) fn expand(
    template: &Case,
    scenario: &Scenario,
    source: &Source,
) -> Result<Vec<Case>, Problems> {
    let file = &template.place.file;
    if scenario.examples.is_empty() {
        return match scenario.keyword.as_str() {
            "Scenario Outline" | "Scenario Template" => {
                let message = format!("outline `{}` has no examples", scenario.name);
                Err(Problems::one(file, scenario.position.line, message))
            }
            _ => Ok(vec![template.clone()]),
        };
    }
    let mut cases = Vec::new();
    for examples in &scenario.examples {
        let block = Block::read(file, examples, source)?;
        block.check_placeholders(scenario)?;
        for row in &block.rows {
            cases.push(block.case(template, scenario, row));
        }
    }
    Ok(cases)
}

struct Block<'a> {
    file: &'a str,
    header: &'a [String],
    rows: Vec<(usize, &'a [String])>,
    tags: &'a [String],
}

impl<'a> Block<'a> {
    fn read(file: &'a str, examples: &'a Examples, source: &Source) -> Result<Self, Problems> {
        let line = examples.position.line;
        let empty = || Problems::one(file, line, "these examples have no row".to_owned());
        let table = examples.table.as_ref().ok_or_else(empty)?;
        let (header, rows) = table.rows.split_first().ok_or_else(empty)?;
        if rows.is_empty() {
            return Err(empty());
        }
        let lines = source.rows_of_table_at(table.position.line);
        let line_of = |index: usize| lines.get(index + 1).copied().unwrap_or(line);
        let rows = rows.iter().enumerate().map(|(index, row)| (line_of(index), row.as_slice()));
        Ok(Self { file, header, rows: rows.collect(), tags: &examples.tags })
    }

    /// Every `<name>` of the outline must be a column.
    fn check_placeholders(&self, scenario: &Scenario) -> Result<(), Problems> {
        let used = scenario
            .steps
            .iter()
            .flat_map(|step| placeholders(&step.value).map(|name| (step.position.line, name)));
        let unknown = used.filter(|(_, name)| !self.header.iter().any(|column| column == name));
        let columns = self.header.join(", ");
        let problem = |(line, name)| {
            let message = format!("`<{name}>` is no column of the examples; columns are {columns}");
            Problem::new(self.file, line, message)
        };
        let problems: Vec<Problem> = unknown.map(problem).collect();
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }

    fn case(&self, template: &Case, scenario: &Scenario, (line, row): &(usize, &[String])) -> Case {
        let mut case = template.clone();
        case.place.line = *line;
        case.tags.extend(self.tags.iter().cloned());
        let named = self.filled(&scenario.name, row);
        case.name =
            if named == scenario.name { format!("{named} [{}]", row.join(", ")) } else { named };
        case.steps = template.steps.iter().map(|step| self.filled_step(step, row)).collect();
        case
    }

    fn filled_step(&self, step: &Step, row: &[String]) -> Step {
        let mut step = step.clone();
        step.value = self.filled(&step.value, row);
        step.docstring = step.docstring.map(|text| self.filled(&text, row));
        if let Some(table) = &mut step.table {
            for cell in table.rows.iter_mut().flatten() {
                *cell = self.filled(cell, row);
            }
        }
        step
    }

    fn filled(&self, text: &str, row: &[String]) -> String {
        self.header.iter().zip(row).fold(text.to_owned(), |text, (column, value)| {
            text.replace(&format!("<{column}>"), value)
        })
    }
}

fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::features::load_text;

    fn cases(text: &str) -> String {
        match load_text("f.feature", text) {
            Ok(cases) => cases
                .iter()
                .map(|c| format!("{} {}: {}", c.place.line, c.name, c.steps[0].value))
                .collect::<Vec<_>>()
                .join("\n"),
            Err(problems) => problems.to_string(),
        }
    }

    #[test]
    fn each_example_row_is_a_case_at_its_own_line() {
        assert_snapshot!(cases("Feature: f
  Scenario Outline: quota <quota> holds
    Given a quota of <quota>
    Examples:
      | quota |
      | 8     |
      # the lab's parts
      | 16    |
"), @r"
        6 quota 8 holds: a quota of 8
        8 quota 16 holds: a quota of 16
        ");
    }

    #[test]
    fn rows_without_a_placeholder_in_the_name_are_told_apart_by_their_values() {
        assert_snapshot!(cases("Feature: f
  Scenario Outline: it holds
    Given a <kind> with <n>
    Examples:
      | kind | n |
      | job  | 1 |
      | job  | 2 |
"), @r"
        6 it holds [job, 1]: a job with 1
        7 it holds [job, 2]: a job with 2
        ");
    }

    #[test]
    fn a_placeholder_without_column_and_examples_without_rows_are_refused() {
        assert_snapshot!(cases("Feature: f
  Scenario Outline: a
    Given a <size>
    Examples:
      | kind |
      | job  |
  Scenario Outline: b
    Given a <kind>
    Examples:
      | kind |
  Scenario Outline: c
    Given a <kind>
"), @r"
        f.feature:3: `<size>` is no column of the examples; columns are kind
        f.feature:9: these examples have no row
        f.feature:11: outline `c` has no examples
        ");
    }
}
