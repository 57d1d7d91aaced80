//! Feature gates of profile `kube`, named as in Kubernetes, with kube-scheduler's defaults.

use thiserror::Error;

/// The feature gates that change decisions of profile `kube`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// `GenericWorkload`: pods with `spec.schedulingGroup` are placed with their PodGroup.
    pub generic_workload: bool,
    /// `TopologyAwareWorkloadScheduling`: a PodGroup is placed in one domain of its topology.
    pub topology_aware: bool,
}

/// The names, in the order of the fields.
const NAMES: [&str; 2] = ["GenericWorkload", "TopologyAwareWorkloadScheduling"];

/// Why feature gates cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FeatureGateError {
    /// An entry is not `NAME=true` or `NAME=false`.
    #[error("got {0}, expected NAME=true or NAME=false")]
    Syntax(String),
    /// The gate changes no decision of the scheduler.
    #[error("got {0}, expected {list}", list = NAMES.join(" or "))]
    Unknown(String),
    /// A gate that it needs is disabled.
    #[error("TopologyAwareWorkloadScheduling needs GenericWorkload")]
    Dependency,
}

impl FeatureGates {
    /// Parses `GenericWorkload=true,TopologyAwareWorkloadScheduling=true`; other gates keep their
    /// defaults.
    ///
    /// # Errors
    ///
    /// An entry is malformed or names an unknown gate, or an enabled gate needs a disabled one.
    pub fn parse(text: &str) -> Result<Self, FeatureGateError> {
        let mut gates = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let syntax = || FeatureGateError::Syntax(entry.to_owned());
            let (name, value) = entry.split_once('=').ok_or_else(syntax)?;
            let value: bool = value.trim().to_lowercase().parse().map_err(|_| syntax())?;
            match NAMES.iter().position(|known| *known == name.trim()) {
                Some(0) => gates.generic_workload = value,
                Some(_) => gates.topology_aware = value,
                None => return Err(FeatureGateError::Unknown(name.to_owned())),
            }
        }
        if gates.topology_aware && !gates.generic_workload {
            return Err(FeatureGateError::Dependency);
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_gates_are_written_as_in_kubernetes() {
        let parsed = |text: &str| FeatureGates::parse(text).map_err(|error| error.to_string());
        let gang = FeatureGates { generic_workload: true, topology_aware: false };
        assert_eq!(parsed(""), Ok(FeatureGates::default()));
        assert_eq!(parsed("GenericWorkload=true"), Ok(gang));
        let both = "GenericWorkload=True, TopologyAwareWorkloadScheduling=true";
        assert_eq!(parsed(both), Ok(FeatureGates { topology_aware: true, ..gang }));
        insta::assert_snapshot!(parsed("GenericWorkload").unwrap_err(), @"got GenericWorkload, expected NAME=true or NAME=false");
        insta::assert_snapshot!(parsed("Gang=true").unwrap_err(), @"got Gang, expected GenericWorkload or TopologyAwareWorkloadScheduling");
        insta::assert_snapshot!(parsed("TopologyAwareWorkloadScheduling=true").unwrap_err(), @"TopologyAwareWorkloadScheduling needs GenericWorkload");
    }
}
