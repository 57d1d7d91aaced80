//! Kubeconfigs, found and merged as kubectl does it: the file that is named, else all that
//! `KUBECONFIG` lists as one, else `~/.kube/config`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use kube::config::Kubeconfig;

use crate::api::causes;

/// The file that is named, or a list of files as in `KUBECONFIG`.
pub(crate) fn place(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named.to_path_buf());
    }
    if let Some(listed) = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(listed));
    }
    let home = std::env::var_os("HOME")
        .context("no kubeconfig: name one with --kubeconfig, or set KUBECONFIG")?;
    Ok(PathBuf::from(home).join(".kube/config"))
}

/// The same place, for a process that runs elsewhere.
pub(crate) fn absolute(place: &Path) -> anyhow::Result<PathBuf> {
    let files = files(place).into_iter();
    let files: Vec<PathBuf> = files.map(std::path::absolute).collect::<Result<_, _>>()?;
    Ok(PathBuf::from(std::env::join_paths(files).context("a path has a colon in it")?))
}

/// Reads what is at a place. The first file that says something counts; of several, those that
/// are not there are passed over.
pub(crate) fn read(place: &Path) -> anyhow::Result<Kubeconfig> {
    let shown = place.display();
    let files = files(place);
    let mut found = files.iter().filter(|file| files.len() == 1 || file.exists()).peekable();
    if found.peek().is_none() {
        bail!("cannot read kubeconfig {shown}: none of these files is there");
    }
    let mut merged = Kubeconfig::default();
    for file in found {
        let unreadable = |error: kube::config::KubeconfigError| {
            anyhow!("cannot read kubeconfig {}: {}", file.display(), causes(&error))
        };
        let mut next = Kubeconfig::read_from(file).map_err(unreadable)?;
        // kubectl writes it so where there is none.
        next.current_context = next.current_context.filter(|context| !context.is_empty());
        merged = merged.merge(next).map_err(unreadable)?;
    }
    if merged.contexts.is_empty() {
        let nothing = merged.clusters.is_empty() && merged.auth_infos.is_empty();
        let what = if nothing { "is empty" } else { "has no context" };
        bail!("kubeconfig {shown} {what}: allowed is a file with clusters, users and contexts");
    }
    Ok(merged)
}

/// The context that counts where none is named; or why there is none.
pub(crate) fn current(kubeconfig: &Kubeconfig) -> Result<&str, String> {
    let current = kubeconfig.current_context.as_deref();
    let current = current.ok_or_else(|| "has no current context".to_owned())?;
    let is_there = kubeconfig.contexts.iter().any(|context| context.name == current);
    is_there
        .then_some(current)
        .ok_or_else(|| format!("has no context {current:?}, which it says is the current one"))
}

/// What a run leaves behind is found by the kubeconfig that led there: no pipe does.
pub(crate) fn can_be_read_again(place: &Path) -> anyhow::Result<()> {
    let is_odd = |file: &&PathBuf| file.metadata().is_ok_and(|found| !found.is_file());
    match files(place).iter().find(is_odd) {
        Some(odd) => bail!(
            "kubeconfig {}: found what is no regular file, as `<(…)` makes it; allowed is a file \
             that can be read again, when what was made on the cluster is taken away",
            odd.display()
        ),
        None => Ok(()),
    }
}

/// A file whose own name has a colon in it is one.
fn files(place: &Path) -> Vec<PathBuf> {
    if place.exists() {
        return vec![place.to_path_buf()];
    }
    std::env::split_paths(place).filter(|file| !file.as_os_str().is_empty()).collect()
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
        current(kubeconfig).map_or_else(|why| why, str::to_owned)
    }

    fn told(place: &Path) -> String {
        read(place).unwrap_err().to_string()
    }

    #[test]
    fn what_can_be_read_once_only_is_no_way_back() {
        let folder = tempfile::tempdir().unwrap();
        assert!(can_be_read_again(&written(folder.path(), "plain", "")).is_ok());
        assert!(can_be_read_again(&folder.path().join("absent")).is_ok(), "it is told elsewhere");
        let told = can_be_read_again(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(told.starts_with("kubeconfig /dev/null: found what is no regular file"), "{told}");
    }

    #[test]
    fn several_files_are_one_kubeconfig_and_the_first_to_say_something_counts() {
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
        let place = PathBuf::from(std::env::join_paths([absent, first.clone(), second]).unwrap());
        let merged = read(&place).unwrap();
        assert_eq!(contexts(&merged), ["first", "second"]);
        assert_eq!(merged.current_context.as_deref(), Some("second"));
        let server = merged.clusters[0].cluster.as_ref().unwrap().server.as_deref();
        assert_eq!((server, merged.clusters.len()), (Some("https://1"), 1));
        assert_eq!(contexts(&read(&absolute(&place).unwrap()).unwrap()), ["first", "second"]);
        let with_colon = folder.path().join("a:b");
        std::fs::copy(&first, &with_colon).unwrap();
        assert_eq!(contexts(&read(&with_colon).unwrap()), ["first"]);
    }

    #[test]
    fn the_current_context_is_one_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let one = |current: &str| {
            let text = format!(
                "{current}\nclusters: [{{name: c, cluster: {{server: s}}}}]\n\
                 contexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n"
            );
            let read = read(&written(folder.path(), "kubeconfig", &text)).unwrap();
            current_of(&read)
        };
        assert_eq!(one("current-context: here"), "here");
        assert_eq!(one(""), "has no current context");
        let told = "has no context \"gone\", which it says is the current one";
        assert_eq!(one("current-context: gone"), told);
    }

    #[test]
    fn what_is_absent_empty_or_no_kubeconfig_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let shown = |name: &str| folder.path().join(name).display().to_string();
        assert!(
            told(&folder.path().join("a"))
                .starts_with(&format!("cannot read kubeconfig {}: ", shown("a")))
        );
        let both = PathBuf::from(format!("{}:{}", shown("a"), shown("b")));
        let none = format!("cannot read kubeconfig {}: none of these files", both.display());
        assert!(told(&both).starts_with(&none), "{}", told(&both));
        for (text, what) in [
            ("", "is empty"),
            ("# nothing\n", "is empty"),
            ("apiVersion: v1\nkind: Config\n", "is empty"),
            ("clusters: [{name: c, cluster: {server: s}}]\n", "has no context"),
        ] {
            let path = written(folder.path(), "kubeconfig", text);
            let words = format!("kubeconfig {} {what}: allowed is", path.display());
            assert!(told(&path).starts_with(&words), "{text}: {}", told(&path));
        }
        let broken = written(folder.path(), "broken", "contexts: 5\n");
        let words = format!("cannot read kubeconfig {}: ", broken.display());
        assert!(told(&broken).starts_with(&words), "{}", told(&broken));
    }
}
