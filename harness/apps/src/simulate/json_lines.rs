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
        self, CPU_MILLI, GPUS, IntRange, JOB_NAME, MEMORY_MIB, NODE_NAME, NameLimit, PODS,
        QUEUE_NAME, SECS,
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
    #[serde(default = "one")]
    weight: f64,
    #[serde(default = "unlimited")]
    limit: f64,
    #[serde(default = "usual_priority")]
    priority: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobLine {
    name: String,
    #[serde(default = "one_pod")]
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

fn one() -> f64 {
    1.0
}

fn unlimited() -> f64 {
    -1.0
}

fn usual_priority() -> i64 {
    100
}

fn one_pod() -> u64 {
    1
}

pub(super) fn nodes(path: &Path) -> Result<Vec<TraceNode>, TraceError> {
    lines::<NodeLine>(path)?
        .into_iter()
        .map(|(at, node)| {
            let NodeLine { name, cpu_milli, memory_mib, gpus, model } = node;
            at.name(&name, NODE_NAME)?;
            at.model("model", &model)?;
            at.count("gpus", gpus, GPUS)?;
            at.count("cpu_milli", cpu_milli, CPU_MILLI.at_least_one())?;
            at.count("memory_mib", memory_mib, MEMORY_MIB.at_least_one())?;
            Ok(TraceNode { line: at.line, name, cpu_milli, memory_mib, gpus, model })
        })
        .collect()
}

pub(super) fn queues(path: &Path) -> Result<Vec<TraceQueue>, TraceError> {
    lines::<QueueLine>(path)?
        .into_iter()
        .map(|(at, queue)| {
            let QueueLine { name, parent, quota, weight, limit, priority } = queue;
            at.name(&name, QUEUE_NAME)?;
            at.amount("quota", quota)?;
            at.amount("limit", limit)?;
            if !limits::is_weight(weight) {
                return Err(at.error("weight", &number_text(weight), limits::WEIGHT));
            }
            if i32::try_from(priority).is_err() {
                return Err(at.error("priority", &priority.to_string(), limits::PRIORITY));
            }
            Ok(TraceQueue { line: at.line, name, parent, quota, weight, limit, priority })
        })
        .collect()
}

pub(super) fn jobs(path: &Path) -> Result<Vec<TraceJob>, TraceError> {
    lines::<JobLine>(path)?.into_iter().map(|(at, line)| job(&at, line)).collect()
}

fn job(at: &LineLocation, line: JobLine) -> Result<TraceJob, TraceError> {
    at.name(&line.name, JOB_NAME)?;
    at.time("arrives_secs", line.arrives_secs)?;
    at.count("pods", line.pods, PODS)?;
    at.count("gpus", line.gpus, GPUS)?;
    at.count("cpu_milli", line.cpu_milli, CPU_MILLI)?;
    at.count("memory_mib", line.memory_mib, MEMORY_MIB)?;
    line.models.iter().try_for_each(|model| at.model("models", model))?;
    let whole = line.gpus * 1000;
    if line.gpu_milli.is_some_and(|share| share == 0 || share > whole) {
        let found = line.gpu_milli.unwrap_or_default().to_string();
        return Err(at.error("gpu_milli", &found, "1 to 1000 for each of its GPUs"));
    }
    let end = match (line.runs_secs, line.leaves_after_secs) {
        (Some(_), Some(_)) => {
            return Err(at.error("runs_secs", "leaves_after_secs beside it", "one of the two"));
        }
        (Some(secs), None) => JobEnd::RunsSecs(at.time("runs_secs", secs)?),
        (None, Some(secs)) => JobEnd::LeavesAfterSecs(at.time("leaves_after_secs", secs)?),
        (None, None) => JobEnd::Never,
    };
    Ok(TraceJob {
        line: at.line,
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
    fn name(&self, name: &str, bound: NameLimit) -> Result<(), TraceError> {
        if bound.is_valid(name) {
            return Ok(());
        }
        Err(self.error("name", &format!("{name:?}"), &bound.to_string()))
    }

    fn model(&self, field: &str, model: &str) -> Result<(), TraceError> {
        if limits::is_model(model) {
            return Ok(());
        }
        Err(self.error(field, &format!("{model:?}"), limits::MODEL))
    }

    fn count(&self, field: &str, count: u64, bound: IntRange) -> Result<(), TraceError> {
        if bound.contains(count) {
            return Ok(());
        }
        Err(self.error(field, &count.to_string(), &bound.to_string()))
    }

    fn amount(&self, field: &str, amount: f64) -> Result<(), TraceError> {
        if limits::is_amount(amount) {
            return Ok(());
        }
        Err(self.error(field, &number_text(amount), limits::AMOUNT))
    }

    fn time(&self, field: &str, secs: f64) -> Result<f64, TraceError> {
        if SECS.contains_fraction(secs) {
            return Ok(secs);
        }
        Err(self.error(field, &number_text(secs), "seconds from 0 to those of a hundred years"))
    }

    fn error(&self, field: &str, found: &str, allowed: &str) -> TraceError {
        TraceError {
            file: self.file.clone(),
            line: self.line,
            column: field.to_owned(),
            found: found.to_owned(),
            allowed: allowed.to_owned(),
        }
    }
}

fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<(LineLocation, T)>, TraceError> {
    let file = path.display().to_string();
    let text = schedlab_conformance::text::read(path)
        .map_err(|error| TraceError::unreadable(path, &error, "a file of JSON lines"))?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(line, text)| {
            let at = LineLocation { file: file.clone(), line };
            let allowed = "one JSON object of this kind";
            // Serde would accept a list as the fields in order.
            if !text.trim_start().starts_with('{')
                && let Ok(other) = serde_json::from_str::<Value>(text)
            {
                return Err(at.error("", &other.to_string(), allowed));
            }
            match serde_json::from_str(text) {
                Ok(read) => Ok((at, read)),
                Err(error) => {
                    let column = format!("column {}", error.column());
                    let error = plain_type_names(&error.to_string());
                    let error = error.split(" at line").next().unwrap_or_default();
                    let (found, allowed) =
                        error.split_once(", expected ").unwrap_or((error, allowed));
                    Err(at.error(&column, found, allowed))
                }
            }
        })
        .collect()
}
