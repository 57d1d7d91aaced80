//! Draws what `schedlab show` shows.

use std::fmt::Write as _;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, List, ListItem, ListState, Paragraph, Wrap};
use schedlab_audit::format_offset;
use schedlab_conformance::report::{CaseOutcome, CaseReport};
use schedlab_view::drawing::gpus_text;
use schedlab_view::state::{ClusterState, GpuState, NodeState};
use schedlab_view::timeline::Timeline;

use super::viewer::{OpenedCase, Viewer, mark};

/// The colours of queues, with readable letters in terminals of 16 colours.
const COLOURS: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Green, Color::Magenta, Color::Blue, Color::Red];

/// Draws the list of scenarios, or the scenario that is open.
pub(super) fn draw(frame: &mut Frame<'_>, viewer: &Viewer) {
    match viewer.opened() {
        Some(opened) => draw_case(frame, viewer.case(opened.index), opened),
        None => draw_list(frame, viewer),
    }
}

fn draw_list(frame: &mut Frame<'_>, viewer: &Viewer) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    let visible = viewer.visible();
    let cursor = if viewer.is_typing() { "▏" } else { "" };
    let failed = if viewer.is_failed_only() { ", failed only" } else { "" };
    let heading = format!(
        "{} of {} scenarios{failed}  filter: {}{cursor}",
        visible.len(),
        viewer.case_count(),
        viewer.filter()
    );
    frame.render_widget(Paragraph::new(heading), top);
    let items: Vec<ListItem<'_>> = visible
        .iter()
        .map(|index| {
            let case = viewer.case(*index);
            let place = format!("  {}:{}", case.file, case.line);
            ListItem::new(Line::from(vec![
                Span::styled(mark(case.outcome), style_of(case.outcome)),
                Span::raw(format!(" {}", case.name)),
                Span::styled(place, Style::new().add_modifier(Modifier::DIM)),
            ]))
        })
        .collect();
    let list = List::new(items).highlight_symbol("> ").highlight_style(Modifier::REVERSED);
    let mut state = ListState::default().with_selected(Some(viewer.selected()));
    frame.render_stateful_widget(list, middle, &mut state);
    let keys = "↑ ↓ choose  Enter open  / filter  f failed only  q quit";
    frame.render_widget(Paragraph::new(keys).style(Modifier::DIM), bottom);
}

fn style_of(outcome: CaseOutcome) -> Style {
    match outcome {
        CaseOutcome::Passed => Style::new().fg(Color::Green),
        CaseOutcome::Failed | CaseOutcome::Pending => Style::new().fg(Color::Red),
        CaseOutcome::NotRun | CaseOutcome::Skipped => Style::new().add_modifier(Modifier::DIM),
    }
}

fn draw_case(frame: &mut Frame<'_>, case: &CaseReport, opened: &OpenedCase) {
    let [top, middle, slider, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let title = format!("{} {}  {}:{}", mark(case.outcome), case.name, case.file, case.line);
    frame.render_widget(Paragraph::new(title).style(style_of(case.outcome)), top);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(45), Constraint::Percentage(55)]).areas(middle);
    let steps = Paragraph::new(step_lines(case, opened.step()))
        .wrap(Wrap { trim: false })
        .scroll((opened.scroll, 0))
        .block(Block::bordered().title("Steps"));
    frame.render_widget(steps, left);
    match &opened.timeline {
        Ok(timeline) => {
            draw_cluster(frame, right, timeline, opened.count);
            draw_slider(frame, slider, timeline, opened.count);
        }
        Err(why) => {
            frame.render_widget(Paragraph::new(&**why).wrap(Wrap { trim: true }), right);
        }
    }
    let keys = "← → write  n p step  e next eviction  ↑ ↓ scroll  Esc list  q quit";
    frame.render_widget(Paragraph::new(keys).style(Modifier::DIM), bottom);
}

/// The steps with their verdicts, and below the failed one why it failed.
fn step_lines(case: &CaseReport, current: Option<usize>) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        let text = format!("{} {} {}", mark(step.outcome), step.keyword, step.text);
        let mut style = style_of(step.outcome);
        if current == Some(index) {
            style = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        }
        lines.push(Line::styled(text, style));
        let failure = case.failure.as_ref().filter(|failure| failure.line == step.line);
        for line in failure.iter().flat_map(|failure| failure.message.lines()) {
            lines.push(Line::raw(format!("    {line}")));
        }
    }
    let elsewhere = case
        .failure
        .as_ref()
        .filter(|failure| !case.steps.iter().any(|step| step.line == failure.line));
    for line in elsewhere.iter().flat_map(|failure| failure.message.lines()) {
        lines.push(Line::raw(line));
    }
    if let Some(failure) = &case.failure {
        lines.push(Line::raw(""));
        lines.push(Line::raw(format!("reproduce: {}", failure.reproduce)));
    }
    if let Some(why) = &case.skipped {
        lines.push(Line::raw(format!("skipped: {why}")));
    }
    lines
}

fn draw_cluster(frame: &mut Frame<'_>, area: Rect, timeline: &Timeline, count: usize) {
    let state = timeline.state_at(count);
    let nodes = node_lines(&state);
    let queues = queue_lines(&state);
    let size = |lines: &[Line<'_>]| u16::try_from(lines.len() + 2).unwrap_or(u16::MAX);
    let [upper, middle, lower] = Layout::vertical([
        Constraint::Max(size(&nodes)),
        Constraint::Max(size(&queues)),
        Constraint::Min(3),
    ])
    .areas(area);
    let title = format!("Nodes: {} of {} GPUs in use", state.gpus_in_use, state.gpus);
    frame.render_widget(Paragraph::new(nodes).block(Block::bordered().title(title)), upper);
    frame.render_widget(Paragraph::new(queues).block(Block::bordered().title("Queues")), middle);
    let events = Paragraph::new(event_lines(timeline, count))
        .block(Block::bordered().title("Events, newest first"));
    frame.render_widget(events, lower);
}

/// The nodes, a line each: every GPU is the letter of its queue, or a dot.
pub(super) fn node_lines(state: &ClusterState) -> Vec<Line<'static>> {
    let width = state.nodes.iter().map(|node| node.name.len()).max().unwrap_or(0);
    state.nodes.iter().map(|node| node_line(node, state, width)).collect()
}

fn node_line(node: &NodeState, state: &ClusterState, width: usize) -> Line<'static> {
    let mut spans = vec![Span::raw(format!("{:<width$} ", node.name))];
    spans.extend(node.gpus.iter().map(|gpu| gpu_span(gpu, state)));
    let used = node.gpus.iter().filter(|gpu| !gpu.users.is_empty()).count();
    let mut text = format!(" {used}/{}", node.gpus.len());
    if let Some(problem) = node.problem {
        let _ = write!(text, " {problem}");
    }
    if node.other_pods > 0 {
        let _ = write!(text, " +{} pods", node.other_pods);
    }
    spans.push(Span::raw(text));
    Line::from(spans)
}

fn gpu_span(gpu: &GpuState, state: &ClusterState) -> Span<'static> {
    let Some(user) = gpu.users.first() else { return Span::raw("·") };
    let position = state.queues.iter().position(|queue| queue.name == *user.queue);
    let letter = match gpu.users.len() {
        1 => position.map_or('?', letter_of).to_string(),
        several => several.min(9).to_string(),
    };
    let colour = position.map_or(Color::Reset, |at| COLOURS[at % COLOURS.len()]);
    let style = Style::new().fg(colour);
    let style = if user.is_terminating { style.add_modifier(Modifier::CROSSED_OUT) } else { style };
    Span::styled(letter, style)
}

/// The letter of the queue at a position.
fn letter_of(position: usize) -> char {
    char::from(b'A' + u8::try_from(position % 26).unwrap_or(0))
}

/// The queues, a line each: letter, name, use, quota and pending GPUs.
pub(super) fn queue_lines(state: &ClusterState) -> Vec<Line<'static>> {
    let name = |at: usize| {
        let queue = &state.queues[at];
        format!("{}{} {}", "  ".repeat(queue.depth), letter_of(at), queue.name)
    };
    let width = (0..state.queues.len()).map(|at| name(at).len()).max().unwrap_or(0);
    let line = |at: usize| {
        let queue = &state.queues[at];
        let quota = queue.quota.map_or_else(|| "∞".to_owned(), gpus_text);
        let mut text = format!("{:<width$}  {} of quota {quota}", name(at), gpus_text(queue.used));
        if queue.pending > 0 {
            let _ = write!(text, ", {} pending", gpus_text(queue.pending));
        }
        Line::styled(text, Style::new().fg(COLOURS[at % COLOURS.len()]))
    };
    (0..state.queues.len()).map(line).collect()
}

fn event_lines(timeline: &Timeline, count: usize) -> Vec<Line<'_>> {
    let frames = timeline.frames.iter().take(count).rev();
    let events =
        frames.flat_map(|frame| frame.events.iter().rev().map(move |event| (frame, event)));
    let line =
        |(frame, event): (&schedlab_view::timeline::Frame, &schedlab_view::timeline::EventRow)| {
            let text =
                format!("{} {} {}: {}", format_offset(frame.millis), event.1, event.2, event.3);
            let style =
                if event.0 == "eviction" { Style::new().fg(Color::Red) } else { Style::new() };
            Line::styled(text, style)
        };
    events.take(200).map(line).collect()
}

fn draw_slider(frame: &mut Frame<'_>, area: Rect, timeline: &Timeline, count: usize) {
    let [line, gauge] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let shown = count.checked_sub(1).and_then(|index| timeline.frames.get(index));
    let text = shown.map_or_else(
        || "before the first write".to_owned(),
        |shown| format!("{} {}", format_offset(shown.millis), shown.write),
    );
    frame.render_widget(Paragraph::new(text), line);
    let writes = timeline.frames.len();
    #[expect(clippy::cast_precision_loss, reason = "the ratio only sizes a bar")]
    let ratio = if writes == 0 { 0.0 } else { count as f64 / writes as f64 };
    let bar = Gauge::default().ratio(ratio.min(1.0)).label(format!("write {count} of {writes}"));
    frame.render_widget(bar, gauge);
}
