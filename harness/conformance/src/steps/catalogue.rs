//! The step catalogue: pattern, meaning and example of every step, parsed from the doc comments of
//! the step functions, which are the only source. Also the messages for steps that match nothing or
//! too much.

mod diagnose;

use std::fmt::Write as _;

use cucumber::codegen::{StepConstructor as _, WorldInventory, inventory};
use cucumber::step::{AmbiguousMatchError, Collection, Location};
use gherkin::{Feature, GherkinEnv, Step, StepType};

use super::STEP_SOURCES;
use crate::report::ClaimKind;
use crate::world::World;

/// One entry of the step catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepDoc {
    /// The title of the area, such as fleet, queues or workloads.
    pub area: &'static str,
    /// The keywords that the step can follow: `Given`, `When`, `Then`.
    pub keywords: Vec<&'static str>,
    /// The Cucumber expression that the step matches.
    pub pattern: String,
    /// What the step does or asserts.
    pub meaning: String,
    /// How the step is used in a feature; one or more lines.
    pub example: String,
    /// What the step claims besides behaviour; `None` if it claims behaviour only.
    pub claim: Option<OtherClaim>,
    /// The source file and line of each attribute that has this pattern.
    locations: Vec<(&'static str, u32)>,
}

impl StepDoc {
    /// Whether an attribute at this source location has this pattern.
    pub(crate) fn is_at(&self, location: Location) -> bool {
        let mut locations = self.locations.iter();
        locations.any(|(file, line)| location.path.ends_with(file) && location.line == *line)
    }
}

/// A claim of a step that is not about behaviour, and is judged on some schedulers only. A line of
/// the step's doc comment that begins with `Wording:` or `Snapshot:` declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherClaim {
    /// What kind of claim it is.
    pub kind: ClaimKind,
    /// What is judged on every scheduler; `None` if the step claims nothing else.
    pub behaviour: Option<String>,
}

impl OtherClaim {
    /// Parses a line such as `Wording: on every scheduler, that pods are pending.` or
    /// `Wording: nothing else.`
    fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = [("Wording: ", ClaimKind::Wording), ("Snapshot: ", ClaimKind::Snapshot)]
            .into_iter()
            .find_map(|(word, kind)| Some((kind, line.strip_prefix(word)?)))?;
        let behaviour = (rest != NOTHING_ELSE).then(|| rest.to_owned());
        Some(Self { kind, behaviour })
    }
}

/// What the doc comment of a step says that claims no behaviour.
const NOTHING_ELSE: &str = "nothing else.";

/// A parsed attribute of a step function, such as `#[given(expr = "…")]`.
struct StepAttribute {
    keyword: &'static str,
    pattern: String,
    location: (&'static str, u32),
}

/// All entries of the step catalogue, in source order.
pub fn all_step_docs() -> Vec<StepDoc> {
    STEP_SOURCES
        .iter()
        .flat_map(|(area, file, source)| parse_step_docs(area, file, source))
        .collect()
}

/// The step functions, registered for matching.
pub fn step_collection() -> Collection<World> {
    let mut collection = Collection::new();
    for given in inventory::iter::<<World as WorldInventory>::Given> {
        let (location, regex, step) = given.inner();
        collection = collection.given(Some(location), regex(), step);
    }
    for when in inventory::iter::<<World as WorldInventory>::When> {
        let (location, regex, step) = when.inner();
        collection = collection.when(Some(location), regex(), step);
    }
    for then in inventory::iter::<<World as WorldInventory>::Then> {
        let (location, regex, step) = then.inner();
        collection = collection.then(Some(location), regex(), step);
    }
    collection
}

/// Whether a sentence is a step after any of the keywords.
pub fn is_step(sentence: &str) -> bool {
    let steps = step_collection();
    ["Given", "When", "Then"].iter().any(|keyword| {
        let text = format!("Feature: f\n  Scenario: s\n    {keyword} {sentence}\n");
        let feature = Feature::parse(text, GherkinEnv::default()).ok();
        let step = feature.and_then(|feature| feature.scenarios.first()?.steps.first().cloned());
        step.is_some_and(|step| !matches!(steps.find(&step), Ok(None)))
    })
}

/// Parses the doc comments and attributes of the step functions in a source file.
fn parse_step_docs(area: &'static str, file: &'static str, source: &str) -> Vec<StepDoc> {
    let mut docs: Vec<&str> = Vec::new();
    let mut patterns: Vec<StepAttribute> = Vec::new();
    let (mut open, mut location) = (String::new(), (file, 0));
    let mut steps = Vec::new();
    for (number, line) in (1..).zip(source.lines()) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.strip_prefix(' ').unwrap_or(doc));
        } else if !open.is_empty() || line.starts_with("#[") {
            // A long attribute spans several lines.
            location = if open.is_empty() { (file, number) } else { location };
            open.push_str(line.trim());
            if line.ends_with(")]") {
                let parsed = parse_attribute(&open);
                patterns.extend(parsed.map(|(keyword, pattern)| StepAttribute {
                    keyword,
                    pattern,
                    location,
                }));
                open.clear();
            }
        } else if !line.starts_with(' ') && !line.starts_with(')') {
            if !patterns.is_empty() {
                steps.extend(step_docs_of_function(area, &docs, &patterns));
            }
            docs.clear();
            patterns.clear();
        }
    }
    steps
}

/// The keyword and the pattern in an attribute `#[given(expr = "…")]`.
fn parse_attribute(text: &str) -> Option<(&'static str, String)> {
    let words = [("#[given(", "Given"), ("#[when(", "When"), ("#[then(", "Then")];
    let (open, keyword) = words.iter().find(|(open, _)| text.starts_with(open))?;
    let pattern = text.strip_prefix(open)?.strip_prefix("expr = \"")?.strip_suffix("\")]")?;
    Some((keyword, pattern.replace("\\\"", "\"").replace("\\\\", "\\")))
}

fn step_docs_of_function(
    area: &'static str,
    docs: &[&str],
    patterns: &[StepAttribute],
) -> Vec<StepDoc> {
    let example_at = docs.iter().position(|line| *line == "```gherkin").unwrap_or(docs.len());
    let (meaning, example) = docs.split_at(example_at);
    let example = example.iter().filter(|line| !line.starts_with("```"));
    let claim = meaning.iter().find_map(|line| OtherClaim::parse(line));
    let meaning = meaning.join(" ").trim().to_owned();
    let example = example.copied().collect::<Vec<_>>().join("\n");
    let mut steps: Vec<StepDoc> = Vec::new();
    for StepAttribute { keyword, pattern, location: place } in patterns {
        if let Some(known) = steps.iter_mut().find(|step| step.pattern == *pattern) {
            known.keywords.push(keyword);
            known.locations.push(*place);
            continue;
        }
        steps.push(StepDoc {
            area,
            keywords: vec![keyword],
            pattern: pattern.clone(),
            meaning: meaning.clone(),
            example: example.clone(),
            claim: claim.clone(),
            locations: vec![*place],
        });
    }
    steps
}

/// The message for a step that matches no pattern: the keyword that it needs, the value that is
/// invalid, or the nearest step, and where to add a new one.
pub(crate) fn undefined_step_message(step: &Step) -> String {
    let keyword = keyword_of(step.ty);
    let catalogue = all_step_docs();
    let own = format!("{} {}", step.keyword.trim(), step.value);
    if let Some(message) = wrong_keyword_message(step, &own) {
        return message;
    }
    let same = catalogue.iter().filter(|doc| doc.keywords.contains(&keyword));
    let nearest = same.min_by_key(|doc| edit_distance(&step.value, &doc.pattern));
    let misread =
        nearest.and_then(|doc| diagnose::invalid_value_message(&step.value, &doc.pattern));
    let mut message = match &misread {
        Some(misread) => format!("in `{own}`: {misread}"),
        None => format!("no step matches `{own}`"),
    };
    if let Some(nearest) = nearest {
        let example = nearest.example.replace('\n', "\n         ");
        let _ = write!(message, "\nnearest: {keyword} {}\nexample: {example}", nearest.pattern);
    }
    if misread.is_some() {
        return message;
    }
    let _ = write!(
        message,
        "\nall steps: schedlab steps; to add one (harness/conformance/src/steps):\n\
         \x20   #[{}(expr = \"{}\")]\n\
         \x20   async fn step(world: &mut World) -> StepResult {{ … }}",
        keyword.to_lowercase(),
        step.value.replace('"', "\\\"")
    );
    message
}

/// The message for a step that exists, but after another keyword only.
fn wrong_keyword_message(step: &Step, own: &str) -> Option<String> {
    let steps = step_collection();
    let others = [StepType::Given, StepType::When, StepType::Then].into_iter().filter(|ty| {
        let other = Step { ty: *ty, ..step.clone() };
        *ty != step.ty && !matches!(steps.find(&other), Ok(None))
    });
    let others: Vec<&str> = others.map(keyword_of).collect();
    let (first, after) = (others.first()?, keyword_of(step.ty));
    Some(format!(
        "got `{own}` as a {after} step, expected it after {}: `And`, `But` and `*` continue the \
         keyword above them; did you mean `{first} {}`?",
        others.join(" or "),
        step.value
    ))
}

/// The message for a step that several patterns match. It lists all of them.
pub(crate) fn ambiguous_step_message(step: &Step, error: &AmbiguousMatchError) -> String {
    let keyword = keyword_of(step.ty);
    let catalogue = all_step_docs();
    let (own, value) = (step.keyword.trim(), &step.value);
    let mut message = format!("several steps match `{own} {value}`");
    for (regex, location) in &error.possible_matches {
        let at = |location: Location| catalogue.iter().find(|doc| doc.is_at(location));
        let Some(doc) = location.and_then(at) else {
            let pattern = regex.as_str().trim_start_matches('^').trim_end_matches('$');
            let _ = write!(message, "\nmatches: {keyword} {pattern}");
            continue;
        };
        let example = doc.example.replace('\n', "\n         ");
        let _ = write!(message, "\nmatches: {keyword} {}\nexample: {example}", doc.pattern);
    }
    message.push_str(
        "\nexpected exactly one match: change one of the patterns \
        (harness/conformance/src/steps)",
    );
    message
}

/// The keyword for a type of step.
pub(crate) fn keyword_of(step_type: StepType) -> &'static str {
    match step_type {
        StepType::Given => "Given",
        StepType::When => "When",
        StepType::Then => "Then",
    }
}

/// Edit distance between a sentence and a pattern. All values and parameters count as the same
/// word.
fn edit_distance(text: &str, pattern: &str) -> usize {
    let normalized = |text: &str| {
        let plain = |word: &str| match word.chars().next() {
            Some(c) if c.is_ascii_digit() || c == '"' || c == '{' => "{}".to_owned(),
            _ => word.replace(['(', ')'], ""),
        };
        text.split_whitespace().map(plain).collect::<Vec<_>>().join(" ")
    };
    strsim::levenshtein(&normalized(text), &normalized(pattern))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cucumber::codegen::Regex;

    use super::*;
    use crate::features::load_text;
    use crate::report::FailureKind;
    use crate::runner::step_mismatch_message;

    /// The catalogue has as many entries per keyword as there are step functions.
    #[test]
    fn every_step_is_documented_with_a_meaning_and_an_example() {
        let documented: usize = all_step_docs().iter().map(|step| step.keywords.len()).sum();
        let registered = inventory::iter::<<World as WorldInventory>::Given>.into_iter().count()
            + inventory::iter::<<World as WorldInventory>::When>.into_iter().count()
            + inventory::iter::<<World as WorldInventory>::Then>.into_iter().count();
        assert_eq!(documented, registered);
        for step in all_step_docs() {
            assert!(!step.meaning.is_empty(), "{} has no meaning", step.pattern);
            assert!(!step.example.is_empty(), "{} has no example", step.pattern);
        }
    }

    #[test]
    fn every_step_is_found_by_the_location_of_its_attribute() {
        let catalogue = all_step_docs();
        for given in inventory::iter::<<World as WorldInventory>::Given> {
            let (location, ..) = given.inner();
            let known = catalogue.iter().any(|doc| doc.is_at(location));
            assert!(known, "{}:{}", location.path, location.line);
        }
    }

    #[test]
    fn an_ambiguous_step_lists_all_matching_patterns() {
        let second = Regex::new("^a fleet of .*$").unwrap();
        let steps = step_collection().given(None, second, |_, _| Box::pin(async {}));
        let text = "Feature: f\n  Scenario: s\n    Given a fleet of 2 nodes with 8 GPUs each\n";
        let cases = load_text("f.feature", text, is_step).unwrap();
        let (kind, message) = step_mismatch_message(&cases[0].steps[0], &steps).unwrap();
        assert_eq!(kind, FailureKind::AmbiguousStep);
        insta::assert_snapshot!(message, @r"
        several steps match `Given a fleet of 2 nodes with 8 GPUs each`
        matches: Given a fleet of {int} node(s) with {int} GPU(s) each
        example: Given a fleet of 4 nodes with 8 GPUs each
        matches: Given a fleet of .*
        expected exactly one match: change one of the patterns (harness/conformance/src/steps)
        ");
    }

    #[test]
    fn every_example_matches_exactly_one_step() {
        let steps = step_collection();
        let mut used = BTreeSet::new();
        for step in all_step_docs() {
            let text = format!("Feature: f\n  Scenario: s\n{}\n", step.example);
            let cases = load_text("example.feature", &text, is_step);
            let cases = cases.unwrap_or_else(|e| panic!("{}: {e}", step.pattern));
            for example in &cases[0].steps {
                let wrong = step_mismatch_message(example, &steps).map(|(_, message)| message);
                assert_eq!(wrong, None, "example of {}", step.pattern);
                let location = steps.find(example).unwrap().unwrap().2;
                used.insert(location.map(|l| (l.path, l.line)));
            }
        }
        assert!(used.len() > 60, "examples show {} step functions", used.len());
    }

    #[test]
    fn a_nearly_matching_step_gets_the_nearest_pattern_suggested() {
        let text = "Feature: f\n  Scenario: s\n    Then queue \"a\" has 8 runing pods\n";
        let cases = load_text("f.feature", text, is_step).unwrap();
        let message = undefined_step_message(&cases[0].steps[0]);
        assert!(message.contains("nearest: Then {when}{subject} has {pods}{stays}"), "{message}");
    }

    /// The message for the last of these steps.
    fn message_for_last(steps: &str) -> String {
        let cases =
            load_text("f.feature", &format!("Feature: f\n  Scenario: s\n{steps}\n"), is_step);
        undefined_step_message(cases.unwrap()[0].steps.last().unwrap())
    }

    #[test]
    fn a_step_after_the_wrong_keyword_gets_the_right_one_suggested() {
        let steps = "When 1 cycle passes\nAnd queue \"a\" has 24 running pods";
        insta::assert_snapshot!(message_for_last(steps), @r#"got `And queue "a" has 24 running pods` as a When step, expected it after Given or Then: `And`, `But` and `*` continue the keyword above them; did you mean `Given queue "a" has 24 running pods`?"#);
        let steps = "Then the quota of queue \"a\" becomes 8";
        insta::assert_snapshot!(message_for_last(steps), @r#"got `Then the quota of queue "a" becomes 8` as a Then step, expected it after When: `And`, `But` and `*` continue the keyword above them; did you mean `When the quota of queue "a" becomes 8`?"#);
    }

    #[test]
    fn an_invalid_value_is_reported_with_the_expected_syntax() {
        let submitted = "with 1 GPU each are submitted to queue \"q\"";
        insta::assert_snapshot!(message_for_last("When the quota of queue \"a\" becomes many"), @r#"
        in `When the quota of queue "a" becomes many`: got `many` for {amount}, expected a number, `unlimited` or `unset`
        nearest: When the {field} of queue {string} becomes {amount}
        example: When the quota of queue "team-a" becomes 16
        "#);
        insta::assert_snapshot!(message_for_last(&format!("Given x pods \"a\" {submitted}")), @r#"
        in `Given x pods "a" with 1 GPU each are submitted to queue "q"`: got `x` for {int}, expected a whole number
        nearest: Given {int} pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}
        example: When 8 pods "work" with 1 GPU each are submitted to queue "team-a"
        "#);
        insta::assert_snapshot!(message_for_last(&format!("Given 2 pods a {submitted}")), @r#"
        in `Given 2 pods a with 1 GPU each are submitted to queue "q"`: got `a` for {string}, expected text in quotes
        nearest: Given {int} pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}
        example: When 8 pods "work" with 1 GPU each are submitted to queue "team-a"
        "#);
    }
}
