//! Speed and size, in one table: what the README quotes. Wall time is read here and nowhere
//! else, and no test depends on it: machines are shared and noisy.
//!
//! `cargo bench -p schedlab --bench figures [part of a row's name]`

#[path = "figures/core.rs"]
mod core;
#[path = "figures/memory.rs"]
mod memory;
#[path = "figures/process.rs"]
mod process;
#[path = "figures/shell.rs"]
mod shell;
#[path = "figures/table.rs"]
mod table;
#[path = "figures/whole.rs"]
mod whole;

use table::Table;

fn main() {
    if let Some(kubeconfig) = memory::is_scheduler() {
        return memory::schedule(kubeconfig);
    }
    // cargo hands `--bench` to every benchmark.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let mut table = Table::new(filter);
    core::measure_small(&mut table);
    core::measure(&mut table);
    shell::measure(&table);
    memory::measure(&table);
    whole::measure(&mut table);
}
