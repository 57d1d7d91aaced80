//! The real kubectl against a served cluster, in real time. Without kubectl the tests are skipped.
#![expect(clippy::unwrap_used, reason = "a test ends where its cluster cannot be built")]

mod cluster;
mod reading;
mod watching;
mod writing;
