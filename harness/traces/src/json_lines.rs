//! Parses traces in JSON lines, one object per line, in a format of our own:
//!
//! ```text
//! nodes   {"name": "n1", "gpus": 8, "model": "H100", "cpu_milli": 64000, "memory_mib": 524288}
//! queues  {"name": "research", "parent": "factory", "quota": 16, "weight": 1, "limit": -1, "priority": 100}
//! pods    {"name": "train", "pods": 4, "gpus": 8, "queue": "research", "priority_class": "train",
//!          "arrives_secs": 60, "runs_secs": 3600, "user": "ann", "kind": "training"}
//! ```
//!
//! A pod line with `pods` is a gang. `gpu_milli` below 1000 for each of its GPUs requests
//! fractions, `models` lists acceptable GPU models, and `leaves_after_secs` instead of `runs_secs`
//! removes the job this long after its arrival. `docs/reference/traces.md` documents all fields and
//! their defaults.

use std::path::Path;

use jiff::Timestamp;
use schedlab_api::{Value, plain_type_names};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use smol_str::SmolStr;

use crate::{
    error::{TraceError, did_you_mean},
    fleet::{TraceNode, TraceQueue},
    job::{JobEnd, TraceJob},
    limits::{
        self, CPU_MILLI_RANGE, GPUS_RANGE, IntRange, JOB_NAME_LIMIT, MEMORY_MIB_RANGE,
        NODE_NAME_LIMIT, NameLimit, PODS_RANGE, QUEUE_NAME_LIMIT, SECS_RANGE,
    },
    lines::{self, Line, Lines},
};

/// What the first line of a trace with dates says.
pub(crate) const FORMAT: &str = "schedlab.dev/trace/v1";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeLine {
    name: String,
    #[serde(default = "default_cpu_milli")]
    cpu_milli: u64,
    #[serde(default = "default_memory_mib")]
    memory_mib: u64,
    #[serde(default)]
    gpus: u64,
    #[serde(default)]
    model: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueLine {
    name: String,
    #[serde(default)]
    parent: String,
    quota: f64,
    #[serde(default = "default_weight")]
    weight: f64,
    #[serde(default = "default_limit")]
    limit: f64,
    #[serde(default = "default_priority")]
    priority: i64,
}

/// The first line of a trace whose arrivals have dates.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeaderLine {
    pub(crate) format: String,
    /// The time at which arrivals are 0.
    pub(crate) start: Timestamp,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobLine {
    pub(crate) name: SmolStr,
    #[serde(default = "default_pod_count", skip_serializing_if = "is_one")]
    pub(crate) pods: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) cpu_milli: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) memory_mib: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) gpus: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gpu_milli: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gpu_memory_mib: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) models: Vec<SmolStr>,
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub(crate) queue: SmolStr,
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub(crate) user: SmolStr,
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub(crate) kind: SmolStr,
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub(crate) priority_class: SmolStr,
    #[serde(default)]
    pub(crate) arrives_secs: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runs_secs: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) leaves_after_secs: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &u64) -> bool {
    *count == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn default_cpu_milli() -> u64 {
    128_000
}

fn default_memory_mib() -> u64 {
    1 << 20
}

fn default_weight() -> f64 {
    1.0
}

fn default_limit() -> f64 {
    -1.0
}

fn default_priority() -> i64 {
    100
}

fn default_pod_count() -> u64 {
    1
}

/// Reads nodes in JSON lines.
///
/// # Errors
/// The file cannot be read, or a line is invalid.
pub fn read_nodes(path: &Path) -> Result<Vec<TraceNode>, TraceError> {
    read_lines(path, |at, node: NodeLine| {
        let NodeLine { name, cpu_milli, memory_mib, gpus, model } = node;
        at.check_name(&name, NODE_NAME_LIMIT)?;
        at.check_model("model", &model)?;
        at.check_count("gpus", gpus, GPUS_RANGE)?;
        at.check_count("cpu_milli", cpu_milli, CPU_MILLI_RANGE.at_least_one())?;
        at.check_count("memory_mib", memory_mib, MEMORY_MIB_RANGE.at_least_one())?;
        Ok(TraceNode { line: at.line, name, cpu_milli, memory_mib, gpus, model })
    })
}

/// Reads queues in JSON lines.
///
/// # Errors
/// The file cannot be read, or a line is invalid.
pub fn read_queues(path: &Path) -> Result<Vec<TraceQueue>, TraceError> {
    read_lines(path, |at, queue: QueueLine| {
        let QueueLine { name, parent, quota, weight, limit, priority } = queue;
        at.check_name(&name, QUEUE_NAME_LIMIT)?;
        at.check_amount("quota", quota)?;
        at.check_amount("limit", limit)?;
        if !limits::is_valid_weight(weight) {
            return Err(at.field_error("weight", &number_text(weight), limits::ALLOWED_WEIGHT));
        }
        if i32::try_from(priority).is_err() {
            return Err(at.field_error(
                "priority",
                &priority.to_string(),
                limits::ALLOWED_PRIORITY,
            ));
        }
        Ok(TraceQueue { line: at.line, name, parent, quota, weight, limit, priority })
    })
}

/// Reads jobs, and when arrivals are 0 if the trace tells.
pub(crate) fn read_jobs(
    mut lines: Lines,
    record: &mut dyn FnMut(Result<TraceJob, TraceError>) -> Result<(), TraceError>,
) -> Result<Option<Timestamp>, TraceError> {
    let file = lines.file.clone();
    let mut start = None;
    let mut is_first = true;
    while let Some(line) = lines.next_line()? {
        if std::mem::take(&mut is_first) && line.text.contains("\"format\"") {
            start = Some(header_from_line(&file, line)?.start);
            continue;
        }
        record(
            parse_line(&file, line).and_then(|job| {
                job_from_line(&LineLocation { file: &file, line: line.number }, job)
            }),
        )?;
    }
    Ok(start)
}

fn header_from_line(file: &str, line: Line<'_>) -> Result<HeaderLine, TraceError> {
    let header: HeaderLine = parse_line(file, line)?;
    if header.format != FORMAT {
        let at = LineLocation { file, line: line.number };
        return Err(at.field_error("format", &format!("{:?}", header.format), FORMAT));
    }
    Ok(header)
}

/// Checks the values of a job.
pub(crate) fn job_from_line(
    location: &LineLocation<'_>,
    line: JobLine,
) -> Result<TraceJob, TraceError> {
    location.check_name(&line.name, JOB_NAME_LIMIT)?;
    location.check_time("arrives_secs", line.arrives_secs)?;
    location.check_count("pods", line.pods, PODS_RANGE)?;
    location.check_count("gpus", line.gpus, GPUS_RANGE)?;
    location.check_count("cpu_milli", line.cpu_milli, CPU_MILLI_RANGE)?;
    location.check_count("memory_mib", line.memory_mib, MEMORY_MIB_RANGE)?;
    line.models.iter().try_for_each(|model| location.check_model("models", model))?;
    location.check_gpu_memory(&line)?;
    let whole = line.gpus * 1000;
    if line.gpu_milli.is_some_and(|share| share == 0 || share > whole) {
        let found = line.gpu_milli.unwrap_or_default().to_string();
        return Err(location.field_error("gpu_milli", &found, "1 to 1000 for each of its GPUs"));
    }
    let end = match (line.runs_secs, line.leaves_after_secs) {
        (Some(_), Some(_)) => {
            return Err(location.field_error(
                "runs_secs",
                "leaves_after_secs beside it",
                "one of the two",
            ));
        }
        (Some(secs), None) => JobEnd::RunsSecs(location.check_time("runs_secs", secs)?),
        (None, Some(secs)) => {
            JobEnd::LeavesAfterSecs(location.check_time("leaves_after_secs", secs)?)
        }
        (None, None) => JobEnd::Never,
    };
    Ok(TraceJob {
        line: location.line,
        name: line.name,
        pods: line.pods,
        cpu_milli: line.cpu_milli,
        memory_mib: line.memory_mib,
        gpus: line.gpus,
        gpu_milli: line.gpu_milli.unwrap_or(whole),
        gpu_memory_mib: line.gpu_memory_mib.unwrap_or_default(),
        models: line.models,
        queue: line.queue,
        user: line.user,
        kind: line.kind,
        priority_class: line.priority_class,
        arrives_secs: line.arrives_secs,
        end,
    })
}

/// Formats a number for an error message; a large one in exponent notation.
fn number_text(number: f64) -> String {
    if number.abs() < 1e15 { number.to_string() } else { format!("{number:e}") }
}

/// The location of a line of a file, for error messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineLocation<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: u64,
}

impl LineLocation<'_> {
    fn check_gpu_memory(&self, line: &JobLine) -> Result<(), TraceError> {
        let Some(memory) = line.gpu_memory_mib else { return Ok(()) };
        let found = memory.to_string();
        let error = |found: &str, allowed| Err(self.field_error("gpu_memory_mib", found, allowed));
        if memory == 0 || !MEMORY_MIB_RANGE.contains(memory) {
            return error(&found, "a whole number from 1 on, the memory of each GPU");
        }
        match (line.gpus, line.gpu_milli) {
            (0, _) => error(&found, "nothing, as the job has no GPU"),
            (_, Some(_)) => error("gpu_milli beside it", "one of the two"),
            (_, None) => Ok(()),
        }
    }

    fn check_name(&self, name: &str, bound: NameLimit) -> Result<(), TraceError> {
        if bound.is_valid_name(name) {
            return Ok(());
        }
        Err(self.field_error("name", &format!("{name:?}"), &bound.to_string()))
    }

    fn check_model(&self, field: &str, model: &str) -> Result<(), TraceError> {
        if limits::is_valid_model(model) {
            return Ok(());
        }
        Err(self.field_error(field, &format!("{model:?}"), limits::ALLOWED_MODEL))
    }

    fn check_count(&self, field: &str, count: u64, bound: IntRange) -> Result<(), TraceError> {
        if bound.contains(count) {
            return Ok(());
        }
        Err(self.field_error(field, &count.to_string(), &bound.to_string()))
    }

    fn check_amount(&self, field: &str, amount: f64) -> Result<(), TraceError> {
        if limits::is_valid_amount(amount) {
            return Ok(());
        }
        Err(self.field_error(field, &number_text(amount), limits::ALLOWED_AMOUNT))
    }

    fn check_time(&self, field: &str, secs: f64) -> Result<f64, TraceError> {
        if SECS_RANGE.contains_fraction(secs) {
            return Ok(secs);
        }
        Err(self.field_error(field, &number_text(secs), limits::ALLOWED_SECS))
    }

    fn field_error(&self, field: &str, found: &str, allowed: &str) -> TraceError {
        TraceError {
            column: field.to_owned(),
            ..TraceError::in_line(self.file, self.line, found.to_owned(), allowed)
        }
    }
}

fn read_lines<T: DeserializeOwned, U>(
    path: &Path,
    check: impl Fn(&LineLocation<'_>, T) -> Result<U, TraceError>,
) -> Result<Vec<U>, TraceError> {
    let mut lines = lines::open(path, "a file of JSON lines")?.lines;
    let file = lines.file.clone();
    let mut read = Vec::new();
    while let Some(line) = lines.next_line()? {
        let at = LineLocation { file: &file, line: line.number };
        read.push(check(&at, parse_line(&file, line)?)?);
    }
    Ok(read)
}

fn parse_line<T: DeserializeOwned>(file: &str, line: Line<'_>) -> Result<T, TraceError> {
    let at = LineLocation { file, line: line.number };
    let allowed = "one JSON object of this kind";
    // Serde would accept a list as the fields in order.
    if !line.text.trim_start().starts_with('{')
        && let Ok(other) = serde_json::from_str::<Value>(line.text)
    {
        return Err(at.field_error("", &other.to_string(), allowed));
    }
    serde_json::from_str(line.text).map_err(|error| {
        let column = format!("column {}", error.column());
        if error.is_eof() {
            return at.field_error(&column, "a truncated line", allowed);
        }
        if error.is_data() {
            return data_error::<T>(&at, line.text, allowed);
        }
        let message = message_without_place(&error);
        let rest = error.column().checked_sub(1).and_then(|start| line.text.get(start..));
        match (message.strip_prefix("expected "), rest) {
            (Some("value"), Some(rest)) => at.field_error(&column, &excerpt(rest), allowed),
            (Some(expected), Some(rest)) => at.field_error(&column, &excerpt(rest), expected),
            (Some(_), None) | (None, _) => at.field_error(&column, &message, allowed),
        }
    })
}

/// The error of a JSON object with a field that is missing, unknown or of another type.
fn data_error<T: DeserializeOwned>(at: &LineLocation<'_>, text: &str, allowed: &str) -> TraceError {
    let input = &mut serde_json::Deserializer::from_str(text);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(input) else {
        return at.field_error("", "a line that was read before", allowed);
    };
    let message = message_without_place(error.inner());
    let quoted = |text: &str| text.split('`').nth(1).unwrap_or_default().to_owned();
    if message.starts_with("missing field") {
        return at.field_error(&quoted(&message), "nothing", "a value");
    }
    if let Some(unknown) = message.strip_prefix("unknown field ") {
        let (field, known) = unknown.split_once(", expected ").unwrap_or((unknown, ""));
        let field = quoted(field);
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        let near = did_you_mean(&field, &known);
        let allowed = format!("{}{near}", known.join(", "));
        return at.field_error("", &format!("the field {field:?}"), &allowed);
    }
    let (found, allowed) = message.split_once(", expected ").unwrap_or((&message, allowed));
    let field = match error.path().iter().next() {
        Some(serde_path_to_error::Segment::Map { key }) => key.as_str(),
        _ => return at.field_error("", found, allowed),
    };
    let object: Option<Value> = serde_json::from_str(text).ok();
    let value = object.and_then(|object| object.get(field).map(Value::to_string));
    let allowed = allowed.replace("a sequence", "a list");
    at.field_error(field, value.as_deref().unwrap_or(found), &allowed)
}

/// The message of an error, without its line and column, and without names of Rust's types.
fn message_without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = message.split(" at line").next().unwrap_or_default();
    plain_type_names(message)
}

/// Maximum number of characters of a line in an error message.
const EXCERPT_MAX: usize = 20;

/// The beginning of a text, quoted.
fn excerpt(text: &str) -> String {
    let more = if text.chars().count() > EXCERPT_MAX { "…" } else { "" };
    format!("{:?}{more}", text.chars().take(EXCERPT_MAX).collect::<String>())
}
