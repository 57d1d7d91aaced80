//! Finds the programs of a control plane.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs of a control plane on which features run.
pub const PROGRAMS: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];

/// The versions that `make control-plane` can build, oldest first; without `VERSION=`, it builds
/// the last one.
pub const VERSIONS: [&str; 2] = ["v1.35.4", "v1.37.2"];

/// A folder with the programs of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assets(PathBuf);

/// Error: programs of the control plane were not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no control plane: {} ({origin}) has no {}; build them with `make control-plane`, or name a \
     folder that has them with --assets or KUBEBUILDER_ASSETS",
    folder.display(), programs.join(", ")
)]
pub struct MissingPrograms {
    /// The searched folder.
    pub folder: PathBuf,
    /// The setting that named the folder.
    origin: &'static str,
    /// The missing programs.
    pub programs: Vec<&'static str>,
}

impl Assets {
    /// The path of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The version of its API server: `v1.37.2`.
    ///
    /// # Errors
    ///
    /// The program cannot be run, or prints no version.
    pub fn version(&self) -> Result<String, String> {
        let program = self.program("kube-apiserver");
        let output = Command::new(&program).arg("--version").output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?.stdout;
        let output = String::from_utf8_lossy(&output);
        let version = output.split_whitespace().find(|word| word.starts_with('v'));
        let none = || {
            format!("{} --version: got {:?}, expected a version", program.display(), output.trim())
        };
        version.map(str::to_owned).ok_or_else(none)
    }

    /// The folder with all programs.
    pub fn folder(&self) -> &Path {
        &self.0
    }
}

/// Finds the programs in the given folder, in `KUBEBUILDER_ASSETS`, or in the folder of
/// `make control-plane`; the first one that is set counts.
///
/// # Errors
/// The folder lacks some of the programs.
pub fn find_assets(
    folder_argument: Option<&Path>,
    programs: &[&'static str],
) -> Result<Assets, MissingPrograms> {
    let named = std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty());
    let (origin, folder) = match (folder_argument, named) {
        (Some(folder_argument), _) => ("--assets", folder_argument.to_path_buf()),
        (None, Some(named)) => ("KUBEBUILDER_ASSETS", PathBuf::from(named)),
        (None, None) => ("the cache of `make control-plane`", cache_folder()),
    };
    let is_missing = |program: &&str| !folder.join(program).is_file();
    let programs: Vec<&str> = programs.iter().copied().filter(is_missing).collect();
    if programs.is_empty() {
        Ok(Assets(folder))
    } else {
        Err(MissingPrograms { folder, origin, programs })
    }
}

fn cache_folder() -> PathBuf {
    let [.., newest] = VERSIONS;
    built_folder(newest)
}

/// The folder of a version in the cache of `make control-plane`.
pub fn built_folder(version: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.filter(|path| path.is_absolute());
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    cache.unwrap_or_else(home).join("schedlab/control-plane").join(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_named_with_the_command_that_builds_them() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("etcd"), "").unwrap();
        let error = find_assets(Some(folder.path()), &PROGRAMS).unwrap_err().to_string();
        assert!(error.contains("has no kube-apiserver, kube-controller-manager"), "{error}");
        assert!(error.contains("make control-plane"), "{error}");
    }
}
