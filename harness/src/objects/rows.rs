//! A table's rows by column name, with errors that say file, line, column, what was found and
//! what is allowed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use schedlab_emulator::quantity;

use crate::text::as_go_writes;

/// Most objects that one row makes.
const OBJECTS_MAX: u32 = 100_000;

/// A cell or a table that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub(crate) struct RowError {
    place: String,
    message: String,
}

/// A table with a header.
#[derive(Clone, Debug)]
pub(crate) struct Rows<'a> {
    /// The rows below the header.
    pub(crate) rows: Vec<Row<'a>>,
}

/// One row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row<'a> {
    /// `file:line`.
    place: String,
    cells: BTreeMap<&'a str, &'a str>,
}

impl<'a> Rows<'a> {
    /// Reads a table of which each column must be one of `allowed`. `place` tells the place of
    /// a row by its position, the header's being 0.
    pub(crate) fn read(
        table: &'a [Vec<String>],
        allowed: &[&str],
        place: &dyn Fn(usize) -> String,
    ) -> Result<Self, RowError> {
        let (header, rows) = table.split_first().ok_or_else(|| RowError {
            place: place(0),
            message: "the table is empty".to_owned(),
        })?;
        for column in header {
            if !allowed.contains(&column.as_str()) {
                let message =
                    format!("there is no column `{column}`; allowed are: {}", allowed.join(", "));
                return Err(RowError { place: place(0), message });
            }
        }
        if rows.is_empty() {
            let message = "found no row below this header, allowed are one or more".to_owned();
            return Err(RowError { place: place(0), message });
        }
        let row = |(index, cells): (usize, &'a Vec<String>)| Row {
            place: place(index + 1),
            cells: header.iter().zip(cells).map(|(h, c)| (h.as_str(), c.as_str())).collect(),
        };
        Ok(Self { rows: rows.iter().enumerate().map(row).collect() })
    }
}

impl<'a> Row<'a> {
    /// A row that is not from a table: a step in a sentence.
    pub(crate) fn of(place: String, cells: &[(&'a str, &'a str)]) -> Self {
        Self { place, cells: cells.iter().copied().collect() }
    }

    /// A cell, unless the column is absent or the cell empty.
    pub(crate) fn text(&self, column: &str) -> Option<&'a str> {
        self.cells.get(column).copied().filter(|cell| !cell.is_empty())
    }

    /// A cell that must be there.
    pub(crate) fn required(&self, column: &str) -> Result<&'a str, RowError> {
        self.text(column).ok_or_else(|| self.error(column, "nothing", "a value"))
    }

    /// A cell that is a number or another thing that parses.
    pub(crate) fn parsed<T: FromStr>(
        &self,
        column: &str,
        allowed: &str,
    ) -> Result<Option<T>, RowError> {
        self.text(column)
            .map(|cell| cell.parse().map_err(|_| self.error(column, cell, allowed)))
            .transpose()
    }

    /// A whole number of 32 bits, from `least` on.
    pub(crate) fn count(&self, column: &str, least: u32) -> Result<Option<u32>, RowError> {
        self.within(column, least..=u32::MAX)
    }

    /// How many objects of a kind are to be made.
    pub(crate) fn objects(&self, column: &str, least: u32) -> Result<Option<u32>, RowError> {
        self.within(column, least..=OBJECTS_MAX)
    }

    /// A whole number of these.
    pub(super) fn within(
        &self,
        column: &str,
        all: RangeInclusive<u32>,
    ) -> Result<Option<u32>, RowError> {
        let allowed = format!("a whole number from {} to {}", all.start(), all.end());
        let count: Option<u32> = self.parsed(column, &allowed)?;
        match count {
            Some(count) if !all.contains(&count) => {
                Err(self.error(column, &count.to_string(), &allowed))
            }
            Some(_) | None => Ok(count),
        }
    }

    /// `key=value` pairs, separated by commas.
    pub(crate) fn pairs(&self, column: &str) -> Result<Vec<(&'a str, &'a str)>, RowError> {
        let Some(cell) = self.text(column) else { return Ok(Vec::new()) };
        let pair = |pair: &'a str| {
            let (key, value) = pair.split_once('=')?;
            Some((key.trim(), value.trim()))
        };
        let pairs: Option<Vec<_>> = cell.split(',').map(pair).collect();
        pairs.ok_or_else(|| self.error(column, cell, "key=value, key=value"))
    }

    /// `yes` or `no`.
    pub(crate) fn yes_or_no(&self, column: &str) -> Result<Option<Answer>, RowError> {
        match self.text(column) {
            None => Ok(None),
            Some("yes") => Ok(Some(Answer::Yes)),
            Some("no") => Ok(Some(Answer::No)),
            Some(cell) => Err(self.error(column, cell, "yes or no")),
        }
    }

    /// Where it stands.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// A length of time, as Go writes it.
    pub(crate) fn duration(&self, column: &str) -> Result<Option<Cow<'a, str>>, RowError> {
        let Some(cell) = self.text(column) else { return Ok(None) };
        let wrong = || self.error(column, cell, "a duration such as 90s or 1h30m");
        as_go_writes(cell).map(Some).ok_or_else(wrong)
    }

    /// A quantity that is not negative.
    pub(crate) fn quantity(&self, column: &str) -> Result<Option<&'a str>, RowError> {
        let Some(cell) = self.text(column) else { return Ok(None) };
        match quantity::parse(cell) {
            Ok(milli) if milli >= 0 => Ok(Some(cell)),
            Ok(_) => Err(self.error(column, cell, "a quantity from 0 on")),
            Err(error) => Err(self.wrong(&format!("column `{column}`: found {cell}: {error}"))),
        }
    }

    /// What is wrong with a cell.
    pub(crate) fn error(&self, column: &str, found: &str, allowed: &str) -> RowError {
        self.wrong(&format!("column `{column}`: found {found}, allowed is {allowed}"))
    }

    /// What is wrong with it, in words that say what was found and what is allowed.
    pub(crate) fn wrong(&self, message: &str) -> RowError {
        RowError { place: self.place.clone(), message: message.to_owned() }
    }
}

/// A cell that says yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Yes.
    Yes,
    /// No.
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
    fn an_unknown_column_and_a_bad_cell_are_told_with_their_place() {
        let place = |index: usize| format!("f.feature:{}", 10 + index);
        let unknown = table(&[&["queue", "qouta"], &["a", "8"]]);
        let error = Rows::read(&unknown, &["queue", "quota"], &place).unwrap_err();
        assert_snapshot!(error, @"f.feature:10: there is no column `qouta`; allowed are: queue, quota");
        let good = table(&[&["queue", "pods"], &["a", "0"]]);
        let rows = Rows::read(&good, &["queue", "pods"], &place).unwrap();
        let error = rows.rows[0].objects("pods", 1).unwrap_err();
        assert_snapshot!(error, @"f.feature:11: column `pods`: found 0, allowed is a whole number from 1 to 100000");
    }
}
