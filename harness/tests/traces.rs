//! `schedlab trace` as a user runs it, and its import from a real Prometheus that holds a recorded
//! week. The latter is skipped where Prometheus is not installed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use insta::assert_snapshot;
use tempfile::TempDir;

/// A folder in which commands run.
struct Lab(TempDir);

/// What a command printed.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Lab {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn schedlab(&self, arguments: &str) -> Run {
        let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .output()
            .unwrap();
        Run {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command that passes, and returns its notes.
    fn notes(&self, arguments: &str) -> String {
        let run = self.schedlab(arguments);
        assert_eq!(run.code, 0, "{arguments}: {}", run.stderr);
        run.stderr
    }
}

const HELIOS: &str = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,uA,vcRed,4,16,1,COMPLETED,2020-06-08 09:00:00,2020-06-08 09:00:01,2020-06-08 09:10:01,600,1
2,uB,vcBlue,16,64,2,FAILED,2020-06-08 10:00:00,2020-06-08 10:00:00,2020-06-08 11:00:00,3600,0
3,uA,vcRed,1,4,1,CANCELLED,2020-06-09 09:00:00,,2020-06-09 09:30:00,0,1800
";
const NODES: &str = "{\"name\":\"n1\",\"gpus\":8,\"model\":\"A100\"}\n{\"name\":\"n2\",\"gpus\":8,\"model\":\"A100\"}\n";

/// A public trace becomes a native one with queues, is changed, and is simulated.
#[test]
fn a_public_trace_is_imported_changed_and_simulated() {
    let lab = Lab::new();
    lab.write("cluster_log.csv", HELIOS);
    lab.write("nodes.jsonl", NODES);
    assert_eq!(lab.notes("trace import cluster_log.csv -o t.jsonl"), "t.jsonl: 3 jobs\n");
    assert_snapshot!(lab.read("t.jsonl"), @r#"
    {"format":"schedlab.dev/trace/v1","start":"2020-06-08T09:00:00Z"}
    {"name":"1","cpu_milli":16000,"gpus":4,"queue":"vcred","user":"uA","arrives_secs":0.0,"runs_secs":600.0}
    {"name":"2","pods":2,"cpu_milli":32000,"gpus":8,"queue":"vcblue","user":"uB","arrives_secs":3600.0,"runs_secs":3600.0}
    {"name":"3","cpu_milli":4000,"gpus":1,"queue":"vcred","user":"uA","arrives_secs":86400.0,"leaves_after_secs":1800.0}
    "#);
    assert_snapshot!(lab.schedlab("trace queues t.jsonl --fleet nodes.jsonl").stdout, @r#"
    {"name":"vcblue","quota":15.3,"weight":1.0,"limit":-1.0,"priority":100}
    {"name":"vcred","quota":0.6,"weight":1.0,"limit":-1.0,"priority":100}
    "#);
    lab.notes("trace queues t.jsonl -o queues.jsonl");
    lab.notes("trace cut t.jsonl --from 2020-06-08 --to 12h -o first.jsonl");
    lab.notes("trace scale first.jsonl --jobs 6 -o six.jsonl");
    lab.notes("trace merge six.jsonl t.jsonl -o all.jsonl");
    lab.notes("trace generate --like t.jsonl --days 3 --seed 4 -o like.jsonl");
    assert_eq!(
        lab.read("like.jsonl"),
        lab.schedlab("trace generate --like t.jsonl --days 3 --seed 4").stdout
    );
    let run = lab.schedlab("simulate --nodes nodes.jsonl --pods all.jsonl --queues queues.jsonl");
    assert!(
        run.stdout.starts_with("2 nodes with 16 GPUs; 9 jobs in "),
        "{}{}",
        run.stdout,
        run.stderr
    );
    let direct =
        lab.schedlab("simulate --nodes nodes.jsonl --pods cluster_log.csv --queues queues.jsonl");
    assert!(
        direct.stdout.starts_with("2 nodes with 16 GPUs; 3 jobs in "),
        "{}{}",
        direct.stdout,
        direct.stderr
    );
}

#[test]
fn faults_of_traces_are_errors_with_exit_code_2() {
    let lab = Lab::new();
    lab.write("t.csv", HELIOS);
    lab.write("plain.jsonl", "{\"name\":\"a\",\"arrives_secs\":1}\n");
    lab.write("bad.csv", &HELIOS.replace(",600,1", ""));
    let message = |arguments: &str| {
        let run = lab.schedlab(arguments);
        assert_eq!(run.code, 2, "{arguments}: {}{}", run.stdout, run.stderr);
        run.stderr.lines().next().unwrap_or_default().to_owned()
    };
    let messages = [
        message("trace stats bad.csv"),
        message("trace stats missing.csv"),
        message("trace stats t.csv --format csv"),
        message("trace cut plain.jsonl --from 2026-01-01"),
        message("trace cut t.csv --from 30d"),
        message("trace cut t.csv --from soon"),
        message("trace cut t.csv --queue vcrde"),
        message("trace scale t.csv --load 0"),
        message("trace import"),
        message("trace import --prometheus nowhere"),
        message("trace import --prometheus http://127.0.0.1:9 --since 1h"),
    ];
    assert_snapshot!(messages.join("\n"), @r#"
    schedlab: bad.csv:2: got 10 values, expected 12 as in the header
    schedlab: missing.csv: got No such file or directory (os error 2), expected a trace file that can be read
    error: invalid value 'csv' for '--format <FORMAT>': got format "csv", expected one of json-lines, columns, openb, acme, philly, helios, pai
    schedlab: --from: got 2026-01-01T00:00:00Z, expected a time from the start such as 2d, as the trace has no dates
    schedlab: t.csv: got no job in that time and these queues, expected one
    error: invalid value 'soon' for '--from <TIME>': got "soon", expected a time from the start such as 2d or 36h, or a date such as 2026-11-20
    schedlab: --queue: got vcrde, expected one of vcblue, vcred; did you mean `vcred`?
    error: invalid value '0' for '--load <FACTOR>': got "0", expected a number above 0 and up to 1000
    schedlab: trace import: got nothing to read, expected files of jobs, --prometheus, --kubectl or --case
    schedlab: --prometheus: got "nowhere", expected a URL such as http://127.0.0.1:9090
    schedlab: http://127.0.0.1:9: query last_over_time(kube_pod_created[3600s]): ServiceError: client error (Connect): client error (Connect): tcp connect error: Connection refused (os error 111)
    "#);
}

#[test]
fn an_import_of_pods_does_not_ask_for_nodes_and_queues() {
    let lab = Lab::new();
    let pod = "
apiVersion: v1
kind: Pod
metadata:
  name: train
  namespace: work
  creationTimestamp: 2026-11-02T00:00:00Z
  labels: {kai.scheduler/queue: team-a}
spec:
  containers: [{name: work, image: work, resources: {limits: {nvidia.com/gpu: 8}}}]
";
    lab.write("pods.yaml", pod);
    let notes = lab.notes("trace import --kubectl pods.yaml -o jobs.jsonl");
    assert!(notes.contains("jobs.jsonl: 1 job"), "{notes}");
    assert!(!notes.contains("add them to the input"), "{notes}");
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Seconds since 1970 of Monday, 2 November 2026, 00:00 UTC.
const MONDAY: u64 = 1_793_577_600;
const HOUR: u64 = 3600;
/// Distance of two scrapes.
const SCRAPE: u64 = 60;

/// A pod of the recorded week.
struct WeekPod {
    name: String,
    owner: &'static str,
    queue: &'static str,
    gpus: u64,
    created: u64,
    /// When the pod completed; `None`: it was deleted while it ran.
    completed: Option<u64>,
    gone: u64,
}

/// Each day a gang of 4 pods that completes, and a notebook that is deleted; and a pod of the
/// system.
fn week() -> Vec<WeekPod> {
    let mut pods = Vec::new();
    for day in 0..7 {
        let created = MONDAY + day * 24 * HOUR + 9 * HOUR;
        for member in 0..4 {
            pods.push(WeekPod {
                name: format!("train-{day}-{member}"),
                owner: "PyTorchJob",
                queue: "research",
                gpus: 8,
                created: created + member,
                completed: Some(created + 2 * HOUR),
                gone: created + 3 * HOUR,
            });
        }
        pods.push(WeekPod {
            name: format!("notebook-{day}-x"),
            owner: "ReplicaSet",
            queue: "interactive",
            gpus: 1,
            created: created + HOUR,
            completed: None,
            gone: created + 4 * HOUR,
        });
    }
    pods.push(WeekPod {
        name: "coredns-1".to_owned(),
        owner: "ReplicaSet",
        queue: "",
        gpus: 0,
        created: MONDAY,
        completed: None,
        gone: MONDAY + 7 * 24 * HOUR,
    });
    pods
}

/// The samples of one series of a pod: its labels after those of the pod, and its value.
type Sample = fn(&WeekPod) -> Option<(String, u64)>;

/// The week as Prometheus would have scraped it, in the `OpenMetrics` format.
fn open_metrics(pods: &[WeekPod]) -> String {
    let families: [(&str, Sample); 6] = [
        ("kube_pod_created", |pod| Some((String::new(), pod.created))),
        ("kube_pod_start_time", |pod| Some((String::new(), pod.created + 30))),
        ("kube_pod_completion_time", |pod| Some((String::new(), pod.completed?))),
        ("kube_pod_container_resource_requests", |pod| {
            let labels = ",container=\"main\",resource=\"nvidia_com_gpu\",unit=\"integer\"";
            (pod.gpus > 0).then(|| (labels.to_owned(), pod.gpus))
        }),
        ("kube_pod_labels", |pod| {
            let label = format!(",label_kai_scheduler_queue=\"{}\"", pod.queue);
            Some((if pod.queue.is_empty() { String::new() } else { label }, 1))
        }),
        ("kube_pod_owner", |pod| {
            let owner = pod.name.rsplit_once('-').map_or("", |(owner, _)| owner);
            Some((format!(",owner_kind=\"{}\",owner_name=\"{owner}\"", pod.owner), 1))
        }),
    ];
    let mut text = String::new();
    for (family, sample) in families {
        writeln!(text, "# TYPE {family} gauge").unwrap();
        for pod in pods {
            let Some((labels, value)) = sample(pod) else { continue };
            let name = &pod.name;
            let labels =
                format!("{family}{{namespace=\"default\",pod=\"{name}\",uid=\"{name}\"{labels}}}");
            let first = if family == "kube_pod_completion_time" { value } else { pod.created };
            let scrapes = (MONDAY..pod.gone).step_by(usize::try_from(SCRAPE).unwrap());
            for at in scrapes.filter(|at| *at >= first) {
                writeln!(text, "{labels} {value} {at}").unwrap();
            }
        }
    }
    writeln!(text, "# TYPE kai_queue_deserved_gpus gauge").unwrap();
    for (queue, quota) in [("research", 24), ("interactive", 8)] {
        for at in (MONDAY..MONDAY + 7 * 24 * HOUR).step_by(600) {
            writeln!(text, "kai_queue_deserved_gpus{{queue_name=\"{queue}\"}} {quota} {at}")
                .unwrap();
        }
    }
    text + "# EOF\n"
}

fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn is_ready(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let request = format!("GET /-/ready HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let mut response = String::new();
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_string(&mut response).is_ok()
        && response.contains(" 200 ")
}

/// Starts a Prometheus that holds the recorded week.
fn prometheus(folder: &Path, address: &str) -> Running {
    std::fs::write(folder.join("week.om"), open_metrics(&week())).unwrap();
    let blocks = Command::new("promtool")
        .args(["tsdb", "create-blocks-from", "openmetrics", "week.om", "data"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(blocks.status.success(), "{}", String::from_utf8_lossy(&blocks.stderr));
    std::fs::write(folder.join("prometheus.yaml"), "global: {}\n").unwrap();
    let running = Command::new("prometheus")
        .args(["--config.file", "prometheus.yaml", "--storage.tsdb.path", "data"])
        .arg("--storage.tsdb.retention.time=100y")
        .arg(format!("--web.listen-address={address}"))
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let running = Running(running);
    while !is_ready(address) {
        std::thread::park_timeout(Duration::from_millis(100));
    }
    running
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test must be visible in the output")]
fn a_recorded_week_is_imported_from_prometheus() {
    let is_installed = |program| Command::new(program).arg("--version").output().is_ok();
    if !is_installed("prometheus") || !is_installed("promtool") {
        eprintln!("skipped: no prometheus and promtool");
        return;
    }
    let lab = Lab::new();
    let address = free_address();
    let _prometheus = prometheus(lab.0.path(), &address);
    let run = lab.schedlab(&format!(
        "trace import --prometheus http://{address} --since 7d --until 2026-11-09 \
         --queues-output queues.jsonl -o week.jsonl"
    ));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_snapshot!(run.stderr, @"
    50 of 70 queries, 26 pods
    note: pods skipped: 1, without GPU and queue (--all-pods takes them)
    week.jsonl: 14 jobs
    ");
    let trace = lab.read("week.jsonl");
    assert_eq!(trace.lines().count(), 1 + 14, "{trace}");
    let first: Vec<&str> = trace.lines().take(3).collect();
    assert_snapshot!(first.join("\n"), @r#"
    {"format":"schedlab.dev/trace/v1","start":"2026-11-02T09:00:00Z"}
    {"name":"train-0","pods":4,"gpus":8,"queue":"research","kind":"PyTorchJob","arrives_secs":0.0,"runs_secs":7167.0}
    {"name":"notebook-0-x","gpus":1,"queue":"interactive","kind":"ReplicaSet","arrives_secs":3600.0,"runs_secs":10710.0}
    "#);
    assert_snapshot!(lab.read("queues.jsonl"), @r#"
    {"name":"interactive","quota":8.0,"weight":1.0,"limit":-1.0,"priority":100}
    {"name":"research","quota":24.0,"weight":1.0,"limit":-1.0,"priority":100}
    "#);
    lab.write(
        "nodes.jsonl",
        &["n1", "n2", "n3", "n4"]
            .map(|name| format!("{{\"name\":\"{name}\",\"gpus\":8}}\n"))
            .concat(),
    );
    let simulated =
        lab.schedlab("simulate --nodes nodes.jsonl --pods week.jsonl --queues queues.jsonl");
    assert!(
        simulated.stdout.starts_with("4 nodes with 32 GPUs; 14 jobs in 6."),
        "{}{}",
        simulated.stdout,
        simulated.stderr
    );
}
