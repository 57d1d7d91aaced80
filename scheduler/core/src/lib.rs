//! The decisions of the scheduler as a pure function: [`schedule`] takes a [`Snapshot`] of the
//! cluster and a [`Profile`] and returns a [`Plan`]. No IO, no clock, no hash order: equal
//! snapshots give equal plans. A pod that cannot run is a result with a [`Reason`], never an error.
//! The crate `schedlab-scheduler` translates Kubernetes objects and applies plans.
//!
//! ```
//! use schedlab_scheduler_core::{
//!     Decision, Profile, Snapshot,
//!     model::{Node, NodeId, Pod, PodGroup, PodGroupId, PodId, PodShape, Queue, QueueId, ShapeId},
//!     resources::Resources,
//!     schedule,
//! };
//!
//! // A node with 8 GPUs, and a gang of two pods that request 4 GPUs each.
//! let allocatable = Resources { gpu_milli: 8000, pods: 110, ..Resources::default() };
//! let requests = Resources { gpu_milli: 4000, pods: 1, ..Resources::default() };
//! let pod = |name| Pod::pending("default", name, PodGroupId(0), ShapeId(0));
//! let snapshot = Snapshot {
//!     nodes: vec![Node { name: "n1".into(), allocatable, ready: true, ..Node::default() }],
//!     queues: vec![Queue::without_bounds("research")],
//!     shapes: vec![PodShape { requests, ..PodShape::default() }],
//!     pod_groups: vec![PodGroup::gang("default", "train", QueueId(0), 2)],
//!     pods: vec![pod("train-0"), pod("train-1")],
//!     ..Snapshot::default()
//! };
//!
//! let plan = schedule(&snapshot, &Profile::kai());
//! let bind = |pod| Decision::Bind { pod: PodId(pod), node: NodeId(0) };
//! assert_eq!(plan.decisions, [bind(0), bind(1)]);
//! assert!(plan.waiting.is_empty());
//! ```

mod actions;
mod cycle;
pub mod devices;
pub mod framework;
pub mod inspect;
mod next_snapshot;
pub mod plan;
pub mod plugins;
pub mod profile;
pub mod queues;
pub mod reason;
mod solver;

pub use schedlab_model as model;
pub use schedlab_model::resources;

pub use cycle::{
    CycleObserver, schedule, schedule_kept, schedule_observed, schedule_with_memory,
    schedule_with_pipelined,
};
pub use framework::Profile;
pub use model::Snapshot;
pub use plan::{Decision, EvictionCause, Plan, QueueUsage};
pub use reason::Reason;
pub use solver::SearchMemory;
