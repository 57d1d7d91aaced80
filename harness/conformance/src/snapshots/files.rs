//! Snapshot files on disk, in insta's format, and detection of orphaned ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use super::SnapshotUpdate;
use crate::features::{Case, FeatureSuite};

/// The text in a snapshot file; `None` if the file does not exist.
pub(super) fn read_snapshot(path: &Path) -> anyhow::Result<Option<String>> {
    if !path.exists() {
        return Ok(None);
    }
    let snapshot = insta::Snapshot::from_file(path).map_err(|error| {
        let shown = path.display().to_string();
        match crate::text::read_text_file(path) {
            Err(unreadable) => anyhow!(unreadable.message_with_file(&shown)),
            Ok(_) => anyhow!("{shown} is not an insta snapshot: {error}"),
        }
    })?;
    let text =
        snapshot.as_text().with_context(|| format!("{} is not a text snapshot", path.display()))?;
    Ok(Some(text.to_string()))
}

/// The text in the content of a snapshot file: what follows its header, which is between two lines
/// `---`. `None` if the file has no header.
pub(super) fn text_of_snapshot_file(file: &str) -> Option<String> {
    let (_, text) = file.strip_prefix("---\n")?.split_once("\n---\n")?;
    Some(text.trim_end().to_owned())
}

/// Writes a snapshot file with a header that names its source.
pub(super) fn write_snapshot(
    path: &Path,
    source: &str,
    name: &str,
    text: &str,
) -> anyhow::Result<()> {
    let quoted = |text: &str| schedlab_api::Value::from(text).to_string();
    let file = format!(
        "---\nsource: {}\nexpression: {}\n---\n{}\n",
        quoted(source),
        quoted(name),
        text.trim_end()
    );
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, file))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Removes a snapshot file if it exists.
pub(super) fn remove_snapshot(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// Removes a snapshot file if it exists, unless `update` is [`SnapshotUpdate::No`].
pub(super) fn remove_if_allowed(update: SnapshotUpdate, path: &Path) -> anyhow::Result<()> {
    if update == SnapshotUpdate::No { Ok(()) } else { remove_snapshot(path) }
}

/// The paths of all pending snapshots below `paths`, sorted.
pub fn pending_snapshots(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        collect_snapshot_files(path, &mut found);
    }
    found.retain(|path| path.to_string_lossy().ends_with(".snap.new"));
    found.sort();
    found
}

/// Snapshots of the loaded feature files that no scenario uses any more, because it was renamed or
/// deleted or has no snapshot step. `whole_files` are the folders of which all files were loaded.
pub fn orphaned_snapshots(
    suite: &FeatureSuite,
    whole_files: &[PathBuf],
    is_shown: &dyn Fn(&Case) -> bool,
) -> Vec<PathBuf> {
    let needed: BTreeSet<PathBuf> =
        suite.cases.iter().filter(|case| is_shown(case)).map(Case::snapshot_path).collect();
    let mut folders = BTreeSet::new();
    let mut loaded = BTreeSet::new();
    let on_disk = suite.cases.iter().filter(|case| case.files.is_on_disk());
    let files: BTreeSet<&str> = on_disk.map(|case| case.location.file.as_str()).collect();
    for file in files {
        let (base, inner) = crate::features::split_at_features_folder(file);
        let area = base.join("snapshots").join(inner.parent().unwrap_or(Path::new("")));
        folders.insert(area.clone());
        let stem = inner.file_stem().map(|s| s.to_string_lossy().into_owned());
        loaded.insert((area, stem.unwrap_or_default()));
    }
    let mut found = Vec::new();
    for folder in whole_files {
        let (base, inner) = crate::features::split_at_features_folder(&format!(
            "{}/x",
            crate::features::display_path(folder)
        ));
        collect_snapshot_files(
            &base.join("snapshots").join(inner.parent().unwrap_or(Path::new(""))),
            &mut found,
        );
    }
    for folder in &folders {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        found.extend(
            files
                .map(|file| file.path())
                .filter(|path| is_of_loaded_feature(path, folder, &loaded)),
        );
    }
    found.sort();
    found.dedup();
    found.retain(|path| path.extension().is_some_and(|e| e == "snap") && !needed.contains(path));
    found
}

/// Whether a snapshot file belongs to one of the loaded feature files.
fn is_of_loaded_feature(path: &Path, folder: &Path, loaded: &BTreeSet<(PathBuf, String)>) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.split("__").next().unwrap_or_default().to_owned();
    loaded.contains(&(folder.to_path_buf(), stem))
}

fn collect_snapshot_files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        found.push(path.to_path_buf());
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries {
        collect_snapshot_files(&entry.path(), found);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::features::{FeaturePath, load_suite};

    #[test]
    fn a_renamed_scenario_a_deleted_feature_and_a_deleted_area_leave_orphans() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for area in ["features/quota", "snapshots/quota", "snapshots/gone"] {
            fs::create_dir_all(root.join(area)).unwrap();
        }
        let text = "Feature: f\n  Scenario: stays\n    Then the placement matches its snapshot\n";
        fs::write(root.join("features/quota/q.feature"), text).unwrap();
        for snapshot in ["quota/q__stays", "quota/q__renamed", "quota/old__x", "gone/g__y"] {
            let path = root.join("snapshots").join(format!("{snapshot}.snap"));
            write_snapshot(&path, "f", "n", "text").unwrap();
        }
        let features = root.join("features");
        let suite =
            load_suite(&[FeaturePath::on_disk(features.clone())], crate::steps::catalogue::is_step)
                .unwrap();
        let names = |whole: &[PathBuf]| -> Vec<String> {
            let found = orphaned_snapshots(&suite, whole, &|_| true);
            found.iter().map(|p| p.file_stem().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&[features]), ["g__y", "old__x", "q__renamed"]);
        assert_eq!(names(&[]), ["q__renamed"], "a file alone says nothing about other files");
    }
}
