//! The canonical form of a snapshot, for comparison where time is real and names are random. It
//! contains the placements up to symmetry: which of several equal pods is on which node or GPU,
//! which of several equal nodes it is, and which of several workloads with the same legend, since
//! the order of pods created within a second is random. Of event streams it contains how many pods
//! of each workload had which history, without times, nodes and reasons of waiting pods, whose
//! number depends on timing: as in the normal form of a run.

use std::collections::{BTreeMap, BTreeSet};

/// Maps the letters of workloads in a placement to the letters that replace them; other letters are
/// unchanged.
type SymbolPermutation<'a> = BTreeMap<&'a str, &'a str>;

/// The maximum number of permutations that are tried: enough for six equal workloads, or two times
/// four. With more, no letters are exchanged.
const PERMUTATIONS_MAX: usize = 720;

/// The canonical form of a snapshot; `None` if it contains neither placements nor events.
pub(crate) fn canonical_text(text: &str) -> Option<String> {
    canonical_text_with_gpus(text, collapse_whitespace)
}

/// Like [`canonical_text`], without the queues' fair shares, which only a scheduler in this process
/// reports.
pub(crate) fn canonical_text_without_shares(text: &str) -> Option<String> {
    canonical_text_with_gpus(text, |row| {
        let mut cells: Vec<&str> = row.split_whitespace().collect();
        cells.remove(cells.len().saturating_sub(2));
        cells.join(" ")
    })
}

/// The canonical form of a snapshot. `normalize_gpus` normalizes a row of the table of queues and
/// their GPUs.
fn canonical_text_with_gpus(text: &str, normalize_gpus: fn(&str) -> String) -> Option<String> {
    let mut shown = String::new();
    for section in text.split("## ") {
        let section = match section.lines().next() {
            Some("placement") => canonical_placement(section, normalize_gpus),
            Some("events") => canonical_events(section),
            Some(_) | None => continue,
        };
        shown.push_str("## ");
        shown.push_str(&section);
    }
    (!shown.is_empty()).then_some(shown)
}

fn canonical_placement(section: &str, normalize_gpus: fn(&str) -> String) -> String {
    let mut parts: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in section.lines().filter(|line| !line.trim().is_empty()) {
        match parts.last_mut() {
            Some((_, lines)) if line.starts_with("  ") => lines.push(line.trim()),
            Some(_) | None => parts.push((line, Vec::new())),
        }
    }
    let workloads = parts.iter().find(|(title, _)| *title == "workloads");
    let swaps = symbol_permutations(workloads.map_or(&[], |(_, lines)| lines));
    let forms = swaps.iter().map(|swap| permuted_placement(&parts, swap, normalize_gpus));
    forms.min().unwrap_or_default()
}

/// How many pods of each workload had which event, whenever and wherever.
fn canonical_events(section: &str) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in section.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let event = line.split_once("  ").map_or("", |(_, event)| event.trim());
        // What nodes and queues do is the scenario's doing, or that of controllers.
        if event.starts_with("node ") || event.starts_with("queue ") {
            continue;
        }
        let words: Vec<&str> = event.split(' ').collect();
        let last = words.iter().position(|word| !word.ends_with(',')).unwrap_or(words.len() - 1);
        let (subjects, action) = words.split_at(last + 1);
        let Some(action) = canonical_action(action) else { continue };
        for subject in subjects {
            let subject = subject.trim_end_matches(',');
            *counts.entry(format!("{} {action}", alias_stem(subject))).or_default() +=
                count_listed_names(subject);
        }
    }
    let lines = counts.into_iter().map(|(event, count)| format!("  {count} × {event}\n"));
    format!("events\n{}", lines.collect::<String>())
}

/// What happened to pods, without names of nodes and numbers of pods; `None` for a reason of
/// waiting.
fn canonical_action(action: &[&str]) -> Option<String> {
    match action {
        ["waits:", ..] => None,
        ["bound", ..] => Some("bound".to_owned()),
        ["deleted", ..] => Some("deleted".to_owned()),
        ["evicted", "for", preemptors @ .., kind] => {
            let stems: BTreeSet<&str> =
                preemptors.iter().map(|name| alias_stem(name.trim_end_matches(','))).collect();
            Some(format!("evicted for {} {kind}", Vec::from_iter(stems).join(", ")))
        }
        words => {
            let plain = words.iter().filter(|word| !word.contains(['/', '-']));
            Some(plain.copied().collect::<Vec<_>>().join(" "))
        }
    }
}

/// The name of a workload, without the numbers of its pods.
fn alias_stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == ',' || c == '…')
}

/// A placement after exchanging the letters of some workloads.
fn permuted_placement(
    parts: &[(&str, Vec<&str>)],
    swap: &SymbolPermutation<'_>,
    gpus: fn(&str) -> String,
) -> String {
    let mut text = String::new();
    for (title, lines) in parts {
        let row = if title.starts_with("queues (GPUs)") { gpus } else { collapse_whitespace };
        let mut lines = match *title {
            "nodes" => count_equal_lines(lines.iter().map(|line| permuted_node_row(line, swap))),
            "pending" => {
                count_equal_lines(lines.iter().map(|line| permuted_pending_row(line, swap)))
            }
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

/// Each distinct line once, with the number of its occurrences.
fn count_equal_lines(lines: impl Iterator<Item = (usize, String)>) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (count, line) in lines {
        *counts.entry(line).or_default() += count;
    }
    counts.into_iter().map(|(line, count)| format!("  {count} × {line}")).collect()
}

/// A row of the table of nodes: the number of nodes, and what is on each, without the nodes'
/// numbers.
fn permuted_node_row(line: &str, permutation: &SymbolPermutation<'_>) -> (usize, String) {
    let (names, row) = line.split_once("  ").unwrap_or((line, ""));
    let (row, faults) = row.split_once('(').unwrap_or((row, ""));
    let side = |cells: &str| {
        let mut cells: Vec<String> =
            cells.split_whitespace().map(|cell| permuted_gpu_symbol(cell, permutation)).collect();
        cells.sort();
        cells.join(" ")
    };
    let sides: Vec<String> = row.split(" + ").map(side).collect();
    let faults = faults.trim_end_matches(')');
    (count_listed_names(names), format!("{} {faults}", sides.join(" + ")).trim_end().to_owned())
}

/// The symbol of a pod with the letter after the exchange, and without the pod's number: `a12-`
/// becomes `a-`.
fn permuted_gpu_symbol(symbol: &str, permutation: &SymbolPermutation<'_>) -> String {
    let end = symbol.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(symbol.len());
    let (own, rest) = symbol.split_at(end);
    if own.is_empty() {
        return symbol.to_owned();
    }
    let shown = permutation.get(own).copied().unwrap_or(own);
    shown.chars().chain(rest.chars().filter(|c| !c.is_ascii_digit())).collect()
}

/// A row of pending pods: how many they are, of which workloads, and why they are pending, without
/// names of pods and nodes.
fn permuted_pending_row(line: &str, permutation: &SymbolPermutation<'_>) -> (usize, String) {
    let (symbols, reason) = line.split_once(": ").unwrap_or((line, ""));
    let chance = |word: &&str| {
        let word = word.trim_end_matches(['.', ',', ':']);
        word.contains('-') && (word.contains(|c: char| c.is_ascii_digit()) || word.contains('/'))
    };
    let reason = reason.split_whitespace().filter(|word| !chance(word));
    let letters = symbols
        .split(", ")
        .map(|symbol| permuted_gpu_symbol(symbol, permutation).replace(['…', ','], ""));
    let letters: Vec<String> = letters.collect();
    (
        count_listed_names(symbols),
        format!("{}: {}", letters.join(", "), reason.collect::<Vec<_>>().join(" ")),
    )
}

/// The number of names in, for example, `node-1…3,7, cpu`.
fn count_listed_names(names: &str) -> usize {
    let groups = names.split(", ").map(|family| {
        let stem = alias_stem(family);
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
    groups.sum()
}

fn collapse_whitespace(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// All permutations of the letters of workloads that differ only in their names. `rows` are the
/// rows of the legend: `a  train-*  queue q  …`.
fn symbol_permutations<'a>(rows: &[&'a str]) -> Vec<SymbolPermutation<'a>> {
    let mut alike: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for row in rows {
        let mut words = row.split_whitespace();
        let (Some(letter), Some(_name)) = (words.next(), words.next()) else { continue };
        alike.entry(words.collect()).or_default().push(letter);
    }
    let mut swaps = vec![SymbolPermutation::new()];
    for letters in alike.values() {
        let ways = (1..=letters.len()).fold(swaps.len(), usize::saturating_mul);
        if ways > PERMUTATIONS_MAX {
            return vec![SymbolPermutation::new()];
        }
        let orders = letter_orders(letters);
        let with = |swap: &SymbolPermutation<'a>, order: &Vec<&'a str>| {
            let pairs = letters.iter().copied().zip(order.iter().copied());
            swap.clone().into_iter().chain(pairs).collect()
        };
        swaps = swaps.iter().flat_map(|swap| orders.iter().map(|o| with(swap, o))).collect();
    }
    swaps
}

/// All orders of the given letters.
fn letter_orders<'a>(letters: &[&'a str]) -> Vec<Vec<&'a str>> {
    let Some((first, rest)) = letters.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for order in letter_orders(rest) {
        for at in 0..=order.len() {
            let mut longer = order.clone();
            longer.insert(at, first);
            all.push(longer);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &str) -> Option<String> {
        canonical_text(&format!("## placement\n\nnodes\n{rows}\n"))
    }

    #[test]
    fn events_count_by_workload_without_times_and_nodes() {
        let one = "## events\n\n+0s  node node-1…2 is ready\n+0s  low-0…2 bound to node-1\n\
            +0s  low-3, high bound to node-2\n+4s  low-1,2 evicted for own-0,1 (reclaim)\n\
            +4s  own-0,1 waits: Pipelined to node-1: waiting\n+5s  own-0,1 bound to node-1\n\
            +9s  low-0 evicted: Workload doesn't meet the minimum, evicting: default/low-0\n";
        let two = "## events\n\n+0s     low-1 bound to node-2\n+1s     low-0,2,3 bound to node-1\n\
            +3s     low-3 evicted for own-1 (reclaim)\n+4s     low-0 evicted for own-0 (reclaim)\n\
            +1m05s  own-0,1 bound to node-2\n+1m06s  high bound to node-1\n\
            +1m09s  low-2 evicted: Workload doesn't meet the minimum, evicting: default/low-2\n";
        assert_eq!(canonical_text(one), canonical_text(two));
        insta::assert_snapshot!(canonical_text(one).unwrap(), @r"
        ## events
          1 × high bound
          4 × low- bound
          2 × low- evicted for own- (reclaim)
          1 × low- evicted: Workload doesn't meet the minimum, evicting:
          2 × own- bound
        ");
        assert_ne!(canonical_text(one), canonical_text(&one.replace("own-0,1 (r", "own-0,1 (x")));
    }

    #[test]
    fn equal_pods_gpus_and_nodes_are_interchangeable() {
        let one = "  node-1  a0 a1 b0\n  node-2  b1 .. .. + c\npending\n  a2: no room on node-1\n";
        let two = "  node-1  .. b3 .. + c\n  node-2  b0 a5 a2\npending\n  a0: no room on node-2\n";
        assert_eq!(shown(one), shown(two));
        let other = "  node-1  a0 b1 b0\n  node-2  a1 .. .. + c\npending\n  a2: no room\n";
        assert_ne!(shown(one), shown(other));
    }

    #[test]
    fn workloads_with_equal_legends_are_interchangeable() {
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
    fn only_fair_shares_are_left_out_of_queue_tables() {
        let queues = |fair, used| {
            let title = "queues (GPUs)  quota  limit   fair   used";
            let rows = format!("  n  ..\n{title}\n  a  8  -  {fair}  {used}\n");
            canonical_text_without_shares(&format!("## placement\n\nnodes\n{rows}"))
        };
        assert_eq!(queues("16", "8"), queues("?", "8"));
        assert_ne!(queues("16", "8"), queues("16", "9"));
    }

    #[test]
    fn ranges_count_as_many_names() {
        let together = "  node-1…3,7  .. ..\npending\n  a0…2, b: wait\n";
        let apart = "  node-2,3    .. ..\n  node-1,4  .. ..\npending\n  a4…6, b: wait\n";
        assert_eq!(shown(together), shown(apart));
        assert_ne!(shown(together), shown("  node-1…3  .. ..\npending\n  a0…2, b: wait\n"));
        assert_eq!(canonical_text("## reasons\n\n+0s  x\n"), None);
    }
}
