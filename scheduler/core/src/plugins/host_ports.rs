//! NodePorts: a host port is taken once on a node.

use crate::{
    decision::Misfit,
    framework::{DependsOn, Filter, NodeFilter},
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

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let wanted = &session.shape_of(pod).host_ports;
        if wanted.is_empty() {
            return None;
        }
        let takes_one = move |other: &PodId| {
            let mut taken = session.shape_of(*other).host_ports.iter();
            *other != pod && taken.any(|taken| wanted.iter().any(|port| collide(taken, port)))
        };
        Some(Box::new(move |node| {
            let room = session.room(node);
            if room.staying.iter().chain(&room.stuck).any(takes_one) {
                Err(Misfit::HostPort)
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
