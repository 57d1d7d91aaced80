//! A reader that fails after a number of bytes, so that a compressed file cannot fill the memory.

use std::io::{self, Read};

/// Text of the error.
pub(super) const EXCEEDED: &str = "the size limit of the input is exceeded";

/// Reads at most a number of bytes from another reader; more is an error.
pub(super) struct LimitedReader<R> {
    inner: R,
    left: u64,
}

impl<R> LimitedReader<R> {
    pub(super) fn new(inner: R, max_bytes: u64) -> Self {
        Self { inner, left: max_bytes }
    }
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left =
            self.left.checked_sub(count as u64).ok_or_else(|| io::Error::other(EXCEEDED))?;
        Ok(count)
    }
}
