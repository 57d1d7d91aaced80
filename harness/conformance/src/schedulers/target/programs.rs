//! The programs of a target: how each is started, when it counts as up, and what must exist on the
//! cluster before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use schedlab_api::{Value, json};
use schedlab_clusters::external_tools::check_command_starts_with_program;
use serde::Deserialize;

use super::{PLACEHOLDERS, check_placeholders};

/// The folder below the user's cache into which `make targets` builds schedulers.
const TARGETS_FOLDER: &str = "schedlab/targets";

/// Names another folder than the cache's for built targets.
const TARGETS_FOLDER_ENV: &str = "SCHEDLAB_TARGETS";

/// One program of a target. A scheduler may consist of several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetProgram {
    /// The name of the program in messages and of its log file.
    pub name: String,
    /// The shell command that starts the program, with placeholders.
    pub command: String,
    /// When the program counts as up; without it, as soon as it runs.
    #[serde(default)]
    pub(crate) ready: Option<Readiness>,
    /// The programs that must be up before this one is started.
    #[serde(default)]
    pub(crate) after: Vec<String>,
    /// Whether the program gets a network namespace of its own, because it listens on a fixed port
    /// that programs of other scenarios use, too.
    #[serde(default)]
    pub(crate) own_network: bool,
}

impl TargetProgram {
    /// The only program of a target that consists of one command.
    pub(super) fn of_command(name: &str, command: &str) -> Self {
        let (name, command) = (name.to_owned(), command.to_owned());
        Self { name, command, ready: None, after: Vec::new(), own_network: false }
    }
}

/// How a program shows that it is up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Readiness {
    /// `ADDRESS:PORT/PATH` answers an HTTP GET with status 200.
    Http(String),
    /// The program's log contains this text.
    Log(String),
    /// The API server has an object at this path.
    Object(String),
}

/// What must exist on the cluster before the programs of a target start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prerequisites {
    /// Files and folders with CRDs, relative to the folder of the built target.
    #[serde(default)]
    pub(crate) crds: Vec<PathBuf>,
    /// Values of priority classes, by name.
    #[serde(default)]
    pub(crate) priority_classes: BTreeMap<String, i32>,
    /// Namespaces that each scenario gets.
    #[serde(default)]
    pub(crate) namespaces: Vec<String>,
    /// Objects that each scenario gets, such as ConfigMaps: YAML with placeholders.
    #[serde(default)]
    pub(crate) manifests: String,
}

impl Prerequisites {
    /// The CRDs of the target, read from files below `folder`.
    ///
    /// # Errors
    /// A file cannot be read or is not YAML.
    pub(crate) fn read_crds(&self, folder: &Path) -> anyhow::Result<Vec<Value>> {
        let mut definitions = Vec::new();
        for path in &self.crds {
            for file in yaml_files(&folder.join(path))? {
                let text = std::fs::read_to_string(&file)
                    .with_context(|| format!("cannot read {}", file.display()))?;
                definitions
                    .extend(parse_documents(&text).with_context(|| format!("{}", file.display()))?);
            }
        }
        definitions.retain(|object| object["kind"] == "CustomResourceDefinition");
        Ok(definitions)
    }

    /// The priority classes of the target.
    pub(crate) fn priority_class_objects(&self) -> Vec<Value> {
        let class = |(name, value): (&String, &i32)| {
            json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value,
            })
        };
        self.priority_classes.iter().map(class).collect()
    }

    /// The objects that each scenario gets, namespaces first; `fill` replaces placeholders.
    ///
    /// # Errors
    /// The manifests are not YAML.
    pub(crate) fn scenario_objects(
        &self,
        fill: impl Fn(&str) -> String,
    ) -> anyhow::Result<Vec<Value>> {
        let namespace = |name: &String| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let mut objects: Vec<Value> = self.namespaces.iter().map(namespace).collect();
        objects.extend(parse_documents(&fill(&self.manifests)).context("manifests")?);
        Ok(objects)
    }
}

/// The folder of a built target: `PATH` itself if it is absolute, else below the folder of all
/// built targets.
pub(super) fn target_folder(path: &Path) -> PathBuf {
    let not_empty = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let in_cache = || {
        let home = || PathBuf::from(not_empty("HOME").unwrap_or_default()).join(".cache");
        not_empty("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join(TARGETS_FOLDER)
    };
    not_empty(TARGETS_FOLDER_ENV).map_or_else(in_cache, PathBuf::from).join(path)
}

/// Checks that the programs of a target file can be started: names are unique, commands are
/// commands, and `after` names other programs without a cycle.
///
/// # Errors
/// The message names the field, what it got and what is expected.
pub(super) fn check_programs(location: &str, programs: &[TargetProgram]) -> anyhow::Result<()> {
    for (index, program) in programs.iter().enumerate() {
        let field = format!("{location}: programs[{index}]");
        let name = &program.name;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        anyhow::ensure!(
            !name.is_empty() && name.chars().all(is_plain),
            "{field}.name: got {name:?}, expected letters, digits and -"
        );
        let earlier = &programs[..index];
        anyhow::ensure!(
            earlier.iter().all(|other| other.name != *name),
            "{field}.name: got {name:?} twice, expected unique names"
        );
        check_command_starts_with_program(&program.command)
            .and_then(|()| check_placeholders(&program.command, &PLACEHOLDERS))
            .map_err(|problem| anyhow!("{field}.command: {problem}"))?;
        for needed in &program.after {
            anyhow::ensure!(
                earlier.iter().any(|other| other.name == *needed),
                "{field}.after: got {needed:?}, expected the name of an earlier program"
            );
        }
    }
    Ok(())
}

/// The YAML files at a path: itself, or those in the folder, sorted by name.
fn yaml_files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries =
        std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let is_yaml = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
    };
    let mut files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_yaml).collect();
    files.sort();
    Ok(files)
}

/// The objects of a text with several YAML documents.
fn parse_documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents = serde_yaml::Deserializer::from_str(text).map(Value::deserialize);
    let objects: Result<Vec<Value>, _> = documents.collect();
    Ok(objects?.into_iter().filter(|object| !object.is_null()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(text: &str) -> anyhow::Result<()> {
        check_programs("t.yaml", &serde_yaml::from_str::<Vec<TargetProgram>>(text)?)
    }

    #[test]
    fn programs_are_validated() {
        let message = |text: &str| programs(text).unwrap_err().to_string();
        let good = "- {name: a, command: 'a --port {port:a}'}\n- {name: b, command: b, after: [a]}";
        assert!(programs(good).is_ok());
        assert_eq!(
            message("- {name: a, command: a}\n- {name: a, command: b}"),
            "t.yaml: programs[1].name: got \"a\" twice, expected unique names"
        );
        assert_eq!(
            message("- {name: a, command: a, after: [b]}\n- {name: b, command: b}"),
            "t.yaml: programs[0].after: got \"b\", expected the name of an earlier program"
        );
        assert!(message("- {name: a, command: 'a {kubecfg}'}").contains("got {kubecfg}"));
        assert!(message("- {name: a, command: 'a {prot:a}'}").contains("got {prot:a}"));
        assert!(message("- {name: ../a, command: a}").contains("expected letters, digits and -"));
    }

    #[test]
    fn crds_are_read_from_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let crds = folder.path().join("crds");
        std::fs::create_dir(&crds).unwrap();
        let text = "kind: CustomResourceDefinition\nmetadata: {name: b}\n---\nkind: Other\n";
        std::fs::write(crds.join("b.yaml"), text).unwrap();
        std::fs::write(crds.join("README"), "no YAML: [").unwrap();
        let needs = Prerequisites { crds: vec!["crds".into()], ..Prerequisites::default() };
        let found = needs.read_crds(folder.path()).unwrap();
        assert_eq!(found, [json!({"kind": "CustomResourceDefinition", "metadata": {"name": "b"}})]);
        let absent = Prerequisites { crds: vec!["none".into()], ..Prerequisites::default() };
        let error = absent.read_crds(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read ") && error.ends_with("none"), "{error}");
    }
}
