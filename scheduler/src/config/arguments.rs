//! What KAI's plugins are told: the arguments that count here, each read in one place.

use std::time::Duration;

use schedlab_scheduler_core::profile::{Placement, Profile, ResolveMethod};

use crate::parse::{GoDuration, long_duration};

/// One argument of one plugin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Argument {
    /// Where it stands in our configuration file.
    pub(crate) field: &'static str,
    plugin: &'static str,
    key: &'static str,
    /// What it may be.
    pub(crate) allowed: &'static str,
    /// What it is where nobody says it.
    pub(crate) default: &'static str,
    give: fn(&mut Profile, &str) -> Option<()>,
}

/// All of them, as a person reads them.
pub(crate) const ALL: &str = "kValue and relcaimerSaturationMultiplier of proportion, gpu and cpu of nodeplacement, \
     defaultPreemptMinRuntime, defaultReclaimMinRuntime and reclaimResolveMethod of minruntime";

const TIME: &str = "a duration such as 90s, 1h30m or 1d, not negative";
const STRATEGIES: &str = "binpack, spread or leastfragmentation";

const ARGUMENTS: [Argument; 7] = [
    Argument {
        field: "plugins.proportion.arguments.kValue",
        plugin: "proportion",
        key: "kValue",
        allowed: "a number from 0 to 1000",
        default: "1",
        give: |profile, text| number(text, 0.0).map(|read| profile.k_value_milli = read),
    },
    Argument {
        field: "plugins.proportion.arguments.relcaimerSaturationMultiplier",
        plugin: "proportion",
        key: "relcaimerSaturationMultiplier",
        allowed: "a number from 1 to 1000",
        default: "1",
        give: |profile, text| number(text, 1.0).map(|read| profile.reclaim_saturation_milli = read),
    },
    Argument {
        field: "plugins.nodeplacement.arguments.gpu",
        plugin: "nodeplacement",
        key: "gpu",
        allowed: STRATEGIES,
        default: "binpack",
        give: |profile, text| strategy(text).map(|read| profile.gpu_placement = read),
    },
    Argument {
        field: "plugins.nodeplacement.arguments.cpu",
        plugin: "nodeplacement",
        key: "cpu",
        allowed: STRATEGIES,
        default: "binpack",
        give: |profile, text| strategy(text).map(|read| profile.cpu_placement = read),
    },
    Argument {
        field: "plugins.minruntime.arguments.defaultPreemptMinRuntime",
        plugin: "minruntime",
        key: "defaultPreemptMinRuntime",
        allowed: TIME,
        default: "0s",
        give: |profile, text| time(text).map(|read| profile.preempt_min_runtime = read),
    },
    Argument {
        field: "plugins.minruntime.arguments.defaultReclaimMinRuntime",
        plugin: "minruntime",
        key: "defaultReclaimMinRuntime",
        allowed: TIME,
        default: "0s",
        give: |profile, text| time(text).map(|read| profile.reclaim_min_runtime = read),
    },
    Argument {
        field: "plugins.minruntime.arguments.reclaimResolveMethod",
        plugin: "minruntime",
        key: "reclaimResolveMethod",
        allowed: "lca or queue",
        default: "lca",
        give: |profile, text| {
            resolve_method(text).map(|read| profile.reclaim_resolve_method = read)
        },
    },
];

/// The argument of that plugin; `None`: nothing here goes by it.
pub(crate) fn argument(plugin: &str, key: &str) -> Option<Argument> {
    ARGUMENTS.into_iter().find(|argument| (argument.plugin, argument.key) == (plugin, key))
}

impl Argument {
    /// The profile goes by `text`, or stays as it is: then that is not allowed.
    pub(crate) fn give(&self, profile: &mut Profile, text: &str) -> bool {
        (self.give)(profile, text).is_some()
    }
}

/// Thousandths of a number between a least and 1000.
fn number(text: &str, least: f64) -> Option<i64> {
    let read: f64 = text.parse().ok()?;
    (least..=1000.0).contains(&read).then(|| thousandths(read))
}

/// Of a number between 0 and 1000, so it fits.
#[expect(clippy::cast_possible_truncation, reason = "bounded when it was read")]
pub(crate) fn thousandths(number: f64) -> i64 {
    (number * 1000.0).round() as i64
}

fn strategy(text: &str) -> Option<Placement> {
    match text {
        "binpack" => Some(Placement::BinPack),
        "spread" => Some(Placement::Spread),
        "leastfragmentation" => Some(Placement::LeastFragmentation),
        _ => None,
    }
}

fn resolve_method(text: &str) -> Option<ResolveMethod> {
    match text {
        "lca" | "" => Some(ResolveMethod::Lca),
        "queue" => Some(ResolveMethod::Queue),
        _ => None,
    }
}

fn time(text: &str) -> Option<Duration> {
    match long_duration(text)? {
        GoDuration::Positive(time) => Some(time),
        GoDuration::Negative => None,
    }
}
