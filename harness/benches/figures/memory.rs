//! The memory of the scheduler in a process of its own: this program once more, as a client of an
//! API server that is full.

use std::{ffi::OsString, fs, process::Command, sync::Arc, time::Duration};

use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab_emulator::{Reach, Router, Server, clock::Clock};
use schedlab_scheduler::Config;

use crate::{
    process::peak_mb,
    shell::{NAME, full_fleet},
    table::{Row, Table},
};

/// Names the kubeconfig to the process that is the scheduler.
const KUBECONFIG: &str = "SCHEDLAB_BENCH_KUBECONFIG";

/// The scheduler has nothing more to do when nothing was written for so long.
const QUIET: Duration = Duration::from_secs(10);

const WRITES_AT_ONCE: usize = 32;

/// The kubeconfig, if this process is to be the scheduler.
pub(crate) fn is_scheduler() -> Option<OsString> {
    std::env::var_os(KUBECONFIG)
}

/// Schedules until it is killed.
pub(crate) fn schedule(kubeconfig: OsString) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.expect("a runtime of this thread").block_on(async {
        let config = Kubeconfig::read_from(kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(config, &options).await?;
        let client = kube::Client::try_from(config)?;
        let config = Config { writes_at_once: WRITES_AT_ONCE, ..Config::kai() };
        schedlab_scheduler::run(client, config, Arc::new(jiff::Timestamp::now)).await
    });
    ended.expect("a scheduler does not end");
}

pub(crate) fn measure(table: &Table) {
    if !table.wants(NAME) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let peak = runtime.expect("a runtime").block_on(peak());
    table.row(&Row {
        name: format!("{NAME}: memory of its process"),
        figure: peak.map_or("?".to_owned(), |peak| format!("{peak} MB")),
        bound: "1 GB".to_owned(),
        others: String::new(),
    });
}

async fn peak() -> Option<u64> {
    let emulator = full_fleet(Clock::real());
    let store = emulator.store().clone();
    let address = ([127, 0, 0, 1], 0).into();
    let server = Server::start(Router::new(store.clone()), address, Reach::Loopback).await;
    let server = server.expect("a port on loopback");
    let kubeconfig = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(kubeconfig.path(), &server.kubeconfig).expect("a temporary file");
    let begun = store.revision();
    let itself = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new(itself);
    let mut child = child.env(KUBECONFIG, kubeconfig.path()).spawn().expect("it starts again");
    loop {
        let before = store.revision();
        tokio::time::sleep(QUIET).await;
        let ended = child.try_wait().expect("a child can be waited for");
        assert!(ended.is_none(), "the scheduler ended: {ended:?}");
        // At first it lists, and nothing is written yet.
        if store.revision() == before && before != begun {
            break;
        }
    }
    let peak = peak_mb(child.id());
    child.kill().and_then(|()| child.wait()).expect("a child can be killed");
    peak
}
