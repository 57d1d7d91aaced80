//! Builds the shape of a pod.

use std::collections::BTreeMap;

use super::super::tokens::{Tokens, pair};
use schedlab_api::labels;
use schedlab_scheduler_core::{
    model::{
        ContainerRequests, DeviceClaim, DeviceReach, DeviceRequest, FractionalGpu, GpuFraction,
        HostPort, Inclusion, LabelSelector, Name, NamespaceSet, NodeSelectorTerm, NumaAllocation,
        NumaPolicy, NumaScope, NumaTopology, NumaZone, Operator, PodAffinityTerm, PodShape,
        Requirement, TaintEffect, Toleration, TopologyConstraint, TopologySpread, UnusedClaim,
        VolumeAccess, WhenUnsatisfiable,
    },
    resources::Resources,
};

/// `gpus=1 part=0.5 part-memory=4000 devices=2 cpu=2 memory=1Gi extended nic=1`, `needs zone=a`
/// (selector), `wants zone=a` and `named n1` (affinity; one of them suffices), `prefers zone=a:10`,
/// `tolerates key=value:NoSchedule`, `near app=x/zone`, `far app=x/zone`, `likes app=x/zone@team=a`,
/// `spread app=x/zone/1`, `evenly app=x/zone/1`, `port=80`, `image x`, `class gpu.x` (of GPUs that it
/// claims).
pub(super) fn pod_shape(tokens: &mut Tokens<'_>) -> PodShape {
    let gpu_milli = tokens.milli("gpus").unwrap_or(0);
    let (cpu_milli, memory_bytes) = (tokens.milli("cpu"), tokens.bytes("memory"));
    let named = tokens.each("named").into_iter().map(|node| NodeSelectorTerm {
        labels: Vec::new(),
        fields: vec![label_in("metadata.name", node)],
    });
    let labelled = tokens.each("wants").into_iter().map(pair).map(|(key, value)| {
        NodeSelectorTerm { labels: vec![label_in(key, value)], fields: Vec::new() }
    });
    let affinity: Vec<NodeSelectorTerm> = named.chain(labelled).collect();
    let spread = |tokens: &mut Tokens<'_>, key, when| {
        tokens.each(key).into_iter().map(move |word| spread(word, when)).collect::<Vec<_>>()
    };
    let mut topology_spread = spread(tokens, "spread", WhenUnsatisfiable::DoNotSchedule);
    topology_spread.extend(spread(tokens, "evenly", WhenUnsatisfiable::ScheduleAnyway));
    PodShape {
        requests: Resources {
            gpu_milli,
            cpu_milli: cpu_milli.unwrap_or(0),
            memory_bytes: memory_bytes.unwrap_or(0),
            pods: 1,
            extended: extended(tokens),
        },
        guaranteed: tokens.flag("guaranteed"),
        containers: tokens.each("container").into_iter().map(container).collect(),
        default_cpu_milli: if cpu_milli.is_some() { 0 } else { 100 },
        default_memory_bytes: if memory_bytes.is_some() { 0 } else { 200 << 20 },
        fractional_gpu: fractional_gpu(tokens),
        legacy_mig: tokens.flag("legacy-mig"),
        gpus_via_dra: tokens.flag("by-claim"),
        gpu_classes: tokens.each("class").into_iter().map(Name::from).collect(),
        claims: (tokens.each("claim").into_iter().map(claim))
            .chain(tokens.each("wide").into_iter().map(multi_node_claim))
            .chain(tokens.each("select").into_iter().map(super::device::shared_claim))
            .collect(),
        own_claims: (tokens.each("template").into_iter())
            .map(super::device::claim_requests)
            .collect(),
        volumes: super::volume::volume_claims(tokens),
        node_selector: tokens.each("needs").into_iter().map(super::label).collect(),
        node_affinity: (!affinity.is_empty()).then_some(affinity),
        node_preferences: tokens.each("prefers").into_iter().map(preference).collect(),
        tolerations: tokens.each("tolerates").into_iter().map(toleration).collect(),
        pod_affinity: tokens.each("near").into_iter().map(term).collect(),
        pod_anti_affinity: tokens.each("far").into_iter().map(term).collect(),
        pod_preferences: tokens.each("likes").into_iter().map(|word| (100, term(word))).collect(),
        topology_spread,
        host_ports: tokens.number("port").into_iter().map(port).collect(),
        images: tokens.each("image").into_iter().map(Name::from).collect(),
    }
}

/// `numa=restricted/pod zone z0:cpu=4,gpus=2 zone z1:cpu=4/cpu=1`: of z1, one CPU is published as
/// free.
pub(super) fn numa(tokens: &mut Tokens<'_>) -> Option<NumaTopology> {
    let (policy, scope) = tokens.value("numa")?.split_once('/').expect("policy/scope");
    let policy = match policy {
        "none" => NumaPolicy::None,
        "best-effort" => NumaPolicy::BestEffort,
        "restricted" => NumaPolicy::Restricted,
        "single" => NumaPolicy::SingleNumaNode,
        other => panic!("unknown NUMA policy: {other}"),
    };
    let scope = match scope {
        "pod" => NumaScope::Pod,
        "container" => NumaScope::Container,
        other => panic!("unknown NUMA scope: {other}"),
    };
    let zone = |word: &str| {
        let (name, offers) = word.split_once(':').expect("name:amounts");
        let (allocatable, available) = offers.split_once('/').unwrap_or((offers, offers));
        let (allocatable, available) = (amounts(allocatable), amounts(available));
        NumaZone { name: name.into(), allocatable, available }
    };
    let zones = tokens.each("zone").into_iter().map(zone).collect();
    Some(NumaTopology { policy, scope, zones })
}

/// The node of a pod, and what it has there.
#[derive(Default)]
pub(super) struct NodePosition {
    pub(super) node: Option<Name>,
    pub(super) gpu_groups: Vec<Name>,
    pub(super) numa_allocations: Vec<NumaAllocation>,
}

/// `n1/g1+g2`: on shared GPUs of n1. `n1@z0`: everything that the pod requests comes from zone z0;
/// `n1@z0+z1`: half from each.
pub(super) fn node_position(word: Option<&str>, requests: &Resources) -> NodePosition {
    let Some(word) = word else { return NodePosition::default() };
    let (word, zones) = word.split_once('@').unwrap_or((word, ""));
    let (node, groups) = word.split_once('/').unwrap_or((word, ""));
    let listed = |tokens: &str| -> Vec<Name> {
        tokens.split('+').filter(|word| !word.is_empty()).map(Name::from).collect()
    };
    let zones = listed(zones);
    let count = i64::try_from(zones.len()).expect("few zones").max(1);
    let amount = Resources {
        gpu_milli: requests.gpu_milli / count,
        cpu_milli: requests.cpu_milli / count,
        memory_bytes: requests.memory_bytes / count,
        ..Resources::default()
    };
    let share = |zone| NumaAllocation { zone, amount: amount.clone() };
    NodePosition {
        node: Some(node.into()),
        gpu_groups: listed(groups),
        numa_allocations: zones.into_iter().map(share).collect(),
    }
}

/// `cpu=2,gpus=1`, and `first:cpu=2` for one that ends before the others start.
fn container(word: &str) -> ContainerRequests {
    match word.strip_prefix("first:") {
        Some(word) => ContainerRequests { requests: amounts(word), ends_before_next: true },
        None => ContainerRequests { requests: amounts(word), ends_before_next: false },
    }
}

fn amounts(list: &str) -> Resources {
    let tokens = list.replace(',', " ");
    let mut tokens = Tokens::new(&tokens);
    let amounts = Resources {
        gpu_milli: tokens.milli("gpus").unwrap_or(0),
        cpu_milli: tokens.milli("cpu").unwrap_or(0),
        memory_bytes: tokens.bytes("memory").unwrap_or(0),
        pods: 0,
        extended: BTreeMap::new(),
    };
    tokens.expect_end();
    amounts
}

/// `together=dc/zone` (required), `close=dc/rack` (preferred): level of a topology.
pub(super) fn topology_constraint(tokens: &mut Tokens<'_>) -> Option<TopologyConstraint> {
    let level = |word: Option<&str>| {
        let (topology, level) = word?.split_once('/').expect("topology/level");
        Some((Name::from(topology), Name::from(level)))
    };
    let (required, preferred) = (level(tokens.value("together")), level(tokens.value("close")));
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
        requests: None,
        allocate_all: every,
        queue: (!queue.is_empty()).then(|| queue.into()),
        plugin_resources: None,
        is_pod_owned: false,
        also_counts_as: besides.and_then(|of| Some((allocated_on.clone()?, devices_of(of)))),
        allocated_on,
        reserved_for_others: 0,
        reach: DeviceReach::NodeLocal,
    }
}

/// On devices that several nodes can use: `x?d1@zone=a,d2@` gets one of these, `x*2?d1@,d2@` two,
/// and `x@zone=a` has one that nodes of the zone can use. `x:2?d1@` gets one, and two GPUs of its
/// node.
fn multi_node_claim(word: &str) -> DeviceClaim {
    let of = super::volume::unattached(word);
    let (name, count) = of.name.split_once('*').unwrap_or((&of.name, "1"));
    let is_beside = name.contains(':');
    let reach = match of.access {
        VolumeAccess::WaitForFirstConsumer { volumes: devices, .. } => {
            let count: u32 = count.parse().expect("a count");
            let request = |at| {
                let name = format!("{name} {at}").into();
                DeviceRequest { name, devices: devices.clone() }
            };
            let requests = (0..count).map(request).collect();
            if is_beside {
                DeviceReach::PendingWithNodeLocal(requests)
            } else {
                DeviceReach::Pending(requests)
            }
        }
        VolumeAccess::Bound(reach) => DeviceReach::Allocated(reach.affinity),
        VolumeAccess::Unavailable(_) => DeviceReach::NodeLocal,
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
pub(super) fn unused_claims(tokens: &mut Tokens<'_>) -> Vec<UnusedClaim> {
    let mut all = Vec::new();
    for (keyword, is_given_back) in [("held", false), ("given-back", true)] {
        all.extend(tokens.each(keyword).into_iter().map(|word| {
            let DeviceClaim { name, devices, .. } = claim(word);
            UnusedClaim { name, devices, is_deallocating: is_given_back }
        }));
    }
    all
}

/// `part=0.5` or `part-memory=4000`, and `devices=2` where it is of several.
fn fractional_gpu(tokens: &mut Tokens<'_>) -> Option<FractionalGpu> {
    let milli = tokens.milli("part").map(GpuFraction::Milli);
    let fraction = milli.or_else(|| tokens.number("part-memory").map(GpuFraction::MemoryMib))?;
    Some(FractionalGpu { fraction, devices: tokens.count("devices").unwrap_or(1) })
}

pub(super) fn extended(tokens: &mut Tokens<'_>) -> BTreeMap<Name, i64> {
    let all = tokens.each("extended").into_iter().map(pair);
    all.map(|(name, count)| (name.into(), count.parse().expect("a count"))).collect()
}

fn label_in(key: &str, value: &str) -> Requirement {
    Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }
}

fn preference(word: &str) -> (i32, NodeSelectorTerm) {
    let (label, weight) = word.rsplit_once(':').unwrap_or((word, "1"));
    let (key, value) = pair(label);
    let term = NodeSelectorTerm { labels: vec![label_in(key, value)], fields: Vec::new() };
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
        other => panic!("unknown taint effect: {other}"),
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
    LabelSelector { requirements: vec![label_in(key, value)] }
}

fn topology(word: &str) -> Name {
    if word == "host" { labels::HOSTNAME.into() } else { word.into() }
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
