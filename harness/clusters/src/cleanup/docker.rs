//! Finds and removes docker's objects by label and name, through its command line.

use super::DOCKER_LABEL;
use crate::external_tools::{DockerEndpoint, ExternalTool, ToolError};

/// Label with which kind marks the containers of a cluster.
const KIND_LABEL: &str = "io.x-k8s.kind.cluster";

/// A kind of docker resource, and the docker commands that list and remove such resources.
#[derive(Clone, Copy, Debug)]
struct DockerKind {
    name: &'static str,
    list: &'static [&'static str],
    remove: &'static [&'static str],
}

const CONTAINERS: DockerKind =
    DockerKind { name: "container", list: &["ps", "-aq"], remove: &["rm", "-f", "-v"] };

/// In the order of removal.
const DOCKER_KINDS: [DockerKind; 4] = [
    CONTAINERS,
    DockerKind { name: "network", list: &["network", "ls", "-q"], remove: &["network", "rm"] },
    DockerKind { name: "volume", list: &["volume", "ls", "-q"], remove: &["volume", "rm"] },
    DockerKind { name: "image", list: &["images", "-q"], remove: &["rmi", "-f"] },
];

/// Docker's command line, used with the daemon of a run. `None` is the daemon that our environment
/// selects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Docker<'r>(pub(super) Option<&'r DockerEndpoint>);

impl Docker<'_> {
    /// All objects of a run, for example `container 0123…`.
    pub(super) fn list_of_run(self, id: &str) -> Result<Vec<String>, ToolError> {
        let mut found = Vec::new();
        for sort in DOCKER_KINDS {
            let ids = self.list(sort, &format!("{DOCKER_LABEL}={id}"))?;
            found.extend(ids.iter().map(|id| format!("{} {id}", sort.name)));
        }
        Ok(found)
    }

    /// Removes all objects of a run.
    pub(super) fn remove_run(self, id: &str) -> Result<(), ToolError> {
        for sort in DOCKER_KINDS {
            self.remove(sort, &self.list(sort, &format!("{DOCKER_LABEL}={id}"))?)?;
        }
        Ok(())
    }

    /// Ids of the runs that have containers.
    pub(super) fn run_ids(self) -> Result<Vec<String>, ToolError> {
        self.label_values(DOCKER_LABEL)
    }

    /// Names of the kind clusters that have containers.
    pub(super) fn kind_cluster_names(self) -> Result<Vec<String>, ToolError> {
        self.label_values(KIND_LABEL)
    }

    /// The distinct values of a label on containers.
    fn label_values(self, label: &str) -> Result<Vec<String>, ToolError> {
        let format = format!("{{{{.Label \"{label}\"}}}}");
        let filter = format!("label={label}");
        let out = self.run(&["ps", "-a", "--filter", &filter, "--format", &format])?;
        let mut ids: Vec<String> = out.lines().map(str::to_owned).collect();
        ids.sort();
        ids.dedup();
        Ok(ids)
    }

    /// Ids of the containers of a kind cluster.
    pub(super) fn containers_of_kind_cluster(self, name: &str) -> Result<Vec<String>, ToolError> {
        self.list(CONTAINERS, &format!("{KIND_LABEL}={name}"))
    }

    /// Removes the containers of a kind cluster, as `kind delete cluster` does.
    pub(super) fn remove_kind_cluster(self, name: &str) -> Result<(), ToolError> {
        self.remove(CONTAINERS, &self.containers_of_kind_cluster(name)?)
    }

    /// Whether a network of this name exists.
    pub(super) fn has_network(self, name: &str) -> Result<bool, ToolError> {
        let filter = format!("name=^{name}$");
        Ok(!self.run(&["network", "ls", "-q", "--filter", &filter])?.trim().is_empty())
    }

    /// Removes a network unless it is in use.
    pub(super) fn remove_network(self, name: &str) -> Result<(), ToolError> {
        match self.run(&["network", "rm", name]) {
            Err(error) if !error.output.contains("active endpoints") => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether an image of this name exists.
    pub(super) fn has_image(self, reference: &str) -> Result<bool, ToolError> {
        Ok(!self.run(&["images", "-q", reference])?.trim().is_empty())
    }

    /// Removes an image.
    pub(super) fn remove_image(self, reference: &str) -> Result<(), ToolError> {
        self.run(&["rmi", "-f", reference]).map(drop)
    }

    fn list(self, sort: DockerKind, label: &str) -> Result<Vec<String>, ToolError> {
        let filter = format!("label={label}");
        let out = self.run(&[sort.list, &["--filter", &filter]].concat())?;
        Ok(out.lines().map(str::to_owned).collect())
    }

    fn remove(self, sort: DockerKind, ids: &[String]) -> Result<(), ToolError> {
        if ids.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        self.run(&[sort.remove, &ids].concat()).map(drop)
    }

    fn run(self, args: &[&str]) -> Result<String, ToolError> {
        ExternalTool::Docker.run_with_daemon(self.0, args)
    }
}
