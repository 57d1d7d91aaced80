//! Conformance profiles: named sets of behaviours that a GPU scheduler must or should have, each
//! shown by scenarios of the suite, and the report on one scheduler.
//!
//! A [`Profile`] names scenarios by stable ids (the tag `@id:AREA.SLUG`), so that a behaviour keeps
//! its name when a scenario is reworded or moved. [`plan_scenarios`] finds them in the features,
//! [`evaluate`] turns the results of a run into a [`ConformanceReport`], and [`report_text`] prints
//! it for people.

mod cncf_ai;
mod evaluation;
mod goals;
mod matrix;
mod plan;
mod profile;
mod regressions;
mod report;
mod suite_digest;
mod text;

pub use cncf_ai::{EvidenceFile, cncf_ai_evidence};
pub use evaluation::{EvaluatedRun, evaluate};
pub use goals::{ConformanceGoals, RequiredLevel};
pub use matrix::matrix_text;
pub use plan::{PlannedBehaviour, plan_scenarios};
pub use profile::{Area, Behaviour, Level, Profile};
pub use regressions::ReportChanges;
pub use report::{
    AreaReport, AreaVerdict, BehaviourName, ClusterIdentity, ConformanceReport, Counts,
    FailedBehaviour, FailedScenario, Implementation, LevelReport, NotJudgedWording,
    ProfileIdentity, ReportVerdict, Reproduce, SCHEMA_VERSION, SkippedBehaviour, SuiteIdentity,
    UnsupportedBehaviour, UnsupportedCapability, Verdict, report_schema,
};
pub use suite_digest::suite_digest;
pub use text::report_text;
