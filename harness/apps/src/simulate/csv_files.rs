//! Parses traces in CSV with a header: the columns of Alibaba's openb trace and an optional `queue`
//! column. An invalid row is one error with file, line and column.

use std::{path::Path, str::FromStr};

use super::{
    limits::{
        self, CPU_MILLI, GPU_MILLI, GPUS, IntRange, JOB_NAME, MEMORY_MIB, NODE_NAME, NameLimit,
        QUEUE_NAME, SECS,
    },
    trace::{JobEnd, TraceError, TraceJob, TraceNode, TraceQueue},
};

/// Names of the required and of the optional columns of a file.
type Columns = (&'static [&'static str], &'static [&'static str]);

const NODES: Columns = (&["sn", "cpu_milli", "memory_mib", "gpu"], &["model"]);
/// openb's `qos` and `pod_phase` are accepted and ignored.
const JOBS: Columns = (
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
const QUEUES: Columns = (&["name", "quota"], &["parent", "weight", "limit", "priority"]);

/// A parsed CSV file.
struct Table {
    file: String,
    header: csv::StringRecord,
    rows: Vec<csv::StringRecord>,
}

/// One row, accessed by column name.
struct Row<'a> {
    table: &'a Table,
    record: &'a csv::StringRecord,
}

pub(super) fn nodes(path: &Path) -> Result<Vec<TraceNode>, TraceError> {
    let table = Table::parse(path, NODES)?;
    let node = |row: Row<'_>| {
        Ok(TraceNode {
            line: line(row.record),
            name: row.name("sn", NODE_NAME)?,
            cpu_milli: row.count("cpu_milli", CPU_MILLI.at_least_one())?,
            memory_mib: row.count("memory_mib", MEMORY_MIB.at_least_one())?,
            gpus: row.count("gpu", GPUS)?,
            model: row.models("model", None)?.concat(),
        })
    };
    table.rows().map(node).collect()
}

/// Run time is deletion minus start; a pod that never was scheduled is removed at its deletion
/// time. Without times (a list of pods, not a trace) all pods arrive at once and stay.
pub(super) fn jobs(path: &Path) -> Result<Vec<TraceJob>, TraceError> {
    let table = Table::parse(path, JOBS)?;
    table.rows().map(|row| job(&row)).collect()
}

fn job(row: &Row<'_>) -> Result<TraceJob, TraceError> {
    let gpus = row.count("num_gpu", GPUS)?;
    let share = row.count("gpu_milli", GPU_MILLI)?;
    let allowed = match (gpus, share) {
        (0, 0) | (1, 1..) | (2.., 1000) => None,
        (0, _) => Some("0, as it has no GPU"),
        (1, _) => Some("a whole number from 1 to 1000, a whole GPU"),
        (2.., _) => Some("1000, as it has several GPUs"),
    };
    if let Some(allowed) = allowed {
        return Err(row.error("gpu_milli", allowed));
    }
    let (arrives, end) = times(row)?;
    Ok(TraceJob {
        line: line(row.record),
        name: row.name("name", JOB_NAME)?,
        pods: 1,
        cpu_milli: row.count("cpu_milli", CPU_MILLI)?,
        memory_mib: row.count("memory_mib", MEMORY_MIB)?,
        gpus,
        gpu_milli: if gpus == 1 { share } else { gpus.saturating_mul(1000) },
        models: row.models("gpu_spec", Some('|'))?,
        queue: row.text("queue").to_owned(),
        priority_class: row.text("priority_class").to_owned(),
        arrives_secs: arrives,
        end,
    })
}

/// Arrival in seconds, and the end of the job.
fn times(row: &Row<'_>) -> Result<(f64, JobEnd), TraceError> {
    let created = row.optional_count("creation_time", SECS)?.unwrap_or(0);
    let scheduled = row.optional_count("scheduled_time", SECS)?;
    let deleted = row.optional_count("deletion_time", SECS)?;
    if scheduled.is_some_and(|scheduled| scheduled < created) {
        return Err(row.error("scheduled_time", "a time that is not before creation_time"));
    }
    let since = |start: u64, end: u64| {
        let allowed = "a time that is not before creation_time and scheduled_time";
        let secs = end.checked_sub(start).map(seconds);
        secs.ok_or_else(|| row.error("deletion_time", allowed))
    };
    let end = match (scheduled, deleted) {
        (Some(start), Some(end)) => JobEnd::RunsSecs(since(start, end)?),
        (None, Some(end)) => JobEnd::LeavesAfterSecs(since(created, end)?),
        (Some(_) | None, None) => JobEnd::Never,
    };
    Ok((seconds(created), end))
}

pub(super) fn queues(path: &Path) -> Result<Vec<TraceQueue>, TraceError> {
    let table = Table::parse(path, QUEUES)?;
    let queue = |row: Row<'_>| {
        Ok(TraceQueue {
            line: line(row.record),
            name: row.name("name", QUEUE_NAME)?,
            parent: row.text("parent").to_owned(),
            quota: row.amount("quota", 0.0)?,
            weight: row.weight("weight")?,
            limit: row.amount("limit", -1.0)?,
            priority: row.priority("priority")?,
        })
    };
    table.rows().map(queue).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a trace's seconds are far below 2^52")]
fn seconds(count: u64) -> f64 {
    count as f64
}

impl Table {
    fn parse(path: &Path, columns: Columns) -> Result<Self, TraceError> {
        let file = path.display().to_string();
        let whole = |found: String, allowed: &str| TraceError {
            file: file.clone(),
            line: 0,
            column: String::new(),
            found,
            allowed: allowed.to_owned(),
        };
        let text = schedlab_conformance::text::read(path)
            .map_err(|error| TraceError::unreadable(path, &error, "a CSV file that can be read"))?;
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
                let line = line(&record);
                return Err(TraceError { line, ..whole(found, &allowed) });
            }
            rows.push(record);
        }
        Ok(Self { file, header, rows })
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|record| Row { table: self, record })
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

fn line(record: &csv::StringRecord) -> u64 {
    record.position().map_or(0, csv::Position::line)
}

impl Row<'_> {
    /// The text in a column; empty when there is no such column.
    fn text(&self, column: &str) -> &str {
        let at = self.table.header.iter().position(|name| name == column);
        at.and_then(|at| self.record.get(at)).unwrap_or_default()
    }

    fn name(&self, column: &str, bound: NameLimit) -> Result<String, TraceError> {
        let name = self.text(column);
        if bound.is_valid(name) {
            Ok(name.to_owned())
        } else {
            Err(self.error(column, &bound.to_string()))
        }
    }

    /// GPU models separated by `between`; possibly none.
    fn models(&self, column: &str, between: Option<char>) -> Result<Vec<String>, TraceError> {
        let text = self.text(column);
        let models = text.split(|c| Some(c) == between).filter(|model| !model.is_empty());
        let model = |model: &str| limits::is_model(model).then(|| model.to_owned());
        let models: Option<Vec<String>> = models.map(model).collect();
        models.ok_or_else(|| self.error(column, limits::MODEL))
    }

    fn count(&self, column: &str, bound: IntRange) -> Result<u64, TraceError> {
        let count = self.optional_count(column, bound)?;
        count.ok_or_else(|| self.error(column, &bound.to_string()))
    }

    fn optional_count(&self, column: &str, bound: IntRange) -> Result<Option<u64>, TraceError> {
        self.parsed(column, &bound.to_string(), |count| bound.contains(*count))
    }

    fn amount(&self, column: &str, otherwise: f64) -> Result<f64, TraceError> {
        let amount = self.parsed(column, limits::AMOUNT, |amount| limits::is_amount(*amount))?;
        Ok(amount.unwrap_or(otherwise))
    }

    fn weight(&self, column: &str) -> Result<f64, TraceError> {
        let weight = self.parsed(column, limits::WEIGHT, |weight| limits::is_weight(*weight))?;
        Ok(weight.unwrap_or(1.0))
    }

    fn priority(&self, column: &str) -> Result<i64, TraceError> {
        let priority = self.parsed::<i32>(column, limits::PRIORITY, |_| true)?;
        Ok(priority.map_or(100, i64::from))
    }

    /// The parsed value of a column, if it is not empty.
    fn parsed<T: FromStr>(
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

    fn error(&self, column: &str, allowed: &str) -> TraceError {
        let found = match self.text(column) {
            "" => "nothing".to_owned(),
            text => format!("{text:?}"),
        };
        TraceError {
            file: self.table.file.clone(),
            line: line(self.record),
            column: column.to_owned(),
            found,
            allowed: allowed.to_owned(),
        }
    }
}
