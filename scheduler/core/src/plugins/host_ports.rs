//! NodePorts: a host port is taken once on a node.

use crate::{
    decision::Misfit,
    framework::{Apart, DependsOn, Filter, NodeFilter},
    model::{HostPort, PodId},
    session::{Fits, Session},
};

/// No two pods with the same port on one node.
#[derive(Debug)]
pub(super) struct NodePorts;

impl Filter for NodePorts {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn keeps_apart(&self) -> bool {
        true
    }

    fn parts<'a>(&self, session: &'a Session<'_>, (a, b): (PodId, PodId)) -> Vec<Apart<'a>> {
        let [a, b] = [a, b].map(|pod| &session.shape_of(pod).host_ports);
        let collide = a.iter().any(|a| b.iter().any(|b| collide(a, b)));
        if collide { vec![Apart::Node] } else { Vec::new() }
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let wanted = &session.shape_of(pod).host_ports;
        if wanted.is_empty() {
            return None;
        }
        let port = (wanted.len() == 1).then(|| wanted[0].port);
        let takes_one = move |other: &PodId| {
            let mut taken = session.shape_of(*other).host_ports.iter();
            *other != pod && taken.any(|taken| wanted.iter().any(|port| collide(taken, port)))
        };
        Some(Box::new(move |node| {
            let room = session.room(node);
            if room.staying.iter().chain(&room.stuck).any(takes_one) {
                Err(Misfit::HostPort { port })
            } else if room.leaving.iter().any(takes_one) {
                Ok(Fits::Later)
            } else {
                Ok(Fits::Now)
            }
        }))
    }
}

fn collide(a: &HostPort, b: &HostPort) -> bool {
    let everywhere = |port: &HostPort| &*port.ip == "0.0.0.0";
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || everywhere(a) || everywhere(b))
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
        assert!(collide(&one, &one));
        assert!(collide(&one, &port("0.0.0.0", "TCP", 80)));
        assert!(collide(&port("0.0.0.0", "TCP", 80), &one));
        assert!(!collide(&one, &port("10.0.0.2", "TCP", 80)));
        assert!(!collide(&one, &port("10.0.0.1", "UDP", 80)));
        assert!(!collide(&one, &port("10.0.0.1", "TCP", 81)));
        assert!(!collide(&one, &port("0.0.0.0", "UDP", 80)));
    }
}
