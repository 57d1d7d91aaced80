//! Every lesson of this program is played: without its solution it is not solved, each mistake is
//! answered as the lesson says, and the solution solves it. Also what a lesson that is wrong, and a
//! learner who deletes what the lesson needs, are told.

use schedlab_lab::catalogue::{find_lesson, lesson_texts};
use schedlab_lab::lesson::Lesson;
use schedlab_lab::rehearsal::rehearse;

fn play(name: &str, text: &str) -> Vec<String> {
    let file = format!("lessons/{name}.md");
    let rehearsal = rehearse(&|| Ok(Lesson::parse(&file, text)?)).unwrap();
    rehearsal.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn every_lesson_is_solved_by_its_solution_and_by_nothing_else() {
    let mut problems = Vec::new();
    for (name, text) in lesson_texts() {
        problems.extend(play(name, text));
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
