//! Requests to stop, visible to all threads: Ctrl-C, SIGTERM (sent by `timeout`, docker and CI), or
//! SIGHUP when a terminal is closed. The first request stops the current work and cleans up; the
//! second ends the process immediately.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Exit status of a process that was stopped by a signal, as shells report it for Ctrl-C.
pub const INTERRUPTED_EXIT_STATUS: u8 = 130;

/// A flag that a stop was requested, for example with Ctrl-C. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<watch::Sender<bool>>);

/// The error of work that was cancelled because a stop was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl Interrupt {
    /// A flag that is raised when this process receives a stop signal.
    ///
    /// # Errors
    /// The signals cannot be listened for.
    pub fn listen() -> anyhow::Result<Self> {
        let interrupt = Self::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .context("cannot listen for Ctrl-C")?;
        let mut signals = {
            let _inside = runtime.enter();
            StopSignals::listen()?
        };
        let raised = interrupt.clone();
        std::thread::spawn(move || {
            runtime.block_on(async {
                signals.wait_for_signal().await;
                raised.raise();
                signals.wait_for_deliberate_signal().await;
                // The second request ends the process without cleanup.
                std::process::exit(i32::from(INTERRUPTED_EXIT_STATUS));
            });
        });
        Ok(interrupt)
    }

    /// Requests a stop, as Ctrl-C would.
    pub fn raise(&self) {
        self.0.send_replace(true);
    }

    /// Whether a stop was requested.
    pub fn is_raised(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for a stop request.
    pub async fn wait_until_raised(&self) {
        // `self` holds the sender, so it outlives this wait.
        let _ = self.0.subscribe().wait_for(|raised| *raised).await;
    }

    /// Runs `work`, and cancels it when a stop is requested.
    ///
    /// # Errors
    /// The error of `work`, or [`Interrupted`].
    pub async fn run_unless_interrupted<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> anyhow::Result<T>
    where
        anyhow::Error: From<E>,
    {
        tokio::select! {
            () = self.wait_until_raised() => Err(Interrupted.into()),
            done = work => Ok(done?),
        }
    }

    /// Like [`Self::run_unless_interrupted`], but cancels the work only after `grace`: for work
    /// that must not be left half done.
    #[cfg(any(feature = "container", test))]
    pub(crate) async fn run_with_grace_after_interrupt<T, E>(
        &self,
        grace: std::time::Duration,
        work: impl Future<Output = Result<T, E>>,
    ) -> anyhow::Result<T>
    where
        anyhow::Error: From<E>,
    {
        let deadline = async {
            self.wait_until_raised().await;
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            () = deadline => Err(Interrupted.into()),
            done = work => Ok(done?),
        }
    }
}

/// The signals that request this process to stop: SIGINT, SIGTERM and SIGHUP.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// SIGHUP; `None` if it is ignored, because `nohup` lets a process outlive its terminal.
    sighup: Option<Signal>,
}

impl StopSignals {
    /// Listens for the stop signals, on the current runtime.
    ///
    /// # Errors
    /// The signals cannot be listened for.
    pub fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for Ctrl-C");
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hang_up = (!ignores_sighup(&status)).then(|| listen(SignalKind::hangup()));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            sighup: hang_up.transpose()?,
        })
    }

    /// Waits for one of the stop signals.
    pub async fn wait_for_signal(&mut self) {
        let hung_up = async {
            match &mut self.sighup {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {},
            _ = self.terminate.recv() => {},
            _ = hung_up => {},
        }
    }

    /// Waits for SIGINT or SIGTERM, which are sent deliberately. SIGHUP does not count: both the
    /// kernel and the shell send it when a terminal is closed.
    async fn wait_for_deliberate_signal(&mut self) {
        tokio::select! { _ = self.interrupt.recv() => {}, _ = self.terminate.recv() => {} }
    }
}

/// Whether `/proc/self/status` shows SIGHUP as ignored: one bit per ignored signal, SIGHUP first.
fn ignores_sighup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    ignored.unwrap_or(0) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stop_request_cancels_work() {
        let interrupt = Interrupt::default();
        let raiser = interrupt.clone();
        let work = interrupt.run_unless_interrupted(std::future::pending::<anyhow::Result<()>>());
        let (ended, ()) = tokio::join!(work, async move { raiser.raise() });
        assert!(ended.unwrap_err().is::<Interrupted>());
        assert!(interrupt.is_raised());
    }

    #[tokio::test(start_paused = true)]
    async fn work_with_a_grace_period_is_cancelled_after_it() {
        let interrupt = Interrupt::default();
        interrupt.raise();
        let grace = std::time::Duration::from_secs(10);
        let slow = async {
            tokio::time::sleep(grace / 2).await;
            anyhow::Ok(7)
        };
        assert_eq!(interrupt.run_with_grace_after_interrupt(grace, slow).await.unwrap(), 7);
        let never = std::future::pending::<anyhow::Result<()>>();
        let ended = interrupt.run_with_grace_after_interrupt(grace, never).await;
        assert!(ended.unwrap_err().is::<Interrupted>());
    }

    #[test]
    fn the_lowest_bit_tells_whether_sighup_is_ignored() {
        let status = |bits: &str| format!("SigBlk:\t0000000000000001\nSigIgn:\t{bits}\n");
        assert!(ignores_sighup(&status("0000000000001001")));
        assert!(!ignores_sighup(&status("0000000000001000")));
        assert!(!ignores_sighup(""));
    }

    #[tokio::test]
    async fn uninterrupted_work_returns_its_result() {
        let done = Interrupt::default().run_unless_interrupted(async { anyhow::Ok(7) }).await;
        assert_eq!(done.unwrap(), 7);
    }
}
