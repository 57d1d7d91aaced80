//! Parses traces in JSON lines, one object per line, in a format of our own:
//!
//! ```text
//! nodes   {"name": "n1", "gpus": 8, "model": "H100", "cpu_milli": 64000, "memory_mib": 524288}
//! queues  {"name": "research", "parent": "factory", "quota": 16, "weight": 1, "limit": -1, "priority": 100}
//! pods    {"name": "train", "pods": 4, "gpus": 8, "queue": "research", "priority_class": "train",
//!          "arrives_secs": 60, "runs_secs": 3600}
//! ```
//!
//! A pod line with `pods` is a gang. `gpu_milli` below 1000 for each of its GPUs requests
//! fractions, `models` lists acceptable GPU models, and `leaves_after_secs` instead of `runs_secs`
//! removes the job this long after its arrival. `docs/reference/fleets.md` documents all fields and
//! their defaults.

use std::path::Path;

use schedlab_api::{Value, plain_type_names};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    limits::{
        self, CPU_MILLI_RANGE, GPUS_RANGE, IntRange, JOB_NAME_LIMIT, MEMORY_MIB_RANGE,
        NODE_NAME_LIMIT, NameLimit, PODS_RANGE, QUEUE_NAME_LIMIT, SECS_RANGE,
    },
    trace::{JobEnd, TraceError, TraceJob, TraceNode, TraceQueue},
};

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobLine {
    name: String,
    #[serde(default = "default_pod_count")]
    pods: u64,
    #[serde(default)]
    cpu_milli: u64,
    #[serde(default)]
    memory_mib: u64,
    #[serde(default)]
    gpus: u64,
    gpu_milli: Option<u64>,
    #[serde(default)]
    models: Vec<String>,
    #[serde(default)]
    queue: String,
    #[serde(default)]
    priority_class: String,
    #[serde(default)]
    arrives_secs: f64,
    runs_secs: Option<f64>,
    leaves_after_secs: Option<f64>,
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

pub(super) fn read_nodes(path: &Path) -> Result<Vec<TraceNode>, TraceError> {
    read_lines::<NodeLine>(path)?
        .into_iter()
        .map(|(at, node)| {
            let NodeLine { name, cpu_milli, memory_mib, gpus, model } = node;
            at.check_name(&name, NODE_NAME_LIMIT)?;
            at.check_model("model", &model)?;
            at.check_count("gpus", gpus, GPUS_RANGE)?;
            at.check_count("cpu_milli", cpu_milli, CPU_MILLI_RANGE.at_least_one())?;
            at.check_count("memory_mib", memory_mib, MEMORY_MIB_RANGE.at_least_one())?;
            Ok(TraceNode { line: at.line, name, cpu_milli, memory_mib, gpus, model })
        })
        .collect()
}

pub(super) fn read_queues(path: &Path) -> Result<Vec<TraceQueue>, TraceError> {
    read_lines::<QueueLine>(path)?
        .into_iter()
        .map(|(at, queue)| {
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
        .collect()
}

pub(super) fn read_jobs(path: &Path) -> Result<Vec<TraceJob>, TraceError> {
    read_lines::<JobLine>(path)?.into_iter().map(|(at, line)| job_from_line(&at, line)).collect()
}

fn job_from_line(location: &LineLocation, line: JobLine) -> Result<TraceJob, TraceError> {
    location.check_name(&line.name, JOB_NAME_LIMIT)?;
    location.check_time("arrives_secs", line.arrives_secs)?;
    location.check_count("pods", line.pods, PODS_RANGE)?;
    location.check_count("gpus", line.gpus, GPUS_RANGE)?;
    location.check_count("cpu_milli", line.cpu_milli, CPU_MILLI_RANGE)?;
    location.check_count("memory_mib", line.memory_mib, MEMORY_MIB_RANGE)?;
    line.models.iter().try_for_each(|model| location.check_model("models", model))?;
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
        models: line.models,
        queue: line.queue,
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
struct LineLocation {
    file: String,
    line: u64,
}

impl LineLocation {
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
        Err(self.field_error(
            field,
            &number_text(secs),
            "seconds from 0 to those of a hundred years",
        ))
    }

    fn field_error(&self, field: &str, found: &str, allowed: &str) -> TraceError {
        TraceError {
            file: self.file.clone(),
            line: self.line,
            column: field.to_owned(),
            found: found.to_owned(),
            allowed: allowed.to_owned(),
        }
    }
}

fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<(LineLocation, T)>, TraceError> {
    let file = path.display().to_string();
    let text = schedlab_conformance::text::read_text_file(path)
        .map_err(|error| TraceError::from_unreadable_file(path, &error, "a file of JSON lines"))?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(line, text)| {
            let at = LineLocation { file: file.clone(), line };
            let allowed = "one JSON object of this kind";
            // Serde would accept a list as the fields in order.
            if !text.trim_start().starts_with('{')
                && let Ok(other) = serde_json::from_str::<Value>(text)
            {
                return Err(at.field_error("", &other.to_string(), allowed));
            }
            match serde_json::from_str(text) {
                Ok(read) => Ok((at, read)),
                Err(error) => {
                    let column = format!("column {}", error.column());
                    let error = plain_type_names(&error.to_string());
                    let error = error.split(" at line").next().unwrap_or_default();
                    let (found, allowed) =
                        error.split_once(", expected ").unwrap_or((error, allowed));
                    Err(at.field_error(&column, found, allowed))
                }
            }
        })
        .collect()
}
