//! Finds and removes docker's objects by label and name, through its command line.

use super::DOCKER_LABEL;
use crate::external_tools::{DockerEndpoint, ExternalTool, ToolError};

/// The label with which kind marks the containers of a cluster.
const KIND_CLUSTER_LABEL: &str = "io.x-k8s.kind.cluster";

/// A kind of docker resource, and the docker commands that list and remove such resources.
#[derive(Clone, Copy, Debug)]
struct DockerResourceKind {
    name: &'static str,
    list: &'static [&'static str],
    remove: &'static [&'static str],
}

const CONTAINER_KIND: DockerResourceKind =
    DockerResourceKind { name: "container", list: &["ps", "-aq"], remove: &["rm", "-f", "-v"] };

/// All kinds of docker resources that a run may create, in the order of removal.
const DOCKER_RESOURCE_KINDS: [DockerResourceKind; 4] = [
    CONTAINER_KIND,
    DockerResourceKind {
        name: "network",
        list: &["network", "ls", "-q"],
        remove: &["network", "rm"],
    },
    DockerResourceKind { name: "volume", list: &["volume", "ls", "-q"], remove: &["volume", "rm"] },
    DockerResourceKind { name: "image", list: &["images", "-q"], remove: &["rmi", "-f"] },
];

/// Docker's command line, used with the daemon of a run. `None` is the daemon that our environment
/// selects.
#[derive(Clone, Copy, Debug)]
pub(super) struct DockerClient<'r>(pub(super) Option<&'r DockerEndpoint>);

impl DockerClient<'_> {
    /// All docker resources of a run, for example `container 0123…`.
    pub(super) fn resources_of_run(self, id: &str) -> Result<Vec<String>, ToolError> {
        let mut found = Vec::new();
        for sort in DOCKER_RESOURCE_KINDS {
            let ids = self.list_with_label(sort, &format!("{DOCKER_LABEL}={id}"))?;
            found.extend(ids.iter().map(|id| format!("{} {id}", sort.name)));
        }
        Ok(found)
    }

    /// Removes all docker resources of a run.
    pub(super) fn remove_resources_of_run(self, id: &str) -> Result<(), ToolError> {
        for sort in DOCKER_RESOURCE_KINDS {
            self.remove_by_id(sort, &self.list_with_label(sort, &format!("{DOCKER_LABEL}={id}"))?)?;
        }
        Ok(())
    }

    /// Ids of the runs that have containers.
    pub(super) fn run_ids_of_containers(self) -> Result<Vec<String>, ToolError> {
        self.distinct_label_values(DOCKER_LABEL)
    }

    /// Names of the kind clusters that have containers.
    pub(super) fn kind_clusters_with_containers(self) -> Result<Vec<String>, ToolError> {
        self.distinct_label_values(KIND_CLUSTER_LABEL)
    }

    /// The distinct values of a label on containers.
    fn distinct_label_values(self, label: &str) -> Result<Vec<String>, ToolError> {
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
        self.list_with_label(CONTAINER_KIND, &format!("{KIND_CLUSTER_LABEL}={name}"))
    }

    /// Removes the containers of a kind cluster, as `kind delete cluster` does.
    pub(super) fn remove_kind_cluster(self, name: &str) -> Result<(), ToolError> {
        self.remove_by_id(CONTAINER_KIND, &self.containers_of_kind_cluster(name)?)
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

    /// Removes the image with this name and tag.
    pub(super) fn remove_image(self, reference: &str) -> Result<(), ToolError> {
        self.run(&["rmi", "-f", reference]).map(drop)
    }

    fn list_with_label(
        self,
        resource_kind: DockerResourceKind,
        label: &str,
    ) -> Result<Vec<String>, ToolError> {
        let filter = format!("label={label}");
        let out = self.run(&[resource_kind.list, &["--filter", &filter]].concat())?;
        Ok(out.lines().map(str::to_owned).collect())
    }

    fn remove_by_id(
        self,
        resource_kind: DockerResourceKind,
        ids: &[String],
    ) -> Result<(), ToolError> {
        if ids.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        self.run(&[resource_kind.remove, &ids].concat()).map(drop)
    }

    fn run(self, args: &[&str]) -> Result<String, ToolError> {
        ExternalTool::Docker.run_with_daemon(self.0, args)
    }
}
