//! Applies a file to the configuration of a scheduler and to the profile of its core. Profile
//! `kube` supports only some keys; the others are rejected there.

use schedlab_api::labels;
use schedlab_scheduler_core::{
    Profile,
    profile::{Action, Placement},
};

use super::{
    ConfigFile, DefaultPrioritiesSetting, DurationSetting, FileError, MinRuntime,
    PlacementStrategy, PoolSetting, PreemptionSetting, QueueDepth, Strategy, metric_labels,
    plugins,
};
use crate::config::{
    Binding, Config, DefaultPriorities, Flavor, GpuReservation, NodePool, arguments::to_thousandths,
};

impl ConfigFile {
    /// Applies the settings of the file to `config`.
    ///
    /// # Errors
    /// A key has no effect in the profile of `config`, or keys contradict each other.
    pub fn apply(&self, config: &mut Config) -> Result<(), FileError> {
        if config.flavor == Flavor::Kube {
            self.check_kube_support()?;
        }
        if let Some(name) = &self.scheduler_name {
            config.scheduler_name.clone_from(name);
        }
        if let Some(components) = &self.components {
            config.run_only(components.iter().copied().collect());
        }
        config.binding = self.binding.unwrap_or(config.binding);
        if let Some(setting) = &self.gpu_reservation {
            let built_in = GpuReservation::with_image(&setting.image);
            config.enable_gpu_reservation(GpuReservation {
                namespace: setting.namespace.clone().unwrap_or(built_in.namespace),
                image: built_in.image,
                service_account: setting.service_account.clone(),
                runtime_class: setting.runtime_class.clone(),
                pod_runtime_class: setting.pod_runtime_class.clone(),
            });
        }
        config.block_nvidia_visible_devices =
            self.block_nvidia_visible_devices.unwrap_or(config.block_nvidia_visible_devices);
        config.gpu_pod_runtime_class =
            self.gpu_pod_runtime_class_name.clone().or(config.gpu_pod_runtime_class.take());
        if let Some(DefaultPrioritiesSetting { name, namespace }) =
            &self.default_priorities_config_map
        {
            let (name, namespace) = (name.clone(), namespace.clone());
            config.default_priorities = Some(DefaultPriorities { namespace, name });
        }
        if let Some(PoolSetting { label, value }) = &self.node_pool {
            let label = label.as_deref().unwrap_or(labels::NODE_POOL).to_owned();
            config.node_pool = Some(NodePool { label, value: value.clone() });
        }
        if let Some(is_restricted) = self.restrict_node_scheduling {
            config.restrict_nodes(is_restricted);
        }
        config.full_hierarchy_fairness =
            self.full_hierarchy_fairness.unwrap_or(config.full_hierarchy_fairness);
        if !self.queue_label_to_metric_label.is_empty() {
            config.queue_metric_labels = metric_labels::queue_metric_labels(self);
        }
        config.period = self.period.map_or(config.period, |period| period.0);
        self.apply_usage(config)?;
        if let Some(writes) = self.writes_at_once {
            config.writes_at_once = usize::from(writes.get());
        }
        if let Some(grace) = self.preemption_policy.grace_period {
            config.set_eviction_grace(grace.0);
        }
        plugins::apply_settings(&self.plugins, config);
        self.apply_to_profile(&mut config.profile);
        plugins::apply_arguments(&self.plugins, &mut config.profile)?;
        if let Some(lines) = self.trace_decisions {
            config.enable_trace(usize::try_from(lines).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    /// Applies the settings of usage history and usage database to `config`.
    fn apply_usage(&self, config: &mut Config) -> Result<(), FileError> {
        config.usage_window = self.usage_window.map(|window| window.0).or(config.usage_window);
        config.usage_half_life = self.usage_half_life.map(|half| half.0).or(config.usage_half_life);
        if self.usage_half_life.is_some() && config.usage_window.is_none() {
            let (field, found) = ("usageHalfLife", "a value without usageWindow".to_owned());
            return Err(FileError::Value { field, found, allowed: "usageWindow to be set, too" });
        }
        if let Some(database) = &self.usage_db_config {
            config.usage_database = Some(database.to_database(|name| std::env::var(name).ok())?);
        }
        Ok(())
    }

    /// Checks that all keys are supported by profile `kube`.
    fn check_kube_support(&self) -> Result<(), FileError> {
        let wrong = |field, found: String, allowed| FileError::Value { field, found, allowed };
        let components = self.components.iter().flatten();
        if let Some(other) = Config::first_not_in_kube(components) {
            return Err(wrong("components", other, "scheduler with profile kube"));
        }
        if self.binding == Some(Binding::Requests) {
            return Err(wrong("binding", "requests".to_owned(), "direct with profile kube"));
        }
        let none = "no value with profile kube";
        match self.first_kai_only_key() {
            Some(field) => Err(wrong(field, "a value".to_owned(), none)),
            None => Ok(()),
        }
    }

    /// The first key in the file that only profile `kai` supports. The pattern lists every key, so
    /// that a new one needs a decision here.
    fn first_kai_only_key(&self) -> Option<&'static str> {
        let Self {
            scheduler_name: _,
            components: _,
            binding: _,
            node_pool: _,
            period: _,
            writes_at_once: _,
            trace_decisions: _,
            gpu_reservation: _,
            block_nvidia_visible_devices: _,
            gpu_pod_runtime_class_name: _,
            default_priorities_config_map,
            restrict_node_scheduling,
            full_hierarchy_fairness,
            queue_label_to_metric_label,
            queue_label_to_default_metric_value: _,
            usage_window,
            usage_half_life,
            usage_db_config,
            actions,
            plugins,
            placement_strategy: PlacementStrategy { gpu, cpu },
            queue_depth_per_action: QueueDepth { allocate, consolidation, reclaim, preempt },
            min_runtime: MinRuntime { preempt_min_runtime, reclaim_min_runtime },
            k_value,
            preemption_policy,
            staleness_grace_period,
            reclaim_saturation_multiplier,
            allow_consolidating_reclaim,
            max_consolidation_victims,
        } = self;
        let PreemptionSetting {
            max_preemptions_per_cycle,
            min_priority_difference,
            grace_period: _,
        } = preemption_policy;
        let depths = [allocate, consolidation, reclaim, preempt];
        let is_set = [
            ("defaultPrioritiesConfigMap", default_priorities_config_map.is_some()),
            ("restrictNodeScheduling", restrict_node_scheduling.is_some()),
            ("fullHierarchyFairness", full_hierarchy_fairness.is_some()),
            ("queueLabelToMetricLabel", !queue_label_to_metric_label.is_empty()),
            ("usageWindow", usage_window.is_some()),
            ("usageHalfLife", usage_half_life.is_some()),
            ("usageDBConfig", usage_db_config.is_some()),
            ("actions", actions.is_some()),
            ("plugins", !plugins.is_empty()),
            ("placementStrategy", gpu.is_some() || cpu.is_some()),
            ("queueDepthPerAction", depths.iter().any(|depth| depth.is_some())),
            ("minRuntime", preempt_min_runtime.is_some() || reclaim_min_runtime.is_some()),
            ("kValue", k_value.is_some()),
            ("preemptionPolicy.maxPreemptionsPerCycle", max_preemptions_per_cycle.is_some()),
            ("preemptionPolicy.minPriorityDifference", min_priority_difference.is_some()),
            ("stalenessGracePeriod", staleness_grace_period.is_some()),
            ("reclaimSaturationMultiplier", reclaim_saturation_multiplier.is_some()),
            ("allowConsolidatingReclaim", allow_consolidating_reclaim.is_some()),
            ("maxConsolidationVictims", max_consolidation_victims.is_some()),
        ];
        let first = |(key, stands): (_, bool)| stands.then_some(key);
        self.gpu_keys().into_iter().chain(is_set).find_map(first)
    }

    /// Keys about GPUs, and whether they are set.
    const fn gpu_keys(&self) -> [(&'static str, bool); 3] {
        [
            ("gpuReservation", self.gpu_reservation.is_some()),
            ("blockNvidiaVisibleDevices", self.block_nvidia_visible_devices.is_some()),
            ("gpuPodRuntimeClassName", self.gpu_pod_runtime_class_name.is_some()),
        ]
    }

    fn apply_to_profile(&self, profile: &mut Profile) {
        if let Some(actions) = &self.actions {
            profile.actions = actions.to_core_actions();
        }
        let PlacementStrategy { gpu, cpu } = self.placement_strategy;
        if let Some(gpu) = gpu.map(Strategy::to_core) {
            (profile.gpu_placement, profile.device_placement) = (gpu, gpu);
        }
        profile.cpu_placement = cpu.map_or(profile.cpu_placement, Strategy::to_core);
        let QueueDepth { allocate, consolidation, reclaim, preempt } = self.queue_depth_per_action;
        let depths = [
            (Action::Allocate, allocate),
            (Action::Consolidate, consolidation),
            (Action::Reclaim, reclaim),
            (Action::Preempt, preempt),
        ];
        profile.queue_depth.extend(depths.into_iter().filter_map(|(at, depth)| Some((at, depth?))));
        let MinRuntime { preempt_min_runtime, reclaim_min_runtime } = self.min_runtime;
        let or = |time: Option<DurationSetting>, otherwise| time.map_or(otherwise, |time| time.0);
        profile.preempt_min_runtime = or(preempt_min_runtime, profile.preempt_min_runtime);
        profile.reclaim_min_runtime = or(reclaim_min_runtime, profile.reclaim_min_runtime);
        let PreemptionSetting { max_preemptions_per_cycle, min_priority_difference, .. } =
            self.preemption_policy;
        profile.preemptions_max = max_preemptions_per_cycle.or(profile.preemptions_max);
        profile.priority_difference_min =
            min_priority_difference.unwrap_or(profile.priority_difference_min);
        profile.staleness_grace =
            self.staleness_grace_period.map_or(profile.staleness_grace, |grace| grace.0);
        profile.k_value_milli = self.k_value.map_or(profile.k_value_milli, to_thousandths);
        let saturation = self.reclaim_saturation_multiplier;
        profile.reclaim_saturation_milli =
            saturation.map_or(profile.reclaim_saturation_milli, to_thousandths);
        profile.consolidation_victims_max =
            self.max_consolidation_victims.unwrap_or(profile.consolidation_victims_max);
        profile.allow_consolidating_reclaim =
            self.allow_consolidating_reclaim.unwrap_or(profile.allow_consolidating_reclaim);
    }
}

impl Strategy {
    pub(super) const fn to_core(self) -> Placement {
        match self {
            Self::BinPack => Placement::BinPack,
            Self::Spread => Placement::Spread,
            Self::LeastFragmentation => Placement::LeastFragmentation,
        }
    }
}
