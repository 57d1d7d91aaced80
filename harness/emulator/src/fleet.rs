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

mod node;
mod plain;
mod pool;
mod realistic;
mod scalar;

use std::fmt;

use serde_json::Value;

use pool::Pool;

/// The nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    nodes: Vec<Value>,
}

/// What is wrong in a fleet's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FleetError {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What was found and what is allowed.
    pub message: String,
}

impl fmt::Display for FleetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message } = self;
        if *line == 0 {
            return write!(formatter, "{file}: {message}");
        }
        write!(formatter, "{file}:{line}:{column}: {message}")
    }
}

impl Fleet {
    /// Reads a fleet. `file` is its name in messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, FleetError> {
        if plain::is_plain(text) {
            return Ok(Self { nodes: plain::nodes(file, text)? });
        }
        let pools = Pool::parse_all(file, text)?;
        let mut nodes = Vec::new();
        for pool in &pools {
            for name in &pool.node_names {
                nodes.push(node::object(pool, name, nodes.len()));
            }
        }
        Ok(Self { nodes })
    }

    /// A fleet of nodes that are Kubernetes objects already.
    pub fn of_nodes(nodes: Vec<Value>) -> Self {
        Self { nodes }
    }

    /// The nodes, as Kubernetes objects.
    pub fn nodes(&self) -> &[Value] {
        &self.nodes
    }
}

#[cfg(test)]
mod tests;
