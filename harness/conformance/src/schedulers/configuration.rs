//! The configuration file of our scheduler as a program: what steps have set, and the scheduler's
//! own times, which on a real cluster are scaled like those of the scenario.

use std::time::Duration;

use anyhow::Context as _;
use schedlab_api::{Value, json};
use schedlab_scheduler::{Binding, Config, Flavor};
use schedlab_scheduler_core::profile::Placement;

/// A file of a target with this text gets the configuration of the scenario.
pub(super) const CONFIGURATION_PLACEHOLDER: &str = "{configuration}";

/// The text of a configuration file that makes a scheduler use `config`. `texts` are the files that
/// steps have applied; their keys that a step cannot set otherwise are copied.
///
/// # Errors
/// A text is not YAML.
pub(super) fn configuration_file(config: &Config, texts: &[String]) -> anyhow::Result<String> {
    let mut file = json!({});
    for text in texts {
        let value: Option<Value> =
            serde_saphyr::from_str(text).context("the scheduler's configuration is not YAML")?;
        merge(&mut file, value.unwrap_or_else(|| json!({})));
    }
    merge(&mut file, settings_of_every_profile(config));
    if config.flavor == Flavor::Kai {
        merge(&mut file, settings_of_kai(config));
    }
    serde_yaml::to_string(&file).context("cannot write the scheduler's configuration")
}

/// Sets the fields of `new` in `old`, and those of the objects in it.
fn merge(old: &mut Value, new: Value) {
    match new {
        Value::Object(fields) => {
            if !old.is_object() {
                *old = json!({});
            }
            for (key, value) in fields {
                merge(&mut old[&*key], value);
            }
        }
        // A setting that is left out does not hide one of a text.
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => *old = new,
    }
}

fn settings_of_every_profile(config: &Config) -> Value {
    let pool = config.node_pool.as_ref();
    json!({
        "period": time(config.period),
        "nodePool": pool.map(|pool| json!({"label": pool.label, "value": pool.value})),
        "writesAtOnce": config.writes_at_once,
    })
}

fn settings_of_kai(config: &Config) -> Value {
    let (profile, usual) = (&config.profile, Config::kai());
    let reservation = config.gpu_reservation.as_ref();
    let priorities = config.default_priorities.as_ref();
    let k_value = profile.k_value_milli;
    #[expect(clippy::cast_precision_loss, reason = "a k value stays far below 2^53")]
    let k_value = (k_value != usual.profile.k_value_milli).then_some(k_value as f64 / 1000.0);
    // A grace of years means never; a negative duration says so.
    let grace = profile.staleness_grace;
    let grace = if grace > GRACE_MAX { "-1s".to_owned() } else { time(grace) };
    json!({
        "binding": (config.binding == Binding::Requests).then_some("requests"),
        "gpuReservation": reservation.map(|one| json!({"image": one.image})),
        "blockNvidiaVisibleDevices": config.block_nvidia_visible_devices.then_some(true),
        "defaultPrioritiesConfigMap": priorities
            .map(|map| json!({"name": map.name, "namespace": map.namespace})),
        "usageWindow": config.usage_window.map(time),
        "usageHalfLife": config.usage_half_life.map(time),
        "kValue": k_value,
        "placementStrategy": {
            "gpu": placement_name(profile.gpu_placement),
            "cpu": placement_name(profile.cpu_placement),
        },
        "minRuntime": {
            "preemptMinRuntime": time(profile.preempt_min_runtime),
            "reclaimMinRuntime": time(profile.reclaim_min_runtime),
        },
        "preemptionPolicy": {
            "maxPreemptionsPerCycle": profile.preemptions_max,
            "minPriorityDifference": profile.priority_difference_min,
            "gracePeriod": config.eviction_grace.map(time),
        },
        "stalenessGracePeriod": grace,
    })
}

/// A longer grace period means never.
const GRACE_MAX: Duration = Duration::from_hours(365 * 24);

fn placement_name(placement: Placement) -> &'static str {
    match placement {
        Placement::BinPack => "binpack",
        Placement::Spread => "spread",
        Placement::LeastFragmentation => "leastfragmentation",
    }
}

/// A duration in the form of the configuration file.
fn time(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

#[cfg(test)]
mod tests {
    use schedlab_scheduler::{ConfigSource, GpuReservation, NodePool};

    use super::*;

    fn read_back(text: &str, mut config: Config) -> Config {
        let source = ConfigSource::parse("config.yaml".to_owned(), text.to_owned()).unwrap();
        source.apply(&mut config, |_| {}).unwrap();
        config
    }

    #[test]
    fn the_file_makes_a_scheduler_use_the_configuration() {
        let mut config = Config::kai();
        config.period = Duration::from_millis(500);
        config.profile.staleness_grace = Duration::from_secs(6);
        config.profile.preempt_min_runtime = Duration::from_secs(7);
        config.profile.gpu_placement = Placement::LeastFragmentation;
        config.profile.preemptions_max = Some(2);
        config.usage_window = Some(Duration::from_secs(90));
        config.profile.k_value_milli = 1500;
        config.node_pool = Some(NodePool { label: "pool".to_owned(), value: "a".to_owned() });
        config.enable_gpu_reservation(GpuReservation::with_image("pause"));
        config.binding = Binding::Requests;
        let texts = ["plugins: {elastic: {priority: 1750}}\nperiod: 7s".to_owned()];
        let there = read_back(&configuration_file(&config, &texts).unwrap(), Config::kai());
        assert_eq!(there.period, config.period, "a step after the text wins");
        assert_eq!(there.plugin_priorities.get("elastic"), Some(&1750));
        assert_eq!(there.profile.staleness_grace, config.profile.staleness_grace);
        assert_eq!(there.profile.preempt_min_runtime, config.profile.preempt_min_runtime);
        assert_eq!(there.profile.gpu_placement, Placement::LeastFragmentation);
        assert_eq!(there.profile.cpu_placement, Placement::BinPack);
        assert_eq!(there.profile.preemptions_max, Some(2));
        assert_eq!(there.profile.k_value_milli, 1500);
        assert_eq!(there.usage_window, config.usage_window);
        assert_eq!(there.node_pool, config.node_pool);
        assert_eq!(there.gpu_reservation, config.gpu_reservation);
        assert_eq!(there.binding, Binding::Requests);
    }

    #[test]
    fn profile_kube_gets_no_setting_that_it_rejects() {
        let there = read_back(&configuration_file(&Config::kube(), &[]).unwrap(), Config::kube());
        assert_eq!(there.period, Config::kube().period);
    }
}
