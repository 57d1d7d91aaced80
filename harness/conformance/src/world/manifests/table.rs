//! Table rows by column name. Errors give file, line, column, the value and what was expected.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use schedlab_api::quantity;

use crate::text::{did_you_mean_suffix, normalize_go_duration};

/// Maximum number of objects that one row may create.
const OBJECTS_PER_ROW_MAX: u32 = 100_000;

/// An error about a cell, a row or a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {message}")]
pub(crate) struct RowError {
    location: String,
    message: String,
}

/// A table below a step, with a header.
#[derive(Clone, Debug)]
pub(crate) struct Table<'a> {
    /// The rows below the header.
    pub(crate) rows: Vec<Row<'a>>,
}

/// One row of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row<'a> {
    /// Where the row is: `file:line`.
    location: String,
    cells: BTreeMap<&'a str, &'a str>,
}

impl<'a> Table<'a> {
    /// Parses a table whose columns must be among `allowed`. `place` returns the location of a row
    /// by the row's index; the header is row 0.
    pub(crate) fn parse_table(
        table: &'a [Vec<String>],
        allowed: &[&str],
        location: &dyn Fn(usize) -> String,
    ) -> Result<Self, RowError> {
        let (header, rows) = table.split_first().ok_or_else(|| RowError {
            location: location(0),
            message: "the table is empty".to_owned(),
        })?;
        for column in header {
            if !allowed.contains(&column.as_str()) {
                let near = did_you_mean_suffix(column, allowed.iter().copied());
                let columns = allowed.join(", ");
                let message = format!("got column `{column}`, expected one of {columns}{near}");
                return Err(RowError { location: location(0), message });
            }
        }
        if rows.is_empty() {
            let message = "got no row below this header, expected one or more".to_owned();
            return Err(RowError { location: location(0), message });
        }
        let row = |(index, cells): (usize, &'a Vec<String>)| Row {
            location: location(index + 1),
            cells: header.iter().zip(cells).map(|(h, c)| (h.as_str(), c.as_str())).collect(),
        };
        Ok(Self { rows: rows.iter().enumerate().map(row).collect() })
    }
}

impl<'a> Row<'a> {
    /// A row that consists of the values in a sentence.
    pub(crate) fn from_cells(location: String, cells: &[(&'a str, &'a str)]) -> Self {
        Self { location, cells: cells.iter().copied().collect() }
    }

    /// The text of a cell; `None` if the column is absent or the cell is empty.
    pub(crate) fn cell(&self, column: &str) -> Option<&'a str> {
        self.cells.get(column).copied().filter(|cell| !cell.is_empty())
    }

    /// The text of a cell that must not be empty.
    pub(crate) fn required_cell(&self, column: &str) -> Result<&'a str, RowError> {
        self.cell(column).ok_or_else(|| self.cell_error(column, "nothing", "a value"))
    }

    /// The value of a cell, parsed with `FromStr`; `None` if the cell is empty.
    pub(crate) fn parsed_cell<T: FromStr>(
        &self,
        column: &str,
        allowed: &str,
    ) -> Result<Option<T>, RowError> {
        self.cell(column)
            .map(|cell| cell.parse().map_err(|_| self.cell_error(column, cell, allowed)))
            .transpose()
    }

    /// A 32-bit whole number in a cell, from `minimum` on.
    pub(crate) fn count(&self, column: &str, minimum: u32) -> Result<Option<u32>, RowError> {
        self.int_in_range(column, minimum..=u32::MAX)
    }

    /// The number of objects to create, from `minimum` on.
    pub(crate) fn object_count(&self, column: &str, minimum: u32) -> Result<Option<u32>, RowError> {
        self.int_in_range(column, minimum..=OBJECTS_PER_ROW_MAX)
    }

    /// A whole number in a cell, within a range.
    pub(super) fn int_in_range(
        &self,
        column: &str,
        all: RangeInclusive<u32>,
    ) -> Result<Option<u32>, RowError> {
        let allowed = format!("a whole number from {} to {}", all.start(), all.end());
        let count: Option<u32> = self.parsed_cell(column, &allowed)?;
        match count {
            Some(count) if !all.contains(&count) => {
                Err(self.cell_error(column, &count.to_string(), &allowed))
            }
            Some(_) | None => Ok(count),
        }
    }

    /// The `key=value` pairs in a cell, separated by commas.
    pub(crate) fn key_value_pairs(
        &self,
        column: &str,
    ) -> Result<Vec<(&'a str, &'a str)>, RowError> {
        let Some(cell) = self.cell(column) else { return Ok(Vec::new()) };
        let pair = |pair: &'a str| {
            let (key, value) = pair.split_once('=')?;
            Some((key.trim(), value.trim()))
        };
        let pairs: Option<Vec<_>> = cell.split(',').map(pair).collect();
        pairs.ok_or_else(|| self.cell_error(column, cell, "key=value, key=value"))
    }

    /// The value of a cell that must be `yes` or `no`.
    pub(crate) fn yes_or_no_cell(&self, column: &str) -> Result<Option<YesNo>, RowError> {
        match self.cell(column) {
            None => Ok(None),
            Some("yes") => Ok(Some(YesNo::Yes)),
            Some("no") => Ok(Some(YesNo::No)),
            Some(cell) => Err(self.cell_error(column, cell, "yes or no")),
        }
    }

    /// Where the row is: `file:line`.
    pub(crate) fn row_location(&self) -> &str {
        &self.location
    }

    /// A duration in a cell, in Go's notation.
    pub(crate) fn go_duration_cell(&self, column: &str) -> Result<Option<Cow<'a, str>>, RowError> {
        let Some(cell) = self.cell(column) else { return Ok(None) };
        let wrong = || self.cell_error(column, cell, "a duration such as 90s or 1h30m");
        normalize_go_duration(cell).map(Some).ok_or_else(wrong)
    }

    /// A Kubernetes quantity in a cell, at least 0.
    pub(crate) fn quantity_cell(&self, column: &str) -> Result<Option<&'a str>, RowError> {
        let Some(cell) = self.cell(column) else { return Ok(None) };
        match quantity::parse(cell) {
            Ok(milli) if milli >= 0 => Ok(Some(cell)),
            Ok(_) => Err(self.cell_error(column, cell, "a quantity of at least 0")),
            Err(error) => Err(self.row_error(&format!("column `{column}`: got {cell}: {error}"))),
        }
    }

    /// The error about a cell with another value than allowed.
    pub(crate) fn cell_error(&self, column: &str, found: &str, allowed: &str) -> RowError {
        self.row_error(&format!("column `{column}`: got {found}, expected {allowed}"))
    }

    /// The error about a cell with a word that is not among `known`; it suggests the nearest.
    pub(crate) fn unknown_word_error(&self, column: &str, found: &str, known: &[&str]) -> RowError {
        let near = did_you_mean_suffix(found, known.iter().copied());
        self.cell_error(column, found, &format!("{}{near}", known.join(", ")))
    }

    /// The error about the row with this message.
    pub(crate) fn row_error(&self, message: &str) -> RowError {
        RowError { location: self.location.clone(), message: message.to_owned() }
    }
}

/// The value of a cell that must be `yes` or `no`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum YesNo {
    /// The cell says `yes`.
    Yes,
    /// The cell says `no`.
    No,
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn table(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
    }

    #[test]
    fn an_unknown_column_and_a_bad_cell_are_rejected_with_their_location() {
        let location = |index: usize| format!("f.feature:{}", 10 + index);
        let unknown = table(&[&["queue", "qouta"], &["a", "8"]]);
        let error = Table::parse_table(&unknown, &["queue", "quota"], &location).unwrap_err();
        assert_snapshot!(error, @"f.feature:10: got column `qouta`, expected one of queue, quota; did you mean `quota`?");
        let good = table(&[&["queue", "pods"], &["a", "0"]]);
        let rows = Table::parse_table(&good, &["queue", "pods"], &location).unwrap();
        let error = rows.rows[0].object_count("pods", 1).unwrap_err();
        assert_snapshot!(error, @"f.feature:11: column `pods`: got 0, expected a whole number from 1 to 100000");
    }
}
