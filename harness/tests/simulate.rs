//! `schedlab simulate`: metrics of traces, and messages about invalid traces.

use std::{fs, path::PathBuf};

use insta::assert_snapshot;
use schedlab_apps::experiment::{Monitor, ProcessArgs};
use schedlab_apps::simulate::{Args, Profile, Simulation, simulate};
use schedlab_conformance::report::Colors;
use tempfile::TempDir;

const NODES: &str =
    "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,T4\nn2,64000,262144,2,A10\n";
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                    creation_time,deletion_time,scheduled_time\n";

struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder can be created") }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("a temporary file can be written");
        path
    }

    fn args(&self, nodes: &str, pods: &str) -> Args {
        Args {
            nodes: self.file("nodes.csv", nodes),
            pods: self.file("pods.csv", pods),
            format: None,
            queues: None,
            compress: 1.0,
            scale_fleet: 1.0,
            inflate: None,
            seed: 7,
            profile: Profile::Kai,
            config: None,
            scheduler: None,
            process: ProcessArgs::default(),
            json: false,
            html: None,
            series: None,
            progress: false,
        }
    }

    /// The message about an invalid trace, without the folder.
    fn error(&self, args: &Args) -> String {
        let error = simulate(args, &Monitor::default()).expect_err("the trace is invalid");
        format!("{error:#}").replace(&format!("{}/", self.folder.path().display()), "")
    }
}

fn simulated(args: &Args) -> Simulation {
    simulate(args, &Monitor::default()).expect("the trace is valid")
}

#[test]
fn an_invalid_row_is_reported_with_file_line_and_column() {
    let lab = Lab::new();
    let error = |nodes: &str, pods: &str| lab.error(&lab.args(nodes, &format!("{PODS}{pods}")));
    let good = "p1,1000,1024,1,1000,,LS,Running,0,60,0\n";
    let messages = [
        error(NODES, &format!("{good}p2,1000,1024,one,1000,,LS,Running,0,60,0")),
        error(NODES, &format!("{good}p2,1000,1024,1,1000,,LS,Running,0,60")),
        error(NODES, "p1,1000,1024,1,1001,,LS,Running,0,60,0"),
        error(NODES, "p1,1000,1024,-1,0,,LS,Running,0,60,0"),
        error(NODES, "p1,99999999999999999999,1024,1,1000,,LS,Running,0,60,0"),
        error(NODES, "p1,1000,1024,1,1000,,LS,Running,0,30,60"),
        error(NODES, "P_1,1000,1024,1,1000,,LS,Running,0,60,0"),
        error(NODES, &format!("{good}{good}")),
        error("sn,cpu_milli,gpu\nn1,1,1\n", good),
        error("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,,2,T4\n", good),
    ];
    assert_snapshot!(messages.join("\n"), @r#"
    pods.csv:3: num_gpu: got "one", expected a whole number from 0 to 1024
    pods.csv:3: got 10 values, expected 11 as in the header
    pods.csv:2: gpu_milli: got "1001", expected a whole number from 0 to 1000
    pods.csv:2: num_gpu: got "-1", expected a whole number from 0 to 1024
    pods.csv:2: cpu_milli: got "99999999999999999999", expected a whole number from 0 to 1000000000
    pods.csv:2: deletion_time: got "30", expected a time that is not before creation_time and scheduled_time
    pods.csv:2: name: got "P_1", expected a name of lower-case letters, digits and '-', with letters or digits at the ends of its parts between dots, at most 200 long
    pods.csv:3: name: got the duplicate p1, expected unique names
    nodes.csv:1: got the columns sn, cpu_milli, gpu without memory_mib, expected sn, cpu_milli, memory_mib, gpu, model
    nodes.csv:2: memory_mib: got nothing, expected a whole number from 1 to 1073741824
    "#);
}

#[test]
fn an_invalid_json_line_is_reported_with_file_line_and_field() {
    let lab = Lab::new();
    let error = |pods: &str| {
        let mut args = lab.args(NODES, PODS);
        args.pods = lab.file("pods.jsonl", pods);
        lab.error(&args)
    };
    let messages = [
        error("{\"name\": \"a\", \"gpu\": 1}\n"),
        error("\n{\"name\": \"a\", \"pods\": 0}\n"),
        error("{\"name\": \"a\", \"gpus\": 2, \"gpu_milli\": 3000}\n"),
        error("{\"name\": \"a\", \"runs_secs\": -1}\n"),
        error("{\"name\": \"a\", \"runs_secs\": 1, \"leaves_after_secs\": 2}\n"),
        error("{\"name\": \"a\", \"queue\": \"nobody\"}\n"),
    ];
    assert_snapshot!(messages.join("\n"), @r#"
    pods.jsonl:1: got the field "gpu", expected name, pods, cpu_milli, memory_mib, gpus, gpu_milli, gpu_memory_mib, models, queue, user, kind, priority_class, arrives_secs, runs_secs, leaves_after_secs; did you mean `gpus`?
    pods.jsonl:2: pods: got 0, expected a whole number from 1 to 100000
    pods.jsonl:1: gpu_milli: got 3000, expected 1 to 1000 for each of its GPUs
    pods.jsonl:1: runs_secs: got -1, expected seconds from 0 to those of a hundred years
    pods.jsonl:1: runs_secs: got leaves_after_secs beside it, expected one of the two
    pods.jsonl:1: queue: got nobody, expected a leaf queue: default-queue; --queues reads the queues of the jobs
    "#);
}

#[test]
fn jobs_that_had_not_arrived_when_a_simulation_was_stopped_are_left_out() {
    let lab = Lab::new();
    let mut args = lab.args(NODES, PODS);
    let early = "{\"name\": \"early\", \"gpus\": 1, \"runs_secs\": 60}";
    let late = "{\"name\": \"late\", \"gpus\": 1, \"arrives_secs\": 90000}";
    args.pods = lab.file("pods.jsonl", &format!("{early}\n{late}\n"));
    let monitor = Monitor::default();
    monitor.stop();
    let report = simulate(&args, &monitor).expect("the trace is valid").report;
    assert_eq!((report.is_partial, report.jobs, report.arrived), (true, 2, 0));
    assert_eq!(report.never_started, []);
    assert_eq!(report.findings, []);
    assert!(report.waiting_by_queue.is_empty(), "{:?}", report.waiting_by_queue);
    let table = report.to_table(Colors::Off);
    assert!(table.contains("; 0 of 2 jobs in 0.00 days, stopped there\n"), "{table}");
}

/// Names become labels and prefixes of pod names, so their length is limited.
#[test]
fn the_length_of_names_is_limited() {
    let lab = Lab::new();
    let error = |file: &str, name: &str| {
        let mut args = lab.args(NODES, PODS);
        let quota = if file == "queues.jsonl" { ", \"quota\": 1" } else { "" };
        let line = format!("{{\"name\": \"{name}\"{quota}}}\n");
        let path = lab.file(file, &line);
        match file {
            "nodes.jsonl" => args.nodes = path,
            "pods.jsonl" => args.pods = path,
            _ => args.queues = Some(path),
        }
        let error = lab.error(&args);
        error.split(':').next().unwrap_or_default().to_owned()
            + error.split(" dots,").nth(1).unwrap_or(&error)
    };
    let messages = [
        error("nodes.jsonl", &"n".repeat(64)),
        error("queues.jsonl", &"q".repeat(64)),
        error("pods.jsonl", &"p".repeat(201)),
        error("nodes.jsonl", "a.-b"),
        error("pods.jsonl", ""),
    ];
    assert_snapshot!(messages.join("\n"), @"
    nodes.jsonl at most 63 long
    queues.jsonl at most 63 long
    pods.jsonl at most 200 long
    nodes.jsonl at most 63 long
    pods.jsonl at most 200 long
    ");
}

#[test]
fn queues_of_a_trace_must_form_a_tree() {
    let lab = Lab::new();
    let error = |queues: &str| {
        let mut args = lab.args(NODES, PODS);
        args.queues = Some(lab.file("queues.csv", queues));
        lab.error(&args)
    };
    let messages = [
        error("name,parent,quota\na,b,1\n"),
        error("name,parent,quota\na,b,1\nb,a,1\n"),
        error("name,parent,quota\na,,-2\n"),
        error("name,parent\na,\n"),
    ];
    assert_snapshot!(messages.join("\n"), @r#"
    queues.csv:2: parent: got b, expected the name of another queue
    queues.csv:2: parent: got a cycle above a, expected a tree
    queues.csv:2: quota: got "-2", expected a number from 0 to 1000000000, or -1 for no bound
    queues.csv:1: got the columns name, parent without quota, expected name, quota, parent, weight, limit, priority
    "#);
}

#[test]
fn a_csv_trace_is_simulated_to_its_end() {
    let lab = Lab::new();
    let pods = "\
        whole,1000,1024,2,1000,,LS,Running,0,3600,0\n\
        share,1000,1024,1,500,,LS,Running,0,3600,0\n\
        waits,1000,1024,2,1000,T4|V100,LS,Running,60,660,60\n\
        gives-up,1000,1024,8,1000,,BE,Pending,60,120,\n";
    let simulation = simulated(&lab.args(NODES, &format!("{PODS}{pods}")));
    assert_eq!(simulation.warnings, [""; 0]);
    assert_snapshot!(simulation.report.to_table(Colors::Off), @r"
    2 nodes with 4 GPUs; 4 jobs in 0.05 days
    utilisation      60.71 % of all GPUs used, over time
    allocation       60.71 % of all GPUs bound to pods, over time
      at its peak    62.50 %
      at the end      0.00 %
    fragmentation    81.82 % of free GPUs on nodes in use
    evictions            0 pods
    breaches             0 of the rules

    waiting                     jobs  never    median       p90       p99       max  evicted  GPU hours  quota
    part of a GPU                  1      0      0.0s      0.0s      0.0s      0.0s        0        0.5
    2 GPUs                         2      0      0.0s     59.0m     59.0m     59.0m        0        2.3
    5-8 GPUs                       1      1         -         -         -         -        0        0.0
    default-queue                  4      1      0.0s     59.0m     59.0m     59.0m        0        2.8

    what stands out
      queue default-queue: 1 of 4 jobs never started

    never started: number of jobs, the first of them, and why
          1 gives-up: Resources were not found for the pod due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn metrics_end_with_the_trace() {
    let lab = Lab::new();
    let mut args = lab.args(NODES, PODS);
    let pod = "{\"name\": \"short\", \"gpus\": 1, \"runs_secs\": 10}\n";
    args.pods = lab.file("pods.jsonl", pod);
    let report = simulated(&args).report;
    let allocation = report.allocation_percent.map(f64::round);
    assert_eq!((report.virtual_secs.round(), allocation), (10.0, Some(25.0)));
}

#[test]
fn jobs_that_never_start_are_counted_by_reason() {
    let lab = Lab::new();
    let row = |name: &str, gpus: u64, model: &str| {
        format!("{name},1000,1024,{gpus},1000,{model},LS,Running,0,,\n")
    };
    let leaves = "leaves,1000,1024,1,1000,,LS,Running,0,0,\n";
    let rows = [row("a", 8, ""), row("b", 8, ""), row("c", 1, "V100"), leaves.to_owned()];
    let report = simulated(&lab.args(NODES, &format!("{PODS}{}", rows.concat()))).report;
    let json =
        serde_json::to_string_pretty(&report.never_started).expect("the value is serializable");
    assert_snapshot!(json, @r#"
    [
      {
        "reason": "Resources were not found for the pod due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.",
        "jobs": 2,
        "first": "a"
      },
      {
        "reason": "Resources were not found for the pod due to: no nodes with enough resources were found: 2 node(s) didn't match Pod's node affinity/selector.",
        "jobs": 1,
        "first": "c"
      },
      {
        "reason": "the scheduler reported no reason before they were removed",
        "jobs": 1,
        "first": "leaves"
      }
    ]
    "#);
    let line = |at: u64| format!("{{\"name\": \"p{at}\", \"pods\": {at}, \"gpus\": {}}}\n", at + 4);
    let lines: String = (1..=12).map(line).collect();
    let args = Args { pods: lab.file("pods.jsonl", &lines), ..lab.args(NODES, PODS) };
    let table = simulated(&args).report.to_table(Colors::Off);
    assert_snapshot!(table.split("\n\n").last().expect("the table has sections"), @r"
    never started: number of jobs, the first of them, and why
          1 p1: Resources were not found for the pod due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
          1 p10: The workload cannot run on this cluster as it is: 10 pods that must run together request 140 GPUs, and all nodes on which they may run offer 4 GPUs.
          1 p11: The workload cannot run on this cluster as it is: 11 pods that must run together request 165 GPUs, and all nodes on which they may run offer 4 GPUs.
          1 p12: The workload cannot run on this cluster as it is: 12 pods that must run together request 192 GPUs, and all nodes on which they may run offer 4 GPUs.
          1 p2: The workload cannot run on this cluster as it is: 2 pods that must run together request 12 GPUs, and all nodes on which they may run offer 4 GPUs.
          1 p3: The workload cannot run on this cluster as it is: 3 pods that must run together request 21 GPUs, and all nodes on which they may run offer 4 GPUs.
          1 p4: The workload cannot run on this cluster as it is: 4 pods that must run together request 32 GPUs, and all nodes on which they may run offer 4 GPUs.
          1 p5: The workload cannot run on this cluster as it is: 5 pods that must run together request 45 GPUs, and all nodes on which they may run offer 4 GPUs.
          1 p6: The workload cannot run on this cluster as it is: 6 pods that must run together request 60 GPUs, and all nodes on which they may run offer 4 GPUs.
          1 p7: The workload cannot run on this cluster as it is: 7 pods that must run together request 77 GPUs, and all nodes on which they may run offer 4 GPUs.
          2 more for 2 other reasons (all with --json)
    ");
}

#[test]
fn a_json_trace_may_have_gangs_and_queues() {
    let lab = Lab::new();
    let mut args = lab.args(NODES, PODS);
    args.nodes = lab
        .file("nodes.jsonl", "{\"name\": \"n1\", \"gpus\": 4}\n{\"name\": \"n2\", \"gpus\": 4}\n");
    args.queues = Some(lab.file(
        "queues.jsonl",
        "{\"name\": \"top\", \"quota\": 8}\n\
         {\"name\": \"a\", \"parent\": \"top\", \"quota\": 4}\n\
         {\"name\": \"b\", \"parent\": \"top\", \"quota\": 4}\n",
    ));
    args.pods = lab.file(
        "pods.jsonl",
        "{\"name\": \"borrows\", \"queue\": \"a\", \"pods\": 4, \"gpus\": 2, \"runs_secs\": 1000}\n\
         {\"name\": \"owner\", \"queue\": \"b\", \"gpus\": 4, \"arrives_secs\": 100, \"runs_secs\": 100}\n",
    );
    let report = simulated(&args).report;
    assert_snapshot!(report.to_table(Colors::Off), @r"
    2 nodes with 8 GPUs; 2 jobs in 0.01 days
    utilisation      95.83 % of all GPUs used, over time
    allocation       95.83 % of all GPUs bound to pods, over time
      at its peak   100.00 %
      at the end      0.00 %
    fragmentation     0.00 % of free GPUs on nodes in use
    evictions            4 pods, 0.2 GPU hours lost
    breaches             0 of the rules

    waiting                     jobs  never    median       p90       p99       max  evicted  GPU hours  quota
    3-4 GPUs                       1      0      1.0s      1.0s      1.0s      1.0s        0        0.1
    5-8 GPUs                       1      0      0.0s    100.0s    100.0s    100.0s        4        2.4
    a                              1      0      0.0s    100.0s    100.0s    100.0s        4        2.4  100 %
    b                              1      0      1.0s      1.0s      1.0s      1.0s        0        0.1   99 %

    what stands out
      evictions lost 0.2 GPU hours, 9 % of all that were used
    ");
    assert_eq!(report, simulated(&args).report, "simulating a trace twice gives the same report");
}

/// The message names the option that leaves nothing to simulate.
#[test]
fn transforms_that_leave_nothing_to_simulate_are_rejected() {
    let lab = Lab::new();
    let pods = "idle,1000,1024,0,0,,LS,Running,60,120,60\n";
    let args = || lab.args(NODES, &format!("{PODS}{pods}"));
    let nodes = lab.file("bare.csv", "sn,cpu_milli,memory_mib,gpu\nn1,1000,1024,0\n");
    let bare = Args { nodes, ..args() };
    let messages = [
        lab.error(&Args { scale_fleet: 0.1, ..args() }),
        lab.error(&Args { inflate: Some(130), ..args() }),
        lab.error(&Args { inflate: Some(130), ..bare }),
        lab.error(&Args { compress: 1e-300, ..args() }),
        lab.error(&lab.args("sn,cpu_milli,memory_mib,gpu\n", &format!("{PODS}{pods}"))),
        lab.error(&lab.args(NODES, PODS)),
    ];
    assert_snapshot!(messages.join("\n"), @r"
    --scale-fleet: got 0.1, which leaves none of 2 nodes, expected a larger fraction
    --inflate: got no pod that requests a GPU in pods.csv, expected at least one
    --inflate: got no GPU on 1 remaining node of bare.csv, expected a fleet with GPUs
    --compress: got 1e-300, which moves arrivals beyond a hundred years, expected a larger factor
    nodes.csv: got no node, expected at least one
    pods.csv: got no pod, expected at least one pod
    ");
}

/// Two pods that share a GPU, one with 0.7 of each of two GPUs, and one with a whole GPU.
const SHARES: &str = "\
    {\"name\": \"half\", \"gpus\": 1, \"gpu_milli\": 500, \"runs_secs\": 100}\n\
    {\"name\": \"third\", \"gpus\": 1, \"gpu_milli\": 333, \"runs_secs\": 100}\n\
    {\"name\": \"both\", \"gpus\": 2, \"gpu_milli\": 1400, \"runs_secs\": 100}\n\
    {\"name\": \"whole\", \"gpus\": 1, \"runs_secs\": 100}\n";

#[test]
fn pods_share_gpus_only_if_the_scheduler_supports_it() {
    let lab = Lab::new();
    let pods = lab.file("pods.jsonl", SHARES);
    let one = "sn,cpu_milli,memory_mib,gpu\nn,32000,65536,4\n";
    let args = Args { pods, ..lab.args(one, PODS) };
    let peak = |line: &Simulation| format!("{:.2}", line.report.allocation_peak_percent.unwrap());
    let shared = simulated(&args);
    assert_eq!(shared.warnings, [""; 0]);
    // 0.5 + 0.333 of one GPU, 0.7 of each of two, and a whole one: 3.233 of 4.
    assert_eq!(peak(&shared), "80.83");
    assert_eq!(shared.report.breaches, [""; 0]);
    let kinds: Vec<_> =
        shared.report.waiting_by_gpus.iter().map(|row| (&*row.of, row.jobs)).collect();
    assert_eq!(kinds, [("part of a GPU", 2), ("1 GPU", 1), ("2 GPUs", 1)]);
    assert!(
        shared.report.waiting_by_gpus.iter().all(|row| row.max_secs < Some(1.0)),
        "no job is pending"
    );

    let whole = simulated(&Args { profile: Profile::Kube, ..args });
    let warning =
        "kube-scheduler does not support the GPU fractions of 3 of 4 jobs: they get whole GPUs";
    assert_eq!(whole.warnings, [warning]);
    assert_eq!(peak(&whole), "100.00");
    assert!(
        whole.report.waiting_by_gpus.iter().any(|row| row.max_secs > Some(90.0)),
        "one job is pending"
    );
}

#[test]
fn a_gang_becomes_single_pods_if_the_scheduler_has_no_gangs() {
    let lab = Lab::new();
    let gang = "{\"name\": \"gang\", \"pods\": 3, \"gpus\": 2, \"runs_secs\": 100}\n";
    let pods = lab.file("pods.jsonl", gang);
    let simulation = simulated(&Args { pods, profile: Profile::Kube, ..lab.args(NODES, PODS) });
    let warning = "kube-scheduler does not support the 1 gang of the trace: each pod becomes a job of its \
                own, 3 jobs in total";
    assert_eq!(simulation.warnings, [warning]);
    assert_snapshot!(simulation.report.to_table(Colors::Off).split("\n\n").nth(1).unwrap(), @"
    waiting                     jobs  never    median       p90       p99       max  evicted  GPU hours  quota
    2 GPUs                         3      0      0.0s    100.0s    100.0s    100.0s        0        0.2
    default-queue                  3      0      0.0s    100.0s    100.0s    100.0s        0        0.2
    ");
}

/// A percentage over no time is undefined, not 0 %: the table shows `-`.
#[test]
fn metrics_over_no_time_are_undefined() {
    let lab = Lab::new();
    let pod = "{\"name\": \"fits\", \"gpus\": 1}\n{\"name\": \"waits\", \"gpus\": 8}\n";
    let pods = lab.file("pods.jsonl", pod);
    let simulation = simulated(&Args { pods, ..lab.args(NODES, PODS) });
    let table = simulation.report.to_table(Colors::Off);
    assert_snapshot!(table.split("\n\nnever").next().unwrap(), @r"
    2 nodes with 4 GPUs; 2 jobs in 0.00 days
    utilisation          - % of all GPUs used, over time
    allocation           - % of all GPUs bound to pods, over time
      at its peak    25.00 %
      at the end     25.00 %
    fragmentation        - % of free GPUs on nodes in use
    evictions            0 pods
    breaches             0 of the rules

    waiting                     jobs  never    median       p90       p99       max  evicted  GPU hours  quota
    1 GPU                          1      0      0.0s      0.0s      0.0s      0.0s        0        0.0
    5-8 GPUs                       1      1         -         -         -         -        0        0.0
    default-queue                  2      1      0.0s      0.0s      0.0s      0.0s        0        0.0

    what stands out
      queue default-queue: 1 of 2 jobs never started
    ");
}

#[test]
fn the_configuration_file_configures_the_scheduler() {
    let lab = Lab::new();
    let nodes = "sn,cpu_milli,memory_mib,gpu\nn1,32000,65536,2\nn2,32000,65536,2\n";
    let pods = lab.file("pods.jsonl", &SHARES.lines().take(2).collect::<Vec<_>>().join("\n"));
    let with = |config: &str| Args {
        pods: pods.clone(),
        config: Some(lab.file("config.yaml", config)),
        ..lab.args(nodes, PODS)
    };
    let stranded = |config: &str| simulated(&with(config)).report.fragmentation_percent.unwrap();
    let packed = stranded("placementStrategy: {gpu: binpack}");
    let spread = stranded("placementStrategy: {gpu: spread}");
    assert!(packed < spread, "bin-packing strands {packed} %, spreading {spread} %");
    assert_snapshot!(lab.error(&with("placementStrategy: {gpu: tight}")), @"config.yaml: placementStrategy.gpu: unknown variant `tight`, expected one of `binpack`, `spread`, `leastfragmentation` at line 1 column 26");
    let kube = Args { profile: Profile::Kube, ..with("placementStrategy: {gpu: spread}") };
    assert_snapshot!(lab.error(&kube), @"config.yaml: placementStrategy: got a value, expected no value with profile kube at line 1 column 20");
    let missing = Args { config: Some("nowhere.yaml".into()), ..with("") };
    assert_snapshot!(lab.error(&missing), @"cannot read nowhere.yaml: No such file or directory (os error 2)");
}

#[test]
fn inflating_a_trace_fills_the_fleet() {
    let lab = Lab::new();
    let pods = "one,1000,1024,1,1000,,LS,Running,0,60,0\ntwo,1000,1024,2,1000,,LS,Running,0,60,0\n";
    let args = Args { inflate: Some(130), ..lab.args(NODES, &format!("{PODS}{pods}")) };
    let report = simulated(&args).report;
    assert!(report.jobs >= 3, "130 % of 4 GPUs need more than the two pods of the list");
    assert!((75.0..=100.0).contains(&report.allocation_end_percent.unwrap()));
    assert_eq!(report.breaches, Vec::<String>::new());
}

/// A program is a scheduler in scaled real time: here ours, so that nothing has to be installed.
#[test]
fn a_scheduler_of_its_own_is_simulated_in_scaled_real_time() {
    let lab = Lab::new();
    let nodes = lab.file("nodes.jsonl", "{\"name\": \"n\", \"gpus\": 8}\n");
    let pods = "{\"name\": \"first\", \"gpus\": 8, \"runs_secs\": 1200, \
                \"priority_class\": \"build\"}\n\
                {\"name\": \"gang\", \"pods\": 2, \"gpus\": 4, \"arrives_secs\": 60, \
                \"runs_secs\": 600}\n";
    let pods = lab.file("pods.jsonl", pods);
    let schedlab = env!("CARGO_BIN_EXE_schedlab");
    let process = format!(
        "process:{schedlab} scheduler run --kubeconfig {{kubeconfig}} --profile {{profile}} \
         --scheduler-name {{scheduler-name}}"
    );
    let output = std::process::Command::new(schedlab)
        .arg("simulate")
        .args(["--nodes".as_ref(), nodes.as_os_str(), "--pods".as_ref(), pods.as_os_str()])
        .args(["--scheduler", &process, "--target", "schedlab-scheduler"])
        .args(["--speed", "600", "--json"])
        .env("XDG_STATE_HOME", lab.folder.path())
        .output()
        .expect("schedlab runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("warning: schedlab-scheduler ran in real time, 600 times"), "{stderr}");
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("the report is JSON");
    assert_eq!(report["real_time"]["resolution_secs"], 600.0);
    let size = |name: &str| {
        let groups = report["waiting_by_gpus"].as_array().into_iter().flatten();
        groups.clone().find(|group| group["of"] == name).cloned().unwrap_or_default()
    };
    let wait = size("5-8 GPUs")["max_secs"].as_f64().unwrap_or_default();
    // The gang arrives after 60 s, and has to wait until the first job ends after 1,200 s or later.
    assert!(wait >= 1200.0 && wait % 600.0 == 0.0, "{report:#}");
    assert_eq!(size("5-8 GPUs")["never_started"], 0, "{report:#}");
}

/// The page has the table as it is printed, and four plots whose tables name the queues; JSON gets
/// no series from it.
#[test]
fn the_page_has_the_table_and_plots_over_time() {
    let lab = Lab::new();
    let pods = format!("{PODS}one,1000,1024,1,1000,,LS,Running,0,7200,0\n");
    let without = lab.args(NODES, &pods);
    let args = Args { html: Some(PathBuf::from("unused.html")), ..without.clone() };
    let simulation = simulated(&args);
    assert_eq!(simulation.report.series, None);
    let page = simulation.html.expect("a page was requested");
    assert!(page.contains("2 nodes with 4 GPUs; 1 job in 0.08 days"));
    let titles = ["Utilisation", "Used GPUs by queue", "Waiting GPUs by queue", "Fragmentation"];
    let found: Vec<&str> = titles
        .into_iter()
        .filter(|title| page.contains(&format!("<strong>{title}</strong>")))
        .collect();
    assert_eq!(found, titles);
    assert!(page.contains(r#"<th scope="col">default-queue (GPUs)</th>"#), "the queue has values");
    assert_eq!(simulated(&without).html, None);
}
