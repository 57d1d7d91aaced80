//! What a pod asks for.

use std::collections::BTreeMap;

use super::super::words::{Words, pair};
use crate::{
    model::{
        ContainerRequests, DeviceClaim, DeviceReach, DeviceWish, GpuPart, HeldClaim, HostPort,
        Inclusion, LabelSelector, Name, NamespaceSet, NodeSelectorTerm, NumaPolicy, NumaScope,
        NumaTopology, NumaZone, Operator, PodAffinityTerm, PodShape, Requirement, SharedGpu,
        TaintEffect, Toleration, TopologyConstraint, TopologySpread, VolumeAccess,
        WhenUnsatisfiable, ZoneShare,
    },
    resources::Resources,
};

/// `gpus=1 part=0.5 part-memory=4000 devices=2 cpu=2 memory=1Gi extended nic=1`, `needs zone=a`
/// (selector), `wants zone=a` and `named n1` (affinity; one of them suffices), `prefers zone=a:10`,
/// `tolerates key=value:NoSchedule`, `near app=x/zone`, `far app=x/zone`, `likes app=x/zone@team=a`,
/// `spread app=x/zone/1`, `evenly app=x/zone/1`, `port=80`, `image x`, `class gpu.x` (of GPUs that it
/// claims).
pub(super) fn of(words: &mut Words<'_>) -> PodShape {
    let gpu_milli = words.milli("gpus").unwrap_or(0);
    let (cpu_milli, memory_bytes) = (words.milli("cpu"), words.bytes("memory"));
    let named = words.each("named").into_iter().map(|node| NodeSelectorTerm {
        labels: Vec::new(),
        fields: vec![is("metadata.name", node)],
    });
    let labelled = words
        .each("wants")
        .into_iter()
        .map(pair)
        .map(|(key, value)| NodeSelectorTerm { labels: vec![is(key, value)], fields: Vec::new() });
    let affinity: Vec<NodeSelectorTerm> = named.chain(labelled).collect();
    let spread = |words: &mut Words<'_>, key, when| {
        words.each(key).into_iter().map(move |word| spread(word, when)).collect::<Vec<_>>()
    };
    let mut topology_spread = spread(words, "spread", WhenUnsatisfiable::DoNotSchedule);
    topology_spread.extend(spread(words, "evenly", WhenUnsatisfiable::ScheduleAnyway));
    PodShape {
        requests: Resources {
            gpu_milli,
            cpu_milli: cpu_milli.unwrap_or(0),
            memory_bytes: memory_bytes.unwrap_or(0),
            pods: 1,
            extended: extended(words),
        },
        guaranteed: words.flag("guaranteed"),
        containers: words.each("container").into_iter().map(container).collect(),
        unasked_cpu_milli: if cpu_milli.is_some() { 0 } else { 100 },
        unasked_memory_bytes: if memory_bytes.is_some() { 0 } else { 200 << 20 },
        shared_gpu: shared_gpu(words),
        legacy_mig: words.flag("legacy-mig"),
        gpus_by_claim: words.flag("by-claim"),
        gpu_classes: words.each("class").into_iter().map(Name::from).collect(),
        claims: (words.each("claim").into_iter().map(claim))
            .chain(words.each("wide").into_iter().map(wide_claim))
            .collect(),
        volumes: super::volume::all(words),
        node_selector: words.each("needs").into_iter().map(super::label).collect(),
        node_affinity: (!affinity.is_empty()).then_some(affinity),
        node_preferences: words.each("prefers").into_iter().map(preference).collect(),
        tolerations: words.each("tolerates").into_iter().map(toleration).collect(),
        pod_affinity: words.each("near").into_iter().map(term).collect(),
        pod_anti_affinity: words.each("far").into_iter().map(term).collect(),
        pod_preferences: words.each("likes").into_iter().map(|word| (100, term(word))).collect(),
        topology_spread,
        host_ports: words.number("port").into_iter().map(port).collect(),
        images: words.each("image").into_iter().map(Name::from).collect(),
    }
}

/// `numa=restricted/pod zone z0:cpu=4,gpus=2 zone z1:cpu=4/cpu=1`: of z1, one CPU is published as
/// free.
pub(super) fn numa(words: &mut Words<'_>) -> Option<NumaTopology> {
    let (policy, scope) = words.value("numa")?.split_once('/').expect("policy/scope");
    let policy = match policy {
        "none" => NumaPolicy::None,
        "best-effort" => NumaPolicy::BestEffort,
        "restricted" => NumaPolicy::Restricted,
        "single" => NumaPolicy::SingleNumaNode,
        other => panic!("no policy: {other}"),
    };
    let scope = match scope {
        "pod" => NumaScope::Pod,
        "container" => NumaScope::Container,
        other => panic!("no scope: {other}"),
    };
    let zone = |word: &str| {
        let (name, offers) = word.split_once(':').expect("name:amounts");
        let (allocatable, available) = offers.split_once('/').unwrap_or((offers, offers));
        let (allocatable, available) = (amounts(allocatable), amounts(available));
        NumaZone { name: name.into(), allocatable, available }
    };
    let zones = words.each("zone").into_iter().map(zone).collect();
    Some(NumaTopology { policy, scope, zones })
}

/// Where a pod stands, and what it has there.
#[derive(Default)]
pub(super) struct Place {
    pub(super) node: Option<Name>,
    pub(super) groups: Vec<Name>,
    pub(super) zones: Vec<ZoneShare>,
}

/// `n1/g1+g2`: on shared GPUs of n1. `n1@z0`: all that the pod asks for comes from zone z0;
/// `n1@z0+z1`: half from each.
pub(super) fn place(word: Option<&str>, requests: &Resources) -> Place {
    let Some(word) = word else { return Place::default() };
    let (word, zones) = word.split_once('@').unwrap_or((word, ""));
    let (node, groups) = word.split_once('/').unwrap_or((word, ""));
    let listed = |words: &str| -> Vec<Name> {
        words.split('+').filter(|word| !word.is_empty()).map(Name::from).collect()
    };
    let zones = listed(zones);
    let count = i64::try_from(zones.len()).expect("few zones").max(1);
    let amount = Resources {
        gpu_milli: requests.gpu_milli / count,
        cpu_milli: requests.cpu_milli / count,
        memory_bytes: requests.memory_bytes / count,
        ..Resources::default()
    };
    let share = |zone| ZoneShare { zone, amount: amount.clone() };
    Place {
        node: Some(node.into()),
        groups: listed(groups),
        zones: zones.into_iter().map(share).collect(),
    }
}

/// `cpu=2,gpus=1`, and `first:cpu=2` for one that ends before the others start.
fn container(word: &str) -> ContainerRequests {
    match word.strip_prefix("first:") {
        Some(word) => ContainerRequests { requests: amounts(word), ends: true },
        None => ContainerRequests { requests: amounts(word), ends: false },
    }
}

fn amounts(list: &str) -> Resources {
    let words = list.replace(',', " ");
    let mut words = Words::of(&words);
    let amounts = Resources {
        gpu_milli: words.milli("gpus").unwrap_or(0),
        cpu_milli: words.milli("cpu").unwrap_or(0),
        memory_bytes: words.bytes("memory").unwrap_or(0),
        pods: 0,
        extended: BTreeMap::new(),
    };
    words.end();
    amounts
}

/// `together=dc/zone` (required), `close=dc/rack` (preferred): level of a topology.
pub(super) fn places(words: &mut Words<'_>) -> Option<TopologyConstraint> {
    let level = |word: Option<&str>| {
        let (topology, level) = word?.split_once('/').expect("topology/level");
        Some((Name::from(topology), Name::from(level)))
    };
    let (required, preferred) = (level(words.value("together")), level(words.value("close")));
    let topology = required.as_ref().or(preferred.as_ref())?.0.clone();
    let (required, preferred) = (required.map(|it| it.1), preferred.map(|it| it.1));
    Some(TopologyConstraint { topology, required, preferred })
}

/// `x:2` a claim on two GPUs, `x:all` on all of the node, `x:2@q` of queue q, `x:2/n1` allocated on n1;
/// `x:nic*2` on two devices that are no GPUs, `x:1+big*1/n1` on one that counts as big, too.
fn claim(word: &str) -> DeviceClaim {
    let (word, allocated_on) = match word.split_once('/') {
        Some((word, node)) => (word, Some(Name::from(node))),
        None => (word, None),
    };
    let (word, besides) = word.split_once('+').map_or((word, None), |(word, of)| (word, Some(of)));
    let (name, rest) = word.split_once(':').expect("name:gpus");
    let (gpus, queue) = rest.split_once('@').unwrap_or((rest, "default"));
    let of = |count: i64| Resources { gpu_milli: count * 1000, ..Resources::default() };
    let (devices, every) = match gpus {
        "all" => (Resources::default(), BTreeMap::from([("gpu".into(), of(1))])),
        others if others.contains('*') => (devices_of(others), BTreeMap::new()),
        count => (of(count.parse().expect("a count")), BTreeMap::new()),
    };
    DeviceClaim {
        name: name.into(),
        devices,
        every,
        queue: (!queue.is_empty()).then(|| queue.into()),
        is_own: false,
        besides: besides.and_then(|of| Some((allocated_on.clone()?, devices_of(of)))),
        allocated_on,
        reserved_for_others: 0,
        reach: DeviceReach::OneNode,
    }
}

/// On devices of several nodes: `x?d1@zone=a,d2@` gets one of these, `x*2?d1@,d2@` two, and
/// `x@zone=a` has one that nodes of the zone can use. `x:2?d1@` gets one, and two GPUs of its node.
fn wide_claim(word: &str) -> DeviceClaim {
    let of = super::volume::unattached(word);
    let (name, count) = of.name.split_once('*').unwrap_or((&of.name, "1"));
    let is_beside = name.contains(':');
    let reach = match of.access {
        VolumeAccess::Open { volumes: devices, .. } => {
            let count: u32 = count.parse().expect("a count");
            let wish = |at| {
                let name = format!("{name} {at}").into();
                DeviceWish { name, devices: devices.clone() }
            };
            let wishes = (0..count).map(wish).collect();
            if is_beside { DeviceReach::Beside(wishes) } else { DeviceReach::Open(wishes) }
        }
        VolumeAccess::Bound(reach) => DeviceReach::Had(reach.affinity),
        VolumeAccess::Nowhere(_) => DeviceReach::OneNode,
    };
    let local = if is_beside { name.to_owned() } else { format!("{name}:0") };
    DeviceClaim { reach, ..claim(&local) }
}

/// `nic*2`, which a node offers as `extended nic=2`.
fn devices_of(word: &str) -> Resources {
    let (kind, count) = word.split_once('*').expect("kind*count");
    let count = count.parse().expect("a count");
    Resources { extended: BTreeMap::from([(kind.into(), count)]), ..Resources::default() }
}

/// `held x:1`, and `given-back x:1` where it is free soon.
pub(super) fn held_claims(words: &mut Words<'_>) -> Vec<HeldClaim> {
    let mut all = Vec::new();
    for (keyword, is_given_back) in [("held", false), ("given-back", true)] {
        all.extend(words.each(keyword).into_iter().map(|word| {
            let DeviceClaim { name, devices, .. } = claim(word);
            HeldClaim { name, devices, is_given_back }
        }));
    }
    all
}

/// `part=0.5` or `part-memory=4000`, and `devices=2` where it is of several.
fn shared_gpu(words: &mut Words<'_>) -> Option<SharedGpu> {
    let milli = words.milli("part").map(GpuPart::Milli);
    let part = milli.or_else(|| words.number("part-memory").map(GpuPart::MemoryMib))?;
    Some(SharedGpu { part, devices: words.count("devices").unwrap_or(1) })
}

pub(super) fn extended(words: &mut Words<'_>) -> BTreeMap<Name, i64> {
    let all = words.each("extended").into_iter().map(pair);
    all.map(|(name, count)| (name.into(), count.parse().expect("a count"))).collect()
}

fn is(key: &str, value: &str) -> Requirement {
    Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }
}

fn preference(word: &str) -> (i32, NodeSelectorTerm) {
    let (label, weight) = word.rsplit_once(':').unwrap_or((word, "1"));
    let (key, value) = pair(label);
    let term = NodeSelectorTerm { labels: vec![is(key, value)], fields: Vec::new() };
    (weight.parse().expect("a weight"), term)
}

fn toleration(word: &str) -> Toleration {
    let (taint, effect) = word.split_once(':').unwrap_or((word, ""));
    let (key, value) = pair(taint);
    let some = |text: &str| (!text.is_empty()).then(|| Name::from(text));
    Toleration {
        key: some(key),
        value: some(value),
        effect: (!effect.is_empty()).then(|| self::effect(effect)),
    }
}

pub(super) fn effect(word: &str) -> TaintEffect {
    match word {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => panic!("no taint effect: {other}"),
    }
}

/// `app=x/zone`, perhaps with namespaces: `app=x/zone@ns`, `app=x/zone@team=a`, `app=x/zone@*`.
fn term(word: &str) -> PodAffinityTerm {
    let (word, namespaces) = word.split_once('@').map_or((word, None), |(a, b)| (a, Some(b)));
    let (label, topology_key) = word.split_once('/').expect("label/topology");
    let set = |word: &str| match word {
        "*" => NamespaceSet { selector: Some(LabelSelector::default()), ..<_>::default() },
        label if label.contains('=') => {
            NamespaceSet { selector: Some(selector(label)), ..<_>::default() }
        }
        name => NamespaceSet { names: vec![name.into()], ..<_>::default() },
    };
    PodAffinityTerm {
        selector: Some(selector(label)),
        namespaces: namespaces.map(set),
        topology_key: topology(topology_key),
    }
}

fn selector(label: &str) -> LabelSelector {
    let (key, value) = pair(label);
    LabelSelector { requirements: vec![is(key, value)] }
}

fn topology(word: &str) -> Name {
    if word == "host" { "kubernetes.io/hostname".into() } else { word.into() }
}

/// `app=x/zone/1`, and `app=x/zone/1:3` over three domains at least.
fn spread(word: &str, when_unsatisfiable: WhenUnsatisfiable) -> TopologySpread {
    let (term, skew) = word.rsplit_once('/').expect("label/topology/skew");
    let (skew, least) = skew.split_once(':').map_or((skew, None), |(a, b)| (a, Some(b)));
    let (label, topology_key) = term.split_once('/').expect("label/topology/skew");
    TopologySpread {
        max_skew: skew.parse().expect("a skew"),
        topology_key: topology(topology_key),
        when_unsatisfiable,
        selector: Some(selector(label)),
        min_domains: least.map(|least| least.parse().expect("a count")),
        node_affinity_policy: Inclusion::Honor,
        node_taints_policy: Inclusion::Ignore,
    }
}

fn port(port: i64) -> HostPort {
    let port = u16::try_from(port).expect("a port");
    HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port }
}
