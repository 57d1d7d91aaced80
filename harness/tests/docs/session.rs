//! Runs the examples of a page in a shell, as its reader would type them.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use snapbox::IntoData as _;
use snapbox::assert::{Action, Assert};
use tempfile::TempDir;

use crate::page::{Example, Page};

/// Seconds after which the shell of a page is ended.
const TIMEOUT: &str = "900";

/// What precedes the examples. The last output tells when a background command is ready: it prints
/// a line then.
const PRELUDE: &str = r#"
trap 'kill $(jobs -p) 2> /dev/null' EXIT
wait_for_line() { until [ -s "$1" ] || ! kill -0 $! 2> /dev/null; do sleep 0.05; done; }
"#;

/// Builds `schedlab-scheduler` beside `schedlab`, and returns the `PATH` of the examples.
pub(crate) fn programs() -> OsString {
    let folder = Path::new(env!("CARGO_BIN_EXE_schedlab")).parent().unwrap();
    let profile = match folder.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", "schedlab", "--package", "schedlab-scheduler"]);
    build.args(["--bins", "--profile", profile, "--target-dir"]).arg(folder.parent().unwrap());
    // Cargo describes the package of a test in variables. It would rebuild what reads them.
    let of_package =
        ["CARGO_BIN_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_PRIMARY_"];
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name == "LD_LIBRARY_PATH" || of_package.iter().any(|prefix| name.starts_with(prefix)) {
            build.env_remove(&*name);
        }
    }
    assert!(build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()].into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap()
}

/// Runs the examples of a page. Returns what did not happen as the page says.
pub(crate) fn run(page: &Page, root: &Path, programs: &OsString) -> Vec<String> {
    let scratch = TempDir::new().unwrap();
    let session = Session { folder: scratch.path().to_owned() };
    session.prepare(page, root);
    let examples = page.examples();
    fs::write(session.folder.join("script"), session.script(&examples)).unwrap();
    let mut shell = Command::new("timeout");
    shell.args([TIMEOUT, "bash", "../script"]).current_dir(session.folder.join("work"));
    shell.env("PATH", programs).env("HOME", &session.folder);
    shell.env("XDG_STATE_HOME", session.folder.join("state")).env_remove("KUBECONFIG");
    let output = shell.output().unwrap();
    let mut found = Vec::new();
    for (number, example) in examples.iter().enumerate() {
        if let Some(problem) = session.problem(number, example) {
            let place = format!("{}:{}", page.path.display(), example.line);
            found.push(format!("{place}: $ {}\n{problem}", example.command));
        }
    }
    let complaints = String::from_utf8_lossy(&output.stderr);
    if !complaints.is_empty() {
        found.push(format!("{}: {complaints}", page.path.display()));
    }
    found
}

/// The folders of a page's shell: `work`, where it runs, and what stands for `/tmp`.
struct Session {
    folder: PathBuf,
}

impl Session {
    /// Copies what the reader of a page has: the repository's data, and files of the test.
    fn prepare(&self, page: &Page, root: &Path) {
        for folder in ["work", "tmp", "out"] {
            fs::create_dir(self.folder.join(folder)).unwrap();
        }
        for folder in ["features", "fixtures", "snapshots"] {
            copy(&root.join(folder), &self.folder.join("work").join(folder));
        }
        let own = page.path.strip_prefix("docs").unwrap_or(&page.path).with_extension("");
        let own = root.join("harness/tests/docs").join(own);
        if own.is_dir() {
            copy(&own, &self.folder.join("work"));
        }
        for block in &page.blocks {
            if let Some(content) = block.content() {
                let path = block.path();
                let path = match path.strip_prefix("/tmp/") {
                    Some(inside) => self.folder.join("tmp").join(inside),
                    None => self.folder.join("work").join(path),
                };
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
        }
    }

    /// What stands for `/tmp/` in the examples.
    fn tmp(&self) -> String {
        format!("{}/tmp/", self.folder.display())
    }

    /// The shell script: the output and the exit code of each example go to files.
    fn script(&self, examples: &[Example]) -> String {
        let mut script = PRELUDE.to_owned();
        if self.folder.join("work/setup.sh").exists() {
            writeln!(script, ". ./setup.sh > ../out/setup 2>&1 || cat ../out/setup >&2").unwrap();
        }
        let out = self.folder.join("out");
        for (number, example) in examples.iter().enumerate() {
            let to = out.join(number.to_string());
            let (to, command) = (to.display(), example.command.replace("/tmp/", &self.tmp()));
            writeln!(script, "{{ {command}\n}} > {to} 2>&1; echo $? > {to}.code").unwrap();
            let code = example.command.split(" #").next().unwrap_or_default();
            if code.trim_end().ends_with('&') {
                writeln!(script, "wait_for_line {to}").unwrap();
            }
        }
        script
    }

    /// What is wrong with the result of an example.
    fn problem(&self, number: usize, example: &Example) -> Option<String> {
        let read = |name: String| fs::read_to_string(self.folder.join("out").join(name));
        let output = read(number.to_string()).unwrap_or_default();
        let output = output.replace(&self.tmp(), "/tmp/");
        // Only a slow machine prints notes about slow scenarios.
        let lines = output.lines().filter(|line| !line.starts_with("SLOW "));
        let output: String = lines.flat_map(|line| [line, "\n"]).collect();
        let Ok(code) = read(format!("{number}.code")) else {
            return Some(format!("{output}was not reached, or did not end in {TIMEOUT} seconds"));
        };
        let code: i32 = code.trim().parse().unwrap();
        if code != example.exit_code {
            return Some(format!("{output}got exit code {code}, expected {}", example.exit_code));
        }
        let expected = wildcards(example.output.as_deref()?);
        let difference = Assert::new().action(Action::Verify).normalize_paths(false).try_eq(
            None,
            output.into_data(),
            expected.into_data(),
        );
        difference.err().map(|difference| difference.to_string())
    }
}

/// The output that a page claims, with snapbox's wildcards: `...` for any lines and `[..]` for any
/// characters of a line, where the page has `…`.
fn wildcards(claimed: &str) -> String {
    let lines = claimed.lines().map(|line| match line.trim() {
        "…" => "...\n".to_owned(),
        _ => line.trim_end().replace('…', "[..]") + "\n",
    });
    lines.collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}
