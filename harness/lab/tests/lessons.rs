//! Every lesson of this program is played: without its solution it is not solved, each mistake is
//! answered as the lesson says, and the solution solves it. Also what a lesson that is wrong, and a
//! learner who deletes what the lesson needs, are told.

use schedlab_lab::catalogue::{find_lesson, lesson_texts};
use schedlab_lab::lesson::Lesson;
use schedlab_lab::rehearsal::rehearse;

fn play(name: &str, text: &str) -> Vec<String> {
    let file = format!("lessons/{name}.md");
    let rehearsal =
        rehearse(&|| Ok(Lesson::parse(&file, text)?)).expect("the lesson can be played");
    rehearsal.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn every_lesson_is_solved_by_its_solution_and_by_nothing_else() {
    let mut problems = Vec::new();
    for (name, text) in lesson_texts() {
        // A thread that plays a lesson prints no panics.
        let played = std::thread::scope(|scope| scope.spawn(|| play(name, text)).join());
        problems.extend(played.expect("the lesson is played to its end"));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_lesson_is_valid_and_named_as_its_file() {
    for (name, text) in lesson_texts() {
        let lesson = Lesson::parse(name, text).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(lesson.id, *name);
        for required in &lesson.requires {
            assert!(find_lesson(required).is_ok(), "{name} requires {required}");
        }
        assert!(!lesson.mistakes.is_empty(), "{name} has no mistake");
    }
}

/// Words for numbers that an explanation does not name itself.
const NUMBER_WORDS: [&str; 12] = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "twenty",
];

#[test]
fn explanations_compute_every_number_from_the_cluster() {
    for (name, text) in lesson_texts() {
        let lesson = Lesson::parse(name, text).unwrap_or_else(|problems| panic!("{problems}"));
        for question in &lesson.quiz {
            let fixed: String = question.why.fixed_parts().collect();
            let mut words = fixed.split(|c: char| !c.is_alphanumeric());
            let number = words.find(|word| {
                NUMBER_WORDS.contains(word)
                    || word.chars().next().is_some_and(|c| c.is_ascii_digit())
            });
            assert_eq!(number, None, "{name}: {}: {fixed}", question.text);
        }
    }
}

/// The problems of lesson B with a part of its text replaced.
fn problems_with(from: &str, to: &str) -> String {
    let texts: std::collections::BTreeMap<_, _> = lesson_texts().iter().copied().collect();
    let text = texts["b-borrow"];
    assert!(text.contains(from), "the lesson has {from:?}");
    Lesson::parse("b.md", &text.replace(from, to)).expect_err("the lesson is wrong").to_string()
}

/// The line of lesson B that begins with a text, counted from 1.
fn line_of(start: &str) -> usize {
    let texts: std::collections::BTreeMap<_, _> = lesson_texts().iter().copied().collect();
    let mut lines = texts["b-borrow"].lines();
    lines.position(|line| line.trim_start().starts_with(start)).expect("the line exists") + 1
}

#[test]
fn a_step_that_does_not_exist_is_reported_at_its_line_of_the_lesson() {
    let problems = problems_with("And 0 GPUs are free", "And 0 GPUs are fre");
    let line = line_of("And 0 GPUs are free");
    assert!(problems.starts_with(&format!("b.md:{line}: ")), "{problems}");
    assert!(problems.contains("no step matches `And 0 GPUs are fre`"), "{problems}");
}

#[test]
fn a_broken_feature_is_reported_at_its_line_of_the_lesson() {
    let problems = problems_with("  Scenario: team-prod runs", "  Scenaro: team-prod runs");
    let line = line_of("Scenario: team-prod runs");
    assert!(
        problems.starts_with(&format!("b.md:{line}: `Scenaro:` is not a keyword")),
        "{problems}"
    );
}

#[test]
fn what_the_learner_must_do_is_not_in_a_scenario() {
    let problems = problems_with(
        "Then queue \"team-prod\" has at least",
        "Given queue \"team-prod\" has at least",
    );
    assert!(
        problems
            .contains("got `Given queue \"team-prod\" has at least 16 running pods` in a scenario"),
        "{problems}"
    );
}

#[test]
fn parts_that_do_not_fit_together_are_reported() {
    for (from, to, expected) in [
        (
            "kubectl apply -f prod-borrow-solved.yaml\n```\n\n## M",
            "kubectl apply -f other.yaml\n```\n\n## M",
            "a script applies other.yaml, which no ```yaml file=other.yaml block has",
        ),
        ("3. Add", "Add", "got 2 hints, expected 3"),
        ("## Goal", "## Gaol", "got section \"Gaol\", expected one of"),
        (
            "minutes: 6",
            "minuts: 6",
            "got key minuts, expected one of id, title, minutes, requires, namespace, may-change; did you mean \"minutes\"?",
        ),
        ("minutes: 6", "minutes: 6\nmay-change: queue", "got queue, expected KIND NAME [FIELD], …"),
        (
            "```jq\n.queues[\"team-prod\"] | .used",
            "```jq task=2\n.queues[\"team-prod\"] | .used",
            "task: got 2, expected 1 to 1",
        ),
        (
            "It uses {{ .queues",
            "It uses {{ lenght | .queues",
            "unknown in this jq expression: lenght",
        ),
        (".used - .quota", ".used - qouta", "unknown in this jq expression: qouta"),
        (
            "kind: Deployment\nmetadata:\n  name: prod-borrow\nspec:\n  replicas: 32",
            "kind: [\nspec:\n  replicas: 32",
            "prod-borrow.yaml",
        ),
    ] {
        let problems = problems_with(from, to);
        assert!(problems.contains(expected), "{expected}\n{problems}");
    }
}
