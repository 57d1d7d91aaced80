//! Open connections of a server: which of them are idle, and for how long. As in kube-apiserver, the
//! first request must arrive within 32 seconds, and a connection without requests is closed after
//! 90. Beyond a number of idle connections, the one that is idle the longest is closed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The maximum time from the connection to its first request, handshake included.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(32);
/// The maximum time without a request after the first one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The maximum number of idle connections.
const IDLE_CONNECTIONS_MAX: usize = 256;

/// The registry of a server's open connections. Clones share the registry.
#[derive(Clone, Default)]
pub(super) struct Connections(Arc<Mutex<ConnectionRegistry>>);

#[derive(Default)]
struct ConnectionRegistry {
    open: BTreeMap<u64, ConnectionState>,
    opened: u64,
}

struct ConnectionState {
    requests: usize,
    /// The time at which the connection was opened, or at which its last request ended.
    idle_since: Instant,
    has_served: bool,
    evicted: Arc<Notify>,
}

/// One open connection.
pub(super) struct Connection {
    all: Connections,
    id: u64,
    evicted: Arc<Notify>,
}

/// A request in progress: it is being handled, or its response is being sent. Dropping this value
/// ends it.
pub(super) struct ActiveRequest {
    all: Connections,
    id: u64,
}

impl Connections {
    /// Registers a new connection, which is idle.
    pub(super) fn register_connection(&self) -> Connection {
        let mut registry = self.lock_registry();
        registry.opened += 1;
        let (id, evicted) = (registry.opened, Arc::new(Notify::new()));
        let state = ConnectionState {
            requests: 0,
            idle_since: Instant::now(),
            has_served: false,
            evicted: Arc::clone(&evicted),
        };
        registry.open.insert(id, state);
        registry.evict_surplus();
        Connection { all: self.clone(), id, evicted }
    }

    fn lock_registry(&self) -> MutexGuard<'_, ConnectionRegistry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionRegistry {
    /// Closes the connection that is idle the longest if too many are idle.
    fn evict_surplus(&mut self) {
        let idle = self.open.iter().filter(|(_, state)| state.requests == 0);
        if idle.clone().count() <= IDLE_CONNECTIONS_MAX {
            return;
        }
        let oldest = idle.min_by_key(|(id, state)| (state.idle_since, **id)).map(|(id, _)| *id);
        if let Some(state) = oldest.and_then(|id| self.open.remove(&id)) {
            state.evicted.notify_one();
        }
    }
}

impl Connection {
    /// Marks the connection as active until the returned value is dropped.
    pub(super) fn begin_request(&self) -> ActiveRequest {
        if let Some(state) = self.all.lock_registry().open.get_mut(&self.id) {
            state.requests += 1;
            state.has_served = true;
        }
        ActiveRequest { all: self.all.clone(), id: self.id }
    }

    /// Waits until the connection must be closed, because it is idle for too long or was evicted.
    pub(super) async fn wait_until_expired(&self) {
        while let Some(deadline) = self.next_check() {
            tokio::select! {
                () = self.evicted.notified() => return,
                () = sleep_until(deadline) => {}
            }
        }
    }

    /// The time of the next check whether the connection is idle for too long; `None` if it must be
    /// closed now.
    fn next_check(&self) -> Option<Instant> {
        let registry = self.all.lock_registry();
        let state = registry.open.get(&self.id)?;
        let limit = if state.has_served { IDLE_TIMEOUT } else { FIRST_REQUEST_TIMEOUT };
        let now = Instant::now();
        if state.requests > 0 {
            return Some(now + limit);
        }
        Some(state.idle_since + limit).filter(|deadline| *deadline > now)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.lock_registry().open.remove(&self.id);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if let Some(state) = self.all.lock_registry().open.get_mut(&self.id) {
            state.requests -= 1;
            state.idle_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_expires_and_an_active_one_does_not() {
        let began = Instant::now();
        let connection = Connections::default().register_connection();
        connection.wait_until_expired().await;
        assert_eq!(began.elapsed(), FIRST_REQUEST_TIMEOUT);

        let began = Instant::now();
        let connection = Connections::default().register_connection();
        let request = connection.begin_request();
        let hour = Duration::from_hours(1);
        assert!(tokio::time::timeout(hour, connection.wait_until_expired()).await.is_err());
        drop(request);
        connection.wait_until_expired().await;
        assert_eq!(began.elapsed(), hour + IDLE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_idle_connections_expire_the_oldest() {
        let all = Connections::default();
        let active = all.register_connection();
        let request = active.begin_request();
        let oldest = all.register_connection();
        tokio::time::advance(Duration::from_secs(1)).await;
        let others: Vec<Connection> =
            (0..IDLE_CONNECTIONS_MAX).map(|_| all.register_connection()).collect();
        let began = Instant::now();
        oldest.wait_until_expired().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(others.iter().all(|other| other.next_check().is_some()));
        assert!(active.next_check().is_some());
        drop(request);
    }
}
