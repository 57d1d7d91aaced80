//! A request to stop, seen by all threads: Ctrl-C, SIGTERM as `timeout`, docker and CI send it, or
//! SIGHUP when a terminal is closed. The first ends what is under way and takes away what was made;
//! the second ends the process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::exit::Exit;

/// Whether somebody asked to stop. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<watch::Sender<bool>>);

/// Somebody asked to stop before the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl Interrupt {
    /// Hears the signals of this process from now on.
    pub fn listen() -> anyhow::Result<Self> {
        let interrupt = Self::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .context("cannot listen for Ctrl-C")?;
        let mut signals = {
            let _inside = runtime.enter();
            Signals::listen()?
        };
        let heard = interrupt.clone();
        std::thread::spawn(move || {
            runtime.block_on(async {
                signals.asked().await;
                heard.raise();
                signals.asked_again().await;
                // It means now.
                std::process::exit(i32::from(Exit::Interrupted.code()));
            });
        });
        Ok(interrupt)
    }

    /// Asks everybody to stop.
    pub fn raise(&self) {
        self.0.send_replace(true);
    }

    /// Whether somebody asked.
    pub fn is_raised(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until somebody asks.
    pub async fn raised(&self) {
        // The sender is ours: it outlives the wait.
        let _ = self.0.subscribe().wait_for(|raised| *raised).await;
    }

    /// What the work comes to, unless somebody asks to stop before.
    pub async fn unless<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> anyhow::Result<T>
    where
        anyhow::Error: From<E>,
    {
        tokio::select! {
            () = self.raised() => Err(Interrupted.into()),
            done = work => Ok(done?),
        }
    }

    /// The same, but who asks waits this long for work that cannot be given up halfway.
    pub async fn unless_after<T, E>(
        &self,
        grace: Duration,
        work: impl Future<Output = Result<T, E>>,
    ) -> anyhow::Result<T>
    where
        anyhow::Error: From<E>,
    {
        let asked = async {
            self.raised().await;
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            () = asked => Err(Interrupted.into()),
            done = work => Ok(done?),
        }
    }
}

/// The signals that ask a process to end.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where it is ignored: `nohup` lets a process outlive its terminal.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Hears them from now on, on the current runtime.
    pub fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for Ctrl-C");
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hang_up = (!ignores_hang_up(&status)).then(|| listen(SignalKind::hangup()));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: hang_up.transpose()?,
        })
    }

    /// Waits for one of them.
    pub async fn asked(&mut self) {
        let hung_up = async {
            match &mut self.hang_up {
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

    /// Waits for one that is sent on purpose: of a closed terminal both the kernel and the shell
    /// tell.
    async fn asked_again(&mut self) {
        tokio::select! { _ = self.interrupt.recv() => {}, _ = self.terminate.recv() => {} }
    }
}

/// By `/proc/self/status`: a bit for each signal that is ignored, the first for SIGHUP.
fn ignores_hang_up(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    ignored.unwrap_or(0) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_would_never_end_ends_when_somebody_asks() {
        let interrupt = Interrupt::default();
        let asked = interrupt.clone();
        let work = interrupt.unless(std::future::pending::<anyhow::Result<()>>());
        let (ended, ()) = tokio::join!(work, async move { asked.raise() });
        assert!(ended.unwrap_err().is::<Interrupted>());
        assert!(interrupt.is_raised());
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_cannot_be_given_up_halfway_is_waited_for_but_not_for_ever() {
        let interrupt = Interrupt::default();
        interrupt.raise();
        let grace = Duration::from_secs(10);
        let slow = async {
            tokio::time::sleep(grace / 2).await;
            anyhow::Ok(7)
        };
        assert_eq!(interrupt.unless_after(grace, slow).await.unwrap(), 7);
        let never = std::future::pending::<anyhow::Result<()>>();
        let ended = interrupt.unless_after(grace, never).await;
        assert!(ended.unwrap_err().is::<Interrupted>());
    }

    #[test]
    fn whether_hang_ups_are_ignored_is_the_lowest_bit() {
        let status = |bits: &str| format!("SigBlk:\t0000000000000001\nSigIgn:\t{bits}\n");
        assert!(ignores_hang_up(&status("0000000000001001")));
        assert!(!ignores_hang_up(&status("0000000000001000")));
        assert!(!ignores_hang_up(""));
    }

    #[tokio::test]
    async fn work_that_is_not_interrupted_comes_to_what_it_does() {
        let done = Interrupt::default().unless(async { anyhow::Ok(7) }).await;
        assert_eq!(done.unwrap(), 7);
    }
}
