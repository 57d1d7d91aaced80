//! Requirements of a case on the cluster and on time. Most come from its tags; the others are derived
//! from its steps.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use schedlab_emulator::{KubernetesVersion, feature_gates};

use super::case::Case;
use crate::schedulers::CAPABILITIES_AND_MEANINGS;

/// Tag of cases that would take too long in real time.
pub const VIRTUAL_TIME_TAG: &str = "virtual-time";

/// Tag of cases in which the API server calls the scheduler's webhooks. The emulator reaches the
/// webhooks in this process; a real API server needs an installed scheduler whose target file
/// declares them.
pub const WEBHOOKS_TAG: &str = "webhooks";

/// Tag of cases whose claims take devices of a node. On a cluster that several scenarios share,
/// such cases run one after the other.
pub const CLAIMS_TAG: &str = "claims";

/// The tag with a meaning that `tag` most likely means. `None` if `tag` is itself such a tag, if it
/// seems to be a tag of the user's own, or if it is too short to tell.
pub(super) fn misspelt_tag(tag: &str) -> Option<&'static str> {
    if tag.chars().count() < 4 {
        return None;
    }
    let known = || {
        CAPABILITIES_AND_MEANINGS
            .iter()
            .map(|(name, _)| *name)
            .chain([VIRTUAL_TIME_TAG, CLAIMS_TAG])
    };
    if known().any(|name| name == tag) { None } else { crate::text::nearest_word(tag, known()) }
}

/// In real time no case waits longer than this for one condition: durations are scaled accordingly.
const REAL_WAIT_MAX: Duration = Duration::from_mins(1);

/// The smallest factor for durations in real time: below it, API fields in whole seconds are too
/// coarse.
const REAL_TIME_FACTOR_MIN: f64 = 0.05;

impl Case {
    /// The feature gates of Kubernetes that the case requires: the tags that name one.
    pub fn feature_gates(&self) -> BTreeSet<&'static str> {
        let of_version = |version| feature_gates::known(version).keys().copied();
        let known = KubernetesVersion::ALL.into_iter().flat_map(of_version);
        known.filter(|gate| self.tags.iter().any(|tag| tag == gate)).collect()
    }

    /// The oldest version of Kubernetes that has what the case needs: its tag `@kubernetes-1.37`.
    pub fn min_kubernetes_version(&self) -> Option<KubernetesVersion> {
        let mut newest_first = KubernetesVersion::ALL.into_iter().rev();
        newest_first.find(|version| self.has_version_tag(*version))
    }

    fn has_version_tag(&self, version: KubernetesVersion) -> bool {
        self.tags.iter().any(|tag| *tag == format!("kubernetes-{version}"))
    }

    /// The longest time that a step of the case must wait through. An `eventually within` does not
    /// count, because it ends as soon as its condition holds.
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
                let times = waits.filter_map(|found| crate::text::parse_duration(&found[2]).ok());
                longest = times.fold(longest, Duration::max);
            }
        }
        longest
    }

    /// The factor for the case's durations in real time, chosen so that the longest wait is at most
    /// a minute, if possible.
    pub(crate) fn real_time_factor(&self) -> f64 {
        let longest = self.longest_wait();
        if longest <= REAL_WAIT_MAX {
            return 1.0;
        }
        (REAL_WAIT_MAX.as_secs_f64() / longest.as_secs_f64()).max(REAL_TIME_FACTOR_MIN)
    }

    /// Whether the case creates a Job, directly or through a JobSet, TrainJob or RayJob.
    pub fn creates_jobs(&self) -> bool {
        static JOBS: LazyLock<Regex> = LazyLock::new(|| {
            let pattern = r"(?m)^\s*(?:- )?kind: *(?:Job|JobSet|TrainJob|RayJob)\s*$|^(?:job|jobset|trainjob|rayjob)$";
            Regex::new(pattern).expect("the pattern is valid")
        });
        self.step_texts().any(|text| JOBS.is_match(&text))
    }

    /// Whether the case depends on how long pods take to start or terminate.
    pub fn depends_on_pod_timing(&self) -> bool {
        static TIMES: LazyLock<Regex> = LazyLock::new(|| {
            let pattern = r"(?m)\b(?:starting|terminating)\b|schedlab\.dev/(?:startup|termination)|\b(?:startup|termination): |^(?:startup|termination)$";
            Regex::new(pattern).expect("the pattern is valid")
        });
        self.step_texts().any(|text| TIMES.is_match(&text))
    }

    /// Whether GPUs of a node become unhealthy in the case.
    pub fn changes_gpu_health(&self) -> bool {
        let is_such = |text: &str| text.contains("GPU") && text.contains(" unhealthy");
        self.steps.iter().any(|step| is_such(&step.value))
    }

    /// All texts of the case's steps: sentences, table cells, doc strings and referenced fixtures.
    pub(super) fn step_texts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let file = |step: &gherkin::Step| {
            let named = ["the manifest \"", "the fleet \""];
            let rest = named.iter().find_map(|words| step.value.strip_prefix(words))?;
            let name = rest.split('"').next()?;
            self.files.read_text(&self.fixture_path(name)).ok().map(Cow::Owned)
        };
        self.steps.iter().flat_map(move |step| {
            let rows = step.table.iter().flat_map(|table| &table.rows).flatten();
            let own = rows.chain(step.docstring.as_ref()).chain([&step.value]);
            own.map(|text| Cow::Borrowed(text.as_str())).chain(file(step))
        })
    }

    /// Whether the case stops, starts or kills the scheduler.
    pub fn stops_the_scheduler(&self) -> bool {
        let words = ["scheduler is st", "scheduler is restarted", "scheduler dies"];
        self.steps.iter().any(|step| words.iter().any(|words| step.value.contains(words)))
    }

    /// Whether the case's times are those of the scheduler's own timers: for how long it protects or
    /// spares a pod, or remembers usage. Shortening the scenario alone would change what it claims.
    pub(crate) fn concerns_scheduler_timers(&self) -> bool {
        let timers = ["stale-gangs", "min-runtime", "time-based-fairness"];
        let needed = self.required_capabilities();
        timers.iter().any(|timer| needed.contains(timer))
    }

    /// Whether the case uses profile `kube`, under which our scheduler decides and speaks as
    /// kube-scheduler does.
    pub fn uses_kube_profile(&self) -> bool {
        self.steps.iter().any(|step| step.value.contains("scheduler profile \"kube\""))
    }

    /// Whether the case uses the scheduler's webhooks.
    pub fn needs_webhooks(&self) -> bool {
        self.steps.iter().any(|step| step.value.contains("webhooks are asked"))
    }

    /// Why the case cannot run in real time, derived from its steps; `None` if it can.
    pub fn virtual_time_reason(&self) -> Option<String> {
        let dies = |step: &gherkin::Step| {
            step.value.starts_with("node \"") && step.value.ends_with(" dies")
        };
        let longest = self.longest_wait();
        if longest.mul_f64(REAL_TIME_FACTOR_MIN) > REAL_WAIT_MAX {
            return Some(format!("the scenario waits for {} minutes", longest.as_secs() / 60));
        }
        let lost = self.steps.iter().any(dies);
        lost.then(|| "Kubernetes gives up a node and its pods only after minutes".to_owned())
    }
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
