//! Runs an audit on a thread of its own, for callers that need its result only at the end. The
//! audit then takes no time from the cluster that it observes.

use std::{
    mem, panic,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use schedlab_emulator::Observer;
use schedlab_emulator::store::LogEntry;

use super::Audit;

type Writes = Vec<Arc<LogEntry>>;

/// The number of writes per batch: each batch may wake the other thread.
const BATCH_SIZE: usize = 256;
/// The number of batches that may be queued. A writer that is faster than the audit then waits.
const QUEUED_BATCHES_MAX: usize = 16;

/// Sends writes in order to an audit on its own thread.
#[derive(Debug)]
pub(crate) struct BackgroundAudit {
    batcher: Arc<Mutex<Batcher>>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Batcher {
    writes: Writes,
    /// `None` after the end.
    sender: Option<SyncSender<Writes>>,
}

impl BackgroundAudit {
    pub(crate) fn start(audit: &Audit) -> std::io::Result<Self> {
        let (to, writes) = sync_channel(QUEUED_BATCHES_MAX);
        let outbox = Batcher { writes: Vec::new(), sender: Some(to) };
        let audit = audit.clone();
        let thread = thread::Builder::new().name("audit".to_owned());
        let judging = thread.spawn(move || run(&audit, &writes))?;
        Ok(Self { batcher: Arc::new(Mutex::new(outbox)), thread: judging })
    }

    /// An observer for the store.
    pub(crate) fn observer(&self) -> Observer {
        let outbox = Arc::clone(&self.batcher);
        Box::new(move |entry| {
            let mut outbox = locked(&outbox);
            outbox.writes.push(Arc::clone(entry));
            if outbox.writes.len() == BATCH_SIZE {
                outbox.send();
            }
        })
    }

    /// Waits until all observed writes have been audited. Later writes are ignored.
    pub(crate) fn finish(self) {
        let mut outbox = locked(&self.batcher);
        outbox.send();
        outbox.sender = None;
        drop(outbox);
        if let Err(panicked) = self.thread.join() {
            panic::resume_unwind(panicked);
        }
    }
}

impl Batcher {
    fn send(&mut self) {
        let writes = mem::take(&mut self.writes);
        // The other thread ends first only in a panic, which `finish` resumes.
        let _ = self.sender.as_ref().map(|to| to.send(writes));
    }
}

fn run(audit: &Audit, handfuls: &Receiver<Writes>) {
    for write in handfuls.iter().flatten() {
        audit.observe(&write);
    }
}

fn locked(outbox: &Mutex<Batcher>) -> MutexGuard<'_, Batcher> {
    outbox.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;
    use schedlab_audit::Rules;
    use schedlab_emulator::{
        Emulator, Options,
        clock::Clock,
        store::{Key, Op, Resource, Write},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_background_audit_finds_the_same_violations() {
        let (at_once, later) =
            (Audit::new(Rules::kube(), "scheduler"), Audit::new(Rules::kube(), "scheduler"));
        let apart = BackgroundAudit::start(&later).expect("a thread");
        let emulator =
            Emulator::start(Options::with_clock(Clock::starting_at(jiff::Timestamp::UNIX_EPOCH)));
        emulator.observe_writes(at_once.observer());
        emulator.observe_writes(apart.observer());
        // More than one batch.
        let pods = Resource::new("", "pods");
        for number in 0..BATCH_SIZE {
            let pod = json!({
                "metadata": {"name": format!("pod-{number}"), "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            });
            emulator.create(&pods, pod).expect("a pod");
        }
        let key = Key { resource: pods, namespace: "default".into(), name: "pod-0".into() };
        let nowhere = json!({
            "metadata": {"name": "pod-0"}, "target": {"kind": "Node", "name": "nowhere"},
        });
        let bind = Write::new(key, Op::Bind(nowhere), "scheduler");
        emulator.store().write(bind).expect("the pod is there");
        apart.finish();
        assert!(!at_once.violations().is_empty());
        assert_eq!(later.violations(), at_once.violations());
    }
}
