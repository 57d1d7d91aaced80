//! What `schedlab up` serves beside the API: the page, and the scheduler's metrics.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use schedlab_emulator::Emulator;
use schedlab_scheduler::health::{self, Health};
use schedlab_scheduler::leader_election::LeaderState;
use schedlab_scheduler::{Clock, Config, Metrics};
use schedlab_ui::server::PageServer;
use schedlab_ui::session::Session;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::CommandOutput;
use crate::cli::Up;

/// The listeners of the page and of the metrics.
pub(super) struct Endpoints {
    page: Option<PageServer>,
    metrics: Option<(TcpListener, Health)>,
}

impl Endpoints {
    /// Listens, and prints the addresses. `config` is that of the scheduler that is observed.
    pub(super) async fn bind(
        args: &Up,
        emulator: &Emulator,
        config: &Config,
        output: &mut CommandOutput,
    ) -> anyhow::Result<Self> {
        let page = if args.ui {
            let session = Session::attach(emulator, config.clone());
            let server = PageServer::bind(session, args.ui_port).await?;
            output.print_note(&format!("page: {}", server.url()?));
            Some(server)
        } else {
            None
        };
        let metrics = match args.metrics_port {
            Some(port) => Some(bind_metrics(port, emulator, config, output).await?),
            None => None,
        };
        Ok(Self { page, metrics })
    }

    /// The metrics that the observed scheduler reports to.
    pub(super) fn metrics(&self) -> Option<Arc<Metrics>> {
        self.metrics.as_ref().map(|(_, health)| Arc::clone(&health.metrics))
    }

    /// Serves until an error.
    pub(super) async fn serve(self) -> anyhow::Error {
        let page = async {
            let Some(page) = self.page else { return std::future::pending().await };
            page.serve().await.err().unwrap_or_else(|| anyhow::anyhow!("it returned"))
        };
        let metrics = async {
            let Some((listener, health)) = self.metrics else {
                return std::future::pending().await;
            };
            match health::serve(listener, health).await {
                Ok(never) => match never {},
                Err(error) => error.into(),
            }
        };
        tokio::select! {
            error = page => error.context("the page ended"),
            error = metrics => anyhow::Error::context(error, "the metrics ended"),
        }
    }
}

async fn bind_metrics(
    port: u16,
    emulator: &Emulator,
    config: &Config,
    output: &mut CommandOutput,
) -> anyhow::Result<(TcpListener, Health)> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("--metrics-port {port}: cannot listen"))?;
    output.print_note(&format!("metrics: http://{}/metrics", listener.local_addr()?));
    let clock = emulator.clock().clone();
    let now: Clock = Arc::new(move || clock.now());
    let (_, leader_state) = watch::channel(LeaderState::Leading);
    let health = Health {
        leader_state,
        status: config.progress.subscribe(),
        metrics: Arc::new(Metrics::new()),
        now,
        snapshots: None,
        trace: None,
    };
    Ok((listener, health))
}
