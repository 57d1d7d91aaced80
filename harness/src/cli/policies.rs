//! Arguments of `compare`.

use clap::Args;

use super::ShardPods;

/// Examples of `schedlab compare`.
pub(super) const EXAMPLES: &str = "\
Exit codes: 0 no promise is broken, 1 a promise is broken, 2 invalid input, 130 interrupted.

Examples:
  schedlab compare --fleet nodes.yaml --trace jobs.jsonl --queues now.jsonl --b planned.jsonl
  schedlab compare --fleet nodes.yaml --trace jobs.jsonl --queues now.jsonl --b spread.yaml --promise promises.yaml
  schedlab compare --fleet nodes.yaml --trace jobs.jsonl --queues now.jsonl --b planned.jsonl --only 3/8 > 3.json
  schedlab compare --merge 1.json 2.json 3.json --html comparison.html";

/// Arguments of `schedlab compare`.
#[derive(Clone, Debug, Args)]
pub struct Compare {
    /// The comparison.
    #[command(flatten)]
    pub comparison: schedlab_apps::compare::Args,
    /// Where the shards of the comparison run.
    #[command(flatten)]
    pub shard_pods: ShardPods,
    /// In a pod: the index of the pod in its Job, from 0.
    #[arg(long, hide = true)]
    pub pod_index: Option<usize>,
}
