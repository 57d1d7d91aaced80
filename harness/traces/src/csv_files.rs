//! Nodes and queues in CSV, one row each.

use std::path::Path;

use crate::{
    csv_source::{CsvRow, CsvSource},
    error::TraceError,
    fleet::{TraceNode, TraceQueue},
    format::{Columns, OtherColumns},
    limits::{
        self, CPU_MILLI_RANGE, GPUS_RANGE, MEMORY_MIB_RANGE, NODE_NAME_LIMIT, QUEUE_NAME_LIMIT,
    },
    lines,
};

const NODE_COLUMNS: Columns = Columns {
    required: &["sn", "cpu_milli", "memory_mib", "gpu"],
    optional: &["model"],
    others: OtherColumns::Rejected,
};
const QUEUE_COLUMNS: Columns = Columns {
    required: &["name", "quota"],
    optional: &["parent", "weight", "limit", "priority"],
    others: OtherColumns::Rejected,
};

/// Reads nodes in CSV with the columns of openb.
///
/// # Errors
/// The file cannot be read, or a row is invalid.
pub fn read_nodes(path: &Path) -> Result<Vec<TraceNode>, TraceError> {
    read_rows(path, NODE_COLUMNS, |row| {
        let models: Vec<String> = row.models("model", None)?;
        Ok(TraceNode {
            line: row.line,
            name: row.name("sn", NODE_NAME_LIMIT)?.to_owned(),
            cpu_milli: row.count("cpu_milli", CPU_MILLI_RANGE.at_least_one())?,
            memory_mib: row.count("memory_mib", MEMORY_MIB_RANGE.at_least_one())?,
            gpus: row.count("gpu", GPUS_RANGE)?,
            model: models.concat(),
        })
    })
}

/// Reads queues in CSV.
///
/// # Errors
/// The file cannot be read, or a row is invalid.
pub fn read_queues(path: &Path) -> Result<Vec<TraceQueue>, TraceError> {
    read_rows(path, QUEUE_COLUMNS, |row| {
        let amount = |column, otherwise| {
            let fits = |amount: &f64| limits::is_valid_amount(*amount);
            row.optional(column, limits::ALLOWED_AMOUNT, fits).map(|at| at.unwrap_or(otherwise))
        };
        let fits = |weight: &f64| limits::is_valid_weight(*weight);
        let weight = row.optional("weight", limits::ALLOWED_WEIGHT, fits)?;
        let priority = row.optional::<i32>("priority", limits::ALLOWED_PRIORITY, |_| true)?;
        Ok(TraceQueue {
            line: row.line,
            name: row.name("name", QUEUE_NAME_LIMIT)?.to_owned(),
            parent: row.text("parent").to_owned(),
            quota: amount("quota", 0.0)?,
            weight: weight.unwrap_or(1.0),
            limit: amount("limit", -1.0)?,
            priority: priority.map_or(100, i64::from),
        })
    })
}

fn read_rows<T>(
    path: &Path,
    columns: Columns,
    parse: impl Fn(CsvRow<'_>) -> Result<T, TraceError>,
) -> Result<Vec<T>, TraceError> {
    let opened = lines::open(path, "a CSV file that can be read")?;
    let mut source = CsvSource::open(opened.lines, columns)?;
    let mut rows = Vec::new();
    while let Some(row) = source.next_row()? {
        rows.push(parse(row)?);
    }
    Ok(rows)
}
