//! The parameter types of steps: their names in patterns, their syntax, and a description of the
//! expected values for error messages.

use cucumber::codegen::Parameter;

use super::parameters::{
    Count, DurationValue, NodeState, PodCounts, QueueAmount, QueueField, Resource, StableCycles,
    Timing, WorkloadState,
};
use super::subjects::{Subject, Workload};

/// A parameter type.
#[derive(Clone, Copy, Debug)]
pub struct SyntaxHelp {
    /// Name in patterns.
    pub name: &'static str,
    /// Regular expression of valid values.
    pub regex: &'static str,
    /// Valid values in words, after `expected`.
    pub description: &'static str,
}

/// All parameter types.
pub const SYNTAX_HELP: [SyntaxHelp; 15] = [
    for_parameter::<DurationValue>("a duration such as 90 seconds, 10m or 2 hours"),
    for_parameter::<Timing>(
        "`eventually within`, `never within`, `after` or `for` with a duration, `now`, or nothing",
    ),
    for_parameter::<StableCycles>("`and stays so for N cycles`, or nothing"),
    for_parameter::<Count>("a whole number or `no`, optionally after `at least` or `at most`"),
    for_parameter::<PodCounts>(
        "pod counts, optionally by state (running, pending, gated, starting, terminating, \
         succeeded, failed), such as `8 running and 4 pending pods` or `no pods`",
    ),
    for_parameter::<WorkloadState>(
        "running, pending, gated, starting, terminating, succeeded, failed or gone",
    ),
    for_parameter::<NodeState>("ready, not ready, cordoned or gone"),
    for_parameter::<QueueField>(
        "quota, weight or limit, optionally after `cpu` or `memory`, or \
        priority",
    ),
    for_parameter::<QueueAmount>("a number, `unlimited` or `unset`"),
    for_parameter::<Resource>("GPUs, CPU cores or GB of memory"),
    for_parameter::<Subject>(
        "`the cluster`, or queue, namespace, node, claim or a workload kind with a name in quotes",
    ),
    for_parameter::<Workload>("a workload kind (or `workload`) with a name in quotes"),
    SyntaxHelp { name: "int", regex: "-?[0-9]+", description: "a whole number" },
    SyntaxHelp { name: "float", regex: "-?[0-9]*[.]?[0-9]+", description: "a number" },
    SyntaxHelp { name: "string", regex: "\"[^\"]*\"|'[^']*'", description: "text in quotes" },
];

const fn for_parameter<P: Parameter>(words: &'static str) -> SyntaxHelp {
    SyntaxHelp { name: P::NAME, regex: P::REGEX, description: words }
}
