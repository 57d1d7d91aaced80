//! Outlines: one case per example row, with `<column>` placeholders substituted.

use gherkin::{Examples, Scenario, Step};

use super::case::Case;
use super::source::FeatureSource;
use crate::report::{Diagnostic, Diagnostics};

/// The cases of a scenario: the scenario itself, or one case for each example row.
pub(super) fn expand_examples(
    template: &Case,
    scenario: &Scenario,
    source: &FeatureSource,
) -> Result<Vec<Case>, Diagnostics> {
    let file = &template.location.file;
    if scenario.examples.is_empty() {
        return match scenario.keyword.as_str() {
            "Scenario Outline" | "Scenario Template" => {
                let message = format!("outline `{}` has no examples", scenario.name);
                Err(Diagnostics::single(file, scenario.position.line, message))
            }
            _ => Ok(vec![template.clone()]),
        };
    }
    let mut cases = Vec::new();
    for examples in &scenario.examples {
        let block = ExampleBlock::parse(file, examples, source)?;
        block.check_placeholders(scenario)?;
        for &(line, row) in &block.rows {
            cases.push(block.case_of_row(template, scenario, line, row));
        }
    }
    Ok(cases)
}

struct ExampleBlock<'a> {
    file: &'a str,
    header: &'a [String],
    rows: Vec<(usize, &'a [String])>,
    tags: &'a [String],
}

impl<'a> ExampleBlock<'a> {
    fn parse(
        file: &'a str,
        examples: &'a Examples,
        source: &FeatureSource,
    ) -> Result<Self, Diagnostics> {
        let line = examples.position.line;
        let empty = || Diagnostics::single(file, line, "these examples have no row".to_owned());
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

    /// Checks that every placeholder `<name>` of the scenario outline is a column of the examples.
    fn check_placeholders(&self, scenario: &Scenario) -> Result<(), Diagnostics> {
        let used = scenario
            .steps
            .iter()
            .flat_map(|step| placeholder_names(&step.value).map(|name| (step.position.line, name)));
        let unknown = used.filter(|(_, name)| !self.header.iter().any(|column| column == name));
        let columns = self.header.join(", ");
        let problem = |(line, name)| {
            let message = format!(
                "got placeholder `<{name}>`, expected a column of the examples: \
                {columns}"
            );
            Diagnostic::new(self.file, line, message)
        };
        let problems: Vec<Diagnostic> = unknown.map(problem).collect();
        if problems.is_empty() { Ok(()) } else { Err(Diagnostics(problems)) }
    }

    fn case_of_row(
        &self,
        template: &Case,
        scenario: &Scenario,
        line: usize,
        row: &[String],
    ) -> Case {
        let mut case = template.clone();
        case.location.line = line;
        case.tags.extend(self.tags.iter().cloned());
        let named = self.substitute(&scenario.name, row);
        case.name =
            if named == scenario.name { format!("{named} [{}]", row.join(", ")) } else { named };
        case.steps = template.steps.iter().map(|step| self.substitute_in_step(step, row)).collect();
        case
    }

    fn substitute_in_step(&self, step: &Step, row: &[String]) -> Step {
        let mut step = step.clone();
        step.value = self.substitute(&step.value, row);
        step.docstring = step.docstring.map(|text| self.substitute(&text, row));
        if let Some(table) = &mut step.table {
            for cell in table.rows.iter_mut().flatten() {
                *cell = self.substitute(cell, row);
            }
        }
        step
    }

    fn substitute(&self, text: &str, row: &[String]) -> String {
        self.header.iter().zip(row).fold(text.to_owned(), |text, (column, value)| {
            text.replace(&format!("<{column}>"), value)
        })
    }
}

fn placeholder_names(text: &str) -> impl Iterator<Item = &str> {
    text.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::features::load_text;

    fn cases(text: &str) -> String {
        match load_text("f.feature", text, crate::steps::catalogue::is_step) {
            Ok(cases) => cases
                .iter()
                .map(|c| format!("{} {}: {}", c.location.line, c.name, c.steps[0].value))
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
    fn rows_without_a_placeholder_in_the_name_get_their_values_appended() {
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
    fn a_placeholder_without_column_and_examples_without_rows_are_rejected() {
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
        f.feature:3: got placeholder `<size>`, expected a column of the examples: kind
        f.feature:9: these examples have no row
        f.feature:11: outline `c` has no examples
        ");
    }
}
