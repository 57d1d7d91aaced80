//! Runs a folder of cases: every JSON file with `cases` or `entries`, in parallel.

use std::{
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context as _, anyhow};
use schedlab_api::Value;

use super::{
    decisions::DecisionCase,
    e2e,
    format::Case,
    read,
    report::{CaseResult, FileReport, Report, Verdict},
    run,
};
use schedlab_conformance::text;

/// Runs the cases of a folder whose id or file name contains `filter`.
///
/// # Errors
/// The folder or a file cannot be read, or a file is not JSON.
pub fn run_folder(folder: &Path, filter: &str) -> anyhow::Result<Report> {
    let paths = json_files(folder)?;
    let files = map_in_parallel(&paths, |path| read_case_file(path, filter));
    let files = files.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let files: Vec<(String, Vec<WorkItem>)> = files.into_iter().flatten().collect();
    let items: Vec<&WorkItem> = files.iter().flat_map(|(_, items)| items).collect();
    let mut judged = map_in_parallel(&items, |item| item.run()).into_iter();
    let report = |(file, items): &(String, Vec<WorkItem>)| FileReport {
        file: file.clone(),
        judged: judged.by_ref().take(items.len()).collect(),
    };
    let files = files.iter().filter(|(_, items)| !items.is_empty()).map(report).collect();
    Ok(Report { files })
}

fn json_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("in {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// A case or a decision that remains to be judged.
enum WorkItem {
    Case(Arc<Case>),
    /// The case, run through the whole scheduler.
    EndToEnd(Arc<Case>),
    Decision(String, DecisionCase),
    /// An invalid case: its id, and the errors with their location.
    Invalid(String, Vec<String>),
}

/// Reads a file of cases. Returns the selected cases under the file's name, and those that also run
/// through the whole scheduler under another name.
fn read_case_file(path: &Path, filter: &str) -> anyhow::Result<Vec<(String, Vec<WorkItem>)>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let shown = path.display().to_string();
    let text = text::read_text_file(path)
        .map_err(|unreadable| anyhow!(unreadable.message_with_file(&shown)))?;
    let mut content: Value =
        serde_json::from_str(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
    let (mut items, mut again) = (Vec::new(), Vec::new());
    let stem = name.trim_end_matches(".json").to_owned();
    let location = |list: &str, at: usize| format!("{shown}: {list}[{at}]");
    for (at, case) in take_list(&mut content, "cases").into_iter().enumerate() {
        let id = case.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !id.contains(filter) && !stem.contains(filter) {
            continue;
        }
        match read::parse_case(case) {
            Ok(case) => {
                let case = Arc::new(case);
                again.extend(case.rounds.is_some().then(|| WorkItem::EndToEnd(Arc::clone(&case))));
                items.push(WorkItem::Case(case));
            }
            Err(wrong) => {
                let location = format!("{} ({id})", location("cases", at));
                items.push(WorkItem::invalid(id, &location, wrong));
            }
        }
    }
    for (at, entry) in take_list(&mut content, "entries").into_iter().enumerate() {
        let id = format!("{stem}#{at}");
        if id.contains(filter) {
            items.push(match DecisionCase::parse(entry) {
                Ok(entry) => WorkItem::Decision(id, entry),
                Err(wrong) => WorkItem::invalid(id, &location("entries", at), vec![wrong]),
            });
        }
    }
    let end_to_end = format!("{stem}, end to end");
    Ok(vec![(name, items), (end_to_end, again)])
}

fn take_list(content: &mut Value, field: &str) -> Vec<Value> {
    match content.get_mut(field).map(Value::take) {
        Some(Value::Array(items)) => items,
        Some(_) | None => Vec::new(),
    }
}

impl WorkItem {
    fn invalid(id: String, location: &str, wrong: Vec<String>) -> Self {
        Self::Invalid(id, wrong.into_iter().map(|why| format!("{location}: {why}")).collect())
    }

    fn run(&self) -> CaseResult {
        let (id, title) = match self {
            Self::Case(case) => (case.id.clone(), case.title.clone()),
            Self::EndToEnd(case) => (format!("{}, end to end", case.id), case.title.clone()),
            Self::Decision(id, _) | Self::Invalid(id, _) => (id.clone(), String::new()),
        };
        let verdict = catch_unwind(AssertUnwindSafe(|| self.verdict()));
        let panicked = || Verdict::Failed(vec!["the scheduler panicked".to_owned()]);
        let notes = match self {
            Self::Case(case) => case.notes.clone(),
            Self::EndToEnd(_) | Self::Decision(..) | Self::Invalid(..) => Vec::new(),
        };
        CaseResult { id, title, notes, verdict: verdict.unwrap_or_else(|_| panicked()) }
    }

    fn verdict(&self) -> Verdict {
        match self {
            Self::Case(case) => run::run_case(case),
            Self::EndToEnd(case) => e2e::run_end_to_end(case),
            Self::Decision(_, entry) => match entry.difference_from_recording() {
                Some(difference) => Verdict::Failed(vec![difference]),
                None => Verdict::Passed,
            },
            Self::Invalid(_, wrong) => Verdict::Failed(wrong.clone()),
        }
    }
}

/// Maps items in parallel on all cores. The results are in the order of the items.
fn map_in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        while let Some((at, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, items.get(at)?)))
        {
            done.push((at, work(item)));
        }
        done
    };
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
        joined.flat_map(|done| done.expect("panics are caught item by item")).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
