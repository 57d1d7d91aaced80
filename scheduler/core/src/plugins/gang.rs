//! Gangs: enough members must be there before any is looked at, one that wants to be tried once
//! is tried once, and when some of those that are placed together, or the gang whose surplus they
//! are, must wait for room, all wait. And who takes the room of nodes.

use crate::{
    decision::Reason,
    framework::{Permission, Permit, PreEnqueue, Reserve},
    model::{NodeId, PodGroupId, PodId},
    session::{Fits, Session},
};

/// All or none.
#[derive(Debug)]
pub(super) struct Gang;

impl PreEnqueue for Gang {
    fn pre_enqueue(&self, session: &Session<'_>, group: PodGroupId) -> Result<(), Reason> {
        let of = session.group(group);
        if of.left_alone {
            return Err(Reason::LeftAlone);
        }
        session.members(group).ready(of).map_err(Reason::NotReady)
    }
}

impl Permit for Gang {
    fn permit(&self, session: &Session<'_>, pods: &[PodId]) -> Permission {
        let waits = |pod: &PodId| session.state(*pod).is_promised();
        let groups = pods.iter().filter_map(|pod| session.pod(*pod).group);
        let gang_waits =
            groups.take(1).any(|id| session.members(id).minimum_waits(session.group(id)));
        if gang_waits || pods.iter().any(waits) { Permission::WaitTogether } else { Permission::Go }
    }
}

/// Takes idle room, or promises what is being released.
#[derive(Debug)]
pub(super) struct NodeRoom;

impl Reserve for NodeRoom {
    fn reserve(&self, session: &mut Session<'_>, pod: PodId, node: NodeId, fits: Fits) {
        match fits {
            Fits::Now => session.place(pod, node),
            Fits::Later => session.promise(pod, node),
        }
    }
}
