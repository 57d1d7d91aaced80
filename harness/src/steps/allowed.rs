//! The kinds of values in steps, by the names that patterns have for them: how they are written,
//! and how to tell what is allowed.

use cucumber::codegen::Parameter;

use super::parameters::{
    Amount, Condition, Count, Field, Resource, Span, State, Stays, Tally, When,
};
use super::subjects::{Subject, Workload};

/// A kind of value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// Its name in patterns.
    pub(crate) name: &'static str,
    /// The regular expression of what may be written.
    pub(crate) regex: &'static str,
    /// The same in words.
    pub(crate) words: &'static str,
}

/// Every kind of value.
pub(crate) const ALLOWED: [Allowed; 15] = [
    of::<Span>("a length of time such as 90 seconds, 10m or 2 hours"),
    of::<When>(
        "`eventually within`, `never within`, `after` or `for` and a length of time, `now`, or nothing",
    ),
    of::<Stays>("`and stays so for N cycles`, or nothing"),
    of::<Count>("a whole number or `no`, perhaps after `at least` or `at most`"),
    of::<Tally>(
        "numbers of pods, perhaps by their state (running, pending, gated, starting, terminating, \
         succeeded, failed), such as `8 running and 4 pending pods` or `no pods`",
    ),
    of::<State>("running, pending, gated, starting, terminating, succeeded, failed or gone"),
    of::<Condition>("ready, not ready, cordoned or gone"),
    of::<Field>("quota, weight or limit, the same after `cpu` or `memory`, or priority"),
    of::<Amount>("a number, `unlimited` or `unset`"),
    of::<Resource>("GPUs, CPU cores or GB of memory"),
    of::<Subject>(
        "`the cluster`, or queue, namespace, node, claim or a kind of workload and a name in quotes",
    ),
    of::<Workload>("a kind of workload (or `workload`) and a name in quotes"),
    Allowed { name: "int", regex: "-?[0-9]+", words: "a whole number" },
    Allowed { name: "float", regex: "-?[0-9]*[.]?[0-9]+", words: "a number" },
    Allowed { name: "string", regex: "\"[^\"]*\"|'[^']*'", words: "a text in quotes" },
];

const fn of<P: Parameter>(words: &'static str) -> Allowed {
    Allowed { name: P::NAME, regex: P::REGEX, words }
}
