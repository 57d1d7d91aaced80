//! Runs the `schedlab` binary and measures its wall time and peak memory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use crate::core::now;

/// What was measured in one run of `schedlab`.
pub(crate) struct CommandMeasurement {
    pub(crate) wall: Duration,
    /// Peak resident memory in MB; `None` if `/proc` is not available.
    pub(crate) peak_mb: Option<u64>,
    pub(crate) stdout: String,
    pub(crate) succeeded: bool,
}

/// Interval between two reads of a process's peak memory. As the kernel records the peak, only a
/// rise in the last interval can be missed.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The root folder of the repository.
pub(crate) fn repository_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the harness folder has a parent").to_owned()
}

/// Runs `schedlab` in the root of the repository.
pub(crate) fn run_schedlab(arguments: &[&str]) -> CommandMeasurement {
    let output = tempfile::NamedTempFile::new().expect("a temporary file can be written");
    let sink = output.reopen().expect("a temporary file can be written");
    let start = now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(arguments)
        .current_dir(repository_root())
        .stdout(sink)
        .stderr(Stdio::null())
        .spawn()
        .expect("schedlab starts");
    let mut peak = None;
    let status = loop {
        peak = peak_memory_mb(child.id()).max(peak);
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break status;
        }
        pause();
    };
    let wall = start.elapsed();
    let stdout = fs::read_to_string(output.path()).unwrap_or_default();
    CommandMeasurement { wall, peak_mb: peak, stdout, succeeded: status.success() }
}

/// The peak memory of a process so far, in MB.
pub(crate) fn peak_memory_mb(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes / 1000)
}

fn pause() {
    std::thread::park_timeout(POLL_INTERVAL);
}
