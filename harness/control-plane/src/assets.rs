//! The programs of a control plane: where they are, and what to do when they are not.

use std::path::{Path, PathBuf};

/// What a cluster for features needs.
pub const PROGRAMS: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];

/// The version that `make control-plane` builds.
const VERSION: &str = "v1.35.4";

/// Where the programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assets(PathBuf);

/// They are not where they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no control plane: {} ({place}) has no {}; build them with `make control-plane`, or name a \
     folder that has them with --assets or KUBEBUILDER_ASSETS",
    folder.display(), programs.join(", ")
)]
pub struct Missing {
    /// Where they were looked for.
    pub folder: PathBuf,
    /// Why there.
    place: &'static str,
    /// Those that are not there.
    pub programs: Vec<&'static str>,
}

impl Assets {
    /// Where a program of that name is.
    pub fn program(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Where all of them are.
    pub fn folder(&self) -> &Path {
        &self.0
    }
}

/// Looks where it was told to, else where `KUBEBUILDER_ASSETS` says, else where
/// `make control-plane` puts them; all of these programs must be there.
pub fn find(told: Option<&Path>, programs: &[&'static str]) -> Result<Assets, Missing> {
    let named = std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty());
    let (place, folder) = match (told, named) {
        (Some(told), _) => ("--assets", told.to_path_buf()),
        (None, Some(named)) => ("KUBEBUILDER_ASSETS", PathBuf::from(named)),
        (None, None) => ("the cache of `make control-plane`", cache()),
    };
    let is_missing = |program: &&str| !folder.join(program).is_file();
    let programs: Vec<&str> = programs.iter().copied().filter(is_missing).collect();
    if programs.is_empty() { Ok(Assets(folder)) } else { Err(Missing { folder, place, programs }) }
}

fn cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.filter(|path| path.is_absolute());
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    cache.unwrap_or_else(home).join("schedlab/control-plane").join(VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("etcd"), "").unwrap();
        let error = find(Some(folder.path()), &PROGRAMS).unwrap_err().to_string();
        assert!(error.contains("has no kube-apiserver, kube-controller-manager"), "{error}");
        assert!(error.contains("make control-plane"), "{error}");
    }
}
