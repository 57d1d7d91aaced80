//! NodePorts: each host port is used at most once per node.

use crate::{
    framework::{ExclusionDomain, Filter, Fit, NodeFilter, ResultInputs, Session},
    model::{HostPort, PodId},
    reason::FitError,
};

/// Rejects nodes on which another pod uses a requested host port.
#[derive(Debug)]
pub(super) struct NodePorts;

impl Filter for NodePorts {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::NodeCapacity
    }

    fn rejects_for_other_pods(&self) -> bool {
        true
    }

    fn exclusion_domains<'a>(
        &self,
        session: &'a Session<'_>,
        a: PodId,
        b: PodId,
    ) -> Vec<ExclusionDomain<'a>> {
        let [a, b] = [a, b].map(|pod| &session.shape_of(pod).host_ports);
        let collide = a.iter().any(|a| b.iter().any(|b| ports_collide(a, b)));
        if collide { vec![ExclusionDomain::Node] } else { Vec::new() }
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let requested = &session.shape_of(pod).host_ports;
        if requested.is_empty() {
            return None;
        }
        let port = (requested.len() == 1).then(|| requested[0].port);
        let collides = move |other: &PodId| {
            let mut used = session.shape_of(*other).host_ports.iter();
            *other != pod && used.any(|used| requested.iter().any(|port| ports_collide(used, port)))
        };
        Some(Box::new(move |node| {
            let info = session.node_info(node);
            if info.staying.iter().chain(&info.stuck).any(collides) {
                Err(FitError::HostPort { port })
            } else if info.leaving.iter().any(collides) {
                Ok(Fit::Later)
            } else {
                Ok(Fit::Now)
            }
        }))
    }
}

fn ports_collide(port: &HostPort, other: &HostPort) -> bool {
    let everywhere = |port: &HostPort| &*port.ip == "0.0.0.0";
    port.port == other.port
        && port.protocol == other.protocol
        && (port.ip == other.ip || everywhere(port) || everywhere(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_taken_for_its_protocol_on_its_address_or_on_all() {
        let port = |ip: &str, protocol: &str, port| HostPort {
            ip: ip.into(),
            protocol: protocol.into(),
            port,
        };
        let one = port("10.0.0.1", "TCP", 80);
        assert!(ports_collide(&one, &one));
        assert!(ports_collide(&one, &port("0.0.0.0", "TCP", 80)));
        assert!(ports_collide(&port("0.0.0.0", "TCP", 80), &one));
        assert!(!ports_collide(&one, &port("10.0.0.2", "TCP", 80)));
        assert!(!ports_collide(&one, &port("10.0.0.1", "UDP", 80)));
        assert!(!ports_collide(&one, &port("10.0.0.1", "TCP", 81)));
        assert!(!ports_collide(&one, &port("0.0.0.0", "UDP", 80)));
    }
}
