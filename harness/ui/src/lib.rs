//! A page that shows an emulated cluster: nodes as boxes of GPUs, queues, pending work with its
//! reasons, and what happened. Its clock can be stopped, stepped and sped up, and the page can go
//! back to any earlier write.
//!
//! The modules build on each other in this order: the objects at a revision ([`objects`]), what
//! the page shows of them ([`state`]), what happened ([`events`]), the running cluster
//! ([`session`]), its HTML ([`page`]) and the HTTP server ([`server`]).

pub mod events;
pub mod objects;
mod page;
pub mod server;
pub mod session;
pub mod state;
