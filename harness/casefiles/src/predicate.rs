//! Claims about a replayed case, in words: `gang team-a/train pending because OverLimit`.

use std::{collections::BTreeSet, fmt, str::FromStr};

use schedlab_scheduler::replay::{Replay, ReplayedDecision, ReplayedPod, WaitingGroup};

/// A claim about a case: what a workload or queue does in a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicate {
    /// What the claim is about.
    pub subject: Subject,
    /// Name of the subject, with or without namespace.
    pub name: String,
    /// The claimed state.
    pub state: State,
    /// A part of the reason or its code; empty if any reason will do.
    pub because: String,
}

/// What a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A pod group: `gang`, `workload` or `podgroup`.
    Gang,
    /// A single pod.
    Pod,
    /// All pod groups of a queue.
    Queue,
}

/// The claimed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// At least one pod has no node at the end.
    Pending,
    /// All pods have a node at the end.
    Placed,
    /// At least one pod is evicted.
    Evicted,
}

const EXPECTED: &str = "gang|workload|pod|queue NAME pending|placed|evicted [because TEXT]";

/// The result of judging a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The claim holds. For pending subjects with the reason.
    Holds(String),
    /// The claim does not hold, with what was found.
    Fails(String),
}

impl FromStr for Predicate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |found: &str| format!("got {found}, expected {EXPECTED}");
        let (claim, because) = text.split_once(" because ").unwrap_or((text, ""));
        let words: Vec<&str> = claim.split_whitespace().filter(|word| *word != "is").collect();
        let [subject, name, state] = words.as_slice() else { return Err(wrong(text)) };
        let subject = match *subject {
            "gang" | "workload" | "podgroup" => Subject::Gang,
            "pod" => Subject::Pod,
            "queue" => Subject::Queue,
            other => return Err(wrong(other)),
        };
        let state = match *state {
            "pending" => State::Pending,
            "placed" | "running" => State::Placed,
            "evicted" => State::Evicted,
            other => return Err(wrong(other)),
        };
        if !because.is_empty() && state != State::Pending {
            return Err(format!("got because beside {}, expected it beside pending", words[2]));
        }
        let because = because.trim().trim_matches('"').to_owned();
        Ok(Self { subject, name: name.trim_matches('"').to_owned(), state, because })
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = match self.subject {
            Subject::Gang => "gang",
            Subject::Pod => "pod",
            Subject::Queue => "queue",
        };
        let state = match self.state {
            State::Pending => "pending",
            State::Placed => "placed",
            State::Evicted => "evicted",
        };
        write!(f, "{subject} {} {state}", self.name)?;
        if self.because.is_empty() { Ok(()) } else { write!(f, " because {}", self.because) }
    }
}

impl Predicate {
    /// Judges the claim over a replay.
    pub fn judge(&self, replay: &Replay) -> Verdict {
        let pods: Vec<&ReplayedPod> = replay.pods.iter().filter(|pod| self.is_about(pod)).collect();
        if pods.is_empty() {
            return Verdict::Fails(self.not_found_message(replay));
        }
        match self.state {
            State::Pending => self.judge_pending(replay, &pods),
            State::Placed => {
                let pending = pending_pods(replay, &pods);
                match pending.len() {
                    0 => Verdict::Holds(format!("all {} pods have a node", pods.len())),
                    count => {
                        let reason = self.reasons(replay).next().map(reason_text);
                        let reason = reason.map_or_else(String::new, |it| format!(": {it}"));
                        let all = pods.len();
                        Verdict::Fails(format!("{count} of {all} pods are pending{reason}"))
                    }
                }
            }
            State::Evicted => {
                let evictions = evicted_pods(replay);
                let evicted = pods.iter().filter(|pod| evictions.contains(&*pod_key(pod))).count();
                if evicted == 0 {
                    Verdict::Fails("none of its pods is evicted".to_owned())
                } else {
                    Verdict::Holds(format!("{evicted} of {} pods are evicted", pods.len()))
                }
            }
        }
    }

    /// Whether the claim holds over a replay.
    pub fn holds(&self, replay: &Replay) -> bool {
        matches!(self.judge(replay), Verdict::Holds(_))
    }

    /// The pod groups of the subject that are pending in a replay.
    pub fn reasons<'r>(&'r self, replay: &'r Replay) -> impl Iterator<Item = &'r WaitingGroup> {
        let group_of_pod = replay.pods.iter().find(|pod| self.is_about(pod));
        let group_of_pod = group_of_pod.filter(|_| self.subject == Subject::Pod);
        replay.waiting.iter().filter(move |group| match self.subject {
            Subject::Gang => matches_name(&self.name, &group.namespace, &group.name),
            Subject::Queue => group.queue.as_deref() == Some(&self.name),
            Subject::Pod => group_of_pod.is_some_and(|pod| {
                pod.namespace == group.namespace && pod.group.as_ref() == Some(&group.name)
            }),
        })
    }

    fn judge_pending(&self, replay: &Replay, pods: &[&ReplayedPod]) -> Verdict {
        if pending_pods(replay, pods).is_empty() {
            return Verdict::Fails(format!("all {} pods have a node", pods.len()));
        }
        let said: Vec<(String, bool)> =
            self.reasons(replay)
                .map(|group| (reason_text(group), self.is_reason(&[group.code, &group.message])))
                .chain(unschedulable(replay, pods).map(|(pod, message)| {
                    (format!("{pod}: {message}"), self.is_reason(&[message]))
                }))
                .collect();
        match said.iter().find(|(_, is_it)| *is_it).or(said.first()) {
            Some((reason, true)) => Verdict::Holds(reason.clone()),
            Some((reason, false)) => Verdict::Fails(format!("it is pending because {reason}")),
            // Pods that the last cycle will bind, or that nothing decides about.
            None if self.because.is_empty() => Verdict::Fails("no reason is known".to_owned()),
            None => Verdict::Fails("it is pending, and no reason is known".to_owned()),
        }
    }

    fn is_reason(&self, texts: &[&str]) -> bool {
        texts.iter().any(|text| text.contains(&self.because))
    }

    fn is_about(&self, pod: &ReplayedPod) -> bool {
        match self.subject {
            Subject::Gang => pod
                .group
                .as_ref()
                .is_some_and(|group| matches_name(&self.name, &pod.namespace, group)),
            Subject::Pod => matches_name(&self.name, &pod.namespace, &pod.name),
            Subject::Queue => pod.queue.as_deref() == Some(&self.name),
        }
    }

    fn not_found_message(&self, replay: &Replay) -> String {
        let mut known: Vec<&str> = replay
            .pods
            .iter()
            .filter_map(|pod| match self.subject {
                Subject::Gang => pod.group.as_deref(),
                Subject::Pod => Some(&*pod.name),
                Subject::Queue => pod.queue.as_deref(),
            })
            .collect();
        known.sort_unstable();
        known.dedup();
        let more = if known.len() > 8 { ", …" } else { "" };
        let known: Vec<&str> = known.into_iter().take(8).collect();
        format!("got {}, expected one of {}{more}", self.name, known.join(", "))
    }
}

/// Pods that have no node at the end: the last cycle binds some of those that wait.
fn pending_pods<'r>(replay: &Replay, pods: &[&'r ReplayedPod]) -> Vec<&'r ReplayedPod> {
    let last = replay.cycles.last().into_iter().flatten();
    let bound: BTreeSet<&str> = last
        .filter_map(|decision| match decision {
            ReplayedDecision::Bind { pod, .. } => Some(&**pod),
            ReplayedDecision::Pipeline { .. } | ReplayedDecision::Evict { .. } => None,
        })
        .collect();
    let broken: BTreeSet<&str> = replay.unschedulable.iter().map(|it| &*it.pod).collect();
    let waits = |pod: &&&ReplayedPod| {
        let key = pod_key(pod);
        (pod.is_pending || broken.contains(&*key)) && !bound.contains(&*key)
    };
    pods.iter().filter(waits).copied().collect()
}

fn unschedulable<'r>(
    replay: &'r Replay,
    pods: &[&ReplayedPod],
) -> impl Iterator<Item = (&'r str, &'r str)> {
    let keys: BTreeSet<String> = pods.iter().map(|pod| pod_key(pod)).collect();
    let broken = replay.unschedulable.iter().filter(move |it| keys.contains(&it.pod));
    broken.map(|it| (&*it.pod, &*it.message))
}

/// The reason of a pending pod group without names and numbers: two reasons with one template say the
/// same about different clusters.
pub fn reason_template(group: &WaitingGroup, replay: &Replay) -> String {
    let word = |word: &str| {
        let is_number = word.contains(|c: char| c.is_ascii_digit());
        if is_number || is_name(word, replay) {
            return "#".to_owned();
        }
        // One pod, two pods.
        word.trim_end_matches(|c: char| !c.is_alphanumeric()).trim_end_matches('s').to_owned()
    };
    let words: Vec<String> = group.message.split_whitespace().map(word).collect();
    format!("{}: {}", group.code, words.join(" "))
}

/// The longest part of the reason of a pending pod group that names no object of a namespace and no
/// node: a feature gives such objects other names.
pub fn nameless_reason<'r>(group: &'r WaitingGroup, replay: &Replay) -> &'r str {
    let message = group.message.as_str();
    let words = message.split_whitespace().filter_map(|word| {
        // The position of the word in the message.
        let start = word.as_ptr() as usize - message.as_ptr() as usize;
        let plain = plain_word(word);
        let is_local = replay.pods.iter().any(|pod| {
            plain == pod.name
                || plain == pod_key(pod)
                || pod.node.as_deref() == Some(plain)
                || pod.namespace == plain
        });
        (is_local || word.contains('"')).then_some((start, start + word.len()))
    });
    let mut parts = Vec::new();
    let mut from = 0;
    for (start, end) in words {
        parts.extend(message.get(from..start));
        from = end;
    }
    parts.extend(message.get(from..));
    let longest = parts.into_iter().map(str::trim).max_by_key(|part| part.len());
    longest.unwrap_or_default()
}

/// A word without the punctuation around it.
fn plain_word(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// Whether a word names an object of the replayed cluster.
fn is_name(word: &str, replay: &Replay) -> bool {
    let word = plain_word(word);
    word.contains('/')
        || replay.pods.iter().any(|pod| {
            [pod.group.as_deref(), pod.queue.as_deref(), pod.node.as_deref()].contains(&Some(word))
                || pod.name == word
                || pod.namespace == word
        })
        || replay.waiting.iter().any(|group| group.queue.as_deref() == Some(word))
}

fn evicted_pods(replay: &Replay) -> BTreeSet<&str> {
    let all = replay.cycles.iter().flatten();
    all.filter_map(|decision| match decision {
        ReplayedDecision::Evict { pod, .. } => Some(&**pod),
        ReplayedDecision::Bind { .. } | ReplayedDecision::Pipeline { .. } => None,
    })
    .collect()
}

fn reason_text(group: &WaitingGroup) -> String {
    format!("{}: {}", group.code, group.message)
}

fn pod_key(pod: &ReplayedPod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// Whether `name` names the object: `namespace/name`, or the name alone.
fn matches_name(name: &str, namespace: &str, object: &str) -> bool {
    match name.split_once('/') {
        Some((own, name)) => own == namespace && name == object,
        None => name == object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_parsed_and_written_alike() {
        let same = |text: &str| text.parse::<Predicate>().map_or_else(|e| e, |it| it.to_string());
        insta::assert_snapshot!(same("gang a/train is pending because OverLimit"), @"gang a/train pending because OverLimit");
        insta::assert_snapshot!(same("queue \"team\" running"), @"queue team placed");
        insta::assert_snapshot!(same("gang train sleeps"), @"got sleeps, expected gang|workload|pod|queue NAME pending|placed|evicted [because TEXT]");
        insta::assert_snapshot!(same("train pending"), @"got train pending, expected gang|workload|pod|queue NAME pending|placed|evicted [because TEXT]");
        insta::assert_snapshot!(same("pod p evicted because of it"), @"got because beside evicted, expected it beside pending");
    }
}
