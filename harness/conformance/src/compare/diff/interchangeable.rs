//! Interchangeable workloads: which of them runs first is chance when the order is ignored.

use std::collections::BTreeMap;

use crate::report::WorkloadOutcome;

type Workloads = BTreeMap<String, WorkloadOutcome>;

/// The outcomes of `b` with interchangeable workloads swapped so that as many as possible match
/// `a`.
pub(super) fn align_interchangeable(a: &Workloads, b: &Workloads) -> Workloads {
    let mut result = b.clone();
    let mut classes: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for (name, showing) in a.iter().filter(|(_, showing)| !showing.scheduling_inputs.is_empty()) {
        let other =
            b.get(name).filter(|other| other.scheduling_inputs == showing.scheduling_inputs);
        if other.is_some_and(|other| other != showing) {
            classes.entry(&showing.scheduling_inputs).or_default().push(name);
        }
    }
    for names in classes.values() {
        let mut left: Vec<&WorkloadOutcome> = names.iter().map(|name| &b[*name]).collect();
        let mut without: Vec<&String> = Vec::new();
        for name in names {
            match left.iter().position(|one| **one == a[*name]) {
                Some(at) => drop(result.insert((*name).clone(), left.swap_remove(at).clone())),
                None => without.push(name),
            }
        }
        for (name, showing) in without.into_iter().zip(left) {
            result.insert(name.clone(), showing.clone());
        }
    }
    result
}
