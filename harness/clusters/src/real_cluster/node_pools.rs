//! Node pools of one cluster on which a scheduler runs per pool. Each scenario has a pool to
//! itself.

use std::sync::{Arc, Mutex, PoisonError};

/// The node pools of a cluster, and which of them are free. There are none if one scheduler serves
/// all nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct NodePools {
    names: Vec<String>,
    free: Arc<Mutex<Vec<String>>>,
}

impl NodePools {
    /// One node pool per concurrent scenario; none for a single scenario.
    pub(super) fn for_scenarios(count: usize) -> Self {
        let count = if count > 1 { count } else { 0 };
        let names: Vec<String> = (1..=count).map(|number| format!("pool-{number}")).collect();
        Self { free: Arc::new(Mutex::new(names.clone())), names }
    }

    /// The names of all pools.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Takes a free node pool; it is free again when the returned value is dropped. `None` if there
    /// are no pools.
    ///
    /// # Errors
    /// All pools are in use.
    pub(super) fn take_free_pool(&self) -> anyhow::Result<Option<NodePool>> {
        if self.names.is_empty() {
            return Ok(None);
        }
        let name = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match name {
            Some(name) => Ok(Some(NodePool { name, free: Arc::clone(&self.free) })),
            None => anyhow::bail!("all {} node pools are in use", self.names.len()),
        }
    }
}

/// A node pool in use by one scenario.
#[derive(Debug)]
pub struct NodePool {
    name: String,
    free: Arc<Mutex<Vec<String>>>,
}

impl NodePool {
    /// The value of the node pool's label.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for NodePool {
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.name);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_pool_has_one_user_at_a_time() {
        let pools = NodePools::for_scenarios(2);
        let (first, second) =
            (pools.take_free_pool().unwrap().unwrap(), pools.take_free_pool().unwrap().unwrap());
        assert_ne!(first.name(), second.name());
        assert!(pools.take_free_pool().is_err(), "a third");
        let name = first.name().to_owned();
        drop(first);
        assert_eq!(pools.take_free_pool().unwrap().unwrap().name(), name);
        assert!(
            NodePools::for_scenarios(1).take_free_pool().unwrap().is_none(),
            "one scheduler serves all nodes"
        );
    }
}
