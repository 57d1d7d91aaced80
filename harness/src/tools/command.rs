//! Whether the program of a command for the shell is there, asked before anything boots for it.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Whether a command starts with its program, as it must: it is run by `exec`, so that signals reach
/// the program itself.
pub fn starts_with_program(command: &str) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match command.trim_start().split_once('=') {
        Some((name, _)) if !name.is_empty() && name.chars().all(is_name) => Err(format!(
            "found `{name}=…` before the program of a command; allowed is `env {}`",
            command.trim_start()
        )),
        Some(_) | None => Ok(()),
    }
}

/// Finds the program that a command starts with, in the `PATH` and one more folder, if it has no
/// path of its own. One that only the shell knows (its name is quoted or computed) passes.
pub fn has_program(command: &str, beside: Option<&Path>) -> Result<(), String> {
    let program = command.split_whitespace().next().unwrap_or_default();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:,@%".contains(c);
    if !program.chars().all(is_plain) {
        return Ok(());
    }
    if program.contains('/') {
        return match Path::new(program) {
            path if runs(path) => Ok(()),
            path if path.exists() => Err(format!("{program} cannot be executed")),
            _ => Err(format!("there is no program {program}")),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = beside.map(Path::to_path_buf);
    let folders = std::env::split_paths(&path).chain(beside.clone());
    if folders.map(|folder| folder.join(program)).any(|path| runs(&path)) {
        return Ok(());
    }
    let nor = |folder: PathBuf| format!(" and none in {}", folder.display());
    Err(format!("there is no {program} on the PATH{}", beside.map(nor).unwrap_or_default()))
}

fn runs(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_or_cannot_be_executed_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        std::fs::write(folder.path().join("text"), "no program").unwrap();
        assert_eq!(has_program("sh -c 'exit 1'", None), Ok(()));
        assert_eq!(has_program("/bin/sh {kubeconfig}", None), Ok(()));
        for known_to_the_shell in ["$HOME/no/such", "'/no/such' x", "{dir}/run"] {
            assert_eq!(has_program(known_to_the_shell, None), Ok(()));
        }
        for (command, told) in [
            ("/no/such --x", "there is no program /no/such".to_owned()),
            (&format!("{path}/text"), format!("{path}/text cannot be executed")),
            (&format!("{path}/"), format!("{path}/ cannot be executed")),
            ("no-such-program x", "there is no no-such-program on the PATH".to_owned()),
        ] {
            assert_eq!(has_program(command, None), Err(told));
        }
        let told = format!("there is no text on the PATH and none in {path}");
        assert_eq!(has_program("text", Some(folder.path())), Err(told));
        assert_eq!(has_program("sh", Some(folder.path())), Ok(()));
    }

    #[test]
    fn a_variable_before_a_program_is_told_with_what_sets_it() {
        for fine in ["env FOO=1 prog", "prog --x=1", "./a=b", "/bin/a-b=c", "prog", "=x"] {
            assert_eq!(starts_with_program(fine), Ok(()), "{fine}");
        }
        let told = "found `FOO=…` before the program of a command; allowed is \
                    `env FOO='1 2' prog --x=1`";
        assert_eq!(starts_with_program(" FOO='1 2' prog --x=1"), Err(told.to_owned()));
    }

    #[test]
    fn what_lies_beside_others_is_found_there() {
        let ls = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .find(|folder| folder.join("ls").is_file())
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(ls.join("ls"), folder.path().join("only-here")).unwrap();
        assert!(has_program("only-here", None).is_err());
        assert_eq!(has_program("only-here", Some(folder.path())), Ok(()));
    }
}
