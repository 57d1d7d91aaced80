//! Exact amounts of what nodes offer and pods ask: integers only, so that equal inputs give
//! equal decisions on every machine.

use std::collections::BTreeMap;

use crate::model::Name;

/// Amounts of every resource. Units: thousandths of a GPU and of a CPU core, bytes, pods, and
/// plain counts for extended resources other than `nvidia.com/gpu`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources {
    /// `nvidia.com/gpu`, in thousandths of a device.
    pub gpu_milli: i64,
    /// `cpu`, in thousandths of a core.
    pub cpu_milli: i64,
    /// `memory`, in bytes.
    pub memory_bytes: i64,
    /// `pods`: one for each pod.
    pub pods: i64,
    /// Other extended resources by name (`ephemeral-storage` and hugepages included).
    pub extended: BTreeMap<Name, i64>,
}

/// One value for each resource that queues account for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerResource<T> {
    /// `nvidia.com/gpu`.
    pub gpu: T,
    /// `cpu`.
    pub cpu: T,
    /// `memory`.
    pub memory: T,
}

/// A bound that may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Amount {
    /// At most this much, in the units of [`Resources`].
    Exactly(i64),
    /// No bound (`-1` in the Queue API).
    Unlimited,
}

impl Resources {
    /// So much a node offers of what it gives to whoever asks, and has no less of then: more than pods
    /// can be there.
    pub const FOR_ALL: i64 = 1 << 20;

    /// The part that queues account for.
    pub const fn accounted(&self) -> PerResource<i64> {
        PerResource { gpu: self.gpu_milli, cpu: self.cpu_milli, memory: self.memory_bytes }
    }

    /// Adds `other`; stops at the ends of `i64` instead of wrapping.
    pub fn add(&mut self, other: &Self) {
        self.change(other, i64::saturating_add);
    }

    /// Takes `other` away; stops at the ends of `i64` instead of wrapping.
    pub fn subtract(&mut self, other: &Self) {
        self.change(other, i64::saturating_sub);
    }

    fn change(&mut self, other: &Self, operation: fn(i64, i64) -> i64) {
        self.gpu_milli = operation(self.gpu_milli, other.gpu_milli);
        self.cpu_milli = operation(self.cpu_milli, other.cpu_milli);
        self.memory_bytes = operation(self.memory_bytes, other.memory_bytes);
        self.pods = operation(self.pods, other.pods);
        for (name, amount) in &other.extended {
            match self.extended.get_mut(name) {
                Some(mine) => *mine = operation(*mine, *amount),
                None => {
                    self.extended.insert(name.clone(), operation(0, *amount));
                }
            }
        }
    }

    /// The sum; stops at the ends of `i64` instead of wrapping.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    /// So many times as much; stops at the ends of `i64` instead of wrapping.
    #[must_use]
    pub fn times(&self, count: i64) -> Self {
        let extended = self.extended.iter();
        let extended =
            extended.map(|(name, amount)| (Name::clone(name), amount.saturating_mul(count)));
        Self {
            gpu_milli: self.gpu_milli.saturating_mul(count),
            cpu_milli: self.cpu_milli.saturating_mul(count),
            memory_bytes: self.memory_bytes.saturating_mul(count),
            pods: self.pods.saturating_mul(count),
            extended: extended.collect(),
        }
    }

    /// The smaller amount of each. What only one of them names is not there in the other.
    #[must_use]
    pub fn lesser(&self, other: &Self) -> Self {
        let extended = self
            .extended
            .iter()
            .map(|(name, amount)| (Name::clone(name), (*amount).min(other.extended_of(name))));
        let mut extended: BTreeMap<Name, i64> = extended.collect();
        for (name, amount) in &other.extended {
            extended.entry(Name::clone(name)).or_insert((*amount).min(0));
        }
        Self {
            gpu_milli: self.gpu_milli.min(other.gpu_milli),
            cpu_milli: self.cpu_milli.min(other.cpu_milli),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            pods: self.pods.min(other.pods),
            extended,
        }
    }

    /// The greater amount of each.
    #[must_use]
    pub fn greater(&self, other: &Self) -> Self {
        let mut greater = self.plus(other);
        greater.subtract(&self.lesser(other));
        greater
    }

    /// Negative amounts count as zero; of extended resources only those that are there remain.
    #[must_use]
    pub fn at_least_zero(&self) -> Self {
        let extended = self.extended.iter().filter(|(_, amount)| **amount > 0);
        Self {
            gpu_milli: self.gpu_milli.max(0),
            cpu_milli: self.cpu_milli.max(0),
            memory_bytes: self.memory_bytes.max(0),
            pods: self.pods.max(0),
            extended: extended.map(|(name, amount)| (Name::clone(name), *amount)).collect(),
        }
    }

    /// What there is more than nothing of.
    pub fn amounts(&self) -> impl Iterator<Item = (ResourceName, i64)> + '_ {
        let fixed = [
            (ResourceName::Gpu, self.gpu_milli),
            (ResourceName::Cpu, self.cpu_milli),
            (ResourceName::Memory, self.memory_bytes),
            (ResourceName::Pods, self.pods),
        ];
        let extended = self.extended.iter();
        let extended =
            extended.map(|(name, amount)| (ResourceName::Extended(Name::clone(name)), *amount));
        fixed.into_iter().chain(extended).filter(|(_, amount)| *amount > 0)
    }

    /// Everything asked for here is there. What is not asked for may be short.
    pub fn fits_in(&self, room: &Self) -> bool {
        let fits = |asked: i64, free: i64| asked <= 0 || asked <= free;
        fits(self.gpu_milli, room.gpu_milli)
            && fits(self.cpu_milli, room.cpu_milli)
            && fits(self.memory_bytes, room.memory_bytes)
            && fits(self.pods, room.pods)
            && self.extended.iter().all(|(name, asked)| fits(*asked, room.extended_of(name)))
    }

    /// How much of one of the other extended resources; 0 when it is not there.
    pub fn extended_of(&self, name: &str) -> i64 {
        self.extended.get(name).copied().unwrap_or(0)
    }

    /// What is asked for here and is short there.
    pub fn short_in(&self, room: &Self) -> Shortage {
        let short = |asked: i64, free: i64| asked > 0 && asked > free;
        let extended = self.extended.iter();
        let extended = extended.filter(|(name, asked)| short(**asked, room.extended_of(name)));
        Shortage {
            gpu: short(self.gpu_milli, room.gpu_milli),
            cpu: short(self.cpu_milli, room.cpu_milli),
            memory: short(self.memory_bytes, room.memory_bytes),
            pods: short(self.pods, room.pods),
            extended: extended.map(|(name, _)| name.clone()).collect(),
        }
    }

    /// How much of one resource.
    pub fn amount(&self, resource: &ResourceName) -> i64 {
        match resource {
            ResourceName::Gpu => self.gpu_milli,
            ResourceName::Cpu => self.cpu_milli,
            ResourceName::Memory => self.memory_bytes,
            ResourceName::Pods => self.pods,
            ResourceName::Extended(name) => self.extended_of(name),
        }
    }
}

/// Which resources are short.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "a set of resources, made for every node")]
pub struct Shortage {
    /// `nvidia.com/gpu` is.
    pub gpu: bool,
    /// `cpu` is.
    pub cpu: bool,
    /// `memory` is.
    pub memory: bool,
    /// `pods` is.
    pub pods: bool,
    /// Others that are.
    pub extended: Vec<Name>,
}

impl Shortage {
    /// Nothing is short.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is short, in a fixed order.
    pub fn resources(&self) -> impl Iterator<Item = ResourceName> + '_ {
        let fixed = [
            (self.gpu, ResourceName::Gpu),
            (self.cpu, ResourceName::Cpu),
            (self.memory, ResourceName::Memory),
            (self.pods, ResourceName::Pods),
        ];
        let fixed = fixed.into_iter().filter(|(short, _)| *short).map(|(_, name)| name);
        fixed.chain(self.extended.iter().cloned().map(ResourceName::Extended))
    }
}

/// Which resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceName {
    /// `nvidia.com/gpu`.
    Gpu,
    /// `cpu`.
    Cpu,
    /// `memory`.
    Memory,
    /// `pods`.
    Pods,
    /// Another one.
    Extended(Name),
}

impl ResourceName {
    /// What queues account for, in the order of [`PerResource`].
    pub const ACCOUNTED: [Self; 3] = [Self::Gpu, Self::Cpu, Self::Memory];
}

impl<T: Copy> PerResource<T> {
    /// Each one changed.
    #[must_use]
    pub fn map<U>(self, change: impl Fn(T) -> U) -> PerResource<U> {
        PerResource { gpu: change(self.gpu), cpu: change(self.cpu), memory: change(self.memory) }
    }

    /// GPU, CPU, memory.
    pub const fn values(self) -> [T; 3] {
        [self.gpu, self.cpu, self.memory]
    }
}

impl PerResource<i64> {
    /// Sum of each; never wraps.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            gpu: self.gpu.saturating_add(other.gpu),
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    /// Difference of each; never wraps.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            gpu: self.gpu.saturating_sub(other.gpu),
            cpu: self.cpu.saturating_sub(other.cpu),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    /// Negative parts count as zero.
    #[must_use]
    pub fn at_least_zero(self) -> Self {
        Self { gpu: self.gpu.max(0), cpu: self.cpu.max(0), memory: self.memory.max(0) }
    }

    /// No part of it exceeds its bound.
    pub fn within(self, bounds: PerResource<Amount>) -> bool {
        self.values().into_iter().zip(bounds.values()).all(|(value, bound)| bound.holds(value))
    }
}

impl Amount {
    /// `value` does not exceed it.
    pub const fn holds(self, value: i64) -> bool {
        match self {
            Self::Exactly(bound) => value <= bound,
            Self::Unlimited => true,
        }
    }

    /// The bound, or `otherwise` where there is none.
    pub const fn or(self, otherwise: i64) -> i64 {
        match self {
            Self::Exactly(bound) => bound,
            Self::Unlimited => otherwise,
        }
    }
}
