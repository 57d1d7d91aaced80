//! Evidence for the CNCF AI conformance programme: its requirement `gang_scheduling` (KAR-0053).
//!
//! The programme asks for a row of `PRODUCT.yaml` with status, evidence and notes, and for evidence
//! that is publicly reachable. The test plan of KAR-0053 has three cases, which three behaviours of
//! the profile show.

use std::fmt::Write as _;

use serde::Serialize;

use super::plan::PlannedBehaviour;
use super::report::ConformanceReport;
use crate::report::{CaseOutcome, CaseReport, Report, junit_xml};

/// A file of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceFile {
    /// The name of the file.
    pub name: &'static str,
    /// The text of the file.
    pub text: String,
}

/// The cases of KAR-0053's test plan, each with the behaviour that shows it.
const KAR_0053_CASES: [(&str, &str, &str); 3] = [
    (
        "Positive case",
        "gang.complete",
        "There is room for all pods: all of them reach Running, and the workload completes.",
    ),
    (
        "Negative case",
        "gang.none-without-room",
        "There is room for fewer than all pods: no pod reaches Running within the wait.",
    ),
    ("Cleanup", "gang.deleted", "The workload is deleted: its resources are released."),
];

/// The row of `PRODUCT.yaml`. The description of the requirement stays as it is in the checklist.
#[derive(Debug, Serialize)]
struct RequirementRow {
    id: &'static str,
    level: &'static str,
    status: &'static str,
    evidence: Vec<String>,
    notes: String,
}

/// A case of the test plan with its result.
struct CaseEvidence<'a> {
    name: &'static str,
    demand: &'static str,
    id: &'static str,
    results: Vec<&'a CaseReport>,
}

impl CaseEvidence<'_> {
    fn passed(&self) -> bool {
        !self.results.is_empty()
            && self.results.iter().all(|case| case.outcome == CaseOutcome::Passed)
    }

    fn verdict(&self) -> &'static str {
        let has = |outcome| self.results.iter().any(|case| case.outcome == outcome);
        if self.passed() {
            "PASS"
        } else if has(CaseOutcome::Failed) {
            "FAIL"
        } else {
            "NOT RUN"
        }
    }
}

/// The evidence files for `gang_scheduling`: the row of `PRODUCT.yaml`, a page that says what was
/// tested and with which result, and `JUnit` XML. `url` is where the page will be published.
///
/// # Errors
/// A file cannot be represented in its format.
pub fn cncf_ai_evidence(
    report: &ConformanceReport,
    planned: &[PlannedBehaviour],
    results: &[CaseReport],
    url: Option<&str>,
) -> anyhow::Result<Vec<EvidenceFile>> {
    let of_behaviour = |id: &str| -> Vec<&CaseReport> {
        let ids = planned.iter().flat_map(|one| one.cases.iter().map(move |_| one.id.as_str()));
        ids.zip(results).filter(|(its, _)| *its == id).map(|(_, case)| case).collect()
    };
    let cases: Vec<CaseEvidence<'_>> = KAR_0053_CASES
        .into_iter()
        .map(|(name, id, demand)| CaseEvidence { name, demand, id, results: of_behaviour(id) })
        .collect();
    let ran: Vec<CaseReport> =
        cases.iter().flat_map(|case| &case.results).copied().cloned().collect();
    let junit = Report {
        seed: report.suite.seed,
        cluster: report.cluster.kind.clone(),
        cases: ran,
        problems: Vec::new(),
    };
    Ok(vec![
        EvidenceFile { name: "gang_scheduling.yaml", text: row_text(report, &cases, url)? },
        EvidenceFile { name: "gang_scheduling.md", text: page_text(report, &cases) },
        EvidenceFile { name: "junit_01.xml", text: junit_xml(&junit)? },
    ])
}

fn row_text(
    report: &ConformanceReport,
    cases: &[CaseEvidence<'_>],
    url: Option<&str>,
) -> anyhow::Result<String> {
    let passed = cases.iter().filter(|case| case.passed()).count();
    let status = match passed {
        _ if passed == cases.len() => "Implemented",
        0 => "Not Implemented",
        _ => "Partially Implemented",
    };
    let page = url.map_or("[URL of gang_scheduling.md]".to_owned(), str::to_owned);
    let row = RequirementRow {
        id: "gang_scheduling",
        level: "MUST",
        status,
        evidence: vec![page],
        notes: format!(
            "{} {}, tested with schedlab {} (KAR-0053: {passed} of {} cases passed)",
            report.implementation.name,
            report.implementation.version.as_deref().unwrap_or("[version]"),
            report.suite.version,
            cases.len()
        ),
    };
    let heading = "# For spec.schedulingOrchestration of PRODUCT.yaml. The description stays as it is \
                   in the checklist.\n";
    Ok(heading.to_owned() + &serde_yaml::to_string(&[row])?)
}

fn page_text(report: &ConformanceReport, cases: &[CaseEvidence<'_>]) -> String {
    let mut out = String::from("# gang_scheduling (KAR-0053)\n\n");
    let version = report.implementation.version.as_deref().unwrap_or("[version]");
    let facts = [
        ("Gang scheduling solution", format!("{} {version}", report.implementation.name)),
        ("Kubernetes", report.cluster.kubernetes_version.clone()),
        ("Cluster", report.cluster.kind.clone()),
        ("Date", report.date.clone()),
        ("Suite", format!("schedlab {}, {}", report.suite.version, report.suite.digest)),
    ];
    out.push_str("| | |\n|---|---|\n");
    for (name, value) in facts {
        let _ = writeln!(out, "| {name} | {value} |");
    }
    let all = if cases.iter().all(CaseEvidence::passed) { "PASS" } else { "FAIL" };
    let _ = writeln!(out, "\n**Result: {all}**");
    for case in cases {
        let _ = writeln!(out, "\n## {}: {}\n\n{}", case.name, case.verdict(), case.demand);
        for result in &case.results {
            write_steps(case.id, result, &mut out);
        }
    }
    out.push_str("\n## Reproduce\n\n```sh\n");
    for command in &report.reproduce.commands {
        let ids: Vec<String> = cases.iter().map(|case| format!(" --only {}", case.id)).collect();
        let _ = writeln!(out, "{command}{}", ids.concat());
    }
    out.push_str("```\n");
    out
}

/// The steps of a scenario with their results, and how long it took on the cluster's clock.
fn write_steps(id: &str, result: &CaseReport, out: &mut String) {
    let _ = writeln!(out, "\nScenario `{id}`, {}:\n\n```text", result.file);
    for step in &result.steps {
        let mark = match step.outcome {
            CaseOutcome::Passed => "passed ",
            CaseOutcome::Failed | CaseOutcome::Pending => "FAILED ",
            CaseOutcome::NotRun | CaseOutcome::Skipped => "not run",
        };
        let _ = writeln!(out, "{mark}  {} {}", step.keyword, step.text);
        for line in &step.below {
            let _ = writeln!(out, "             {line}");
        }
    }
    let secs = result.virtual_millis / 1000;
    let _ = writeln!(out, "```\n\nIt took {secs} s on the cluster's clock.");
    if let Some(reason) = &result.skipped {
        let _ = writeln!(out, "\nIt was skipped: {reason}.");
    }
    if let Some(failure) = &result.failure {
        let _ = writeln!(out, "\n```text\n{}\n```", failure.message);
    }
}
