//! Compares pending messages with the recorded ones. The texts differ, because ours gives one
//! reason with a suggestion; the kind, names and figures of KAI's must appear in ours.

use std::sync::LazyLock;

use regex::Regex;
use schedlab_scheduler_core::{Plan, model::PodGroupId, reason::Reason};

use super::super::format::Case;

/// Phrases that tell the reasons in KAI's recorded messages apart. Our message must contain the
/// same phrases.
static DISTINGUISHING: LazyLock<Regex> = LazyLock::new(|| {
    let phrases = [
        r"\S+ quota is \S+ [A-Za-z ]+, while \S+ [A-Za-z ]+ are already allocated",
        r"\S+ quota has reached the allowable limit of \w+",
        r"Limit is \S+ \w+, currently \S+ \w+ allocated",
        r"node-group \S+ can allocate only \d+ of \d+ required pods",
        r"topology \S+, requirement \S+ couldn't be satisfied",
        r"Resources were found for \d+ pods while \d+ are required for gang scheduling",
        r"Resources were found for \d+ pods from all sub-groups while sub-group \S+ requires \d+ pods",
        r"Waiting for \d+ pods",
        r"Queue '\S+' does not exist",
    ];
    Regex::new(&phrases.join("|")).expect("a regular expression")
});

/// The reason code in a recorded message: `Reason: CODE`.
static CODE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"Reason: (\w+)").expect("a regular expression"));

/// Reason codes for recorded messages without a code, which are recognized by a phrase about a
/// queue limit.
const PHRASES_BY_CODE: [(&str, &str); 2] = [
    ("NonPreemptibleOverQuota", "Non-preemptible workload is over quota"),
    ("OverLimit", "quota has reached the allowable limit"),
];

const NO_RESOURCES: &str = "Resources were not found for pod";

/// Differences between our pending messages and the expected ones, one per line.
pub(in super::super) fn message_differences(case: &Case, plan: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    for (job, at) in case.jobs.iter().zip(0..) {
        let recorded =
            case.expected.jobs.get(&job.name).and_then(|outcome| outcome.message.as_deref());
        let Some(recorded) = recorded else { continue };
        let ours = plan.waiting.get(&PodGroupId(at));
        let text = ours.map(ToString::to_string).unwrap_or_default();
        let missing = first_missing_phrase(recorded, ours, &text);
        found.extend(
            missing.map(|what| format!("{}: the message lacks {what:?}: {text:?}", job.name)),
        );
    }
    found
}

/// The first phrase or reason code of the recorded message that our message lacks.
fn first_missing_phrase(recorded: &str, ours: Option<&Reason>, text: &str) -> Option<String> {
    let code = ours.map_or("", Reason::code);
    let mut codes = CODE.captures_iter(recorded).map(|found| found[1].to_owned()).peekable();
    let mut phrases = DISTINGUISHING.find_iter(recorded).map(|found| found.as_str()).peekable();
    if codes.peek().is_none() && phrases.peek().is_none() {
        let is_contained = recorded.contains(NO_RESOURCES) && text.contains(NO_RESOURCES);
        return (!is_contained).then(|| recorded.to_owned());
    }
    let is_contained = |code_expected: &String| {
        let words = PHRASES_BY_CODE.iter().find(|(code, _)| code == code_expected);
        code_expected == code || words.is_some_and(|(_, words)| text.contains(words))
    };
    let other_code = codes.find(|code_expected| !is_contained(code_expected));
    other_code.or_else(|| phrases.find(|phrase| !text.contains(*phrase)).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use schedlab_scheduler_core::{reason::Quantity, resources::ResourceName};

    use super::*;

    #[test]
    fn the_message_contains_the_recorded_kind_names_and_figures() {
        let gpus = |amount| Quantity { resource: ResourceName::Gpu, amount };
        let reason = Reason::NonPreemptibleOverQuota {
            queue: "q0".into(),
            quota: gpus(500),
            allocated: gpus(0),
            requested: gpus(590),
            other_bounds_too_low: false,
        };
        let missing = |text: &str| first_missing_phrase(text, Some(&reason), &reason.to_string());
        let text = "1 node does not have enough capacity. Reason: NonPreemptibleOverQuota, Details: \
                    requested 0.88 GPUs, but q0 quota is 0.5 GPUs, while 0 GPUs are already allocated";
        assert_eq!(missing(text), None);
        for (word, other) in
            [("NonPreemptibleOverQuota", "OverLimit"), ("q0", "q1"), ("0.5", "0.6")]
        {
            assert!(missing(&text.replace(word, other)).is_some(), "{other}");
        }
        assert!(missing("topology t, requirement rack couldn't be satisfied").is_some());
        assert!(missing("something else").is_some());
        assert!(missing("Resources were not found for pod /a").is_some(), "it is another reason");
    }
}
