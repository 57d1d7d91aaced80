//! A temporary folder with a copy of a fixture, in which `schedlab` is run.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A temporary folder, often with a copy of a folder in `fixtures/runs`.
pub(crate) struct Lab(TempDir);

/// The output of a command and its exit code.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    pub(crate) fn from_output(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is UTF-8");
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Exit code, standard output and standard error, for messages of failed assertions.
    pub(crate) fn all(&self) -> String {
        format!("exit {}\n{}\n{}", self.code, self.stdout, self.stderr)
    }
}

impl Lab {
    /// A copy of `fixtures/runs/{name}`.
    pub(crate) fn from_fixture(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/runs").join(name);
        copy(&source, folder.path());
        Self(folder)
    }

    /// An empty temporary folder.
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder can be created"))
    }

    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        self.run_with(args, &[])
    }

    pub(crate) fn run_with(&self, args: &[&str], environment: &[(&str, &str)]) -> CommandOutput {
        let output = self.command(args).envs(environment.iter().copied()).output();
        CommandOutput::from_output(output.expect("schedlab runs"))
    }

    /// A `schedlab` command in this folder, without the environment variables that change how it
    /// reports.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.args(args).current_dir(self.0.path());
        for name in ["CI", "GITHUB_ACTIONS", "INSTA_UPDATE", "INSTA_FORCE_UPDATE", "RUST_LOG"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.0.path().join(path).exists()
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.path().join(path)).expect("the file exists")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        let folder = path.parent().expect("a file is in a folder");
        std::fs::create_dir_all(folder).expect("a folder can be created");
        std::fs::write(path, text).expect("the file can be written");
    }

    pub(crate) fn write_program(&self, path: &str, script: &str) {
        self.write(path, script);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.path(path), mode).expect("the mode can be set");
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("the fixture exists").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&target).expect("a folder can be created");
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a file can be copied");
        }
    }
}
