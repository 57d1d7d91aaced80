//! Facts about the machine: cores, memory, disk and limits.

use std::num::NonZeroUsize;

/// Minimum inotify limits for a one-node kind cluster; several nodes need more.
const INOTIFY_WATCHES_MIN: u64 = 8192;
const INOTIFY_INSTANCES_MIN: u64 = 128;

pub(super) fn machine_facts() -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut facts = vec![format!("{cores} cores")];
    if let (Some(total), Some(free)) = (memory_gb("MemTotal:"), memory_gb("MemAvailable:")) {
        facts.push(format!("{total:.1} GB memory ({free:.1} free)"));
    }
    if let Ok(disk) = rustix::fs::statvfs(std::env::temp_dir()) {
        let gigabytes = disk.f_bavail.saturating_mul(disk.f_frsize) / 1_000_000_000;
        facts.push(format!("{gigabytes} GB free in {}", std::env::temp_dir().display()));
    }
    if let (Some(watches), Some(instances)) =
        (inotify_limit("max_user_watches"), inotify_limit("max_user_instances"))
    {
        facts.push(format!("inotify {watches} watches and {instances} instances"));
    }
    facts
}

/// A message and a hint if the inotify limits are too low. kind would fail with "too many open
/// files".
pub(super) fn inotify_too_low() -> Option<(String, &'static str)> {
    let (watches, instances) =
        (inotify_limit("max_user_watches")?, inotify_limit("max_user_instances")?);
    (watches < INOTIFY_WATCHES_MIN || instances < INOTIFY_INSTANCES_MIN).then(|| {
        let what = format!("inotify allows {watches} watches and {instances} instances");
        (what, "sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512")
    })
}

/// The value of a field of `/proc/meminfo`, in gigabytes.
#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53 kB")]
fn memory_gb(field: &str) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes as f64 / 1e6)
}

fn inotify_limit(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?;
    text.trim().parse().ok()
}
