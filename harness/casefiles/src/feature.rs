//! Writes a case as a feature that a person would have written: the fleet and the queues as tables in
//! the background, workloads grouped into rows, and the claim in words. What the tables cannot say
//! is a manifest, or an error that names it; then the case file itself is the background.

mod placement;
mod rows;
mod table;

use std::fmt::Write as _;

use schedlab_api::Value;
use schedlab_scheduler::replay::Replay;

use crate::{
    Case,
    audit::AuditClaim,
    doc_string::doc_string,
    predicate::{Predicate, State, Subject, nameless_reason},
};
pub use rows::{BesideTables, Inexpressible};
use rows::{Scene, Workload};

/// How running workloads get onto their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// They are submitted first, and the scheduler chooses the nodes.
    ByScheduler,
    /// Each pod names its node.
    Pinned,
}

/// What the feature claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeatureClaim {
    /// What the case shows: it holds until the fault is fixed. There is at least one claim.
    Shows(Vec<Predicate>),
    /// What should happen: it fails until the fault is fixed.
    Should(Predicate),
    /// The audit reports these rules: the feature fails until the fault is fixed, as each scenario in
    /// which a rule is broken does.
    Breaks(Vec<AuditClaim>),
}

/// What a feature is about, beside the case.
#[derive(Clone, Debug)]
pub struct FeatureStory<'a> {
    /// Name of the feature.
    pub title: &'a str,
    /// The claim.
    pub claim: &'a FeatureClaim,
    /// Whether the claim of a pending workload has the reason that the replay gave.
    pub with_reason: bool,
    /// Settings of the scheduler that differ from the defaults, in the format of the configuration
    /// file; null if there is none.
    pub settings: &'a Value,
}

impl FeatureStory<'_> {
    /// The step that configures the scheduler, and the keyword of the step after it.
    fn settings_text(&self) -> (String, &'static str) {
        match self.settings.as_object() {
            Some(fields) if !fields.is_empty() => {
                let settings = doc_string(std::slice::from_ref(self.settings));
                (format!("    Given the scheduler's configuration:\n{settings}"), "And")
            }
            _ => (String::new(), "Given"),
        }
    }
}

impl FeatureClaim {
    /// The claims themselves.
    pub fn predicates(&self) -> &[Predicate] {
        match self {
            Self::Shows(predicates) => predicates,
            Self::Should(predicate) => std::slice::from_ref(predicate),
            Self::Breaks(_) => &[],
        }
    }
}

/// Writes the feature with tables.
///
/// # Errors
/// The tables cannot say what the case has.
pub fn write_with_tables(
    case: &Case,
    replay: &Replay,
    story: &FeatureStory<'_>,
    placement: Placement,
    beside: BesideTables,
) -> Result<String, Inexpressible> {
    let scene = Scene::from_case(case, placement, beside)?;
    let mut text = format!("Feature: {}\n\n  Background:\n", story.title);
    let (settings, keyword) = story.settings_text();
    let fleet = scene.fleet_text(keyword);
    let queues = scene.queues_text(if fleet.is_empty() { keyword } else { "And" });
    text += &(settings + &fleet + &queues);
    if !scene.others.is_empty() {
        let _ = write!(text, "    And this manifest is applied:\n{}", doc_string(&scene.others));
    }
    let _ = writeln!(text, "\n  Scenario: {}", scenario_name(story));
    let running: Vec<&Workload> = scene.workloads.iter().filter(|it| it.is_running).collect();
    let pending: Vec<&Workload> = scene.workloads.iter().filter(|it| !it.is_running).collect();
    if !running.is_empty() {
        text.push_str("    Given these workloads are submitted:\n");
        text.push_str(&Scene::workloads_text(&running));
        text.push_str("    And everything has settled\n");
    }
    if !pending.is_empty() {
        text.push_str("    When these workloads are submitted:\n");
        text.push_str(&Scene::workloads_text(&pending));
    }
    if !scene.manifests.is_empty() {
        let keyword = if pending.is_empty() { "When" } else { "And" };
        let manifests = doc_string(&scene.manifests);
        let _ = write!(text, "    {keyword} this manifest is applied:\n{manifests}");
    }
    text.push_str(&claims_text(&scene, replay, story)?);
    Ok(text)
}

/// Writes the feature with the case file as its background.
///
/// # Errors
/// The case has no name for what the claim is about.
pub fn write_with_case(
    case: &Case,
    replay: &Replay,
    story: &FeatureStory<'_>,
    file: &str,
) -> Result<String, Inexpressible> {
    let scene = Scene::names_only(case);
    let mut text = format!("Feature: {}\n\n  Scenario: {}\n", story.title, scenario_name(story));
    let (settings, keyword) = story.settings_text();
    let _ = writeln!(text, "{settings}    {keyword} the case \"{file}\"");
    text.push_str(&claims_text(&scene, replay, story)?);
    Ok(text)
}

fn scenario_name(story: &FeatureStory<'_>) -> String {
    if let FeatureClaim::Breaks(rules) = story.claim {
        let names: Vec<&str> = rules.iter().map(|claim| claim.rule.rule_name()).collect();
        return format!("The audit finds no fault with {}", names.join(" and "));
    }
    let names: Vec<String> = story.claim.predicates().iter().map(claim_name).collect();
    names.join(", and ")
}

fn claim_name(predicate: &Predicate) -> String {
    let subject = match predicate.subject {
        Subject::Gang => "workload",
        Subject::Pod => "pod",
        Subject::Queue => "queue",
    };
    let name = short_name(&predicate.name);
    let what = match predicate.state {
        State::Pending => "is pending",
        State::Placed => "runs",
        State::Evicted => "is evicted",
    };
    if name.starts_with(subject) {
        format!("{name} {what}")
    } else {
        format!("{subject} {name} {what}")
    }
}

/// The name without its namespace.
fn short_name(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, name)| name)
}

fn claims_text(
    scene: &Scene,
    replay: &Replay,
    story: &FeatureStory<'_>,
) -> Result<String, Inexpressible> {
    let mut text = String::new();
    if matches!(story.claim, FeatureClaim::Breaks(_)) {
        text.push_str("    And everything has settled\n");
    }
    for predicate in story.claim.predicates() {
        let keyword = if text.is_empty() { "Then" } else { "And" };
        let _ = writeln!(text, "    {keyword} {}", claim_text(scene, replay, story, predicate)?);
    }
    Ok(text)
}

fn claim_text(
    scene: &Scene,
    replay: &Replay,
    story: &FeatureStory<'_>,
    predicate: &Predicate,
) -> Result<String, Inexpressible> {
    let subject = scene.subject_text(predicate)?;
    let pods = replay.pods.iter().filter(|pod| match predicate.subject {
        Subject::Gang => pod.group.as_deref() == Some(short_name(&predicate.name)),
        Subject::Pod => pod.name == short_name(&predicate.name),
        Subject::Queue => pod.queue.as_deref() == Some(&predicate.name),
    });
    let pods = pods.count();
    let should = matches!(story.claim, FeatureClaim::Should(_));
    Ok(match predicate.state {
        State::Pending => {
            let reason = predicate.reasons(replay).next().filter(|_| story.with_reason);
            let reason = reason.map(|group| nameless_reason(group, replay));
            match reason.filter(|reason| !reason.is_empty()) {
                Some(reason) => format!("{subject} is pending because \"{reason}\""),
                None => format!("{subject} is pending"),
            }
        }
        State::Placed => {
            let noun = if pods == 1 { "pod" } else { "pods" };
            let when = if should { "eventually within 10 minutes " } else { "" };
            format!("{when}{subject} has {pods} running and no pending {noun}")
        }
        State::Evicted => {
            format!("eventually within 10 minutes at least 1 pod of {subject} was evicted")
        }
    })
}

#[cfg(test)]
mod tests;
