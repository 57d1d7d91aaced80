//! Fills the placeholders in the texts of a target for one instance of its scheduler.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Readiness;

/// What a placeholder for a port starts with; its name and `}` follow.
const PORT_START: &str = "{port:";

/// The ports that are given to programs. They are below those that the kernel gives to clients.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The values of all placeholders.
pub(super) struct PlaceholderValues {
    values: Vec<(&'static str, String)>,
    /// Free ports by the names in their placeholders.
    ports: Mutex<BTreeMap<String, u16>>,
}

impl PlaceholderValues {
    pub(super) fn new(values: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        Self { values: values.into_iter().collect(), ports: Mutex::default() }
    }

    /// A text of the target, with its placeholders replaced.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (placeholder, value) in &self.values {
            filled = filled.replace(placeholder, value);
        }
        while let Some((before, rest)) = filled.split_once(PORT_START)
            && let Some((name, after)) = rest.split_once('}')
        {
            filled = format!("{before}{}{after}", self.port(name));
        }
        filled
    }

    /// A readiness check of the target, with its placeholders replaced.
    pub(super) fn fill_readiness(&self, ready: &Readiness) -> Readiness {
        match ready {
            Readiness::Http(url) => Readiness::Http(self.fill(url)),
            Readiness::Log(text) => Readiness::Log(self.fill(text)),
            Readiness::Object(path) => Readiness::Object(self.fill(path)),
        }
    }

    fn port(&self, name: &str) -> u16 {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        *ports.entry(name.to_owned()).or_insert_with(free_port)
    }
}

/// A port on which nothing listens, and which no other instance of this process has got. Two runs
/// on one machine begin at different ports.
fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    let first = u16::try_from(std::process::id() % u32::from(count / 100)).unwrap_or(0) * 100;
    for _ in PORTS {
        let number = TAKEN.fetch_add(1, Ordering::Relaxed).wrapping_add(first);
        let port = PORTS.start + number % count;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
    PORTS.start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_one_number_wherever_it_is_named() {
        let values = PlaceholderValues::new([("{dir}", "/tmp/x".to_owned())]);
        let text = values.fill("{dir} {port:a} {port:b} {port:a} {other}");
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!((words[0], words[4]), ("/tmp/x", "{other}"));
        assert!(words[1].parse::<u16>().is_ok(), "{text}");
        assert!(words[1] == words[3] && words[1] != words[2], "{text}");
        assert_eq!(
            values.fill_readiness(&Readiness::Http("localhost:{port:a}/healthz".to_owned())),
            Readiness::Http(format!("localhost:{}/healthz", words[1]))
        );
    }
}
