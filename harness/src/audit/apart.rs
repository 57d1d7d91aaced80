//! An audit on a thread of its own, for who asks it at the end only: judging then takes no time
//! from the cluster that is judged.

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

/// So many writes are handed over at once: each time may wake the other thread.
const HANDFUL: usize = 256;
/// So many handfuls may wait. Who writes faster than is judged waits, too.
const WAITING_MAX: usize = 16;

/// Hands writes to an audit on its own thread, in their order.
#[derive(Debug)]
pub(crate) struct Apart {
    outbox: Arc<Mutex<Outbox>>,
    judging: JoinHandle<()>,
}

#[derive(Debug)]
struct Outbox {
    writes: Writes,
    /// `None` after the end.
    to: Option<SyncSender<Writes>>,
}

impl Apart {
    pub(crate) fn start(audit: &Audit) -> std::io::Result<Self> {
        let (to, writes) = sync_channel(WAITING_MAX);
        let outbox = Outbox { writes: Vec::new(), to: Some(to) };
        let audit = audit.clone();
        let thread = thread::Builder::new().name("audit".to_owned());
        let judging = thread.spawn(move || judge(&audit, &writes))?;
        Ok(Self { outbox: Arc::new(Mutex::new(outbox)), judging })
    }

    /// What to hand to the store.
    pub(crate) fn observer(&self) -> Observer {
        let outbox = Arc::clone(&self.outbox);
        Box::new(move |entry| {
            let mut outbox = locked(&outbox);
            outbox.writes.push(Arc::clone(entry));
            if outbox.writes.len() == HANDFUL {
                outbox.send();
            }
        })
    }

    /// Waits until all that was written is judged. What is written later is not.
    pub(crate) fn end(self) {
        let mut outbox = locked(&self.outbox);
        outbox.send();
        outbox.to = None;
        drop(outbox);
        if let Err(panicked) = self.judging.join() {
            panic::resume_unwind(panicked);
        }
    }
}

impl Outbox {
    fn send(&mut self) {
        let writes = mem::take(&mut self.writes);
        // The other side ends before this one only in a panic, of which `end` tells.
        let _ = self.to.as_ref().map(|to| to.send(writes));
    }
}

fn judge(audit: &Audit, handfuls: &Receiver<Writes>) {
    for write in handfuls.iter().flatten() {
        audit.observe(&write);
    }
}

fn locked(outbox: &Mutex<Outbox>) -> MutexGuard<'_, Outbox> {
    outbox.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use schedlab_emulator::{
        Emulator, Options,
        clock::Clock,
        store::{Key, Op, Resource, Write},
    };
    use schedlab_json::json;
    use schedlab_scheduler_core::audit::Rules;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_judged_apart_is_what_is_judged_at_once() {
        let (at_once, later) =
            (Audit::new(Rules::kube(), "scheduler"), Audit::new(Rules::kube(), "scheduler"));
        let apart = Apart::start(&later).expect("a thread");
        let emulator =
            Emulator::start(Options::at(Clock::starting_at(jiff::Timestamp::UNIX_EPOCH)));
        emulator.on_write(at_once.observer());
        emulator.on_write(apart.observer());
        // More than one handful.
        let pods = Resource::new("", "pods");
        for number in 0..HANDFUL {
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
        apart.end();
        assert!(!at_once.breaches().is_empty());
        assert_eq!(later.breaches(), at_once.breaches());
    }
}
