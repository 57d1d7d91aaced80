//! Commands of a solution: the few verbs of kubectl that lessons use, so that a solution can be
//! played without kubectl, and learners without kubectl can work too.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use schedlab_api::{Value, json};
use schedlab_clusters::api::{Api, ApplyOutcome, object_title};
use schedlab_conformance::text::{nearest_word, parse_duration};
use schedlab_conformance::world::manifest_objects;

/// A command that changes the cluster, or lets time pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabCommand {
    /// `kubectl apply -f FILE…`
    Apply {
        /// The files, in order.
        files: Vec<String>,
    },
    /// `kubectl delete KIND NAME…`
    Delete {
        /// The objects, in order.
        objects: Vec<NamedObject>,
    },
    /// `kubectl scale KIND NAME --replicas=N`
    Scale {
        /// The object.
        object: NamedObject,
        /// The new number of replicas.
        replicas: u32,
    },
    /// `kubectl patch KIND NAME --type=merge -p JSON`
    Patch {
        /// The object.
        object: NamedObject,
        /// The merge patch, as JSON.
        patch: String,
    },
    /// `kubectl cordon NODE` and `kubectl uncordon NODE`
    Cordon {
        /// The node.
        node: String,
        /// Whether the node is cordoned, and not uncordoned.
        is_cordoned: bool,
    },
    /// `schedlab lab wait TIME`
    Wait(Duration),
    /// A command that only shows something.
    Show,
}

/// The kind and name of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedObject {
    kind: &'static ObjectKind,
    name: String,
    /// The namespace that the command names.
    namespace: Option<String>,
}

/// A kind of object that commands can name.
#[derive(Debug, PartialEq, Eq)]
struct ObjectKind {
    names: &'static [&'static str],
    group_path: &'static str,
    plural: &'static str,
    is_namespaced: bool,
}

const KINDS: &[ObjectKind] = &[
    ObjectKind::namespaced(&["pod", "pods", "po"], "/api/v1", "pods"),
    ObjectKind::namespaced(
        &["deployment", "deployments", "deploy"],
        "/apis/apps/v1",
        "deployments",
    ),
    ObjectKind::namespaced(&["replicaset", "replicasets", "rs"], "/apis/apps/v1", "replicasets"),
    ObjectKind::namespaced(&["job", "jobs"], "/apis/batch/v1", "jobs"),
    ObjectKind::namespaced(
        &["trainjob", "trainjobs"],
        "/apis/trainer.kubeflow.org/v1alpha1",
        "trainjobs",
    ),
    ObjectKind::namespaced(
        &["podgroup", "podgroups"],
        "/apis/scheduling.run.ai/v2alpha2",
        "podgroups",
    ),
    ObjectKind::namespaced(&["event", "events", "ev"], "/api/v1", "events"),
    ObjectKind::of_cluster(&["node", "nodes", "no"], "/api/v1", "nodes"),
    ObjectKind::of_cluster(&["queue", "queues"], "/apis/scheduling.run.ai/v2", "queues"),
    ObjectKind::of_cluster(
        &["priorityclass", "priorityclasses", "pc"],
        "/apis/scheduling.k8s.io/v1",
        "priorityclasses",
    ),
];

impl ObjectKind {
    const fn namespaced(
        names: &'static [&'static str],
        group_path: &'static str,
        plural: &'static str,
    ) -> Self {
        Self { names, group_path, plural, is_namespaced: true }
    }

    const fn of_cluster(
        names: &'static [&'static str],
        group_path: &'static str,
        plural: &'static str,
    ) -> Self {
        Self { names, group_path, plural, is_namespaced: false }
    }

    /// The path of the collection.
    fn path(&self, namespace: &str) -> String {
        let Self { group_path, plural, .. } = self;
        if self.is_namespaced {
            format!("{group_path}/namespaces/{namespace}/{plural}")
        } else {
            format!("{group_path}/{plural}")
        }
    }
}

fn find_kind(word: &str) -> Result<&'static ObjectKind, String> {
    let of_group = word.split('.').next().unwrap_or_default().to_lowercase();
    let found = KINDS.iter().find(|kind| kind.names.contains(&of_group.as_str()));
    found.ok_or_else(|| {
        let all: Vec<&str> = KINDS.iter().filter_map(|kind| kind.names.first().copied()).collect();
        let near = nearest_word(&of_group, all.iter().copied());
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("got kind {word}, expected one of {}{near}", all.join(", "))
    })
}

/// Splits a command line into words as a shell does.
///
/// # Errors
/// A quote is not closed.
pub fn split_words(line: &str) -> Result<Vec<String>, String> {
    shlex::split(line).ok_or_else(|| format!("a quote is not closed in: {}", line.trim()))
}

/// Parses the lines of a script. Empty lines and comments are left out; a line that ends with `\`
/// goes on in the next one. Each command comes with the number of its line within the script.
///
/// # Errors
/// A line is none of the commands; the message has the number of the line within the script.
pub fn parse_script(text: &str) -> Result<Vec<LabCommand>, (usize, String)> {
    let mut commands = Vec::new();
    let (mut open, mut first) = (String::new(), 0);
    for (index, line) in text.lines().enumerate() {
        if open.is_empty() {
            first = index;
        }
        if let Some(part) = line.trim_end().strip_suffix('\\') {
            open.push_str(part);
            continue;
        }
        open.push_str(line);
        let whole = std::mem::take(&mut open);
        let whole = whole.trim();
        if whole.is_empty() || whole.starts_with('#') {
            continue;
        }
        let words = split_words(whole).map_err(|message| (first, message))?;
        commands.push(parse_command(&words).map_err(|message| (first, message))?);
    }
    Ok(commands)
}

/// Parses a command.
///
/// # Errors
/// The words are none of the commands.
pub fn parse_command(words: &[String]) -> Result<LabCommand, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["schedlab", "lab", "wait", time] => Ok(LabCommand::Wait(parse_duration(time)?)),
        ["schedlab", "lab", "verify" | "quiz" | "hint"] | ["schedlab", "scheduler", ..] => {
            Ok(LabCommand::Show)
        }
        ["kubectl", rest @ ..] => parse_kubectl(rest),
        _ => Err(format!(
            "got {}, expected `kubectl …` or `schedlab lab wait TIME`",
            words.join(" ")
        )),
    }
}

/// Options and other words of a kubectl command.
struct Options<'w> {
    words: Vec<&'w str>,
    options: Vec<(&'w str, &'w str)>,
}

/// Options of kubectl that have a value and lessons use.
const VALUE_OPTIONS: [&str; 9] =
    ["-f", "--filename", "-n", "--namespace", "--replicas", "--type", "-p", "--patch", "-o"];

impl<'w> Options<'w> {
    fn parse(words: &[&'w str]) -> Result<Self, String> {
        let mut found = Self { words: Vec::new(), options: Vec::new() };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if !word.starts_with('-') || *word == "-" {
                found.words.push(word);
            } else if let Some((key, value)) = word.split_once('=') {
                found.options.push((key, value));
            } else if VALUE_OPTIONS.contains(word) {
                let value = rest.next().ok_or_else(|| format!("{word} needs a value"))?;
                found.options.push((word, value));
            } else {
                found.options.push((word, ""));
            }
        }
        Ok(found)
    }

    fn values(&self, names: &[&str]) -> Vec<&'w str> {
        let named = self.options.iter().filter(|(key, _)| names.contains(key));
        named.map(|(_, value)| *value).collect()
    }

    fn objects(&self) -> Result<Vec<NamedObject>, String> {
        let namespace = self.values(&["-n", "--namespace"]).last().map(|name| (*name).to_owned());
        let named = |kind: &str, name: &str| {
            let (kind, name) = (find_kind(kind)?, name.to_owned());
            Ok(NamedObject { kind, name, namespace: namespace.clone() })
        };
        match self.words.as_slice() {
            [] => Err("got no object, expected KIND NAME".to_owned()),
            words if words.iter().all(|word| word.contains('/')) => {
                let parts = words.iter().filter_map(|word| word.split_once('/'));
                parts.map(|(kind, name)| named(kind, name)).collect()
            }
            [kind] => Err(format!("got {kind} without a name, expected KIND NAME")),
            [kind, names @ ..] => names.iter().map(|name| named(kind, name)).collect(),
        }
    }

    fn object(&self) -> Result<NamedObject, String> {
        let mut objects = self.objects()?;
        match (objects.pop(), objects.len()) {
            (Some(object), 0) => Ok(object),
            _ => Err(format!("got {}, expected one object", self.words.join(" "))),
        }
    }
}

fn parse_kubectl(words: &[&str]) -> Result<LabCommand, String> {
    let Some((verb, rest)) = words.split_first() else {
        return Err("got kubectl without a verb".to_owned());
    };
    let options = Options::parse(rest)?;
    match *verb {
        "apply" | "create" => {
            let files = options.values(&["-f", "--filename"]);
            if files.is_empty() {
                return Err(format!("kubectl {verb}: got no file, expected -f FILE"));
            }
            let files = files.into_iter().map(str::to_owned).collect();
            Ok(LabCommand::Apply { files })
        }
        "delete" => Ok(LabCommand::Delete { objects: options.objects()? }),
        "scale" => {
            let replicas = options.values(&["--replicas"]);
            let replicas = replicas.last().copied().unwrap_or_default();
            let replicas = replicas
                .parse()
                .map_err(|_| format!("--replicas: got {replicas:?}, expected a whole number"))?;
            Ok(LabCommand::Scale { object: options.object()?, replicas })
        }
        "patch" => {
            let patch = options.values(&["-p", "--patch"]);
            let patch = *patch.last().ok_or("kubectl patch: got no patch, expected -p JSON")?;
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(patch);
            parsed.map_err(|error| format!("-p: got {patch}, expected JSON: {error}"))?;
            Ok(LabCommand::Patch { object: options.object()?, patch: patch.to_owned() })
        }
        "cordon" | "uncordon" => match options.words.as_slice() {
            [node] => {
                Ok(LabCommand::Cordon { node: (*node).to_owned(), is_cordoned: *verb == "cordon" })
            }
            words => Err(format!("got {}, expected one node", words.join(" "))),
        },
        "get" | "describe" | "wait" => Ok(LabCommand::Show),
        verb => Err(format!(
            "got kubectl {verb}, expected apply, delete, scale, patch, cordon, uncordon, get, \
             describe or wait"
        )),
    }
}

/// Kinds without a namespace that manifests of lessons may contain.
const CLUSTER_SCOPED: [&str; 8] = [
    "Namespace",
    "Node",
    "Queue",
    "PriorityClass",
    "Topology",
    "ClusterTrainingRuntime",
    "CustomResourceDefinition",
    "DeviceClass",
];

/// The objects of a manifest. Objects without a namespace get `namespace`.
///
/// # Errors
/// The text is no manifest.
pub fn objects_of_manifest(file: &str, text: &str, namespace: &str) -> Result<Vec<Value>, String> {
    let mut objects = manifest_objects(file, text)?;
    for object in &mut objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        if !CLUSTER_SCOPED.contains(&kind) && object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = json!(namespace);
        }
    }
    Ok(objects)
}

/// Carries out commands on a cluster.
#[allow(missing_debug_implementations, reason = "a function has none")]
pub struct CommandRunner<'f> {
    /// The namespace of objects without one.
    pub namespace: &'f str,
    /// Reads a file that a command names.
    pub read_file: &'f dyn Fn(&str) -> anyhow::Result<String>,
}

/// Applies the objects. Returns a line for each.
async fn apply_objects(api: &mut Api, objects: &[Value]) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for object in objects {
        let done = match api.apply(object).await? {
            ApplyOutcome::Created => "created",
            ApplyOutcome::Changed(_) => "configured",
        };
        lines.push(format!("{} {done}", object_title(object)));
    }
    Ok(lines)
}

impl CommandRunner<'_> {
    /// Carries out a command. Returns what kubectl would print, a line for each object.
    ///
    /// # Errors
    /// A file cannot be read, or the API server refuses the change.
    pub async fn run(&self, api: &mut Api, command: &LabCommand) -> anyhow::Result<Vec<String>> {
        let mut lines = Vec::new();
        match command {
            LabCommand::Apply { files } => {
                for file in files {
                    let text = (self.read_file)(file)?;
                    let objects = objects_of_manifest(file, &text, self.namespace);
                    let objects = objects.map_err(|message| anyhow!(message))?;
                    lines.extend(apply_objects(api, &objects).await?);
                }
            }
            LabCommand::Delete { objects } => {
                for object in objects {
                    let done = api.delete(&self.path(object)).await;
                    done.with_context(|| object.to_string())?;
                    lines.push(format!("{object} deleted"));
                }
            }
            LabCommand::Scale { object, replicas } => {
                let field = if object.kind.plural == "jobs" { "parallelism" } else { "replicas" };
                let change = json!({ "spec": { field: replicas } });
                self.patch(api, object, &change, "scaled", &mut lines).await?;
            }
            LabCommand::Patch { object, patch } => {
                let change: Value = serde_json::from_str(patch)?;
                self.patch(api, object, &change, "patched", &mut lines).await?;
            }
            LabCommand::Cordon { node, is_cordoned } => {
                let object = NamedObject {
                    kind: find_kind("node").map_err(|message| anyhow!(message))?,
                    name: node.clone(),
                    namespace: None,
                };
                let change = json!({ "spec": { "unschedulable": is_cordoned } });
                let done = if *is_cordoned { "cordoned" } else { "uncordoned" };
                self.patch(api, &object, &change, done, &mut lines).await?;
            }
            LabCommand::Wait(_) => bail!("time cannot be changed from here"),
            LabCommand::Show => {}
        }
        Ok(lines)
    }

    async fn patch(
        &self,
        api: &Api,
        object: &NamedObject,
        change: &Value,
        done: &str,
        lines: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let patched = api.merge_patch(&self.path(object), change).await;
        patched.with_context(|| object.to_string())?;
        lines.push(format!("{object} {done}"));
        Ok(())
    }

    fn path(&self, object: &NamedObject) -> String {
        let namespace = object.namespace.as_deref().unwrap_or(self.namespace);
        format!("{}/{}", object.kind.path(namespace), object.name)
    }
}

impl std::fmt::Display for NamedObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.kind.names.first().unwrap_or(&""), self.name)
    }
}

/// The path of the collection of a kind, such as `pods` or `queue`.
///
/// # Errors
/// Lessons do not use the kind.
pub fn collection_path(kind: &str, namespace: &str) -> Result<String, String> {
    Ok(find_kind(kind)?.path(namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(text: &str) -> String {
        match parse_script(text) {
            Ok(commands) => {
                let lines = commands.iter().map(|command| format!("{command:?}"));
                lines.collect::<Vec<_>>().join("\n")
            }
            Err((line, message)) => format!("line {line}: {message}"),
        }
    }

    #[test]
    fn the_commands_of_a_solution_are_read() {
        let script = "# comment\nkubectl apply -f a.yaml -f b.yaml\n\nkubectl patch queue q \\\n  \
                      --type=merge -p '{\"spec\": {\"priority\": 1}}'\nkubectl scale deploy/x --replicas=3\n\
                      kubectl cordon node-1\nschedlab lab wait 10m\n";
        let parsed = parse_script(script).unwrap();
        assert_eq!(parsed.len(), 5);
        assert_eq!(parsed[0], LabCommand::Apply { files: vec!["a.yaml".into(), "b.yaml".into()] });
        assert_eq!(parsed[4], LabCommand::Wait(Duration::from_mins(10)));
        let LabCommand::Patch { object, patch } = &parsed[1] else { panic!("{parsed:?}") };
        assert_eq!(
            (object.to_string().as_str(), &**patch),
            ("queue/q", "{\"spec\": {\"priority\": 1}}")
        );
        assert_eq!(object.kind.path("lab"), "/apis/scheduling.run.ai/v2/queues");
    }

    #[test]
    fn a_command_that_no_lesson_can_run_is_reported() {
        insta::assert_snapshot!(commands("kubectl apply -f a.yaml\nhelm install x"), @"line 1: got helm install x, expected `kubectl …` or `schedlab lab wait TIME`");
        insta::assert_snapshot!(commands("kubectl drain node-1"), @"line 0: got kubectl drain, expected apply, delete, scale, patch, cordon, uncordon, get, describe or wait");
        insta::assert_snapshot!(commands("kubectl delete deploymnt x"), @"line 0: got kind deploymnt, expected one of pod, deployment, replicaset, job, trainjob, podgroup, event, node, queue, priorityclass; did you mean deployment?");
        insta::assert_snapshot!(commands("kubectl patch queue q -p '{'"), @"line 0: -p: got {, expected JSON: EOF while parsing an object at line 1 column 1");
        insta::assert_snapshot!(commands("kubectl scale deploy x"), @r#"line 0: --replicas: got "", expected a whole number"#);
    }
}
