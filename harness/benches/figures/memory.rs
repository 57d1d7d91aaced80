//! The peak memory of the scheduler in a process of its own: this program starts itself again, as a
//! client of an API server with a large cluster.

use std::{ffi::OsString, fs, process::Command, sync::Arc, time::Duration};

use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab_emulator::{Reach, Router, Server, clock::Clock};
use schedlab_scheduler::Config;

use crate::{
    process::peak_memory_mb,
    scheduler::{CROWDED, ROW_NAME, full_fleet},
    table::{Row, Table},
};

/// Environment variable with the kubeconfig; set in the process that runs the scheduler.
const KUBECONFIG_ENV: &str = "SCHEDLAB_BENCH_KUBECONFIG";

/// The scheduler has finished its work if it writes nothing for this long.
const QUIET_PERIOD: Duration = Duration::from_secs(10);

const CONCURRENT_WRITES: usize = 32;

/// The path of the kubeconfig, if this process has to run the scheduler.
pub(crate) fn scheduler_kubeconfig() -> Option<OsString> {
    std::env::var_os(KUBECONFIG_ENV)
}

/// Runs the scheduler until this process is killed.
pub(crate) fn run_scheduler(kubeconfig: OsString) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let status = runtime.expect("a runtime can be built").block_on(async {
        let config = Kubeconfig::read_from(kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(config, &options).await?;
        let client = kube::Client::try_from(config)?;
        let config = Config { writes_at_once: CONCURRENT_WRITES, ..Config::kai() };
        schedlab_scheduler::run(client, config, Arc::new(jiff::Timestamp::now)).await
    });
    status.expect("the scheduler runs until it is killed");
}

pub(crate) fn measure_memory(table: &Table) {
    if !table.is_selected(ROW_NAME) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let peak = runtime.expect("a runtime can be built").block_on(scheduler_peak_memory_mb());
    table.print_row(&Row {
        name: format!("{ROW_NAME}: memory of its process"),
        figure: peak.map_or("?".to_owned(), |peak| format!("{peak} MB")),
        bound: "1 GB".to_owned(),
        others: String::new(),
    });
}

async fn scheduler_peak_memory_mb() -> Option<u64> {
    let emulator = full_fleet(Clock::real(), CROWDED);
    let store = emulator.store().clone();
    let address = ([127, 0, 0, 1], 0).into();
    let server = Server::start(Router::new(store.clone()), address, Reach::Loopback).await;
    let server = server.expect("the server can listen on loopback");
    let kubeconfig = tempfile::NamedTempFile::new().expect("a temporary file can be written");
    fs::write(kubeconfig.path(), &server.kubeconfig).expect("a temporary file can be written");
    let initial = store.revision();
    let itself = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new(itself);
    let mut child =
        child.env(KUBECONFIG_ENV, kubeconfig.path()).spawn().expect("this program starts");
    loop {
        let before = store.revision();
        tokio::time::sleep(QUIET_PERIOD).await;
        let status = child.try_wait().expect("a child can be waited for");
        assert!(status.is_none(), "the scheduler ended: {status:?}");
        // While the scheduler lists objects, it does not write yet.
        if store.revision() == before && before != initial {
            break;
        }
    }
    let peak = peak_memory_mb(child.id());
    child.kill().and_then(|()| child.wait()).expect("a child can be killed");
    peak
}
