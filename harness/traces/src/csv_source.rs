//! Rows of a CSV file with a header, one a line. An invalid row is one error with file, line and
//! column.

use std::str::FromStr;

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use crate::{
    error::{TraceError, did_you_mean},
    format::{Columns, OtherColumns},
    limits::{self, IntRange, NameLimit, SECS_RANGE},
    lines::{Line, Lines},
    numbers::{to_count, to_f64},
};

/// A CSV file.
#[derive(Debug)]
pub(crate) struct CsvSource {
    lines: Lines,
    header: Vec<String>,
    record: csv::StringRecord,
}

/// One row, accessed by column name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CsvRow<'a> {
    file: &'a str,
    pub(crate) line: u64,
    header: &'a [String],
    record: &'a csv::StringRecord,
}

impl CsvSource {
    /// Reads the header.
    pub(crate) fn open(mut lines: Lines, columns: Columns) -> Result<Self, TraceError> {
        let mut record = csv::StringRecord::new();
        let mut number = 1;
        let file = lines.file.clone();
        if let Some(line) = lines.next_line()? {
            number = line.number;
            split_cells(&file, line, &mut record)?;
        }
        let header: Vec<String> = record.iter().map(str::to_owned).collect();
        if let Err(problem) = check_header(&header, columns) {
            return Err(TraceError::in_line(&file, number, problem.found, &problem.allowed));
        }
        Ok(Self { lines, header, record })
    }

    /// A file that begins with its first row.
    pub(crate) fn without_header(lines: Lines, names: &[&str]) -> Self {
        let header = names.iter().map(|name| (*name).to_owned()).collect();
        Self { lines, header, record: csv::StringRecord::new() }
    }

    /// The next row.
    pub(crate) fn next_row(&mut self) -> Result<Option<CsvRow<'_>>, TraceError> {
        let Self { lines, header, record } = self;
        let file = lines.file.clone();
        let Some(line) = lines.next_line()? else { return Ok(None) };
        let number = line.number;
        split_cells(&file, line, record)?;
        if record.len() != header.len() {
            let found = format!("{} values", record.len());
            let allowed = format!("{} as in the header", header.len());
            return Err(TraceError::in_line(&file, number, found, &allowed));
        }
        Ok(Some(CsvRow { file: &lines.file, line: number, header, record }))
    }
}

/// Splits a line into its cells, without blanks around them.
fn split_cells(
    file: &str,
    line: Line<'_>,
    record: &mut csv::StringRecord,
) -> Result<(), TraceError> {
    record.clear();
    if !line.text.contains('"') {
        line.text.split(',').for_each(|cell| record.push_field(cell.trim()));
        return Ok(());
    }
    // An unclosed quote would swallow the rows below it.
    if line.text.matches('"').count() % 2 == 1 {
        let found = "a quote that this line does not close".to_owned();
        return Err(TraceError::in_line(file, line.number, found, "one row a line"));
    }
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(line.text.as_bytes());
    let read = reader.read_record(record).map(drop);
    read.map_err(|error| TraceError::in_line(file, line.number, error.to_string(), "a row of CSV"))
}

/// What is wrong with a header.
struct HeaderProblem {
    found: String,
    allowed: String,
}

/// Checks that every column is known, unique and, if required, present.
fn check_header(header: &[String], columns: Columns) -> Result<(), HeaderProblem> {
    let Columns { required, optional, others } = columns;
    let known = [required, optional].concat();
    let problem = |found: String, allowed: String| Err(HeaderProblem { found, allowed });
    if header.is_empty() {
        let allowed = format!("a header of {}", known.join(", "));
        return problem("an empty file".to_owned(), allowed);
    }
    let is_here = |name: &&&str| header.iter().any(|column| column == **name);
    let missing: Vec<&str> = required.iter().filter(|name| !is_here(name)).copied().collect();
    if !missing.is_empty() {
        let found = format!("the columns {} without {}", header.join(", "), missing.join(", "));
        let near = header.iter().filter(|name| !known.contains(&name.as_str()));
        let near = near.map(|name| did_you_mean(name, &missing)).find(|near| !near.is_empty());
        return problem(found, known.join(", ") + near.as_deref().unwrap_or_default());
    }
    let strange = header.iter().find(|name| !known.contains(&name.as_str()));
    if let Some(strange) = strange.filter(|_| others == OtherColumns::Rejected) {
        let allowed = known.join(", ") + &did_you_mean(strange, &known);
        return problem(format!("the column {strange:?}"), allowed);
    }
    let mut numbered = header.iter().enumerate();
    match numbered.find(|(at, name)| header.iter().take(*at).any(|before| before == *name)) {
        Some((_, name)) => {
            problem(format!("the column {name} again"), "each column once".to_owned())
        }
        None => Ok(()),
    }
}

impl<'a> CsvRow<'a> {
    /// The text in a column; empty when there is no such column.
    pub(crate) fn text(&self, column: &str) -> &'a str {
        let at = self.header.iter().position(|name| name == column);
        at.and_then(|at| self.record.get(at)).unwrap_or_default()
    }

    pub(crate) fn error(&self, column: &str, allowed: &str) -> TraceError {
        let found = match self.text(column) {
            "" => "nothing".to_owned(),
            text => format!("{text:?}"),
        };
        TraceError {
            column: column.to_owned(),
            ..TraceError::in_line(self.file, self.line, found, allowed)
        }
    }

    pub(crate) fn name(&self, column: &str, bound: NameLimit) -> Result<&'a str, TraceError> {
        let name = self.text(column);
        if bound.is_valid_name(name) {
            Ok(name)
        } else {
            Err(self.error(column, &bound.to_string()))
        }
    }

    /// The GPU models in a column, separated by `separator`; possibly none.
    pub(crate) fn models<T: for<'t> From<&'t str>>(
        &self,
        column: &str,
        separator: Option<char>,
    ) -> Result<Vec<T>, TraceError> {
        let text = self.text(column);
        let models = text.split(|c| Some(c) == separator).filter(|model| !model.is_empty());
        let model = |model: &str| limits::is_valid_model(model).then(|| T::from(model));
        let models: Option<Vec<T>> = models.map(model).collect();
        models.ok_or_else(|| self.error(column, limits::ALLOWED_MODEL))
    }

    pub(crate) fn count(&self, column: &str, bound: IntRange) -> Result<u64, TraceError> {
        let count = self.optional_count(column, bound)?;
        count.ok_or_else(|| self.error(column, &bound.to_string()))
    }

    pub(crate) fn optional_count(
        &self,
        column: &str,
        bound: IntRange,
    ) -> Result<Option<u64>, TraceError> {
        self.optional(column, &bound.to_string(), |count| bound.contains(*count))
    }

    /// A count that may be written as a fraction, as pandas writes columns with gaps: `8.0`. An
    /// empty cell is 0.
    pub(crate) fn loose_count(&self, column: &str, bound: IntRange) -> Result<u64, TraceError> {
        let is_whole = |number: &f64| number.fract() == 0.0 && bound.contains_fraction(*number);
        let number = self.optional(column, &bound.to_string(), is_whole)?;
        Ok(number.map_or(0, to_count))
    }

    /// A number from 0 to that of the range; 0 if the cell is empty.
    pub(crate) fn amount(&self, column: &str, bound: IntRange) -> Result<f64, TraceError> {
        let fits = |number: &f64| bound.contains_fraction(*number);
        let allowed = format!("a number {}", bound.limits());
        Ok(self.optional::<f64>(column, &allowed, fits)?.unwrap_or_default())
    }

    /// Seconds in a column, if it is not empty.
    pub(crate) fn seconds(&self, column: &str) -> Result<Option<f64>, TraceError> {
        let fits = |secs: &f64| SECS_RANGE.contains_fraction(*secs);
        self.optional(column, limits::ALLOWED_SECS, fits)
    }

    /// The time in a column, in seconds since 1970, if it is not empty: with an offset, or in UTC.
    pub(crate) fn time(&self, column: &str) -> Result<Option<f64>, TraceError> {
        let text = self.text(column);
        if is_no_time(text) {
            return Ok(None);
        }
        parse_time(text).map(Some).ok_or_else(|| self.error(column, ALLOWED_TIME))
    }

    /// The parsed value of a column, if it is not empty.
    pub(crate) fn optional<T: FromStr>(
        &self,
        column: &str,
        allowed: &str,
        fits: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, TraceError> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        let parsed = text.parse().ok().filter(fits);
        parsed.map(Some).ok_or_else(|| self.error(column, allowed))
    }
}

/// Which times a column of times may have.
pub(crate) const ALLOWED_TIME: &str =
    "a time such as 2023-03-01 00:18:22+08:00 or 2023-03-01 00:18:22";

/// Whether a text is how tools write that there is no time.
pub(crate) fn is_no_time(text: &str) -> bool {
    matches!(text, "" | "None" | "NaT" | "nan" | "NaN" | "Unknown")
}

/// A time in seconds since 1970: with an offset, or in UTC.
pub(crate) fn parse_time(text: &str) -> Option<f64> {
    let at: Option<Timestamp> = text.parse().ok();
    let at = at.or_else(|| {
        let civil: DateTime = text.parse().ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })?;
    let secs = u64::try_from(at.as_millisecond()).ok()?;
    Some(to_f64(secs) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_an_offset_or_are_in_utc() {
        assert_eq!(parse_time("1970-01-02 00:00:10"), Some(86_410.0));
        assert_eq!(parse_time("1970-01-02 08:00:10+08:00"), Some(86_410.0));
        assert_eq!(parse_time("1970-01-02T00:00:10.5Z"), Some(86_410.5));
        assert_eq!(parse_time("yesterday"), None);
    }
}
