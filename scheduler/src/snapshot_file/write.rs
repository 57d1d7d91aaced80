//! Writes the settings of a scheduler to a snapshot: in KAI's format as far as it has them, and all
//! settings that affect decisions under `schedlab`, in the format of our configuration file.

use std::time::Duration;

use schedlab_api::{Value, json};
use schedlab_scheduler_core::{
    Profile,
    profile::{Action, Placement, ResolveMethod},
};

use crate::config::{
    Config, GpuReservation, NodePool,
    plugins::{self, PluginRole},
};

/// Field `config` of a snapshot: the configuration of KAI's scheduler.
pub(super) fn configuration_json(config: &Config) -> Value {
    let profile = &config.profile;
    let is_on = |name: &str, part: PluginRole| match part {
        PluginRole::Optional => !config.disabled_plugins.contains(name),
        PluginRole::AlwaysOn | PluginRole::NoEffect => true,
        PluginRole::DeviceOrder => name == device_plugin(profile.device_placement),
    };
    let plugins = plugins::plugins_written_to_kai().filter(|(name, part)| is_on(name, *part));
    let mut plugins: Vec<&str> = plugins.map(|(name, _)| name).collect();
    plugins.sort_by_key(|name| config.plugin_order_key(name));
    let plugins: Vec<Value> = plugins.into_iter().map(|name| plugin_json(name, profile)).collect();
    let mut written =
        json!({ "actions": action_names(profile).join(", "), "tiers": [{ "plugins": plugins }] });
    if !profile.queue_depth.is_empty() {
        written["queueDepthPerAction"] = queue_depths_json(profile);
    }
    written
}

fn plugin_json(name: &str, profile: &Profile) -> Value {
    let arguments = match name {
        "proportion" => json!({
            "kValue": milli_to_decimal(profile.k_value_milli).to_string(),
            // KAI's spelling.
            "relcaimerSaturationMultiplier": milli_to_decimal(profile.reclaim_saturation_milli).to_string(),
        }),
        "minruntime" => json!({
            "defaultPreemptMinRuntime": duration_text(profile.preempt_min_runtime),
            "defaultReclaimMinRuntime": duration_text(profile.reclaim_min_runtime),
            "reclaimResolveMethod": resolve_method_name(profile.reclaim_resolve_method),
        }),
        "nodeplacement" => json!({
            "gpu": kai_placement_name(profile.gpu_placement),
            "cpu": kai_placement_name(profile.cpu_placement),
        }),
        _ => return json!({ "name": name }),
    };
    json!({ "name": name, "arguments": arguments })
}

/// Field `schedulerParams` of a snapshot: KAI's flags.
pub(super) fn scheduler_params_json(config: &Config) -> Value {
    let profile = &config.profile;
    let victims = i64::try_from(profile.consolidation_victims_max).unwrap_or(-1);
    let mut written = json!({
        "schedulerName": config.scheduler_name,
        "maxNumberConsolidationPreemptees": victims,
        "fullHierarchyFairness": config.full_hierarchy_fairness,
        "allowConsolidatingReclaim": profile.allow_consolidating_reclaim,
        "restrictSchedulingNodes": config.restrict_node_scheduling,
        "globalDefaultStalenessGracePeriod": to_nanoseconds(profile.staleness_grace),
        "schedulePeriod": to_nanoseconds(config.period),
    });
    if let Some(NodePool { label, value }) = &config.node_pool {
        written["partitionParams"] =
            json!({ "NodePoolLabelKey": label, "NodePoolLabelValue": value });
    }
    written
}

/// Field `schedlab` of a snapshot: the settings in the format of our configuration file.
pub(super) fn schedlab_settings_json(config: &Config) -> Value {
    let Profile {
        actions: _,
        // Written by name, from `plugins_off`.
        plugins: _,
        uses_fair_shares: _,
        // Written as priorities of plugins.
        job_order: _,
        task_order: _,
        gpu_placement,
        cpu_placement,
        // Written as the plugin that orders devices.
        device_placement: _,
        k_value_milli,
        staleness_grace,
        // Follows from the grace period of evictions.
        release_timeout: _,
        reclaim_saturation_milli,
        allow_consolidating_reclaim: consolidating_reclaim,
        consolidation_victims_max,
        queue_depth: _,
        preempt_min_runtime,
        reclaim_min_runtime,
        // Arguments of plugin minruntime.
        protects_min_runtime: _,
        reclaim_resolve_method: _,
        preemptions_max,
        // A limit of explanations, not of a scheduler.
        victim_search: _,
        priority_difference_min,
    } = &config.profile;
    let pool = config.node_pool.as_ref();
    json!({
        "schedulerName": config.scheduler_name,
        "nodePool": pool.map(|NodePool { label, value }| json!({ "label": label, "value": value })),
        "restrictNodeScheduling": config.restrict_node_scheduling,
        "fullHierarchyFairness": config.full_hierarchy_fairness,
        "gpuReservation": config.gpu_reservation.as_ref().map(reservation_json),
        "period": duration_text(config.period),
        "usageWindow": config.usage_window.map(duration_text),
        "usageHalfLife": config.usage_half_life.map(duration_text),
        "actions": action_names(&config.profile),
        "plugins": plugin_settings_json(config),
        "placementStrategy": { "gpu": placement_name(*gpu_placement), "cpu": placement_name(*cpu_placement) },
        "queueDepthPerAction": queue_depths_json(&config.profile),
        "minRuntime": {
            "preemptMinRuntime": duration_text(*preempt_min_runtime),
            "reclaimMinRuntime": duration_text(*reclaim_min_runtime),
        },
        "kValue": milli_to_decimal(*k_value_milli),
        "preemptionPolicy": {
            "maxPreemptionsPerCycle": preemptions_max,
            "minPriorityDifference": priority_difference_min,
            "gracePeriod": config.eviction_grace.map(duration_text),
        },
        "stalenessGracePeriod": duration_text(*staleness_grace),
        "reclaimSaturationMultiplier": milli_to_decimal(*reclaim_saturation_milli),
        "allowConsolidatingReclaim": consolidating_reclaim,
        "maxConsolidationVictims": consolidation_victims_max,
    })
}

fn reservation_json(reservation: &GpuReservation) -> Value {
    let GpuReservation { namespace, image, service_account, runtime_class, pod_runtime_class } =
        reservation;
    json!({
        "namespace": namespace,
        "image": image,
        "serviceAccount": service_account,
        "runtimeClass": runtime_class,
        "podRuntimeClass": pod_runtime_class,
    })
}

/// Settings of optional plugins. Priorities are written for all plugins or for none, since only
/// their order matters.
fn plugin_settings_json(config: &Config) -> Value {
    let setting = |name: &str| {
        let is_on = !config.disabled_plugins.contains(name);
        let is_moved = !config.plugin_priorities.is_empty();
        let priority = is_moved.then(|| config.plugin_priority(name));
        let written = json!({ "enabled": is_on, "priority": priority });
        (!is_on || is_moved).then(|| (name.to_owned(), written))
    };
    let mut settings: Value = plugins::optional_plugin_names().filter_map(setting).collect();
    let profile = &config.profile;
    if device_plugin(profile.device_placement) != device_plugin(profile.gpu_placement) {
        settings[device_plugin(profile.device_placement)] = json!({ "enabled": true });
    }
    if profile.reclaim_resolve_method != ResolveMethod::Lca {
        let arguments =
            json!({ "reclaimResolveMethod": resolve_method_name(profile.reclaim_resolve_method) });
        if settings.get("minruntime").is_none() {
            settings["minruntime"] = json!({});
        }
        settings["minruntime"]["arguments"] = arguments;
    }
    settings
}

const fn resolve_method_name(of: ResolveMethod) -> &'static str {
    match of {
        ResolveMethod::Lca => "lca",
        ResolveMethod::Queue => "queue",
    }
}

fn action_names(profile: &Profile) -> Vec<&'static str> {
    profile.actions.iter().map(|action| action.as_str()).collect()
}

fn queue_depths_json(profile: &Profile) -> Value {
    let depth = |(action, depth): (&Action, &usize)| (action.as_str().to_owned(), json!(depth));
    profile.queue_depth.iter().map(depth).collect()
}

const fn placement_name(placement: Placement) -> &'static str {
    match placement {
        Placement::BinPack => "binpack",
        Placement::Spread => "spread",
        Placement::LeastFragmentation => "leastfragmentation",
    }
}

/// KAI's name of a placement strategy. KAI lacks `leastfragmentation`.
const fn kai_placement_name(placement: Placement) -> &'static str {
    match placement {
        Placement::Spread => "spread",
        Placement::BinPack | Placement::LeastFragmentation => "binpack",
    }
}

const fn device_plugin(placement: Placement) -> &'static str {
    match placement {
        Placement::Spread => "gpuspread",
        Placement::BinPack | Placement::LeastFragmentation => "gpupack",
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the values are at most 1000, so at most a million thousandths"
)]
fn milli_to_decimal(milli: i64) -> f64 {
    milli as f64 / 1000.0
}

/// Formats a duration so that Go and our configuration file can parse it.
fn duration_text(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ns", duration.as_nanos()),
    }
}

fn to_nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
