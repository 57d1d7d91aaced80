//! The capabilities of a scheduler that a case requires: those that its tags name, and those that
//! its steps use.

use std::collections::BTreeSet;

use gherkin::Step;
use schedlab_api::api_versions;

use super::case::Case;
use crate::schedulers::CAPABILITIES_AND_MEANINGS;

/// Capabilities that follow from a word in a sentence.
const BY_SENTENCE: [(&str, &str); 28] = [
    ("reported-shares", "fair share"),
    ("time-based-fairness", "fairness over time"),
    ("non-preemptible", "non-preemptible"),
    ("queue-priority", "the priority of queue"),
    ("min-runtime", "min runtime\""),
    ("stale-gangs", "staleness grace\""),
    ("no-queue", "scheduler profile \"kube\""),
    ("gang", "gang \""),
    ("pod-groups", "the pod group of "),
    ("node-pools", "serves node pool"),
    ("bind-requests", "bound by requests"),
    ("bind-requests", "GPUs that pods share are reserved"),
    ("shared-gpus", "GPUs that pods share are reserved"),
    ("configuration", "the scheduler's configuration"),
    ("configuration", "a default \""),
    ("configuration", "the placement strategy"),
    ("configuration", "a scheduling period of"),
    ("configuration", "bound by requests"),
    ("configuration", "GPUs that pods share are reserved"),
    ("configuration", "containers see only the GPUs"),
    ("configuration", "says the priorities of kinds"),
    ("configuration", "serves node pool"),
    ("configuration", "fairness over time"),
    ("configuration", "past use counts for half"),
    ("configuration", "preemption a cycle"),
    ("configuration", "preemptions a cycle"),
    ("configuration", "that is higher by at least"),
    ("configuration", "evicted pods have at least"),
];

/// Capabilities that follow from a column with a value.
const BY_COLUMN: [(&str, &str); 8] = [
    ("hierarchy", "parent"),
    ("min-runtime", "reclaim min runtime"),
    ("min-runtime", "preempt min runtime"),
    ("workload-api", "group"),
    ("sub-groups", "sub-groups"),
    ("spread", "spread by"),
    ("min-runtime", "preemption delay"),
    ("stale-gangs", "staleness grace"),
];

/// Capabilities that follow from a word in a sentence, a cell, a manifest or a fixture.
const BY_TEXT: [(&str, &str); 17] = [
    ("shared-gpus", "gpu-fraction"),
    ("shared-gpus", "gpu-memory"),
    ("mig", "nvidia.com/mig-"),
    ("dra", "resource.k8s.io/"),
    ("dra", "resourceClaims"),
    ("dra-admin-access", "adminAccess"),
    ("dra-first-available", "firstAvailable"),
    ("dra-all-devices", "allocationMode: All"),
    ("spread", "topologySpreadConstraints"),
    ("node-pools", "kai.scheduler/node-pool"),
    ("topology", "kai.scheduler/topology"),
    ("bind-requests", "kind: BindRequest"),
    ("queue-checks", "(missing)"),
    ("pod-groups", "pod-group-name"),
    ("elastic", "batch-min-member"),
    ("stale-gangs", "stalenessGracePeriod"),
    ("webhooks", "webhooks are asked"),
];

/// Kinds whose pods become a gang only through a pod grouper.
const KINDS_WITH_POD_GROUPS: [&str; 6] =
    ["jobset", "trainjob", "pytorchjob", "raycluster", "rayjob", "leaderworkerset"];

impl Case {
    /// The capabilities of a scheduler that the case requires, according to its tags and its steps.
    pub fn required_capabilities(&self) -> BTreeSet<&'static str> {
        let known = CAPABILITIES_AND_MEANINGS.iter().map(|(name, _)| *name);
        let mut needed: BTreeSet<&str> =
            known.filter(|name| self.tags.iter().any(|tag| tag == name)).collect();
        for step in &self.steps {
            let by_sentence = BY_SENTENCE.iter().filter(|(_, words)| step.value.contains(words));
            needed.extend(by_sentence.map(|(name, _)| name));
            let by_column =
                BY_COLUMN.iter().filter(|(_, column)| column_cells(step, column).next().is_some());
            needed.extend(by_column.map(|(name, _)| name));
            let by_table = table_requirements(step).into_iter().filter(|(_, is_met)| *is_met);
            needed.extend(by_table.map(|(name, _)| name));
        }
        for text in self.step_texts() {
            let by_text = BY_TEXT.iter().filter(|(_, words)| text.contains(words));
            needed.extend(by_text.map(|(name, _)| name));
            if creates_pod_groups(&text) {
                needed.extend(["gang", "pod-groups"]);
            }
        }
        needed
    }
}

/// Capabilities that a table may require, each with whether the values of its cells do.
fn table_requirements(step: &Step) -> [(&'static str, bool); 7] {
    let is_of_queues = step.value.contains("queues");
    let has = |column: &str| column_cells(step, column).next().is_some();
    let kinds: Vec<&str> = column_cells(step, "kind").collect();
    let is_kind = |kind: &str| kinds.contains(&kind);
    [
        ("non-preemptible", column_cells(step, "preemptible").any(|cell| cell == "no")),
        ("queue-priority", is_of_queues && has("priority")),
        ("elastic", has_elastic_workload(step)),
        ("topology", has("topology") && !is_kind("podgroup")),
        ("workload-api", is_kind("podgroup")),
        ("gang", is_kind("gang") || has("gang")),
        ("podgrouper", kinds.iter().any(|kind| KINDS_WITH_POD_GROUPS.contains(kind))),
    ]
}

/// The non-empty cells of a column of a step's table.
fn column_cells<'s>(step: &'s Step, column: &str) -> impl Iterator<Item = &'s str> {
    let rows = step.table.as_ref().map_or(&[][..], |table| &table.rows);
    let at = rows.first().and_then(|header| header.iter().position(|name| name == column));
    let cells = rows.iter().skip(1).filter_map(move |row| row.get(at?));
    cells.map(String::as_str).filter(|cell| !cell.is_empty())
}

/// Whether a table contains a gang that can run with fewer pods than it has.
fn has_elastic_workload(step: &Step) -> bool {
    let Some(table) = &step.table else { return false };
    let Some((header, rows)) = table.rows.split_first() else { return false };
    let column = |name: &str| header.iter().position(|column| column == name);
    let (Some(min), Some(pods)) = (column("min"), column("pods")) else { return false };
    let count = |row: &[String], at: usize| row.get(at).and_then(|cell| cell.parse::<u32>().ok());
    // The scheduler of a PodGroup of Kubernetes places any number of pods above the minimum.
    let kind = column("kind");
    let is_pod_group = |row: &&Vec<String>| {
        kind.is_some_and(|at| row.get(at).is_some_and(|kind| kind == "podgroup"))
    };
    rows.iter().filter(|row| !is_pod_group(row)).any(|row| {
        match (count(row, min), count(row, pods)) {
            (Some(min), Some(pods)) => min < pods,
            (Some(_) | None, _) => false,
        }
    })
}

/// Whether a manifest creates a PodGroup of KAI.
fn creates_pod_groups(text: &str) -> bool {
    text.contains("kind: PodGroup") && !text.contains(api_versions::WORKLOAD)
}
