//! Plugin settings: enabled, priority and arguments, with the names of KAI's `SchedulingShard`.
//! Plugins whose function is built in here cannot be disabled.

use std::collections::BTreeMap;

use schedlab_scheduler_core::{Profile, profile::Placement};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ConfigFile, FileError, Strategy};
use crate::config::{Config, arguments};

/// KAI's plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PluginName {
    /// Queue limits, and quotas of non-preemptible jobs.
    Proportion,
    /// Taints, node affinity, host ports, topology spread, node conditions.
    Predicates,
    /// Orders jobs of a queue: higher priority first.
    Priority,
    /// Orders jobs of a queue: jobs below their minimum first, then those at it, then those above.
    Elastic,
    /// Orders pods of a job: master or launcher of a Kubeflow job first.
    Kubeflow,
    /// Orders pods of a job: head of a Ray cluster first.
    Ray,
    /// Orders pods of a job: higher task priority first.
    TaskOrder,
    /// Prefers the nominated node of a pod.
    NominatedNode,
    /// Preferred inter-pod affinity, in both directions.
    PodAffinity,
    /// Preferred topology levels.
    Topology,
    /// Resource claims (DRA).
    DynamicResources,
    /// Prefers GPUs that are already shared to whole ones.
    GpuSharingOrder,
    /// Prefers nodes with free capacity to nodes where pods are still terminating.
    NodeAvailability,
    /// Rejects nodes that cannot align the pod with their NUMA zones; prefers alignment to few
    /// zones.
    Numa,
    /// Prefers nodes without GPUs for pods without GPUs.
    ResourceType,
    /// Bin-packing or spreading over nodes.
    NodePlacement,
    /// Prefers the fullest device for GPU fractions; enabled unless gpuspread is.
    GpuPack,
    /// Prefers the emptiest device for GPU fractions; enabled with the placement strategy `spread`.
    GpuSpread,
    /// Orders sub-groups of a job; always enabled.
    SubGroupOrder,
    /// Protects running jobs for a minimum runtime.
    MinRuntime,
    /// Serves snapshots in KAI; no effect here, see `--serve-snapshots`.
    Snapshot,
    /// Serves the job order in KAI; no effect here.
    ReflectJobOrder,
    /// No effect here.
    ExpectedRuntime,
    /// Victim search strategy of KAI; no effect here, as the search differs.
    #[serde(rename = "sg-nodelocalgreedy")]
    NodeLocalGreedy,
    /// Victim search strategy of KAI; no effect here, as the search differs.
    #[serde(rename = "sg-multinodegang")]
    MultiNodeGang,
}

/// Settings of a plugin.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginSetting {
    /// Whether the plugin is used [default: true].
    pub enabled: Option<bool>,
    /// Plugins with higher priority come first. Affects priority and elastic (order of jobs), and
    /// kubeflow, ray and taskorder (order of pods) [default: KAI's].
    pub priority: Option<i32>,
    /// KAI's plugin arguments, as strings. proportion: kValue, relcaimerSaturationMultiplier (KAI's
    /// spelling); nodeplacement: gpu, cpu; minruntime: defaultPreemptMinRuntime,
    /// defaultReclaimMinRuntime, reclaimResolveMethod (lca or queue). They take precedence over the
    /// corresponding keys of the file [default: none].
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
}

type PluginSettings = BTreeMap<PluginName, PluginSetting>;

/// Checks settings of plugins beyond their types.
pub(super) fn check_plugins(file: &ConfigFile) -> Result<(), FileError> {
    if file.plugins.get(&PluginName::SubGroupOrder).is_some_and(|of| of.enabled == Some(false)) {
        let allowed = "true, as this plugin cannot be disabled";
        return Err(value_error("plugins.subgrouporder.enabled", "false", allowed));
    }
    check_device_plugins(file)?;
    apply_arguments(&file.plugins, &mut Profile::kai())
}

/// Checks that exactly one of gpupack and gpuspread is enabled.
fn check_device_plugins(file: &ConfigFile) -> Result<(), FileError> {
    let of = |name| file.plugins.get(&name).and_then(|of| of.enabled);
    let (pack, spread) = (of(PluginName::GpuPack), of(PluginName::GpuSpread));
    let spreads = file.placement_strategy.gpu == Some(Strategy::Spread);
    let field = "plugins.gpuspread.enabled";
    match (pack, spread) {
        (Some(true), Some(true)) => Err(value_error(field, "true", "false, as gpupack is enabled")),
        (Some(false), Some(false)) => {
            Err(value_error(field, "false", "true, as gpupack is disabled"))
        }
        (Some(false), None) if !spreads => {
            Err(value_error("plugins.gpupack.enabled", "false", "true, as gpuspread is disabled"))
        }
        (None, Some(false)) if spreads => {
            Err(value_error(field, "false", "true, as gpupack is disabled"))
        }
        (None | Some(_), None | Some(_)) => Ok(()),
    }
}

/// Applies `enabled` and `priority` of the listed plugins; other plugins stay as they are.
pub(super) fn apply_settings(settings: &PluginSettings, config: &mut Config) {
    if settings.is_empty() {
        return;
    }
    let (mut off, mut priorities) =
        (config.disabled_plugins.clone(), config.plugin_priorities.clone());
    for (plugin, PluginSetting { enabled, priority, .. }) in settings {
        let name = plugin.kai_name();
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
    off.retain(|name| crate::config::plugins::is_optional_plugin(name));
    config.disable_plugins(off);
    config.set_plugin_priorities(priorities);
}

/// Applies plugin arguments, and the choice between gpupack and gpuspread.
pub(super) fn apply_arguments(
    settings: &PluginSettings,
    profile: &mut Profile,
) -> Result<(), FileError> {
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
            apply_argument(profile, plugin.kai_name(), key, text)?;
        }
    }
    Ok(())
}

fn apply_argument(
    profile: &mut Profile,
    plugin: &str,
    key: &str,
    text: &str,
) -> Result<(), FileError> {
    let unknown = || {
        value_error("plugins", &format!("{plugin}.arguments.{key}"), arguments::SUPPORTED_ARGUMENTS)
    };
    let argument = arguments::find_argument(plugin, key).ok_or_else(unknown)?;
    if argument.apply(profile, text) {
        return Ok(());
    }
    Err(value_error(argument.field, text, argument.allowed))
}

fn value_error(field: &'static str, found: &str, allowed: &'static str) -> FileError {
    FileError::Value { field, found: found.to_owned(), allowed }
}

impl PluginName {
    const fn kai_name(self) -> &'static str {
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
