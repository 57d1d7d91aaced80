//! Fleets: the nodes of a cluster, defined by a short YAML text.
//!
//! ```yaml
//! pools:
//! - name: h100                       # nodes h100-0 … h100-3
//!   count: 4                         # or `names: [dgx-a, dgx-b]`; default 1
//!   gpus: 8                          # nvidia.com/gpu of each node; default 0
//!   gpuProduct: NVIDIA-H100-80GB-HBM3
//!   gpuMemory: 80Gi                  # of one GPU
//!   cpu: 128
//!   memory: 1Ti
//!   ephemeralStorage: 1Ti
//!   pods: 110
//!   labels: {team: research}
//!   annotations: {}
//!   taints: [{key: gpu, value: "true", effect: NoSchedule}]
//!   topology:                        # label: nodes per domain, counted over the whole fleet
//!     topology.kubernetes.io/zone: 4 # zone-0, zone-1, …
//!     example.com/rack: 2            # rack-0, rack-1, …
//!   objects: slim                    # or realistic: as large as nodes of real GPU clusters
//!   kubelet: {startup: 2s, runTime: 10m, termination: 1s}
//! ```
//!
//! Nodes in plain Kubernetes YAML (`Node`, `NodeList` or `List`, several documents) are also a
//! fleet. Errors have file, line and column. A fleet is added as a whole or not at all.

mod labels;
mod manifests;
mod node;
mod node_padding;
mod pool;
mod spanned_value;
mod taint;

use std::fmt;
use std::sync::Arc;

use serde_saphyr::Location;

use crate::yaml;
use pool::Pool;
use schedlab_api::Value;
use spanned_value::FleetFile;

/// The nodes of a cluster, read from a fleet file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    nodes: Vec<Value>,
    /// The location of each node.
    locations: Vec<FleetLocation>,
}

/// A location in a fleet file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetLocation {
    /// The name of the file.
    pub file: String,
    /// The line, counted from 1; 0 stands for the whole file.
    pub line: u64,
    /// The column, counted from 1.
    pub column: u64,
    /// The YAML of a plain Kubernetes node, to locate its fields; `None` for a node of a pool.
    source: Option<NodeSource>,
}

/// The position of a node in a text of Kubernetes YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeSource {
    text: Arc<str>,
    /// The index of the YAML document, counted from 0.
    document: usize,
    /// The path of the node in the document; empty for the document itself.
    prefix: String,
}

impl FleetLocation {
    /// The location of a field of the node; the location of the node if the field cannot be
    /// located.
    #[must_use]
    pub fn location_of_field(&self, field: &str) -> Self {
        let located = self.source.as_ref().and_then(|source| {
            let NodeSource { text, document, prefix } = source;
            yaml::locate(text, *document, &format!("{prefix}{field}"))
        });
        let Some(at) = located.filter(|_| !field.is_empty()) else { return self.clone() };
        Self { line: at.line(), column: at.column(), ..self.clone() }
    }
}

impl fmt::Display for FleetLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, .. } = self;
        if *line == 0 {
            return formatter.write_str(file);
        }
        write!(formatter, "{file}:{line}:{column}")
    }
}

/// An error in a fleet file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {message}")]
pub struct FleetError {
    /// The location of the error.
    pub location: FleetLocation,
    /// The message: the field, the value and what is expected.
    pub message: String,
}

impl Fleet {
    /// Parses a fleet. `file` is the file name for errors.
    ///
    /// # Errors
    ///
    /// The text is not YAML, a field is unknown or has an invalid value, or two nodes have one
    /// name. The error has file, line and column.
    pub fn parse(file: &str, text: &str) -> Result<Self, FleetError> {
        let file = FleetFile { name: file };
        let has_content =
            |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        if !text.lines().any(has_content) {
            let message = "got nothing, expected `pools:` with one or more pools, or Nodes as \
                           Kubernetes objects";
            return Err(file.error(Location::UNKNOWN, message.to_owned()));
        }
        let mut fleet = Self::default();
        if manifests::is_kubernetes_yaml(text) {
            for (node, at) in manifests::parse_nodes(file, text)? {
                fleet.add(node, at);
            }
            return Ok(fleet);
        }
        for pool in &Pool::parse_all(file, text)? {
            for (name, at) in &pool.node_names {
                fleet.add(node::node_object(pool, name, fleet.nodes.len()), file.location(*at));
            }
        }
        Ok(fleet)
    }

    fn add(&mut self, node: Value, location: FleetLocation) {
        self.nodes.push(node);
        self.locations.push(location);
    }

    /// The nodes, as Kubernetes objects.
    pub fn nodes(&self) -> &[Value] {
        &self.nodes
    }

    /// The nodes with their locations. A node of a pool is located at the pool's name.
    pub fn nodes_with_locations(&self) -> impl Iterator<Item = (&Value, &FleetLocation)> {
        self.nodes.iter().zip(&self.locations)
    }
}

#[cfg(test)]
mod tests;
