//! The default kube-scheduler as a target, on a control plane: what its capabilities allow
//! passes, what it lacks is skipped and says so, and what is forced upon it fails for the reason
//! that a reader of the feature expects. Where there are no programs this is skipped;
//! `SCHEDLAB_REQUIRE=control-plane` makes that a failure.
#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

mod told;

use std::path::Path;

use tempfile::TempDir;
use told::Told;

/// Runs features with kube-scheduler; the outcome and reason of each scenario by its name, or
/// nothing where no control plane can be started.
fn run(args: &[&str]) -> Option<Vec<Told>> {
    run_as("process:kube-scheduler", args)
}

/// The same with another scheduler.
fn run_as(scheduler: &str, args: &[&str]) -> Option<Vec<Told>> {
    let here = ["--cluster", "control-plane", "--scheduler", scheduler];
    let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
    match told::run("..", &[args, &here].concat()) {
        Ok(run) => {
            println!("{}", run.stderr);
            Some(run.cases)
        }
        Err(err) if err.contains("no control plane") && !required.contains("control-plane") => {
            println!("skipped: {err}");
            None
        }
        Err(err) => panic!("no report: {err}"),
    }
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in one")
}

fn told<'a>(all: &'a [Told], name: &str) -> &'a Told {
    all.iter().find(|told| told.name == name).unwrap_or_else(|| panic!("no scenario {name}"))
}

const WORDS: &str = "kube-scheduler lacks kai-words";

#[test]
fn kube_scheduler_passes_what_it_can_do_and_is_spared_the_rest() {
    let standing = "harness/tests/fixtures/runs/standing.feature";
    // Now and then it leaves a pod that came before its claim until it looks at all again, after
    // minutes.
    let Some(all) = run(&["features", standing, "--retries", "1"]) else {
        return;
    };
    for name in [
        "Nodes take pods from the first moment",
        "The emptiest node comes first",
        "A node that a pod wishes for comes before an emptier one",
        "Pods are spread over racks, one more in one than in the other at most",
        "A claim made from a template gets a GPU, and its pod runs where that is",
        "Labels of a volume say in which zones it can be used",
        "So a pod that needs a whole node finds none",
        "Nobody is evicted for devices, whatever the priorities are",
        "A shared claim is allocated once, with what its driver is to know",
        "A claim that nobody uses is given back where it keeps a pod off its node",
    ] {
        let told = told(&all, name);
        assert_eq!(told.outcome, "passed", "{name}: {}", told.why);
    }
    for (name, why) in [
        ("A jobset is one gang", "kube-scheduler lacks gang, podgrouper"),
        ("A gang runs in part", "kube-scheduler lacks gang"),
        ("A node dies under a gang", "it needs virtual time (@virtual-time)"),
        ("A claim that one pod at a time may have is used by one after the other", WORDS),
        ("A node that is deleted and added again under its name starts clean", WORDS),
    ] {
        let told = told(&all, name);
        assert_eq!((&*told.outcome, &*told.why), ("skipped", why), "{name}");
    }
    let failed = all.iter().filter(|told| !matches!(&*told.outcome, "passed" | "skipped"));
    let failed: Vec<String> = failed.map(|told| format!("{}: {}", told.name, told.why)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_scheduler_of_any_name_gets_the_pods_of_manifests() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let target = folder.path().join("target.yaml");
    let text = "name: mine\nschedulerName: my-sched\nqueues: scheduling.run.ai/v2\n\
                capabilities: [gang, podgrouper, quota, lab, kai-words]\n";
    std::fs::write(&target, text).expect("a file can be written");
    let target = target.to_str().expect("its path is text");
    let features = ["features/lab/quota.feature", "features/devices/claims.feature"];
    let Some(all) = run_as("ours", &[&features[..], &["--target", target]].concat()) else {
        return;
    };
    let failed = all.iter().filter(|told| !matches!(&*told.outcome, "passed" | "skipped"));
    let failed: Vec<String> = failed.map(|told| format!("{}: {}", told.name, told.why)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(all.iter().filter(|told| told.outcome == "passed").count() >= 8);
}

#[test]
fn a_scheduler_that_ends_by_itself_is_told_with_its_last_words_and_not_waited_for() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let target = folder.path().join("target.yaml");
    let text = "name: broken\nqueues: none\ncapabilities: [kube-profile]\n";
    std::fs::write(&target, text).expect("a file can be written");
    let target = target.to_str().expect("its path is text");
    let scenario = at("features/placement/kube.feature", "Scenario: The emptiest node");
    let broken = "process:sh -c 'echo no such flag: --lead; exit 2'";
    let args = ["--target", target, "--force", "--min-wait", "1h"];
    let Some(all) = run_as(broken, &[&[&*scenario], &args[..]].concat()) else {
        return;
    };
    assert_eq!(all[0].outcome, "failed");
    for words in ["the scheduler ended by itself", "no such flag: --lead"] {
        assert!(all[0].why.contains(words), "{}", all[0].why);
    }
}

/// The scenario whose line contains these words.
fn at(feature: &str, words: &str) -> String {
    let text = std::fs::read_to_string(workspace().join(feature)).expect("the feature is there");
    let line = text.lines().position(|line| line.contains(words));
    format!("{feature}:{}", line.expect("the scenario is there") + 1)
}

#[test]
fn kube_scheduler_that_is_forced_fails_queues_and_gangs_for_what_it_did() {
    let forced = [
        ("A team borrows its idle sibling's GPUs up to its own limit", "expected 24 running", "32"),
        ("Non-preemptible work may not borrow", "expected 16 running pods", "20 running"),
        ("A jobset is one gang", "expected 4 pending pods of jobset \"train\"", "3 running"),
    ];
    let borrowing = "features/borrowing/borrowing.feature";
    let scenarios = [
        at(borrowing, "Scenario: A team borrows"),
        at(borrowing, "Scenario: Non-preemptible"),
        at("features/gang/gang.feature", "| jobset "),
    ];
    let scenarios = scenarios.each_ref().map(String::as_str);
    let Some(all) = run(&[&scenarios[..], &["--force", "--min-wait", "8s"]].concat()) else {
        return;
    };
    assert_eq!(all.len(), forced.len());
    for (name, expected, found) in forced {
        let told = told(&all, name);
        assert_eq!(told.outcome, "failed", "{name}");
        assert!(told.why.contains(expected) && told.why.contains(found), "{name}: {}", told.why);
    }
}
