//! Docker's things by label and name, through its command line.

use super::DOCKER_LABEL;
use crate::tools::{Endpoint, Tool, ToolError};

/// Label that kind gives the containers of a cluster.
const KIND_LABEL: &str = "io.x-k8s.kind.cluster";

/// A sort of thing that docker keeps.
#[derive(Clone, Copy, Debug)]
struct Sort {
    name: &'static str,
    list: &'static [&'static str],
    remove: &'static [&'static str],
}

const CONTAINERS: Sort =
    Sort { name: "container", list: &["ps", "-aq"], remove: &["rm", "-f", "-v"] };

/// In the order in which they can be removed.
const SORTS: [Sort; 4] = [
    CONTAINERS,
    Sort { name: "network", list: &["network", "ls", "-q"], remove: &["network", "rm"] },
    Sort { name: "volume", list: &["volume", "ls", "-q"], remove: &["volume", "rm"] },
    Sort { name: "image", list: &["images", "-q"], remove: &["rmi", "-f"] },
];

/// Docker with the daemon of a run, or where that was not noted with that of our environment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Docker<'r>(pub(super) Option<&'r Endpoint>);

impl Docker<'_> {
    /// What it has of a run, as `container 0123…`.
    pub(super) fn of_run(self, id: &str) -> Result<Vec<String>, ToolError> {
        let mut found = Vec::new();
        for sort in SORTS {
            let ids = self.list(sort, &format!("{DOCKER_LABEL}={id}"))?;
            found.extend(ids.iter().map(|id| format!("{} {id}", sort.name)));
        }
        Ok(found)
    }

    /// Removes what it has of a run.
    pub(super) fn remove_run(self, id: &str) -> Result<(), ToolError> {
        for sort in SORTS {
            self.remove(sort, &self.list(sort, &format!("{DOCKER_LABEL}={id}"))?)?;
        }
        Ok(())
    }

    /// Ids of the runs of which it has containers.
    pub(super) fn runs(self) -> Result<Vec<String>, ToolError> {
        self.values(DOCKER_LABEL)
    }

    /// Names of the kind clusters of which it has containers.
    pub(super) fn clusters(self) -> Result<Vec<String>, ToolError> {
        self.values(KIND_LABEL)
    }

    /// What containers have under a label, each once.
    fn values(self, label: &str) -> Result<Vec<String>, ToolError> {
        let format = format!("{{{{.Label \"{label}\"}}}}");
        let filter = format!("label={label}");
        let out = self.run(&["ps", "-a", "--filter", &filter, "--format", &format])?;
        let mut ids: Vec<String> = out.lines().map(str::to_owned).collect();
        ids.sort();
        ids.dedup();
        Ok(ids)
    }

    /// Containers of a kind cluster.
    pub(super) fn of_cluster(self, name: &str) -> Result<Vec<String>, ToolError> {
        self.list(CONTAINERS, &format!("{KIND_LABEL}={name}"))
    }

    /// Removes a kind cluster's containers, which is all that kind itself does.
    pub(super) fn remove_cluster(self, name: &str) -> Result<(), ToolError> {
        self.remove(CONTAINERS, &self.of_cluster(name)?)
    }

    /// Whether there is a network of that name.
    pub(super) fn has_network(self, name: &str) -> Result<bool, ToolError> {
        let filter = format!("name=^{name}$");
        Ok(!self.run(&["network", "ls", "-q", "--filter", &filter])?.trim().is_empty())
    }

    /// Removes a network, unless somebody uses it.
    pub(super) fn remove_network(self, name: &str) -> Result<(), ToolError> {
        match self.run(&["network", "rm", name]) {
            Err(error) if !error.said.contains("active endpoints") => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether there is an image of that name.
    pub(super) fn has_image(self, reference: &str) -> Result<bool, ToolError> {
        Ok(!self.run(&["images", "-q", reference])?.trim().is_empty())
    }

    /// Removes an image.
    pub(super) fn remove_image(self, reference: &str) -> Result<(), ToolError> {
        self.run(&["rmi", "-f", reference]).map(drop)
    }

    fn list(self, sort: Sort, label: &str) -> Result<Vec<String>, ToolError> {
        let filter = format!("label={label}");
        let out = self.run(&[sort.list, &["--filter", &filter]].concat())?;
        Ok(out.lines().map(str::to_owned).collect())
    }

    fn remove(self, sort: Sort, ids: &[String]) -> Result<(), ToolError> {
        if ids.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        self.run(&[sort.remove, &ids].concat()).map(drop)
    }

    fn run(self, args: &[&str]) -> Result<String, ToolError> {
        Tool::Docker.run_at(self.0, args)
    }
}
