//! Reads the jobs of a trace in any of its formats.

use std::path::Path;

use crate::{
    error::TraceError,
    format::{ALLOWED_FIRST_LINE, TraceFormat},
    job::JobTrace,
    json_lines, lines,
    lines::OpenedFile,
    options::ReadOptions,
    readers::{acme, columns, helios, openb, pai, philly, read_dated_rows},
    recorded::{Recorder, TimeBase, rebase},
};

/// Reads a file of jobs; `-` is standard input. The file is read line by line, so memory is needed
/// for the jobs only.
///
/// # Errors
/// The file cannot be read, its format is unknown, or a row is invalid.
pub fn read_jobs(path: &Path, options: &ReadOptions) -> Result<JobTrace, TraceError> {
    let OpenedFile { lines, first } = lines::open(path, "a trace file that can be read")?;
    let format = match options.format {
        Some(format) => format,
        None if first.is_empty() => format_of_empty_file(path),
        None => TraceFormat::of_first_line(&first)
            .map_err(|found| TraceError::in_line(&lines.file, 1, found, ALLOWED_FIRST_LINE))?,
    };
    let mut recorder = Recorder::new(options);
    let mut start = None;
    match format {
        TraceFormat::JsonLines => {
            start = json_lines::read_jobs(lines, &mut |job| recorder.take(job))?;
        }
        TraceFormat::Columns => columns::read(lines, &mut recorder)?,
        TraceFormat::Openb => openb::read(lines, &mut recorder)?,
        TraceFormat::Acme => read_dated_rows(format, lines, &mut recorder, acme::record)?,
        TraceFormat::Philly => philly::read(lines, &mut recorder)?,
        TraceFormat::Helios => read_dated_rows(format, lines, &mut recorder, helios::record)?,
        TraceFormat::Pai => pai::read(path, lines, &first, &mut recorder)?,
    }
    let (mut jobs, notes, base) = recorder.finish();
    if let TimeBase::Unix = base {
        start = rebase(&mut jobs);
    }
    Ok(JobTrace { format, start, jobs, notes })
}

fn format_of_empty_file(path: &Path) -> TraceFormat {
    let is_csv = path.extension().is_some_and(|end| end == "csv");
    if is_csv { TraceFormat::Openb } else { TraceFormat::JsonLines }
}
