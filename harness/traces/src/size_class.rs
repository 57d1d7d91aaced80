//! Classes of jobs by the GPUs that they request.

use crate::job::TraceJob;

/// A class of jobs by the GPUs of all their pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeClass(usize);

/// Names of the classes, with their upper bounds in thousandths of a GPU.
const CLASSES: [(&str, u64); 9] = [
    ("no GPU", 0),
    ("part of a GPU", 999),
    ("1 GPU", 1000),
    ("2 GPUs", 2000),
    ("3-4 GPUs", 4000),
    ("5-8 GPUs", 8000),
    ("9-64 GPUs", 64_000),
    ("65-512 GPUs", 512_000),
    ("more", u64::MAX),
];

impl SizeClass {
    /// The class of a job.
    pub fn of(job: &TraceJob) -> Self {
        let milli = job.total_gpu_milli();
        Self(CLASSES.iter().position(|(_, most)| milli <= *most).unwrap_or_default())
    }

    /// The class with this name, as [`Self::name`] returns it.
    pub fn named(name: &str) -> Option<Self> {
        CLASSES.iter().position(|(class, _)| *class == name).map(Self)
    }

    /// The name of the class, such as `3-4 GPUs`.
    pub fn name(self) -> &'static str {
        CLASSES.get(self.0).map_or("more", |(name, _)| *name)
    }
}
