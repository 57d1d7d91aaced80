//! What a cluster looked like after each write: nodes with their GPUs, queues and pending work, and
//! what happened. From this the page of a live cluster is drawn, and the HTML report of a run.
//!
//! The modules build on each other in this order: what is read of objects (`records`), the state of
//! the cluster ([`state`]), what happened ([`events`]), the history of a scenario ([`timeline`]),
//! its drawing ([`drawing`]), plots over time ([`plot`]) and the report of a run ([`report`]).

pub mod drawing;
pub mod events;
pub mod plot;
mod records;
pub mod report;
pub mod state;
pub mod timeline;

pub use records::ObjectName;
