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

type Writes = Vec<Write>;

/// The number of writes per batch: each batch may wake the other thread.
const BATCH_SIZE: usize = 256;
/// The number of batches that may be queued. A writer that is faster than the audit then waits.
const QUEUED_BATCHES_MAX: usize = 16;

/// Sends writes in order to an audit on its own thread.
#[derive(Debug)]
pub struct BackgroundAudit {
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
    /// Starts the thread of an audit.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(audit: &Audit) -> std::io::Result<Self> {
        let (sender, writes) = sync_channel(QUEUED_BATCHES_MAX);
        let batcher = Batcher { writes: Vec::new(), sender: Some(sender) };
        let audit = audit.clone();
        let thread = thread::Builder::new().name("audit".to_owned());
        let auditing = thread.spawn(move || run(&audit, &writes))?;
        Ok(Self { batcher: Arc::new(Mutex::new(batcher)), thread: auditing })
    }

    /// Queues each write that it is called with.
    pub fn observer(&self) -> impl FnMut(Write) + Send + use<> {
        let batcher = Arc::clone(&self.batcher);
        move |write| {
            let mut batcher = locked(&batcher);
            batcher.writes.push(write);
            if batcher.writes.len() == BATCH_SIZE {
                batcher.send();
            }
        }
    }

    /// Waits until all observed writes have been audited. Later writes are ignored.
    pub fn finish(self) {
        let mut batcher = locked(&self.batcher);
        batcher.send();
        batcher.sender = None;
        drop(batcher);
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

fn run(audit: &Audit, batches: &Receiver<Writes>) {
    for write in batches.iter().flatten() {
        audit.observe(&write);
    }
}

fn locked(batcher: &Mutex<Batcher>) -> MutexGuard<'_, Batcher> {
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
        let background = BackgroundAudit::start(&later).expect("a thread");
        let mut observe_later = background.observer();
        // More than one batch.
        let pod = |number| json!({ "metadata": { "name": format!("pod-{number}") } });
        let mut writes: Vec<Write> =
            (0..BATCH_SIZE).map(|number| write_of(pod(number), None)).collect();
        let mut bound = pod(0);
        bound["spec"]["nodeName"] = json!("nowhere");
        writes.push(write_of(bound, writes.first()));
        for write in writes {
            at_once.observe(&write);
            observe_later(write);
        }
        background.finish();
        assert!(!at_once.violations().is_empty());
        assert_eq!(later.violations(), at_once.violations());
    }
}
