//! The real Prometheus reads the metrics of `schedlab up` by the configuration of fixtures/monitoring,
//! and answers every query of the dashboard. Skipped where Prometheus is not installed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn monitoring(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/monitoring");
    std::fs::read_to_string(folder.join(file)).unwrap()
}

/// The body of the response to a GET; `None` while nothing listens.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    Some(response.split_once("\r\n\r\n")?.1.to_owned())
}

/// An address of the loopback interface on which nothing listens.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn query(address: &str, expression: &str) -> Option<Value> {
    let escape = |byte: u8| format!("%{byte:02x}");
    let escaped: String = expression.bytes().map(escape).collect();
    serde_json::from_str(&get(address, &format!("/api/v1/query?query={escaped}"))?).ok()
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test must be visible in the output")]
fn prometheus_answers_every_query_of_the_dashboard() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        eprintln!("skipped: no prometheus");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut up = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["up", "--metrics-port", "0", "--kubeconfig", "-"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(up.stderr.take().unwrap()).lines();
    let _up = Running(up);
    let target = lines
        .map_while(Result::ok)
        .find_map(|line| {
            Some(line.strip_prefix("metrics: http://")?.strip_suffix("/metrics")?.to_owned())
        })
        .expect("up prints where its metrics are");
    let config = monitoring("prometheus.yaml").replace("127.0.0.1:9400", &target);
    std::fs::write(folder.path().join("prometheus.yaml"), config.replace("5s", "1s")).unwrap();
    let address = free_address();
    let prometheus = Command::new("prometheus")
        .args(["--config.file", "prometheus.yaml", "--storage.tsdb.path", "data"])
        .arg(format!("--web.listen-address={address}"))
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _prometheus = Running(prometheus.unwrap());
    let is_scraped = || {
        let answer = query(&address, "kai_e2e_scheduling_latency_milliseconds")?;
        answer["data"]["result"].as_array().filter(|found| !found.is_empty()).map(drop)
    };
    while is_scraped().is_none() {
        std::thread::park_timeout(Duration::from_millis(200));
    }
    let dashboard: Value = serde_json::from_str(&monitoring("dashboard.json")).unwrap();
    let metrics = get(&target, "/metrics").unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap().replace("$queue", ".*");
            let answer = query(&address, &expression).unwrap();
            assert_eq!(answer["status"], "success", "{expression}: {answer}");
        }
    }
    assert!(metrics.contains("kai_task_scheduling_latency_milliseconds_bucket"), "{metrics}");
}

#[test]
fn the_dashboard_names_only_documented_metrics() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/metrics.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let dashboard = monitoring("dashboard.json");
    let names: Vec<&str> = dashboard
        .split("kai_")
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
        .collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let name = name.trim_end_matches("_bucket");
        assert!(docs.contains(&format!("`{name}`")), "{name} is not in docs/reference/metrics.md");
    }
}
