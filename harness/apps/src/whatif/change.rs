//! Changes of a cluster as a user writes them: `+4x8xH100`, `team-a=+16`, `work/train=build`.

use std::{fmt, str::FromStr};

use schedlab_api::Value;

/// Nodes that are added: `+4x8xH100`, `+4x8` or `+4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNodes {
    /// Number of nodes.
    pub count: u32,
    /// GPUs of each node; `None`: as most nodes have.
    pub gpus: Option<u32>,
    /// A word of the name of the GPU model; `None`: that of most nodes.
    pub model: Option<String>,
}

impl FromStr for NewNodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("got {text}, expected +COUNTxGPUSxMODEL, such as +4x8xH100");
        let mut parts = text.strip_prefix('+').unwrap_or(text).splitn(3, 'x');
        let mut number = || parts.next().map(|part| part.parse::<u32>().map_err(|_| expected()));
        let count = number().transpose()?.filter(|count| (1..=100_000).contains(count));
        let gpus = number().transpose()?;
        let model = parts.next().map(str::to_owned);
        if gpus.is_some_and(|gpus| gpus > 1024) || model.as_deref() == Some("") {
            return Err(expected());
        }
        Ok(Self { count: count.ok_or_else(expected)?, gpus, model })
    }
}

/// A number of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueField {
    /// GPUs that the queue deserves.
    Quota,
    /// The queue's part of what is left above the quotas.
    Weight,
    /// GPUs that the queue must not exceed.
    Limit,
    /// Priority among the queues.
    Priority,
}

impl QueueField {
    /// The field of the Queue object.
    pub(super) const fn pointer(self) -> &'static [&'static str] {
        match self {
            Self::Quota => &["spec", "resources", "gpu", "quota"],
            Self::Weight => &["spec", "resources", "gpu", "overQuotaWeight"],
            Self::Limit => &["spec", "resources", "gpu", "limit"],
            Self::Priority => &["spec", "priority"],
        }
    }

    /// What a missing field counts as.
    pub(super) const fn default(self) -> f64 {
        match self {
            Self::Quota | Self::Weight | Self::Limit => 0.0,
            Self::Priority => 100.0,
        }
    }
}

impl fmt::Display for QueueField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quota => "quota",
            Self::Weight => "weight",
            Self::Limit => "limit",
            Self::Priority => "priority",
        })
    }
}

/// A number that is set, or by which another one changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// The new value.
    Set(f64),
    /// What is added to the present value.
    Add(f64),
    /// No bound.
    Unlimited,
}

/// A name and an amount: `team-a=16`, `team-a=+16`, `team-a=-4`, `team-a=unlimited`.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedAmount {
    /// The name before `=`.
    pub name: String,
    /// The amount after `=`.
    pub amount: Amount,
}

impl FromStr for NamedAmount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "got {text}, expected QUEUE=NUMBER, QUEUE=+NUMBER, QUEUE=-NUMBER or QUEUE=unlimited"
            )
        };
        let (name, amount) = text.rsplit_once('=').ok_or_else(expected)?;
        let number = |text: &str| {
            let number = text.parse::<f64>().ok().filter(|number| (0.0..1e9).contains(number));
            number.ok_or_else(expected)
        };
        let amount = match amount.split_at_checked(1) {
            _ if amount == "unlimited" => Amount::Unlimited,
            Some(("+", more)) => Amount::Add(number(more)?),
            Some(("-", less)) => Amount::Add(-number(less)?),
            _ => Amount::Set(number(amount)?),
        };
        if name.is_empty() {
            return Err(expected());
        }
        Ok(Self { name: name.to_owned(), amount })
    }
}

/// A queue or workload with its new priority: `team-a=200`, or `work/train=build`.
#[derive(Clone, Debug, PartialEq)]
pub enum PriorityChange {
    /// The priority of a queue.
    Queue(NamedAmount),
    /// The priority class of a pod group.
    Workload {
        /// Namespace of the pod group.
        namespace: String,
        /// Name of the pod group.
        name: String,
        /// Name of the priority class.
        class: String,
    },
}

impl FromStr for PriorityChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || format!("got {text}, expected QUEUE=NUMBER or NAMESPACE/PODGROUP=PRIORITYCLASS");
        let (name, value) = text.split_once('=').ok_or_else(expected)?;
        let Some((namespace, name)) = name.split_once('/') else {
            return text.parse().map(Self::Queue).map_err(|_| expected());
        };
        if [namespace, name, value].contains(&"") {
            return Err(expected());
        }
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Ok(Self::Workload { namespace, name, class: value.to_owned() })
    }
}

/// A change of a number of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueChange {
    /// Which number.
    pub field: QueueField,
    /// The queue and the amount.
    pub to: NamedAmount,
}

/// What is different from the captured cluster. Changes are combined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Objects that are submitted: pods, jobs and other workloads, as manifests.
    pub submitted: Vec<Value>,
    /// Nodes that are added.
    pub new_nodes: Vec<NewNodes>,
    /// Names of nodes that are removed; `*` stands for any text.
    pub removed_nodes: Vec<String>,
    /// New numbers of queues.
    pub queues: Vec<QueueChange>,
    /// New priority classes of workloads, and priorities of queues.
    pub priorities: Vec<PriorityChange>,
}

impl Changes {
    /// Whether nothing changes.
    pub const fn is_empty(&self) -> bool {
        self.submitted.is_empty()
            && self.new_nodes.is_empty()
            && self.removed_nodes.is_empty()
            && self.queues.is_empty()
            && self.priorities.is_empty()
    }
}

/// Why a change cannot be made: the option, what it got, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {message}")]
pub struct ChangeError {
    /// The option of the command, such as `--quota`.
    pub option: &'static str,
    /// What is wrong with its value.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_a_count_gpus_and_a_model() {
        let nodes = |count, gpus, model: Option<&str>| {
            Ok(NewNodes { count, gpus, model: model.map(str::to_owned) })
        };
        assert_eq!("+4x8xH100".parse(), nodes(4, Some(8), Some("H100")));
        assert_eq!("2x8xGH200-x2".parse(), nodes(2, Some(8), Some("GH200-x2")));
        assert_eq!("+3".parse(), nodes(3, None, None));
        for wrong in ["+0x8", "+x8", "+4x", "+4x8x", "four", "-4x8", "+4x9999"] {
            let error = wrong.parse::<NewNodes>().unwrap_err();
            assert_eq!(
                error,
                format!("got {wrong}, expected +COUNTxGPUSxMODEL, such as +4x8xH100")
            );
        }
    }

    #[test]
    fn an_amount_is_set_added_or_unlimited() {
        let amount = |text: &str| text.parse::<NamedAmount>().map(|it| it.amount);
        assert_eq!(amount("team-a=16"), Ok(Amount::Set(16.0)));
        assert_eq!(amount("team-a=+1.5"), Ok(Amount::Add(1.5)));
        assert_eq!(amount("team-a=-4"), Ok(Amount::Add(-4.0)));
        assert_eq!(amount("team-a=unlimited"), Ok(Amount::Unlimited));
        for wrong in ["team-a", "=4", "team-a=", "team-a=four", "team-a=+-4", "team-a=NaN"] {
            assert!(amount(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_priority_is_that_of_a_queue_or_workload() {
        let change: PriorityChange = "work/train=build".parse().unwrap();
        let PriorityChange::Workload { namespace, name, class } = change else { panic!() };
        assert_eq!([&*namespace, &*name, &*class], ["work", "train", "build"]);
        assert!(matches!("team-a=200".parse(), Ok(PriorityChange::Queue(_))));
        assert!("work/train=".parse::<PriorityChange>().is_err());
        assert!("team-a=high".parse::<PriorityChange>().is_err());
    }
}
