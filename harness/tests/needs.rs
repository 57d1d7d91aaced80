//! The tags of scenarios match what they need: virtual time, webhooks and capabilities of the
//! scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schedlab_conformance::compare::ExpectedDifferences;
use schedlab_conformance::features::{Case, VIRTUAL_TIME_TAG, WEBHOOKS_TAG, load_text};

/// Scenarios that need virtual time for a reason that their steps do not show: the beginning of the
/// name, and the reason.
const TIME_SENSITIVE_SCENARIOS: &[(&str, &str)] = &[
    (
        "team-research waits while wave after wave of the flood runs",
        "a real Job controller needs time for the next wave, and other pods can get the GPUs meanwhile",
    ),
    (
        "The gang of a drained node restarts whole elsewhere",
        "a real Job controller creates no new pod for ten minutes after eight evictions",
    ),
    (
        "A gang is whole all along while it starts, runs and finishes",
        "on a busy machine the start of a gang may take longer than any fixed bound",
    ),
    (
        "The owner gets its share though the scheduler dies before write 50 of",
        "while pods terminate for 30 seconds, the number of writes on a real cluster varies",
    ),
    (
        "A device that is not attached in time is given up",
        "a scheduler gives a device ten minutes to be attached, which no configuration shortens",
    ),
    ("Pods with CPUs of their own go where one zone has them", NUMA_REASON),
    ("Devices of two zones are not given to one pod", NUMA_REASON),
    ("A NodeResourceTopology that changes counts from then on", NUMA_REASON),
    ("Predicted NUMA zones also hold with BindRequests", NUMA_REASON),
];

const NUMA_REASON: &str =
    "a real API server serves a new kind after a delay, and scenarios share the kind";

fn cases() -> std::io::Result<Vec<Case>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../features");
    let mut cases = Vec::new();
    for area in std::fs::read_dir(&root)? {
        for file in std::fs::read_dir(area?.path())? {
            let path = file?.path();
            if path.extension().is_none_or(|extension| extension != "feature") {
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            let shown = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
            cases.extend(
                load_text(&shown, &text, schedlab_conformance::steps::catalogue::is_step)
                    .map_err(std::io::Error::other)?,
            );
        }
    }
    Ok(cases)
}

/// Why the cases of a scenario need virtual time, and whether they have its tag, by file and first
/// line.
fn needs(cases: &[Case]) -> BTreeMap<(String, usize), (BTreeSet<String>, bool)> {
    let mut needs: BTreeMap<_, (BTreeSet<String>, bool)> = BTreeMap::new();
    for case in cases {
        let location = (case.location.file.clone(), case.location.scenario.start);
        let entry = needs.entry(location).or_default();
        entry.0.extend(case.virtual_time_reason());
        let forced =
            TIME_SENSITIVE_SCENARIOS.iter().filter(|(name, _)| case.name.starts_with(name));
        entry.0.extend(forced.map(|(_, why)| (*why).to_owned()));
        entry.1 |= case.tags.iter().any(|tag| tag == VIRTUAL_TIME_TAG);
    }
    needs
}

#[test]
fn a_scenario_has_the_virtual_time_tag_only_if_it_needs_it() {
    let wrong = needs(&cases().unwrap()).into_iter().filter_map(|((file, line), (why, tagged))| {
        match (why.into_iter().next(), tagged) {
            (Some(why), false) => Some(format!("{file}:{line} needs @{VIRTUAL_TIME_TAG}: {why}")),
            (None, true) => {
                Some(format!("{file}:{line} is tagged @{VIRTUAL_TIME_TAG} for nothing"))
            }
            (Some(_), true) | (None, false) => None,
        }
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_scenario_has_the_webhooks_tag_only_if_it_needs_them() {
    let wrong = cases()
        .unwrap()
        .into_iter()
        .filter(|case| case.needs_webhooks() != case.tags.iter().any(|tag| tag == WEBHOOKS_TAG));
    let wrong: Vec<String> = wrong.map(|case| case.id()).collect();
    assert!(wrong.is_empty(), "tag and steps disagree on @{WEBHOOKS_TAG}: {wrong:?}");
}

#[test]
fn each_expected_cluster_difference_is_a_scenario() {
    let text = include_str!("../../docs/reference/cluster-differences.md");
    let existing: BTreeSet<String> = cases().unwrap().iter().map(Case::id).collect();
    let forced = ExpectedDifferences::parse(text);
    // The ids of `cases` have no folder `features/`.
    let ids = forced.case_ids().map(|id| id.strip_prefix("features/").unwrap_or(id));
    let unknown: Vec<&str> = ids.filter(|id| !existing.contains(*id)).collect();
    assert!(
        unknown.is_empty(),
        "docs/reference/cluster-differences.md names unknown scenarios: {unknown:?}"
    );
    assert!(forced.case_ids().next().is_some());
}

/// The only case of a scenario with these steps.
fn case(steps: &str) -> Case {
    let text = format!("Feature: f\n  Scenario: s\n{steps}");
    load_text("f.feature", &text, schedlab_conformance::steps::catalogue::is_step)
        .expect("the text is a feature")
        .remove(0)
}

#[test]
fn steps_that_depend_on_kwok_behaviour_are_detected() {
    let jobs = |steps: &str| case(steps).creates_jobs();
    assert!(jobs("Given these workloads are submitted:\n| name | kind |\n| a | job |"));
    let manifest =
        "Given this manifest is applied:\n\"\"\"\napiVersion: batch/v1\nkind: Job\n\"\"\"";
    assert!(jobs(manifest));
    assert!(!jobs(&manifest.replace("kind: Job", "kind: Pod")));
    assert!(!jobs("Given these workloads are submitted:\n| name | kind |\n| job-1 | pod |"));
    let times = |steps: &str| case(steps).depends_on_pod_timing();
    assert!(times("Then now workload \"a\" has 2 starting pods"));
    assert!(times("Given these workloads are submitted:\n| name | startup |\n| a | 2s |"));
    assert!(!times("Given these workloads are submitted:\n| name | run time |\n| a | 2s |"));
    assert!(case("When GPU 0 of node \"a\" becomes unhealthy").changes_gpu_health());
}

#[test]
fn manifest_files_of_steps_are_inspected() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../features/lab/lab.feature");
    let text = "Feature: f\n  Scenario: s\n    When the manifest \"FILE\" is applied\n";
    let makes_jobs = |name: &str| {
        let shown = file.display().to_string();
        load_text(
            &shown,
            &text.replace("FILE", name),
            schedlab_conformance::steps::catalogue::is_step,
        )
        .expect("the text is a feature")[0]
            .creates_jobs()
    };
    assert!(makes_jobs("lab/exercise-d-gang.yaml"));
    assert!(!makes_jobs("lab/original/exercise-d-gang.yaml"));
}

#[test]
fn a_manifest_with_a_pod_group_needs_gangs() {
    let manifest = "    Given this manifest is applied:\n\"\"\"\nkind: KIND\n\"\"\"";
    let needs =
        |kind: &str| case(&manifest.replace("KIND", kind)).required_capabilities().contains("gang");
    assert!(needs("PodGroup"));
    assert!(!needs("Pod"));
}

/// Capabilities that the queue APIs of other schedulers lack.
#[test]
fn tables_and_steps_need_the_capabilities_that_they_use() {
    let queues = "    Given these queues:\n";
    let work = "    When these workloads are submitted:\n";
    for (text, needed) in [
        (format!("{queues}| queue | quota | priority |\n| a | 1 | 200 |\n"), "queue-priority"),
        (format!("{queues}| queue | reclaim min runtime |\n| a | 5m |\n"), "min-runtime"),
        ("    Given a default \"reclaim min runtime\" of 1 minute".to_owned(), "min-runtime"),
        ("    When the priority of queue \"a\" becomes 5".to_owned(), "queue-priority"),
        ("    When 2 non-preemptible pods \"a\" come".to_owned(), "non-preemptible"),
        (format!("{work}| name | preemptible |\n| a | no |\n"), "non-preemptible"),
        (format!("{work}| name | pods | min |\n| a | 4 | 2 |\n"), "elastic"),
        (format!("{work}| name | sub-groups |\n| a | x 1 |\n"), "sub-groups"),
        (format!("{work}| name | kind |\n| a | jobset |\n"), "podgrouper"),
    ] {
        assert!(case(&text).required_capabilities().contains(needed), "{text} {needed}");
    }
    for text in [
        format!("{queues}| queue | quota | priority |\n| a | 1 | |\n"),
        format!("{work}| name | pods | min | priority | preemptible |\n| a | 4 | 4 | 9 | yes |\n"),
    ] {
        assert_eq!(case(&text).required_capabilities(), BTreeSet::new(), "{text}");
    }
}

/// What a scheduler does must not depend on what it says.
#[test]
fn quoted_words_need_no_capability() {
    for step in [
        "pod \"a\" is pending because \"over quota\"",
        "an event of pod \"a\" says \"Evict\"",
        "2 pods of the cluster were evicted with \"reclaim\"",
        "the placement matches its snapshot",
    ] {
        assert_eq!(case(&format!("    Then {step}")).required_capabilities(), BTreeSet::new());
    }
}

/// The names of capabilities that tags of the features used to name and that mean words, settings
/// or folders instead of behaviour.
#[test]
fn no_feature_has_a_tag_that_names_words() {
    let old = ["kai-words", "kai-settings", "kube-profile", "snapshots", "faults"];
    let wrong = cases()
        .unwrap()
        .into_iter()
        .filter(|case| case.tags.iter().any(|tag| old.contains(&tag.as_str())));
    assert_eq!(wrong.map(|case| case.id()).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn manifests_and_sentences_need_the_capabilities_that_they_use() {
    let manifest =
        |text: &str| format!("    Given this manifest is applied:\n\"\"\"\n{text}\n\"\"\"\n");
    for (text, needed) in [
        ("    Given the scheduler profile \"kube\"".to_owned(), "no-queue"),
        ("    Given the placement strategy \"spread\"".to_owned(), "configuration"),
        ("    Given pods are bound by requests".to_owned(), "bind-requests"),
        ("    Then queue \"a\" has a fair share of 2 GPUs".to_owned(), "reported-shares"),
        (manifest("apiVersion: resource.k8s.io/v1\nkind: ResourceClaim"), "dra"),
        (manifest("adminAccess: true"), "dra-admin-access"),
        (manifest("allocationMode: All"), "dra-all-devices"),
        (manifest("topologySpreadConstraints: []"), "spread"),
    ] {
        assert!(case(&text).required_capabilities().contains(needed), "{text} {needed}");
    }
    assert!(case("    When the scheduler is stopped").stops_the_scheduler());
    assert!(!case("    When pod \"a\" is deleted").stops_the_scheduler());
}
