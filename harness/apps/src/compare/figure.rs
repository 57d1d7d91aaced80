//! The figures that are compared, with their names, units and what is better.

use schedlab_conformance::text::did_you_mean_suffix;

use crate::experiment::{Figures, GroupFigures, duration_text};
use crate::inputs::to_f64;

/// A figure of the fleet or of a group of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    Utilisation,
    Fragmentation,
    GpuHours,
    QuotaKept,
    WaitMedian,
    WaitP90,
    WaitP99,
    LongestWait,
    NeverStarted,
    Evictions,
    LostGpuHours,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Percent,
    Seconds,
    Count,
    GpuHours,
}

/// What a figure belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Fleet,
    Size,
    Queue,
}

/// A figure of something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FigureKey {
    pub(super) scope: Scope,
    /// A size, a queue, or `fleet`.
    pub(super) of: String,
    pub(super) figure: Figure,
}

/// The name of the fleet, among those of queues.
pub(super) const FLEET: &str = "fleet";

impl Scope {
    /// The name in CSV and JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Size => "size",
            Self::Queue => "queue",
        }
    }
}

impl Figure {
    const ALL: [Self; 11] = [
        Self::Utilisation,
        Self::Fragmentation,
        Self::GpuHours,
        Self::QuotaKept,
        Self::WaitMedian,
        Self::WaitP90,
        Self::WaitP99,
        Self::LongestWait,
        Self::NeverStarted,
        Self::Evictions,
        Self::LostGpuHours,
    ];

    /// The name in promises, CSV and JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Utilisation => "utilisation",
            Self::Fragmentation => "fragmentation",
            Self::GpuHours => "gpu-hours",
            Self::QuotaKept => "quota-kept",
            Self::WaitMedian => "wait-p50",
            Self::WaitP90 => "wait-p90",
            Self::WaitP99 => "wait-p99",
            Self::LongestWait => "longest-wait",
            Self::NeverStarted => "never-started",
            Self::Evictions => "evictions",
            Self::LostGpuHours => "lost-gpu-hours",
        }
    }

    /// The figure with this name.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|figure| figure.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let hint = did_you_mean_suffix(name, names);
            format!("got figure {name:?}, expected one of {}{hint}", names.join(", "))
        })
    }

    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Utilisation | Self::Fragmentation | Self::QuotaKept => Unit::Percent,
            Self::WaitMedian | Self::WaitP90 | Self::WaitP99 | Self::LongestWait => Unit::Seconds,
            Self::NeverStarted | Self::Evictions => Unit::Count,
            Self::GpuHours | Self::LostGpuHours => Unit::GpuHours,
        }
    }

    /// Whether more is better.
    pub(super) fn is_more_better(self) -> bool {
        matches!(self, Self::Utilisation | Self::GpuHours | Self::QuotaKept)
    }

    /// The figure of a group of jobs; `None` if the group has none.
    fn of_group(self, group: &GroupFigures) -> Option<f64> {
        match self {
            Self::Utilisation | Self::Fragmentation => None,
            Self::GpuHours => Some(group.gpu_hours),
            Self::QuotaKept => group.quota_kept_percent,
            Self::WaitMedian => group.wait.median_secs,
            Self::WaitP90 => group.wait.p90_secs,
            Self::WaitP99 => group.wait.p99_secs,
            Self::LongestWait => group.longest_wait_secs,
            Self::NeverStarted => Some(to_f64(group.never_started)),
            Self::Evictions => Some(to_f64(group.evictions)),
            Self::LostGpuHours => Some(group.lost_gpu_hours),
        }
    }
}

/// All figures of an experiment, in the order of the report.
pub(super) fn keys_of(figures: &Figures) -> Vec<FigureKey> {
    let key = |scope, of: &str, figure| FigureKey { scope, of: of.to_owned(), figure };
    let of_fleet = |figure: &Figure| *figure != Figure::QuotaKept;
    let fleet = Figure::ALL.into_iter().filter(of_fleet);
    let mut keys: Vec<FigureKey> = fleet.map(|figure| key(Scope::Fleet, FLEET, figure)).collect();
    for (scope, groups) in [(Scope::Size, &figures.by_size), (Scope::Queue, &figures.by_queue)] {
        for group in groups {
            let has = |figure: &Figure| figure.of_group(group).is_some();
            let own = Figure::ALL.into_iter().filter(has);
            keys.extend(own.map(|figure| key(scope, &group.name, figure)));
        }
    }
    keys
}

/// The value of a figure in an experiment; `None` if it has none, such as a wait without jobs.
pub(super) fn value(figures: &Figures, key: &FigureKey) -> Option<f64> {
    let group = |groups: &[GroupFigures]| {
        let group = groups.iter().find(|group| group.name == key.of)?;
        key.figure.of_group(group)
    };
    match (key.scope, key.figure) {
        (Scope::Fleet, Figure::Utilisation) => figures.utilisation_percent,
        (Scope::Fleet, Figure::Fragmentation) => figures.fragmentation_percent,
        (Scope::Fleet, figure) => figure.of_group(&figures.all),
        (Scope::Size, _) => group(&figures.by_size),
        (Scope::Queue, _) => group(&figures.by_queue),
    }
}

impl Unit {
    /// A value with its unit.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Percent => format!("{value:.1} %"),
            Self::Seconds => duration_text(value),
            Self::Count | Self::GpuHours if value.abs() >= 100.0 => format!("{value:.0}"),
            Self::Count | Self::GpuHours => format!("{value:.1}"),
        }
    }

    /// A difference with its sign and unit.
    pub(super) fn signed_text(self, difference: f64) -> String {
        let text = self.text(difference.abs());
        // A difference that is rounded to zero has no direction.
        let is_zero = !text.contains(|digit| matches!(digit, '1'..='9'));
        let sign = if difference < 0.0 && !is_zero { "-" } else { "+" };
        format!("{sign}{text}")
    }

    /// The name of the unit in CSV and JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Percent => "percent",
            Self::Seconds => "seconds",
            Self::Count => "count",
            Self::GpuHours => "GPU hours",
        }
    }
}
