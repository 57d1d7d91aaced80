//! The results folder: `results/<run>/{report.json,junit.xml}` and `results/latest`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{Report, junit_xml};

/// Writes the results of a run and points the link `latest` to them. Returns the folder of the run.
///
/// # Errors
/// A file or folder cannot be written.
pub fn write_results(folder: &Path, run: &str, report: &Report) -> anyhow::Result<PathBuf> {
    let path = unused_result_folder(folder, run);
    std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let write = |name: &str, text: String| {
        let file = path.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    write("report.json", report_json(report)?)?;
    write("junit.xml", junit_xml(report)?)?;
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
        write_results(folder.path(), "t", &first).unwrap();
        let path = write_results(folder.path(), "t", &second).unwrap();
        assert!(path.ends_with("t-2"));
        assert_eq!(latest_report_text(folder.path()).unwrap(), report_json(&second).unwrap());
    }
}
