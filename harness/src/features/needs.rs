//! What a case needs of the cluster and the scheduler it runs on, beyond what all have. Most of
//! it is said by its tags; what follows from its steps is read from them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;

use super::case::Case;
use crate::target::CAPABILITIES;

/// The tag of cases that only virtual time can run in a sensible time.
pub const VIRTUAL_TIME: &str = "virtual-time";

/// The tag of cases in which an API server asks the scheduler's webhooks. That of the emulator finds
/// them in this process; a real one where the scheduler is installed and its target says so.
pub const WEBHOOKS: &str = "webhooks";

/// In real time no case waits longer than this for one thing.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// The strongest shortening: below it the seconds of the API are too coarse.
const FACTOR_LEAST: f64 = 0.05;

impl Case {
    /// What a scheduler has to be able to do: by its tags, and by steps that ask for it.
    pub fn capabilities(&self) -> BTreeSet<&'static str> {
        let known = CAPABILITIES.iter().map(|(name, _)| *name);
        let mut needed: BTreeSet<&str> =
            known.filter(|name| self.tags.iter().any(|tag| tag == name)).collect();
        // Under profile `kube` words are kube-scheduler's.
        let profile = "scheduler profile \"kube\"";
        let is_kube = self.steps.iter().any(|step| step.value.contains(profile));
        for step in &self.steps {
            let text = &step.value;
            let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
            let quotes =
                |verb: &str| ['"', '\''].iter().any(|q| says(&[format!(" {verb} {q}").as_str()]));
            let shows = says(&["matches its snapshot", "match their snapshot"]);
            let asks = [
                (
                    "kai-words",
                    (!is_kube && ["because", "say", "says"].into_iter().any(quotes))
                        || says(&["was evicted", "were evicted", "has the annotation"])
                        || (shows && self.snapshot_tells_reasons()),
                ),
                (
                    "kai-settings",
                    says(&[
                        "scheduler's configuration",
                        "placement strategy",
                        "fair share",
                        "fairness over time",
                        "a default \"",
                    ]),
                ),
                ("snapshots", shows),
                ("kube-profile", says(&[profile])),
                ("faults", says(&["scheduler is st", "scheduler is restarted", "scheduler dies"])),
                ("gang", says(&["gang \""]) || makes_pod_groups(step)),
            ];
            let asks = asks.into_iter().chain(asks_of_tables(step));
            needed.extend(asks.filter(|(_, asked)| *asked).map(|(name, _)| name));
        }
        needed
    }

    /// Whether its snapshot tells why pods wait.
    fn snapshot_tells_reasons(&self) -> bool {
        let text = std::fs::read_to_string(self.snapshot()).unwrap_or_default();
        text.lines().any(|line| line == "pending")
    }

    /// The longest time that it has to wait through, for what it says. What shall happen within
    /// a time ends when it happens and does not count.
    pub fn longest_wait(&self) -> Duration {
        static TIMES: LazyLock<Regex> = LazyLock::new(|| {
            let pattern = format!("(?:^|[ |])(within )?({})(?:$|[ ,|])", crate::text::DURATION);
            Regex::new(&pattern).expect("a fixed pattern")
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

    /// What its durations are multiplied with in real time, so that it waits for a minute at
    /// most, as far as that can be.
    pub fn time_factor(&self) -> f64 {
        let longest = self.longest_wait();
        if longest <= WAIT_MAX {
            return 1.0;
        }
        (WAIT_MAX.as_secs_f64() / longest.as_secs_f64()).max(FACTOR_LEAST)
    }

    /// Whether it makes a Job, as JobSets and TrainJobs do, too.
    pub fn makes_jobs(&self) -> bool {
        static JOBS: LazyLock<Regex> = LazyLock::new(|| {
            let pattern =
                r"(?m)^\s*(?:- )?kind: *(?:Job|JobSet|TrainJob)\s*$|^(?:job|jobset|trainjob)$";
            Regex::new(pattern).expect("a fixed pattern")
        });
        self.texts().any(|text| JOBS.is_match(&text))
    }

    /// Whether it tells how long pods take to start or to stop.
    pub fn times_pods(&self) -> bool {
        static TIMES: LazyLock<Regex> = LazyLock::new(|| {
            let pattern = r"(?m)\b(?:starting|terminating)\b|schedlab\.dev/(?:startup|termination)|\b(?:startup|termination): |^(?:startup|termination)$";
            Regex::new(pattern).expect("a fixed pattern")
        });
        self.texts().any(|text| TIMES.is_match(&text))
    }

    /// What its steps say, with their cells, the manifests below them, and those of files.
    fn texts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let file = |step: &gherkin::Step| {
            let named = ["the manifest \"", "the fleet \""];
            let rest = named.iter().find_map(|words| step.value.strip_prefix(words))?;
            let name = rest.split('"').next()?;
            std::fs::read_to_string(self.base().join("fixtures").join(name)).ok().map(Cow::Owned)
        };
        self.steps.iter().flat_map(move |step| {
            let rows = step.table.iter().flat_map(|table| &table.rows).flatten();
            let own = rows.chain(step.docstring.as_ref()).chain([&step.value]);
            own.map(|text| Cow::Borrowed(text.as_str())).chain(file(step))
        })
    }

    /// Whether webhooks are asked in it.
    pub fn needs_webhooks(&self) -> bool {
        self.steps.iter().any(|step| step.value.contains("webhooks are asked"))
    }

    /// Why it cannot run in real time, when its steps show it.
    pub fn needs_virtual_time(&self) -> Option<String> {
        let dies = |step: &gherkin::Step| {
            step.value.starts_with("node \"") && step.value.ends_with(" dies")
        };
        let longest = self.longest_wait();
        if longest.mul_f64(FACTOR_LEAST) > WAIT_MAX {
            return Some(format!("it waits for {} minutes", longest.as_secs() / 60));
        }
        let lost = self.steps.iter().any(dies);
        lost.then(|| "a node is given up, and its pods, in Kubernetes' own minutes".to_owned())
    }
}

/// What tables of queues and workloads, and sentences that say the same, ask for.
fn asks_of_tables(step: &gherkin::Step) -> [(&'static str, bool); 6] {
    let says = |words: &str| step.value.contains(words);
    let has = |column: &str| cells(step, column).next().is_some();
    let is_of_queues = step.value.starts_with("these queues");
    [
        (
            "non-preemptible",
            says("non-preemptible") || cells(step, "preemptible").any(|cell| cell == "no"),
        ),
        ("queue-priority", says("the priority of queue") || (is_of_queues && has("priority"))),
        (
            "min-runtime",
            says("min runtime\"") || has("reclaim min runtime") || has("preempt min runtime"),
        ),
        ("elastic", is_elastic(step)),
        ("sub-groups", has("sub-groups")),
        ("podgrouper", cells(step, "kind").any(|kind| GROUPED.contains(&kind))),
    ]
}

/// Kinds whose pods are a gang, as whoever makes groups for them says.
const GROUPED: [&str; 3] = ["jobset", "trainjob", "pytorchjob"];

/// What stands in a column of a step's table, where something does.
fn cells<'s>(step: &'s gherkin::Step, column: &str) -> impl Iterator<Item = &'s str> {
    let rows = step.table.as_ref().map_or(&[][..], |table| &table.rows);
    let at = rows.first().and_then(|header| header.iter().position(|name| name == column));
    let cells = rows.iter().skip(1).filter_map(move |row| row.get(at?));
    cells.map(String::as_str).filter(|cell| !cell.is_empty())
}

/// Whether a gang of a table runs with fewer pods than it has.
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

/// Whether a manifest below a step makes a gang.
fn makes_pod_groups(step: &gherkin::Step) -> bool {
    step.docstring.as_ref().is_some_and(|text| text.contains("kind: PodGroup"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::features::load_text;

    #[test]
    fn the_longest_wait_is_read_as_steps_read_it() {
        let waits = |step: &str| {
            let text = format!("Feature: f\n  Scenario: s\n    When {step}\n");
            load_text("f.feature", &text).unwrap()[0].longest_wait()
        };
        let minutes = Duration::from_mins;
        assert_eq!(waits("90 seconds pass"), Duration::from_secs(90));
        assert_eq!(waits("1h30m pass"), minutes(90));
        assert_eq!(waits("1 hour 30 minutes pass"), minutes(90));
        assert_eq!(waits("eventually within 1h 30m it is so"), minutes(0));
    }
}
