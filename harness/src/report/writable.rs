//! Whether results can be written, asked before anything runs: nothing is left behind by it.

use std::io;
use std::path::Path;

use super::Reporter;

/// Why one of the places cannot be written, if so.
pub fn unwritable(results: &Path, reporters: &[Reporter]) -> Option<String> {
    let files = reporters.iter().filter_map(|reporter| match reporter {
        Reporter::Pretty => None,
        Reporter::Junit(path) | Reporter::Json(path) => Some(("--reporter", path, file(path))),
    });
    let results = results.to_path_buf();
    let mut places = std::iter::once(("--results", &results, folder(&results))).chain(files);
    places.find_map(|(option, path, tried)| {
        let error = tried.err()?;
        Some(format!("{option} {}: cannot be written: {error}", path.display()))
    })
}

/// A folder that is there or can be made.
fn folder(path: &Path) -> io::Result<()> {
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

/// A file that is there or can be made: its folder is not made for it.
fn file(path: &Path) -> io::Result<()> {
    if path.exists() {
        return std::fs::OpenOptions::new().append(true).open(path).map(drop);
    }
    let above = path.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
    if !above.exists() {
        let message = format!("the folder {} is not there", above.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    folder(above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_told_and_nothing_is_left_behind() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        std::fs::write(at("file"), "as it was").unwrap();
        let fine = [Reporter::Pretty, Reporter::Json(at("file")), Reporter::Junit(at("new.xml"))];
        assert_eq!(unwritable(&at("results/deep"), &fine), None);
        let told = |results: &str, report: &str| {
            let wrong = unwritable(&at(results), &[Reporter::Junit(at(report))]);
            wrong.unwrap().replace(&*temporary.path().to_string_lossy(), "T")
        };
        insta::assert_snapshot!(
            [told("file/results", "x"), told("results", "missing/x"), told("results", "")].join("\n"),
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
