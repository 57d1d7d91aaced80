//! KAI's plugins: which come first, and what becomes of them here.

/// What a name in KAI's configuration does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is on or off.
    Optional,
    /// What it does is always done.
    Fixed,
    /// It orders the devices of a node.
    Devices,
    /// It decides nothing.
    Silent,
}

/// With the priorities that KAI's operator gives them, which writes the highest first. `numa`,
/// which it leaves off, has one of ours; those that it does not know have 0.
const PLUGINS: [(&str, i32, Part); 25] = [
    ("predicates", 1900, Part::Optional),
    ("proportion", 1800, Part::Optional),
    ("priority", 1700, Part::Optional),
    ("nodeavailability", 1600, Part::Optional),
    ("resourcetype", 1500, Part::Optional),
    ("podaffinity", 1400, Part::Optional),
    ("elastic", 1300, Part::Optional),
    ("kubeflow", 1200, Part::Optional),
    ("ray", 1100, Part::Optional),
    ("subgrouporder", 1000, Part::Fixed),
    ("taskorder", 900, Part::Optional),
    ("nominatednode", 800, Part::Optional),
    ("dynamicresources", 700, Part::Optional),
    ("numa", 650, Part::Optional),
    ("minruntime", 600, Part::Optional),
    ("topology", 500, Part::Optional),
    ("snapshot", 400, Part::Silent),
    ("gpupack", 300, Part::Devices),
    ("gpuspread", 300, Part::Devices),
    ("nodeplacement", 200, Part::Optional),
    ("gpusharingorder", 100, Part::Optional),
    ("reflectjoborder", 0, Part::Silent),
    ("expectedruntime", 0, Part::Silent),
    ("sg-nodelocalgreedy", 0, Part::Silent),
    ("sg-multinodegang", 0, Part::Silent),
];

/// What a name does here; `None`: there is no such plugin.
pub(crate) fn part(name: &str) -> Option<Part> {
    PLUGINS.iter().find(|(known, ..)| *known == name).map(|(.., part)| *part)
}

/// The priority that it has by default; one of an unknown plugin is 0.
pub(crate) fn priority(name: &str) -> i32 {
    PLUGINS.iter().find(|(known, ..)| *known == name).map_or(0, |(_, priority, _)| *priority)
}

/// Our scheduler may go without it.
pub(crate) fn is_optional(name: &str) -> bool {
    part(name) == Some(Part::Optional)
}

/// Those that a scheduler of ours may go without.
pub(crate) fn optional() -> impl Iterator<Item = &'static str> {
    let optional = PLUGINS.into_iter().filter(|(.., part)| *part == Part::Optional);
    optional.map(|(name, ..)| name)
}

/// Those that are written for KAI, which knows no others by these names.
pub(crate) fn written() -> impl Iterator<Item = (&'static str, Part)> {
    let all = PLUGINS.into_iter().map(|(name, _, part)| (name, part));
    all.filter(|(name, part)| *part != Part::Silent || *name == "snapshot")
}

/// As a person reads them.
pub(crate) fn all() -> String {
    PLUGINS.map(|(name, ..)| name).join(", ")
}
