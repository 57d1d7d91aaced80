//! Workloads that ask for the same: which of them is which is chance where order is.

use std::collections::BTreeMap;

use crate::report::WorkloadShowing;

type Workloads = BTreeMap<String, WorkloadShowing>;

/// What `b` shows, with workloads that are alike in each other's place so that as many as possible
/// show what they show in `a`.
pub(super) fn exchanged(a: &Workloads, b: &Workloads) -> Workloads {
    let mut result = b.clone();
    let mut classes: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for (name, showing) in a.iter().filter(|(_, showing)| !showing.wants.is_empty()) {
        let other = b.get(name).filter(|other| other.wants == showing.wants);
        if other.is_some_and(|other| other != showing) {
            classes.entry(&showing.wants).or_default().push(name);
        }
    }
    for names in classes.values() {
        let mut left: Vec<&WorkloadShowing> = names.iter().map(|name| &b[*name]).collect();
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
