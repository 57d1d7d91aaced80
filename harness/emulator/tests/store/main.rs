//! The public API of the store: effects, results and errors of writes.

mod custom;
mod decoding;
mod deletion;
mod embedded;
mod lists;
mod malformed;
mod pod_groups;
mod pods;
mod schema_branches;
mod service_accounts;
mod test_store;
mod versions;
mod workloads;
mod writes;
