//! Fleets: which nodes a cluster has, from a short YAML text.
//!
//! ```yaml
//! pools:
//! - name: h100                       # nodes h100-0 … h100-3
//!   count: 4                         # or `names: [dgx-a, dgx-b]`; 1 when neither is there
//!   gpus: 8                          # nvidia.com/gpu of each node; 0 when absent
//!   gpuProduct: NVIDIA-H100-80GB-HBM3
//!   gpuMemory: 80Gi                  # of one GPU
//!   cpu: 128
//!   memory: 1Ti
//!   ephemeralStorage: 1Ti
//!   pods: 110
//!   labels: {team: research}
//!   annotations: {}
//!   taints: [{key: gpu, value: "true", effect: NoSchedule}]
//!   topology:                        # label: nodes in one domain, counted over the whole fleet
//!     topology.kubernetes.io/zone: 4 # zone-0, zone-1, …
//!     example.com/rack: 2            # rack-0, rack-1, …
//!   objects: slim                    # or realistic: as heavy as nodes of real GPU clusters
//!   kubelet: {startup: 2s, runTime: 10m, termination: 1s}
//! ```
//!
//! Nodes as plain Kubernetes YAML (`Node`, `NodeList` or `List`, several documents) are a fleet
//! too. What is wrong is told with file, line and column, and nothing is half-applied.

mod labels;
mod node;
mod plain;
mod pool;
mod realistic;
mod scalar;
mod taint;

use std::fmt;
use std::sync::Arc;

use serde_saphyr::Location;

use crate::yaml;
use pool::Pool;
use scalar::Place;
use schedlab_json::Value;

/// The nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    nodes: Vec<Value>,
    /// Where each node is written.
    places: Vec<FleetPlace>,
}

/// Where a node is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetPlace {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// Where a node is written as Kubernetes has it.
    source: Option<Source>,
}

/// A part of a text that is one object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    text: Arc<str>,
    /// Which document, from 0.
    document: usize,
    /// The path to the object in it: nothing, or that of an item.
    prefix: String,
}

impl FleetPlace {
    /// The place of a field of the node, as near as it can be told.
    #[must_use]
    pub fn of(&self, field: &str) -> Self {
        let located = self.source.as_ref().and_then(|source| {
            let Source { text, document, prefix } = source;
            yaml::locate(text, *document, &format!("{prefix}{field}"))
        });
        let Some(at) = located.filter(|_| !field.is_empty()) else { return self.clone() };
        Self { line: at.line(), column: at.column(), ..self.clone() }
    }
}

impl fmt::Display for FleetPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, .. } = self;
        if *line == 0 {
            return formatter.write_str(file);
        }
        write!(formatter, "{file}:{line}:{column}")
    }
}

/// What is wrong in a fleet's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct FleetError {
    /// Where it stands.
    pub place: FleetPlace,
    /// What was found and what is allowed.
    pub message: String,
}

impl Fleet {
    /// Reads a fleet. `file` is its name in messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, FleetError> {
        let place = Place { file };
        let speaks = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        if !text.lines().any(speaks) {
            let message = "found nothing, allowed are `pools:` with one or more pools, or Nodes as \
                           Kubernetes objects";
            return Err(place.error(Location::UNKNOWN, message.to_owned()));
        }
        let mut fleet = Self::default();
        if plain::is_plain(text) {
            for (node, at) in plain::nodes(place, text)? {
                fleet.add(node, at);
            }
            return Ok(fleet);
        }
        for pool in &Pool::parse_all(place, text)? {
            for (name, at) in &pool.node_names {
                fleet.add(node::object(pool, name, fleet.nodes.len()), place.at(*at));
            }
        }
        Ok(fleet)
    }

    fn add(&mut self, node: Value, place: FleetPlace) {
        self.nodes.push(node);
        self.places.push(place);
    }

    /// The nodes, as Kubernetes objects.
    pub fn nodes(&self) -> &[Value] {
        &self.nodes
    }

    /// Each node and where it is written: a pool's at the pool's name.
    pub fn written(&self) -> impl Iterator<Item = (&Value, &FleetPlace)> {
        self.nodes.iter().zip(&self.places)
    }
}

#[cfg(test)]
mod tests;
