//! KAI's plugins, and what becomes of them here.

/// What a name in KAI's configuration does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// It is on or off.
    Optional,
    /// What it does is always done.
    Fixed,
    /// It orders the devices of a node.
    Devices,
    /// It decides nothing.
    Silent,
}

/// In the order in which KAI's operator writes them.
const PLUGINS: [(&str, Part); 25] = [
    ("predicates", Part::Optional),
    ("proportion", Part::Optional),
    ("priority", Part::Fixed),
    ("nodeavailability", Part::Optional),
    ("resourcetype", Part::Optional),
    ("podaffinity", Part::Fixed),
    ("elastic", Part::Fixed),
    ("kubeflow", Part::Fixed),
    ("ray", Part::Fixed),
    ("subgrouporder", Part::Fixed),
    ("taskorder", Part::Fixed),
    ("nominatednode", Part::Optional),
    ("dynamicresources", Part::Optional),
    ("numa", Part::Optional),
    ("minruntime", Part::Fixed),
    ("topology", Part::Optional),
    ("snapshot", Part::Silent),
    ("gpupack", Part::Devices),
    ("gpuspread", Part::Devices),
    ("nodeplacement", Part::Optional),
    ("gpusharingorder", Part::Optional),
    ("reflectjoborder", Part::Silent),
    ("expectedruntime", Part::Silent),
    ("sg-nodelocalgreedy", Part::Silent),
    ("sg-multinodegang", Part::Silent),
];

/// Left out of KAI's own list in older versions, or in every one: nothing follows from it.
const OFTEN_MISSING: [&str; 2] = ["subgrouporder", "podaffinity"];

/// What a name does here; `None`: there is no such plugin.
pub(super) fn part(name: &str) -> Option<Part> {
    PLUGINS.iter().find(|(known, _)| *known == name).map(|(_, part)| *part)
}

/// Those that a scheduler of ours may go without.
pub(super) fn optional() -> impl Iterator<Item = &'static str> {
    named(Part::Optional)
}

/// Those that it never goes without, where KAI would.
pub(super) fn fixed() -> impl Iterator<Item = &'static str> {
    named(Part::Fixed).filter(|name| !OFTEN_MISSING.contains(name))
}

/// Those that are written for KAI, which knows no others by these names.
pub(super) fn written() -> impl Iterator<Item = (&'static str, Part)> {
    PLUGINS.into_iter().filter(|(name, part)| *part != Part::Silent || *name == "snapshot")
}

/// As a person reads them.
pub(super) fn all() -> String {
    PLUGINS.map(|(name, _)| name).join(", ")
}

fn named(wanted: Part) -> impl Iterator<Item = &'static str> {
    PLUGINS.into_iter().filter(move |(_, part)| *part == wanted).map(|(name, _)| name)
}
