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

use crate::{audit::Audit, write::Write};

type WriteBatch = Vec<Write>;

/// Number of writes that are sent to the audit's thread at once: each batch may wake that thread.
const BATCH_SIZE: usize = 256;
/// Maximum number of queued batches. When the queue is full, the thread that writes waits for the
/// audit.
const QUEUED_BATCHES_MAX: usize = 16;

/// Sends writes in order to an audit on its own thread.
#[derive(Debug)]
pub struct BackgroundAudit {
    batcher: Arc<Mutex<Batcher>>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Batcher {
    writes: WriteBatch,
    /// The channel to the audit's thread; `None` after [`BackgroundAudit::finish_audit`].
    sender: Option<SyncSender<WriteBatch>>,
}

impl BackgroundAudit {
    /// Starts the thread of an audit.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start_thread(audit: &Audit) -> std::io::Result<Self> {
        let (sender, writes) = sync_channel(QUEUED_BATCHES_MAX);
        let batcher = Batcher { writes: Vec::new(), sender: Some(sender) };
        let audit = audit.clone();
        let thread = thread::Builder::new().name("audit".to_owned());
        let auditing = thread.spawn(move || audit_batches(&audit, &writes))?;
        Ok(Self { batcher: Arc::new(Mutex::new(batcher)), thread: auditing })
    }

    /// Returns a function that queues each write that it is called with.
    pub fn write_observer(&self) -> impl FnMut(Write) + Send + use<> {
        let batcher = Arc::clone(&self.batcher);
        move |write| {
            let mut batcher = lock_batcher(&batcher);
            batcher.writes.push(write);
            if batcher.writes.len() == BATCH_SIZE {
                batcher.send_batch();
            }
        }
    }

    /// Waits until all observed writes have been audited. Later writes are ignored.
    pub fn finish_audit(self) {
        let mut batcher = lock_batcher(&self.batcher);
        batcher.send_batch();
        batcher.sender = None;
        drop(batcher);
        if let Err(panicked) = self.thread.join() {
            panic::resume_unwind(panicked);
        }
    }
}

impl Batcher {
    fn send_batch(&mut self) {
        let writes = mem::take(&mut self.writes);
        // The other thread ends first only in a panic, which `finish_audit` resumes.
        let _ = self.sender.as_ref().map(|to| to.send(writes));
    }
}

fn audit_batches(audit: &Audit, batches: &Receiver<WriteBatch>) {
    for write in batches.iter().flatten() {
        audit.observe_write(&write);
    }
}

fn lock_batcher(batcher: &Mutex<Batcher>) -> MutexGuard<'_, Batcher> {
    batcher.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use schedlab_api::{Value, json};

    use super::*;
    use crate::{
        rules::Rules,
        write::{ObjectKey, WriteKind},
    };

    const SCHEDULER: &str = "scheduler";

    fn write_of(pod: Value, previous: Option<&Write>) -> Write {
        let name = pod["metadata"]["name"].as_str().expect("the pod has a name").into();
        let key = ObjectKey {
            group: "".into(),
            plural: "pods".into(),
            namespace: "default".into(),
            name,
        };
        Write {
            revision: 1,
            time: Timestamp::UNIX_EPOCH,
            kind: if previous.is_some() { WriteKind::Update } else { WriteKind::Create },
            key,
            object: Arc::new(pod),
            previous: previous.map(|write| Arc::clone(&write.object)),
            manager: SCHEDULER.into(),
        }
    }

    #[test]
    fn a_background_audit_finds_the_same_violations() {
        let at_once = Audit::new(Rules::kube(), SCHEDULER);
        let later = Audit::new(Rules::kube(), SCHEDULER);
        let background = BackgroundAudit::start_thread(&later).expect("a thread");
        let mut observe_later = background.write_observer();
        // More than one batch.
        let pod = |number| json!({ "metadata": { "name": format!("pod-{number}") } });
        let mut writes: Vec<Write> =
            (0..BATCH_SIZE).map(|number| write_of(pod(number), None)).collect();
        let mut bound = pod(0);
        bound["spec"]["nodeName"] = json!("nowhere");
        writes.push(write_of(bound, writes.first()));
        for write in writes {
            at_once.observe_write(&write);
            observe_later(write);
        }
        background.finish_audit();
        assert!(!at_once.violations().is_empty());
        assert_eq!(later.violations(), at_once.violations());
    }
}
