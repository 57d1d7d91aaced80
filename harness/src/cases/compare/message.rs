//! Why a job waits, as recorded and as told here. The two are not the same text, as ours names one
//! reason and its remedy; what stands in KAI's of kind, names and figures has to stand in ours.

use std::sync::LazyLock;

use regex::Regex;
use schedlab_scheduler_core::{Plan, decision::Reason, model::PodGroupId};

use super::super::format::Case;

/// What tells one recorded reason from another. Ours has the same words for it.
static TELLING: LazyLock<Regex> = LazyLock::new(|| {
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

/// The word by which clients know the reason.
static CODE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"Reason: (\w+)").expect("a regular expression"));

/// What is said of a queue's bounds where single nodes are too costly for them.
const IN_WORDS: [(&str, &str); 2] = [
    ("NonPreemptibleOverQuota", "Non-preemptible workload is over quota"),
    ("OverLimit", "quota has reached the allowable limit"),
];

const NOWHERE: &str = "Resources were not found for pod";

/// Where what jobs are told differs from what the case expects, one line each.
pub(in super::super) fn differences(case: &Case, plan: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    for (job, at) in case.jobs.iter().zip(0..) {
        let recorded =
            case.expected.jobs.get(&job.name).and_then(|outcome| outcome.message.as_deref());
        let Some(recorded) = recorded else { continue };
        let ours = plan.waiting.get(&PodGroupId(at));
        let text = ours.map(ToString::to_string).unwrap_or_default();
        let missing = missing(recorded, ours, &text);
        found.extend(missing.map(|what| format!("{}: {what:?} is not told: {text:?}", job.name)));
    }
    found
}

/// The first thing of the recorded text that ours does not tell.
fn missing(recorded: &str, ours: Option<&Reason>, text: &str) -> Option<String> {
    let code = ours.map_or("", Reason::code);
    let mut codes = CODE.captures_iter(recorded).map(|found| found[1].to_owned()).peekable();
    let mut phrases = TELLING.find_iter(recorded).map(|found| found.as_str()).peekable();
    if codes.peek().is_none() && phrases.peek().is_none() {
        let is_told = recorded.contains(NOWHERE) && text.contains(NOWHERE);
        return (!is_told).then(|| recorded.to_owned());
    }
    let is_told = |wanted: &String| {
        let words = IN_WORDS.iter().find(|(code, _)| code == wanted);
        wanted == code || words.is_some_and(|(_, words)| text.contains(words))
    };
    let other_code = codes.find(|wanted| !is_told(wanted));
    other_code.or_else(|| phrases.find(|phrase| !text.contains(*phrase)).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use schedlab_scheduler_core::{decision::Quantity, resources::ResourceName};

    use super::*;

    #[test]
    fn kind_names_and_figures_have_to_be_told() {
        let gpus = |amount| Quantity { resource: ResourceName::Gpu, amount };
        let reason = Reason::NonPreemptibleOverQuota {
            queue: "q0".into(),
            quota: gpus(500),
            allocated: gpus(0),
            requested: gpus(590),
            with_more: false,
        };
        let missing = |text: &str| missing(text, Some(&reason), &reason.to_string());
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
