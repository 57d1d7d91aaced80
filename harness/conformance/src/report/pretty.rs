//! The report for people: one line for a passed case, all details and the reproduce command for a
//! failed one.

use std::fmt::Write as _;
use std::time::Duration;

use console::Style;

use super::{CaseReport, FLAKY_HEADING, Outcome, Report};
use crate::text::counted;

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

/// Maximum number of lines of a short failure message.
const MESSAGE_LINES_MAX: usize = 20;

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

    /// This printer, set to print so much of a failure message.
    #[must_use]
    pub fn with_failures(self, failures: FailureLength) -> Self {
        Self { failures, ..self }
    }

    /// The text for one case. The first case of a feature comes with the feature's heading. Cases
    /// that were not run are only counted in the summary.
    pub fn case(&mut self, case: &CaseReport) -> String {
        let mut out = String::new();
        if case.outcome == Outcome::NotRun {
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
                let steps = counted(case.steps.len(), "step");
                format!("{steps}, {}", virtual_time(case.virtual_millis))
            },
            |why| format!("skipped: {why}"),
        );
        let flaky = match (case.flaky, case.outcome == Outcome::Failed) {
            (false, _) => "",
            (true, false) => "  flaky",
            (true, true) => "  failed as flaky",
        };
        let (mark, style) = self.mark(case.outcome);
        let _ = writeln!(
            out,
            "  {} {}{flaky}  {}",
            style.apply_to(mark),
            case.name,
            self.dim.apply_to(detail)
        );
        self.failure(case, &mut out);
        out
    }

    fn failure(&self, case: &CaseReport, out: &mut String) {
        let Some(failure) = &case.failure else { return };
        for step in &case.steps {
            let (mark, style) = self.mark(step.outcome);
            let line = format!("{mark} {} {}", step.keyword, step.text);
            let location = format!("{}:{}", case.file, step.line);
            let _ =
                writeln!(out, "      {}  {}", style.apply_to(line), self.dim.apply_to(location));
            if has_failure_message(step.outcome) {
                self.message(&failure.message, out);
            }
        }
        if case.flaky {
            let _ = writeln!(out, "      {}", self.warn.apply_to(FLAKY_HEADING));
        }
        if !case.steps.iter().any(|step| has_failure_message(step.outcome)) {
            self.message(&failure.message, out);
        }
        let _ = writeln!(out, "      {} {}", self.bold.apply_to("reproduce:"), failure.reproduce);
    }

    fn message(&self, message: &str, out: &mut String) {
        let lines: Vec<&str> = message.lines().collect();
        let printed = match self.failures {
            FailureLength::Short => lines.len().min(MESSAGE_LINES_MAX),
            FailureLength::Full => lines.len(),
        };
        for line in &lines[..printed] {
            let _ = writeln!(out, "          {}", self.bad.apply_to(line));
        }
        if printed < lines.len() {
            let more = counted(lines.len() - printed, "more line");
            let _ = writeln!(out, "          … {more}, with -v");
        }
    }

    fn mark(&self, outcome: Outcome) -> (&'static str, &Style) {
        match outcome {
            Outcome::Passed => ("✔", &self.good),
            Outcome::Failed => ("✘", &self.bad),
            Outcome::Pending => ("?", &self.warn),
            Outcome::NotRun | Outcome::Skipped => ("-", &self.dim),
        }
    }
}

/// Whether a step with this outcome carries the failure of its case.
fn has_failure_message(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Failed | Outcome::Pending)
}

/// Whether the printed text is colored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// With ANSI colors.
    On,
    /// Without colors.
    Off,
}

/// The summary at the end of a run.
pub fn summary(report: &Report, wall: Option<Duration>) -> String {
    let steps: usize = report.cases.iter().map(|case| case.steps.len()).sum();
    let passed_steps = report.cases.iter().flat_map(|case| &case.steps);
    let passed_steps = passed_steps.filter(|step| step.outcome == Outcome::Passed).count();
    let millis: u64 = report.cases.iter().map(|case| case.virtual_millis).sum();
    let mut parts = vec![format!("{} passed", report.count(Outcome::Passed))];
    let flaky = |outcome| {
        let cases = report.cases.iter().filter(|case| case.flaky);
        cases.filter(|case| case.outcome == outcome).count()
    };
    let others = [
        (report.count(Outcome::Failed) - flaky(Outcome::Failed), "failed"),
        (flaky(Outcome::Failed), "failed as flaky"),
        (report.count(Outcome::Pending), "pending"),
        (report.count(Outcome::Skipped), "skipped"),
        (report.count(Outcome::NotRun), "not run"),
        (flaky(Outcome::Passed), "flaky"),
    ];
    let some = others.iter().filter(|(count, _)| *count > 0);
    parts.extend(some.map(|(count, word)| format!("{count} {word}")));
    let time = if report.is_virtual() {
        format!("{} of virtual time", virtual_time(millis))
    } else {
        format!("{} of real time, in parallel", virtual_time(millis))
    };
    let crashes: usize = report.cases.iter().map(|case| case.crashes as usize).sum();
    let crashes = if crashes == 0 {
        String::new()
    } else {
        let crashes = counted(crashes, "scheduler crash");
        format!("{crashes}, each before a different write: no rule broken\n")
    };
    let scenarios = counted(report.cases.len(), "scenario");
    let steps = counted(steps, "step");
    let wall = wall.map_or_else(String::new, |wall| format!(" in {:.2} s", wall.as_secs_f64()));
    format!(
        "\n{}{scenarios}: {}\n{steps}: {passed_steps} passed\n{crashes}{time}{wall} (seed {})\n",
        failures(report),
        parts.join(", "),
        report.seed
    )
}

/// Maximum number of lines of a failure message in the summary.
const SUMMARY_LINES_MAX: usize = 8;

/// Repeats the failures, because the end of a long log is often all that is read.
fn failures(report: &Report) -> String {
    let mut out = String::new();
    if report.cases.len() == 1 {
        return out;
    }
    let failed = |case: &&CaseReport| matches!(case.outcome, Outcome::Failed | Outcome::Pending);
    for case in report.cases.iter().filter(failed) {
        let Some(failure) = &case.failure else { continue };
        let _ = writeln!(out, "✘ {}:{}  {}", case.file, failure.line, case.name);
        let lines: Vec<&str> = failure.message.lines().collect();
        for line in lines.iter().take(SUMMARY_LINES_MAX) {
            let _ = writeln!(out, "    {line}");
        }
        if lines.len() > SUMMARY_LINES_MAX {
            let more = counted(lines.len() - SUMMARY_LINES_MAX, "more line");
            let _ = writeln!(out, "    … {more}, with -v");
        }
        let _ = writeln!(out, "    reproduce: {}\n", failure.reproduce);
    }
    out
}

/// A duration in its two largest units.
fn virtual_time(millis: u64) -> String {
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
            outcome: Outcome::Passed,
            below: Vec::new(),
        };
        let printed = |outcome| {
            let case = CaseReport { steps: vec![step.clone()], ..case(outcome, true, true) };
            PrettyPrinter::new(Colors::Off).case(&case)
        };
        insta::assert_snapshot!(printed(Outcome::Passed), @r"
        f  f.feature
          ✔ a  flaky  1 step, 1.500 s
              ✔ Then 8 pods run  f.feature:7
              flaky: the first attempt failed:
                  expected 8, found 7
              reproduce: schedlab run f.feature:5 --seed 1
        ");
        insta::assert_snapshot!(printed(Outcome::Failed), @r"
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
            case(Outcome::Passed, true, true),
            case(Outcome::Failed, true, true),
            case(Outcome::Failed, false, true),
        ];
        let text = summary(&Report { cases, ..Report::default() }, Some(Duration::ZERO));
        let counts = "3 scenarios: 1 passed, 1 failed, 1 failed as flaky, 1 flaky\n";
        assert!(text.contains(counts), "{text}");
    }

    #[test]
    fn the_summary_repeats_each_failure_with_its_first_lines() {
        let mut long = case(Outcome::Failed, false, true);
        let lines: Vec<String> = (1..=10).map(|line| format!("line {line}")).collect();
        long.failure.as_mut().unwrap().message = lines.join("\n");
        let cases = vec![
            case(Outcome::Passed, true, true),
            case(Outcome::Failed, false, true),
            case(Outcome::Skipped, false, false),
            long,
        ];
        insta::assert_snapshot!(summary(&Report { cases, ..Report::default() }, Some(Duration::ZERO)), @r"
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
        let alone = Report { cases: vec![case(Outcome::Failed, false, true)], ..Report::default() };
        let text = summary(&alone, Some(Duration::ZERO));
        assert!(!text.contains("expected 8"), "it stands right above: {text}");
    }

    #[test]
    fn a_long_message_is_cut_after_20_lines_unless_all_are_wanted() {
        let mut long = case(Outcome::Failed, false, true);
        let lines: Vec<String> = (1..=22).map(|line| format!("line {line}")).collect();
        long.failure.as_mut().unwrap().message = lines.join("\n");
        let short = PrettyPrinter::new(Colors::Off).case(&long);
        assert!(short.contains("line 20\n          … 2 more lines, with -v\n"), "{short}");
        let full = PrettyPrinter::new(Colors::Off).with_failures(FailureLength::Full).case(&long);
        assert!(full.contains("line 22\n") && !full.contains("more line"), "{full}");
    }

    #[test]
    fn the_time_of_a_real_cluster_is_not_called_virtual() {
        let on = |cluster: &str| {
            let report = Report { cluster: cluster.to_owned(), ..Report::default() };
            summary(&report, Some(Duration::from_secs(2)))
        };
        assert!(on("emulator").contains("0.000 s of virtual time in 2.00 s"), "{}", on("emulator"));
        assert!(on("kind").contains("0.000 s of real time, in parallel in 2.00 s"));
    }

    #[test]
    fn virtual_time_is_printed_in_its_two_largest_units() {
        assert_eq!(virtual_time(1_500), "1.500 s");
        assert_eq!(virtual_time(61_000), "1 min 1 s");
        assert_eq!(virtual_time(7_260_000), "2 h 1 min");
        assert_eq!(virtual_time(90_000_000), "1 d 1 h");
    }
}
