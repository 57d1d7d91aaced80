//! Tracing records decisions and does not change them.

use schedlab_scheduler_core::{Profile, Snapshot, schedule, schedule_observed};
use schedlab_testkit::synthetic;

use super::*;

/// The plan, and the trace.
fn traced(snapshot: &Snapshot, most: usize) -> (schedlab_scheduler_core::Plan, String) {
    let trace = Trace::with_capacity(most);
    let mut profile = Profile::kai();
    profile.plugins = trace.wrap(&profile.plugins);
    trace.begin_cycle(snapshot.now);
    let mut beside = TracedObserver { inner: &mut (), trace: &trace };
    let plan = schedule_observed(snapshot, &profile, &mut beside);
    (plan, trace.text())
}

#[test]
fn every_extension_point_is_recorded_and_decisions_do_not_change() {
    let clusters = [
        synthetic::pending_singles(2, 2),
        synthetic::large_gang_against_singles(4),
        synthetic::infeasible_gang_against_singles(2),
    ];
    for snapshot in &clusters {
        assert_eq!(traced(snapshot, 100_000).0, schedule(snapshot, &Profile::kai()));
    }
    let (_, text) = traced(&clusters[0], 100_000);
    let points = ["PreEnqueue", "QueueSort", "PreFilter", "Filter", "Score", "Reserve", "Permit"];
    for point in points {
        assert!(text.contains(&format!("\n  {point} ")), "{point} in\n{text}");
    }
    assert!(text.contains("\n allocate begins\n"), "{text}");
}

#[test]
fn equal_verdicts_on_many_nodes_are_one_line() {
    let (_, text) = traced(&synthetic::pending_singles(50, 1), 100_000);
    let first = text.lines().find(|line| line.starts_with("  Filter NodeResourcesFit: ")).unwrap();
    assert!(first.ends_with(" and 49 more: passes"), "{first}");
}

#[test]
fn a_node_judged_twice_is_counted_once() {
    let trace = Trace::with_capacity(10);
    for node in ["n1", "n0", "n1", "n0"] {
        trace.record_node("Filter", "Fit", "ns/a", node, "passes");
    }
    assert_eq!(trace.text(), "  Filter Fit: ns/a on n1 and 1 more: passes\n");
}

#[test]
fn the_number_and_length_of_lines_are_bounded() {
    let snapshot = synthetic::pending_singles(20, 4);
    let (_, whole) = traced(&snapshot, 100_000);
    let (_, text) = traced(&snapshot, 10);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 11, "{text}");
    let dropped = whole.lines().count() - 10;
    assert_eq!(lines[0], format!("({dropped} lines before these were dropped)"));
    let newest: Vec<&str> = whole.lines().skip(dropped).collect();
    assert_eq!(lines[1..], newest[..]);
    let trace = Trace::with_capacity(3);
    trace.record("Filter", "Long", "ns/a", &"é".repeat(10_000));
    assert_eq!(trace.text().trim_end().chars().count(), 401);
}
