//! `schedlab minimise`: shrinks a case to what a claim needs.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_casefiles::Case;
use schedlab_casefiles::minimise::Minimiser;
use schedlab_casefiles::predicate::{Predicate, State, Verdict, reason_template};
use schedlab_scheduler::replay::WaitingGroup;
use schedlab_scheduler::snapshot_file::Overrides;
use tokio::time::Instant;

use super::case_input::{case_error, load_case, overrides, write_case};
use super::{CommandOutput, UsageError};
use crate::cli::Minimise;
use crate::exit::ExitStatus;

/// What a smaller case must still show.
enum Keep {
    /// A claim about its replay. `template`: a pending workload has a reason of this template.
    Claim { claim: Predicate, template: Option<String> },
    /// The exit code of a command.
    Command(String),
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
    let overrides = overrides(&args.scheduler)?;
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
        holds: &|case| keep.holds(case, &overrides, args.cycles),
        on_progress: &on_progress,
        threads: jobs.map_or(1, std::num::NonZeroUsize::get),
        is_time_over: &|| began.elapsed() >= args.budget,
    };
    case.manifest.shows = match &keep {
        Keep::Claim { claim, .. } => claim.to_string(),
        Keep::Command(_) => String::new(),
    };
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
    if let Keep::Claim { claim, .. } = &keep {
        output.print_note(&format!("it shows: {claim}"));
    }
    Ok(ExitStatus::Passed)
}

fn counts_text(case: &Case) -> String {
    let count = |array: &str| case.objects(array).count();
    format!(
        "{} nodes, {} queues, {} pod groups, {} pods",
        count("nodes"),
        count("queues"),
        count("podGroups"),
        count("pods")
    )
}

/// Parses `--keep`, and checks that the case shows it. A claim about a pending workload gets the
/// code of its reason and keeps the words of it, so that a smaller case is pending for the same reason.
fn parse_keep(args: &Minimise, case: &Case, overrides: &Overrides) -> anyhow::Result<Keep> {
    if let Some(command) = args.keep.strip_prefix(COMMAND_PREFIX) {
        let keep = Keep::Command(command.trim().to_owned());
        if !keep.holds(case, overrides, args.cycles) {
            let message = format!("--keep: the command fails for the case itself: {command}");
            return Err(UsageError(message).into());
        }
        return Ok(keep);
    }
    let wrong = |error: String| UsageError(format!("--keep: {error}"));
    let mut claim: Predicate = args.keep.parse().map_err(wrong)?;
    let replay = case
        .replay(overrides, args.cycles)
        .map_err(|error| case_error(&args.input.files, &error))?;
    match claim.judge(&replay) {
        Verdict::Holds(_) => {}
        Verdict::Fails(why) => {
            let message = format!("--keep: the case does not show {claim}: {why}");
            return Err(UsageError(message).into());
        }
    }
    if claim.state == State::Pending && claim.because.is_empty() {
        let first = claim.reasons(&replay).next();
        let template = first.map(|group| reason_template(group, &replay));
        let code = first.map(|group| group.code.to_owned());
        claim.because = code.unwrap_or_default();
        return Ok(Keep::Claim { claim, template });
    }
    Ok(Keep::Claim { claim, template: None })
}

impl Keep {
    fn holds(&self, case: &Case, overrides: &Overrides, cycles: u32) -> bool {
        match self {
            Self::Claim { claim, template } => case.replay(overrides, cycles).is_ok_and(|replay| {
                let has_template = |group: &WaitingGroup| {
                    template.as_ref().is_none_or(|it| *it == reason_template(group, &replay))
                };
                let is_same = template.is_none() || claim.reasons(&replay).any(has_template);
                claim.holds(&replay) && is_same
            }),
            Self::Command(command) => run_command(command, case).unwrap_or(false),
        }
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
