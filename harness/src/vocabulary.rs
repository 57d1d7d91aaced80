//! Every step there is, with what it means and an example: read from the doc comments of the
//! step functions, which therefore stand in one place. Also what to say about a step that is
//! not there.

mod misread;

use std::fmt::Write as _;

use cucumber::codegen::{StepConstructor as _, WorldInventory, inventory};
use cucumber::step::{AmbiguousMatchError, Collection, Location};
use gherkin::{Feature, GherkinEnv, Step, StepType};

use crate::world::World;

/// The sources of the step functions, by the area they stand for and their file.
const SOURCES: &[(&str, &str, &str)] = crate::steps::SOURCES;

/// One step of the vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepDoc {
    /// What it is about: fleet, queues, workloads …
    pub area: &'static str,
    /// `Given`, `When`, `Then`, as far as it may be used with them.
    pub keywords: Vec<&'static str>,
    /// The cucumber expression.
    pub pattern: String,
    /// What it means.
    pub meaning: String,
    /// How it looks in a feature, one or more lines.
    pub example: String,
    /// File and line of each attribute that gives it its pattern.
    places: Vec<(&'static str, u32)>,
}

impl StepDoc {
    fn stands_at(&self, location: Location) -> bool {
        let mut places = self.places.iter();
        places.any(|(file, line)| location.path.ends_with(file) && location.line == *line)
    }
}

/// What an attribute of a step function says.
struct Attribute {
    keyword: &'static str,
    pattern: String,
    place: (&'static str, u32),
}

/// The whole vocabulary, in the order in which it is written.
pub fn vocabulary() -> Vec<StepDoc> {
    SOURCES.iter().flat_map(|(area, file, source)| read(area, file, source)).collect()
}

/// The functions behind the steps.
pub fn collection() -> Collection<World> {
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

/// Whether a sentence is a step, after whichever keyword.
pub fn says(sentence: &str) -> bool {
    let steps = collection();
    ["Given", "When", "Then"].iter().any(|keyword| {
        let text = format!("Feature: f\n  Scenario: s\n    {keyword} {sentence}\n");
        let feature = Feature::parse(text, GherkinEnv::default()).ok();
        let step = feature.and_then(|feature| feature.scenarios.first()?.steps.first().cloned());
        step.is_some_and(|step| !matches!(steps.find(&step), Ok(None)))
    })
}

/// Reads `///` lines, step attributes and the function below them.
fn read(area: &'static str, file: &'static str, source: &str) -> Vec<StepDoc> {
    let mut docs: Vec<&str> = Vec::new();
    let mut patterns: Vec<Attribute> = Vec::new();
    let (mut open, mut place) = (String::new(), (file, 0));
    let mut steps = Vec::new();
    for (number, line) in (1..).zip(source.lines()) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.strip_prefix(' ').unwrap_or(doc));
        } else if !open.is_empty() || line.starts_with("#[") {
            // An attribute that is too long for a line goes on below.
            place = if open.is_empty() { (file, number) } else { place };
            open.push_str(line.trim());
            if line.ends_with(")]") {
                let said = attribute(&open);
                patterns.extend(said.map(|(keyword, pattern)| Attribute {
                    keyword,
                    pattern,
                    place,
                }));
                open.clear();
            }
        } else if !line.starts_with(' ') && !line.starts_with(')') {
            if !patterns.is_empty() {
                steps.extend(step_docs(area, &docs, &patterns));
            }
            docs.clear();
            patterns.clear();
        }
    }
    steps
}

/// The keyword and pattern of `#[given(expr = "…")]`.
fn attribute(text: &str) -> Option<(&'static str, String)> {
    let words = [("#[given(", "Given"), ("#[when(", "When"), ("#[then(", "Then")];
    let (open, keyword) = words.iter().find(|(open, _)| text.starts_with(open))?;
    let pattern = text.strip_prefix(open)?.strip_prefix("expr = \"")?.strip_suffix("\")]")?;
    Some((keyword, pattern.replace("\\\"", "\"").replace("\\\\", "\\")))
}

fn step_docs(area: &'static str, docs: &[&str], patterns: &[Attribute]) -> Vec<StepDoc> {
    let example_at = docs.iter().position(|line| *line == "```gherkin").unwrap_or(docs.len());
    let (meaning, example) = docs.split_at(example_at);
    let example = example.iter().filter(|line| !line.starts_with("```"));
    let meaning = meaning.join(" ").trim().to_owned();
    let example = example.copied().collect::<Vec<_>>().join("\n");
    let mut steps: Vec<StepDoc> = Vec::new();
    for Attribute { keyword, pattern, place } in patterns {
        if let Some(known) = steps.iter_mut().find(|step| step.pattern == *pattern) {
            known.keywords.push(keyword);
            known.places.push(*place);
            continue;
        }
        steps.push(StepDoc {
            area,
            keywords: vec![keyword],
            pattern: pattern.clone(),
            meaning: meaning.clone(),
            example: example.clone(),
            places: vec![*place],
        });
    }
    steps
}

/// What to say about a step that matches nothing: after which keyword it would, which of its
/// values is none, or else the nearest known one, and where to add it.
pub fn undefined(step: &Step) -> String {
    let keyword = keyword_of(step.ty);
    let vocabulary = vocabulary();
    let own = format!("{} {}", step.keyword.trim(), step.value);
    if let Some(message) = elsewhere(step, &own) {
        return message;
    }
    let same = vocabulary.iter().filter(|doc| doc.keywords.contains(&keyword));
    let nearest = same.min_by_key(|doc| distance(&step.value, &doc.pattern));
    let misread = nearest.and_then(|doc| misread::value(&step.value, &doc.pattern));
    let mut message = match &misread {
        Some(misread) => format!("in `{own}`: {misread}"),
        None => format!("no step of the vocabulary says `{own}`"),
    };
    if let Some(nearest) = nearest {
        let example = nearest.example.replace('\n', "\n         ");
        let _ = write!(message, "\nnearest: {keyword} {}\nas in:   {example}", nearest.pattern);
    }
    if misread.is_some() {
        return message;
    }
    let _ = write!(
        message,
        "\nall of them: schedlab steps; or teach it (harness/src/steps):\n\
         \x20   #[{}(expr = \"{}\")]\n\
         \x20   async fn step(world: &mut World) -> StepResult {{ … }}",
        keyword.to_lowercase(),
        step.value.replace('"', "\\\"")
    );
    message
}

/// What to say about a step that there is, after another keyword.
fn elsewhere(step: &Step, own: &str) -> Option<String> {
    let steps = collection();
    let others = [StepType::Given, StepType::When, StepType::Then].into_iter().filter(|ty| {
        let other = Step { ty: *ty, ..step.clone() };
        *ty != step.ty && !matches!(steps.find(&other), Ok(None))
    });
    let others: Vec<&str> = others.map(keyword_of).collect();
    let (first, after) = (others.first()?, keyword_of(step.ty));
    Some(format!(
        "found `{own}` as a {after} step, allowed is {}: the vocabulary has it, but `And`, `But` and \
         `*` go on with the keyword above them\ninstead: {first} {}",
        others.join(" or "),
        step.value
    ))
}

/// What to say about a step that more than one pattern matches: each of them.
pub fn ambiguous(step: &Step, error: &AmbiguousMatchError) -> String {
    let keyword = keyword_of(step.ty);
    let vocabulary = vocabulary();
    let (own, value) = (step.keyword.trim(), &step.value);
    let mut message = format!("more than one step of the vocabulary says `{own} {value}`");
    for (regex, location) in &error.possible_matches {
        let at = |location: Location| vocabulary.iter().find(|doc| doc.stands_at(location));
        let Some(doc) = location.and_then(at) else {
            let pattern = regex.as_str().trim_start_matches('^').trim_end_matches('$');
            let _ = write!(message, "\nit may be: {keyword} {pattern}");
            continue;
        };
        let example = doc.example.replace('\n', "\n           ");
        let _ = write!(message, "\nit may be: {keyword} {}\nas in:     {example}", doc.pattern);
    }
    message.push_str("\nallowed is one: the words of one of them must change (harness/src/steps)");
    message
}

/// How a step type is written.
pub fn keyword_of(ty: StepType) -> &'static str {
    match ty {
        StepType::Given => "Given",
        StepType::When => "When",
        StepType::Then => "Then",
    }
}

/// How far a text is from a pattern: words that differ, weighted by how much.
fn distance(text: &str, pattern: &str) -> usize {
    let words = |text: &str| -> Vec<String> {
        let plain = |word: &str| match word.chars().next() {
            Some(c) if c.is_ascii_digit() || c == '"' || c == '{' => "{}".to_owned(),
            _ => word.replace(['(', ')'], ""),
        };
        text.split_whitespace().map(plain).collect()
    };
    let (text, pattern) = (words(text), words(pattern));
    let costs = |a: &String, b: &String| if a == b { 0 } else { edit_distance(a, b).min(4) + 1 };
    alignment(&text, &pattern, costs, 4)
}

/// Letters to insert, delete or replace to make one text from the other.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    alignment(&a, &b, |a, b| usize::from(a != b), 1)
}

fn alignment<T>(a: &[T], b: &[T], cost: impl Fn(&T, &T) -> usize, gap: usize) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).map(|n| n * gap).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = (i + 1) * gap;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + cost(x, y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + gap).min(row[j] + gap);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cucumber::codegen::Regex;

    use super::*;
    use crate::features::load_text;
    use crate::report::FailureKind;
    use crate::runner::mismatch;

    /// Every function behind a step has an entry in the vocabulary: as many of each keyword.
    #[test]
    fn every_step_is_documented_with_a_meaning_and_an_example() {
        let documented: usize = vocabulary().iter().map(|step| step.keywords.len()).sum();
        let registered = inventory::iter::<<World as WorldInventory>::Given>.into_iter().count()
            + inventory::iter::<<World as WorldInventory>::When>.into_iter().count()
            + inventory::iter::<<World as WorldInventory>::Then>.into_iter().count();
        assert_eq!(documented, registered);
        for step in vocabulary() {
            assert!(!step.meaning.is_empty(), "{} has no meaning", step.pattern);
            assert!(!step.example.is_empty(), "{} has no example", step.pattern);
        }
    }

    #[test]
    fn every_step_is_found_in_the_vocabulary_by_the_place_of_its_attribute() {
        let vocabulary = vocabulary();
        for given in inventory::iter::<<World as WorldInventory>::Given> {
            let (location, ..) = given.inner();
            let known = vocabulary.iter().any(|doc| doc.stands_at(location));
            assert!(known, "{}:{}", location.path, location.line);
        }
    }

    #[test]
    fn a_step_that_two_patterns_match_is_shown_both_as_people_write_them() {
        let second = Regex::new("^a fleet of .*$").unwrap();
        let steps = collection().given(None, second, |_, _| Box::pin(async {}));
        let text = "Feature: f\n  Scenario: s\n    Given a fleet of 2 nodes with 8 GPUs each\n";
        let cases = load_text("f.feature", text).unwrap();
        let (kind, message) = mismatch(&cases[0].steps[0], &steps).unwrap();
        assert_eq!(kind, FailureKind::AmbiguousStep);
        insta::assert_snapshot!(message, @r"
        more than one step of the vocabulary says `Given a fleet of 2 nodes with 8 GPUs each`
        it may be: Given a fleet of {int} node(s) with {int} GPU(s) each
        as in:     Given a fleet of 4 nodes with 8 GPUs each
        it may be: Given a fleet of .*
        allowed is one: the words of one of them must change (harness/src/steps)
        ");
    }

    #[test]
    fn every_example_is_understood_and_by_one_step_only() {
        let steps = collection();
        let mut used = BTreeSet::new();
        for step in vocabulary() {
            let text = format!("Feature: f\n  Scenario: s\n{}\n", step.example);
            let cases = load_text("example.feature", &text);
            let cases = cases.unwrap_or_else(|e| panic!("{}: {e}", step.pattern));
            for example in &cases[0].steps {
                let wrong = mismatch(example, &steps).map(|(_, message)| message);
                assert_eq!(wrong, None, "example of {}", step.pattern);
                let location = steps.find(example).unwrap().unwrap().2;
                used.insert(location.map(|l| (l.path, l.line)));
            }
        }
        assert!(used.len() > 60, "examples show {} step functions", used.len());
    }

    #[test]
    fn a_step_that_is_nearly_right_is_shown_what_it_is_near_to() {
        let text = "Feature: f\n  Scenario: s\n    Then queue \"a\" has 8 runing pods\n";
        let cases = load_text("f.feature", text).unwrap();
        let message = undefined(&cases[0].steps[0]);
        assert!(message.contains("nearest: Then {when}{subject} has {tally}{stays}"), "{message}");
    }

    /// What is said of the last of these steps.
    fn told(steps: &str) -> String {
        let cases = load_text("f.feature", &format!("Feature: f\n  Scenario: s\n{steps}\n"));
        undefined(cases.unwrap()[0].steps.last().unwrap())
    }

    #[test]
    fn a_step_after_the_wrong_keyword_is_told_the_right_one() {
        let steps = "When 1 cycle passes\nAnd queue \"a\" has 24 running pods";
        insta::assert_snapshot!(told(steps), @r#"
        found `And queue "a" has 24 running pods` as a When step, allowed is Given or Then: the vocabulary has it, but `And`, `But` and `*` go on with the keyword above them
        instead: Given queue "a" has 24 running pods
        "#);
        let steps = "Then the quota of queue \"a\" becomes 8";
        insta::assert_snapshot!(told(steps), @r#"
        found `Then the quota of queue "a" becomes 8` as a Then step, allowed is When: the vocabulary has it, but `And`, `But` and `*` go on with the keyword above them
        instead: When the quota of queue "a" becomes 8
        "#);
    }

    #[test]
    fn a_value_that_cannot_be_is_told_with_what_is_allowed() {
        let submitted = "with 1 GPU each are submitted to queue \"q\"";
        insta::assert_snapshot!(told("When the quota of queue \"a\" becomes many"), @r#"
        in `When the quota of queue "a" becomes many`: found `many` for {amount}, allowed is a number, `unlimited` or `unset`
        nearest: When the {field} of queue {string} becomes {amount}
        as in:   When the quota of queue "team-a" becomes 16
        "#);
        insta::assert_snapshot!(told(&format!("Given x pods \"a\" {submitted}")), @r#"
        in `Given x pods "a" with 1 GPU each are submitted to queue "q"`: found `x` for {int}, allowed is a whole number
        nearest: Given {int} pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}
        as in:   When 8 pods "work" with 1 GPU each are submitted to queue "team-a"
        "#);
        insta::assert_snapshot!(told(&format!("Given 2 pods a {submitted}")), @r#"
        in `Given 2 pods a with 1 GPU each are submitted to queue "q"`: found `a` for {string}, allowed is a text in quotes
        nearest: Given {int} pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}
        as in:   When 8 pods "work" with 1 GPU each are submitted to queue "team-a"
        "#);
    }
}
