//! The data of a conformance report. Its JSON Schema is published as
//! `docs/reference/conformance-report.schema.json`.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use super::profile::{Area, Level};

/// The version of the format of reports.
pub const SCHEMA_VERSION: &str = "schedlab.dev/conformance-report/v1";

/// The JSON Schema of [`ConformanceReport`].
pub fn report_schema() -> Schema {
    schema_for!(ConformanceReport)
}

/// A report on the conformance of a scheduler to a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConformanceReport {
    /// The version of this format: `schedlab.dev/conformance-report/v1`.
    pub schema_version: String,
    /// The scheduler under test.
    pub implementation: Implementation,
    /// The profile that says which behaviours are tested.
    pub profile: ProfileIdentity,
    /// The scenarios that tested them.
    pub suite: SuiteIdentity,
    /// The cluster on which the scenarios ran.
    pub cluster: ClusterIdentity,
    /// When the run began, in UTC.
    pub date: String,
    /// The verdict on the whole profile.
    pub verdict: Verdict,
    /// The results by area.
    pub areas: BTreeMap<Area, AreaReport>,
    /// Commands that repeat the run.
    pub reproduce: Reproduce,
}

/// The scheduler under test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Implementation {
    /// The name, from the target file.
    pub name: String,
    /// The version, from the target file or `--implementation-version`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
    /// How the scheduler was started, as the value of `--scheduler`.
    pub scheduler: String,
    /// The capabilities that the target declares; absent for all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub capabilities: Option<Vec<String>>,
}

/// The profile of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileIdentity {
    /// The name with its version, such as `gpu-core-v1`.
    pub name: String,
    /// What the profile is about.
    pub title: String,
    /// The ids to which the run was restricted (`--only`); empty for the whole profile. A report on
    /// a part is no verdict on the profile.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub only: Vec<String>,
}

/// The suite of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SuiteIdentity {
    /// The version of schedlab.
    pub version: String,
    /// SHA-256 over the suite's features, fixtures and snapshots, as `sha256:HEX`: that of the
    /// lines that `sha256sum` prints for the files in the order of their paths.
    pub digest: String,
    /// The seed of every random choice.
    pub seed: u64,
}

/// The cluster of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterIdentity {
    /// The kind of cluster, as the value of `--cluster`.
    pub kind: String,
    /// The version of Kubernetes.
    pub kubernetes_version: String,
    /// Feature gates that differ from their defaults, as the value of `--feature-gates`.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub feature_gates: String,
}

/// The verdict on a profile, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verdict {
    /// The verdict.
    pub result: ReportVerdict,
    /// The areas in which every core behaviour passed.
    pub conformant_areas: Vec<Area>,
    /// Why the scheduler is not conformant, one sentence each.
    pub reasons: Vec<String>,
}

/// The verdict on a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReportVerdict {
    /// Every core behaviour of every area passed.
    Conformant,
    /// Every core behaviour passed or is declared as unsupported, and at least one area is
    /// conformant.
    ConformantInAreas,
    /// A core behaviour failed, was skipped though it is not declared as unsupported, or no area is
    /// conformant.
    NotConformant,
}

/// The results of an area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AreaReport {
    /// The verdict on the area, which depends on its core level alone.
    pub verdict: AreaVerdict,
    /// Behaviours that a conformant scheduler has (MUST).
    pub core: LevelReport,
    /// Behaviours that a scheduler may offer (SHOULD or MAY).
    pub extended: LevelReport,
}

impl AreaReport {
    /// The results of a level.
    pub fn level(&self, level: Level) -> &LevelReport {
        match level {
            Level::Core => &self.core,
            Level::Extended => &self.extended,
        }
    }
}

/// The verdict on an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AreaVerdict {
    /// Every core behaviour passed.
    Conformant,
    /// Every core behaviour passed or is declared as unsupported, and at least one is unsupported.
    Unsupported,
    /// A core behaviour failed, or was skipped though it is not declared as unsupported.
    NotConformant,
}

/// The results of a level of an area. Each behaviour is in one of the lists `passed`, `failed`,
/// `skipped` and `unsupported`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LevelReport {
    /// The numbers of behaviours.
    pub counts: Counts,
    /// Behaviours whose scenarios all passed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub passed: Vec<BehaviourName>,
    /// Behaviours of which a scenario failed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub failed: Vec<FailedBehaviour>,
    /// Behaviours of which a scenario did not run for another reason than a missing capability.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub skipped: Vec<SkippedBehaviour>,
    /// Behaviours that need a capability that the target does not declare.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unsupported: Vec<UnsupportedBehaviour>,
    /// Claims about the wording of messages that were not judged, by behaviour. They do not change
    /// any verdict.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub wording_not_judged: Vec<NotJudgedWording>,
}

/// The numbers of behaviours of a level by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Counts {
    /// All behaviours.
    pub total: usize,
    /// Behaviours whose scenarios all passed.
    pub passed: usize,
    /// Behaviours of which a scenario failed.
    pub failed: usize,
    /// Behaviours of which a scenario did not run.
    pub skipped: usize,
    /// Behaviours that need a capability that the target does not declare.
    pub unsupported: usize,
}

/// A behaviour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BehaviourName {
    /// The stable id.
    pub id: String,
    /// The behaviour in one sentence.
    pub behaviour: String,
}

/// A behaviour that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailedBehaviour {
    /// The stable id.
    pub id: String,
    /// The behaviour in one sentence.
    pub behaviour: String,
    /// The scenarios that failed.
    pub scenarios: Vec<FailedScenario>,
    /// The command that repeats the scenarios of this behaviour.
    pub reproduce: String,
}

/// A scenario that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailedScenario {
    /// The name of the scenario.
    pub name: String,
    /// Where it failed: `FILE:LINE`.
    pub location: String,
    /// The step that failed, if a step failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step: Option<String>,
    /// The failure message.
    pub message: String,
}

/// A behaviour that was not tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkippedBehaviour {
    /// The stable id.
    pub id: String,
    /// The behaviour in one sentence.
    pub behaviour: String,
    /// Why it was not tested.
    pub reason: String,
}

/// A behaviour that the target does not support.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnsupportedBehaviour {
    /// The stable id.
    pub id: String,
    /// The behaviour in one sentence.
    pub behaviour: String,
    /// The capabilities that it needs and that the target does not declare.
    pub capabilities: Vec<UnsupportedCapability>,
}

/// A capability that the target does not declare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnsupportedCapability {
    /// The name of the capability, such as `gang`.
    pub name: String,
    /// Why the target lacks it, from the target file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// Claims about the wording of messages that were not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotJudgedWording {
    /// The stable id of the behaviour.
    pub id: String,
    /// The claims: the quoted words, or the sentences of steps.
    pub claims: Vec<String>,
}

/// How to repeat the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reproduce {
    /// The commands, in order.
    pub commands: Vec<String>,
}

impl ConformanceReport {
    /// The report as YAML.
    ///
    /// # Errors
    /// The report cannot be represented in YAML.
    pub fn to_yaml(&self) -> anyhow::Result<String> {
        Ok(serde_yaml::to_string(self)?)
    }

    /// Reads a report that [`Self::to_yaml`] wrote.
    ///
    /// # Errors
    /// The text is not YAML, or not of this version of the format.
    pub fn from_yaml(text: &str) -> anyhow::Result<Self> {
        Ok(serde_yaml::from_str(text)?)
    }

    /// The report as JSON.
    ///
    /// # Errors
    /// The report cannot be represented in JSON.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// All behaviours that failed, with their area and level.
    pub fn failures(&self) -> impl Iterator<Item = (Area, Level, &FailedBehaviour)> {
        self.areas.iter().flat_map(|(area, results)| {
            let core = results.core.failed.iter().map(|failed| (*area, Level::Core, failed));
            let extended = results.extended.failed.iter();
            core.chain(extended.map(|failed| (*area, Level::Extended, failed)))
        })
    }

    /// Number of behaviours, of both levels, that were skipped.
    pub fn skipped_count(&self) -> usize {
        let levels = self.areas.values().flat_map(|area| [&area.core, &area.extended]);
        levels.map(|level| level.counts.skipped).sum()
    }
}
