//! Logs of `schedlab run` with the scheduler in process.

use std::collections::BTreeSet;

use serde_json::Value;

use super::lab::Lab;

#[test]
fn nothing_is_logged_without_rust_log() {
    let run = Lab::from_fixture("diff").run(&["run", "--log-format", "json"]);
    assert_eq!(run.code, 0, "{}", run.all());
    let others: Vec<&str> = run.stderr.lines().filter(|line| !is_report(line)).collect();
    assert!(others.is_empty(), "{}", run.all());
}

/// Whether the line names the results folder, which runs print beside their log.
fn is_report(line: &str) -> bool {
    line.starts_with("results: ")
}

#[test]
fn each_line_of_a_json_log_is_an_object_with_its_spans() {
    let lab = Lab::from_fixture("diff");
    let run = lab.run_with(&["run", "--log-format", "json"], &[("RUST_LOG", "debug")]);
    assert_eq!(run.code, 0, "{}", run.all());
    let lines = run.stderr.lines().filter(|line| !is_report(line));
    let lines = lines.map(|line| serde_json::from_str(line).expect(line));
    let lines: Vec<Value> = lines.collect();
    let name = |span: &Value| span["name"].as_str().unwrap_or_default().to_owned();
    let spans = lines.iter().filter_map(|line| line["spans"].as_array()).flatten().map(name);
    let spans: BTreeSet<String> = spans.collect();
    for expected in ["cycle", "action", "bind", "request"] {
        assert!(spans.contains(expected), "{expected} is not one of {spans:?}");
    }
    let bound = lines.iter().find(|line| line["message"] == "pod bound").expect("a pod is bound");
    assert_eq!((&bound["level"], bound["duration_ms"].is_number()), (&"INFO".into(), true));
    assert!(bound["span"]["pod"].is_string() && bound["span"]["node"].is_string(), "{bound}");
    let cycle = lines.iter().find(|line| line["message"] == "cycle ended").expect("a cycle ends");
    for field in ["pods", "decisions", "waiting_groups", "duration_ms"] {
        assert!(cycle[field].is_number(), "{field}: {cycle}");
    }
}

#[test]
fn an_invalid_rust_log_is_a_usage_error() {
    let run = Lab::from_fixture("passes").run_with(&["run"], &[("RUST_LOG", "a=loud")]);
    let expected = "schedlab: RUST_LOG: got a=loud, expected a level such as debug, or a list such as \
                    info,schedlab_scheduler=debug\n";
    assert_eq!((run.code, &*run.stderr), (2, expected));
}
