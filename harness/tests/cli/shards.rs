//! Runs in shards: times, merged results, reports for CI and quarantine.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::lab::{CommandOutput, Lab};

/// Two files with 14 scenarios, of which the rows with 15 free GPUs fail.
fn lab() -> Lab {
    let lab = Lab::empty();
    for file in ["a", "b"] {
        let rows: Vec<String> =
            (1..=6).map(|nodes| format!("      | {nodes} | {} |\n", nodes * 8)).collect();
        let rows = rows.concat();
        lab.write(
            &format!("features/{file}.feature"),
            &format!(
                "Feature: fleet {file}\n  Scenario: a claim is wrong\n    \
                 Given a fleet of 2 nodes with 8 GPUs each\n    Then 15 GPUs are free\n\n  \
                 Scenario Outline: <nodes> nodes have <gpus> GPUs\n    \
                 Given a fleet of <nodes> nodes with 8 GPUs each\n    Then <gpus> GPUs are free\n    \
                 Examples:\n      | nodes | gpus |\n{rows}"
            ),
        );
    }
    lab
}

/// A text of `JUnit` without times.
fn without_times(xml: &str) -> String {
    let times = regex::Regex::new(r#" time="[^"]*""#).unwrap();
    times.replace_all(xml, "").into_owned()
}

/// The summary of a run without its wall time.
fn summary(run: &CommandOutput) -> String {
    let wall = regex::Regex::new(r" in [0-9.]+ s").unwrap();
    wall.replace_all(&run.stdout, "").into_owned()
}

#[test]
fn merging_four_shards_gives_the_report_of_one_run() {
    let lab = lab();
    let whole = lab.run(&["run", "--results", "whole"]);
    assert_eq!(whole.code, 1, "{}", whole.all());
    for timings in [&[][..], &["--timings", "whole"]] {
        for index in 1..=4 {
            let (shard, results) = (format!("{index}/4"), format!("shard-{index}"));
            let words = ["run", "--shard", &shard, "--results", &results];
            let run = lab.run(&[&words[..], timings].concat());
            assert!([0, 1].contains(&run.code), "{}", run.all());
        }
        let shards = ["shard-3", "shard-1", "shard-4", "shard-2"];
        let merged = lab.run(&[&["merge"][..], &shards].concat());
        assert_eq!(merged.code, 1, "{}", merged.all());
        assert!(merged.stderr.contains("4 shards: the fastest took"), "{}", merged.stderr);
        assert_eq!(summary(&merged), summary(&whole));
        let report = |folder: &str| lab.read(&format!("{folder}/latest/report.json"));
        assert_eq!(report("results"), report("whole"));
        let junit = |folder: &str| without_times(&lab.read(&format!("{folder}/latest/junit.xml")));
        assert_eq!(junit("results"), junit("whole"));
        let ids = |folder: &str| {
            let times = lab.read(&format!("{folder}/latest/times.json"));
            let times: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&times).unwrap();
            times.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(ids("results"), ids("whole"));
    }
}

#[test]
fn shards_are_planned_by_times_and_listed_without_a_run() {
    let lab = lab();
    // One scenario takes as long as all others together.
    let slow = "features/a.feature: a claim is wrong";
    let run = lab.run(&["run"]);
    assert_eq!(run.code, 1, "{}", run.all());
    let times = lab.read("results/latest/times.json");
    let mut times: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&times).unwrap();
    assert_eq!(times.len(), 14);
    for (id, secs) in &mut times {
        *secs = serde_json::json!(if id == slow { 13.0 } else { 1.0 });
    }
    lab.write("times.json", &serde_json::to_string(&times).unwrap());
    let list = |shard: &str| {
        let listed = lab.run(&["list", "--shard", shard, "--timings", "times.json"]);
        assert_eq!(listed.code, 0, "{}", listed.all());
        listed.stdout.lines().count()
    };
    assert_eq!((list("1/2"), list("2/2")), (1, 13));
    let wrong = lab.run(&["list", "--shard", "1/2", "--timings", "none"]);
    assert_eq!(wrong.code, 2, "{}", wrong.all());
    assert!(wrong.stderr.contains("got run `none`, expected a folder"), "{}", wrong.stderr);
}

#[test]
fn a_shard_without_scenarios_passes_and_is_merged() {
    let lab = Lab::from_fixture("passes");
    for index in 1..=4 {
        let shard = format!("{index}/4");
        let results = format!("shard-{index}");
        let run = lab.run(&["run", "--shard", &shard, "--name", "ready", "--results", &results]);
        assert_eq!(run.code, 0, "{}", run.all());
    }
    let merged = lab.run(&["merge", "shard-1", "shard-2", "shard-3", "shard-4"]);
    assert_eq!(merged.code, 0, "{}", merged.all());
    assert!(merged.stdout.contains("1 scenario: 1 passed"), "{}", merged.stdout);
}

#[test]
fn missing_doubled_and_foreign_shards_are_not_merged() {
    let lab = lab();
    let run = |shard: &str, seed: &str, results: &str| {
        let run = lab.run(&["run", "--shard", shard, "--seed", seed, "--results", results]);
        assert!([0, 1].contains(&run.code), "{}", run.all());
    };
    run("1/2", "1", "one");
    run("2/2", "1", "two");
    run("2/2", "7", "seven");
    let message = |runs: &[&str]| {
        let merged = lab.run(&[&["merge"][..], runs].concat());
        assert_eq!((merged.code, &*merged.stdout), (2, ""), "{}", merged.all());
        assert!(!lab.exists("results"));
        merged.stderr
    };
    insta::assert_snapshot!(
        [message(&["one"]), message(&["one", "two", "one"]), message(&["one", "seven"]), message(&["none"])].concat(),
        @r"
    schedlab: cannot merge: shard 2/2 is missing; got 1/2 (one/latest)
    schedlab: cannot merge: shard 1/2 is given twice: one/latest and one/latest
    schedlab: cannot merge: one/latest and seven/latest are not of one run: seed `1` and `7`
    schedlab: got run `none`, expected a folder that `schedlab run` wrote, its name in results, or a results folder: none of them has run.json
    "
    );
    // A feature that changed in between.
    lab.write("features/c.feature", &lab.read("features/a.feature"));
    run("2/2", "1", "changed");
    let changed = message(&["one", "changed"]);
    assert!(changed.contains("are not of one run: suite digest `"), "{changed}");
}

#[test]
fn a_run_whose_reports_are_files_prints_text_and_a_dash_is_standard_output() {
    let lab = Lab::from_fixture("passes");
    let files = lab.run(&["run", "--reporter", "junit=junit.xml"]);
    assert_eq!(files.code, 0, "{}", files.all());
    assert!(files.stdout.contains("3 scenarios: 3 passed"), "{}", files.stdout);
    let json = lab.run(&["run", "--reporter", "json=-,junit=other.xml"]);
    assert_eq!(json.code, 0, "{}", json.all());
    assert_eq!(json.stdout, lab.read("results/latest/report.json"));
    let both = lab.run(&["run", "--reporter", "json=-,pretty"]);
    assert_eq!(both.code, 2, "{}", both.all());
    assert!(both.stderr.contains("got two reports on standard output"), "{}", both.stderr);
}

#[test]
fn the_github_reporter_writes_annotations_and_the_summary_of_the_step() {
    let lab = Lab::from_fixture("fails");
    lab.write("summary.md", "before\n");
    let summary = lab.path("summary.md");
    let environment = [("GITHUB_STEP_SUMMARY", summary.to_str().unwrap())];
    let run = lab.run_with(&["run", "--reporter", "github"], &environment);
    assert_eq!(run.code, 1, "{}", run.all());
    let annotation =
        "::error file=features/fleet.feature,line=5,title=A claim is wrong::got 16 free";
    assert!(run.stdout.contains(annotation), "{}", run.stdout);
    assert!(run.stdout.contains("2 scenarios: 1 passed, 1 failed"), "{}", run.stdout);
    let summary = lab.read("summary.md");
    assert!(summary.starts_with("before\n### schedlab: 2 scenarios ❌ 1 failure\n"), "{summary}");
    assert!(summary.contains("schedlab run features/fleet.feature:3 --seed 1"), "{summary}");
    // In a folder below the repository.
    let folder = lab.path("");
    let root = [("GITHUB_WORKSPACE", folder.parent().unwrap().to_str().unwrap())];
    let below = lab.run_with(&["run", "--reporter", "github"], &root);
    let name = folder.file_name().unwrap().to_str().unwrap();
    assert!(below.stdout.contains(&format!("::error file={name}/features/")), "{}", below.stdout);
}

#[test]
fn no_scenario_starts_after_the_allowed_failures() {
    let lab = lab();
    let run = |most: &str| lab.run(&["run", "-j", "1", "--max-fail", most]);
    let one = run("1");
    assert_eq!(one.code, 1, "{}", one.all());
    assert!(one.stdout.contains("0 passed, 1 failed, 13 not started"), "{}", one.stdout);
    assert!(run("2").stdout.contains("6 passed, 2 failed, 6 not started"), "{}", run("2").stdout);
    let xml = lab.read("results/latest/junit.xml");
    assert!(
        xml.contains(r#"tests="14" skipped="6" errors="0" failures="2""#)
            || xml.contains(r#"tests="14" skipped="6" failures="2" errors="0""#),
        "{xml}"
    );
    assert!(xml.contains(r#"type="not-started""#), "{xml}");
}

#[test]
fn a_failure_in_quarantine_does_not_fail_the_run() {
    let lab = Lab::from_fixture("fails");
    let entry = |until: &str| {
        format!(
            "- scenario: 'features/fleet.feature: A claim is wrong'\n  reason: issue 12\n  \
             until: {until}\n- scenario: 'features/fleet.feature: A claim is right'\n  reason: slow\n"
        )
    };
    lab.write("quarantine.yaml", &entry("9999-12-31"));
    let words = ["run", "--quarantine", "quarantine.yaml"];
    let run = lab.run(&words);
    assert_eq!(run.code, 0, "{}", run.all());
    assert!(run.stdout.contains("✘ A claim is wrong  quarantined: issue 12"), "{}", run.stdout);
    assert!(run.stdout.contains("1 passed, 1 failed in quarantine"), "{}", run.stdout);
    let told =
        "`features/fleet.feature: A claim is right` passed although it is in quarantine (slow)";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    assert!(lab.read("results/latest/junit.xml").contains("quarantined: issue 12"));
    lab.write("quarantine.yaml", &entry("2026-01-01"));
    let expired = lab.run(&words);
    assert_eq!(expired.code, 1, "{}", expired.all());
    assert!(expired.stderr.contains("quarantine.yaml:1: the quarantine of"), "{}", expired.stderr);
    lab.write("quarantine.yaml", "- scenario: 'features/fleet.feature: A claim'\n  reason: r\n");
    let unknown = lab.run(&words);
    assert_eq!(unknown.code, 1, "{}", unknown.all());
    assert!(unknown.stderr.contains("quarantine.yaml:1: scenario: got"), "{}", unknown.stderr);
}

#[test]
fn a_pod_prints_the_results_of_its_shard_to_its_log() {
    let lab = lab();
    let pod = |index: &str| {
        let words = ["shard-pod", "--index", index, "--of", "2", "--results", index];
        let run = lab.run(&words);
        assert_eq!(run.code, 0, "{}", run.all());
        // Progress on standard error is part of the same log.
        schedlab_conformance::report::read_archive(&(run.stderr + &run.stdout)).unwrap()
    };
    for (index, name) in [("0", "pod-0"), ("1", "pod-1")] {
        for (file, text) in pod(index) {
            lab.write(&format!("{name}/{file}"), &text);
        }
    }
    let merged = lab.run(&["merge", "pod-0", "pod-1"]);
    assert!(merged.stdout.contains("14 scenarios: 12 passed, 2 failed"), "{}", merged.all());
    assert_eq!(lab.run(&["shard-pod", "--index", "2", "--of", "2"]).code, 2);
}
