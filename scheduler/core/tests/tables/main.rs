//! Table tests of whole scheduling cycles, by area.

mod competing_jobs;
mod consolidate;
mod convergence;
mod device_allocation;
mod exclusion;
mod foreign_nodes;
mod gangs;
mod gpu_fractions;
mod infeasible_heads;
mod job_order;
mod kube;
mod large_borrowers;
mod mixed_clusters;
mod multi_node_devices;
mod placement;
mod preempt;
mod properties;
mod random_clusters;
mod reclaim;
mod requeue;
mod scores;
mod stale_gangs;
mod suggestions_queue_order;
mod thrashing;
mod topology;
mod volumes;
