//! `schedlab minimise`: shrinks a case to what a claim needs.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_audit::Violation;
use schedlab_casefiles::Case;
use schedlab_casefiles::audit::AuditClaim;
use schedlab_casefiles::minimise::Minimiser;
use schedlab_casefiles::predicate::{Predicate, State, Verdict, reason_template};
use schedlab_scheduler::replay::{Replay, WaitingGroup};
use schedlab_scheduler::snapshot_file::Overrides;
use tokio::time::Instant;

use super::case_input::{
    case_error, counts_text, create_folder_of, limited_overrides, load_case, search_limit_note,
    write_case,
};
use super::{CommandOutput, UsageError};
use crate::cli::{CaseScheduler, Minimise};
use crate::exit::ExitStatus;

/// What a smaller case must still show.
#[derive(Default)]
struct Keep {
    claims: Vec<KeptClaim>,
    /// Rules that the audit of the replay reports.
    audits: Vec<AuditClaim>,
    /// Claims that hold with the settings of `--should-config`.
    should: Vec<Predicate>,
    should_settings: Overrides,
    /// Commands that exit with 0.
    commands: Vec<String>,
}

/// A claim about the replay of a case.
struct KeptClaim {
    claim: Predicate,
    /// The template of the reason that a pending workload has; `None` if any will do.
    template: Option<String>,
}

/// Prefix of `--keep` for a command.
const COMMAND_PREFIX: &str = "command:";
/// Placeholder of the case file in such a command.
const CASE_PLACEHOLDER: &str = "{case}";
/// Time between two lines of progress.
const PROGRESS_PERIOD: Duration = Duration::from_secs(5);

/// Shrinks a case and writes the smallest one.
pub fn run_minimise_command(args: &Minimise) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let overrides = limited_overrides(&args.scheduler, args.search.simulations)?;
    create_folder_of(&args.output)?;
    let mut case = load_case(&args.input, &mut output)?;
    let keep = parse_keep(args, &case, &overrides)?;
    let before = counts_text(&case);
    let last = Mutex::new(Instant::now());
    let on_progress = |objects: usize, tries: usize| {
        let Ok(mut last) = last.lock() else { return };
        if last.elapsed() >= PROGRESS_PERIOD {
            *last = Instant::now();
            CommandOutput::for_this_process()
                .print_note(&format!("{objects} objects left after {tries} tries"));
        }
    };
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok());
    let began = Instant::now();
    let minimiser = Minimiser {
        holds: &|case| keep.is_shown_by(case, &overrides, args.cycles),
        on_progress: &on_progress,
        threads: jobs.map_or(1, std::num::NonZeroUsize::get),
        is_time_over: &|| began.elapsed() >= args.budget,
    };
    let claims = keep.claims.iter().map(|kept| kept.claim.to_string());
    let claims = claims.chain(keep.audits.iter().map(ToString::to_string));
    case.manifest.shows = claims.collect::<Vec<_>>().join("\n");
    let result = minimiser.minimise(&case);
    write_case(&result.case, &args.output)?;
    let proof = if result.is_minimal {
        format!(
            "minimal: without any one of its {} elements it does not show it",
            result.elements.len()
        )
    } else {
        "not minimal: the budget is spent; a larger --budget continues from this case".to_owned()
    };
    output.print_note(&format!(
        "{}: {before} → {} in {} tries and {:.1} s\n{proof}",
        args.output.display(),
        counts_text(&result.case),
        result.tries,
        began.elapsed().as_secs_f64(),
    ));
    for claim in result.case.manifest.shows.lines() {
        output.print_note(&format!("it shows: {claim}"));
    }
    Ok(ExitStatus::Passed)
}

/// Parses the claims of `--keep`, and checks that the case shows them.
fn parse_keep(args: &Minimise, case: &Case, overrides: &Overrides) -> anyhow::Result<Keep> {
    let (replay, violations) = case
        .audited_replay(overrides, args.cycles)
        .map_err(|error| case_error(&args.input.files, &error))?;
    if let Some(note) = search_limit_note(&replay, args.search.simulations) {
        CommandOutput::for_this_process().print_note(&note);
    }
    let mut keep = parse_should(args, case)?;
    for text in &args.keep {
        if text.starts_with(AuditClaim::PREFIX) {
            keep.audits.push(parse_audit(text, &violations)?);
            continue;
        }
        let Some(command) = text.strip_prefix(COMMAND_PREFIX) else {
            keep.claims.push(parse_claim(text, &replay)?);
            continue;
        };
        if !run_command(command.trim(), case)? {
            let message = format!("--keep: the command fails for the case itself: {command}");
            return Err(UsageError(message).into());
        }
        keep.commands.push(command.trim().to_owned());
    }
    Ok(keep)
}

/// Parses the claim that the audit of the replay reports a rule.
fn parse_audit(text: &str, violations: &[Violation]) -> anyhow::Result<AuditClaim> {
    let claim: AuditClaim = text.parse().map_err(|error| UsageError(format!("--keep: {error}")))?;
    if violations.iter().any(|violation| violation.rule == claim.rule) {
        return Ok(claim);
    }
    let mut reported: Vec<&str> = violations.iter().map(|it| it.rule.rule_name()).collect();
    reported.sort_unstable();
    reported.dedup();
    let reported = if reported.is_empty() { "nothing".to_owned() } else { reported.join(", ") };
    let message = format!("--keep: the case does not show {claim}: the audit reports {reported}");
    Err(UsageError(message).into())
}

/// The claims of `--should`, which the case shows with the settings of `--should-config`.
fn parse_should(args: &Minimise, case: &Case) -> anyhow::Result<Keep> {
    let scheduler = CaseScheduler { config: args.should_config.clone(), ..args.scheduler.clone() };
    let keep = Keep {
        should: args.should.clone(),
        should_settings: limited_overrides(&scheduler, args.search.simulations)?,
        ..Keep::default()
    };
    if keep.should.is_empty() {
        return Ok(keep);
    }
    let replay = case
        .replay(&keep.should_settings, args.cycles)
        .map_err(|error| case_error(&args.input.files, &error))?;
    for claim in &keep.should {
        if let Verdict::Fails(why) = claim.judge(&replay) {
            let message =
                format!("--should: with --should-config the case does not show {claim}: {why}");
            return Err(UsageError(message).into());
        }
    }
    Ok(keep)
}

/// Parses a claim that holds. One about a pending workload gets the code of its reason and keeps the
/// words of it, so that a smaller case is pending for the same reason.
fn parse_claim(text: &str, replay: &Replay) -> anyhow::Result<KeptClaim> {
    let wrong = |error: String| UsageError(format!("--keep: {error}"));
    let mut claim: Predicate = text.parse().map_err(wrong)?;
    if let Verdict::Fails(why) = claim.judge(replay) {
        let message = format!("--keep: the case does not show {claim}: {why}");
        return Err(UsageError(message).into());
    }
    if claim.state != State::Pending || !claim.because.is_empty() {
        return Ok(KeptClaim { claim, template: None });
    }
    let first = claim.reasons(replay).next();
    let template = first.map(|group| reason_template(group, replay));
    let code = first.map(|group| group.code.to_owned());
    claim.because = code.unwrap_or_default();
    Ok(KeptClaim { claim, template })
}

impl Keep {
    /// Whether a case shows all of it. Commands come last, as they take longer than a replay.
    fn is_shown_by(&self, case: &Case, overrides: &Overrides, cycles: u32) -> bool {
        if !self.audits.is_empty() {
            let Ok((replay, violations)) = case.audited_replay(overrides, cycles) else {
                return false;
            };
            let is_reported =
                |claim: &AuditClaim| violations.iter().any(|it| it.rule == claim.rule);
            if !(self.audits.iter().all(is_reported)
                && self.claims.iter().all(|kept| kept.holds(&replay)))
            {
                return false;
            }
        } else if !self.claims.is_empty() {
            let Ok(replay) = case.replay(overrides, cycles) else { return false };
            if !self.claims.iter().all(|kept| kept.holds(&replay)) {
                return false;
            }
        }
        if !self.should.is_empty() {
            let Ok(replay) = case.replay(&self.should_settings, cycles) else { return false };
            if !self.should.iter().all(|claim| claim.holds(&replay)) {
                return false;
            }
        }
        self.commands.iter().all(|command| run_command(command, case).unwrap_or(false))
    }
}

impl KeptClaim {
    fn holds(&self, replay: &Replay) -> bool {
        let has_template = |group: &WaitingGroup| {
            self.template.as_ref().is_none_or(|it| *it == reason_template(group, replay))
        };
        let is_same = self.template.is_none() || self.claim.reasons(replay).any(has_template);
        self.claim.holds(replay) && is_same
    }
}

/// Whether the command succeeds for a case.
fn run_command(command: &str, case: &Case) -> anyhow::Result<bool> {
    let folder = temporary_folder()?;
    let file = folder.join("case.zip");
    case.write(&file)?;
    let command = command.replace(CASE_PLACEHOLDER, &file.display().to_string());
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    let status = quiet(Command::new("sh").arg("-c").arg(&command));
    std::fs::remove_dir_all(&folder).context("cannot remove a temporary folder")?;
    Ok(status.context("cannot run the command")?.success())
}

/// A new folder below the system's folder for temporary files.
pub(super) fn temporary_folder() -> anyhow::Result<std::path::PathBuf> {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("schedlab-case-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).context("cannot create a temporary folder")?;
    Ok(folder)
}
