//! Docker's things by label and name, through its command line.

use super::DOCKER_LABEL;
use crate::tools::{Tool, ToolError};

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

/// What docker has of a run, as `container 0123…`.
pub(super) fn of_run(id: &str) -> Result<Vec<String>, ToolError> {
    let mut found = Vec::new();
    for sort in SORTS {
        let ids = list(sort, &format!("{DOCKER_LABEL}={id}"))?;
        found.extend(ids.iter().map(|id| format!("{} {id}", sort.name)));
    }
    Ok(found)
}

/// Removes what docker has of a run.
pub(super) fn remove_run(id: &str) -> Result<(), ToolError> {
    for sort in SORTS {
        remove(sort, &list(sort, &format!("{DOCKER_LABEL}={id}"))?)?;
    }
    Ok(())
}

/// Ids of the runs of which docker has containers.
pub(super) fn runs() -> Result<Vec<String>, ToolError> {
    values(DOCKER_LABEL)
}

/// Names of the kind clusters of which docker has containers.
pub(super) fn clusters() -> Result<Vec<String>, ToolError> {
    values(KIND_LABEL)
}

/// What containers have under a label, each once.
fn values(label: &str) -> Result<Vec<String>, ToolError> {
    let format = format!("{{{{.Label \"{label}\"}}}}");
    let filter = format!("label={label}");
    let out = Tool::Docker.run(&["ps", "-a", "--filter", &filter, "--format", &format])?;
    let mut ids: Vec<String> = out.lines().map(str::to_owned).collect();
    ids.sort();
    ids.dedup();
    Ok(ids)
}

/// Containers of a kind cluster.
pub(super) fn of_cluster(name: &str) -> Result<Vec<String>, ToolError> {
    list(CONTAINERS, &format!("{KIND_LABEL}={name}"))
}

/// Removes a kind cluster's containers, which is all that kind itself does.
pub(super) fn remove_cluster(name: &str) -> Result<(), ToolError> {
    remove(CONTAINERS, &of_cluster(name)?)
}

/// Whether there is a network of that name.
pub(super) fn has_network(name: &str) -> Result<bool, ToolError> {
    let filter = format!("name=^{name}$");
    Ok(!Tool::Docker.run(&["network", "ls", "-q", "--filter", &filter])?.trim().is_empty())
}

/// Removes a network, unless somebody uses it.
pub(super) fn remove_network(name: &str) -> Result<(), ToolError> {
    match Tool::Docker.run(&["network", "rm", name]) {
        Err(error) if !error.said.contains("active endpoints") => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether there is an image of that name.
pub(super) fn has_image(reference: &str) -> Result<bool, ToolError> {
    Ok(!Tool::Docker.run(&["images", "-q", reference])?.trim().is_empty())
}

/// Removes an image.
pub(super) fn remove_image(reference: &str) -> Result<(), ToolError> {
    Tool::Docker.run(&["rmi", "-f", reference]).map(drop)
}

fn list(sort: Sort, label: &str) -> Result<Vec<String>, ToolError> {
    let filter = format!("label={label}");
    let out = Tool::Docker.run(&[sort.list, &["--filter", &filter]].concat())?;
    Ok(out.lines().map(str::to_owned).collect())
}

fn remove(sort: Sort, ids: &[String]) -> Result<(), ToolError> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    Tool::Docker.run(&[sort.remove, &ids].concat()).map(drop)
}
