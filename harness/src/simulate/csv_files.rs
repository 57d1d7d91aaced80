//! Traces as CSV with a header: the columns of Alibaba's openb trace, and a `queue` column where
//! there is one. A row that cannot be read is one message with file, line and column.

use std::path::Path;

use super::trace::{End, Fault, TraceJob, TraceNode, TraceQueue};

/// A file's text with its header, ready to be read row by row.
struct Table {
    file: String,
    header: csv::StringRecord,
    rows: Vec<csv::StringRecord>,
}

/// One row, by column names.
struct Row<'a> {
    table: &'a Table,
    record: &'a csv::StringRecord,
}

pub(super) fn nodes(path: &Path) -> Result<Vec<TraceNode>, Fault> {
    let table = Table::read(path, &["sn", "cpu_milli", "memory_mib", "gpu"])?;
    let node = |row: Row<'_>| {
        Ok(TraceNode {
            line: line(row.record),
            name: row.name("sn")?,
            cpu_milli: row.count("cpu_milli")?,
            memory_mib: row.count("memory_mib")?,
            gpus: row.count("gpu")?,
            model: row.text("model").to_owned(),
        })
    };
    table.rows().map(node).collect()
}

/// Run time is deletion minus start; what never was scheduled vanishes at its deletion. Without
/// times (a list of pods, not a trace) everything comes at once and stays.
pub(super) fn jobs(path: &Path) -> Result<Vec<TraceJob>, Fault> {
    let table = Table::read(path, &["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"])?;
    table.rows().map(|row| job(&row)).collect()
}

fn job(row: &Row<'_>) -> Result<TraceJob, Fault> {
    let gpus = row.count("num_gpu")?;
    let share = row.count("gpu_milli")?;
    if share > 1000 {
        return Err(row.fault("gpu_milli", "at most 1000, a whole GPU"));
    }
    let arrives = row.optional_count("creation_time")?.unwrap_or(0);
    let deleted = row.optional_count("deletion_time")?;
    let scheduled = row.optional_count("scheduled_time")?;
    let since = |start: u64, end: u64| {
        let secs = end.checked_sub(start).map(seconds);
        secs.ok_or_else(|| row.fault("deletion_time", "a time that is not before the start"))
    };
    let end = match (scheduled, deleted) {
        (Some(start), Some(end)) => End::RunsSecs(since(start, end)?),
        (None, Some(end)) => End::LeavesAfterSecs(since(arrives, end)?),
        (Some(_) | None, None) => End::Never,
    };
    Ok(TraceJob {
        line: line(row.record),
        name: row.name("name")?,
        pods: 1,
        cpu_milli: row.count("cpu_milli")?,
        memory_mib: row.count("memory_mib")?,
        gpus,
        gpu_milli: if gpus == 1 { share } else { gpus.saturating_mul(1000) },
        models: row
            .text("gpu_spec")
            .split('|')
            .filter(|model| !model.is_empty())
            .map(str::to_owned)
            .collect(),
        queue: row.text("queue").to_owned(),
        priority_class: row.text("priority_class").to_owned(),
        arrives_secs: seconds(arrives),
        end,
    })
}

pub(super) fn queues(path: &Path) -> Result<Vec<TraceQueue>, Fault> {
    let table = Table::read(path, &["name", "quota"])?;
    let queue = |row: Row<'_>| {
        Ok(TraceQueue {
            line: line(row.record),
            name: row.name("name")?,
            parent: row.text("parent").to_owned(),
            quota: row.amount("quota", 0.0)?,
            weight: row.amount("weight", 1.0)?,
            limit: row.amount("limit", -1.0)?,
            priority: row.optional_count("priority")?.map_or(100, super::signed),
        })
    };
    table.rows().map(queue).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a trace's seconds are far below 2^52")]
fn seconds(count: u64) -> f64 {
    count as f64
}

impl Table {
    fn read(path: &Path, required: &[&str]) -> Result<Self, Fault> {
        let file = path.display().to_string();
        let whole = |found: String, allowed: &str| Fault {
            file: file.clone(),
            line: 0,
            column: String::new(),
            found,
            allowed: allowed.to_owned(),
        };
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .trim(csv::Trim::All)
            .from_path(path)
            .map_err(|error| whole(error.to_string(), "a CSV file that can be read"))?;
        let header = reader.headers().map_err(|error| whole(error.to_string(), "a header line"))?;
        let header = header.clone();
        if let Some(missing) = required.iter().find(|name| !header.iter().any(|h| h == **name)) {
            let found = format!("the columns {}", header.iter().collect::<Vec<_>>().join(", "));
            return Err(Fault { line: 1, ..whole(found, &format!("a header with {missing}")) });
        }
        let mut rows = Vec::new();
        for record in reader.into_records() {
            let record = record.map_err(|error| whole(error.to_string(), "UTF-8 text"))?;
            if record.len() != header.len() {
                let found = format!("{} values", record.len());
                let allowed = format!("{} as in the header", header.len());
                let line = line(&record);
                return Err(Fault { line, ..whole(found, &allowed) });
            }
            rows.push(record);
        }
        Ok(Self { file, header, rows })
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|record| Row { table: self, record })
    }
}

fn line(record: &csv::StringRecord) -> u64 {
    record.position().map_or(0, csv::Position::line)
}

impl Row<'_> {
    /// What stands in a column, or nothing where there is no such column.
    fn text(&self, column: &str) -> &str {
        let at = self.table.header.iter().position(|name| name == column);
        at.and_then(|at| self.record.get(at)).unwrap_or_default()
    }

    fn name(&self, column: &str) -> Result<String, Fault> {
        let name = self.text(column);
        if super::is_name(name) {
            Ok(name.to_owned())
        } else {
            Err(self.fault(column, super::NAME))
        }
    }

    fn count(&self, column: &str) -> Result<u64, Fault> {
        self.optional_count(column)?.ok_or_else(|| self.fault(column, super::COUNT))
    }

    fn optional_count(&self, column: &str) -> Result<Option<u64>, Fault> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        let count = text.parse::<u64>().ok().filter(|count| *count <= super::COUNT_MAX);
        count.map(Some).ok_or_else(|| self.fault(column, super::COUNT))
    }

    fn amount(&self, column: &str, otherwise: f64) -> Result<f64, Fault> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(otherwise);
        }
        let amount = text.parse::<f64>().ok().filter(|amount| super::is_amount(*amount));
        amount.ok_or_else(|| self.fault(column, super::AMOUNT))
    }

    fn fault(&self, column: &str, allowed: &str) -> Fault {
        let found = match self.text(column) {
            "" => "nothing".to_owned(),
            text => format!("{text:?}"),
        };
        Fault {
            file: self.table.file.clone(),
            line: line(self.record),
            column: column.to_owned(),
            found,
            allowed: allowed.to_owned(),
        }
    }
}
