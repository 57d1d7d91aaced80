//! Parses traces in CSV with a header: the columns of Alibaba's openb trace and an optional `queue`
//! column. An invalid row is one error with file, line and column.

use std::{path::Path, str::FromStr};

use super::{
    limits::{
        self, CPU_MILLI_RANGE, GPU_MILLI_RANGE, GPUS_RANGE, IntRange, JOB_NAME_LIMIT,
        MEMORY_MIB_RANGE, NODE_NAME_LIMIT, NameLimit, QUEUE_NAME_LIMIT, SECS_RANGE,
    },
    trace::{JobEnd, TraceError, TraceJob, TraceNode, TraceQueue},
};

/// Names of the required and of the optional columns of a file.
type Columns = (&'static [&'static str], &'static [&'static str]);

const NODE_COLUMNS: Columns = (&["sn", "cpu_milli", "memory_mib", "gpu"], &["model"]);
/// Columns of a file of pods. openb's `qos` and `pod_phase` are accepted and ignored.
const POD_COLUMNS: Columns = (
    &["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"],
    &[
        "gpu_spec",
        "qos",
        "pod_phase",
        "creation_time",
        "deletion_time",
        "scheduled_time",
        "queue",
        "priority_class",
    ],
);
const QUEUE_COLUMNS: Columns = (&["name", "quota"], &["parent", "weight", "limit", "priority"]);

/// A parsed CSV file.
struct CsvTable {
    file: String,
    header: csv::StringRecord,
    rows: Vec<csv::StringRecord>,
}

/// One row, accessed by column name.
struct CsvRow<'a> {
    table: &'a CsvTable,
    record: &'a csv::StringRecord,
}

pub(super) fn read_nodes(path: &Path) -> Result<Vec<TraceNode>, TraceError> {
    let table = CsvTable::parse(path, NODE_COLUMNS)?;
    let node = |row: CsvRow<'_>| {
        Ok(TraceNode {
            line: line_number(row.record),
            name: row.parse_name("sn", NODE_NAME_LIMIT)?,
            cpu_milli: row.parse_count("cpu_milli", CPU_MILLI_RANGE.at_least_one())?,
            memory_mib: row.parse_count("memory_mib", MEMORY_MIB_RANGE.at_least_one())?,
            gpus: row.parse_count("gpu", GPUS_RANGE)?,
            model: row.parse_models("model", None)?.concat(),
        })
    };
    table.rows().map(node).collect()
}

/// Reads a file of pods, each as a job. A job's run time is its deletion time minus its start time;
/// a pod that was never scheduled is removed at its deletion time. Without times (in a list of
/// pods, not a trace) all pods arrive at once and stay.
pub(super) fn read_jobs(path: &Path) -> Result<Vec<TraceJob>, TraceError> {
    let table = CsvTable::parse(path, POD_COLUMNS)?;
    table.rows().map(|row| parse_job(&row)).collect()
}

fn parse_job(row: &CsvRow<'_>) -> Result<TraceJob, TraceError> {
    let gpus = row.parse_count("num_gpu", GPUS_RANGE)?;
    let share = row.parse_count("gpu_milli", GPU_MILLI_RANGE)?;
    let allowed = match (gpus, share) {
        (0, 0) | (1, 1..) | (2.., 1000) => None,
        (0, _) => Some("0, as it has no GPU"),
        (1, _) => Some("a whole number from 1 to 1000, a whole GPU"),
        (2.., _) => Some("1000, as it has several GPUs"),
    };
    if let Some(allowed) = allowed {
        return Err(row.cell_error("gpu_milli", allowed));
    }
    let (arrives, end) = parse_times(row)?;
    Ok(TraceJob {
        line: line_number(row.record),
        name: row.parse_name("name", JOB_NAME_LIMIT)?,
        pods: 1,
        cpu_milli: row.parse_count("cpu_milli", CPU_MILLI_RANGE)?,
        memory_mib: row.parse_count("memory_mib", MEMORY_MIB_RANGE)?,
        gpus,
        gpu_milli: if gpus == 1 { share } else { gpus.saturating_mul(1000) },
        models: row.parse_models("gpu_spec", Some('|'))?,
        queue: row.cell_text("queue").to_owned(),
        priority_class: row.cell_text("priority_class").to_owned(),
        arrives_secs: arrives,
        end,
    })
}

/// When a job arrives, in seconds, and how it ends.
fn parse_times(row: &CsvRow<'_>) -> Result<(f64, JobEnd), TraceError> {
    let created = row.parse_optional_count("creation_time", SECS_RANGE)?.unwrap_or(0);
    let scheduled = row.parse_optional_count("scheduled_time", SECS_RANGE)?;
    let deleted = row.parse_optional_count("deletion_time", SECS_RANGE)?;
    if scheduled.is_some_and(|scheduled| scheduled < created) {
        return Err(row.cell_error("scheduled_time", "a time that is not before creation_time"));
    }
    let since = |start: u64, end: u64| {
        let allowed = "a time that is not before creation_time and scheduled_time";
        let secs = end.checked_sub(start).map(seconds);
        secs.ok_or_else(|| row.cell_error("deletion_time", allowed))
    };
    let end = match (scheduled, deleted) {
        (Some(start), Some(end)) => JobEnd::RunsSecs(since(start, end)?),
        (None, Some(end)) => JobEnd::LeavesAfterSecs(since(created, end)?),
        (Some(_) | None, None) => JobEnd::Never,
    };
    Ok((seconds(created), end))
}

pub(super) fn read_queues(path: &Path) -> Result<Vec<TraceQueue>, TraceError> {
    let table = CsvTable::parse(path, QUEUE_COLUMNS)?;
    let queue = |row: CsvRow<'_>| {
        Ok(TraceQueue {
            line: line_number(row.record),
            name: row.parse_name("name", QUEUE_NAME_LIMIT)?,
            parent: row.cell_text("parent").to_owned(),
            quota: row.parse_amount("quota", 0.0)?,
            weight: row.parse_weight("weight")?,
            limit: row.parse_amount("limit", -1.0)?,
            priority: row.parse_priority("priority")?,
        })
    };
    table.rows().map(queue).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a trace's seconds are far below 2^52")]
fn seconds(count: u64) -> f64 {
    count as f64
}

impl CsvTable {
    fn parse(path: &Path, columns: Columns) -> Result<Self, TraceError> {
        let file = path.display().to_string();
        let whole = |found: String, allowed: &str| TraceError {
            file: file.clone(),
            line: 0,
            column: String::new(),
            found,
            allowed: allowed.to_owned(),
        };
        let text = schedlab_conformance::text::read_text_file(path).map_err(|error| {
            TraceError::from_unreadable_file(path, &error, "a CSV file that can be read")
        })?;
        // An unclosed quote would swallow the rows below it.
        if let Some(above) = text.lines().position(|row| row.matches('"').count() % 2 == 1) {
            let found = "a quote that this line does not close".to_owned();
            return Err(TraceError { line: above as u64 + 1, ..whole(found, "one row a line") });
        }
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let header = reader.headers().map_err(|error| whole(error.to_string(), "a header line"))?;
        let header = header.clone();
        if let Err((found, allowed)) = check_header(&header, columns) {
            return Err(TraceError { line: 1, ..whole(found, &allowed) });
        }
        let mut rows = Vec::new();
        for record in reader.into_records() {
            let record = record.map_err(|error| whole(error.to_string(), "UTF-8 text"))?;
            if record.len() != header.len() {
                let found = format!("{} values", record.len());
                let allowed = format!("{} as in the header", header.len());
                let line = line_number(&record);
                return Err(TraceError { line, ..whole(found, &allowed) });
            }
            rows.push(record);
        }
        Ok(Self { file, header, rows })
    }

    fn rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        self.rows.iter().map(|record| CsvRow { table: self, record })
    }
}

/// Checks that every column is known, unique and, if required, present. The error is a pair: what
/// was found, and what was expected.
fn check_header(header: &csv::StringRecord, columns: Columns) -> Result<(), (String, String)> {
    let (required, optional) = columns;
    let here: Vec<&str> = header.iter().collect();
    let known = [required, optional].concat();
    if here.is_empty() {
        return Err(("an empty file".to_owned(), format!("a header of {}", known.join(", "))));
    }
    let missing: Vec<&str> = required.iter().filter(|name| !here.contains(name)).copied().collect();
    if !missing.is_empty() {
        let found = format!("the columns {} without {}", here.join(", "), missing.join(", "));
        return Err((found, known.join(", ")));
    }
    if let Some(strange) = here.iter().find(|name| !known.contains(name)) {
        return Err((format!("the column {strange:?}"), known.join(", ")));
    }
    let twice = |(at, name): (usize, &&str)| here[..at].contains(name).then(|| (*name).to_owned());
    match here.iter().enumerate().find_map(twice) {
        Some(name) => Err((format!("the column {name} again"), "each column once".to_owned())),
        None => Ok(()),
    }
}

fn line_number(record: &csv::StringRecord) -> u64 {
    record.position().map_or(0, csv::Position::line)
}

impl CsvRow<'_> {
    /// The text in a column; empty when there is no such column.
    fn cell_text(&self, column: &str) -> &str {
        let at = self.table.header.iter().position(|name| name == column);
        at.and_then(|at| self.record.get(at)).unwrap_or_default()
    }

    fn parse_name(&self, column: &str, bound: NameLimit) -> Result<String, TraceError> {
        let name = self.cell_text(column);
        if bound.is_valid_name(name) {
            Ok(name.to_owned())
        } else {
            Err(self.cell_error(column, &bound.to_string()))
        }
    }

    /// The GPU models in a column, separated by `separator`; possibly none.
    fn parse_models(
        &self,
        column: &str,
        separator: Option<char>,
    ) -> Result<Vec<String>, TraceError> {
        let text = self.cell_text(column);
        let models = text.split(|c| Some(c) == separator).filter(|model| !model.is_empty());
        let model = |model: &str| limits::is_valid_model(model).then(|| model.to_owned());
        let models: Option<Vec<String>> = models.map(model).collect();
        models.ok_or_else(|| self.cell_error(column, limits::ALLOWED_MODEL))
    }

    fn parse_count(&self, column: &str, bound: IntRange) -> Result<u64, TraceError> {
        let count = self.parse_optional_count(column, bound)?;
        count.ok_or_else(|| self.cell_error(column, &bound.to_string()))
    }

    fn parse_optional_count(
        &self,
        column: &str,
        bound: IntRange,
    ) -> Result<Option<u64>, TraceError> {
        self.parse_optional(column, &bound.to_string(), |count| bound.contains(*count))
    }

    fn parse_amount(&self, column: &str, otherwise: f64) -> Result<f64, TraceError> {
        let amount = self.parse_optional(column, limits::ALLOWED_AMOUNT, |amount| {
            limits::is_valid_amount(*amount)
        })?;
        Ok(amount.unwrap_or(otherwise))
    }

    fn parse_weight(&self, column: &str) -> Result<f64, TraceError> {
        let weight = self.parse_optional(column, limits::ALLOWED_WEIGHT, |weight| {
            limits::is_valid_weight(*weight)
        })?;
        Ok(weight.unwrap_or(1.0))
    }

    fn parse_priority(&self, column: &str) -> Result<i64, TraceError> {
        let priority = self.parse_optional::<i32>(column, limits::ALLOWED_PRIORITY, |_| true)?;
        Ok(priority.map_or(100, i64::from))
    }

    /// The parsed value of a column, if it is not empty.
    fn parse_optional<T: FromStr>(
        &self,
        column: &str,
        allowed: &str,
        fits: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, TraceError> {
        let text = self.cell_text(column);
        if text.is_empty() {
            return Ok(None);
        }
        let parsed = text.parse().ok().filter(fits);
        parsed.map(Some).ok_or_else(|| self.cell_error(column, allowed))
    }

    fn cell_error(&self, column: &str, allowed: &str) -> TraceError {
        let found = match self.cell_text(column) {
            "" => "nothing".to_owned(),
            text => format!("{text:?}"),
        };
        TraceError {
            file: self.table.file.clone(),
            line: line_number(self.record),
            column: column.to_owned(),
            found,
            allowed: allowed.to_owned(),
        }
    }
}
