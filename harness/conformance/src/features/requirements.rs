//! Requirements of a case on the cluster and the scheduler. Most come from its tags; the others are
//! derived from its steps.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use schedlab_emulator::{KubernetesVersion, feature_gates};

use super::case::Case;
use crate::schedulers::CAPABILITIES;

/// Tag of cases that only virtual time can run in a reasonable time.
pub const VIRTUAL_TIME: &str = "virtual-time";

/// Tag of cases in which the API server calls the scheduler's webhooks. The emulator reaches them
/// in this process; a real API server needs an installed scheduler whose target declares them.
pub const WEBHOOKS: &str = "webhooks";

/// Tag of cases whose claims take devices of a node: on a cluster that several scenarios share, they
/// run one after the other.
pub const CLAIMS: &str = "claims";

/// The tag with a meaning that this tag most likely means; `None` for one of those, and for a user's
/// own. Short words are too near each other.
pub(super) fn misspelt_tag(tag: &str) -> Option<&'static str> {
    if tag.chars().count() < 4 {
        return None;
    }
    let known = || CAPABILITIES.iter().map(|(name, _)| *name).chain([VIRTUAL_TIME, CLAIMS]);
    if known().any(|name| name == tag) { None } else { crate::text::nearest(tag, known()) }
}

/// In real time no case waits longer than this for one condition.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// The smallest time factor: below it, API fields in whole seconds are too coarse.
const TIME_FACTOR_MIN: f64 = 0.05;

impl Case {
    /// The scheduler capabilities that the case requires, by its tags and its steps.
    pub fn capabilities(&self) -> BTreeSet<&'static str> {
        let known = CAPABILITIES.iter().map(|(name, _)| *name);
        let mut needed: BTreeSet<&str> =
            known.filter(|name| self.tags.iter().any(|tag| tag == name)).collect();
        // Under profile `kube`, messages are those of kube-scheduler.
        let profile = "scheduler profile \"kube\"";
        let is_kube = self.steps.iter().any(|step| step.value.contains(profile));
        for step in &self.steps {
            let text = &step.value;
            let contains_any = |words: &[&str]| words.iter().any(|word| text.contains(word));
            let quotes = |verb: &str| {
                ['"', '\''].iter().any(|q| contains_any(&[format!(" {verb} {q}").as_str()]))
            };
            let shows = contains_any(&["matches its snapshot", "match their snapshot"]);
            let requirements = [
                (
                    "kai-words",
                    (!is_kube && ["because", "say", "says"].into_iter().any(quotes))
                        || contains_any(&["was evicted", "were evicted", "has the annotation"])
                        || (shows && self.snapshot_has_reasons()),
                ),
                (
                    "kai-settings",
                    contains_any(&[
                        "scheduler's configuration",
                        "placement strategy",
                        "fair share",
                        "fairness over time",
                        "a default \"",
                    ]),
                ),
                ("snapshots", shows),
                ("kube-profile", contains_any(&[profile])),
                (
                    "faults",
                    contains_any(&["scheduler is st", "scheduler is restarted", "scheduler dies"]),
                ),
                ("gang", contains_any(&["gang \""]) || creates_pod_groups(step)),
            ];
            let requirements = requirements.into_iter().chain(table_requirements(step));
            needed
                .extend(requirements.filter(|(_, is_required)| *is_required).map(|(name, _)| name));
        }
        needed
    }

    /// The feature gates of Kubernetes that the case requires: the tags that name one.
    pub fn feature_gates(&self) -> BTreeSet<&'static str> {
        let of_version = |version| feature_gates::known(version).keys().copied();
        let known = KubernetesVersion::ALL.into_iter().flat_map(of_version);
        known.filter(|gate| self.tags.iter().any(|tag| tag == gate)).collect()
    }

    /// Whether its snapshot contains reasons of pending pods.
    fn snapshot_has_reasons(&self) -> bool {
        let text = std::fs::read_to_string(self.snapshot_path()).unwrap_or_default();
        text.lines().any(|line| line == "pending")
    }

    /// The longest time that a step must wait through. An `eventually within` ends as soon as it
    /// holds and does not count.
    pub(crate) fn longest_wait(&self) -> Duration {
        static TIMES: LazyLock<Regex> = LazyLock::new(|| {
            let pattern =
                format!("(?:^|[ |])(within )?({})(?:$|[ ,|])", crate::text::DURATION_REGEX);
            Regex::new(&pattern).expect("the pattern is valid")
        });
        let mut longest = Duration::ZERO;
        for step in &self.steps {
            let rows = step.table.iter().flat_map(|table| &table.rows);
            let cells = rows.flatten().map(String::as_str);
            for text in cells.chain([step.value.as_str()]) {
                let never = text.starts_with("never");
                let waits =
                    TIMES.captures_iter(text).filter(|found| never || found.get(1).is_none());
                let times = waits.filter_map(|found| crate::text::duration(&found[2]).ok());
                longest = times.fold(longest, Duration::max);
            }
        }
        longest
    }

    /// Factor for its durations in real time, chosen so that the longest wait is a minute, if
    /// possible.
    pub(crate) fn time_factor(&self) -> f64 {
        let longest = self.longest_wait();
        if longest <= WAIT_MAX {
            return 1.0;
        }
        (WAIT_MAX.as_secs_f64() / longest.as_secs_f64()).max(TIME_FACTOR_MIN)
    }

    /// Whether it creates a Job, directly or through a JobSet, TrainJob or RayJob.
    pub fn creates_jobs(&self) -> bool {
        static JOBS: LazyLock<Regex> = LazyLock::new(|| {
            let pattern = r"(?m)^\s*(?:- )?kind: *(?:Job|JobSet|TrainJob|RayJob)\s*$|^(?:job|jobset|trainjob|rayjob)$";
            Regex::new(pattern).expect("the pattern is valid")
        });
        self.texts().any(|text| JOBS.is_match(&text))
    }

    /// Whether it depends on how long pods take to start or terminate.
    pub fn depends_on_pod_timing(&self) -> bool {
        static TIMES: LazyLock<Regex> = LazyLock::new(|| {
            let pattern = r"(?m)\b(?:starting|terminating)\b|schedlab\.dev/(?:startup|termination)|\b(?:startup|termination): |^(?:startup|termination)$";
            Regex::new(pattern).expect("the pattern is valid")
        });
        self.texts().any(|text| TIMES.is_match(&text))
    }

    /// Whether the GPUs of a node become unhealthy.
    pub fn changes_gpu_health(&self) -> bool {
        let is_such = |text: &str| text.contains("GPU") && text.contains(" unhealthy");
        self.steps.iter().any(|step| is_such(&step.value))
    }

    /// All text of its steps: sentences, table cells, doc strings and referenced fixtures.
    fn texts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let file = |step: &gherkin::Step| {
            let named = ["the manifest \"", "the fleet \""];
            let rest = named.iter().find_map(|words| step.value.strip_prefix(words))?;
            let name = rest.split('"').next()?;
            std::fs::read_to_string(self.base_folder().join("fixtures").join(name))
                .ok()
                .map(Cow::Owned)
        };
        self.steps.iter().flat_map(move |step| {
            let rows = step.table.iter().flat_map(|table| &table.rows).flatten();
            let own = rows.chain(step.docstring.as_ref()).chain([&step.value]);
            own.map(|text| Cow::Borrowed(text.as_str())).chain(file(step))
        })
    }

    /// Whether it uses the scheduler's webhooks.
    pub fn needs_webhooks(&self) -> bool {
        self.steps.iter().any(|step| step.value.contains("webhooks are asked"))
    }

    /// Why it cannot run in real time, derived from its steps; `None` when it can.
    pub fn needs_virtual_time(&self) -> Option<String> {
        let dies = |step: &gherkin::Step| {
            step.value.starts_with("node \"") && step.value.ends_with(" dies")
        };
        let longest = self.longest_wait();
        if longest.mul_f64(TIME_FACTOR_MIN) > WAIT_MAX {
            return Some(format!("it waits for {} minutes", longest.as_secs() / 60));
        }
        let lost = self.steps.iter().any(dies);
        lost.then(|| "Kubernetes gives up a node and its pods only after minutes".to_owned())
    }
}

/// Requirements that follow from tables of queues and workloads and from equivalent sentences.
fn table_requirements(step: &gherkin::Step) -> [(&'static str, bool); 6] {
    let contains = |words: &str| step.value.contains(words);
    let has = |column: &str| column_cells(step, column).next().is_some();
    let is_of_queues = step.value.starts_with("these queues");
    [
        (
            "non-preemptible",
            contains("non-preemptible")
                || column_cells(step, "preemptible").any(|cell| cell == "no"),
        ),
        ("queue-priority", contains("the priority of queue") || (is_of_queues && has("priority"))),
        (
            "min-runtime",
            contains("min runtime\"") || has("reclaim min runtime") || has("preempt min runtime"),
        ),
        ("elastic", is_elastic(step)),
        ("sub-groups", has("sub-groups")),
        ("podgrouper", column_cells(step, "kind").any(|kind| GROUPED_KINDS.contains(&kind))),
    ]
}

/// Kinds whose pods become a gang only through a pod grouper.
const GROUPED_KINDS: [&str; 6] =
    ["jobset", "trainjob", "pytorchjob", "raycluster", "rayjob", "leaderworkerset"];

/// The non-empty cells of a column of a step's table.
fn column_cells<'s>(step: &'s gherkin::Step, column: &str) -> impl Iterator<Item = &'s str> {
    let rows = step.table.as_ref().map_or(&[][..], |table| &table.rows);
    let at = rows.first().and_then(|header| header.iter().position(|name| name == column));
    let cells = rows.iter().skip(1).filter_map(move |row| row.get(at?));
    cells.map(String::as_str).filter(|cell| !cell.is_empty())
}

/// Whether a table contains a gang that can run with fewer pods than it has.
fn is_elastic(step: &gherkin::Step) -> bool {
    let Some(table) = &step.table else { return false };
    let Some((header, rows)) = table.rows.split_first() else { return false };
    let column = |name: &str| header.iter().position(|column| column == name);
    let (Some(min), Some(pods)) = (column("min"), column("pods")) else { return false };
    let count = |row: &[String], at: usize| row.get(at).and_then(|cell| cell.parse::<u32>().ok());
    rows.iter().any(|row| match (count(row, min), count(row, pods)) {
        (Some(min), Some(pods)) => min < pods,
        (Some(_) | None, _) => false,
    })
}

/// Whether the manifest below a step creates a PodGroup.
fn creates_pod_groups(step: &gherkin::Step) -> bool {
    step.docstring.as_ref().is_some_and(|text| text.contains("kind: PodGroup"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::features::load_text;

    #[test]
    fn the_longest_wait_uses_the_duration_syntax_of_steps() {
        let waits = |step: &str| {
            let text = format!("Feature: f\n  Scenario: s\n    When {step}\n");
            load_text("f.feature", &text, crate::steps::catalogue::is_step).unwrap()[0]
                .longest_wait()
        };
        let minutes = Duration::from_mins;
        assert_eq!(waits("90 seconds pass"), Duration::from_secs(90));
        assert_eq!(waits("1h30m pass"), minutes(90));
        assert_eq!(waits("1 hour 30 minutes pass"), minutes(90));
        assert_eq!(waits("eventually within 1h 30m it is so"), minutes(0));
    }
}
