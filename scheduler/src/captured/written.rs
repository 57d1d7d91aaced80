//! What a snapshot says of the scheduler that it was taken from: in KAI's words what KAI has words
//! for, and under a key of our own everything that decides, as in our configuration file.

use std::time::Duration;

use schedlab_json::{Value, json};
use schedlab_scheduler_core::{
    Profile,
    profile::{Action, Placement, ResolveMethod},
};

use crate::config::{
    Config, GpuReservation, NodePool,
    plugins::{self, Part},
};

/// `config`, as KAI's scheduler reads its file.
pub(super) fn configuration(config: &Config) -> Value {
    let profile = &config.profile;
    let is_on = |name: &str, part: Part| match part {
        Part::Optional => !config.plugins_off.contains(name),
        Part::Fixed | Part::Silent => true,
        Part::Devices => name == of_devices(profile.device_placement),
    };
    let plugins = plugins::written().filter(|(name, part)| is_on(name, *part));
    let mut plugins: Vec<&str> = plugins.map(|(name, _)| name).collect();
    plugins.sort_by_key(|name| config.place(name));
    let plugins: Vec<Value> = plugins.into_iter().map(|name| plugin(name, profile)).collect();
    let mut said =
        json!({ "actions": actions(profile).join(", "), "tiers": [{ "plugins": plugins }] });
    if !profile.queue_depth.is_empty() {
        said["queueDepthPerAction"] = depths(profile);
    }
    said
}

fn plugin(name: &str, profile: &Profile) -> Value {
    let arguments = match name {
        "proportion" => json!({
            "kValue": decimal(profile.k_value_milli).to_string(),
            // So KAI spells it.
            "relcaimerSaturationMultiplier": decimal(profile.reclaim_saturation_milli).to_string(),
        }),
        "minruntime" => json!({
            "defaultPreemptMinRuntime": time(profile.preempt_min_runtime),
            "defaultReclaimMinRuntime": time(profile.reclaim_min_runtime),
            "reclaimResolveMethod": method(profile.reclaim_resolve_method),
        }),
        "nodeplacement" => json!({
            "gpu": in_kais_words(profile.gpu_placement),
            "cpu": in_kais_words(profile.cpu_placement),
        }),
        _ => return json!({ "name": name }),
    };
    json!({ "name": name, "arguments": arguments })
}

/// `schedulerParams`: KAI's flags.
pub(super) fn parameters(config: &Config) -> Value {
    let profile = &config.profile;
    let victims = i64::try_from(profile.consolidation_victims_max).unwrap_or(-1);
    let mut said = json!({
        "schedulerName": config.scheduler_name,
        "maxNumberConsolidationPreemptees": victims,
        "fullHierarchyFairness": config.full_hierarchy_fairness,
        "allowConsolidatingReclaim": profile.consolidating_reclaim,
        "restrictSchedulingNodes": config.restrict_node_scheduling,
        "globalDefaultStalenessGracePeriod": nanoseconds(profile.staleness_grace),
        "schedulePeriod": nanoseconds(config.period),
    });
    if let Some(NodePool { label, value }) = &config.node_pool {
        said["partitionParams"] = json!({ "NodePoolLabelKey": label, "NodePoolLabelValue": value });
    }
    said
}

/// What our configuration file would say.
pub(super) fn ours(config: &Config) -> Value {
    let Profile {
        actions: _,
        // By name, in `plugins_off`.
        plugins: _,
        fair_shares: _,
        // By the priorities of plugins.
        job_order: _,
        task_order: _,
        gpu_placement,
        cpu_placement,
        // By the plugins that order devices.
        device_placement: _,
        k_value_milli,
        staleness_grace,
        // Follows from the grace of evictions.
        release_max: _,
        reclaim_saturation_milli,
        consolidating_reclaim,
        consolidation_victims_max,
        queue_depth: _,
        preempt_min_runtime,
        reclaim_min_runtime,
        // Plugin minruntime.
        min_runtimes: _,
        reclaim_resolve_method: _,
        preemptions_max,
        priority_difference_min,
    } = &config.profile;
    let pool = config.node_pool.as_ref();
    json!({
        "schedulerName": config.scheduler_name,
        "nodePool": pool.map(|NodePool { label, value }| json!({ "label": label, "value": value })),
        "restrictNodeScheduling": config.restrict_node_scheduling,
        "fullHierarchyFairness": config.full_hierarchy_fairness,
        "gpuReservation": config.gpu_reservation.as_ref().map(reservation),
        "period": time(config.period),
        "usageWindow": config.usage_window.map(time),
        "usageHalfLife": config.usage_half_life.map(time),
        "actions": actions(&config.profile),
        "plugins": plugin_settings(config),
        "placementStrategy": { "gpu": word(*gpu_placement), "cpu": word(*cpu_placement) },
        "queueDepthPerAction": depths(&config.profile),
        "minRuntime": {
            "preemptMinRuntime": time(*preempt_min_runtime),
            "reclaimMinRuntime": time(*reclaim_min_runtime),
        },
        "kValue": decimal(*k_value_milli),
        "preemptionPolicy": {
            "maxPreemptionsPerCycle": preemptions_max,
            "minPriorityDifference": priority_difference_min,
            "gracePeriod": config.eviction_grace.map(time),
        },
        "stalenessGracePeriod": time(*staleness_grace),
        "reclaimSaturationMultiplier": decimal(*reclaim_saturation_milli),
        "allowConsolidatingReclaim": consolidating_reclaim,
        "maxConsolidationVictims": consolidation_victims_max,
    })
}

fn reservation(of: &GpuReservation) -> Value {
    let GpuReservation { namespace, image, service_account, runtime_class, pod_runtime_class } = of;
    json!({
        "namespace": namespace,
        "image": image,
        "serviceAccount": service_account,
        "runtimeClass": runtime_class,
        "podRuntimeClass": pod_runtime_class,
    })
}

/// Of those that our file knows. Priorities are told of all of them or of none, so that they are
/// measured by nothing else.
fn plugin_settings(config: &Config) -> Value {
    let setting = |name: &str| {
        let is_on = !config.plugins_off.contains(name);
        let is_moved = !config.plugin_priorities.is_empty();
        let priority = is_moved.then(|| config.plugin_priority(name));
        let said = json!({ "enabled": is_on, "priority": priority });
        (!is_on || is_moved).then(|| (name.to_owned(), said))
    };
    let mut settings: Value = plugins::optional().filter_map(setting).collect();
    let profile = &config.profile;
    if of_devices(profile.device_placement) != of_devices(profile.gpu_placement) {
        settings[of_devices(profile.device_placement)] = json!({ "enabled": true });
    }
    if profile.reclaim_resolve_method != ResolveMethod::Lca {
        let arguments = json!({ "reclaimResolveMethod": method(profile.reclaim_resolve_method) });
        if settings.get("minruntime").is_none() {
            settings["minruntime"] = json!({});
        }
        settings["minruntime"]["arguments"] = arguments;
    }
    settings
}

const fn method(of: ResolveMethod) -> &'static str {
    match of {
        ResolveMethod::Lca => "lca",
        ResolveMethod::Queue => "queue",
    }
}

fn actions(profile: &Profile) -> Vec<&'static str> {
    profile.actions.iter().map(|action| action.as_str()).collect()
}

fn depths(profile: &Profile) -> Value {
    let depth = |(action, depth): (&Action, &usize)| (action.as_str().to_owned(), json!(depth));
    profile.queue_depth.iter().map(depth).collect()
}

const fn word(placement: Placement) -> &'static str {
    match placement {
        Placement::BinPack => "binpack",
        Placement::Spread => "spread",
        Placement::LeastFragmentation => "leastfragmentation",
    }
}

/// KAI has two of the three.
const fn in_kais_words(placement: Placement) -> &'static str {
    match placement {
        Placement::Spread => "spread",
        Placement::BinPack | Placement::LeastFragmentation => "binpack",
    }
}

const fn of_devices(placement: Placement) -> &'static str {
    match placement {
        Placement::Spread => "gpuspread",
        Placement::BinPack | Placement::LeastFragmentation => "gpupack",
    }
}

#[expect(clippy::cast_precision_loss, reason = "bounded when it was read")]
fn decimal(milli: i64) -> f64 {
    milli as f64 / 1000.0
}

/// As Go and our configuration file read it.
fn time(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ns", duration.as_nanos()),
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
