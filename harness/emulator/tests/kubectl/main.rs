//! The real kubectl against a served cluster, in real time. Says so and passes where there is
//! no kubectl.
#![expect(clippy::unwrap_used, reason = "a test ends where its cluster cannot be built")]

mod cluster;
mod reading;
mod watching;
mod writing;
