//! Commands as users run them: the feature suite, one scenario, a virtual day, a production trace.

use std::{fmt::Write as _, fs};

use crate::{
    process::{CommandMeasurement, repository_root, run_schedlab},
    table::{Row, Table, duration_text, median},
};

const SCENARIO_RUNS: usize = 21;
const SEEDS: u32 = 10;

pub(crate) fn measure_commands(table: &mut Table) {
    measure_suite(table);
    measure_start_up(table);
    measure_one_scenario(table);
    measure_virtual_days(table);
    measure_openb(table);
}

fn measure_suite(table: &Table) {
    let name = "the feature suite";
    if table.is_selected(name) {
        let measured = run_schedlab(&["run", "features"]);
        print_measurement(table, name, &measured, "3 s, 300 MB");
    }
}

fn measure_start_up(table: &Table) {
    let name = "`schedlab run` starts (and finds nothing to run)";
    if table.is_selected(name) {
        let run =
            || run_schedlab(&["run", "features", "--exact", "--name", "no such scenario"]).wall;
        let figure = duration_text(median((0..SCENARIO_RUNS).map(|_| run()).collect()));
        let bound = "50 ms".to_owned();
        table.print_row(&Row { name: name.to_owned(), figure, bound, others: String::new() });
    }
}

/// Measures the median of many scenarios in one process, so that the start of the process does not
/// count.
fn measure_one_scenario(table: &Table) {
    let name = "a scenario on 32 GPUs, of the lab's features";
    if table.is_selected(name) && repository_root().join("features/lab").is_dir() {
        let results = tempfile::tempdir().expect("a temporary folder can be created");
        let report = results.path().join("report.xml");
        let reporter = format!("junit={}", report.display());
        let measured = run_schedlab(&["run", "features/lab", "--reporter", &reporter, "-j", "1"]);
        let text = fs::read_to_string(&report).unwrap_or_default();
        let times = text.split("<testcase").skip(1).filter_map(test_case_duration);
        let figure = duration_text(median(times.collect()));
        let others = if measured.succeeded { String::new() } else { "the run FAILED".to_owned() };
        table.print_row(&Row { name: name.to_owned(), figure, bound: "20 ms".to_owned(), others });
    }
}

/// The duration of a test case in a JUnit report, from its attribute `time="0.012"`.
fn test_case_duration(case: &str) -> Option<std::time::Duration> {
    let text = case.split_once("time=\"")?.1.split_once('"')?.0;
    text.parse().ok().map(std::time::Duration::from_secs_f64)
}

/// Measures a virtual day with 80 % utilization, and one with more work than GPUs.
fn measure_virtual_days(table: &Table) {
    measure_virtual_day(
        table,
        "a virtual day: 1,000 pods on 32 GPUs, nested queues, 80 % used",
        450,
        "1 s",
    );
    measure_virtual_day(table, "such a day with 8 % more work than GPUs, 698 evictions", 600, "");
}

fn measure_virtual_day(table: &Table, name: &str, runs_secs_min: usize, bound: &str) {
    if !table.is_selected(name) {
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
    let measured = run_schedlab(&[
        "simulate", "--nodes", &nodes, "--pods", &pods, "--queues", &queues, "--json",
    ]);
    print_measurement(table, name, &measured, bound);
}

/// Measures a replay of the openb trace. The trace is not part of the repository: the environment
/// variable `OPENB` names the folder with its files.
#[expect(clippy::print_stderr, reason = "a skipped benchmark says why")]
fn measure_openb(table: &Table) {
    let Ok(folder) = std::env::var("OPENB") else {
        eprintln!(
            "skipped: openb (set OPENB to the folder of Alibaba's cluster-trace-gpu-v2023 CSV files)"
        );
        return;
    };
    let nodes = format!("{folder}/openb_node_list_all_node.csv");
    let pods = format!("{folder}/openb_pod_list_default.csv");
    let name = "openb: 1,523 nodes, 8,152 pods, 149 days";
    if table.is_selected(name) {
        let measured = run_schedlab(&["simulate", "--nodes", &nodes, "--pods", &pods, "--json"]);
        print_measurement(table, name, &measured, "60 s, 1.5 GB");
    }
    measure_packing(table, &nodes, &pods, "binpack", "BestFit 93.08 %");
    measure_packing(table, &nodes, &pods, "leastfragmentation", "FGD 95.39 %");
}

/// Measures the packing experiment of FGD: pods arrive until they request 130 % of the fleet's
/// GPUs, and none is evicted. The figure is the mean of several seeds.
fn measure_packing(table: &Table, nodes: &str, pods: &str, strategy: &str, others: &str) {
    let name = format!("openb at 130 %, {strategy}: GPUs allocated ÷ all, mean of {SEEDS} seeds");
    if !table.is_selected(&name) {
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
        run_schedlab(&[&trace[..], &["--config", &config, "--seed", &seed]].concat())
    };
    let measured: Vec<CommandMeasurement> = (0..SEEDS).map(run).collect();
    let figure = |measured: &CommandMeasurement| {
        let rest = measured.stdout.split_once("\"allocation_end_percent\":")?.1;
        rest.split([',', '}']).next()?.trim().parse::<f64>().ok()
    };
    let figures: Vec<f64> = measured.iter().filter_map(figure).collect();
    let mean = figures.iter().sum::<f64>() / f64::from(SEEDS);
    let is_complete =
        figures.len() == measured.len() && measured.iter().all(|measured| measured.succeeded);
    let each = median(measured.iter().map(|measured| measured.wall).collect());
    table.print_row(&Row {
        name: format!("{name} (each in {})", duration_text(each)),
        figure: if is_complete { format!("{mean:.2} %") } else { "a run FAILED".to_owned() },
        bound: String::new(),
        others: others.to_owned(),
    });
}

fn print_measurement(table: &Table, name: &str, measured: &CommandMeasurement, bound: &str) {
    let peak = measured.peak_mb.map(|peak| format!(", {peak} MB")).unwrap_or_default();
    table.print_row(&Row {
        name: name.to_owned(),
        figure: format!("{}{peak}", duration_text(measured.wall)),
        bound: bound.to_owned(),
        others: if measured.succeeded { String::new() } else { "the run FAILED".to_owned() },
    });
}
