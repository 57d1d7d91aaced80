//! Where the files of a suite are: in folders on disk, or in the program itself. Features, fixtures
//! and snapshots are read through [`SuiteFiles`], whatever their place; paths look the same in both.

use std::path::{Component, Path, PathBuf};

use crate::text::{TextFileError, read_text_file};

/// A suite that is compiled into the program.
#[derive(Debug)]
pub struct EmbeddedSuite {
    /// The version of the program that the suite belongs to.
    pub version: &'static str,
    /// The files, sorted by path: path and content.
    pub files: &'static [(&'static str, &'static str)],
}

impl EmbeddedSuite {
    fn content(&self, path: &Path) -> Option<&'static str> {
        let path = inner_path(path)?;
        let index = self.files.binary_search_by_key(&path.as_str(), |(file, _)| file).ok()?;
        self.files.get(index).map(|(_, content)| *content)
    }

    /// The paths of all files below a folder.
    fn paths_below(&self, folder: &Path) -> impl Iterator<Item = &'static str> {
        let folder = inner_path(folder).map(|folder| folder + "/");
        let paths = self.files.iter().map(|(path, _)| *path);
        paths.filter(move |path| folder.as_ref().is_some_and(|folder| path.starts_with(folder)))
    }
}

/// A path as the files of an embedded suite are named: relative, with `/`, without `.`. `None` if
/// the path cannot be one of them.
fn inner_path(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => return None,
        }
    }
    Some(parts.join("/"))
}

/// Where the files of a suite are.
#[derive(Clone, Copy, Debug, Default)]
pub enum SuiteFiles {
    /// In folders on disk.
    #[default]
    Disk,
    /// In the program.
    Embedded(&'static EmbeddedSuite),
}

impl SuiteFiles {
    /// Whether the files are on disk, where they can be written.
    pub fn is_on_disk(self) -> bool {
        matches!(self, Self::Disk)
    }

    /// Whether there is a file or a folder at this path.
    pub fn exists(self, path: &Path) -> bool {
        match self {
            Self::Disk => path.exists(),
            Self::Embedded(suite) => suite.content(path).is_some() || self.is_folder(path),
        }
    }

    /// Whether there is a folder at this path.
    pub fn is_folder(self, path: &Path) -> bool {
        match self {
            Self::Disk => path.is_dir(),
            Self::Embedded(suite) => suite.paths_below(path).next().is_some(),
        }
    }

    /// Reads a text file. A byte order mark at its beginning is left out.
    ///
    /// # Errors
    /// The file does not exist, cannot be read or is not UTF-8.
    pub fn read_text(self, path: &Path) -> Result<String, TextFileError> {
        match self {
            Self::Disk => read_text_file(path),
            Self::Embedded(suite) => suite.content(path).map(str::to_owned).ok_or_else(|| {
                let found = format!("no such file in the suite of schedlab {}", suite.version);
                TextFileError { line: 0, found }
            }),
        }
    }

    /// The paths of all files below a folder, in any order; empty if there is no such folder.
    pub fn files_below(self, folder: &Path) -> Vec<PathBuf> {
        match self {
            Self::Disk => {
                let mut files = Vec::new();
                collect_files(folder, &mut files);
                files
            }
            Self::Embedded(suite) => suite.paths_below(folder).map(PathBuf::from).collect(),
        }
    }

    /// The names of the files and folders in a folder, sorted; empty if there is no such folder.
    pub fn names_in(self, folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = match self {
            Self::Disk => {
                let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
            }
            Self::Embedded(suite) => {
                let depth = folder.components().filter(|part| *part != Component::CurDir).count();
                let name = |path: &str| path.split('/').nth(depth).map(str::to_owned);
                suite.paths_below(folder).filter_map(name).collect()
            }
        };
        names.sort();
        names.dedup();
        names
    }
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_files(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SUITE: EmbeddedSuite = EmbeddedSuite {
        version: "1.2.3",
        files: &[
            ("features/gang/a.feature", "a"),
            ("features/quota/b.feature", "b"),
            ("fixtures/fleets/lab.yaml", "pools: []\n"),
            ("fixtures/fleets/mig.yaml", ""),
        ],
    };

    #[test]
    fn an_embedded_file_is_read_by_its_path_with_or_without_a_leading_dot() {
        let files = SuiteFiles::Embedded(&SUITE);
        assert_eq!(files.read_text(Path::new("features/gang/a.feature")).unwrap(), "a");
        assert_eq!(files.read_text(Path::new("./features/quota/b.feature")).unwrap(), "b");
        for missing in ["features/gang", "/features/gang/a.feature", "../features/gang/a.feature"] {
            let error = files.read_text(Path::new(missing)).unwrap_err();
            assert_eq!(error.message_without_file(), "no such file in the suite of schedlab 1.2.3");
        }
    }

    #[test]
    fn an_embedded_folder_has_the_files_below_it() {
        let files = SuiteFiles::Embedded(&SUITE);
        let below = |folder: &str| files.files_below(Path::new(folder)).len();
        assert_eq!((below("features"), below("features/gang"), below("features/gan")), (2, 1, 0));
        assert!(files.is_folder(Path::new("./features/gang")));
        assert!(!files.is_folder(Path::new("features/gang/a.feature")));
        assert!(files.exists(Path::new("features/gang/a.feature")));
        assert!(!files.exists(Path::new("features/nope")));
        assert_eq!(files.names_in(Path::new("./fixtures/fleets")), ["lab.yaml", "mig.yaml"]);
        assert_eq!(files.names_in(Path::new("features")), ["gang", "quota"]);
    }

    #[test]
    fn a_folder_on_disk_gives_the_same_answers() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for (path, content) in SUITE.files {
            std::fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            std::fs::write(at(path), content).unwrap();
        }
        let files = SuiteFiles::Disk;
        assert_eq!(files.read_text(&at("features/gang/a.feature")).unwrap(), "a");
        assert_eq!(files.files_below(&at("features")).len(), 2);
        assert_eq!(files.names_in(&at("fixtures/fleets")), ["lab.yaml", "mig.yaml"]);
        assert!(files.is_folder(&at("features")) && !files.exists(&at("features/nope")));
    }
}
