//! The report for people: one line for a passed case, all details and the reproduce command for a
//! failed one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use console::Style;

use super::{CaseOutcome, CaseReport, FLAKY_HEADING, Report, not_judged};
use crate::text::counted_noun;

/// Prints case reports as text for people, with or without colors.
#[derive(Clone, Debug)]
pub struct PrettyPrinter {
    good: Style,
    bad: Style,
    warn: Style,
    dim: Style,
    bold: Style,
    failures: FailureLength,
    feature: Option<String>,
}

/// How much of a failure message is printed on standard output. Reports in files contain all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureLength {
    /// The first 20 lines of the message.
    Short,
    /// All lines of the message.
    Full,
}

/// Maximum number of lines of a failure message that is printed in short.
const FAILURE_MESSAGE_LINES_MAX: usize = 20;

impl PrettyPrinter {
    /// A printer with or without colors.
    pub fn new(colors: Colors) -> Self {
        let style = || match colors {
            Colors::On => Style::new().force_styling(true),
            Colors::Off => Style::new().force_styling(false),
        };
        Self {
            good: style().green(),
            bad: style().red(),
            warn: style().yellow(),
            dim: style().dim(),
            bold: style().bold(),
            failures: FailureLength::Short,
            feature: None,
        }
    }

    /// Sets how much of a failure message this printer prints.
    #[must_use]
    pub fn with_failure_length(self, failures: FailureLength) -> Self {
        Self { failures, ..self }
    }

    /// The text for one case. The first case of a feature comes with the feature's heading. Cases
    /// that were not run are only counted in the summary.
    pub fn case_text(&mut self, case: &CaseReport) -> String {
        let mut out = String::new();
        if case.outcome == CaseOutcome::NotRun {
            return out;
        }
        let heading = format!("{} {}", case.feature, case.file);
        if self.feature.as_ref() != Some(&heading) {
            let gap = if self.feature.is_some() { "\n" } else { "" };
            let name = self.bold.apply_to(&case.feature);
            let _ = writeln!(out, "{gap}{name}  {}", self.dim.apply_to(&case.file));
            self.feature = Some(heading);
        }
        let detail = case.skipped.as_ref().map_or_else(
            || {
                let steps = counted_noun(case.steps.len(), "step");
                let time = virtual_time_text(case.virtual_millis);
                format!("{steps}, {time}{}", case.not_judged_text())
            },
            |why| format!("skipped: {why}"),
        );
        let flaky = match (case.flaky, case.outcome == CaseOutcome::Failed) {
            (false, _) => "",
            (true, false) => "  flaky",
            (true, true) => "  failed as flaky",
        };
        let (mark, style) = match (case.outcome, &case.quarantined) {
            (CaseOutcome::Failed, Some(_)) => ("✘", &self.warn),
            (outcome, _) => self.outcome_mark_and_style(outcome),
        };
        let quarantined = case.quarantined.as_ref();
        let quarantined =
            quarantined.map(|why| format!("  quarantined: {why}")).unwrap_or_default();
        let _ = writeln!(
            out,
            "  {} {}{flaky}{quarantined}  {}",
            style.apply_to(mark),
            case.name,
            self.dim.apply_to(detail)
        );
        self.write_failure(case, &mut out);
        out
    }

    fn write_failure(&self, case: &CaseReport, out: &mut String) {
        let Some(failure) = &case.failure else { return };
        for step in &case.steps {
            let (mark, style) = self.outcome_mark_and_style(step.outcome);
            let line = format!("{mark} {} {}", step.keyword, step.text);
            let location = format!("{}:{}", case.file, step.line);
            let _ =
                writeln!(out, "      {}  {}", style.apply_to(line), self.dim.apply_to(location));
            if has_failure_message(step.outcome) {
                self.write_message(&failure.message, out);
            }
        }
        if case.flaky {
            let _ = writeln!(out, "      {}", self.warn.apply_to(FLAKY_HEADING));
        }
        if !case.steps.iter().any(|step| has_failure_message(step.outcome)) {
            self.write_message(&failure.message, out);
        }
        let _ = writeln!(out, "      {} {}", self.bold.apply_to("reproduce:"), failure.reproduce);
    }

    fn write_message(&self, message: &str, out: &mut String) {
        let lines: Vec<&str> = message.lines().collect();
        let printed = match self.failures {
            FailureLength::Short => lines.len().min(FAILURE_MESSAGE_LINES_MAX),
            FailureLength::Full => lines.len(),
        };
        for line in &lines[..printed] {
            let _ = writeln!(out, "          {}", self.bad.apply_to(line));
        }
        if printed < lines.len() {
            let more = counted_noun(lines.len() - printed, "more line");
            let _ = writeln!(out, "          … {more}, with -v");
        }
    }

    fn outcome_mark_and_style(&self, outcome: CaseOutcome) -> (&'static str, &Style) {
        match outcome {
            CaseOutcome::Passed => ("✔", &self.good),
            CaseOutcome::Failed => ("✘", &self.bad),
            CaseOutcome::Pending => ("?", &self.warn),
            CaseOutcome::NotRun | CaseOutcome::Skipped => ("-", &self.dim),
        }
    }
}

/// Whether the failure message of a case is printed below a step with this outcome.
fn has_failure_message(outcome: CaseOutcome) -> bool {
    matches!(outcome, CaseOutcome::Failed | CaseOutcome::Pending)
}

/// Whether the printed text is colored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// With ANSI colors.
    On,
    /// Without colors.
    Off,
}

/// The summary at the end of a run: counts, durations and failures.
pub fn summary_text(report: &Report, wall: Option<Duration>) -> String {
    let steps: usize = report.cases.iter().map(|case| case.steps.len()).sum();
    let passed_steps = report.cases.iter().flat_map(|case| &case.steps);
    let passed_steps = passed_steps.filter(|step| step.outcome == CaseOutcome::Passed).count();
    let millis: u64 = report.cases.iter().map(|case| case.virtual_millis).sum();
    let mut parts = vec![format!("{} passed", report.count_of(CaseOutcome::Passed))];
    let flaky = |outcome| {
        let cases = report.cases.iter().filter(|case| case.flaky);
        cases.filter(|case| case.outcome == outcome).count()
    };
    let quarantined = report.cases.iter().filter(|case| case.is_quarantined_failure()).count();
    let counted = report.cases.iter().filter(|case| case.is_counted_failure());
    let failed_flaky = counted.clone().filter(|case| case.flaky).count();
    let others = [
        (counted.count() - failed_flaky, "failed"),
        (failed_flaky, "failed as flaky"),
        (quarantined, "failed in quarantine"),
        (report.count_of(CaseOutcome::Pending), "pending"),
        (report.count_of(CaseOutcome::Skipped), "skipped"),
        (report.count_of(CaseOutcome::NotRun), "not started"),
        (flaky(CaseOutcome::Passed), "flaky"),
    ];
    let some = others.iter().filter(|(count, _)| *count > 0);
    parts.extend(some.map(|(count, word)| format!("{count} {word}")));
    let time = if report.is_virtual_time() {
        format!("{} of virtual time", virtual_time_text(millis))
    } else {
        format!("{} of real time, in parallel", virtual_time_text(millis))
    };
    let crashes: usize = report.cases.iter().map(|case| case.crashes as usize).sum();
    let crashes = if crashes == 0 {
        String::new()
    } else {
        let crashes = counted_noun(crashes, "scheduler crash");
        format!("{crashes}, each before a different write: no rule broken\n")
    };
    let scenarios = counted_noun(report.cases.len(), "scenario");
    let skipped = skipped_by_reason(report) + &not_judged::summary_lines(report);
    let steps = counted_noun(steps, "step");
    let wall = wall.map_or_else(String::new, |wall| format!(" in {:.2} s", wall.as_secs_f64()));
    format!(
        "\n{}{scenarios}: {}\n{steps}: {passed_steps} passed\n{skipped}{crashes}{time}{wall} (seed {})\n",
        failure_summary(report),
        parts.join(", "),
        report.seed
    )
}

/// How many scenarios were skipped for each reason, the most frequent reason first. A scenario that
/// needs several capabilities counts for each.
fn skipped_by_reason(report: &Report) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for case in &report.cases {
        let Some(why) = &case.skipped else { continue };
        let lacks = case.missing_capabilities.iter().map(|name| format!("lacks {name}"));
        let reasons: Vec<String> = match case.missing_capabilities.as_slice() {
            [] => vec![why.clone()],
            _ => lacks.collect(),
        };
        for reason in reasons {
            *counts.entry(reason).or_default() += 1;
        }
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let lines = counts.iter().map(|(reason, count)| format!("skipped: {count} × {reason}\n"));
    lines.collect::<Vec<_>>().concat()
}

/// Maximum number of lines of a failure message in the summary.
const SUMMARY_LINES_MAX: usize = 8;

/// All failures once more, because the end of a long log is often all that is read.
fn failure_summary(report: &Report) -> String {
    let mut out = String::new();
    if report.cases.len() == 1 {
        return out;
    }
    let failed =
        |case: &&CaseReport| case.is_counted_failure() || case.outcome == CaseOutcome::Pending;
    for case in report.cases.iter().filter(failed) {
        let Some(failure) = &case.failure else { continue };
        let _ = writeln!(out, "✘ {}:{}  {}", case.file, failure.line, case.name);
        let lines: Vec<&str> = failure.message.lines().collect();
        for line in lines.iter().take(SUMMARY_LINES_MAX) {
            let _ = writeln!(out, "    {line}");
        }
        if lines.len() > SUMMARY_LINES_MAX {
            let more = counted_noun(lines.len() - SUMMARY_LINES_MAX, "more line");
            let _ = writeln!(out, "    … {more}, with -v");
        }
        let _ = writeln!(out, "    reproduce: {}\n", failure.reproduce);
    }
    out
}

/// A duration in its two largest units, such as hours and minutes.
fn virtual_time_text(millis: u64) -> String {
    let seconds = millis / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{}.{:03} s", seconds, millis % 1000),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        (_, _, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::StepReport;
    use crate::report::tests::case;

    #[test]
    fn the_first_failure_of_a_flaky_case_is_printed_below_a_heading() {
        let step = StepReport {
            keyword: "Then".to_owned(),
            text: "8 pods run".to_owned(),
            line: 7,
            outcome: CaseOutcome::Passed,
            below: Vec::new(),
        };
        let printed = |outcome| {
            let case = CaseReport { steps: vec![step.clone()], ..case(outcome, true, true) };
            PrettyPrinter::new(Colors::Off).case_text(&case)
        };
        insta::assert_snapshot!(printed(CaseOutcome::Passed), @r"
        f  f.feature
          ✔ a  flaky  1 step, 1.500 s
              ✔ Then 8 pods run  f.feature:7
              flaky: the first attempt failed:
                  expected 8, found 7
              reproduce: schedlab run f.feature:5 --seed 1
        ");
        insta::assert_snapshot!(printed(CaseOutcome::Failed), @r"
        f  f.feature
          ✘ a  failed as flaky  1 step, 1.500 s
              ✔ Then 8 pods run  f.feature:7
              flaky: the first attempt failed:
                  expected 8, found 7
              reproduce: schedlab run f.feature:5 --seed 1
        ");
    }

    #[test]
    fn flaky_failures_are_counted_separately() {
        let cases = vec![
            case(CaseOutcome::Passed, true, true),
            case(CaseOutcome::Failed, true, true),
            case(CaseOutcome::Failed, false, true),
        ];
        let text = summary_text(&Report { cases, ..Report::default() }, Some(Duration::ZERO));
        let counts = "3 scenarios: 1 passed, 1 failed, 1 failed as flaky, 1 flaky\n";
        assert!(text.contains(counts), "{text}");
    }

    #[test]
    fn skipped_scenarios_are_counted_by_reason() {
        let skipped = |why: &str, lacks: &[&str]| CaseReport {
            skipped: Some(why.to_owned()),
            missing_capabilities: lacks.iter().map(|name| (*name).to_owned()).collect(),
            ..case(CaseOutcome::Skipped, false, false)
        };
        let cases = vec![
            skipped("x lacks gang, quota", &["gang", "quota"]),
            skipped("x lacks gang", &["gang"]),
            skipped("the scenario needs virtual time (@virtual-time)", &[]),
        ];
        insta::assert_snapshot!(skipped_by_reason(&Report { cases, ..Report::default() }), @r"
        skipped: 2 × lacks gang
        skipped: 1 × lacks quota
        skipped: 1 × the scenario needs virtual time (@virtual-time)
        ");
    }

    #[test]
    fn the_summary_repeats_each_failure_with_its_first_lines() {
        let mut long = case(CaseOutcome::Failed, false, true);
        let lines: Vec<String> = (1..=10).map(|line| format!("line {line}")).collect();
        long.failure.as_mut().unwrap().message = lines.join("\n");
        let cases = vec![
            case(CaseOutcome::Passed, true, true),
            case(CaseOutcome::Failed, false, true),
            case(CaseOutcome::Skipped, false, false),
            long,
        ];
        insta::assert_snapshot!(summary_text(&Report { cases, ..Report::default() }, Some(Duration::ZERO)), @r"
        ✘ f.feature:7  a
            expected 8, found 7
            reproduce: schedlab run f.feature:5 --seed 1

        ✘ f.feature:7  a
            line 1
            line 2
            line 3
            line 4
            line 5
            line 6
            line 7
            line 8
            … 2 more lines, with -v
            reproduce: schedlab run f.feature:5 --seed 1

        4 scenarios: 1 passed, 2 failed, 1 skipped, 1 flaky
        0 steps: 0 passed
        6.000 s of virtual time in 0.00 s (seed 0)
        ");
        let alone =
            Report { cases: vec![case(CaseOutcome::Failed, false, true)], ..Report::default() };
        let text = summary_text(&alone, Some(Duration::ZERO));
        assert!(!text.contains("expected 8"), "it stands right above: {text}");
    }

    #[test]
    fn a_long_message_is_cut_after_20_lines_unless_all_are_wanted() {
        let mut long = case(CaseOutcome::Failed, false, true);
        let lines: Vec<String> = (1..=22).map(|line| format!("line {line}")).collect();
        long.failure.as_mut().unwrap().message = lines.join("\n");
        let short = PrettyPrinter::new(Colors::Off).case_text(&long);
        assert!(short.contains("line 20\n          … 2 more lines, with -v\n"), "{short}");
        let full = PrettyPrinter::new(Colors::Off)
            .with_failure_length(FailureLength::Full)
            .case_text(&long);
        assert!(full.contains("line 22\n") && !full.contains("more line"), "{full}");
    }

    #[test]
    fn the_time_of_a_real_cluster_is_not_called_virtual() {
        let on = |cluster: &str| {
            let report = Report { cluster: cluster.to_owned(), ..Report::default() };
            summary_text(&report, Some(Duration::from_secs(2)))
        };
        assert!(on("emulator").contains("0.000 s of virtual time in 2.00 s"), "{}", on("emulator"));
        assert!(on("kind").contains("0.000 s of real time, in parallel in 2.00 s"));
    }

    #[test]
    fn virtual_time_is_printed_in_its_two_largest_units() {
        assert_eq!(virtual_time_text(1_500), "1.500 s");
        assert_eq!(virtual_time_text(61_000), "1 min 1 s");
        assert_eq!(virtual_time_text(7_260_000), "2 h 1 min");
        assert_eq!(virtual_time_text(90_000_000), "1 d 1 h");
    }
}
