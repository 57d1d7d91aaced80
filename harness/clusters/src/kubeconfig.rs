//! Finds and merges kubeconfigs as kubectl does: the named file, else all files that `KUBECONFIG`
//! lists, else `~/.kube/config`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use kube::config::Kubeconfig;

use crate::api::error_chain_text;

/// The path of the kubeconfig: `path`, else the value of `KUBECONFIG` (which may be a list of
/// files), else `~/.kube/config`.
pub(crate) fn find_kubeconfig_path(path: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(named) = path {
        return Ok(named.to_path_buf());
    }
    if let Some(paths) = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(paths));
    }
    let home = std::env::var_os("HOME")
        .context("no kubeconfig: name one with --kubeconfig, or set KUBECONFIG")?;
    Ok(PathBuf::from(home).join(".kube/config"))
}

/// The same list of paths with each made absolute.
///
/// # Errors
/// The current folder is unknown.
pub fn absolute_path_list(path: &Path) -> anyhow::Result<PathBuf> {
    let files = kubeconfig_files(path).into_iter();
    let files: Vec<PathBuf> = files.map(std::path::absolute).collect::<Result<_, _>>()?;
    Ok(PathBuf::from(std::env::join_paths(files).context("a path contains a colon")?))
}

/// Reads and merges the files in the list `path`. The first file that sets a value wins; of several
/// files, missing ones are skipped.
///
/// # Errors
/// No file exists, or one cannot be read or is no kubeconfig.
pub fn load_kubeconfig(path: &Path) -> anyhow::Result<Kubeconfig> {
    let shown = path.display();
    let files = kubeconfig_files(path);
    let mut found = files.iter().filter(|file| files.len() == 1 || file.exists()).peekable();
    if found.peek().is_none() {
        bail!("cannot read kubeconfig {shown}: none of these files exists");
    }
    let mut merged = Kubeconfig::default();
    for file in found {
        let unreadable = |error: kube::config::KubeconfigError| {
            anyhow!("cannot read kubeconfig {}: {}", file.display(), error_chain_text(&error))
        };
        let mut next = Kubeconfig::read_from(file).map_err(unreadable)?;
        // kubectl writes an empty string if there is no current context.
        next.current_context = next.current_context.filter(|context| !context.is_empty());
        merged = merged.merge(next).map_err(unreadable)?;
    }
    if merged.contexts.is_empty() {
        let nothing = merged.clusters.is_empty() && merged.auth_infos.is_empty();
        let what = if nothing { "is empty" } else { "has no context" };
        bail!("kubeconfig {shown} {what}: expected a file with clusters, users and contexts");
    }
    Ok(merged)
}

/// The name of the current context.
///
/// # Errors
/// Why there is none, as the end of a sentence about the kubeconfig.
pub(crate) fn current_context_name(kubeconfig: &Kubeconfig) -> Result<&str, String> {
    let current = kubeconfig.current_context.as_deref();
    let current = current.ok_or_else(|| "has no current context".to_owned())?;
    let is_there = kubeconfig.contexts.iter().any(|context| context.name == current);
    is_there
        .then_some(current)
        .ok_or_else(|| format!("has no context {current:?}, which is its current-context"))
}

/// Fails if a file is not a regular file. Cleanup after a crash reads the kubeconfig again, and a
/// pipe can be read only once.
pub(crate) fn check_rereadable(path: &Path) -> anyhow::Result<()> {
    let is_odd = |file: &&PathBuf| file.metadata().is_ok_and(|found| !found.is_file());
    match kubeconfig_files(path).iter().find(is_odd) {
        Some(not_regular) => bail!(
            "kubeconfig {}: got something other than a regular file, such as `<(…)`; expected a \
             file that can be read again when the cluster is cleaned up",
            not_regular.display()
        ),
        None => Ok(()),
    }
}

/// The files in a list of paths as in `KUBECONFIG`. If a file exists whose name is the whole text,
/// colons included, it is the only one.
fn kubeconfig_files(path: &Path) -> Vec<PathBuf> {
    if path.exists() {
        return vec![path.to_path_buf()];
    }
    std::env::split_paths(path).filter(|file| !file.as_os_str().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn contexts(kubeconfig: &Kubeconfig) -> Vec<&str> {
        kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect()
    }

    fn current_of(kubeconfig: &Kubeconfig) -> String {
        current_context_name(kubeconfig).map_or_else(|why| why, str::to_owned)
    }

    fn load_error(path: &Path) -> String {
        load_kubeconfig(path).unwrap_err().to_string()
    }

    #[test]
    fn a_kubeconfig_must_be_a_regular_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_rereadable(&written(folder.path(), "plain", "")).is_ok());
        assert!(
            check_rereadable(&folder.path().join("absent")).is_ok(),
            "it is reported elsewhere"
        );
        let error = check_rereadable(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(
            error.starts_with("kubeconfig /dev/null: got something other than a regular file"),
            "{error}"
        );
    }

    #[test]
    fn files_are_merged_and_the_first_value_wins() {
        let folder = tempfile::tempdir().unwrap();
        let one = |name: &str, server: &str, current: &str| {
            let text = format!(
                "current-context: {current}\n\
                 clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
                 contexts: [{{name: {name}, context: {{cluster: c, user: u}}}}]\n"
            );
            written(folder.path(), name, &text)
        };
        let (first, second) =
            (one("first", "https://1", "''"), one("second", "https://2", "second"));
        let absent = folder.path().join("absent");
        let path = PathBuf::from(std::env::join_paths([absent, first.clone(), second]).unwrap());
        let merged = load_kubeconfig(&path).unwrap();
        assert_eq!(contexts(&merged), ["first", "second"]);
        assert_eq!(merged.current_context.as_deref(), Some("second"));
        let server = merged.clusters[0].cluster.as_ref().unwrap().server.as_deref();
        assert_eq!((server, merged.clusters.len()), (Some("https://1"), 1));
        assert_eq!(
            contexts(&load_kubeconfig(&absolute_path_list(&path).unwrap()).unwrap()),
            ["first", "second"]
        );
        let with_colon = folder.path().join("a:b");
        std::fs::copy(&first, &with_colon).unwrap();
        assert_eq!(contexts(&load_kubeconfig(&with_colon).unwrap()), ["first"]);
    }

    #[test]
    fn the_current_context_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        let one = |current: &str| {
            let text = format!(
                "{current}\nclusters: [{{name: c, cluster: {{server: s}}}}]\n\
                 contexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n"
            );
            let read = load_kubeconfig(&written(folder.path(), "kubeconfig", &text)).unwrap();
            current_of(&read)
        };
        assert_eq!(one("current-context: here"), "here");
        assert_eq!(one(""), "has no current context");
        let expected = "has no context \"gone\", which is its current-context";
        assert_eq!(one("current-context: gone"), expected);
    }

    #[test]
    fn missing_empty_and_invalid_kubeconfigs_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let shown = |name: &str| folder.path().join(name).display().to_string();
        assert!(
            load_error(&folder.path().join("a"))
                .starts_with(&format!("cannot read kubeconfig {}: ", shown("a")))
        );
        let both = PathBuf::from(format!("{}:{}", shown("a"), shown("b")));
        let none = format!("cannot read kubeconfig {}: none of these files", both.display());
        assert!(load_error(&both).starts_with(&none), "{}", load_error(&both));
        for (text, what) in [
            ("", "is empty"),
            ("# nothing\n", "is empty"),
            ("apiVersion: v1\nkind: Config\n", "is empty"),
            ("clusters: [{name: c, cluster: {server: s}}]\n", "has no context"),
        ] {
            let path = written(folder.path(), "kubeconfig", text);
            let expected = format!("kubeconfig {} {what}: expected", path.display());
            assert!(load_error(&path).starts_with(&expected), "{text}: {}", load_error(&path));
        }
        let broken = written(folder.path(), "broken", "contexts: 5\n");
        let expected = format!("cannot read kubeconfig {}: ", broken.display());
        assert!(load_error(&broken).starts_with(&expected), "{}", load_error(&broken));
    }
}
