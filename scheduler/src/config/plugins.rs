//! Table of KAI's plugins, with their default priorities and their roles here.

/// What a plugin of KAI's configuration does in this scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PluginRole {
    /// The plugin can be enabled and disabled.
    Optional,
    /// The function of the plugin cannot be disabled.
    AlwaysOn,
    /// The plugin orders the GPU devices of a node.
    DeviceOrder,
    /// The plugin has no effect on decisions.
    NoEffect,
}

/// Name, priority and role of KAI's plugins. Priorities are those of KAI's operator; plugins with
/// higher priority come first. `numa`, which the operator disables, has a priority of ours; plugins
/// unknown to the operator have 0.
const PLUGINS: [(&str, i32, PluginRole); 25] = [
    ("predicates", 1900, PluginRole::Optional),
    ("proportion", 1800, PluginRole::Optional),
    ("priority", 1700, PluginRole::Optional),
    ("nodeavailability", 1600, PluginRole::Optional),
    ("resourcetype", 1500, PluginRole::Optional),
    ("podaffinity", 1400, PluginRole::Optional),
    ("elastic", 1300, PluginRole::Optional),
    ("kubeflow", 1200, PluginRole::Optional),
    ("ray", 1100, PluginRole::Optional),
    ("subgrouporder", 1000, PluginRole::AlwaysOn),
    ("taskorder", 900, PluginRole::Optional),
    ("nominatednode", 800, PluginRole::Optional),
    ("dynamicresources", 700, PluginRole::Optional),
    ("numa", 650, PluginRole::Optional),
    ("minruntime", 600, PluginRole::Optional),
    ("topology", 500, PluginRole::Optional),
    ("snapshot", 400, PluginRole::NoEffect),
    ("gpupack", 300, PluginRole::DeviceOrder),
    ("gpuspread", 300, PluginRole::DeviceOrder),
    ("nodeplacement", 200, PluginRole::Optional),
    ("gpusharingorder", 100, PluginRole::Optional),
    ("reflectjoborder", 0, PluginRole::NoEffect),
    ("expectedruntime", 0, PluginRole::NoEffect),
    ("sg-nodelocalgreedy", 0, PluginRole::NoEffect),
    ("sg-multinodegang", 0, PluginRole::NoEffect),
];

/// Role of a plugin; `None`: KAI has no such plugin.
pub(crate) fn plugin_role(name: &str) -> Option<PluginRole> {
    PLUGINS.iter().find(|(known, ..)| *known == name).map(|(.., part)| *part)
}

/// Default priority of a plugin; 0 for an unknown plugin.
pub(crate) fn default_priority(name: &str) -> i32 {
    PLUGINS.iter().find(|(known, ..)| *known == name).map_or(0, |(_, priority, _)| *priority)
}

/// Whether the plugin can be disabled.
pub(crate) fn is_optional_plugin(name: &str) -> bool {
    plugin_role(name) == Some(PluginRole::Optional)
}

/// Names of the plugins that can be disabled.
pub(crate) fn optional_plugin_names() -> impl Iterator<Item = &'static str> {
    let optional = PLUGINS.into_iter().filter(|(.., part)| *part == PluginRole::Optional);
    optional.map(|(name, ..)| name)
}

/// The plugins that are written into KAI's configuration, with their roles; KAI rejects the others.
pub(crate) fn plugins_written_to_kai() -> impl Iterator<Item = (&'static str, PluginRole)> {
    let all = PLUGINS.into_iter().map(|(name, _, part)| (name, part));
    all.filter(|(name, part)| *part != PluginRole::NoEffect || *name == "snapshot")
}

/// The names of all plugins, comma-separated, for messages.
pub(crate) fn all_plugin_names() -> String {
    PLUGINS.map(|(name, ..)| name).join(", ")
}
