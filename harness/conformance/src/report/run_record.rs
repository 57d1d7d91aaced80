//! The file `run.json` of a run: what ran, and which shard of it. `schedlab merge` needs it to tell
//! shards of one run from others.

use serde::{Deserialize, Serialize};

use super::Shard;

/// The version of the format of `run.json`.
const SCHEMA_VERSION: u32 = 1;

/// What a run was, apart from its results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    schema_version: u32,
    /// What the shards of one run have in common.
    pub identity: RunIdentity,
    /// When the run began.
    pub began: jiff::Timestamp,
    /// How long the scenarios took together, in milliseconds of wall time.
    pub wall_millis: u64,
    /// The exit code of the run.
    pub exit_code: u8,
    /// The part of the selection that the run ran; `None` if all of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shard: Option<Shard>,
    /// The whole selection in its order, with the shard of each scenario; empty for a whole run.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub scenarios: Vec<PlannedScenario>,
}

/// What runs must have in common to be shards of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunIdentity {
    /// The version of schedlab.
    pub schedlab: String,
    /// Digest of the features, fixtures and snapshots.
    pub suite_digest: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// Kind of the cluster, as in `--cluster`.
    pub cluster: String,
    /// Version of Kubernetes, as far as the options say it.
    pub kubernetes: String,
    /// Feature gates of the options.
    pub feature_gates: String,
    /// The scheduler under test, as in `--scheduler`.
    pub scheduler: String,
    /// Name of the scheduler's target.
    pub target: String,
}

/// A scenario of a selection that is run in shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedScenario {
    /// The id of the case.
    pub id: String,
    /// The index of its shard, from 1.
    pub shard: usize,
}

impl RunRecord {
    /// The record of a whole run that has just begun.
    pub fn new(identity: RunIdentity, began: jiff::Timestamp) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            identity,
            began,
            wall_millis: 0,
            exit_code: 0,
            shard: None,
            scenarios: Vec::new(),
        }
    }

    /// Reads the text of a file `run.json`.
    ///
    /// # Errors
    /// The text is not a record, or one of another version of the format.
    pub fn parse(text: &str) -> Result<Self, String> {
        let record: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if record.schema_version != SCHEMA_VERSION {
            let got = record.schema_version;
            return Err(format!("schemaVersion: got {got}, expected {SCHEMA_VERSION}"));
        }
        Ok(record)
    }

    /// The record as the text of a file `run.json`.
    ///
    /// # Errors
    /// The record cannot be represented in JSON.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

impl RunIdentity {
    /// What differs between two runs, as text; `None` if nothing does.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let (seed, other_seed) = (self.seed.to_string(), other.seed.to_string());
        let fields = [
            ("scheduler", &self.scheduler, &other.scheduler),
            ("target", &self.target, &other.target),
            ("seed", &seed, &other_seed),
            ("suite digest", &self.suite_digest, &other.suite_digest),
            ("cluster", &self.cluster, &other.cluster),
            ("Kubernetes version", &self.kubernetes, &other.kubernetes),
            ("feature gates", &self.feature_gates, &other.feature_gates),
            ("schedlab version", &self.schedlab, &other.schedlab),
        ];
        let differing = fields.iter().filter(|(_, a, b)| a != b);
        let texts: Vec<String> =
            differing.map(|(name, a, b)| format!("{name} `{a}` and `{b}`")).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}
