//! The answer as text: in words, as tables, and as a plan.

use std::fmt::{self, Write as _};

use schedlab_conformance::text::counted_noun;

use super::answer::{Answer, EvictedGroup, PendingReason, StartedGroup, SubmittedGroup};

/// Maximum number of rows of a table; JSON has all.
const ROWS_MAX: usize = 20;

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_section(f, "changes", &self.changes)?;
        write_section(f, "in short", &self.summary())?;
        write_section(f, "start only with the changes, or earlier", &start_rows(&self.started))?;
        write_section(f, "start only without the changes, or earlier", &start_rows(&self.delayed))?;
        write_section(f, "evicted only with the changes", &eviction_rows(&self.evicted))?;
        write_section(f, "evicted only without the changes", &eviction_rows(&self.spared))?;
        write_section(f, "pods of removed nodes", &self.displaced_rows())?;
        let pending = match self.end.search_stopped_at {
            None => "pending at the end",
            Some(_) => "pending at the end; some may evict pods, too",
        };
        write_section(f, pending, &pending_rows(&self.pending))?;
        write_section(f, "GPUs of queues at the end", &self.queue_rows())?;
        write_section(f, "plan", &self.plan_rows())?;
        write_section(f, "notes", &self.notes)
    }
}

impl Answer {
    /// The answer in sentences.
    pub fn summary(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.submitted.iter().map(|group| self.submitted_text(group)).collect();
        let amounts = |groups: &[StartedGroup]| {
            let pods: usize = groups.iter().map(|group| group.pods).sum();
            let gpus: f64 = groups.iter().map(|group| group.gpus).sum();
            let groups = counted_noun(groups.len(), "pod group");
            format!("{groups} ({}, {} GPUs)", counted_noun(pods, "pod"), amount_text(gpus))
        };
        let evicted = |groups: &[EvictedGroup]| {
            let pods: usize = groups.iter().map(|group| group.pods).sum();
            let mut queues: Vec<String> = groups.iter().map(|group| group.queue.clone()).collect();
            queues.sort();
            queues.dedup();
            let noun = if queues.len() == 1 { "queue" } else { "queues" };
            let groups = counted_noun(groups.len(), "pod group");
            format!("{} of {groups}, {noun} {}", counted_noun(pods, "pod"), list_text(&queues, 8))
        };
        if !self.started.is_empty() {
            lines.push(format!(
                "start only with the changes, or earlier: {}",
                amounts(&self.started)
            ));
        }
        if !self.delayed.is_empty() {
            lines.push(format!(
                "start only without the changes, or earlier: {}",
                amounts(&self.delayed)
            ));
        }
        if !self.evicted.is_empty() {
            lines.push(format!("evicted only with the changes: {}", evicted(&self.evicted)));
        }
        if !self.spared.is_empty() {
            lines.push(format!("evicted only without the changes: {}", evicted(&self.spared)));
        }
        if !self.displaced.is_empty() {
            let back = self.displaced.iter().filter(|pod| pod.is_replaced).count();
            lines.push(format!(
                "pods of removed nodes: {}, {back} of which controllers create again",
                counted_noun(self.displaced.len(), "pod")
            ));
        }
        if lines.is_empty() {
            lines.push("the changes make no difference".to_owned());
        }
        let more: usize = self.pending.iter().map(|reason| reason.only_with_changes).sum();
        let pending: usize = self.pending.iter().map(|reason| reason.groups.len()).sum();
        let only = if more == 0 {
            String::new()
        } else {
            format!(", {more} of them only with the changes")
        };
        lines.push(format!("pending at the end: {}{only}", counted_noun(pending, "pod group")));
        let end = if self.end.at_rest { "at rest" } else { "not at rest" };
        lines.push(format!(
            "the cluster is {end} after {} and {}",
            seconds_text(self.end.after_secs),
            counted_noun(usize::try_from(self.end.cycles).unwrap_or_default(), "cycle")
        ));
        if let Some(simulations) = self.end.search_stopped_at {
            lines.push(format!(
                "an action simulated {}, the limit, and later cycles evict nothing: other pending \
                 workloads may evict pods, too; --simulations raises the limit",
                counted_noun(simulations, "eviction")
            ));
            lines.push(format!(
                "the searches with and without the changes may have stopped at different workloads; \
                 GPUs in use at the end: {} with, {} without",
                amount_text(self.end.used_gpus),
                amount_text(self.end.used_gpus_without)
            ));
        }
        lines
    }

    /// What becomes of a submitted pod group.
    fn submitted_text(&self, group: &SubmittedGroup) -> String {
        let name = &group.group;
        let start = self.started.iter().find(|started| started.group == *name);
        let started = start.map(|start| {
            format!(
                "{name} starts {} on {}{}",
                time_text(start.after_secs),
                list_text(&start.nodes, 4),
                evicts_text(&start.evicts)
            )
        });
        match (&group.reason, started) {
            (None, Some(started)) => started,
            (Some(reason), Some(started)) => {
                let pending = group.pods - group.started.min(group.pods);
                format!("{started}; {pending} of {} pods stay pending: {reason}", group.pods)
            }
            (Some(reason), None) => format!("{name} stays pending: {reason}"),
            (None, None) => format!("{name} does not start before the end of the forecast"),
        }
    }

    fn displaced_rows(&self) -> Vec<String> {
        let rows = self.displaced.iter().map(|pod| {
            let back = if pod.is_replaced { "created again" } else { "gone" };
            vec![
                format!("{}/{}", pod.namespace, pod.name),
                format!("{}/{}", pod.namespace, pod.group),
                pod.node.clone(),
                back.to_owned(),
            ]
        });
        table(&["POD", "POD GROUP", "NODE", "AFTERWARDS"], rows)
    }

    fn queue_rows(&self) -> Vec<String> {
        let rows = self.queues.iter().map(|queue| {
            let amounts = [queue.now, queue.without, queue.with, queue.fair_share];
            let amounts = amounts.into_iter().map(amount_text);
            std::iter::once(queue.queue.clone()).chain(amounts).collect()
        });
        table(&["QUEUE", "NOW", "WITHOUT", "WITH", "FAIR SHARE WITH"], rows)
    }

    fn plan_rows(&self) -> Vec<String> {
        let rows = self.plan.iter().map(|step| {
            vec![
                seconds_text(step.after_secs),
                step.step.to_owned(),
                step.pod.clone(),
                step.queue.clone(),
                step.node.clone(),
                step.because.clone().unwrap_or_default(),
            ]
        });
        table(&["AFTER", "STEP", "POD", "QUEUE", "NODE", "BECAUSE"], rows)
    }
}

fn start_rows(groups: &[StartedGroup]) -> Vec<String> {
    let rows = groups.iter().map(|group| {
        let otherwise = group.otherwise_after_secs.map_or_else(|| "never".to_owned(), seconds_text);
        vec![
            group.group.clone(),
            group.queue.clone(),
            group.pods.to_string(),
            amount_text(group.gpus),
            seconds_text(group.after_secs),
            otherwise,
            list_text(&group.nodes, 4),
            list_text(&group.evicts, 3),
        ]
    });
    table(&["POD GROUP", "QUEUE", "PODS", "GPUS", "AFTER", "OTHERWISE", "NODES", "EVICTS"], rows)
}

fn eviction_rows(groups: &[EvictedGroup]) -> Vec<String> {
    let rows = groups.iter().map(|group| {
        vec![
            group.group.clone(),
            group.queue.clone(),
            group.pods.to_string(),
            amount_text(group.gpus),
            list_text(&group.actions, 3),
            list_text(&group.preemptors, 3),
            group.restarted.to_string(),
        ]
    });
    table(&["POD GROUP", "QUEUE", "PODS", "GPUS", "ACTION", "FOR", "RESTARTED"], rows)
}

/// Reasons that only the changes bring come first.
fn pending_rows(reasons: &[PendingReason]) -> Vec<String> {
    let mut sorted: Vec<&PendingReason> = reasons.iter().collect();
    sorted.sort_by_key(|reason| std::cmp::Reverse(reason.only_with_changes));
    let mut lines = Vec::new();
    for reason in sorted.iter().take(ROWS_MAX) {
        let only = match reason.only_with_changes {
            0 => String::new(),
            count => format!(", {count} only with the changes"),
        };
        let queue = match reason.queue.as_str() {
            "" => "no queue".to_owned(),
            queue => format!("queue {queue}"),
        };
        lines.push(format!(
            "{queue}: {}: {}, {}{only}: {}",
            reason.reason,
            counted_noun(reason.groups.len(), "pod group"),
            counted_noun(reason.pods, "pod"),
            list_text(&reason.groups, 3)
        ));
        lines.push(format!("  {}", reason.message));
        lines.push(format!("  remedy: {}", reason.remedy));
    }
    push_more(&mut lines, sorted.len());
    lines
}

fn write_section(f: &mut fmt::Formatter<'_>, title: &str, lines: &[String]) -> fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(f, "{title}")?;
    lines.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
    f.write_char('\n')
}

/// The first rows of a table with aligned columns. Empty columns are left out.
fn table(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let shown = &rows[..rows.len().min(ROWS_MAX)];
    let width = |column: usize| {
        let cells = shown.iter().map(|row| row[column].chars().count());
        cells.max().filter(|width| *width > 0).map(|width| width.max(titles[column].len()))
    };
    let widths: Vec<Option<usize>> = (0..titles.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(&widths).filter_map(|(cell, width)| Some((cell, (*width)?)));
        let text: Vec<String> = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
        text.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&mut titles.iter().copied())];
    lines.extend(shown.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    push_more(&mut lines, rows.len());
    lines
}

fn push_more(lines: &mut Vec<String>, rows: usize) {
    if rows > ROWS_MAX {
        lines.push(format!("… and {} more; --output json has all", rows - ROWS_MAX));
    }
}

fn list_text(names: &[String], max: usize) -> String {
    let first: Vec<&str> = names.iter().take(max).map(String::as_str).collect();
    let more = names.len() - first.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}

fn evicts_text(groups: &[String]) -> String {
    if groups.is_empty() { String::new() } else { format!("; it evicts {}", list_text(groups, 3)) }
}

fn time_text(seconds: f64) -> String {
    if seconds == 0.0 { "at once".to_owned() } else { format!("after {}", seconds_text(seconds)) }
}

/// A time such as `2 s`, `5 min` or `1.5 h`.
fn seconds_text(seconds: f64) -> String {
    let tenths = |amount: f64| amount_text((amount * 10.0).round() / 10.0);
    match seconds {
        _ if seconds < 120.0 => format!("{} s", tenths(seconds)),
        _ if seconds < 7200.0 => format!("{} min", tenths(seconds / 60.0)),
        _ => format!("{} h", tenths(seconds / 3600.0)),
    }
}

fn amount_text(amount: f64) -> String {
    amount.to_string()
}
