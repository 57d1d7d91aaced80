//! A picture of a cluster as text: a box for each GPU with the letter of the queue that uses it, and
//! a line for each queue.

use std::fmt::Write as _;

use console::Style;
use schedlab_conformance::report::Colors;
use schedlab_view::state::{ClusterState, GpuState, QueueState};

/// The picture, with its text above.
pub(super) fn picture(text: &str, state: &ClusterState, colors: Colors) -> String {
    let mut picture = format!("\n{text}\n\n");
    for node in &state.nodes {
        let boxes: String = node.gpus.iter().map(|gpu| gpu_box(gpu, state, colors)).collect();
        let _ = writeln!(picture, "  {}  {boxes}", node.name);
    }
    picture.push('\n');
    for (index, queue) in state.queues.iter().enumerate().filter(|(_, queue)| !queue.has_children) {
        let _ = writeln!(picture, "  {}", queue_line(index, queue, state, colors));
    }
    let free = state.gpus.saturating_sub(state.gpus_in_use);
    let _ = writeln!(picture, "  [ ] {free} of {} GPUs are free", state.gpus);
    picture
}

/// A box of three characters. A pod that is being evicted has a small letter.
fn gpu_box(gpu: &GpuState, state: &ClusterState, colors: Colors) -> String {
    let Some(user) = gpu.users.first() else { return "[ ]".to_owned() };
    let queue = state.queues.iter().position(|queue| queue.name == *user.queue);
    let letter = queue.map_or("?".to_owned(), |queue| letter(&state.queues[queue]));
    let letter = if user.is_terminating { letter.to_lowercase() } else { letter };
    styled(&format!("[{letter}]"), queue.unwrap_or_default(), colors)
}

/// The letter of a queue: the first of the last word of its name.
fn letter(queue: &QueueState) -> String {
    let word = queue.name.rsplit('-').next().unwrap_or_default();
    word.chars().take(1).collect::<String>().to_uppercase()
}

fn queue_line(index: usize, queue: &QueueState, state: &ClusterState, colors: Colors) -> String {
    let gpus = |amount: i64| amount / 1000;
    let quota = queue.quota.map_or("unlimited".to_owned(), |quota| gpus(quota).to_string());
    let mut line = format!(
        "{} {:<14} {:>2} GPUs of a quota of {quota}",
        styled(&format!("[{}]", letter(queue)), index, colors),
        queue.name,
        gpus(queue.used),
    );
    if queue.borrowed() > 0 {
        let _ = write!(line, ", {} borrowed", gpus(queue.borrowed()));
    }
    let waiting = state.pending.iter().filter(|workload| workload.queue == queue.name);
    let waiting: usize = waiting.map(|workload| workload.pods).sum();
    if waiting > 0 {
        let _ = write!(line, ", {waiting} pods wait");
    }
    line
}

fn styled(text: &str, queue: usize, colors: Colors) -> String {
    let styles =
        [Style::new().cyan(), Style::new().yellow(), Style::new().magenta(), Style::new().green()];
    let style = styles[queue % styles.len()].clone().bold().force_styling(true);
    match colors {
        Colors::On => style.apply_to(text).to_string(),
        Colors::Off => text.to_owned(),
    }
}
