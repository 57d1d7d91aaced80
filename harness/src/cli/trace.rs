//! The arguments of `schedlab trace`.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use schedlab_traces::{QueueBy, TraceFormat};

use super::parse_duration;

/// Examples for the help text.
pub(super) const EXAMPLES: &str = "\
Examples:
  schedlab trace import --prometheus http://127.0.0.1:9090 --since 7d -o week.jsonl
  schedlab trace stats week.jsonl --fleet nodes.yaml
  schedlab trace generate --like week.jsonl --days 30 --seed 1 -o month.jsonl
  schedlab simulate --nodes nodes.yaml --pods month.jsonl";

/// The verbs of `schedlab trace`.
#[derive(Debug, Subcommand)]
pub enum TraceVerb {
    /// Write a trace in the native format: from files of any format, from Prometheus, or from pods
    /// of kubectl or a case file.
    Import(TraceImport),
    /// Print what a trace asks for: jobs by size, queue and model, run times, arrivals, load.
    Stats(TraceStats),
    /// Draw a trace like another one.
    Generate(TraceGenerate),
    /// Keep a part of a trace.
    Cut(TraceCut),
    /// Join traces.
    Merge(TraceMerge),
    /// Copy or leave out drawn jobs until a trace has the wanted load or size.
    Scale(TraceScale),
    /// Write a queue for each queue that the jobs of a trace name.
    Queues(TraceQueues),
}

/// How files of jobs are read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Reading")]
pub struct TraceInput {
    /// Format of the files: json-lines, columns, openb, acme, philly, helios or pai [default: what
    /// the first line tells].
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<TraceFormat>,
    /// What becomes the queue of a job: queue (of the trace), user, kind or none.
    #[arg(long, value_name = "FIELD", default_value = "queue")]
    pub queue_by: QueueBy,
    /// Skip and count invalid rows; otherwise the first one is an error.
    #[arg(long)]
    pub skip_invalid: bool,
}

/// Arguments of `schedlab trace import`.
#[derive(Debug, Args)]
pub struct TraceImport {
    /// Files of jobs in any format; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// How they are read.
    #[command(flatten)]
    pub input: TraceInput,
    /// A Prometheus, of whose series a trace is made.
    #[command(flatten)]
    pub series: RecordedSeries,
    /// Objects of a cluster.
    #[command(flatten)]
    pub objects: RecordedObjects,
    /// Take pods without GPU and queue, too.
    #[arg(long, help_heading = "Kubernetes")]
    pub all_pods: bool,
    /// Where it is written.
    #[command(flatten)]
    pub output: TraceOutput,
}

/// A Prometheus, of whose series a trace is made.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Prometheus")]
pub struct RecordedSeries {
    /// URL of a Prometheus with the series of kube-state-metrics.
    #[arg(long, value_name = "URL", conflicts_with = "files")]
    pub prometheus: Option<String>,
    /// How far back the trace goes.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "7d")]
    pub since: Duration,
    /// End of the trace, such as 2026-11-28T00:00:00Z or 2026-11-28 [default: now].
    #[arg(long, value_name = "TIME", value_parser = parse_date)]
    pub until: Option<Timestamp>,
    /// Distance of the points that are asked for; a query asks for 24 of them.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1h")]
    pub step: Duration,
    /// Label matchers of all series, such as `cluster="a"`.
    #[arg(long, value_name = "MATCHERS", default_value = "")]
    pub matchers: String,
    /// File with a bearer token for Prometheus.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Accept any certificate of Prometheus.
    #[arg(long)]
    pub insecure: bool,
    /// File for the queues with their quotas, which KAI's metrics tell.
    #[arg(long, value_name = "FILE")]
    pub queues_output: Option<PathBuf>,
}

/// Objects of a cluster, of whose pods a trace is made.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Kubernetes")]
#[group(id = "objects", multiple = true, conflicts_with_all = ["files", "prometheus"])]
pub struct RecordedObjects {
    /// Output of `kubectl get pods,podgroups -A -o yaml|json`; may be repeated.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub kubectl: Vec<PathBuf>,
    /// Output of `kubectl get events -A -o yaml|json`, which adds times to the pods.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub events: Vec<PathBuf>,
    /// A case file; one captured with `--duration` knows what ran meanwhile.
    #[arg(long, value_name = "CASE", num_args = 1..)]
    pub case: Vec<PathBuf>,
}

/// Where a trace or queues are written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct TraceOutput {
    /// File to write [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl TraceOutput {
    /// The file; `None`: standard output.
    pub fn file(&self) -> Option<&Path> {
        self.output.as_deref()
    }
}

/// Arguments of `schedlab trace stats`.
#[derive(Debug, Args)]
pub struct TraceStats {
    /// The trace.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How it is read.
    #[command(flatten)]
    pub input: TraceInput,
    /// Nodes on which the load is computed: openb's CSV, JSON lines, a case file, or output of
    /// kubectl in YAML.
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Arguments of `schedlab trace generate`.
#[derive(Debug, Args)]
pub struct TraceGenerate {
    /// The trace whose pattern is drawn.
    #[arg(long, value_name = "FILE")]
    pub like: PathBuf,
    /// How it is read.
    #[command(flatten)]
    pub input: TraceInput,
    /// Length of the new trace.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=36_525))]
    pub days: u64,
    /// Seed: the same seed gives the same trace.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Where it is written.
    #[command(flatten)]
    pub output: TraceOutput,
}

/// Arguments of `schedlab trace cut`.
#[derive(Debug, Args)]
pub struct TraceCut {
    /// The trace.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How it is read.
    #[command(flatten)]
    pub input: TraceInput,
    /// First arrival: a time from the start such as 2d, or a date such as 2026-11-20.
    #[arg(long, value_name = "TIME")]
    pub from: Option<TraceTime>,
    /// Arrival from which on jobs are left out.
    #[arg(long, value_name = "TIME")]
    pub to: Option<TraceTime>,
    /// Only jobs of this queue; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub queue: Vec<String>,
    /// Where it is written.
    #[command(flatten)]
    pub output: TraceOutput,
}

/// Arguments of `schedlab trace merge`.
#[derive(Debug, Args)]
pub struct TraceMerge {
    /// The traces; if all have dates, jobs keep theirs.
    #[arg(value_name = "FILE", num_args = 2.., required = true)]
    pub files: Vec<PathBuf>,
    /// How they are read.
    #[command(flatten)]
    pub input: TraceInput,
    /// Where it is written.
    #[command(flatten)]
    pub output: TraceOutput,
}

/// Arguments of `schedlab trace scale`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("size").required(true))]
pub struct TraceScale {
    /// The trace.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How it is read.
    #[command(flatten)]
    pub input: TraceInput,
    /// GPU hours: this many times those of the trace; with --fleet, this many times those of the
    /// fleet.
    #[arg(long, value_name = "FACTOR", value_parser = parse_factor, group = "size")]
    pub load: Option<f64>,
    /// Number of jobs.
    #[arg(long, value_name = "N", group = "size")]
    pub jobs: Option<usize>,
    /// Nodes to which --load refers.
    #[arg(long, value_name = "FILE", requires = "load")]
    pub fleet: Option<PathBuf>,
    /// Seed of the drawn jobs.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Where it is written.
    #[command(flatten)]
    pub output: TraceOutput,
}

/// Arguments of `schedlab trace queues`.
#[derive(Debug, Args)]
pub struct TraceQueues {
    /// The trace.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How it is read.
    #[command(flatten)]
    pub input: TraceInput,
    /// Nodes whose GPUs are shared as quotas, by the GPU hours of the queues [default: no quota,
    /// equal weights].
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,
    /// Where it is written.
    #[command(flatten)]
    pub output: TraceOutput,
}

/// A time of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TraceTime {
    /// After the start of the trace.
    AfterStart(Duration),
    /// At a date.
    At(Timestamp),
}

impl FromStr for TraceTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(after) = parse_duration(text) {
            return Ok(Self::AfterStart(after));
        }
        let allowed = "a time from the start such as 2d or 36h, or a date such as 2026-11-20";
        parse_date(text).map(Self::At).map_err(|_| format!("got {text:?}, expected {allowed}"))
    }
}

/// A date, at 00:00 UTC, or a time in RFC 3339 format.
fn parse_date(text: &str) -> Result<Timestamp, String> {
    let time = text.parse::<Timestamp>().ok();
    let date = || text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp());
    time.or_else(date).ok_or_else(|| {
        format!("got {text:?}, expected a time such as 2026-11-28T00:00:00Z or 2026-11-28")
    })
}

fn parse_factor(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|factor| *factor > 0.0 && *factor <= 1000.0);
    number.ok_or_else(|| format!("got {text:?}, expected a number above 0 and up to 1000"))
}
