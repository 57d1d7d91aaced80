//! `schedlab bisect`: finds the first version of a scheduler that fails a feature.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use schedlab_conformance::text::counted_noun;

use super::{CommandOutput, UsageError};
use crate::cli::{Bisect, SchedulerVersion};
use crate::exit::ExitStatus;

/// The verdict about one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The feature passes.
    Good,
    /// The feature fails.
    Bad,
    /// Neither: the version cannot be built or started, or nothing was judged.
    Untestable,
}

/// The result of a search between a good and a bad version.
#[derive(Debug, PartialEq, Eq)]
enum Search {
    /// The next version to test.
    Test(usize),
    /// The search has ended.
    Ended(Found),
}

/// The last good and the first bad version. Those between them cannot be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    good: usize,
    bad: usize,
}

/// Exit code of a command that cannot judge a version, as with `git bisect run`.
const SKIP_CODE: i32 = 125;

/// Finds the first bad version. The exit code is 0 if it is one version, 1 if versions before it
/// could not be tested.
pub fn run_bisect_command(args: &Bisect) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    if args.paths.is_empty() && args.command.is_none() {
        let message = "got no feature, expected a feature file or --command";
        return Err(UsageError(message.to_owned()).into());
    }
    let versions = versions(args)?;
    let mut tester = Tester::new(args)?;
    let found = bisect(&versions, &mut tester, &mut output);
    let closed = tester.close();
    let Found { good, bad } = found?;
    closed?;
    let first = describe(args, &versions[bad]);
    output.print_result(&format!("first bad: {first}\n"));
    if good + 1 == bad {
        return Ok(ExitStatus::Passed);
    }
    let untested = &versions[good + 1..bad];
    let names: Vec<String> = untested.iter().map(|version| describe(args, version)).collect();
    output.print_note(&format!(
        "{} before it could not be tested: {}",
        counted_noun(untested.len(), "version"),
        names.join(", ")
    ));
    Ok(ExitStatus::Failed)
}

fn bisect(
    versions: &[SchedulerVersion],
    tester: &mut Tester<'_>,
    output: &mut CommandOutput,
) -> anyhow::Result<Found> {
    let mut verdicts: BTreeMap<usize, Verdict> = BTreeMap::new();
    let last = versions.len() - 1;
    for (at, expected, option) in [(0, Verdict::Good, "--good"), (last, Verdict::Bad, "--bad")] {
        let verdict = tester.test(&versions[at])?;
        output.print_note(&step_text(tester.args, &versions[at], verdict));
        if verdict != expected {
            let (version, found) = (&versions[at], verdict.text());
            let expected = expected.text();
            let message = format!("{option} {version}: got {found}, expected {expected}");
            return Err(UsageError(message).into());
        }
        verdicts.insert(at, verdict);
    }
    loop {
        match next_step(&verdicts, versions.len()) {
            Search::Test(at) => {
                let verdict = tester.test(&versions[at])?;
                output.print_note(&step_text(tester.args, &versions[at], verdict));
                verdicts.insert(at, verdict);
            }
            Search::Ended(found) => return Ok(found),
        }
    }
}

/// The next step of a search over `count` versions: the untested version that is nearest to the
/// middle between the last good and the first bad one.
fn next_step(verdicts: &BTreeMap<usize, Verdict>, count: usize) -> Search {
    let of = |wanted| verdicts.iter().filter(move |(_, it)| **it == wanted).map(|(at, _)| *at);
    let bad = of(Verdict::Bad).min().unwrap_or(count - 1);
    let good = of(Verdict::Good).filter(|at| *at < bad).max().unwrap_or(0);
    let middle = usize::midpoint(good, bad);
    let untested = (good + 1..bad).filter(|at| !verdicts.contains_key(at));
    match untested.min_by_key(|at| at.abs_diff(middle)) {
        Some(at) => Search::Test(at),
        None => Search::Ended(Found { good, bad }),
    }
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Good => "a version that passes",
            Self::Bad => "a version that fails",
            Self::Untestable => "a version that cannot be tested",
        }
    }
}

fn step_text(args: &Bisect, version: &SchedulerVersion, verdict: Verdict) -> String {
    let word = match verdict {
        Verdict::Good => "passes",
        Verdict::Bad => "fails",
        Verdict::Untestable => "cannot be tested",
    };
    format!("{}: {word}", describe(args, version))
}

/// A version with the subject of its commit.
fn describe(args: &Bisect, version: &SchedulerVersion) -> String {
    let SchedulerVersion::Revision(revision) = version else { return version.to_string() };
    let line = git(&args.repository, &["log", "-1", "--format=%h %s", revision]);
    line.map_or_else(|_| version.to_string(), |line| line.trim().to_owned())
}

/// All versions in their order: the good one, those between, the bad one.
fn versions(args: &Bisect) -> anyhow::Result<Vec<SchedulerVersion>> {
    let (good, bad) = (&args.good, &args.bad);
    let (SchedulerVersion::Revision(from), SchedulerVersion::Revision(to)) = (good, bad) else {
        let is_revision = |it: &&SchedulerVersion| matches!(it, SchedulerVersion::Revision(_));
        if let Some(revision) = [good, bad].into_iter().chain(&args.between).find(is_revision) {
            let message =
                format!("got {revision} beside another kind, expected versions of one kind");
            return Err(UsageError(message).into());
        }
        let between = args.between.iter();
        return Ok([good].into_iter().chain(between).chain([bad]).cloned().collect());
    };
    if !args.between.is_empty() {
        let message =
            "--between: got versions beside git revisions, whose history says what is between";
        return Err(UsageError(message.to_owned()).into());
    }
    let resolve = |option: &str, revision: &str| {
        let commit = format!("{revision}^{{commit}}");
        let id = git(&args.repository, &["rev-parse", "--verify", "--quiet", &commit]);
        id.map(|id| id.trim().to_owned()).map_err(|_| {
            let folder = args.repository.display();
            UsageError(format!("{option}: got {revision}, expected a git revision of {folder}"))
        })
    };
    let (from, to) = (resolve("--good", from)?, resolve("--bad", to)?);
    let range = format!("{from}..{to}");
    let list = git(&args.repository, &["rev-list", "--reverse", "--first-parent", &range])?;
    let commits: Vec<&str> = list.lines().collect();
    if commits.is_empty() {
        let message = "--bad: got a revision that is not after --good, expected a later one";
        return Err(UsageError(message.to_owned()).into());
    }
    let all = [&*from].into_iter().chain(commits);
    Ok(all.map(|commit| SchedulerVersion::Revision(commit.to_owned())).collect())
}

/// Runs git in a repository. Returns what it prints.
fn git(repository: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").arg("-C").arg(repository).args(args).output();
    let output = output.context("cannot run git")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "git {}: {}", args.join(" "), errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Tests versions. Revisions are checked out and built in a worktree that lasts for the search.
struct Tester<'a> {
    args: &'a Bisect,
    folder: PathBuf,
    has_worktree: bool,
}

impl<'a> Tester<'a> {
    fn new(args: &'a Bisect) -> anyhow::Result<Self> {
        let folder = super::minimise::temporary_folder()?;
        Ok(Self { args, folder, has_worktree: false })
    }

    fn test(&mut self, version: &SchedulerVersion) -> anyhow::Result<Verdict> {
        match version {
            SchedulerVersion::Revision(revision) => {
                let worktree = self.check_out(revision)?;
                let built = shell(&self.args.build, &worktree);
                if !quiet(built)? {
                    return Ok(Verdict::Untestable);
                }
                let program = worktree.join(&self.args.program);
                self.judge(&program.display().to_string(), None)
            }
            SchedulerVersion::Source(source) => {
                let own = std::env::current_exe().context("cannot find this program")?;
                self.judge(&own.display().to_string(), Some(source))
            }
        }
    }

    /// The command that runs the features.
    fn run_command(&self, program: &str, source: Option<&String>) -> Command {
        let mut command = Command::new(program);
        command.arg("run").args(&self.args.paths);
        command.arg("--results").arg(self.folder.join("results"));
        if let Some(source) = source {
            command.arg("--scheduler").arg(source);
        }
        command.args(&self.args.run_options);
        command
    }

    /// Runs the features, or the command, and judges the exit code.
    fn judge(&self, program: &str, source: Option<&String>) -> anyhow::Result<Verdict> {
        let mut command = if let Some(command) = &self.args.command {
            let command = command.replace("{program}", program);
            let version = source.map_or(program, |source| source);
            let folder = std::env::current_dir().context("cannot find the current folder")?;
            shell(&command.replace("{scheduler}", version), &folder)
        } else {
            self.run_command(program, source)
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(status) = command.status() else { return Ok(Verdict::Untestable) };
        Ok(match status.code() {
            Some(0) => Verdict::Good,
            Some(SKIP_CODE) => Verdict::Untestable,
            Some(1) => Verdict::Bad,
            // Of a command, as with `git bisect run`.
            Some(code) if self.args.command.is_some() && code < 128 => Verdict::Bad,
            Some(_) | None => Verdict::Untestable,
        })
    }

    fn check_out(&mut self, revision: &str) -> anyhow::Result<PathBuf> {
        let worktree = self.folder.join("worktree");
        let path = worktree.display().to_string();
        if self.has_worktree {
            git(&worktree, &["checkout", "--quiet", "--force", "--detach", revision])?;
        } else {
            git(
                &self.args.repository,
                &["worktree", "add", "--quiet", "--detach", &path, revision],
            )?;
            self.has_worktree = true;
        }
        Ok(worktree)
    }

    fn close(self) -> anyhow::Result<()> {
        if self.has_worktree {
            let path = self.folder.join("worktree").display().to_string();
            git(&self.args.repository, &["worktree", "remove", "--force", &path])?;
        }
        std::fs::remove_dir_all(&self.folder).context("cannot remove a temporary folder")
    }
}

fn shell(command: &str, folder: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).current_dir(folder);
    shell
}

/// Whether a command succeeds; its output is dropped.
fn quiet(mut command: Command) -> anyhow::Result<bool> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status().context("cannot run sh")?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches over versions with these verdicts, one letter each. Returns the last good and the
    /// first bad version, and the number of tests beside the first and the last version.
    fn searched(letters: &str) -> (usize, usize, usize) {
        let all: Vec<Verdict> = letters
            .chars()
            .map(|letter| match letter {
                'g' => Verdict::Good,
                'b' => Verdict::Bad,
                _ => Verdict::Untestable,
            })
            .collect();
        let mut known = BTreeMap::from([(0, all[0]), (all.len() - 1, all[all.len() - 1])]);
        loop {
            match next_step(&known, all.len()) {
                Search::Test(at) => drop(known.insert(at, all[at])),
                Search::Ended(Found { good, bad }) => return (good, bad, known.len() - 2),
            }
        }
    }

    #[test]
    fn a_search_halves_the_versions_and_goes_around_those_that_cannot_be_tested() {
        assert_eq!(searched("gb"), (0, 1, 0));
        assert_eq!(searched("gggggbbbbbbbbbbb"), (4, 5, 4));
        assert_eq!(searched("gg?bb"), (1, 3, 3));
        assert_eq!(searched("g???b"), (0, 4, 3));
    }
}
