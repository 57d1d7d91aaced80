//! The scheduling plugins, one per file, and the two built-in profiles with their plugin lists:
//! [`Profile::kai`] and [`Profile::kube`].

mod default_preemption;
mod device_allocation;
mod dynamic_resources;
mod fragmentation;
mod gang;
mod gang_preemption;
mod gang_scheduling;
mod host_ports;
mod image_locality;
mod inter_pod_affinity;
mod mig;
mod multi_node_devices;
mod node_affinity;
mod node_resources;
mod node_roles;
mod node_status;
mod numa;
mod placement;
mod pod_counts;
mod pod_group_pods_count;
mod queue_limits;
mod queue_sort;
mod reservation_pods;
mod resource_claims;
mod taint_toleration;
mod topology_domains;
mod topology_spread;
mod volumes;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use device_allocation::{DeviceAllocation, SuitableDevices};
pub(crate) use dynamic_resources::claim_to_deallocate;
pub use volumes::{VolumeChoice, assign_volumes};

use crate::{
    framework::{
        Filter, GroupScheduling, PipelinePolicy, PlacementScoring, Plugins, PreFilter, Profile,
        Ranking, Score, Scoring,
    },
    profile::{Action, JobOrderRule, Placement, ResolveMethod, TaskOrderRule, VictimSearch},
};

/// One point of a KAI score, in the integer unit of this crate (billionths of a point).
const SCORE_POINT: i64 = 1_000_000_000;

impl Plugins {
    /// The default plugins of KAI.
    pub fn kai() -> Self {
        Self::kai_with_active(|_| true)
    }

    /// The plugins of KAI, limited to those whose KAI name is active. Job order, gangs and node
    /// resources are always active.
    pub fn kai_with_active(is_active: impl Fn(&str) -> bool) -> Self {
        let scores: Vec<(&str, Arc<dyn Score>, i64)> = vec![
            ("nominatednode", Arc::new(placement::NominatedNode), 10_000_000 * SCORE_POINT),
            ("podaffinity", Arc::new(inter_pod_affinity::KaiPodAffinity), 1_000_000 * SCORE_POINT),
            ("topology", Arc::new(topology_domains::TopologyDomains), 100_000 * SCORE_POINT),
            ("gpusharingorder", Arc::new(placement::SharedDevicesFirst), 10_000 * SCORE_POINT),
            ("nodeavailability", Arc::new(placement::NodeAvailability), 1_000 * SCORE_POINT),
            ("numa", Arc::new(numa::Numa), 100),
            ("resourcetype", Arc::new(placement::NodeResourceType), 10 * SCORE_POINT),
            ("nodeplacement", Arc::new(placement::ResourcePlacement), 1),
        ];
        let scores = scores.into_iter().filter(|(name, ..)| is_active(name));
        // Filters that no node can satisfy come first, so that they are the reason even if nodes
        // lack capacity.
        let mut filter: Vec<Arc<dyn Filter>> = Vec::new();
        if is_active("dynamicresources") {
            filter.push(Arc::new(resource_claims::ResourceClaims));
            filter.push(Arc::new(resource_claims::ClaimedGpus));
            filter.push(Arc::new(SuitableDevices));
        }
        if is_active("predicates") {
            filter.push(Arc::new(volumes::VolumeClaims));
            filter.push(Arc::new(node_status::NodeReady));
            filter.extend(default_filters(node_resources::NodeResourcesFit::WithClaims));
            filter.push(Arc::new(mig::MigNodes));
            filter.push(Arc::new(mig::LegacyMig));
        } else {
            filter.push(Arc::new(node_resources::NodeResourcesFit::WithClaims));
        }
        if is_active("dynamicresources") {
            filter.push(Arc::new(multi_node_devices::MultiNodeDevices));
            filter.push(Arc::new(DeviceAllocation::WithReleasedDevices));
        }
        if is_active("numa") {
            filter.push(Arc::new(numa::Numa));
        }
        let mut pre_filter: Vec<Arc<dyn PreFilter>> = Vec::new();
        if is_active("proportion") {
            pre_filter.push(Arc::new(queue_limits::QueueLimits));
            filter.push(Arc::new(queue_limits::QueueLimits));
        }
        Self {
            pre_enqueue: vec![Arc::new(queue_limits::UsableQueue), Arc::new(gang::Gang)],
            queue_sort: Arc::new(queue_sort::QueueTree),
            pre_filter,
            filter,
            post_filter: Vec::new(),
            score: with_weights(scores.map(|(_, plugin, weight)| (plugin, weight))),
            ranking: Ranking::Bands,
            reserve: vec![Arc::new(gang::NodeRoom)],
            permit: vec![Arc::new(gang::Gang)],
            pipeline_policy: PipelinePolicy::AnyNode,
            group_scheduling: GroupScheduling::NextPods,
        }
    }

    /// Adds the filter for node roles: [`crate::model::Node::is_gpu_worker`].
    pub fn enforce_node_roles(&mut self) {
        self.filter.push(Arc::new(node_roles::NodeRoles));
    }

    /// Adds the filter that keeps a pod slot for the reservation pod of each shared device.
    pub fn count_reservation_pods(&mut self) {
        self.filter.push(Arc::new(reservation_pods::ReservationPods));
    }

    /// The default plugins of kube-scheduler, with their default weights.
    pub fn kube() -> Self {
        let scores: Vec<(Arc<dyn Score>, i64)> = vec![
            (Arc::new(taint_toleration::TaintToleration), 3),
            (Arc::new(node_affinity::NodeAffinity), 2),
            (Arc::new(node_resources::LeastAllocated), 1),
            (Arc::new(topology_spread::PodTopologySpread), 2),
            (Arc::new(inter_pod_affinity::InterPodAffinity), 2),
            (Arc::new(dynamic_resources::DynamicResources), 2),
            (Arc::new(node_resources::BalancedAllocation), 1),
            (Arc::new(image_locality::ImageLocality), 1),
        ];
        let mut filter: Vec<Arc<dyn Filter>> =
            vec![Arc::new(volumes::VolumeClaims), Arc::new(dynamic_resources::ClaimUsers)];
        filter.extend(default_filters(node_resources::NodeResourcesFit::WithoutClaims));
        filter.push(Arc::new(dynamic_resources::DynamicResources));
        filter.push(Arc::new(multi_node_devices::MultiNodeDevices));
        filter.push(Arc::new(SuitableDevices));
        filter.push(Arc::new(DeviceAllocation::OfFreeDevices));
        Self {
            pre_enqueue: vec![Arc::new(gang_scheduling::GangScheduling)],
            queue_sort: Arc::new(queue_sort::PrioritySort),
            pre_filter: vec![Arc::new(gang_scheduling::GangScheduling)],
            filter,
            // Gangs first. Of the others the message of the second plugin is printed first.
            post_filter: vec![
                Arc::new(gang_preemption::GangPreemption),
                Arc::new(default_preemption::DefaultPreemption),
                Arc::new(dynamic_resources::DynamicResources),
            ],
            score: with_weights(scores),
            ranking: Ranking::Sum,
            reserve: vec![Arc::new(gang::NodeRoom)],
            permit: vec![Arc::new(gang_scheduling::GangScheduling)],
            pipeline_policy: PipelinePolicy::NominatedNode,
            group_scheduling: GroupScheduling::Cycle {
                score: vec![
                    PlacementScoring { plugin: Arc::new(node_resources::MostAllocated), weight: 1 },
                    PlacementScoring {
                        plugin: Arc::new(pod_group_pods_count::PodGroupPodsCount),
                        weight: 1,
                    },
                ],
            },
        }
    }
}

impl Profile {
    /// The default profile of KAI.
    pub fn kai() -> Self {
        Self {
            actions: vec![
                Action::Allocate,
                Action::Consolidate,
                Action::Reclaim,
                Action::Preempt,
                Action::StaleGangEviction,
            ],
            plugins: Plugins::kai(),
            job_order: JobOrderRule::ALL.to_vec(),
            task_order: TaskOrderRule::ALL.to_vec(),
            gpu_placement: Placement::BinPack,
            cpu_placement: Placement::BinPack,
            device_placement: Placement::BinPack,
            uses_fair_shares: true,
            k_value_milli: 1000,
            staleness_grace: Duration::from_mins(1),
            release_timeout: Some(Duration::from_mins(2)),
            reclaim_saturation_milli: 1000,
            allow_consolidating_reclaim: true,
            consolidation_victims_max: 16,
            queue_depth: BTreeMap::new(),
            protects_min_runtime: true,
            preempt_min_runtime: Duration::ZERO,
            reclaim_min_runtime: Duration::ZERO,
            reclaim_resolve_method: ResolveMethod::Lca,
            preemptions_max: None,
            victim_search: VictimSearch::Unlimited,
            priority_difference_min: 1,
        }
    }

    /// The default profile of kube-scheduler.
    pub fn kube() -> Self {
        Self {
            actions: vec![Action::Allocate],
            plugins: Plugins::kube(),
            // A preemptor waits for its victims however long they take.
            release_timeout: None,
            ..Self::kai()
        }
    }
}

/// The filters of kube-scheduler's default profile, in its order: the first filter that rejects a
/// node gives the reason. kube-scheduler rejects nodes that are not ready by their taints alone;
/// KAI also checks the condition.
fn default_filters(fit: node_resources::NodeResourcesFit) -> Vec<Arc<dyn Filter>> {
    vec![
        Arc::new(node_status::NodeUnschedulable),
        Arc::new(taint_toleration::TaintToleration),
        Arc::new(node_affinity::NodeAffinity),
        Arc::new(host_ports::NodePorts),
        Arc::new(fit),
        Arc::new(volumes::NodeVolumeLimits),
        Arc::new(volumes::VolumeNodes),
        Arc::new(volumes::VolumeBinding),
        Arc::new(topology_spread::PodTopologySpread),
        Arc::new(inter_pod_affinity::InterPodAffinity),
    ]
}

fn with_weights(scores: impl IntoIterator<Item = (Arc<dyn Score>, i64)>) -> Vec<Scoring> {
    scores.into_iter().map(|(plugin, weight)| Scoring { plugin, weight }).collect()
}
