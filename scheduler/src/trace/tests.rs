//! Tracing notes what is decided and changes nothing of it.

use schedlab_scheduler_core::{Profile, Snapshot, schedule, schedule_before, synthetic};

use super::*;

/// The plan, and what is kept of how it came about.
fn traced(snapshot: &Snapshot, most: usize) -> (schedlab_scheduler_core::Plan, String) {
    let trace = Trace::of_lines(most);
    let mut profile = Profile::kai();
    profile.plugins = trace.watch(&profile.plugins);
    trace.cycle(snapshot.now);
    let mut beside = Beside { other: &mut (), trace: &trace };
    let plan = schedule_before(snapshot, &profile, &mut beside);
    (plan, trace.text())
}

#[test]
fn every_extension_point_is_noted_and_the_decisions_are_the_same() {
    let clusters = [
        synthetic::pending_singles(2, 2),
        synthetic::large_gang_against_singles(4),
        synthetic::hopeless_gang_against_singles(2),
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
fn answers_of_many_nodes_are_one_line() {
    let (_, text) = traced(&synthetic::pending_singles(50, 1), 100_000);
    let first = text.lines().find(|line| line.starts_with("  Filter NodeResourcesFit: ")).unwrap();
    assert!(first.ends_with(" and 49 more: passes"), "{first}");
}

#[test]
fn a_node_that_is_looked_at_again_is_one_node() {
    let trace = Trace::of_lines(10);
    for node in ["n1", "n0", "n1", "n0"] {
        trace.says_of_node(("Filter", "Fit"), "ns/a", (node, "passes"));
    }
    assert_eq!(trace.text(), "  Filter Fit: ns/a on n1 and 1 more: passes\n");
}

#[test]
fn no_more_lines_are_kept_than_were_asked_for_and_none_is_long() {
    let snapshot = synthetic::pending_singles(20, 4);
    let (_, whole) = traced(&snapshot, 100_000);
    let (_, text) = traced(&snapshot, 10);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 11, "{text}");
    let dropped = whole.lines().count() - 10;
    assert_eq!(lines[0], format!("({dropped} lines before these were dropped)"));
    let newest: Vec<&str> = whole.lines().skip(dropped).collect();
    assert_eq!(lines[1..], newest[..]);
    let trace = Trace::of_lines(3);
    trace.says(("Filter", "Long"), "ns/a", &"é".repeat(10_000));
    assert_eq!(trace.text().trim_end().chars().count(), 401);
}
