//! Node pools of one cluster, where a scheduler runs for each: every scenario has one to itself.

use std::sync::{Arc, Mutex, PoisonError};

/// The pools that nobody has. Without any, one scheduler serves all nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools {
    names: Vec<String>,
    free: Arc<Mutex<Vec<String>>>,
}

impl Pools {
    /// As many as scenarios run at a time; for one alone there is no need of any.
    pub(super) fn for_scenarios(count: usize) -> Self {
        let count = if count > 1 { count } else { 0 };
        let names: Vec<String> = (1..=count).map(|number| format!("pool-{number}")).collect();
        Self { free: Arc::new(Mutex::new(names.clone())), names }
    }

    /// Their names.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// One that nobody else has until it is dropped; `None` where there are none.
    ///
    /// # Errors
    /// There are some, and others have all of them.
    pub(super) fn take(&self) -> anyhow::Result<Option<Pool>> {
        if self.names.is_empty() {
            return Ok(None);
        }
        let name = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match name {
            Some(name) => Ok(Some(Pool { name, free: Arc::clone(&self.free) })),
            None => anyhow::bail!("all {} node pools are in use", self.names.len()),
        }
    }
}

/// A node pool that one scenario has.
#[derive(Debug)]
pub(crate) struct Pool {
    name: String,
    free: Arc<Mutex<Vec<String>>>,
}

impl Pool {
    /// The value of its label.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.name);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_one_scenarios_at_a_time() {
        let pools = Pools::for_scenarios(2);
        let (first, second) = (pools.take().unwrap().unwrap(), pools.take().unwrap().unwrap());
        assert_ne!(first.name(), second.name());
        assert!(pools.take().is_err(), "a third");
        let name = first.name().to_owned();
        drop(first);
        assert_eq!(pools.take().unwrap().unwrap().name(), name);
        assert!(
            Pools::for_scenarios(1).take().unwrap().is_none(),
            "one scheduler serves all nodes"
        );
    }
}
