//! Runs the released binary and watches it from outside: wall time, and the most memory it had.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use crate::core::now;

/// What a run took.
pub(crate) struct Taken {
    pub(crate) wall: Duration,
    /// Peak resident memory in MB, where the system tells it.
    pub(crate) peak_mb: Option<u64>,
    pub(crate) stdout: String,
    pub(crate) ended_well: bool,
}

/// Between two looks at a process's memory. The figure is the system's own peak, so only what
/// the process does in its last moments can be missed.
const LOOK_EVERY: Duration = Duration::from_millis(2);

pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the harness is a folder of the repository").to_owned()
}

pub(crate) fn schedlab(arguments: &[&str]) -> Taken {
    let output = tempfile::NamedTempFile::new().expect("a temporary file");
    let sink = output.reopen().expect("a temporary file");
    let start = now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(arguments)
        .current_dir(root())
        .stdout(sink)
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary beside this benchmark starts");
    let mut peak = None;
    let ended = loop {
        peak = peak_mb(child.id()).max(peak);
        if let Some(ended) = child.try_wait().expect("a child can be waited for") {
            break ended;
        }
        pause();
    };
    let wall = start.elapsed();
    let stdout = fs::read_to_string(output.path()).unwrap_or_default();
    Taken { wall, peak_mb: peak, stdout, ended_well: ended.success() }
}

/// The most memory that a process had so far, in MB.
pub(crate) fn peak_mb(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes / 1000)
}

fn pause() {
    std::thread::park_timeout(LOOK_EVERY);
}
