//! Plugins by KAI's names: which are asked, which come first, and with which arguments. Names that
//! KAI's `SchedulingShard` takes are taken here; what a plugin does that is always done here cannot
//! be switched off.

use std::collections::BTreeMap;

use schedlab_scheduler_core::profile::{Placement, Profile};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ConfigFile, FileError, Strategy};
use crate::config::{Config, arguments};

/// KAI's plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PluginName {
    /// Limits of queues, and quotas for what cannot be preempted.
    Proportion,
    /// Taints, affinity, ports, spread, node conditions.
    Predicates,
    /// Jobs of a queue: the higher priority first.
    Priority,
    /// Jobs of a queue: those below their minimum first, then those at it, then those above.
    Elastic,
    /// Pods of a job: the master or launcher of a Kubeflow job first.
    Kubeflow,
    /// Pods of a job: the head of a Ray cluster first.
    Ray,
    /// Pods of a job: the higher task priority first.
    TaskOrder,
    /// Pods go where they were nominated first.
    NominatedNode,
    /// Preferred affinity to, and from, other pods.
    PodAffinity,
    /// Preferred levels of topologies.
    Topology,
    /// Claims on devices.
    DynamicResources,
    /// Shared GPUs with room come before whole ones.
    GpuSharingOrder,
    /// Nodes with room now come before those with room later.
    NodeAvailability,
    /// No nodes that cannot align the pod with their NUMA zones, and first those with few of them.
    Numa,
    /// Pods without GPUs go to nodes without GPUs.
    ResourceType,
    /// Bin-pack or spread.
    NodePlacement,
    /// Parts of GPUs go to the fullest device; on unless gpuspread is.
    GpuPack,
    /// Parts of GPUs go to the emptiest device; on with the placement strategy `spread`.
    GpuSpread,
    /// Which sub-group of a job is next; always on.
    SubGroupOrder,
    /// How long running work is protected.
    MinRuntime,
    /// Serves snapshots, as the scheduler does without it.
    Snapshot,
    /// Serves the order of jobs in KAI; it decides nothing.
    ReflectJobOrder,
    /// Decides nothing.
    ExpectedRuntime,
    /// How KAI searches for victims; the search here is another.
    #[serde(rename = "sg-nodelocalgreedy")]
    NodeLocalGreedy,
    /// How KAI searches for victims; the search here is another.
    #[serde(rename = "sg-multinodegang")]
    MultiNodeGang,
}

/// How a plugin is set.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginSetting {
    /// Whether it is asked [default: true].
    pub enabled: Option<bool>,
    /// The plugin with the higher one comes first: of priority and elastic, in the order of jobs;
    /// of kubeflow, ray and taskorder, in that of pods. Others gain nothing by it [default: KAI's].
    pub priority: Option<i32>,
    /// KAI's, as text. proportion: kValue, relcaimerSaturationMultiplier (so KAI spells it);
    /// nodeplacement: gpu, cpu; minruntime: defaultPreemptMinRuntime, defaultReclaimMinRuntime,
    /// reclaimResolveMethod (lca or queue). They count more than the keys of the file that say the
    /// same [default: none].
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
}

type Settings = BTreeMap<PluginName, PluginSetting>;

/// What no type says.
pub(super) fn check(file: &ConfigFile) -> Result<(), FileError> {
    if file.plugins.get(&PluginName::SubGroupOrder).is_some_and(|of| of.enabled == Some(false)) {
        let allowed = "true, as what it does is always done";
        return Err(wrong("plugins.subgrouporder.enabled", "false", allowed));
    }
    one_orders_devices(file)?;
    give_arguments(&file.plugins, &mut Profile::kai())
}

/// Of gpupack and gpuspread one is on, and not both.
fn one_orders_devices(file: &ConfigFile) -> Result<(), FileError> {
    let of = |name| file.plugins.get(&name).and_then(|of| of.enabled);
    let (pack, spread) = (of(PluginName::GpuPack), of(PluginName::GpuSpread));
    let spreads = file.placement_strategy.gpu == Some(Strategy::Spread);
    let field = "plugins.gpuspread.enabled";
    match (pack, spread) {
        (Some(true), Some(true)) => Err(wrong(field, "true", "false where gpupack is on")),
        (Some(false), Some(false)) => Err(wrong(field, "false", "true where gpupack is off")),
        (Some(false), None) if !spreads => {
            Err(wrong("plugins.gpupack.enabled", "false", "true where gpuspread is off"))
        }
        (None, Some(false)) if spreads => Err(wrong(field, "false", "true where gpupack is off")),
        (None | Some(_), None | Some(_)) => Ok(()),
    }
}

/// Those that are named; the others stay as they are.
pub(super) fn set(settings: &Settings, config: &mut Config) {
    if settings.is_empty() {
        return;
    }
    let (mut off, mut priorities) = (config.plugins_off.clone(), config.plugin_priorities.clone());
    for (plugin, PluginSetting { enabled, priority, .. }) in settings {
        let name = plugin.as_kai();
        match enabled {
            Some(true) => {
                off.remove(name);
            }
            Some(false) => {
                off.insert(name.to_owned());
            }
            None => {}
        }
        priorities.extend(priority.map(|priority| (name.to_owned(), priority)));
    }
    off.retain(|name| crate::config::plugins::is_optional(name));
    config.go_without(off);
    config.prioritize(priorities);
}

/// What plugins are told, and which of the two that order devices is on.
pub(super) fn give_arguments(settings: &Settings, profile: &mut Profile) -> Result<(), FileError> {
    for (plugin, setting) in settings {
        if setting.enabled == Some(true) {
            if *plugin == PluginName::GpuSpread {
                profile.device_placement = Placement::Spread;
            }
            if *plugin == PluginName::GpuPack {
                profile.device_placement = Placement::BinPack;
            }
        }
        for (key, text) in &setting.arguments {
            give_argument(profile, (plugin.as_kai(), key), text)?;
        }
    }
    Ok(())
}

fn give_argument(profile: &mut Profile, of: (&str, &str), text: &str) -> Result<(), FileError> {
    let unknown = || wrong("plugins", &format!("{}.arguments.{}", of.0, of.1), arguments::ALL);
    let argument = arguments::argument(of.0, of.1).ok_or_else(unknown)?;
    if argument.give(profile, text) {
        return Ok(());
    }
    Err(wrong(argument.field, text, argument.allowed))
}

fn wrong(field: &'static str, found: &str, allowed: &'static str) -> FileError {
    FileError::Value { field, found: found.to_owned(), allowed }
}

impl PluginName {
    const fn as_kai(self) -> &'static str {
        match self {
            Self::Proportion => "proportion",
            Self::Predicates => "predicates",
            Self::Priority => "priority",
            Self::Elastic => "elastic",
            Self::Kubeflow => "kubeflow",
            Self::Ray => "ray",
            Self::TaskOrder => "taskorder",
            Self::NominatedNode => "nominatednode",
            Self::PodAffinity => "podaffinity",
            Self::Topology => "topology",
            Self::DynamicResources => "dynamicresources",
            Self::GpuSharingOrder => "gpusharingorder",
            Self::NodeAvailability => "nodeavailability",
            Self::Numa => "numa",
            Self::ResourceType => "resourcetype",
            Self::NodePlacement => "nodeplacement",
            Self::GpuPack => "gpupack",
            Self::GpuSpread => "gpuspread",
            Self::SubGroupOrder => "subgrouporder",
            Self::MinRuntime => "minruntime",
            Self::Snapshot => "snapshot",
            Self::ReflectJobOrder => "reflectjoborder",
            Self::ExpectedRuntime => "expectedruntime",
            Self::NodeLocalGreedy => "sg-nodelocalgreedy",
            Self::MultiNodeGang => "sg-multinodegang",
        }
    }
}
