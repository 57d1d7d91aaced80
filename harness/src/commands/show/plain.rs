//! A recorded run as text, for files and pipes.

use std::fmt::Write as _;

use ratatui::text::Line;
use schedlab_conformance::report::CaseReport;
use schedlab_view::timeline::Timeline;

use super::draw::{node_lines, queue_lines};
use super::viewer::{Viewer, mark};

/// The scenarios that the filter lets through; of those that did not pass also the steps, why they
/// failed, and the cluster after the last write.
///
/// # Errors
/// A timeline of the run cannot be read.
pub(super) fn text(title: &str, viewer: &Viewer) -> anyhow::Result<String> {
    let visible = viewer.visible();
    let mut text = format!("{title}: {} of {} scenarios\n", visible.len(), viewer.case_count());
    for index in visible {
        let case = viewer.case(index);
        let _ = writeln!(text, "{} {}  {}:{}", mark(case.outcome), case.name, case.file, case.line);
        if let Some(why) = &case.skipped {
            let _ = writeln!(text, "    skipped: {why}");
        }
        if case.failure.is_some() {
            write_failure(&mut text, case);
            if let Some(timeline) = viewer.timeline(index)? {
                write_cluster(&mut text, &timeline);
            }
        }
    }
    Ok(text)
}

fn write_failure(text: &mut String, case: &CaseReport) {
    let Some(failure) = &case.failure else { return };
    for step in &case.steps {
        let _ = writeln!(text, "    {} {} {}", mark(step.outcome), step.keyword, step.text);
        if step.line == failure.line {
            for line in failure.message.lines() {
                let _ = writeln!(text, "        {line}");
            }
        }
    }
    if !case.steps.iter().any(|step| step.line == failure.line) {
        for line in failure.message.lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    let _ = writeln!(text, "    reproduce: {}", failure.reproduce);
}

/// The cluster after the last write.
fn write_cluster(text: &mut String, timeline: &Timeline) {
    let writes = timeline.frames.len();
    let state = timeline.state_at(writes);
    let _ = writeln!(text, "    the cluster after {writes} writes:");
    for line in node_lines(&state).into_iter().chain(queue_lines(&state)) {
        let _ = writeln!(text, "      {}", plain(&line));
    }
}

/// The text of a line without its style.
fn plain(line: &Line<'_>) -> String {
    line.spans.iter().map(|span| &*span.content).collect()
}
