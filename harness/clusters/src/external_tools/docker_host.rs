//! The daemon that docker's own command line uses: that of `DOCKER_HOST`, else that of docker's
//! context. Libraries that connect to a daemon themselves ignore contexts.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ExternalTool, RESPONSE_TIMEOUT};

/// Environment variable with the address of docker's daemon; takes precedence over docker contexts.
pub const DOCKER_HOST_ENV: &str = "DOCKER_HOST";
/// Environment variable with the name of a docker context; takes precedence over the current
/// context.
const DOCKER_CONTEXT_ENV: &str = "DOCKER_CONTEXT";

/// Arguments with which docker prints its current context and that context's daemon.
const CONTEXT_INSPECT_COMMAND: [&str; 4] =
    ["context", "inspect", "--format", "{{.Name}} {{.Endpoints.docker.Host}}"];

/// The address of a docker daemon, and where the address is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DockerEndpoint {
    /// The address, for example `unix:///var/run/docker.sock`.
    pub host: String,
    /// The docker context that configures the address; `None` if `DOCKER_HOST` does.
    pub context: Option<String>,
}

/// Whether the environment variable `DOCKER_HOST` is set.
pub(crate) fn docker_host_is_set() -> bool {
    std::env::var_os(DOCKER_HOST_ENV).is_some_and(|host| !host.is_empty())
}

impl DockerEndpoint {
    /// The endpoint that docker's current context names; `None` for docker versions without
    /// contexts.
    pub(crate) async fn from_docker_context() -> Option<Self> {
        let output = ExternalTool::Docker
            .run_with_timeout(
                &ExternalTool::Docker.program_to_run(),
                &CONTEXT_INSPECT_COMMAND,
                RESPONSE_TIMEOUT,
            )
            .await
            .ok()?;
        Self::parse_inspect_output(&output)
    }

    /// Blocking version of [`Self::from_docker_context`]; docker does not contact the daemon for
    /// it.
    pub(crate) fn from_docker_context_blocking() -> Option<Self> {
        Self::parse_inspect_output(&ExternalTool::Docker.run(&CONTEXT_INSPECT_COMMAND).ok()?)
    }

    fn parse_inspect_output(output: &str) -> Option<Self> {
        let (context, host) = output.trim().rsplit_once(' ')?;
        let context = (!docker_host_is_set()).then(|| context.to_owned());
        Some(Self { host: host.to_owned(), context })
    }

    /// Environment variables that make docker use this endpoint whatever our own environment says:
    /// one of `DOCKER_HOST` and `DOCKER_CONTEXT` is set, the other is emptied.
    pub(super) fn docker_client_env(&self) -> [(&'static str, &str); 2] {
        match &self.context {
            Some(context) => [(DOCKER_CONTEXT_ENV, context), (DOCKER_HOST_ENV, "")],
            None => [(DOCKER_HOST_ENV, &self.host), (DOCKER_CONTEXT_ENV, "")],
        }
    }

    /// Whether ports of the daemon's containers are reachable on this machine: the address is a
    /// unix socket or a loopback address.
    #[cfg(any(feature = "container", test))]
    pub(crate) fn is_on_this_machine(&self) -> bool {
        match self.host.split_once("://") {
            Some(("unix", _)) => true,
            Some(("tcp" | "http" | "https", address)) => is_loopback_address(address),
            Some(_) | None => false,
        }
    }
}

impl fmt::Display for DockerEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.context {
            Some(context) => write!(f, "context {context} at {}", self.host),
            None => write!(f, "{DOCKER_HOST_ENV}={}", self.host),
        }
    }
}

/// Whether an address is a loopback address. It may contain a port and a path.
#[cfg(any(feature = "container", test))]
fn is_loopback_address(address: &str) -> bool {
    let address = address.split('/').next().unwrap_or_default();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_and_loopback_addresses_are_local() {
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
            let endpoint = DockerEndpoint { host: host.to_owned(), context: None };
            assert_eq!(endpoint.is_on_this_machine(), is_here, "{host}");
        }
    }
}
