//! A page that shows an emulated cluster: nodes as boxes of GPUs, queues, pending work with its
//! reasons, and what happened. Its clock can be stopped, stepped and sped up, and the page can go
//! back to any earlier write.
//!
//! The modules build on each other in this order: everything that happened ([`history`]), the
//! running cluster ([`session`]), its HTML (`page`), the lesson beside it ([`lesson`]), who may see it
//! (`access`) and the HTTP servers of the page ([`server`]) and of a report ([`report_server`]). What a
//! cluster looks like is in `schedlab-view`.

mod access;
pub mod history;
pub mod lesson;
mod page;
pub mod report_server;
pub mod server;
pub mod session;
