//! A folder of features of its own, and the program run in it.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A copy of one of `fixtures/runs`.
pub(crate) struct Lab(TempDir);

/// What a run printed and how it ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints UTF-8");
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    pub(crate) fn all(&self) -> String {
        format!("exit {}\n{}\n{}", self.code, self.out, self.err)
    }
}

impl Lab {
    pub(crate) fn of(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/runs").join(name);
        copy(&source, folder.path());
        Self(folder)
    }

    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder can be made"))
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, &[])
    }

    pub(crate) fn run_with(&self, args: &[&str], environment: &[(&str, &str)]) -> Ended {
        let output = self.command(args).envs(environment.iter().copied()).output();
        Ended::of(output.expect("the program runs"))
    }

    /// The program in this folder, with no word about it in the environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.args(args).current_dir(self.0.path());
        for name in ["CI", "GITHUB_ACTIONS", "INSTA_UPDATE", "INSTA_FORCE_UPDATE"] {
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
        std::fs::read_to_string(self.0.path().join(path)).expect("the file is there")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        let folder = path.parent().expect("a file is in a folder");
        std::fs::create_dir_all(folder).expect("a folder can be made");
        std::fs::write(path, text).expect("the file can be written");
    }

    pub(crate) fn write_program(&self, path: &str, script: &str) {
        self.write(path, script);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.path(path), mode).expect("the mode can be set");
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("the fixture is there").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&target).expect("a folder can be made");
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a file can be copied");
        }
    }
}
