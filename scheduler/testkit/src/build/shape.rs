//! Builds the shape of a pod.

use std::collections::BTreeMap;

use super::super::tokens::{LineTokens, split_key_value};
use schedlab_api::labels;
use schedlab_scheduler_core::{
    model::{
        ContainerRequests, DeviceClaim, DeviceReach, FractionalGpu, GpuFraction, HostPort,
        Inclusion, LabelSelector, Name, NamespaceSet, NodeSelectorTerm, NumaAllocation, NumaPolicy,
        NumaScope, NumaTopology, NumaZone, Operator, PodAffinityTerm, PodShape, Requirement,
        TaintEffect, Toleration, TopologyConstraint, TopologySpread, UnusedClaim,
        WhenUnsatisfiable,
    },
    resources::Resources,
};

/// Parses the words that make up a shape: `gpus=1 part=0.5 part-memory=4000 devices=2 cpu=2
/// memory=1Gi extended nic=1`, `needs zone=a` (selector), `wants zone=a` and `named n1` (affinity;
/// one of them suffices), `prefers zone=a:10`, `tolerates key=value:NoSchedule`, `near app=x/zone`,
/// `far app=x/zone`, `likes app=x/zone@team=a`, `spread app=x/zone/1`, `evenly app=x/zone/1`,
/// `port=80`, `image x`, `class gpu.x` (of GPUs that it claims).
pub(super) fn parse_pod_shape(tokens: &mut LineTokens<'_>) -> PodShape {
    let gpu_milli = tokens.take_milli("gpus").unwrap_or(0);
    let (cpu_milli, memory_bytes) = (tokens.take_milli("cpu"), tokens.take_bytes("memory"));
    let named = tokens.take_each("named").into_iter().map(|node| NodeSelectorTerm {
        labels: Vec::new(),
        fields: vec![label_in("metadata.name", node)],
    });
    let labelled =
        tokens.take_each("wants").into_iter().map(split_key_value).map(|(key, value)| {
            NodeSelectorTerm { labels: vec![label_in(key, value)], fields: Vec::new() }
        });
    let affinity: Vec<NodeSelectorTerm> = named.chain(labelled).collect();
    let spread = |tokens: &mut LineTokens<'_>, key, when| {
        tokens
            .take_each(key)
            .into_iter()
            .map(move |word| parse_topology_spread(word, when))
            .collect::<Vec<_>>()
    };
    let mut topology_spread = spread(tokens, "spread", WhenUnsatisfiable::DoNotSchedule);
    topology_spread.extend(spread(tokens, "evenly", WhenUnsatisfiable::ScheduleAnyway));
    PodShape {
        requests: Resources {
            gpu_milli,
            cpu_milli: cpu_milli.unwrap_or(0),
            memory_bytes: memory_bytes.unwrap_or(0),
            pods: 1,
            extended: parse_extended_resources(tokens),
        },
        guaranteed: tokens.take_flag("guaranteed"),
        containers: tokens.take_each("container").into_iter().map(parse_container).collect(),
        default_cpu_milli: if cpu_milli.is_some() { 0 } else { 100 },
        default_memory_bytes: if memory_bytes.is_some() { 0 } else { 200 << 20 },
        fractional_gpu: parse_fractional_gpu(tokens),
        legacy_mig: tokens.take_flag("legacy-mig"),
        gpus_via_dra: tokens.take_flag("by-claim"),
        gpu_classes: tokens.take_each("class").into_iter().map(Name::from).collect(),
        claims: (tokens.take_each("claim").into_iter().map(parse_claim))
            .chain(tokens.take_each("wide").into_iter().map(super::multi_node::parse_claim))
            .chain(tokens.take_each("select").into_iter().map(super::device::parse_shared_claim))
            .collect(),
        own_claims: (tokens.take_each("template").into_iter())
            .map(super::device::parse_claim_requests)
            .collect(),
        volumes: super::volume::parse_volume_claims(tokens),
        node_selector: tokens.take_each("needs").into_iter().map(super::parse_label).collect(),
        node_affinity: (!affinity.is_empty()).then_some(affinity),
        node_preferences: tokens
            .take_each("prefers")
            .into_iter()
            .map(parse_node_preference)
            .collect(),
        tolerations: tokens.take_each("tolerates").into_iter().map(parse_toleration).collect(),
        pod_affinity: tokens.take_each("near").into_iter().map(parse_affinity_term).collect(),
        pod_anti_affinity: tokens.take_each("far").into_iter().map(parse_affinity_term).collect(),
        pod_preferences: tokens
            .take_each("likes")
            .into_iter()
            .map(|word| (100, parse_affinity_term(word)))
            .collect(),
        topology_spread,
        host_ports: tokens.take_number("port").into_iter().map(tcp_host_port).collect(),
        images: tokens.take_each("image").into_iter().map(Name::from).collect(),
    }
}

/// Parses NUMA zones, such as `numa=restricted/pod zone z0:cpu=4,gpus=2 zone z1:cpu=4/cpu=1`, where
/// one CPU of `z1` is published as free.
pub(super) fn parse_numa_topology(tokens: &mut LineTokens<'_>) -> Option<NumaTopology> {
    let (policy, scope) = tokens.take_value("numa")?.split_once('/').expect("policy/scope");
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
        let (allocatable, available) = (parse_resources(allocatable), parse_resources(available));
        NumaZone { name: name.into(), allocatable, available }
    };
    let zones = tokens.take_each("zone").into_iter().map(zone).collect();
    Some(NumaTopology { policy, scope, zones })
}

/// The node of a pod, with the shared GPUs and NUMA zones that the pod has there.
#[derive(Default)]
pub(super) struct NodePosition {
    pub(super) node: Option<Name>,
    pub(super) gpu_groups: Vec<Name>,
    pub(super) numa_allocations: Vec<NumaAllocation>,
}

/// Parses the node of a pod: `n1/g1+g2` is on the shared GPUs g1 and g2 of n1; `n1@z0` has all its
/// requests from NUMA zone z0; `n1@z0+z1` has half from each zone.
pub(super) fn parse_node_position(word: Option<&str>, requests: &Resources) -> NodePosition {
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

/// Parses the requests of a container: `cpu=2,gpus=1`, or `first:cpu=2` for an init container that
/// ends before the others start.
fn parse_container(word: &str) -> ContainerRequests {
    match word.strip_prefix("first:") {
        Some(word) => ContainerRequests { requests: parse_resources(word), ends_before_next: true },
        None => ContainerRequests { requests: parse_resources(word), ends_before_next: false },
    }
}

fn parse_resources(list: &str) -> Resources {
    let tokens = list.replace(',', " ");
    let mut tokens = LineTokens::new(&tokens);
    let amounts = Resources {
        gpu_milli: tokens.take_milli("gpus").unwrap_or(0),
        cpu_milli: tokens.take_milli("cpu").unwrap_or(0),
        memory_bytes: tokens.take_bytes("memory").unwrap_or(0),
        pods: 0,
        extended: BTreeMap::new(),
    };
    tokens.expect_end();
    amounts
}

/// Parses a topology constraint: `together=dc/zone` is the required level, `close=dc/rack` the
/// preferred level of topology `dc`.
pub(super) fn parse_topology_constraint(tokens: &mut LineTokens<'_>) -> Option<TopologyConstraint> {
    let level = |word: Option<&str>| {
        let (topology, level) = word?.split_once('/').expect("topology/level");
        Some((Name::from(topology), Name::from(level)))
    };
    let (required, preferred) =
        (level(tokens.take_value("together")), level(tokens.take_value("close")));
    let topology = required.as_ref().or(preferred.as_ref())?.0.clone();
    let (required, preferred) = (required.map(|it| it.1), preferred.map(|it| it.1));
    Some(TopologyConstraint { topology, required, preferred })
}

/// Parses a device claim: `x:2` is a claim on two GPUs, `x:all` on all of the node, `x:2@q` of
/// queue q, `x:2/n1` allocated on n1; `x:nic*2` on two devices that are no GPUs, `x:1+big*1/n1` on
/// one that counts as `big`, too.
pub(super) fn parse_claim(word: &str) -> DeviceClaim {
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
        others if others.contains('*') => (parse_devices(others), BTreeMap::new()),
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
        also_counts_as: besides.and_then(|of| Some((allocated_on.clone()?, parse_devices(of)))),
        allocated_on,
        reserved_for_others: 0,
        reach: DeviceReach::NodeLocal,
    }
}

/// Parses a number of devices: `nic*2`, which a node offers as `extended nic=2`.
fn parse_devices(word: &str) -> Resources {
    let (kind, count) = word.split_once('*').expect("kind*count");
    let count = count.parse().expect("a count");
    Resources { extended: BTreeMap::from([(kind.into(), count)]), ..Resources::default() }
}

/// Parses claims that are allocated on a node but unused: `held x:1`, or `given-back x:1` where the
/// devices are free soon.
pub(super) fn parse_unused_claims(tokens: &mut LineTokens<'_>) -> Vec<UnusedClaim> {
    let mut all = Vec::new();
    for (keyword, is_given_back) in [("held", false), ("given-back", true)] {
        all.extend(tokens.take_each(keyword).into_iter().map(|word| {
            let DeviceClaim { name, devices, .. } = parse_claim(word);
            UnusedClaim { name, devices, is_deallocating: is_given_back }
        }));
    }
    all
}

/// Parses a GPU fraction: `part=0.5` or `part-memory=4000`, and `devices=2` where it is of several
/// GPUs.
fn parse_fractional_gpu(tokens: &mut LineTokens<'_>) -> Option<FractionalGpu> {
    let milli = tokens.take_milli("part").map(GpuFraction::Milli);
    let fraction =
        milli.or_else(|| tokens.take_number("part-memory").map(GpuFraction::MemoryMib))?;
    Some(FractionalGpu { fraction, devices: tokens.take_count("devices").unwrap_or(1) })
}

pub(super) fn parse_extended_resources(tokens: &mut LineTokens<'_>) -> BTreeMap<Name, i64> {
    let all = tokens.take_each("extended").into_iter().map(split_key_value);
    all.map(|(name, count)| (name.into(), count.parse().expect("a count"))).collect()
}

fn label_in(key: &str, value: &str) -> Requirement {
    Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }
}

fn parse_node_preference(word: &str) -> (i32, NodeSelectorTerm) {
    let (label, weight) = word.rsplit_once(':').unwrap_or((word, "1"));
    let (key, value) = split_key_value(label);
    let term = NodeSelectorTerm { labels: vec![label_in(key, value)], fields: Vec::new() };
    (weight.parse().expect("a weight"), term)
}

fn parse_toleration(word: &str) -> Toleration {
    let (taint, effect) = word.split_once(':').unwrap_or((word, ""));
    let (key, value) = split_key_value(taint);
    let some = |text: &str| (!text.is_empty()).then(|| Name::from(text));
    Toleration {
        key: some(key),
        value: some(value),
        effect: (!effect.is_empty()).then(|| parse_taint_effect(effect)),
    }
}

pub(super) fn parse_taint_effect(word: &str) -> TaintEffect {
    match word {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => panic!("unknown taint effect: {other}"),
    }
}

/// Parses a pod affinity term: `app=x/zone`, perhaps with namespaces: `app=x/zone@ns`,
/// `app=x/zone@team=a`, `app=x/zone@*`.
fn parse_affinity_term(word: &str) -> PodAffinityTerm {
    let (word, namespaces) = word.split_once('@').map_or((word, None), |(a, b)| (a, Some(b)));
    let (label, topology_key) = word.split_once('/').expect("label/topology");
    let set = |word: &str| match word {
        "*" => NamespaceSet { selector: Some(LabelSelector::default()), ..<_>::default() },
        label if label.contains('=') => {
            NamespaceSet { selector: Some(parse_label_selector(label)), ..<_>::default() }
        }
        name => NamespaceSet { names: vec![name.into()], ..<_>::default() },
    };
    PodAffinityTerm {
        selector: Some(parse_label_selector(label)),
        namespaces: namespaces.map(set),
        topology_key: parse_topology_key(topology_key),
    }
}

fn parse_label_selector(label: &str) -> LabelSelector {
    let (key, value) = split_key_value(label);
    LabelSelector { requirements: vec![label_in(key, value)] }
}

fn parse_topology_key(word: &str) -> Name {
    if word == "host" { labels::HOSTNAME.into() } else { word.into() }
}

/// Parses a topology spread constraint: `app=x/zone/1` (max skew 1), and `app=x/zone/1:3` with
/// `minDomains` 3.
fn parse_topology_spread(word: &str, when_unsatisfiable: WhenUnsatisfiable) -> TopologySpread {
    let (term, skew) = word.rsplit_once('/').expect("label/topology/skew");
    let (skew, least) = skew.split_once(':').map_or((skew, None), |(a, b)| (a, Some(b)));
    let (label, topology_key) = term.split_once('/').expect("label/topology/skew");
    TopologySpread {
        max_skew: skew.parse().expect("a skew"),
        topology_key: parse_topology_key(topology_key),
        when_unsatisfiable,
        selector: Some(parse_label_selector(label)),
        min_domains: least.map(|least| least.parse().expect("a count")),
        node_affinity_policy: Inclusion::Honor,
        node_taints_policy: Inclusion::Ignore,
    }
}

fn tcp_host_port(port: i64) -> HostPort {
    let port = u16::try_from(port).expect("a port");
    HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port }
}
