//! Exact amounts of what nodes offer and pods request: integers only, so that equal inputs give
//! equal decisions on every machine.

use std::collections::BTreeMap;

use crate::name::Name;

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
    /// There is no bound (`-1` in the Queue API).
    Unlimited,
}

impl Resources {
    /// Amount of a resource that never runs out, however many pods request it: more than the pods
    /// that fit on a node.
    pub const INEXHAUSTIBLE: i64 = 1 << 20;

    /// The amounts of GPU, CPU and memory, for which queues account.
    pub const fn accounted_amounts(&self) -> PerResource<i64> {
        PerResource { gpu: self.gpu_milli, cpu: self.cpu_milli, memory: self.memory_bytes }
    }

    /// Adds `other`; amounts saturate.
    pub fn add(&mut self, other: &Self) {
        self.apply_elementwise(other, i64::saturating_add);
    }

    /// Subtracts `other`; amounts saturate.
    pub fn subtract(&mut self, other: &Self) {
        self.apply_elementwise(other, i64::saturating_sub);
    }

    fn apply_elementwise(&mut self, other: &Self, operation: fn(i64, i64) -> i64) {
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

    /// The sum of both; amounts saturate.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    /// The multiple by `count`; amounts saturate.
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

    /// The smaller amount of each resource. A resource that only one of the operands names counts
    /// as zero in the other.
    #[must_use]
    pub fn elementwise_min(&self, other: &Self) -> Self {
        let extended = self
            .extended
            .iter()
            .map(|(name, amount)| (Name::clone(name), (*amount).min(other.extended_amount(name))));
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

    /// The larger amount of each resource of both operands.
    #[must_use]
    pub fn elementwise_max(&self, other: &Self) -> Self {
        let mut greater = self.plus(other);
        greater.subtract(&self.elementwise_min(other));
        greater
    }

    /// The amounts with negative ones set to zero; extended resources that are not positive are
    /// dropped.
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

    /// The resources with a positive amount, each with its amount.
    pub fn positive_amounts(&self) -> impl Iterator<Item = (ResourceName, i64)> + '_ {
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

    /// Whether every positive amount is available in `available`.
    pub fn fits_in(&self, available: &Self) -> bool {
        let fits = |requested: i64, free: i64| requested <= 0 || requested <= free;
        fits(self.gpu_milli, available.gpu_milli)
            && fits(self.cpu_milli, available.cpu_milli)
            && fits(self.memory_bytes, available.memory_bytes)
            && fits(self.pods, available.pods)
            && self
                .extended
                .iter()
                .all(|(name, requested)| fits(*requested, available.extended_amount(name)))
    }

    /// How many times every positive amount of `part` is requested here; 0 if there is none.
    pub fn times_of(&self, part: &Self) -> u64 {
        let times = |amount: i64, part: i64| (part > 0).then(|| amount.max(0) / part);
        let fixed = [
            times(self.gpu_milli, part.gpu_milli),
            times(self.cpu_milli, part.cpu_milli),
            times(self.memory_bytes, part.memory_bytes),
            times(self.pods, part.pods),
        ];
        let extended = part.extended.iter();
        let extended = extended.map(|(name, part)| times(self.extended_amount(name), *part));
        let least = fixed.into_iter().chain(extended).flatten().min().unwrap_or(0);
        u64::try_from(least).unwrap_or(0)
    }

    /// Amount of an extended resource; 0 when absent.
    pub fn extended_amount(&self, name: &str) -> i64 {
        self.extended.get(name).copied().unwrap_or(0)
    }

    /// The resources of which `available` has too little.
    pub fn shortage_in(&self, available: &Self) -> Shortage {
        let short = |requested: i64, free: i64| requested > 0 && requested > free;
        let extended = self.extended.iter();
        let extended = extended
            .filter(|(name, requested)| short(**requested, available.extended_amount(name)));
        Shortage {
            gpu: short(self.gpu_milli, available.gpu_milli),
            cpu: short(self.cpu_milli, available.cpu_milli),
            memory: short(self.memory_bytes, available.memory_bytes),
            pods: short(self.pods, available.pods),
            extended: extended.map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Amount of one resource.
    pub fn amount_of(&self, resource: &ResourceName) -> i64 {
        match resource {
            ResourceName::Gpu => self.gpu_milli,
            ResourceName::Cpu => self.cpu_milli,
            ResourceName::Memory => self.memory_bytes,
            ResourceName::Pods => self.pods,
            ResourceName::Extended(name) => self.extended_amount(name),
        }
    }
}

/// Which resources are short.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one flag per resource; shortages are computed for every node, so they must be small"
)]
pub struct Shortage {
    /// `nvidia.com/gpu` is short.
    pub gpu: bool,
    /// `cpu` is short.
    pub cpu: bool,
    /// `memory` is short.
    pub memory: bool,
    /// `pods` is short.
    pub pods: bool,
    /// Extended resources that are short.
    pub extended: Vec<Name>,
}

impl Shortage {
    /// Whether no resource is short.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The resources that are short, in a fixed order.
    pub fn short_resources(&self) -> impl Iterator<Item = ResourceName> + '_ {
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

/// Name of a resource.
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
    /// An extended resource.
    Extended(Name),
}

impl ResourceName {
    /// The resources that queues account for, in the order of [`PerResource`].
    pub const ACCOUNTED: [Self; 3] = [Self::Gpu, Self::Cpu, Self::Memory];
}

impl<T: Copy> PerResource<T> {
    /// Applies `change` to each value.
    #[must_use]
    pub fn map<U>(self, change: impl Fn(T) -> U) -> PerResource<U> {
        PerResource { gpu: change(self.gpu), cpu: change(self.cpu), memory: change(self.memory) }
    }

    /// The values in the order GPU, CPU, memory.
    pub const fn values(self) -> [T; 3] {
        [self.gpu, self.cpu, self.memory]
    }
}

impl PerResource<i64> {
    /// The sum of both for each resource, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            gpu: self.gpu.saturating_add(other.gpu),
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    /// The difference of both for each resource, saturating.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            gpu: self.gpu.saturating_sub(other.gpu),
            cpu: self.cpu.saturating_sub(other.cpu),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    /// The values with negative ones set to zero.
    #[must_use]
    pub fn at_least_zero(self) -> Self {
        Self { gpu: self.gpu.max(0), cpu: self.cpu.max(0), memory: self.memory.max(0) }
    }

    /// Whether no value exceeds its bound.
    pub fn is_within(self, bounds: PerResource<Amount>) -> bool {
        self.values().into_iter().zip(bounds.values()).all(|(value, bound)| bound.allows(value))
    }
}

impl Amount {
    /// Whether `value` does not exceed the bound.
    pub const fn allows(self, value: i64) -> bool {
        match self {
            Self::Exactly(bound) => value <= bound,
            Self::Unlimited => true,
        }
    }

    /// The bound, or `otherwise` when there is none.
    pub const fn limit_or(self, otherwise: i64) -> i64 {
        match self {
            Self::Exactly(bound) => bound,
            Self::Unlimited => otherwise,
        }
    }
}
