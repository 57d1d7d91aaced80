//! Checks before a run whether results can be written. Leaves no file behind.

use std::io;
use std::path::Path;

use super::Reporter;

/// Why the results folder or a report file cannot be written; `None` if all can.
pub fn first_unwritable_path(results: &Path, reporters: &[Reporter]) -> Option<String> {
    let files = reporters.iter().filter_map(Reporter::file);
    let files = files.map(|path| ("--reporter", path, check_file_is_writable(path)));
    let mut destinations =
        std::iter::once(("--results", results, check_folder_is_writable(results))).chain(files);
    destinations.find_map(|(option, path, tried)| {
        let error = tried.err()?;
        Some(format!("{option} {}: cannot be written: {error}", path.display()))
    })
}

/// Checks that a folder can be written or created.
fn check_folder_is_writable(path: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let mut above = path.ancestors().map(|path| if path == Path::new("") { here } else { path });
    let there = above.find(|path| path.symlink_metadata().is_ok()).unwrap_or(here);
    if !there.is_dir() {
        let message = format!("{} is not a folder", there.display());
        return Err(io::Error::new(io::ErrorKind::NotADirectory, message));
    }
    let trial = there.join(format!(".schedlab-trial-{}", std::process::id()));
    std::fs::File::create_new(&trial)?;
    std::fs::remove_file(&trial)
}

/// Checks that a file can be written or created; its folder must exist.
fn check_file_is_writable(path: &Path) -> io::Result<()> {
    if path.exists() {
        return std::fs::OpenOptions::new().append(true).open(path).map(drop);
    }
    let above = path.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
    if !above.exists() {
        let message = format!("the folder {} is not there", above.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    check_folder_is_writable(above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwritable_path_is_reported_and_no_file_is_left_behind() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        std::fs::write(at("file"), "as it was").unwrap();
        let fine = [Reporter::Pretty, Reporter::Json(at("file")), Reporter::Junit(at("new.xml"))];
        assert_eq!(first_unwritable_path(&at("results/deep"), &fine), None);
        let message = |results: &str, report: &str| {
            let wrong = first_unwritable_path(&at(results), &[Reporter::Junit(at(report))]);
            wrong.unwrap().replace(&*temporary.path().to_string_lossy(), "T")
        };
        insta::assert_snapshot!(
            [message("file/results", "x"), message("results", "missing/x"), message("results", "")].join("\n"),
            @r"
        --results T/file/results: cannot be written: T/file is not a folder
        --reporter T/missing/x: cannot be written: the folder T/missing is not there
        --reporter T/: cannot be written: Is a directory (os error 21)
        "
        );
        assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "as it was");
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 1);
    }
}
