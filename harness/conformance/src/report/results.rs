//! The results folder: `results/<run>/{report.json,junit.xml,times.json,run.json}` and
//! `results/latest`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{CaseTimes, Report, RunRecord, RunResults, junit_xml};

/// The names of the files that `schedlab merge` reads.
const REPORT: &str = "report.json";
const TIMES: &str = "times.json";
const RECORD: &str = "run.json";

/// The names of the files of a run that `schedlab merge` reads.
pub const RUN_FILES: [&str; 3] = [REPORT, TIMES, RECORD];

/// Writes the results of a run and points the link `latest` to them. Returns the folder of the run.
///
/// # Errors
/// A file or folder cannot be written.
pub fn write_results(
    folder: &Path,
    run: &str,
    report: &Report,
    record: &RunRecord,
) -> anyhow::Result<PathBuf> {
    let path = unused_result_folder(folder, run);
    std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let write = |name: &str, text: String| {
        let file = path.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    write(REPORT, report_json(report)?)?;
    write("junit.xml", junit_xml(report)?)?;
    write(TIMES, CaseTimes::of_report(report).to_json()?)?;
    write(RECORD, record.to_json()?)?;
    link_latest(folder, &path)?;
    Ok(path)
}

/// The report as JSON text.
///
/// # Errors
/// The report cannot be represented in JSON.
pub fn report_json(report: &Report) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

/// The text of `report.json` of the last run.
///
/// # Errors
/// The file cannot be read.
pub fn latest_report_text(folder: &Path) -> anyhow::Result<String> {
    let path = folder.join("latest").join("report.json");
    std::fs::read_to_string(&path)
        .with_context(|| format!("there is no last run: cannot read {}", path.display()))
}

/// Reads what `schedlab merge` needs of the results in a folder.
///
/// # Errors
/// A file is missing or is not what `schedlab run` wrote.
pub fn read_run_files(folder: &Path) -> Result<RunResults, String> {
    let name = folder.display().to_string();
    let mut files = BTreeMap::new();
    for file in RUN_FILES {
        let text = crate::text::read_text_file(&folder.join(file));
        let text = text.map_err(|error| error.message_with_file(&format!("{name}/{file}")))?;
        files.insert(file.to_owned(), text);
    }
    parse_run_files(&name, &files)
}

/// Reads what `schedlab merge` needs from the texts of the files of a run by their names. `name` is
/// the run in messages.
///
/// # Errors
/// A file is missing or is not what `schedlab run` wrote.
pub fn parse_run_files(name: &str, files: &BTreeMap<String, String>) -> Result<RunResults, String> {
    let text = |file: &str| {
        files.get(file).map(String::as_str).ok_or_else(|| format!("{name}/{file}: is missing"))
    };
    RunResults::parse(name, text(RECORD)?, text(REPORT)?, text(TIMES)?)
}

fn unused_result_folder(folder: &Path, run: &str) -> PathBuf {
    let numbered = (2..).map(|n| folder.join(format!("{run}-{n}")));
    let mut candidates = std::iter::once(folder.join(run)).chain(numbered);
    candidates.find(|path| !path.exists()).expect("there is always a free number")
}

fn link_latest(folder: &Path, run: &Path) -> anyhow::Result<()> {
    let latest = folder.join("latest");
    if latest.is_symlink() || latest.is_file() {
        std::fs::remove_file(&latest)?;
    }
    let name = run.file_name().context("a run has a name")?;
    #[cfg(unix)]
    std::os::unix::fs::symlink(name, &latest)
        .with_context(|| format!("cannot point {} at {}", latest.display(), run.display()))?;
    #[cfg(not(unix))]
    std::fs::write(&latest, name.to_string_lossy().as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_points_to_the_newer_of_two_runs_in_the_same_second() {
        let folder = tempfile::tempdir().unwrap();
        let first = Report { seed: 1, ..Report::default() };
        let second = Report { seed: 2, ..Report::default() };
        let identity = crate::report::merge::tests::identity();
        let record = RunRecord::new(identity, "2026-11-29T05:00:00Z".parse().unwrap());
        write_results(folder.path(), "t", &first, &record).unwrap();
        let path = write_results(folder.path(), "t", &second, &record).unwrap();
        assert_eq!(read_run_files(&path).unwrap().record, record);
        assert!(path.ends_with("t-2"));
        assert_eq!(latest_report_text(folder.path()).unwrap(), report_json(&second).unwrap());
    }
}
