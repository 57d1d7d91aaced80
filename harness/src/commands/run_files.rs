//! The files of a run in the results folder: its report and, if it recorded them, its timelines.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schedlab_conformance::report::Report;
use schedlab_conformance::text;
use schedlab_view::report::EncodedTimelines;

use super::UsageError;

/// A run that was read from files.
pub(super) struct RecordedRun {
    /// The folder or the file of the run.
    pub(super) title: String,
    pub(super) report: Report,
    /// The timelines of its scenarios; empty if the run did not record them.
    pub(super) timelines: EncodedTimelines,
}

/// The file with the timelines of a run, in its results folder.
const TIMELINES_FILE: &str = "timelines.json";

/// Writes the timelines of a run to its results folder.
pub(super) fn write_timelines(folder: &Path, timelines: &EncodedTimelines) -> anyhow::Result<()> {
    let file = folder.join(TIMELINES_FILE);
    let text = serde_json::to_string(timelines)?;
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// The report file of a run; `None` if there is no run of this name.
pub(super) fn report_file(run: &str, results: &Path) -> Option<PathBuf> {
    let candidates = [PathBuf::from(run), results.join(run)];
    candidates.iter().find_map(|path| {
        let inside = path.join("report.json");
        if inside.is_file() { Some(inside) } else { path.is_file().then(|| path.clone()) }
    })
}

/// Loads a run by its folder, its name in the results folder, `latest`, or its report file.
pub(super) fn read_run(run: &str, results: &Path) -> anyhow::Result<RecordedRun> {
    let Some(file) = report_file(run, results) else {
        return Err(UsageError(format!(
            "got run `{run}`, expected a folder that `schedlab run` wrote, its name in {0}, or \
             `latest`: neither {run}/report.json nor {}/{run}/report.json exists{}",
            results.display(),
            newest_run_names(results)
        ))
        .into());
    };
    let text = text::read_text_file(&file).map_err(|unreadable| {
        UsageError(unreadable.message_with_file(&file.display().to_string()))
    })?;
    let report: Report = serde_json::from_str(&text).map_err(|error| {
        UsageError(format!("{}: not a report of `schedlab run`: {error}", file.display()))
    })?;
    let file = resolve_latest(&file);
    let shown = file.strip_prefix("./").unwrap_or(&file);
    let folder = shown.parent().filter(|_| shown.ends_with("report.json")).unwrap_or(shown);
    if report.cases.iter().all(|case| case.run_outcome.is_none()) {
        let message = "has no placements and events: it was written by an older schedlab, or \
                       nothing was run; run it again";
        return Err(UsageError(format!("{} {message}", file.display())).into());
    }
    let timelines = read_timelines(file.parent().unwrap_or(Path::new("")))?;
    Ok(RecordedRun { title: folder.display().to_string(), report, timelines })
}

/// Reads the timelines of a run from its results folder; none if it recorded none.
pub(super) fn read_timelines(folder: &Path) -> anyhow::Result<EncodedTimelines> {
    let file = folder.join(TIMELINES_FILE);
    if !file.is_file() {
        return Ok(EncodedTimelines::default());
    }
    let text = std::fs::read_to_string(&file);
    let text = text.with_context(|| format!("cannot read {}", file.display()))?;
    let timelines = serde_json::from_str(&text);
    Ok(timelines.map_err(|error| {
        UsageError(format!("{}: not the timelines of a run: {error}", file.display()))
    })?)
}

/// The file with the link `latest` in its path resolved to the run to which the link points.
fn resolve_latest(file: &Path) -> PathBuf {
    let named = || {
        let folder = file.parent()?;
        let target = std::fs::read_link(folder).ok()?;
        Some(folder.parent()?.join(target).join(file.file_name()?))
    };
    named().unwrap_or_else(|| file.to_path_buf())
}

/// The names of the newest runs, as a hint for a mistyped name.
fn newest_run_names(results: &Path) -> String {
    let entries = std::fs::read_dir(results).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("report.json").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let newest: Vec<String> = names.into_iter().rev().take(5).collect();
    if newest.is_empty() {
        String::new()
    } else {
        format!(
            "; the newest are {}",
            newest.join(
                ", \
        "
            )
        )
    }
}
