//! Runs features with other schedulers on a control plane, mainly the default kube-scheduler:
//! scenarios that its capabilities cover pass, others are skipped with the missing capability, and
//! with `--force` they fail for the expected reason. Without the control plane programs the tests
//! are skipped; `SCHEDLAB_REQUIRE=control-plane` makes that a failure.
#![expect(clippy::print_stdout, reason = "a skipped test says why")]

mod run_report;

use std::path::Path;

use run_report::CaseReport;
use tempfile::TempDir;

/// Runs features with kube-scheduler; `None` if no control plane can be started.
fn run(args: &[&str]) -> Option<Vec<CaseReport>> {
    run_with("process:kube-scheduler", args)
}

/// Like [`run`], with another scheduler.
fn run_with(scheduler: &str, args: &[&str]) -> Option<Vec<CaseReport>> {
    let here = ["--cluster", "control-plane", "--scheduler", scheduler];
    let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
    match run_report::run_schedlab("..", &[args, &here].concat()) {
        Ok(run) => {
            println!("{}", run.stderr);
            Some(run.cases)
        }
        Err(stderr)
            if stderr.contains("no control plane") && !required.contains("control-plane") =>
        {
            println!("skipped: {stderr}");
            None
        }
        Err(stderr) => panic!("no report: {stderr}"),
    }
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a workspace")
}

fn case<'a>(all: &'a [CaseReport], name: &str) -> &'a CaseReport {
    all.iter()
        .find(|case| case.name == name)
        .unwrap_or_else(|| panic!("scenario {name} is not in the report"))
}

const NO_POD_GROUPS: &str = "GenericWorkload=false";

#[test]
fn kube_scheduler_passes_what_its_capabilities_cover_and_skips_the_rest() {
    let ready_nodes = "harness/tests/fixtures/runs/standing.feature";
    // Retried, as kube-scheduler sometimes leaves a pod that was created before its claim pending
    // until it flushes its queue of unschedulable pods, after minutes.
    // Without PodGroups, which the target would enable: the next test has those.
    let args = ["features", ready_nodes, "--retries", "1", "--feature-gates", NO_POD_GROUPS];
    let Some(all) = run(&args) else { return };
    for name in [
        "Nodes take pods from the first moment",
        "The emptiest node comes first",
        "A node that a pod wishes for comes before an emptier one",
        "Pods are spread over racks, one more in one than in the other at most",
        "A claim made from a template gets a GPU, and its pod runs where that is",
        "Labels of a volume say in which zones it can be used",
        "So a pod that needs a whole node finds none",
        "No pod is evicted for devices, whatever the priorities are",
        "A shared claim is allocated once, with the configuration for its driver",
        "An unused claim is deallocated if it keeps a pod off its node",
    ] {
        let case = case(&all, name);
        assert_eq!(case.outcome, "passed", "{name}: {}", case.reason);
    }
    for (name, reason) in [
        (
            "A jobset is one gang",
            "it needs the feature gate GenericWorkload (--feature-gates GenericWorkload=true)",
        ),
        (
            "No pod is placed on a node that is not ready",
            "the scenario needs virtual time (@virtual-time)",
        ),
        (
            "A queue without resources is refused",
            "the scenario needs the webhooks of an installed scheduler (@webhooks)",
        ),
    ] {
        let case = case(&all, name);
        assert_eq!((&*case.outcome, &*case.reason), ("skipped", reason), "{name}");
    }
    let failed = all.iter().filter(|case| !matches!(&*case.outcome, "passed" | "skipped"));
    let failed: Vec<String> =
        failed.map(|case| format!("{}: {}", case.name, case.reason)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Scenarios that kube-scheduler fails now and then by its own fault, see `docs/reference/bugs.md`.
const CONDITION_OF_WHOLE_GROUP: [&str; 2] = [
    "Pods above the minimum start as far as there is room",
    "Pods of a basic group start one by one",
];

#[test]
fn kube_scheduler_passes_the_features_of_pod_groups_but_for_its_own_fault() {
    let gates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,\
                 DRAWorkloadResourceClaims=true,WorkloadWithJob=true";
    // Retried, as kube-scheduler tries groups in the order in which their backoffs end, not by priority.
    let retried = ["--min-wait", "30s", "--retries", "1"];
    let args = [&["features/workload-api", "--feature-gates", gates][..], &retried].concat();
    let Some(all) = run(&args) else { return };
    let condition = r#"status.conditions.0.status of podgroup "train": got "False""#;
    for case in all.iter().filter(|case| !matches!(&*case.outcome, "passed" | "skipped")) {
        let is_own_fault = CONDITION_OF_WHOLE_GROUP.contains(&&*case.name);
        assert!(is_own_fault && case.reason.contains(condition), "{}: {}", case.name, case.reason);
    }
    for name in [
        "Nothing of a group is bound while it does not fit whole",
        "One claim is made for the group, and its pods run where its devices are",
        "All pods of a Job start together",
        "A group keeps its domain when a pod comes again",
        "One pod of higher priority preempts a group that is disrupted together",
    ] {
        let case = case(&all, name);
        assert_eq!(case.outcome, "passed", "{name}: {}", case.reason);
    }
}

#[test]
fn pods_of_manifests_get_the_scheduler_name_of_the_target() {
    let folder = TempDir::new().expect("a temporary folder can be created");
    let target = folder.path().join("target.yaml");
    let text = "name: mine\nschedulerName: my-sched\nqueues: scheduling.run.ai/v2\n\
                capabilities: [gang, podgrouper, quota, hierarchy, dra, pod-groups, dra-admin-access]\nwords: schedlab\n";
    std::fs::write(&target, text).expect("a file can be written");
    let target = target.to_str().expect("the path is UTF-8");
    let features = ["features/lab/quota.feature", "features/devices/claims.feature"];
    let Some(all) = run_with("ours", &[&features[..], &["--target", target]].concat()) else {
        return;
    };
    let failed = all.iter().filter(|case| !matches!(&*case.outcome, "passed" | "skipped"));
    let failed: Vec<String> =
        failed.map(|case| format!("{}: {}", case.name, case.reason)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(all.iter().filter(|case| case.outcome == "passed").count() >= 8);
}

#[test]
fn a_scheduler_that_exits_fails_the_scenario_at_once_with_its_output() {
    let folder = TempDir::new().expect("a temporary folder can be created");
    let target = folder.path().join("target.yaml");
    let text = "name: broken\nqueues: none\ncapabilities: [no-queue]\n";
    std::fs::write(&target, text).expect("a file can be written");
    let target = target.to_str().expect("the path is UTF-8");
    let scenario = scenario_at("features/placement/kube.feature", "Scenario: The emptiest node");
    let broken = "process:sh -c 'echo no such flag: --lead; exit 2'";
    let args = ["--target", target, "--force", "--min-wait", "1h"];
    let Some(all) = run_with(broken, &[&[&*scenario], &args[..]].concat()) else {
        return;
    };
    assert_eq!(all[0].outcome, "failed");
    for words in ["the scheduler exited by itself", "no such flag: --lead"] {
        assert!(all[0].reason.contains(words), "{}", all[0].reason);
    }
}

/// Selects the scenario whose line contains `words`, as `file:line`.
fn scenario_at(feature: &str, words: &str) -> String {
    let text = std::fs::read_to_string(workspace().join(feature)).expect("the feature exists");
    let line = text.lines().position(|line| line.contains(words));
    format!("{feature}:{}", line.expect("the scenario exists") + 1)
}

#[test]
fn force_runs_what_a_capability_would_skip_but_not_what_no_api_of_the_target_says() {
    let borrowing = "features/borrowing/borrowing.feature";
    let scenarios = [
        scenario_at(borrowing, "Scenario: A team borrows"),
        scenario_at(borrowing, "Scenario: Non-preemptible"),
        scenario_at("features/gang/gang.feature", "| jobset "),
    ];
    let scenarios = scenarios.each_ref().map(String::as_str);
    let Some(all) = run(&[&scenarios[..], &["--force", "--min-wait", "30s"]].concat()) else {
        return;
    };
    for name in [
        "A team borrows its idle sibling's GPUs up to its own limit",
        "Non-preemptible work may not borrow",
    ] {
        let case = case(&all, name);
        let reason = "kube-scheduler lacks quota: the scheduler has no queues";
        assert_eq!(case.outcome, "skipped", "{name}: {}", case.reason);
        assert!(case.reason.starts_with(reason), "{name}: {}", case.reason);
    }
    let gang = case(&all, "A jobset is one gang");
    assert_eq!(gang.outcome, "failed");
    for words in ["pending pod of jobset \"train\", expected 4", "3 running"] {
        assert!(gang.reason.contains(words), "{}", gang.reason);
    }
}
