//! Reports for GitHub Actions: workflow commands, which GitHub shows as annotations beside the
//! changed lines, and the summary of a step.

use std::fmt::Write as _;

use super::{CaseOutcome, CaseReport, Diagnostic, Failure, Report};
use crate::text::counted_noun;

/// Annotations for GitHub Actions: one `::error` line for each case that did not pass and for each
/// diagnostic, and a `::warning` for a failure in quarantine. `folder` is the current folder below
/// the repository, with a slash at its end, or empty: GitHub's paths begin at the repository.
pub fn github_annotations(report: &Report, folder: &str) -> String {
    let mut out = String::new();
    for case in report.cases.iter().filter(|c| c.outcome != CaseOutcome::Passed) {
        let (Some(failure), Some(why)) = (&case.failure, case.failure_message()) else { continue };
        let level = if case.is_quarantined_failure() { "warning" } else { "error" };
        let quarantine = case.quarantined.as_ref();
        let quarantine =
            quarantine.map(|reason| format!("quarantined: {reason}\n")).unwrap_or_default();
        let _ = writeln!(
            out,
            "::{level} file={},line={},title={}::{}",
            escape_property(&format!("{folder}{}", case.file)),
            failure.line,
            escape_property(&case.name),
            escape_data(&format!("{quarantine}{why}\n{}", failure.reproduce)),
        );
    }
    for Diagnostic { file, line, message } in &report.problems {
        let escaped = escape_property(&format!("{folder}{file}"));
        let location = match (&**file, line) {
            ("", _) => String::new(),
            (_, 0) => format!("file={escaped},"),
            (_, line) => format!("file={escaped},line={line},"),
        };
        let _ = writeln!(out, "::error {location}title=schedlab::{}", escape_data(message));
    }
    out
}

fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Maximum number of failures that the summary shows with their messages, because GitHub rejects a
/// summary of more than 1 MiB.
const SUMMARY_FAILURES_MAX: usize = 50;

/// Maximum number of bytes of a failure message in the summary.
const SUMMARY_MESSAGE_BYTES_MAX: usize = 8_000;

/// The summary of the step as Markdown: counts, failures with the commands that reproduce them, and
/// what was skipped or is in quarantine.
pub fn github_summary(report: &Report) -> String {
    let counted: Vec<&CaseReport> =
        report.cases.iter().filter(|case| case.is_counted_failure()).collect();
    let failed = counted.len() + report.problems.len();
    let verdict = match (failed, report.count_of(CaseOutcome::Pending)) {
        (0, 0) => "✅".to_owned(),
        (0, pending) => format!("🟡 {}", counted_noun(pending, "pending snapshot")),
        (failed, _) => format!("❌ {}", counted_noun(failed, "failure")),
    };
    let scenarios = counted_noun(report.cases.len(), "scenario");
    let mut out = format!("### schedlab: {scenarios} {verdict}\n\n");
    write_counts(report, &mut out);
    for Diagnostic { message, .. } in report.problems.iter().filter(|one| one.file.is_empty()) {
        let _ = writeln!(out, "\n{}", fenced(message));
    }
    for (number, problem) in report.problems.iter().filter(|one| !one.file.is_empty()).enumerate() {
        // A list after a table needs an empty line.
        let gap = if number == 0 { "\n" } else { "" };
        let _ = writeln!(out, "{gap}* {}", escape_markdown(&problem.to_string()));
    }
    let pending = report.cases.iter().filter(|case| case.outcome == CaseOutcome::Pending);
    let shown: Vec<&CaseReport> = counted.into_iter().chain(pending).collect();
    for case in shown.iter().take(SUMMARY_FAILURES_MAX) {
        let Some(failure) = &case.failure else { continue };
        write_failure(case, failure, &mut out);
    }
    if shown.len() > SUMMARY_FAILURES_MAX {
        let more = counted_noun(shown.len() - SUMMARY_FAILURES_MAX, "more failure");
        let _ = writeln!(out, "\n… {more}");
    }
    write_quarantine(report, &mut out);
    let _ = writeln!(out, "\nseed {}, cluster {}", report.seed, escape_markdown(&report.cluster));
    out
}

fn write_counts(report: &Report, out: &mut String) {
    let outcome = |outcome| report.count_of(outcome);
    let counts = [
        ("passed", outcome(CaseOutcome::Passed)),
        ("failed", report.cases.iter().filter(|case| case.is_counted_failure()).count()),
        ("pending", outcome(CaseOutcome::Pending)),
        ("flaky", report.cases.iter().filter(|case| case.flaky).count()),
        ("in quarantine", report.cases.iter().filter(|case| case.is_quarantined_failure()).count()),
        ("skipped", outcome(CaseOutcome::Skipped)),
        ("not started", outcome(CaseOutcome::NotRun)),
    ];
    let shown: Vec<_> = counts
        .iter()
        .filter(|(word, count)| *count > 0 || ["passed", "failed", "skipped"].contains(word))
        .collect();
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&row(shown.iter().map(|(word, _)| (*word).to_owned()).collect()));
    out.push_str(&row(shown.iter().map(|_| "---:".to_owned()).collect()));
    out.push_str(&row(shown.iter().map(|(_, count)| count.to_string()).collect()));
}

fn write_failure(case: &CaseReport, failure: &Failure, out: &mut String) {
    let (name, file, line) = (&case.name, &case.file, failure.line);
    let message = case.failure_message().unwrap_or_default();
    let message = match message.char_indices().nth(SUMMARY_MESSAGE_BYTES_MAX) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message,
    };
    let _ = write!(
        out,
        "\n<details><summary>❌ {} <code>{}:{line}</code></summary>\n\n{}\n\n{}\n</details>\n",
        escape_html(name),
        escape_html(file),
        fenced(&message),
        fenced(&failure.reproduce),
    );
}

fn write_quarantine(report: &Report, out: &mut String) {
    let quarantined: Vec<&CaseReport> =
        report.cases.iter().filter(|case| case.quarantined.is_some()).collect();
    if quarantined.is_empty() {
        return;
    }
    out.push_str("\n**In quarantine**\n\n");
    for case in quarantined {
        let verdict = match case.outcome {
            CaseOutcome::Passed => "passed: remove it from quarantine",
            CaseOutcome::Failed => "failed",
            CaseOutcome::Pending => "pending",
            CaseOutcome::NotRun => "not started",
            CaseOutcome::Skipped => "skipped",
        };
        let reason = case.quarantined.as_deref().unwrap_or_default();
        let _ = writeln!(
            out,
            "* {}: {verdict} ({})",
            escape_markdown(&case.name),
            escape_markdown(reason)
        );
    }
}

/// A block of code, with a fence that is longer than every fence in the text.
fn fenced(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}text\n{}\n{fence}", text.trim_end())
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn escape_markdown(text: &str) -> String {
    let mut out = String::new();
    for letter in escape_html(text).chars() {
        match letter {
            '\n' => out.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' => {
                out.push('\\');
                out.push(letter);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::case;

    fn report() -> Report {
        let mut failed = case(CaseOutcome::Failed, false, true);
        failed.name = "a <gang>, 50% of it".to_owned();
        let mut quarantined = case(CaseOutcome::Failed, false, true);
        quarantined.quarantined = Some("issue_12".to_owned());
        let mut healed = case(CaseOutcome::Passed, false, false);
        healed.quarantined = Some("slow".to_owned());
        let cases = vec![failed, quarantined, healed, case(CaseOutcome::NotRun, false, false)];
        let problems = vec![Diagnostic::new("s/x.snap", 0, "orphan snapshot".to_owned())];
        Report { seed: 1, cases, problems, ..Report::default() }
    }

    #[test]
    fn annotations_name_file_line_and_title_below_the_repository() {
        insta::assert_snapshot!(github_annotations(&report(), "sub/"), @r"
        ::error file=sub/f.feature,line=7,title=a <gang>%2C 50%25 of it::expected 8, found 7%0Aschedlab run f.feature:5 --seed 1
        ::warning file=sub/f.feature,line=7,title=a::quarantined: issue_12%0Aexpected 8, found 7%0Aschedlab run f.feature:5 --seed 1
        ::error file=sub/s/x.snap,title=schedlab::orphan snapshot
        ");
    }

    #[test]
    fn the_summary_has_counts_failures_and_quarantine() {
        insta::assert_snapshot!(github_summary(&report()), @r"
        ### schedlab: 4 scenarios ❌ 2 failures

        | passed | failed | in quarantine | skipped | not started |
        | ---: | ---: | ---: | ---: | ---: |
        | 1 | 1 | 1 | 0 | 1 |

        * s/x.snap: orphan snapshot

        <details><summary>❌ a &lt;gang&gt;, 50% of it <code>f.feature:7</code></summary>

        ```text
        expected 8, found 7
        ```

        ```text
        schedlab run f.feature:5 --seed 1
        ```
        </details>

        **In quarantine**

        * a: failed (issue\_12)
        * a: passed: remove it from quarantine (slow)

        seed 1, cluster emulator
        ");
    }

    #[test]
    fn a_fence_is_longer_than_those_in_the_text() {
        assert_eq!(fenced("a\n```\nb\n"), "````text\na\n```\nb\n````");
    }
}
