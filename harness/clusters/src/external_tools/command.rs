//! Checks the program of a shell command before anything is started for it.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Fails if a shell command starts with a variable assignment. The command is run by `exec`, so
/// that signals reach the program itself, and `exec` needs a program.
///
/// # Errors
/// The command starts with `NAME=`; the message suggests `env`.
pub fn check_command_starts_with_program(command: &str) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match command.trim_start().split_once('=') {
        Some((name, _)) if !name.is_empty() && name.chars().all(is_name) => Err(format!(
            "got `{name}=…` before the program of a command; expected `env {}`",
            command.trim_start()
        )),
        Some(_) | None => Ok(()),
    }
}

/// Fails if the program of a shell command is neither on the `PATH` nor in `extra_folder`. A
/// program whose name only the shell can evaluate passes.
///
/// # Errors
/// There is no such program; the message names it.
pub fn check_program_exists(command: &str, extra_folder: Option<&Path>) -> Result<(), String> {
    let program = command.split_whitespace().next().unwrap_or_default();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:,@%".contains(c);
    if !program.chars().all(is_plain) {
        return Ok(());
    }
    if program.contains('/') {
        return match Path::new(program) {
            path if is_executable(path) => Ok(()),
            path if path.exists() => Err(format!("{program} is not executable")),
            _ => Err(format!("there is no program {program}")),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let extra_folder = extra_folder.map(Path::to_path_buf);
    let folders = std::env::split_paths(&path).chain(extra_folder.clone());
    if folders.map(|folder| folder.join(program)).any(|path| is_executable(&path)) {
        return Ok(());
    }
    let nor = |folder: PathBuf| format!(" and none in {}", folder.display());
    Err(format!("there is no {program} on the PATH{}", extra_folder.map(nor).unwrap_or_default()))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_non_executable_program_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        std::fs::write(folder.path().join("text"), "no program").unwrap();
        assert_eq!(check_program_exists("sh -c 'exit 1'", None), Ok(()));
        assert_eq!(check_program_exists("/bin/sh {kubeconfig}", None), Ok(()));
        for known_to_the_shell in ["$HOME/no/such", "'/no/such' x", "{dir}/run"] {
            assert_eq!(check_program_exists(known_to_the_shell, None), Ok(()));
        }
        for (command, expected) in [
            ("/no/such --x", "there is no program /no/such".to_owned()),
            (&format!("{path}/text"), format!("{path}/text is not executable")),
            (&format!("{path}/"), format!("{path}/ is not executable")),
            ("no-such-program x", "there is no no-such-program on the PATH".to_owned()),
        ] {
            assert_eq!(check_program_exists(command, None), Err(expected));
        }
        let expected = format!("there is no text on the PATH and none in {path}");
        assert_eq!(check_program_exists("text", Some(folder.path())), Err(expected));
        assert_eq!(check_program_exists("sh", Some(folder.path())), Ok(()));
    }

    #[test]
    fn a_variable_before_a_program_is_rejected_with_a_hint() {
        for fine in ["env FOO=1 prog", "prog --x=1", "./a=b", "/bin/a-b=c", "prog", "=x"] {
            assert_eq!(check_command_starts_with_program(fine), Ok(()), "{fine}");
        }
        let expected = "got `FOO=…` before the program of a command; expected \
                    `env FOO='1 2' prog --x=1`";
        assert_eq!(
            check_command_starts_with_program(" FOO='1 2' prog --x=1"),
            Err(expected.to_owned())
        );
    }

    #[test]
    fn a_program_in_the_extra_folder_is_found() {
        let ls = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .find(|folder| folder.join("ls").is_file())
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(ls.join("ls"), folder.path().join("only-here")).unwrap();
        assert!(check_program_exists("only-here", None).is_err());
        assert_eq!(check_program_exists("only-here", Some(folder.path())), Ok(()));
    }
}
