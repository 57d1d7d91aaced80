//! Commands as users run them: the feature suite, one scenario, a virtual day, a production trace.

use std::{fmt::Write as _, fs};

use crate::{
    process::{Measurement, root, schedlab},
    table::{Row, Table, median, time},
};

const SCENARIO_RUNS: usize = 21;
const SEEDS: u32 = 10;

pub(crate) fn measure(table: &mut Table) {
    suite(table);
    start_up(table);
    scenario(table);
    virtual_day(table);
    openb(table);
}

fn suite(table: &Table) {
    let name = "the feature suite";
    if table.selects(name) {
        let measured = schedlab(&["run", "features"]);
        row(table, name, &measured, "3 s, 300 MB");
    }
}

fn start_up(table: &Table) {
    let name = "`schedlab run` starts (and finds nothing to run)";
    if table.selects(name) {
        let run = || schedlab(&["run", "features", "--exact", "--name", "no such scenario"]).wall;
        let figure = time(median((0..SCENARIO_RUNS).map(|_| run()).collect()));
        let bound = "50 ms".to_owned();
        table.row(&Row { name: name.to_owned(), figure, bound, others: String::new() });
    }
}

/// The median of many scenarios in one process, so that its start does not count.
fn scenario(table: &Table) {
    let name = "a scenario on 32 GPUs, of the lab's features";
    if table.selects(name) && root().join("features/lab").is_dir() {
        let results = tempfile::tempdir().expect("a temporary folder can be created");
        let report = results.path().join("report.xml");
        let reporter = format!("junit={}", report.display());
        let measured = schedlab(&["run", "features/lab", "--reporter", &reporter, "-j", "1"]);
        let text = fs::read_to_string(&report).unwrap_or_default();
        let times = text.split("<testcase").skip(1).filter_map(seconds);
        let figure = time(median(times.collect()));
        let others = if measured.succeeded { String::new() } else { "the run FAILED".to_owned() };
        table.row(&Row { name: name.to_owned(), figure, bound: "20 ms".to_owned(), others });
    }
}

/// The attribute `time="0.012"` of a test case.
fn seconds(case: &str) -> Option<std::time::Duration> {
    let text = case.split_once("time=\"")?.1.split_once('"')?.0;
    text.parse().ok().map(std::time::Duration::from_secs_f64)
}

/// A day with 80 % utilization, and one with more work than GPUs.
fn virtual_day(table: &Table) {
    day(table, "a virtual day: 1,000 pods on 32 GPUs, nested queues, 80 % used", 450, "1 s");
    day(table, "such a day with 8 % more work than GPUs, 698 evictions", 600, "");
}

fn day(table: &Table, name: &str, runs_secs_min: usize, bound: &str) {
    if !table.selects(name) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let path = |file| folder.path().join(file).display().to_string();
    let (nodes, queues, pods) = (path("nodes.jsonl"), path("queues.jsonl"), path("pods.jsonl"));
    let mut text = String::new();
    for node in 0..4 {
        let _ = writeln!(text, r#"{{"name": "gpu-{node}", "gpus": 8}}"#);
    }
    fs::write(&nodes, text).expect("a temporary file can be written");
    let tree = concat!(
        r#"{"name": "factory", "quota": 32}"#,
        "\n",
        r#"{"name": "research", "parent": "factory", "quota": 16}"#,
        "\n",
        r#"{"name": "prod", "parent": "factory", "quota": 16}"#,
        "\n",
    );
    fs::write(&queues, tree).expect("a temporary file can be written");
    let mut text = String::new();
    for pod in 0..1000 {
        let (queue, gpus) = (["research", "prod"][pod % 2], [1, 1, 2, 4][pod % 4]);
        let (arrives, runs) = (pod * 86, runs_secs_min + pod % 7 * runs_secs_min / 2);
        let _ = writeln!(
            text,
            r#"{{"name": "pod-{pod}", "gpus": {gpus}, "cpu_milli": 1000, "queue": "{queue}", "arrives_secs": {arrives}, "runs_secs": {runs}}}"#
        );
    }
    fs::write(&pods, text).expect("a temporary file can be written");
    let measured =
        schedlab(&["simulate", "--nodes", &nodes, "--pods", &pods, "--queues", &queues, "--json"]);
    row(table, name, &measured, bound);
}

/// Measures a replay of the openb trace. The trace is not part of the repository: the environment
/// variable `OPENB` names the folder with its files.
#[expect(clippy::print_stderr, reason = "a skipped benchmark says why")]
fn openb(table: &Table) {
    let Ok(folder) = std::env::var("OPENB") else {
        eprintln!(
            "skipped: openb (set OPENB to the folder of Alibaba's cluster-trace-gpu-v2023 CSV files)"
        );
        return;
    };
    let nodes = format!("{folder}/openb_node_list_all_node.csv");
    let pods = format!("{folder}/openb_pod_list_default.csv");
    let name = "openb: 1,523 nodes, 8,152 pods, 149 days";
    if table.selects(name) {
        let measured = schedlab(&["simulate", "--nodes", &nodes, "--pods", &pods, "--json"]);
        row(table, name, &measured, "60 s, 1.5 GB");
    }
    packing(table, &nodes, &pods, "binpack", "BestFit 93.08 %");
    packing(table, &nodes, &pods, "leastfragmentation", "FGD 95.39 %");
}

/// FGD's experiment: pods arrive until they request 130 % of the fleet's GPUs, and none is evicted.
/// The figure is the mean of several seeds.
fn packing(table: &Table, nodes: &str, pods: &str, strategy: &str, others: &str) {
    let name = format!("openb at 130 %, {strategy}: GPUs allocated ÷ all, mean of {SEEDS} seeds");
    if !table.selects(&name) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let config = folder.path().join("config.yaml").display().to_string();
    let text =
        format!("actions: [allocate]\nplacementStrategy: {{gpu: {strategy}, cpu: {strategy}}}\n");
    fs::write(&config, text).expect("a temporary file can be written");
    let run = |seed: u32| {
        let seed = seed.to_string();
        let trace = ["simulate", "--nodes", nodes, "--pods", pods, "--inflate", "130%", "--json"];
        schedlab(&[&trace[..], &["--config", &config, "--seed", &seed]].concat())
    };
    let measured: Vec<Measurement> = (0..SEEDS).map(run).collect();
    let figure = |measured: &Measurement| {
        let rest = measured.stdout.split_once("\"allocation_end_percent\":")?.1;
        rest.split([',', '}']).next()?.trim().parse::<f64>().ok()
    };
    let figures: Vec<f64> = measured.iter().filter_map(figure).collect();
    let mean = figures.iter().sum::<f64>() / f64::from(SEEDS);
    let is_complete =
        figures.len() == measured.len() && measured.iter().all(|measured| measured.succeeded);
    let each = median(measured.iter().map(|measured| measured.wall).collect());
    table.row(&Row {
        name: format!("{name} (each in {})", time(each)),
        figure: if is_complete { format!("{mean:.2} %") } else { "a run FAILED".to_owned() },
        bound: String::new(),
        others: others.to_owned(),
    });
}

fn row(table: &Table, name: &str, measured: &Measurement, bound: &str) {
    let peak = measured.peak_mb.map(|peak| format!(", {peak} MB")).unwrap_or_default();
    table.row(&Row {
        name: name.to_owned(),
        figure: format!("{}{peak}", time(measured.wall)),
        bound: bound.to_owned(),
        others: if measured.succeeded { String::new() } else { "the run FAILED".to_owned() },
    });
}
