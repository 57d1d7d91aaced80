//! Which daemon docker's own command line speaks to: the one that `DOCKER_HOST` names, else that
//! of its context. Libraries that speak to a daemon themselves know nothing of contexts.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{ANSWER_MAX, Tool};

/// Names a daemon, before any context does.
pub const DOCKER_HOST: &str = "DOCKER_HOST";
/// Names a context, before the one that is chosen.
const DOCKER_CONTEXT: &str = "DOCKER_CONTEXT";

/// What docker says of the context that counts.
const QUESTION: [&str; 4] =
    ["context", "inspect", "--format", "{{.Name}} {{.Endpoints.docker.Host}}"];

/// Where a daemon listens, and who says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// As `unix:///var/run/docker.sock`.
    pub host: String,
    /// The context that says so; nobody where `DOCKER_HOST` does.
    pub context: Option<String>,
}

/// Whether the user has named a daemon.
pub fn is_named() -> bool {
    std::env::var_os(DOCKER_HOST).is_some_and(|host| !host.is_empty())
}

impl Endpoint {
    /// What docker says of itself; nothing where it has no contexts.
    pub async fn of_docker() -> Option<Self> {
        let said = Tool::Docker.ask(&Tool::Docker.program(), &QUESTION, ANSWER_MAX).await.ok()?;
        Self::told(&said)
    }

    /// The same, at once: docker asks no daemon for it.
    pub fn now() -> Option<Self> {
        Self::told(&Tool::Docker.run(&QUESTION).ok()?)
    }

    fn told(said: &str) -> Option<Self> {
        let (context, host) = said.trim().rsplit_once(' ')?;
        let context = (!is_named()).then(|| context.to_owned());
        Some(Self { host: host.to_owned(), context })
    }

    /// What has docker speak to it, whatever is said in our own environment: a variable, and one
    /// that must be empty.
    pub(super) fn variables(&self) -> [(&'static str, &str); 2] {
        match &self.context {
            Some(context) => [(DOCKER_CONTEXT, context), (DOCKER_HOST, "")],
            None => [(DOCKER_HOST, &self.host), (DOCKER_CONTEXT, "")],
        }
    }

    /// Whether its containers' ports are open on this machine: at a socket or a loopback address.
    pub fn is_here(&self) -> bool {
        match self.host.split_once("://") {
            Some(("unix", _)) => true,
            Some(("tcp" | "http" | "https", address)) => is_loopback(address),
            Some(_) | None => false,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.context {
            Some(context) => write!(f, "context {context} at {}", self.host),
            None => write!(f, "{DOCKER_HOST}={}", self.host),
        }
    }
}

/// Of a host, with or without a port and a path.
fn is_loopback(address: &str) -> bool {
    let address = address.split('/').next().unwrap_or_default();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_here_at_a_socket_or_a_loopback_address() {
        for (host, is_here) in [
            ("unix:///var/run/docker.sock", true),
            ("unix:///home/me/.colima/default/docker.sock", true),
            ("tcp://localhost:2375", true),
            ("tcp://127.0.0.1:2375", true),
            ("tcp://[::1]:2375/", true),
            ("tcp://10.0.0.7:2376", false),
            ("tcp://docker:2375", false),
            ("ssh://me@far", false),
            ("npipe:////./pipe/docker_engine", false),
            ("", false),
        ] {
            let endpoint = Endpoint { host: host.to_owned(), context: None };
            assert_eq!(endpoint.is_here(), is_here, "{host}");
        }
    }
}
