//! Quarantine: scenarios whose failures do not fail a run, each with a reason and, if wanted, a date.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::civil::Date;
use serde::Deserialize;
use serde_saphyr::{SnippetMode, Spanned, UserMessageFormatter};

use super::{Case, FeatureSuite};
use crate::report::Diagnostic;
use crate::text::nearest_word;

/// The scenarios in quarantine, from a file of this form:
///
/// ```yaml
/// - scenario: "features/gang/all-or-nothing.feature: A gang waits whole"   # or a file or folder
///   reason: issue 12, slow on kind
///   until: 2027-01-31
/// ```
#[derive(Clone, Debug, Default)]
pub struct Quarantine {
    file: String,
    entries: Vec<QuarantineEntry>,
}

#[derive(Clone, Debug)]
struct QuarantineEntry {
    line: usize,
    scenario: String,
    reason: String,
    until: Option<Date>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    scenario: Spanned<String>,
    reason: Spanned<String>,
    #[serde(default)]
    until: Option<Spanned<String>>,
}

impl Quarantine {
    /// Parses the text of a quarantine file.
    ///
    /// # Errors
    /// The text is not a list of scenarios with reasons.
    pub fn parse(file: &str, text: &str) -> Result<Self, Diagnostic> {
        let entries: Vec<FileEntry> = serde_saphyr::from_str(text).map_err(|error| {
            let options = serde_saphyr::render_options! {
                formatter: &UserMessageFormatter,
                snippets: SnippetMode::Off,
            };
            let message = error.render_with_options(options);
            let message = message.rsplit_once(" at line ").map_or(&*message, |(text, _)| text);
            let line = error.location().map_or(0, |location| line_number(location.line()));
            let expected = "expected a list of entries with `scenario`, `reason` and, if wanted, \
                            `until`";
            Diagnostic::new(file, line, format!("{message}; {expected}"))
        })?;
        let entries = entries.into_iter().map(|entry| QuarantineEntry::parse(file, entry));
        Ok(Self { file: file.to_owned(), entries: entries.collect::<Result<_, _>>()? })
    }

    /// The entries that name no scenario of these features, though their file was loaded: a
    /// quarantine that protects nothing.
    pub fn unknown_scenarios(&self, suite: &FeatureSuite) -> Vec<Diagnostic> {
        let is_loaded = |entry: &QuarantineEntry| {
            let file = entry.file();
            suite.files.iter().any(|loaded| Path::new(loaded).starts_with(file))
        };
        let unknown = self
            .entries
            .iter()
            .filter(|entry| is_loaded(entry) && !suite.cases.iter().any(|case| entry.names(case)));
        let ids: Vec<String> = suite.cases.iter().map(Case::id).collect();
        let message = |entry: &QuarantineEntry| {
            let near = nearest_word(&entry.scenario, ids.iter().map(String::as_str));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            format!(
                "scenario: got `{}`, expected the id of a scenario, as `schedlab list --format \
                 json` prints it, or a file or folder of features{near}",
                entry.scenario
            )
        };
        let diagnostic =
            |entry| Diagnostic::new(&self.file, QuarantineEntry::line(entry), message(entry));
        unknown.map(diagnostic).collect()
    }

    /// The entries that have expired: their scenarios fail the run again.
    pub fn expired(&self, today: Date) -> Vec<Diagnostic> {
        let expired = self.entries.iter().filter(|entry| !entry.is_valid(today));
        let message = |entry: &QuarantineEntry| {
            let until = entry.until.map(|date| date.to_string()).unwrap_or_default();
            format!("the quarantine of `{}` ended with {until}: {}", entry.scenario, entry.reason)
        };
        expired.map(|entry| Diagnostic::new(&self.file, entry.line, message(entry))).collect()
    }

    /// The reasons of the quarantined cases, by case id.
    pub fn reasons(&self, cases: &[&Case], today: Date) -> BTreeMap<String, String> {
        let reason = |case: &&Case| {
            let mut valid = self.entries.iter().filter(|entry| entry.is_valid(today));
            valid.find(|entry| entry.names(case)).map(|entry| (case.id(), entry.reason.clone()))
        };
        cases.iter().filter_map(reason).collect()
    }
}

impl QuarantineEntry {
    fn parse(file: &str, entry: FileEntry) -> Result<Self, Diagnostic> {
        let line_of = |value: &Spanned<String>| line_number(value.referenced.line());
        for (name, value) in [("scenario", &entry.scenario), ("reason", &entry.reason)] {
            if value.value.trim().is_empty() {
                let message = format!("{name}: got an empty text, expected a {name}");
                return Err(Diagnostic::new(file, line_of(value), message));
            }
        }
        let date = |until: Spanned<String>| {
            until.value.parse::<Date>().map_err(|_| {
                let got = &until.value;
                let message = format!("until: got `{got}`, expected a date, such as 2027-01-31");
                Diagnostic::new(file, line_of(&until), message)
            })
        };
        Ok(Self {
            line: line_of(&entry.scenario),
            until: entry.until.map(date).transpose()?,
            scenario: entry.scenario.value,
            reason: entry.reason.value,
        })
    }

    fn line(&self) -> usize {
        self.line
    }

    /// The file or folder of the scenarios.
    fn file(&self) -> &str {
        let file = self.scenario.split_once(": ").map_or(self.scenario.as_str(), |(file, _)| file);
        if file.ends_with(".feature") { file } else { self.scenario.trim_end_matches('/') }
    }

    /// Whether the entry names this case, by its id or by its file or folder.
    fn names(&self, case: &Case) -> bool {
        self.scenario == case.id() || Path::new(&case.location.file).starts_with(&self.scenario)
    }

    /// Whether the entry has not expired; the date itself is included.
    fn is_valid(&self, today: Date) -> bool {
        self.until.is_none_or(|until| today <= until)
    }
}

fn line_number(line: u64) -> usize {
    usize::try_from(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::load_text;

    const FEATURE: &str = "Feature: f
  Scenario: a gang waits
    Given a
  Scenario: a queue waits
    Given a
";

    const FILE: &str = "\
- scenario: 'features/f.feature: a gang waits'
  reason: issue 12
  until: 2027-01-31
- scenario: features/other
  reason: not on kind
";

    fn cases() -> Vec<Case> {
        load_text("features/f.feature", FEATURE, crate::steps::catalogue::is_step).unwrap()
    }

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn an_entry_holds_until_its_date() {
        let quarantine = Quarantine::parse("q.yaml", FILE).unwrap();
        let cases = cases();
        let all: Vec<&Case> = cases.iter().collect();
        let reasons = |date| quarantine.reasons(&all, day(date));
        let id = "features/f.feature: a gang waits".to_owned();
        assert_eq!(reasons("2027-01-31"), BTreeMap::from([(id, "issue 12".to_owned())]));
        assert_eq!(reasons("2027-02-01"), BTreeMap::new());
        assert_eq!(quarantine.expired(day("2027-01-31")), []);
        insta::assert_snapshot!(quarantine.expired(day("2027-02-01"))[0], @"q.yaml:1: the quarantine of `features/f.feature: a gang waits` ended with 2027-01-31: issue 12");
    }

    #[test]
    fn a_file_or_folder_quarantines_all_its_scenarios() {
        let cases = cases();
        let all: Vec<&Case> = cases.iter().collect();
        for scenario in ["features", "features/", "features/f.feature"] {
            let text = format!("- scenario: {scenario}\n  reason: r\n");
            let quarantine = Quarantine::parse("q.yaml", &text).unwrap();
            assert_eq!(quarantine.reasons(&all, day("2026-11-29")).len(), 2, "{scenario}");
        }
    }

    #[test]
    fn an_entry_without_a_scenario_is_reported_if_its_file_was_loaded() {
        let text = "- scenario: 'features/f.feature: a gang wait'\n  reason: r\n\
                    - scenario: 'features/g.feature: x'\n  reason: r\n";
        let quarantine = Quarantine::parse("q.yaml", text).unwrap();
        let suite = FeatureSuite {
            cases: cases(),
            files: vec!["features/f.feature".to_owned()],
            ..FeatureSuite::default()
        };
        let unknown: Vec<String> =
            quarantine.unknown_scenarios(&suite).iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(unknown.join("\n"), @"q.yaml:1: scenario: got `features/f.feature: a gang wait`, expected the id of a scenario, as `schedlab list --format json` prints it, or a file or folder of features; did you mean `features/f.feature: a gang waits`?");
    }

    #[test]
    fn errors_name_line_and_field() {
        let error = |text: &str| Quarantine::parse("q.yaml", text).unwrap_err().to_string();
        let messages = [
            error("- scenario: a\n  reason: b\n  until: soon\n"),
            error("- scenario: a\n  reason: ''\n"),
            error("- scenario: a\n"),
            error("- scenario: a\n  reason: b\n  untill: 2027-01-31\n"),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r"
        q.yaml:3: until: got `soon`, expected a date, such as 2027-01-31
        q.yaml:2: reason: got an empty text, expected a reason
        q.yaml:1: missing field `reason`; expected a list of entries with `scenario`, `reason` and, if wanted, `until`
        q.yaml:3: unknown field `untill`, expected one of scenario, reason, until; expected a list of entries with `scenario`, `reason` and, if wanted, `until`
        ");
    }
}
