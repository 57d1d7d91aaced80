//! Finds the invalid value in a sentence that otherwise matches a step's pattern, and says what is
//! expected there: the parameter types of steps, with their syntax in words.

use cucumber::codegen::{Parameter, Regex};

use crate::steps::parameters::{
    Count, DurationValue, NodeState, PodCounts, QueueAmount, QueueField, Resource, StableCycles,
    Timing, WorkloadState,
};
use crate::steps::subjects::{Subject, Workload};

/// A parameter type of step patterns, and the values that are valid for it.
#[derive(Clone, Copy, Debug)]
struct SyntaxHelp {
    /// Name of the type in patterns.
    name: &'static str,
    /// Regular expression of valid values.
    regex: &'static str,
    /// The valid values in words, to be read after `expected`.
    description: &'static str,
}

/// All parameter types of step patterns.
const SYNTAX_HELP: [SyntaxHelp; 15] = [
    for_parameter::<DurationValue>("a duration such as 90 seconds, 10m or 2 hours"),
    for_parameter::<Timing>(
        "`eventually within`, `never within`, `after` or `for` with a duration, `now`, or nothing",
    ),
    for_parameter::<StableCycles>("`and stays so for N cycles`, or nothing"),
    for_parameter::<Count>("a whole number or `no`, optionally after `at least` or `at most`"),
    for_parameter::<PodCounts>(
        "pod counts, optionally by state (running, pending, gated, starting, terminating, \
         succeeded, failed), such as `8 running and 4 pending pods` or `no pods`",
    ),
    for_parameter::<WorkloadState>(
        "running, pending, gated, starting, terminating, succeeded, failed or gone",
    ),
    for_parameter::<NodeState>("ready, not ready, cordoned or gone"),
    for_parameter::<QueueField>(
        "quota, weight or limit, optionally after `cpu` or `memory`, or \
        priority",
    ),
    for_parameter::<QueueAmount>("a number, `unlimited` or `unset`"),
    for_parameter::<Resource>("GPUs, CPU cores or GB of memory"),
    for_parameter::<Subject>(
        "`the cluster`, or queue, namespace, node, claim or a workload kind with a name in quotes",
    ),
    for_parameter::<Workload>("a workload kind (or `workload`) with a name in quotes"),
    SyntaxHelp { name: "int", regex: "-?[0-9]+", description: "a whole number" },
    SyntaxHelp { name: "float", regex: "-?[0-9]*[.]?[0-9]+", description: "a number" },
    SyntaxHelp { name: "string", regex: "\"[^\"]*\"|'[^']*'", description: "text in quotes" },
];

const fn for_parameter<P: Parameter>(words: &'static str) -> SyntaxHelp {
    SyntaxHelp { name: P::NAME, regex: P::REGEX, description: words }
}

/// A part of a step pattern.
#[derive(Clone, Copy, Debug)]
enum PatternPart<'p> {
    /// A parameter, by its type name.
    Value(&'p str),
    /// Literal text between two parameters.
    Literal(&'p str),
}

/// The message for the first invalid value in a sentence; `None` unless everything else matches the
/// pattern.
pub(super) fn invalid_value_message(text: &str, pattern: &str) -> Option<String> {
    let parts = pattern_parts(pattern);
    let values = parts.iter().enumerate().filter_map(|(at, part)| match part {
        PatternPart::Value(name) => Some((at, *name)),
        PatternPart::Literal(_) => None,
    });
    for (at, name) in values {
        let allowed = SYNTAX_HELP.iter().find(|allowed| allowed.name == name)?;
        let found = text_matching_part(text, &parts, at);
        if let Some(found) = found.as_deref().map(str::trim).filter(|found| !found.is_empty()) {
            let words = allowed.description;
            return Some(format!("got `{found}` for {{{name}}}, expected {words}"));
        }
    }
    None
}

fn pattern_parts(pattern: &str) -> Vec<PatternPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some((words, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        parts.extend([PatternPart::Literal(words), PatternPart::Value(name)]);
        rest = after;
    }
    parts.push(PatternPart::Literal(rest));
    parts
}

/// The text of a sentence in place of the parameter at this position; `None` if the other parts do
/// not match.
fn text_matching_part(text: &str, parts: &[PatternPart<'_>], part_index: usize) -> Option<String> {
    let part = |(at, part): (usize, &PatternPart<'_>)| match part {
        PatternPart::Value(_) if at == part_index => "(.+)".to_owned(),
        PatternPart::Value(name) => {
            let known = SYNTAX_HELP.iter().find(|allowed| allowed.name == *name);
            format!("(?:{})", known.map_or(".+", |allowed| allowed.regex))
        }
        PatternPart::Literal(words) => literal_words_regex(words),
    };
    let regex: String = parts.iter().enumerate().map(part).collect();
    let captures = Regex::new(&format!("^{regex}$")).ok()?.captures(text)?;
    Some(captures.get(1)?.as_str().to_owned())
}

/// The regular expression for the literal words of a pattern: `(s)` is optional, and `is/are`
/// matches either word.
fn literal_words_regex(words: &str) -> String {
    let word = |word: &str| {
        let either = word
            .split('/')
            .map(|one| regex::escape(one).replace("\\(", "(?:").replace("\\)", ")?"));
        format!("(?:{})", either.collect::<Vec<_>>().join("|"))
    };
    words.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
