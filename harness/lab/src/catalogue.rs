//! The lessons in this program.

use schedlab_conformance::text::nearest_word;

use crate::lesson::Lesson;

/// Name and text of the lessons, in the order in which they are taken.
const LESSONS: &[(&str, &str)] = &[
    ("baseline", include_str!("../lessons/baseline.md")),
    ("a-quota", include_str!("../lessons/a-quota.md")),
    ("b-borrow", include_str!("../lessons/b-borrow.md")),
    ("c-reclaim", include_str!("../lessons/c-reclaim.md")),
    ("d-gang", include_str!("../lessons/d-gang.md")),
    ("e-starvation", include_str!("../lessons/e-starvation.md")),
    ("weights", include_str!("../lessons/weights.md")),
    ("hierarchy", include_str!("../lessons/hierarchy.md")),
    ("time-fairness", include_str!("../lessons/time-fairness.md")),
    ("osmo-pools", include_str!("../lessons/osmo-pools.md")),
    ("topology", include_str!("../lessons/topology.md")),
    ("trainjob", include_str!("../lessons/trainjob.md")),
    ("customer-bug", include_str!("../lessons/customer-bug.md")),
];

/// All lessons of this program.
///
/// # Panics
/// A lesson of this program is invalid, which a test excludes.
pub fn all_lessons() -> Vec<Lesson> {
    LESSONS.iter().map(|(name, text)| embedded(name, text)).collect()
}

/// The lesson of this program with this id.
///
/// # Errors
/// There is none; the message names the nearest.
pub fn find_lesson(id: &str) -> Result<Lesson, String> {
    if let Some((name, text)) = LESSONS.iter().find(|(name, _)| *name == id) {
        return Ok(embedded(name, text));
    }
    // `b` is the lesson `b-borrow`.
    let mut short = LESSONS.iter().filter(|(name, _)| {
        name.split_once('-').is_some_and(|(letter, _)| letter.eq_ignore_ascii_case(id))
    });
    if let (Some((name, text)), None) = (short.next(), short.next()) {
        return Ok(embedded(name, text));
    }
    let names: Vec<&str> = LESSONS.iter().map(|(name, _)| *name).collect();
    let near = nearest_word(id, names.iter().copied());
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    Err(format!("got lesson {id}, expected a file or one of {}{near}", names.join(", ")))
}

/// The texts of the lessons, by name.
pub fn lesson_texts() -> &'static [(&'static str, &'static str)] {
    LESSONS
}

fn embedded(name: &str, text: &str) -> Lesson {
    Lesson::parse(&format!("lessons/{name}.md"), text)
        .unwrap_or_else(|problems| panic!("lesson {name} of this program is invalid: {problems}"))
}
