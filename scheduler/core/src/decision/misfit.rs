//! Why a pod does not fit on a node, and the same counted over all nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{
    DeviceMisfit, InOne, KeptApart, PlaceMisfit, Site, VolumeMisfit,
    obstacle::{has_more, worst},
};
use crate::{
    model::{Lack, MIG_ENABLED, Name, Selection},
    resources::{ResourceName, Shortage},
};

/// Why a pod does not fit on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfit {
    /// Room is short.
    TooLittle {
        /// Of what.
        of: Shortage,
        /// Is it short even on the empty node?
        even_when_empty: EvenWhenEmpty,
    },
    /// Each device of the node has less memory than it asks for.
    DeviceMemory {
        /// How much, in MiB; 0: unknown.
        mib: i64,
    },
    /// A taint keeps it away.
    Taint {
        /// `key` of the taint.
        key: Name,
        /// `value` of the taint.
        value: Name,
        /// So would another, and not for the node's state.
        has_more: bool,
    },
    /// The node is cordoned.
    Unschedulable,
    /// The node's condition `Ready` is not `True`.
    NotReady,
    /// Node selector or required node affinity do not match.
    NodeAffinity {
        /// `key=value` of what is selected by nothing but one label.
        label: Option<Name>,
    },
    /// Required pod affinity is not met.
    PodAffinity,
    /// Required pod affinity asks for pods of its own gang, which come after it.
    AffinityToMates,
    /// Required pod anti-affinity of the pod is not met.
    PodAntiAffinity,
    /// A pod there does not want it near.
    OthersAntiAffinity,
    /// A host port is taken.
    HostPort {
        /// The port, where the pod asks for a single one.
        port: Option<u16>,
    },
    /// It would be spread too unevenly over this key.
    TopologySpread(Name),
    /// So it would, but not if the key had as few values as it has: `minDomains` asks for more.
    TooFewDomains {
        /// The key over which it is to be spread.
        key: Name,
        /// How many values it has.
        domains: u32,
        /// How many are asked for.
        least: u32,
    },
    /// The node lacks the label of this key, over which the pod is to be spread.
    TopologySpreadLabel(Name),
    /// GPUs of the node are not to be had in parts.
    WholeGpusOnly,
    /// GPUs of the node are to be had as MIG instances only.
    MigInstancesOnly,
    /// GPUs of the node are not to be had as MIG instances: its label says that they are not split.
    NotSplit,
    /// The pod asks for MIG instances in a way that is served no more.
    LegacyMig,
    /// A pod runs there that uses MIG instances nobody knows of.
    LegacyMigThere,
    /// A claim is allocated on another node.
    ClaimElsewhere(Name),
    /// A claim has as many users as it may.
    ClaimFull(Name),
    /// A claim on GPUs belongs to another queue, or to none.
    ClaimOfQueue {
        /// The claim.
        claim: Name,
        /// The pod's queue.
        queue: Name,
        /// What the claim's label says.
        label: Option<Name>,
    },
    /// Its kubelet cannot align the pod with its zones, and would refuse it.
    NotAligned {
        /// Not even were nobody there?
        even_when_empty: EvenWhenEmpty,
    },
    /// The node's GPUs are to be had by claims only.
    GpusByClaim,
    /// The node's GPUs are not to be had by claims.
    GpusWithoutClaim,
    /// The pod asks for GPUs, and the node is not labelled for such work.
    NoGpuWorker,
    /// The pod asks for none, and the node is not labelled for such work.
    NoCpuWorker,
    /// Places of a topology.
    Place(PlaceMisfit),
    /// Volumes.
    Volume(VolumeMisfit),
    /// Claims on devices (profile `kube`).
    Devices(DeviceMisfit),
    /// What the pod costs there is more than its queues may have: in their words.
    QueueBound(Name),
}

/// Whether nobody's leaving would help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvenWhenEmpty {
    /// The node is too small.
    Yes,
    /// It is too full.
    No,
}

impl Misfit {
    /// Each pod to which it happens may need a node of its own.
    pub const fn needs_a_node_each(&self) -> bool {
        matches!(self, Self::PodAntiAffinity | Self::OthersAntiAffinity | Self::HostPort { .. })
    }

    /// A node can be opened to the pods to which it happens.
    pub const fn is_of_closed_nodes(&self) -> bool {
        self.is_of_role()
            || matches!(self, Self::Taint { .. } | Self::Unschedulable | Self::NotReady)
    }

    /// The node is not labelled for such work.
    pub(crate) const fn is_of_role(&self) -> bool {
        matches!(self, Self::NoGpuWorker | Self::NoCpuWorker)
    }

    /// The pod, or its volumes, select other nodes.
    pub(crate) const fn is_not_selected(&self) -> bool {
        matches!(
            self,
            Self::NodeAffinity { .. } | Self::Volume(VolumeMisfit::Elsewhere | VolumeMisfit::Zone)
        )
    }

    /// Room is all that is short there.
    pub(crate) const fn is_too_full(&self) -> bool {
        matches!(self, Self::TooLittle { even_when_empty: EvenWhenEmpty::No, .. })
    }

    /// Nobody's leaving would make room.
    pub(crate) const fn is_too_small(&self) -> bool {
        matches!(self, Self::TooLittle { even_when_empty: EvenWhenEmpty::Yes, .. })
    }

    /// Could it be cured by evicting somebody from the node?
    pub const fn is_curable(&self) -> bool {
        match self {
            Self::TooLittle { even_when_empty, .. } | Self::NotAligned { even_when_empty } => {
                matches!(even_when_empty, EvenWhenEmpty::No)
            }
            Self::Place(misfit) => misfit.is_curable(),
            Self::Volume(misfit) => misfit.is_curable(),
            Self::PodAntiAffinity
            | Self::OthersAntiAffinity
            | Self::HostPort { .. }
            | Self::QueueBound(_)
            | Self::ClaimElsewhere(_)
            | Self::ClaimFull(_)
            | Self::TopologySpread(_)
            | Self::TooFewDomains { .. } => true,
            Self::DeviceMemory { .. }
            | Self::Taint { .. }
            | Self::Unschedulable
            | Self::NotReady
            | Self::NodeAffinity { .. }
            | Self::PodAffinity
            | Self::AffinityToMates
            | Self::WholeGpusOnly
            | Self::MigInstancesOnly
            | Self::NotSplit
            | Self::LegacyMig
            | Self::LegacyMigThere
            | Self::ClaimOfQueue { .. }
            | Self::GpusByClaim
            | Self::GpusWithoutClaim
            | Self::NoGpuWorker
            | Self::NoCpuWorker
            | Self::Devices(_)
            | Self::TopologySpreadLabel(_) => false,
        }
    }

    /// In kube-scheduler's words; a node can be short of several things.
    fn kube_words(&self) -> Vec<String> {
        match self {
            Self::TooLittle { of, .. } => of.resources().map(|it| insufficient(&it)).collect(),
            Self::Taint { .. } => vec!["node(s) had untolerated taint(s)".to_owned()],
            Self::Volume(misfit) => vec![misfit.kube_words()],
            Self::DeviceMemory { .. }
            | Self::Unschedulable
            | Self::NotReady
            | Self::NodeAffinity { .. }
            | Self::PodAffinity
            | Self::AffinityToMates
            | Self::PodAntiAffinity
            | Self::OthersAntiAffinity
            | Self::HostPort { .. }
            | Self::TopologySpread(_)
            | Self::TooFewDomains { .. }
            | Self::TopologySpreadLabel(_)
            | Self::WholeGpusOnly
            | Self::MigInstancesOnly
            | Self::NotSplit
            | Self::LegacyMig
            | Self::LegacyMigThere
            | Self::ClaimElsewhere(_)
            | Self::ClaimFull(_)
            | Self::ClaimOfQueue { .. }
            | Self::NotAligned { .. }
            | Self::GpusByClaim
            | Self::GpusWithoutClaim
            | Self::Place(_)
            | Self::NoGpuWorker
            | Self::NoCpuWorker
            | Self::Devices(_)
            | Self::QueueBound(_) => vec![self.to_string()],
        }
    }
}

fn insufficient(resource: &ResourceName) -> String {
    match resource {
        ResourceName::Gpu => "Insufficient nvidia.com/gpu".to_owned(),
        ResourceName::Cpu => "Insufficient cpu".to_owned(),
        ResourceName::Memory => "Insufficient memory".to_owned(),
        ResourceName::Pods => "Too many pods".to_owned(),
        ResourceName::Extended(name) => format!("Insufficient {name}"),
    }
}

const WHOLE_ONLY: &str = "node(s) give whole GPUs only (MIG strategy single)";
const INSTANCES_ONLY: &str = "node(s) give MIG instances only (MIG strategy mixed)";
const UNEVEN: &str = "node(s) didn't match pod topology spread constraints";

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLittle { of, .. } => {
                let names: Vec<Name> = of.resources().map(short_name).collect();
                write!(f, "node(s) didn't have enough resources: {}", names.join(", "))
            }
            Self::DeviceMemory { .. } => {
                f.write_str("node(s) didn't have enough resources: GPU memory")
            }
            Self::Taint { key, value, .. } => {
                write!(f, "node(s) had untolerated taint {{{key}: {value}}}")
            }
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::NotReady => f.write_str("node(s) were not ready"),
            Self::NodeAffinity { .. } => {
                f.write_str("node(s) didn't match Pod's node affinity/selector")
            }
            Self::PodAffinity | Self::AffinityToMates => {
                f.write_str("node(s) didn't match pod affinity rules")
            }
            Self::PodAntiAffinity => f.write_str("node(s) didn't match pod anti-affinity rules"),
            Self::OthersAntiAffinity => {
                f.write_str("node(s) didn't satisfy existing pods anti-affinity rules")
            }
            Self::HostPort { .. } => {
                f.write_str("node(s) didn't have free ports for the requested pod ports")
            }
            Self::TopologySpread(_) | Self::TooFewDomains { .. } => f.write_str(UNEVEN),
            Self::TopologySpreadLabel(_) => f.write_str(
                "node(s) didn't match pod topology spread constraints (missing required label)",
            ),
            Self::WholeGpusOnly => f.write_str(WHOLE_ONLY),
            Self::MigInstancesOnly => f.write_str(INSTANCES_ONLY),
            Self::NotSplit => {
                write!(f, "node(s) give no MIG instances (label {MIG_ENABLED} is not true)")
            }
            Self::LegacyMig => f.write_str("node(s) take no pods that ask for MIG by annotation"),
            Self::LegacyMigThere => {
                f.write_str("node(s) had pods that use MIG instances by annotation")
            }
            Self::ClaimElsewhere(claim) => write!(f, "node(s) are not where claim {claim} is"),
            Self::ClaimFull(claim) => {
                write!(f, "node(s) do not matter: claim {claim} has as many users as it may")
            }
            Self::ClaimOfQueue { claim, queue, label } => {
                claim_of_queue(f, (claim, queue), label.as_ref())
            }
            Self::NotAligned { .. } => f.write_str(
                "node cannot NUMA-align the pod's resources under its Topology Manager policy",
            ),
            Self::GpusByClaim => f.write_str("node(s) give GPUs to resource claims only"),
            Self::GpusWithoutClaim => f.write_str("node(s) publish no GPUs for resource claims"),
            Self::NoGpuWorker => f.write_str("node(s) were not labelled as GPU workers"),
            Self::NoCpuWorker => f.write_str("node(s) were not labelled as CPU workers"),
            Self::Place(misfit) => misfit.fmt(f),
            Self::Volume(misfit) => misfit.fmt(f),
            Self::Devices(misfit) => misfit.fmt(f),
            Self::QueueBound(why) => write!(f, "node(s) are too costly: {why}"),
        }
    }
}

fn claim_of_queue(
    f: &mut fmt::Formatter<'_>,
    (claim, queue): (&Name, &Name),
    label: Option<&Name>,
) -> fmt::Result {
    write!(f, "node(s) do not matter: DRA claim {claim} is a shared GPU claim ")?;
    match label {
        Some(label) => write!(
            f,
            "with wrong queue label (expected queue: {queue}, claim queue label: {label})"
        ),
        None => f.write_str("but does not have a queue label (kai.scheduler/queue)"),
    }
}

pub(super) fn short_name(resource: ResourceName) -> Name {
    match resource {
        ResourceName::Gpu => "GPUs".into(),
        ResourceName::Cpu => "CPU cores".into(),
        ResourceName::Memory => "memory".into(),
        ResourceName::Pods => "pods".into(),
        ResourceName::Extended(name) => name,
    }
}

/// Why a pod fits on no node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misfits {
    /// How many nodes there are.
    pub nodes: u32,
    /// How many of them refuse it for what. A node is counted once.
    pub counts: BTreeMap<Refusal, u32>,
    /// What a node has to be like that is added for the pod. `None`: it does not matter to the pod
    /// where others are, or who gives GPUs.
    pub site: Option<Box<Site>>,
    /// What keeps it and others of its gang from each other, where nodes are in too few places for
    /// that, whoever leaves.
    pub kept_apart: Option<Box<KeptApart>>,
    /// How the pod selects nodes.
    pub selection: Selection,
    /// Where it selects nodes by their names: are those too small for it even when empty? `None`: it
    /// does not, or there are none of them.
    pub named_are_small: Option<bool>,
    /// What it and others need of places of a topology. `None`: nothing but room.
    pub places: Option<Box<PlaceWants>>,
    /// Nodes that are left out, where no other could be for the pod. `None`: others could, or there
    /// are none.
    pub left_out: Option<Box<Lacking>>,
}

/// What pods need of places of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceWants {
    /// Where all have to be in one: the nodes that have to be opened in the one of which the fewest have
    /// to. `None`: no place would hold them then.
    pub opening: Option<Opening>,
    /// Of a gang those that need a node, and have to be in one place each.
    pub in_one: Vec<InOne>,
}

/// Nodes that are closed to pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// What closes them.
    pub misfit: Misfit,
    /// Their names.
    pub nodes: Vec<Name>,
}

/// How many nodes lack what for the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacking(pub BTreeMap<BTreeSet<Lack>, (u32, Name)>);

/// Why one node refuses a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// What is told: what the first plugin says.
    pub first: Misfit,
    /// What stands most in the way.
    pub worst: Misfit,
    /// It would though all others left: for pods of its own gang.
    pub for_mates: bool,
    /// Its node would refuse the pod all the same if it were open to it.
    pub has_more: bool,
}

impl Misfits {
    /// One more node, all that speaks against it, and whether the worst of that is for pods of its
    /// own gang.
    pub fn count(
        &mut self,
        misfits: impl IntoIterator<Item = Misfit>,
        is_for_mates: impl Fn(&Misfit) -> bool,
    ) {
        self.nodes += 1;
        let mut misfits = misfits.into_iter();
        let Some(first) = misfits.next() else { return };
        let others: Vec<Misfit> = misfits.collect();
        let worst = worst(&first, others.iter().cloned());
        let for_mates = is_for_mates(&worst);
        let has_more = has_more(&worst, std::iter::once(&first).chain(&others));
        *self.counts.entry(Refusal { first, worst, for_mates, has_more }).or_default() += 1;
    }

    /// Those of other nodes.
    pub(crate) fn add(&mut self, other: Self) {
        self.nodes += other.nodes;
        for (refusal, nodes) in other.counts {
            *self.counts.entry(refusal).or_default() += nodes;
        }
        match (&mut self.site, other.site) {
            (Some(site), Some(other)) => site.add(*other),
            (site, other) => *site = site.take().or(other),
        }
        if self.selection == Selection::All {
            self.selection = other.selection;
        }
        let named = [self.named_are_small, other.named_are_small].into_iter().flatten();
        self.named_are_small = named.reduce(|one, other| one && other);
        self.places = self.places.take().or(other.places);
        self.left_out = self.left_out.take().or(other.left_out);
    }

    /// In kube-scheduler's words.
    pub(super) fn in_kube_words(&self) -> String {
        let mut by_words: BTreeMap<String, u32> = BTreeMap::new();
        for (Refusal { first, .. }, count) in &self.counts {
            for words in first.kube_words() {
                *by_words.entry(words).or_default() += count;
            }
        }
        let total = self.nodes;
        if total == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        format!("0/{total} nodes are available: {}.", listed(by_words.into_iter()))
    }
}

/// `count words` of each, in the order of the texts.
pub(super) fn listed(counts: impl Iterator<Item = (String, u32)>) -> String {
    let mut texts: Vec<String> = counts.map(|(words, count)| format!("{count} {words}")).collect();
    texts.sort();
    texts.join(", ")
}

impl fmt::Display for Misfits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no nodes with enough resources were found: ")?;
        if self.nodes == 0 {
            return match &self.left_out {
                None => f.write_str("there are no nodes."),
                Some(others) => write!(f, "there are no {others}."),
            };
        }
        let mut by_words: BTreeMap<String, u32> = BTreeMap::new();
        for (Refusal { first, .. }, count) in &self.counts {
            *by_words.entry(first.to_string()).or_default() += count;
        }
        let counts = listed(by_words.into_iter());
        write!(f, "{counts}.")?;
        match &self.left_out {
            None => Ok(()),
            Some(others) => write!(f, " {}.", others.besides()),
        }
    }
}
