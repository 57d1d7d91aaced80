//! What of a snapshot must be equal where time is real and names are made by chance: the
//! placements, up to which of several equal pods is where, on which GPU, which of several equal
//! nodes it is, and which of several workloads, where the same is told of each: who of those that
//! came within a second is served first is chance. Event streams tell moments and are left out.

mod swaps;

use std::collections::BTreeMap;

use swaps::Swap;

/// The placements of a snapshot's text in a form that is equal for symmetric ones; `None` when
/// it shows no placement.
pub fn symmetric(text: &str) -> Option<String> {
    form(text, words)
}

/// The same without the queues' fair shares, which a scheduler outside of this process does not
/// tell.
pub fn symmetric_but_shares(text: &str) -> Option<String> {
    form(text, |row| {
        let mut cells: Vec<&str> = row.split_whitespace().collect();
        cells.remove(cells.len().saturating_sub(2));
        cells.join(" ")
    })
}

/// `gpus` gives a row of the table of queues and their GPUs its form.
fn form(text: &str, gpus: fn(&str) -> String) -> Option<String> {
    let mut shown = String::new();
    for section in text.split("## ").filter(|section| section.starts_with("placement\n")) {
        shown.push_str("## ");
        shown.push_str(&placement(section, gpus));
    }
    (!shown.is_empty()).then_some(shown)
}

fn placement(section: &str, gpus: fn(&str) -> String) -> String {
    let mut parts: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in section.lines().filter(|line| !line.trim().is_empty()) {
        match parts.last_mut() {
            Some((_, lines)) if line.starts_with("  ") => lines.push(line.trim()),
            Some(_) | None => parts.push((line, Vec::new())),
        }
    }
    let workloads = parts.iter().find(|(title, _)| *title == "workloads");
    let swaps = swaps::of(workloads.map_or(&[], |(_, lines)| lines));
    let forms = swaps.iter().map(|swap| swapped(&parts, swap, gpus));
    forms.min().unwrap_or_default()
}

/// The form with some of the workloads in each other's place.
fn swapped(parts: &[(&str, Vec<&str>)], swap: &Swap<'_>, gpus: fn(&str) -> String) -> String {
    let mut text = String::new();
    for (title, lines) in parts {
        let row = if title.starts_with("queues (GPUs)") { gpus } else { words };
        let mut lines = match *title {
            "nodes" => counted(lines.iter().map(|line| node(line, swap))),
            "pending" => counted(lines.iter().map(|line| waiting(line, swap))),
            _ => lines.iter().map(|line| row(line)).collect(),
        };
        lines.insert(0, row(title));
        for line in lines {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

/// Equal lines once, with how many they are.
fn counted(lines: impl Iterator<Item = (usize, String)>) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (count, line) in lines {
        *counts.entry(line).or_default() += count;
    }
    counts.into_iter().map(|(line, count)| format!("  {count} × {line}")).collect()
}

/// A row of nodes: how many they are, and what is on each without its numbers.
fn node(line: &str, swap: &Swap<'_>) -> (usize, String) {
    let (names, row) = line.split_once("  ").unwrap_or((line, ""));
    let (row, faults) = row.split_once('(').unwrap_or((row, ""));
    let side = |cells: &str| {
        let mut cells: Vec<String> =
            cells.split_whitespace().map(|cell| letter(cell, swap)).collect();
        cells.sort();
        cells.join(" ")
    };
    let sides: Vec<String> = row.split(" + ").map(side).collect();
    let faults = faults.trim_end_matches(')');
    (count(names), format!("{} {faults}", sides.join(" + ")).trim_end().to_owned())
}

/// A mark without its number, and with the letter of whoever is in its workload's place: `a12-`
/// is `a-`.
fn letter(mark: &str, swap: &Swap<'_>) -> String {
    let end = mark.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(mark.len());
    let (own, rest) = mark.split_at(end);
    if own.is_empty() {
        return mark.to_owned();
    }
    let shown = swap.get(own).copied().unwrap_or(own);
    shown.chars().chain(rest.chars().filter(|c| !c.is_ascii_digit())).collect()
}

/// Pods that wait: how many, of which workload, and why, without names of pods and nodes.
fn waiting(line: &str, swap: &Swap<'_>) -> (usize, String) {
    let (marks, reason) = line.split_once(": ").unwrap_or((line, ""));
    let chance = |word: &&str| {
        let word = word.trim_end_matches(['.', ',', ':']);
        word.contains('-') && (word.contains(|c: char| c.is_ascii_digit()) || word.contains('/'))
    };
    let reason = reason.split_whitespace().filter(|word| !chance(word));
    let letters = marks.split(", ").map(|mark| letter(mark, swap).replace(['…', ','], ""));
    let letters: Vec<String> = letters.collect();
    (count(marks), format!("{}: {}", letters.join(", "), reason.collect::<Vec<_>>().join(" ")))
}

/// How many names stand in `node-1…3,7, cpu`.
fn count(names: &str) -> usize {
    let families = names.split(", ").map(|family| {
        let digits = |c: char| c.is_ascii_digit() || c == ',' || c == '…';
        let stem = family.trim_end_matches(digits);
        let numbers = family.strip_prefix(stem).unwrap_or_default();
        let run = |run: &str| match run.split_once('…') {
            Some((first, last)) => {
                let number = |text: &str| text.parse::<usize>().unwrap_or(0);
                (number(last) + 1).saturating_sub(number(first))
            }
            None => 1,
        };
        numbers.split(',').map(run).sum::<usize>()
    });
    families.sum()
}

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &str) -> Option<String> {
        symmetric(&format!("## placement\n\nnodes\n{rows}\n## events\n\n+0s  a bound\n"))
    }

    #[test]
    fn equal_pods_gpus_and_nodes_change_places_without_a_difference() {
        let one = "  node-1  a0 a1 b0\n  node-2  b1 .. .. + c\npending\n  a2: no room on node-1\n";
        let two = "  node-1  .. b3 .. + c\n  node-2  b0 a5 a2\npending\n  a0: no room on node-2\n";
        assert_eq!(shown(one), shown(two));
        let other = "  node-1  a0 b1 b0\n  node-2  a1 .. .. + c\npending\n  a2: no room\n";
        assert_ne!(shown(one), shown(other));
    }

    #[test]
    fn workloads_of_which_the_same_is_told_change_places_without_a_difference() {
        let of = |nodes: &str, last: &str| {
            let rows = "  a  a-*  queue q  1 running\n  b  b-*  queue q  1 running";
            shown(&format!("{nodes}workloads\n{rows}\n  c  c-*  queue q  {last}\n"))
        };
        let one = "  node-1  a0 c0\n  node-2  b0 ..\n";
        let two = "  node-1  .. a0\n  node-2  b0 c0\n";
        let three = "  node-1  .. c0\n  node-2  b0 a0\n";
        assert_eq!(of(one, "1 running"), of(two, "1 running"));
        assert_eq!(of(one, "1 running"), of(three, "1 running"));
        assert_eq!(of(one, "1 running, 1 pending"), of(two, "1 running, 1 pending"));
        assert_ne!(of(one, "1 running, 1 pending"), of(three, "1 running, 1 pending"));
    }

    #[test]
    fn shares_that_nobody_tells_are_left_out_and_the_rest_of_the_queues_is_not() {
        let queues = |fair, used| {
            let title = "queues (GPUs)  quota  limit   fair   used";
            let rows = format!("  n  ..\n{title}\n  a  8  -  {fair}  {used}\n");
            symmetric_but_shares(&format!("## placement\n\nnodes\n{rows}"))
        };
        assert_eq!(queues("16", "8"), queues("?", "8"));
        assert_ne!(queues("16", "8"), queues("16", "9"));
    }

    #[test]
    fn nodes_and_pods_told_together_count_as_many() {
        let together = "  node-1…3,7  .. ..\npending\n  a0…2, b: wait\n";
        let apart = "  node-2,3    .. ..\n  node-1,4  .. ..\npending\n  a4…6, b: wait\n";
        assert_eq!(shown(together), shown(apart));
        assert_ne!(shown(together), shown("  node-1…3  .. ..\npending\n  a0…2, b: wait\n"));
        assert_eq!(symmetric("## events\n\n+0s  x\n"), None);
    }
}
