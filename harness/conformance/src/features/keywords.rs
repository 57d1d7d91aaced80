//! Gherkin's keywords, and the nearest one to a misspelt word. The parser reads a line that begins
//! with anything else as description.

/// Keywords of steps.
pub(super) const STEP_KEYWORDS: [&str; 6] = ["Given", "When", "Then", "And", "But", "*"];

/// Gherkin keywords that are followed by a colon.
const HEADING_KEYWORDS: [&str; 9] = [
    "Feature",
    "Rule",
    "Background",
    "Scenario",
    "Example",
    "Scenario Outline",
    "Scenario Template",
    "Examples",
    "Scenarios",
];

/// English words that are similar to a heading keyword but may begin a line of description.
const PROSE_WORDS_LIKE_KEYWORDS: [&str; 5] = ["Features", "Rules", "Role", "Ruler", "Backgrounds"];

/// A line that looks like a misspelt heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MisspeltHeading<'l> {
    /// The first words of the line.
    pub(super) found: &'l str,
    /// The nearest heading keyword, without its colon.
    pub(super) meant: &'static str,
}

/// Whether a line is probably Gherkin or probably prose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineSurroundings {
    /// The line is between steps, or a step, a table or a heading follows: it is hardly
    /// description.
    Gherkin,
    /// The line is in a description.
    Prose,
}

/// Whether a line is a heading, a tag, a table row or a step.
pub(super) fn is_gherkin_line(line: &str) -> bool {
    let word = line.split([' ', ':']).next().unwrap_or_default();
    let is_heading = || {
        line.split_once(':').is_some_and(|(head, _)| HEADING_KEYWORDS.contains(&head.trim_end()))
    };
    line.starts_with(['@', '|']) || STEP_KEYWORDS.contains(&word) || is_heading()
}

/// The heading that a line most likely means; `None` if it is a heading already or means none.
pub(super) fn misspelt_heading(
    line: &str,
    surroundings: LineSurroundings,
) -> Option<MisspeltHeading<'_>> {
    match line.split_once(':') {
        Some((head, _)) => {
            if HEADING_KEYWORDS.contains(&head) {
                return None;
            }
            let is_word = !PROSE_WORDS_LIKE_KEYWORDS.contains(&head);
            let is_capital = head.starts_with(char::is_uppercase);
            let is_likely = surroundings == LineSurroundings::Gherkin || (is_word && is_capital);
            let meant = nearest_heading(head).filter(|_| is_likely)?;
            Some(MisspeltHeading { found: line.get(..=head.len())?, meant })
        }
        None => heading_without_colon(line, surroundings),
    }
}

/// The heading in a line like `Background` or `Scenario Outline and a name`, which lacks the colon.
fn heading_without_colon(
    line: &str,
    surroundings: LineSurroundings,
) -> Option<MisspeltHeading<'static>> {
    let stands_alone = HEADING_KEYWORDS.iter().find(|heading| line == **heading);
    let begins_line = || {
        let mut longest_first = HEADING_KEYWORDS;
        longest_first.sort_by_key(|heading| std::cmp::Reverse(heading.len()));
        let begins =
            |heading: &&str| line.strip_prefix(heading).is_some_and(|rest| rest.starts_with(' '));
        longest_first.into_iter().find(begins)
    };
    let meant = match (stands_alone, surroundings) {
        (Some(heading), _) => *heading,
        (None, LineSurroundings::Gherkin) => begins_line()?,
        (None, LineSurroundings::Prose) => return None,
    };
    Some(MisspeltHeading { found: meant, meant })
}

/// The heading keyword nearest to a word; spaces and case do not count.
fn nearest_heading(word: &str) -> Option<&'static str> {
    let letters = |text: &str| text.replace([' ', '-', '_'], "").to_lowercase();
    let found = letters(word);
    let allowed = match found.chars().count() {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    };
    let distances = HEADING_KEYWORDS
        .iter()
        .map(|heading| (strsim::osa_distance(&letters(heading), &found), *heading));
    let near = distances.filter(|(distance, _)| *distance <= allowed);
    near.min_by_key(|(distance, _)| *distance).map(|(_, heading)| heading)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(line: &str, surroundings: LineSurroundings) -> Option<(&str, &'static str)> {
        misspelt_heading(line, surroundings).map(|heading| (heading.found, heading.meant))
    }

    #[test]
    fn a_misspelt_heading_means_the_nearest_one() {
        let lines = [
            ("Bakground:", "Background"),
            ("Backgruond:", "Background"),
            ("Senario: a", "Scenario"),
            ("Scenario outline: a", "Scenario Outline"),
            ("ScenarioOutline: a", "Scenario Outline"),
            ("Exmaples:", "Examples"),
            ("Feture: a", "Feature"),
            ("Background :", "Background"),
            ("Background", "Background"),
        ];
        for (line, heading) in lines {
            let found = meant(line, LineSurroundings::Prose);
            assert_eq!(found.map(|(_, meant)| meant), Some(heading), "{line}");
        }
        assert_eq!(meant("Senario: a", LineSurroundings::Prose), Some(("Senario:", "Scenario")));
    }

    #[test]
    fn prose_with_a_colon_is_no_heading() {
        for line in ["Rules: one", "Role: owner", "example: a", "Sample: b", "Note: c", "a", ": x"]
        {
            assert_eq!(meant(line, LineSurroundings::Prose), None, "{line}");
        }
        assert_eq!(meant("example: a", LineSurroundings::Gherkin), Some(("example:", "Example")));
        assert_eq!(meant("Scenario A b", LineSurroundings::Prose), None);
        let found = meant("Scenario Outline A b", LineSurroundings::Gherkin);
        assert_eq!(found, Some(("Scenario Outline", "Scenario Outline")));
    }
}
