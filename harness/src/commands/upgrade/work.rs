//! The fleet and the work of an upgrade: generated ones, or the user's.

use std::path::Path;

use schedlab_api::{Value, json, object, resources};
use schedlab_apps::experiment::{node_object, submitted_objects};
use schedlab_apps::simulate;
use schedlab_apps::upgrade::OwnWork;
use schedlab_conformance::text::counted_noun;
use schedlab_emulator::Fleet;
use schedlab_traces::{ReadOptions, read_jobs};

use super::super::case_input::load_files;
use super::super::up::{DEFAULT_MAX_MIB, load_fleet};
use super::super::{CommandOutput, UsageError};
use crate::cli::Upgrade;

/// What an upgrade runs on.
pub(super) struct UpgradeWork {
    /// Nodes that exist before the work.
    pub(super) fleet: Fleet,
    /// The nodes in words.
    pub(super) fleet_text: String,
    /// The user's work; `None`: the generated one.
    pub(super) own: Option<OwnWork>,
}

impl UpgradeWork {
    /// Reads what the arguments name.
    pub(super) fn read(args: &Upgrade, output: &mut CommandOutput) -> anyhow::Result<Self> {
        let (fleet, mut objects) = if args.case.is_empty() {
            (read_fleet(args.fleet.as_deref())?, Vec::new())
        } else {
            let case = load_files(&args.case, DEFAULT_MAX_MIB, output)?;
            (Fleet::default(), case.objects_to_create(&args.scheduler_name))
        };
        if let Some(path) = &args.trace {
            let trace = read_jobs(path, &ReadOptions::default())?;
            let mut jobs = trace.jobs;
            if jobs.is_empty() {
                let message = format!("{}: got no job, expected at least one", path.display());
                return Err(UsageError(message).into());
            }
            jobs.sort_by(|a, b| a.arrives_secs.total_cmp(&b.arrives_secs));
            jobs.truncate(args.jobs.unwrap_or(usize::MAX));
            let queues: Vec<Value> =
                objects.iter().filter(|it| is_kind(it, "Queue")).cloned().collect();
            objects.extend(submitted_objects(&mut jobs, &queues, &args.scheduler_name));
        }
        let is_own = !args.case.is_empty() || args.trace.is_some();
        let nodes = fleet.nodes().len() + objects.iter().filter(|it| is_kind(it, "Node")).count();
        if nodes == 0 {
            let message = "got a case without nodes, expected a captured cluster";
            return Err(UsageError(message.to_owned()).into());
        }
        let gpus: u64 = fleet.nodes().iter().map(gpus_of).sum();
        if !is_own && gpus < GENERATED_WORK_GPUS {
            let message = format!(
                "--fleet: got {}, expected at least {GENERATED_WORK_GPUS} for the generated work; \
                 --trace and --case bring work of your own",
                counted_noun(usize::try_from(gpus).unwrap_or(usize::MAX), "GPU")
            );
            return Err(UsageError(message).into());
        }
        Ok(Self {
            fleet,
            fleet_text: counted_noun(nodes, "node"),
            own: is_own.then_some(OwnWork { objects }),
        })
    }
}

/// Reads a fleet in any format of `compare --fleet`.
fn read_fleet(path: Option<&Path>) -> anyhow::Result<Fleet> {
    let Some(path) = path.filter(|path| is_node_list(path)) else { return load_fleet(path) };
    let nodes = simulate::read_fleet(path)?;
    let nodes: Vec<Value> = nodes.iter().map(node_object).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": nodes});
    Ok(Fleet::parse(&path.display().to_string(), &list.to_string())?)
}

/// Whether a file is a list of nodes in CSV or JSON lines, by the end of its name.
fn is_node_list(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "csv" || end == "jsonl")
}

/// GPUs that the generated work needs.
const GENERATED_WORK_GPUS: u64 = 32;

fn gpus_of(node: &Value) -> u64 {
    let gpus = object::at(node, &["status", "allocatable", resources::GPU]);
    gpus.and_then(Value::as_str).and_then(|gpus| gpus.parse().ok()).unwrap_or_default()
}

fn is_kind(object: &Value, kind: &str) -> bool {
    object::text(object, &["kind"]) == kind
}
