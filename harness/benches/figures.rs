//! Speed and memory in one table, as the documentation quotes them. Only benchmarks read wall time;
//! no test depends on it, as machines are shared and noisy.
//!
//! `cargo bench -p schedlab --bench figures [part of a row's name]`

#[path = "figures/commands.rs"]
mod commands;
#[path = "figures/core.rs"]
mod core;
#[path = "figures/memory.rs"]
mod memory;
#[path = "figures/process.rs"]
mod process;
#[path = "figures/scheduler.rs"]
mod scheduler;
#[path = "figures/table.rs"]
mod table;

use table::Table;

fn main() {
    if let Some(kubeconfig) = memory::scheduler_kubeconfig() {
        return memory::run_scheduler(kubeconfig);
    }
    // Cargo passes `--bench` to every benchmark.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let mut table = Table::new(filter);
    core::measure_small_cases(&mut table);
    core::measure_core(&mut table);
    scheduler::measure_scheduler(&table);
    memory::measure_memory(&table);
    commands::measure_commands(&mut table);
}
