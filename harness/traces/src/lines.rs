//! The lines of a file, read one at a time, so that a file need not fit into memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read as _},
    path::Path,
};

use crate::error::TraceError;

/// How much of a file is looked at to tell its format.
const HEAD_MAX_BYTES: u64 = 1 << 20;

/// A file whose first line is known, and whose lines are read one at a time.
pub(crate) struct Lines {
    pub(crate) file: String,
    input: Box<dyn BufRead>,
    line: u64,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("file", &self.file)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

/// An opened file with its first line that is not blank.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) lines: Lines,
    /// The first line that is not blank; empty if there is none.
    pub(crate) first: String,
}

/// Opens a file; `-` is standard input.
pub(crate) fn open(path: &Path, allowed: &str) -> Result<OpenedFile, TraceError> {
    let mut input: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        let file = File::open(path).and_then(|file| {
            // A folder opens, and fails only when it is read.
            if file.metadata()?.is_dir() {
                return Err(io::Error::from(io::ErrorKind::IsADirectory));
            }
            Ok(file)
        });
        let file = file.map_err(|error| TraceError::unreadable(path, &error, allowed))?;
        Box::new(BufReader::with_capacity(1 << 16, file))
    };
    let mut head = Vec::new();
    let mut first = String::new();
    while first.is_empty() {
        let begin = head.len();
        let read = input.by_ref().take(HEAD_MAX_BYTES).read_until(b'\n', &mut head);
        if read.map_err(|error| TraceError::unreadable(path, &error, allowed))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(head.split_at(begin).1);
        text.trim_start_matches('\u{feff}').trim().clone_into(&mut first);
    }
    if head.starts_with("\u{feff}".as_bytes()) {
        head.drain(..3);
    }
    let input: Box<dyn BufRead> = Box::new(Cursor::new(head).chain(input));
    let file = path.display().to_string();
    Ok(OpenedFile { lines: Lines { file, input, line: 0, buffer: Vec::new() }, first })
}

/// A line of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) number: u64,
    pub(crate) text: &'a str,
}

impl Lines {
    /// The next line that is not blank, without its end.
    pub(crate) fn next_line(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        loop {
            self.buffer.clear();
            let read = self.input.read_until(b'\n', &mut self.buffer).map_err(|error| {
                TraceError::in_line(&self.file, self.line + 1, error.to_string(), "a line of text")
            })?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        match str::from_utf8(&self.buffer) {
            Ok(text) => {
                Ok(Some(Line { number: self.line, text: text.trim_end_matches(['\r', '\n']) }))
            }
            Err(error) => {
                let at = error.valid_up_to();
                let byte = self.buffer[at];
                let found = format!("the byte 0x{byte:02x} at byte {} of the line", at + 1);
                Err(TraceError::in_line(&self.file, self.line, found, "UTF-8 text"))
            }
        }
    }

    /// The file as bytes, from its begin.
    pub(crate) fn into_bytes(self) -> Box<dyn BufRead> {
        self.input
    }
}
