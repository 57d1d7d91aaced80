//! `schedlab feature`: writes a case as a feature, and runs it at once. The simplest text that
//! reproduces the case is kept: workloads that the scheduler places, then workloads on the nodes of
//! the case, then the case file as the background.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use schedlab_casefiles::Case;
use schedlab_casefiles::audit::AuditClaim;
use schedlab_casefiles::feature::{
    BesideTables, FeatureClaim, FeatureStory, Placement, write_with_case, write_with_tables,
};
use schedlab_casefiles::predicate::{Predicate, State, Verdict, nameless_reason};
use schedlab_scheduler::replay::Replay;

use super::case_input::{case_error, create_folder_of, load_case, overrides};
use super::minimise::temporary_folder;
use super::{CommandOutput, UsageError};
use crate::cli::Feature;
use crate::exit::ExitStatus;

/// Cycles of the replay whose reason the claim states.
const CYCLES: u32 = 3;

/// How a feature has tables, simplest first, and what that means.
const FORMS: [(Placement, BesideTables, &str); 4] = [
    (Placement::ByScheduler, BesideTables::Nothing, "the scheduler places the running workloads"),
    (Placement::Pinned, BesideTables::Nothing, "running workloads are on the nodes of the case"),
    (Placement::ByScheduler, BesideTables::Manifests, "what tables cannot say is in manifests"),
    (
        Placement::Pinned,
        BesideTables::Manifests,
        "running workloads are on the nodes of the case, and what tables cannot say is in manifests",
    ),
];

/// A text of the feature, with how it came about.
struct Draft {
    text: String,
    how: &'static str,
    /// Whether a failure of the text is the expected result.
    fails: bool,
}

/// Writes the feature. The exit code is 1 if no text reproduces the case.
pub fn run_feature_command(args: &Feature) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let overrides = overrides(&args.scheduler)?;
    create_folder_of(&args.output)?;
    let case = load_case(&args.input, &mut output)?;
    let replay =
        case.replay(&overrides, CYCLES).map_err(|error| case_error(&args.input.files, &error))?;
    let claim = feature_claim(args, &case, &replay)?;
    let settings = case.cluster.changed_settings(&overrides);
    let settings = settings.map_err(|error| case_error(&args.input.files, &error.into()))?;
    let story =
        FeatureStory { title: &args.title, claim: &claim, with_reason: true, settings: &settings };
    let (drafts, mut notes) = drafts(args, &case, &replay, &story);
    let is_placement = claim.predicates().iter().any(|claim| claim.state == State::Placed);
    if is_placement && case.objects("nodes").next().is_none() {
        notes.push(
            "the case has no node, so that nothing can be placed: add nodes to the feature"
                .to_owned(),
        );
    }
    for note in &notes {
        output.print_note(note);
    }
    let Some(first) = drafts.first() else {
        return Err(UsageError("the case cannot be written as a feature".to_owned()).into());
    };
    let reason = failure_text(&claim, &replay);
    let folder = temporary_folder()?;
    let mut reports = Vec::new();
    for draft in &drafts {
        let (passed, report) = run_text(&draft.text, &folder)?;
        let report = lasting_lines(&report, &folder);
        let is_same = if draft.fails {
            !passed && reason.as_ref().is_none_or(|reason| report.contains(&**reason))
        } else {
            passed
        };
        if is_same {
            write_feature(&args.output, &draft.text, args)?;
            let lines = draft.text.lines().count();
            let verb = if draft.fails { "fails for the reason of the case" } else { "passes" };
            let path = args.output.display();
            output.print_note(&format!("{path}: {lines} lines; it {verb}: {}", draft.how));
            std::fs::remove_dir_all(&folder).context("cannot remove a temporary folder")?;
            return Ok(ExitStatus::Passed);
        }
        output.print_note(&format!("does not reproduce the case: {}", draft.how));
        reports.push(report);
    }
    // They tell why, if no text reproduces the case.
    for report in &reports {
        output.print_note(report);
    }
    std::fs::remove_dir_all(&folder).context("cannot remove a temporary folder")?;
    write_feature(&args.output, &first.text, args)?;
    output.print_note(&format!("{}: it does not reproduce the case", args.output.display()));
    Ok(ExitStatus::Failed)
}

/// What the report of a draft says if it fails for the reason of the case; `None` if any failure will
/// do.
fn failure_text(claim: &FeatureClaim, replay: &Replay) -> Option<String> {
    if let FeatureClaim::Breaks(rules) = claim {
        let rule = rules.first()?.rule;
        return Some(format!("rule {} ({})", rule.invariant_number(), rule.rule_name()));
    }
    let mut reasons = claim.predicates().iter().flat_map(|claim| claim.reasons(replay));
    reasons.next().map(|group| nameless_reason(group, replay).to_owned())
}

/// The claim of the feature, which the case must agree with.
fn feature_claim(args: &Feature, case: &Case, replay: &Replay) -> anyhow::Result<FeatureClaim> {
    if let Some(claim) = &args.should {
        return match claim.judge(replay) {
            Verdict::Fails(_) => Ok(FeatureClaim::Should(claim.clone())),
            Verdict::Holds(why) => {
                let message = format!("--should: the case already shows {claim}: {why}");
                Err(UsageError(message).into())
            }
        };
    }
    let claims: Vec<Predicate> = match &args.shows {
        Some(claim) => vec![claim.clone()],
        None => case.manifest.shows.lines().filter_map(|line| line.parse().ok()).collect(),
    };
    let broken: Vec<AuditClaim> = match &args.shows {
        Some(_) => Vec::new(),
        None => case.manifest.shows.lines().filter_map(audit_claim).collect(),
    };
    if !broken.is_empty() {
        return Ok(FeatureClaim::Breaks(broken));
    }
    if claims.is_empty() {
        let message = "got no claim, expected --shows CLAIM or --should CLAIM, or a case of \
                       schedlab minimise";
        return Err(UsageError(message.to_owned()).into());
    }
    for claim in &claims {
        if let Verdict::Fails(why) = claim.judge(replay) {
            let message = format!("the case does not show {claim}: {why}");
            return Err(UsageError(message).into());
        }
    }
    Ok(FeatureClaim::Shows(claims))
}

/// The claim about the audit in a line of what a case shows.
fn audit_claim(line: &str) -> Option<AuditClaim> {
    line.starts_with(AuditClaim::PREFIX).then(|| line.parse().ok())?
}

/// The texts to try, simplest first, and why others cannot be written.
fn drafts(
    args: &Feature,
    case: &Case,
    replay: &Replay,
    story: &FeatureStory<'_>,
) -> (Vec<Draft>, Vec<String>) {
    let fails = match story.claim {
        FeatureClaim::Shows(_) => false,
        FeatureClaim::Should(_) | FeatureClaim::Breaks(_) => true,
    };
    let (mut drafts, mut notes) = (Vec::new(), Vec::new());
    let mut add = |written: Result<String, _>, how: &'static str| match written {
        Ok(text) => {
            if !drafts.iter().any(|draft: &Draft| draft.text == text) {
                drafts.push(Draft { text, how, fails });
            }
        }
        Err(why) => {
            let note = format!("no tables: {why}");
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    };
    let file = case_path(args);
    for with_reason in [true, false] {
        let story = FeatureStory { with_reason, ..story.clone() };
        for (placement, beside, how) in FORMS {
            add(write_with_tables(case, replay, &story, placement, beside), how);
        }
        let by_file = write_with_case(case, replay, &story, &file);
        add(by_file, "its background is the case file");
    }
    (drafts, notes)
}

/// The whole path of the first file of the case.
fn case_path(args: &Feature) -> String {
    let file = args.input.files.first().map(std::path::absolute);
    file.and_then(Result::ok).unwrap_or_default().display().to_string()
}

/// Runs a feature on the emulator. Returns whether it passed, and the report.
fn run_text(text: &str, folder: &Path) -> anyhow::Result<(bool, String)> {
    let file = folder.join("case.feature");
    std::fs::write(&file, text).context("cannot write a temporary feature")?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let ran = Command::new(program)
        .arg("run")
        .arg(&file)
        .arg("--results")
        .arg(folder.join("results"))
        .stdin(Stdio::null())
        .output()
        .context("cannot run the feature")?;
    let report = String::from_utf8_lossy(&ran.stdout).into_owned();
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    Ok((ran.status.success(), report + &errors))
}

/// The lines of a report that stay true when the folder of the run is deleted.
fn lasting_lines(report: &str, folder: &Path) -> String {
    let file = folder.join("case.feature").display().to_string();
    let lines = report.lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with("results: ") && !line.starts_with("reproduce: ")
    });
    lines.map(|line| line.replace(&file, "the draft")).collect::<Vec<_>>().join("\n")
}

/// Writes the feature, with the path of the case file relative to the folder of the features.
fn write_feature(path: &Path, text: &str, args: &Feature) -> anyhow::Result<()> {
    let shown = path.display();
    let whole = std::path::absolute(path).unwrap_or_default();
    let base = whole
        .ancestors()
        .find(|folder| folder.file_name().is_some_and(|name| name == "features"))
        .and_then(Path::parent)
        .or(whole.parent());
    let case = case_path(args);
    let relative = base.and_then(|base| Path::new(&case).strip_prefix(base).ok());
    let text = match relative {
        Some(relative) => text.replace(&case, &relative.display().to_string()),
        None => text.to_owned(),
    };
    std::fs::write(path, text)
        .map_err(|error| UsageError(format!("{shown}: cannot write it: {error}")))?;
    Ok(())
}
