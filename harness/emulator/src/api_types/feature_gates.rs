//! The feature gates of the API server: the table by version, and the gates of one cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::kubernetes_version::KubernetesVersion;

/// The maturity of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default; `AllAlpha` sets these.
    Alpha,
    /// `AllBeta` sets these.
    Beta,
    /// Generally available.
    Stable,
    /// Will be removed.
    Deprecated,
}

/// A feature gate as one version of Kubernetes has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    /// Its name: `GenericWorkload`.
    pub name: &'static str,
    /// The maturity of the feature.
    pub stage: Stage,
    /// Whether it is enabled by default.
    pub is_default: bool,
    /// Whether it cannot be changed.
    pub is_locked: bool,
    /// The gates that must be enabled for it to be enabled.
    pub needs: Vec<&'static str>,
}

/// Why feature gates cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureGateError {
    /// An entry is not `NAME=true` or `NAME=false`.
    #[error("feature gates: got {0}, expected NAME=true or NAME=false")]
    Syntax(String),
    /// The version has no such gate.
    #[error("feature gate {name} does not exist in Kubernetes {version}{}", did_you_mean_suffix(*.near))]
    Unknown {
        /// The name.
        name: String,
        /// The version.
        version: KubernetesVersion,
        /// The nearest name of a gate.
        near: Option<&'static str>,
    },
    /// The version does not let anybody change the gate.
    #[error("cannot set feature gate {name} to {}, feature is locked to {locked_to}", !.locked_to)]
    Locked {
        /// The name.
        name: &'static str,
        /// The only value.
        locked_to: bool,
    },
    /// A gate that it needs is disabled.
    #[error("{name} is enabled, but depends on features that are disabled: {}", .disabled.join(", "))]
    Dependency {
        /// The enabled gate.
        name: &'static str,
        /// The gates that it needs.
        disabled: Vec<&'static str>,
    },
}

fn did_you_mean_suffix(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// The version of a cluster and its enabled feature gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    version: KubernetesVersion,
    enabled: BTreeSet<&'static str>,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self::new(KubernetesVersion::default())
    }
}

impl FeatureGates {
    /// The defaults of a version.
    pub fn new(version: KubernetesVersion) -> Self {
        let gates = known(version).values();
        let enabled = gates.filter(|gate| gate.is_default).map(|gate| gate.name).collect();
        Self { version, enabled }
    }

    /// The defaults of a version with changes: `GenericWorkload=true,DRADeviceTaints=false`, as in
    /// the flag `--feature-gates` of Kubernetes. `AllAlpha` and `AllBeta` set the gates of a stage
    /// that are not named.
    ///
    /// # Errors
    ///
    /// An entry is malformed, names no gate of the version, or changes a locked one; or an enabled
    /// gate needs one that is disabled.
    pub fn parse(version: KubernetesVersion, changes: &str) -> Result<Self, FeatureGateError> {
        let mut gates = Self::new(version);
        let changes = changes.split(',').map(str::trim).filter(|change| !change.is_empty());
        let changes: Vec<(&str, bool)> = changes.map(parse_change).collect::<Result<_, _>>()?;
        let (of_stages, named): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|(name, _)| stage_of(name).is_some());
        for (name, value) in of_stages {
            let is_changed =
                |gate: &&FeatureGate| Some(gate.stage) == stage_of(name) && !gate.is_locked;
            for gate in known(version).values().filter(is_changed) {
                gates.set(gate.name, value);
            }
        }
        for (name, value) in named {
            let gate = known(version).get(name).ok_or_else(|| unknown(version, name))?;
            if gate.is_locked && gate.is_default != value {
                return Err(FeatureGateError::Locked {
                    name: gate.name,
                    locked_to: gate.is_default,
                });
            }
            gates.set(gate.name, value);
        }
        gates.check_dependencies()?;
        Ok(gates)
    }

    /// These gates with others enabled, and the gates that those need. Names that the version does
    /// not have are ignored.
    #[must_use]
    pub fn with_enabled<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut gates = self.clone();
        let mut missing: Vec<&str> = names.into_iter().collect();
        while let Some(name) = missing.pop() {
            let Some(gate) = known(self.version).get(name) else { continue };
            if gates.enabled.insert(gate.name) {
                missing.extend(&gate.needs);
            }
        }
        gates
    }

    /// The version.
    pub fn version(&self) -> KubernetesVersion {
        self.version
    }

    /// Whether a gate is enabled. A gate that the version does not have is disabled.
    pub fn is_enabled(&self, gate: &str) -> bool {
        self.enabled.contains(gate)
    }

    fn set(&mut self, gate: &'static str, value: bool) {
        if value {
            self.enabled.insert(gate);
        } else {
            self.enabled.remove(gate);
        }
    }

    fn check_dependencies(&self) -> Result<(), FeatureGateError> {
        for gate in known(self.version).values().filter(|gate| self.is_enabled(gate.name)) {
            let disabled: Vec<_> =
                gate.needs.iter().copied().filter(|needed| !self.is_enabled(needed)).collect();
            if !disabled.is_empty() {
                return Err(FeatureGateError::Dependency { name: gate.name, disabled });
            }
        }
        Ok(())
    }
}

fn parse_change(change: &str) -> Result<(&str, bool), FeatureGateError> {
    let syntax = || FeatureGateError::Syntax(change.to_owned());
    let (name, value) = change.split_once('=').ok_or_else(syntax)?;
    let value = value.trim().to_ascii_lowercase().parse().map_err(|_| syntax())?;
    Ok((name.trim(), value))
}

/// The stage whose gates a name sets.
fn stage_of(name: &str) -> Option<Stage> {
    match name {
        "AllAlpha" => Some(Stage::Alpha),
        "AllBeta" => Some(Stage::Beta),
        _ => None,
    }
}

fn unknown(version: KubernetesVersion, name: &str) -> FeatureGateError {
    let lower = name.to_lowercase();
    let distance = |gate: &str| strsim::osa_distance(&gate.to_lowercase(), &lower);
    let nearest = known(version).keys().copied().min_by_key(|gate| distance(gate));
    let near = nearest.filter(|gate| distance(gate) <= name.len() / 3);
    FeatureGateError::Unknown { name: name.to_owned(), version, near }
}

type Table = BTreeMap<&'static str, FeatureGate>;

/// The gates of a version by name.
pub fn known(version: KubernetesVersion) -> &'static BTreeMap<&'static str, FeatureGate> {
    static TABLES: LazyLock<[Table; 2]> = LazyLock::new(|| KubernetesVersion::ALL.map(read));
    match version {
        KubernetesVersion::V1_35 => &TABLES[0],
        KubernetesVersion::V1_37 => &TABLES[1],
    }
}

fn read(version: KubernetesVersion) -> Table {
    let prefix = format!("{version}=");
    let lines = include_str!("feature_gates.txt").lines().filter(|line| !line.starts_with('#'));
    let gate = |line: &'static str| {
        let (name, versions) = line.split_once(' ')?;
        let entry = versions.split(' ').find_map(|entry| entry.strip_prefix(&*prefix))?;
        Some((name, parse_gate(name, entry)))
    };
    lines.filter_map(gate).collect()
}

fn parse_gate(name: &'static str, entry: &'static str) -> FeatureGate {
    let mut gate = FeatureGate {
        name,
        stage: Stage::Stable,
        is_default: false,
        is_locked: false,
        needs: Vec::new(),
    };
    for word in entry.split(',') {
        match word {
            "alpha" => gate.stage = Stage::Alpha,
            "beta" => gate.stage = Stage::Beta,
            "ga" => gate.stage = Stage::Stable,
            "deprecated" => gate.stage = Stage::Deprecated,
            "on" => gate.is_default = true,
            "off" => gate.is_default = false,
            "locked" => gate.is_locked = true,
            _ => {
                let needs = word.strip_prefix("needs:").expect("the table has only these words");
                gate.needs = needs.split('+').collect();
            }
        }
    }
    gate
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(version: KubernetesVersion, changes: &str) -> String {
        match FeatureGates::parse(version, changes) {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_defaults_of_a_version_satisfy_each_other() {
        for version in KubernetesVersion::ALL {
            assert_eq!(FeatureGates::parse(version, ""), Ok(FeatureGates::new(version)));
            for gate in known(version).values() {
                let is_known = |needed: &&str| known(version).contains_key(*needed);
                assert!(gate.needs.iter().all(is_known), "{gate:?}");
            }
        }
    }

    #[test]
    fn a_gate_has_the_default_of_the_version() {
        let [old, new] = KubernetesVersion::ALL.map(FeatureGates::new);
        let defaults = |gate: &str| (old.is_enabled(gate), new.is_enabled(gate));
        assert_eq!(defaults("DRADeviceTaints"), (false, true));
        assert_eq!(defaults("GenericWorkload"), (false, false));
        assert_eq!(defaults("DynamicResourceAllocation"), (true, true));
    }

    #[test]
    fn a_gate_is_enabled_with_those_that_it_needs() {
        let gates = FeatureGates::default().with_enabled(["CompositePodGroup", "Nonsense"]);
        let needed = ["CompositePodGroup", "GenericWorkload", "TopologyAwareWorkloadScheduling"];
        assert!(needed.iter().all(|gate| gates.is_enabled(gate)));
        assert_eq!(gates.check_dependencies(), Ok(()));
    }

    #[test]
    fn a_change_of_gates_is_checked_as_the_api_server_does() {
        use KubernetesVersion::{V1_35, V1_37};
        insta::assert_snapshot!([
            outcome(V1_37, "GenericWorkload=true, TopologyAwareWorkloadScheduling=True"),
            outcome(V1_37, "GenericWorkloads=true"),
            outcome(V1_37, "Nonsense=true"),
            outcome(V1_35, "CompositePodGroup=true"),
            outcome(V1_37, "CompositePodGroup=true"),
            outcome(V1_37, "DRAExtendedResource=false"),
            outcome(V1_37, "GenericWorkload"),
            outcome(V1_37, "GenericWorkload=on"),
            outcome(V1_37, "AllBeta=true"),
            outcome(V1_37, "AllBeta=false"),
        ].join("\n"), @"
        ok
        feature gate GenericWorkloads does not exist in Kubernetes 1.37; did you mean `GenericWorkload`?
        feature gate Nonsense does not exist in Kubernetes 1.37
        feature gate CompositePodGroup does not exist in Kubernetes 1.35
        CompositePodGroup is enabled, but depends on features that are disabled: GenericWorkload, TopologyAwareWorkloadScheduling
        cannot set feature gate DRAExtendedResource to false, feature is locked to true
        feature gates: got GenericWorkload, expected NAME=true or NAME=false
        feature gates: got GenericWorkload=on, expected NAME=true or NAME=false
        ok
        ok
        ");
    }
}
