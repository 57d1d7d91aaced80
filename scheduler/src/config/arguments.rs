//! The arguments of KAI's plugins that have an effect here, with their parsers.

use std::time::Duration;

use schedlab_scheduler_core::{
    Profile,
    profile::{Placement, ResolveMethod},
};

use crate::parse::{GoDuration, parse_duration_with_days};

/// One argument of one plugin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PluginArgument {
    /// Field path of the argument in the configuration file.
    pub(crate) field: &'static str,
    plugin: &'static str,
    key: &'static str,
    /// Valid values of the argument, for messages.
    pub(crate) allowed: &'static str,
    /// Default value of the argument.
    pub(crate) default: &'static str,
    apply: fn(&mut Profile, &str) -> Option<()>,
}

/// List of all supported arguments, for messages.
pub(crate) const SUPPORTED_ARGUMENTS: &str = "kValue and relcaimerSaturationMultiplier of proportion, gpu and cpu of nodeplacement, \
     defaultPreemptMinRuntime, defaultReclaimMinRuntime and reclaimResolveMethod of minruntime";

const EXPECTED_DURATION: &str = "a duration such as 90s, 1h30m or 1d, not negative";
const EXPECTED_STRATEGY: &str = "binpack, spread or leastfragmentation";

const PLUGIN_ARGUMENTS: [PluginArgument; 7] = [
    PluginArgument {
        field: "plugins.proportion.arguments.kValue",
        plugin: "proportion",
        key: "kValue",
        allowed: "a number from 0 to 1000",
        default: "1",
        apply: |profile, text| {
            parse_milli_in_range(text, 0.0).map(|read| profile.k_value_milli = read)
        },
    },
    PluginArgument {
        field: "plugins.proportion.arguments.relcaimerSaturationMultiplier",
        plugin: "proportion",
        key: "relcaimerSaturationMultiplier",
        allowed: "a number from 1 to 1000",
        default: "1",
        apply: |profile, text| {
            parse_milli_in_range(text, 1.0).map(|read| profile.reclaim_saturation_milli = read)
        },
    },
    PluginArgument {
        field: "plugins.nodeplacement.arguments.gpu",
        plugin: "nodeplacement",
        key: "gpu",
        allowed: EXPECTED_STRATEGY,
        default: "binpack",
        apply: |profile, text| parse_strategy(text).map(|read| profile.gpu_placement = read),
    },
    PluginArgument {
        field: "plugins.nodeplacement.arguments.cpu",
        plugin: "nodeplacement",
        key: "cpu",
        allowed: EXPECTED_STRATEGY,
        default: "binpack",
        apply: |profile, text| parse_strategy(text).map(|read| profile.cpu_placement = read),
    },
    PluginArgument {
        field: "plugins.minruntime.arguments.defaultPreemptMinRuntime",
        plugin: "minruntime",
        key: "defaultPreemptMinRuntime",
        allowed: EXPECTED_DURATION,
        default: "0s",
        apply: |profile, text| parse_duration(text).map(|read| profile.preempt_min_runtime = read),
    },
    PluginArgument {
        field: "plugins.minruntime.arguments.defaultReclaimMinRuntime",
        plugin: "minruntime",
        key: "defaultReclaimMinRuntime",
        allowed: EXPECTED_DURATION,
        default: "0s",
        apply: |profile, text| parse_duration(text).map(|read| profile.reclaim_min_runtime = read),
    },
    PluginArgument {
        field: "plugins.minruntime.arguments.reclaimResolveMethod",
        plugin: "minruntime",
        key: "reclaimResolveMethod",
        allowed: "lca or queue",
        default: "lca",
        apply: |profile, text| {
            parse_resolve_method(text).map(|read| profile.reclaim_resolve_method = read)
        },
    },
];

/// The argument with this key of this plugin; `None`: the argument has no effect in this scheduler.
pub(crate) fn find_argument(plugin: &str, key: &str) -> Option<PluginArgument> {
    PLUGIN_ARGUMENTS.into_iter().find(|argument| (argument.plugin, argument.key) == (plugin, key))
}

impl PluginArgument {
    /// Applies a value to the profile. Returns false and changes nothing if the value is invalid.
    pub(crate) fn apply(&self, profile: &mut Profile, text: &str) -> bool {
        (self.apply)(profile, text).is_some()
    }
}

/// Parses a number from `min` to 1000, in thousandths.
fn parse_milli_in_range(text: &str, min: f64) -> Option<i64> {
    let value: f64 = text.parse().ok()?;
    (min..=1000.0).contains(&value).then(|| to_thousandths(value))
}

/// Converts a number from 0 to 1000 to thousandths.
#[expect(clippy::cast_possible_truncation, reason = "the settings are at most 1000")]
pub(crate) fn to_thousandths(number: f64) -> i64 {
    (number * 1000.0).round() as i64
}

fn parse_strategy(text: &str) -> Option<Placement> {
    match text {
        "binpack" => Some(Placement::BinPack),
        "spread" => Some(Placement::Spread),
        "leastfragmentation" => Some(Placement::LeastFragmentation),
        _ => None,
    }
}

fn parse_resolve_method(text: &str) -> Option<ResolveMethod> {
    match text {
        "lca" | "" => Some(ResolveMethod::Lca),
        "queue" => Some(ResolveMethod::Queue),
        _ => None,
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    match parse_duration_with_days(text)? {
        GoDuration::Positive(time) => Some(time),
        GoDuration::Negative => None,
    }
}
