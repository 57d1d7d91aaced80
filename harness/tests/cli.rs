//! The command line of `schedlab` as scripts see it: output, files and exit codes.

#[path = "cli/case_commands.rs"]
mod case_commands;
#[path = "cli/case_settings.rs"]
mod case_settings;
#[path = "cli/container.rs"]
mod container;
#[path = "cli/diff.rs"]
mod diff;
#[path = "cli/docker_test.rs"]
mod docker_test;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/embedded.rs"]
mod embedded;
#[path = "cli/kind.rs"]
mod kind;
#[path = "cli/kubeconfig.rs"]
mod kubeconfig;
#[path = "cli/kwok.rs"]
mod kwok;
#[path = "cli/lab.rs"]
mod lab;
#[path = "cli/lessons.rs"]
mod lessons;
#[path = "cli/logs.rs"]
mod logs;
#[path = "cli/options.rs"]
mod options;
#[path = "cli/project.rs"]
mod project;
#[path = "cli/shards.rs"]
mod shards;
#[path = "cli/upgrade.rs"]
mod upgrade;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use lab::{CommandOutput, Lab};

#[test]
fn a_run_that_passes_exits_with_0_and_writes_its_results() {
    let lab = Lab::from_fixture("passes");
    let run = lab.run(&["run"]);
    assert_eq!(run.code, 0, "{}", run.all());
    assert!(run.stdout.contains("3 scenarios: 3 passed"), "{}", run.stdout);
    for file in ["report.json", "junit.xml"] {
        assert!(lab.exists(&format!("results/latest/{file}")), "{file}");
    }
}

#[test]
fn a_run_inside_the_features_folder_gives_the_same_results() {
    let lab = Lab::from_fixture("snapshot");
    let whole = lab.run(&["run"]);
    let mut inside = lab.command(&["run", "."]);
    let inside =
        CommandOutput::from_output(inside.current_dir(lab.path("features")).output().unwrap());
    let summary = |run: &CommandOutput| {
        run.stdout.lines().find(|line| line.contains("scenarios:")).map(str::to_owned)
    };
    assert_eq!((inside.code, summary(&inside)), (whole.code, summary(&whole)), "{}", inside.all());
    assert!(!lab.exists("features/snapshots"));
}

#[test]
fn a_failed_run_exits_with_1_and_prints_the_command_that_reproduces_it() {
    let lab = Lab::from_fixture("fails");
    let run = lab.run(&["run", "--seed", "7"]);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(run.stdout.contains("got 16 free GPUs, expected 15"), "{}", run.stdout);
    let command = "schedlab run features/fleet.feature:3 --seed 7";
    assert!(run.stdout.contains(command), "{}", run.stdout);
    let args: Vec<&str> = command.split(' ').skip(1).collect();
    let second = lab.run(&args);
    assert_eq!(second.code, 1);
    assert!(second.stdout.contains("1 scenario: 0 passed, 1 failed"), "{}", second.stdout);
}

#[test]
fn a_step_that_times_out_reports_its_last_result_and_the_timeout() {
    let lab = Lab::empty();
    let steps = "Given a fleet of 1 node with 8 GPUs each\n    And a queue \"a\" with a quota of 8\n    \
                 When 2 pods \"x\" with 1 GPU each are submitted to queue \"a\"\n    \
                 Then eventually within 1 hour queue \"a\" has 3 running pods\n";
    lab.write("features/f.feature", &format!("Feature: f\n  Scenario: s\n    {steps}"));
    let run = lab.run(&["run", "--timeout", "90s"]);
    assert_eq!(run.code, 1, "{}", run.all());
    let reason = "the step exceeded 90 s on the cluster's clock (--timeout)";
    assert!(run.stdout.contains(reason), "{}", run.all());
    assert!(
        run.stdout.contains("last mismatch: got 2 running pods of queue \"a\", expected 3"),
        "{}",
        run.all()
    );
    let reproduce = "reproduce: schedlab run features/f.feature:2 --seed 1 --timeout 90s";
    assert!(run.stdout.contains(reproduce), "{}", run.all());
}

#[test]
fn last_failed_selects_the_failures_of_the_last_run() {
    let lab = Lab::from_fixture("fails");
    lab.run(&["run"]);
    let list = lab.run(&["list", "--last-failed"]);
    assert_eq!(list.stdout, "features/fleet.feature:3: A claim is wrong\n");
}

#[test]
fn last_failed_distinguishes_no_last_run_from_no_failures() {
    let lab = Lab::from_fixture("passes");
    let none = lab.run(&["run", "--last-failed"]);
    assert_eq!(none.code, 2, "{}", none.all());
    assert!(
        none.stderr.contains("no last run: cannot read results/latest/report.json"),
        "{}",
        none.stderr
    );
    lab.run(&["run"]);
    let passed = lab.run(&["run", "--last-failed"]);
    let message = "nothing selected: nothing failed in the last run\n";
    assert_eq!((passed.code, &*passed.stderr), (4, message));
}

#[test]
fn ctrl_c_exits_with_130_and_keeps_the_report() {
    let lab = Lab::from_fixture("interrupted");
    let run = interrupt_after_first_line(lab.command(&["run", "-j", "1"]));
    assert_eq!(run.code, 130, "{}", run.all());
    assert!(run.stdout.contains("2 scenarios: 1 passed, 1 not started"), "{}", run.stdout);
    let report = lab.read("results/latest/report.json");
    assert!(report.contains("\"outcome\": \"not-run\""), "{report}");
    assert!(lab.read("results/latest/junit.xml").contains("skipped=\"1\""));
}

#[test]
fn an_empty_cluster_runs_until_ctrl_c() {
    let lab = Lab::empty();
    let up = interrupt_after_first_line(lab.command(&["up", "--empty", "--kubeconfig", "-"]));
    assert_eq!(up.code, 0, "{}", up.all());
    assert!(up.stdout.contains("current-context"), "{}", up.stdout);
    assert!(up.stderr.contains("0 nodes and scheduler"), "{}", up.stderr);
}

#[test]
fn fail_fast_starts_no_scenario_after_a_failure() {
    let lab = Lab::from_fixture("fails");
    let run = lab.run(&["run", "--fail-fast", "-j", "1"]);
    assert!(run.stdout.contains("0 passed, 1 failed, 1 not started"), "{}", run.stdout);
    assert!(
        !run.stdout.contains("A claim is right"),
        "a scenario that did not run must not be listed: {}",
        run.stdout
    );
}

#[test]
fn an_undefined_step_fails_with_the_nearest_step_and_a_snippet() {
    let lab = Lab::from_fixture("undefined");
    let run = lab.run(&["run"]);
    assert_eq!(run.code, 1);
    for expected in [
        "no step matches `Given a flet of 2 nodes with 8 GPUs each`",
        "nearest: Given a fleet of {int} node(s) with {int} GPU(s) each",
        "#[given(expr = ",
    ] {
        assert!(run.stdout.contains(expected), "{expected}: {}", run.stdout);
    }
    let check = lab.run(&["check"]);
    assert_eq!(check.code, 1);
    assert!(check.stderr.contains("features/fleet.feature:4: no step"), "{}", check.stderr);
}

#[test]
fn a_short_row_is_reported_with_file_line_and_columns() {
    let run = Lab::from_fixture("short-row").run(&["run"]);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.stderr.trim(),
        "features/queues.feature:6: got 2 cells in this row, expected 3 as in line 5: queue, \
         quota, weight"
    );
}

#[test]
fn a_bad_cell_is_reported_with_its_own_line() {
    let run = Lab::from_fixture("bad-cell").run(&["run"]);
    assert_eq!(run.code, 1);
    let message = "features/queues.feature:8: column `quota`: got eight, expected a number";
    assert!(run.stdout.contains(message), "{}", run.stdout);
}

#[test]
fn an_empty_selection_exits_with_4() {
    let lab = Lab::from_fixture("passes");
    for selection in [["--tags", "@none"], ["--name", "nobody"]] {
        let run = lab.run(&[&["run"][..], &selection].concat());
        assert_eq!(run.code, 4, "{}", run.all());
        assert!(run.stderr.contains("nothing selected"), "{}", run.stderr);
    }
}

#[test]
fn a_missing_path_and_an_invalid_flag_exit_with_2() {
    let lab = Lab::empty();
    let missing = lab.run(&["run", "featurs"]);
    assert_eq!(
        (missing.code, missing.stderr.trim()),
        (2, "schedlab: featurs: no such file or folder")
    );
    assert_eq!(lab.run(&["run", "--shard", "5/4"]).code, 2);
    assert_eq!(lab.run(&["run", "--reporter", "pdf=x"]).code, 2);
    assert_eq!(lab.run(&["run", "--tags", "gang and"]).code, 2);
}

#[test]
fn scenarios_are_selected_by_tag_name_and_line() {
    let lab = Lab::from_fixture("passes");
    let list = |args: &[&str]| lab.run(&[&["list"], args].concat()).stdout;
    let fast = "features/fleet.feature:5: Nodes are ready\n";
    assert_eq!(list(&["--tags", "@fast"]), fast);
    assert_eq!(list(&["--name", "Nodes are ready", "--exact"]), fast);
    assert_eq!(list(&["features/fleet.feature:6"]), fast);
    let row = "features/fleet.feature:16: A pool of 3 nodes has 24 GPUs\n";
    assert_eq!(list(&["features/fleet.feature:16"]), row);
    let json = list(&["--format", "json", "--tags", "@fast"]);
    assert!(json.contains("\"id\": \"features/fleet.feature: Nodes are ready\""), "{json}");
}

#[test]
fn repeated_runs_write_identical_reports() {
    let lab = Lab::from_fixture("passes");
    let run = lab.run(&["run", "--repeat", "20", "--shuffle", "--seed", "3"]);
    assert_eq!(run.code, 0, "{}", run.all());
    let first = lab.read("results/latest/report.json");
    lab.run(&["run", "-j", "1", "--seed", "3"]);
    assert_eq!(lab.read("results/latest/report.json"), first);
}

#[test]
fn a_new_snapshot_needs_review_and_then_detects_changes() {
    let lab = Lab::from_fixture("snapshot");
    let snapshot = "snapshots/placement__an-empty-fleet-is-shown.snap";
    let first = lab.run(&["run"]);
    assert_eq!(first.code, 5, "{}", first.all());
    assert!(lab.exists(&format!("{snapshot}.new")));
    assert_eq!(lab.run(&["snapshot", "accept"]).code, 0);
    assert_eq!(lab.run(&["run"]).code, 0);
    let text = lab.read(snapshot);
    lab.write(snapshot, &text.replace("node", "nude"));
    let changed = lab.run(&["run"]);
    assert_eq!(changed.code, 1, "{}", changed.all());
    assert!(changed.stdout.contains(&format!("{snapshot} differs")), "{}", changed.stdout);
    let failed = "✘ Then the placement matches its snapshot";
    assert!(changed.stdout.contains(failed), "{}", changed.stdout);
    assert_eq!(lab.run(&["snapshot", "reject"]).code, 0);
    assert!(!lab.exists(&format!("{snapshot}.new")));
}

#[test]
fn of_two_snapshot_steps_only_the_one_that_differs_fails() {
    let lab = Lab::from_fixture("passes");
    lab.write(
        "features/both.feature",
        "Feature: Both\n\n  Scenario: Both are shown\n    Given a fleet of 1 node with 8 GPUs each\n    \
         Then the placement matches its snapshot\n    And the events match their snapshot\n",
    );
    let run = || lab.run(&["run", "features/both.feature"]);
    assert_eq!(run().code, 5);
    assert_eq!(lab.run(&["snapshot", "accept"]).code, 0);
    let snapshot = "snapshots/both__both-are-shown.snap";
    let reviewed = lab.read(snapshot);
    for (title, step_marks) in [("placement", ["✘", "✔"]), ("events", ["✔", "✘"])] {
        lab.write(
            snapshot,
            &reviewed.replace(&format!("## {title}\n"), &format!("## {title}\nmore")),
        );
        let run = run();
        let [placement, events] = step_marks;
        let steps = [
            format!("{placement} Then the placement matches its snapshot"),
            format!("{events} And the events match their snapshot"),
        ];
        assert_eq!(run.code, 1, "{}", run.all());
        assert!(steps.iter().all(|step| run.stdout.contains(step)), "{}", run.all());
    }
}

#[test]
fn a_snapshot_matches_other_seeds_up_to_symmetry() {
    let lab = Lab::from_fixture("passes");
    let feature = |pods: u32| {
        format!(
            "Feature: Seeds\n\n  Scenario: Pods are placed\n    Given a fleet of 2 nodes with 8 GPUs each\n    \
             And a queue \"a\" with a quota of 16\n    \
             And {pods} pods \"train\" with 1 GPU each are submitted to queue \"a\"\n    \
             Then the placement matches its snapshot\n"
        )
    };
    lab.write("features/seeds.feature", &feature(11));
    let run = |seed: &str| lab.run(&["run", "features/seeds.feature", "--seed", seed]);
    assert_eq!(run("1").code, 5);
    assert_eq!(lab.run(&["snapshot", "accept"]).code, 0);
    for seed in ["1", "2", "3"] {
        assert_eq!(run(seed).code, 0, "{}", run(seed).all());
    }
    lab.write("features/seeds.feature", &feature(12));
    let other = run("2");
    assert_eq!(other.code, 1, "{}", other.all());
    assert!(other.stdout.contains("differs, even up to symmetry"), "{}", other.stdout);
    assert!(!lab.exists("snapshots/seeds__pods-are-placed.snap.new"));
}

#[test]
fn ci_neither_writes_nor_accepts_an_unreviewed_snapshot() {
    let lab = Lab::from_fixture("snapshot");
    let run = lab.run_with(&["run"], &[("CI", "true"), ("INSTA_UPDATE", "always")]);
    assert_eq!(run.code, 5, "{}", run.all());
    assert!(!lab.exists("snapshots"));
    lab.run(&["run"]);
    let run = lab.run_with(&["run"], &[("CI", "true")]);
    assert_eq!(run.code, 5, "{}", run.all());
    assert!(run.stderr.contains("pending review"), "{}", run.stderr);
}

#[test]
fn an_orphan_snapshot_fails_the_run() {
    let run = Lab::from_fixture("orphan").run(&["run"]);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(
        run.stderr.contains("snapshots/fleet__renamed.snap: orphan snapshot"),
        "{}",
        run.stderr
    );
}

#[test]
fn reports_are_written_to_the_requested_files() {
    let lab = Lab::from_fixture("fails");
    lab.run(&["run", "--reporter", "junit=out.xml,json=out.json"]);
    assert!(lab.read("out.xml").contains("failures=\"1\""));
    assert!(lab.read("out.json").contains("\"outcome\": \"failed\""));
    let github = lab.run_with(&["run"], &[("GITHUB_ACTIONS", "true")]);
    let annotation = "::error file=features/fleet.feature,line=5,title=A claim is wrong::";
    assert!(github.stdout.contains(annotation), "{}", github.stdout);
}

#[test]
fn a_run_that_cannot_start_is_an_error_in_the_requested_reports() {
    let lab = Lab::from_fixture("short-row");
    let reported = |args: &[&str]| {
        lab.write("out.xml", "an earlier run");
        let run = lab.run(&[&["run", "--reporter", "junit=out.xml,json=out.json"], args].concat());
        assert!(
            lab.read("out.xml").contains(r#"tests="1" skipped="0" failures="0" errors="1""#),
            "{args:?}"
        );
        assert!(lab.read("out.json").contains("\"problems\""), "{args:?}");
        run.code
    };
    assert_eq!(reported(&[]), 1);
    assert!(lab.read("out.xml").contains("features/queues.feature:6"), "{}", lab.read("out.xml"));
    assert_eq!(reported(&["nowhere"]), 2);
    let feature = "Feature: f\n  Scenario: s\n    Then there are no pods\n";
    lab.write("features/queues.feature", feature);
    assert_eq!(reported(&["--tags", "@none"]), 4);
    let orphan = Lab::from_fixture("orphan");
    orphan.run(&["run"]);
    assert!(orphan.read("results/latest/junit.xml").contains("errors=\"1\""));
}

#[test]
fn crash_before_fails_if_no_scheduler_crashed() {
    let run = Lab::from_fixture("passes").run(&["run", "--crash-before", "9999"]);
    assert_eq!(run.code, 1, "{}", run.all());
    let words = "--crash-before: no scheduler crashed, because none wrote so often in 3 passed \
                 scenarios";
    assert!(run.stderr.contains(words), "{}", run.stderr);
}

#[test]
fn recorded_cases_are_counted_by_file_and_a_difference_is_a_failure() {
    let lab = Lab::from_fixture("cases");
    let run = lab.run(&["cases", "recorded"]);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(run.stdout.contains("wrong.json                 0      1    0"), "{}", run.stdout);
    assert!(
        run.stdout.contains("a: got a-0 Binding on n1, expected Binding on n2"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.ends_with("\n2 passed, 1 failed, 0 not applicable\n"), "{}", run.stdout);
    let packing = lab.run(&["cases", "recorded", "--filter", "packing"]);
    assert_eq!(packing.code, 0, "{}", packing.all());
    assert!(
        packing.stdout.ends_with("\n1 passed, 0 failed, 0 not applicable\n"),
        "{}",
        packing.stdout
    );
    assert_eq!(lab.run(&["cases", "recorded", "--filter", "nothing"]).code, 4);
    let json = lab.run(&["cases", "recorded", "--format", "json"]);
    assert!(json.stdout.contains("\"verdict\": \"failed\""), "{}", json.stdout);
}

#[test]
fn cases_with_several_rounds_also_run_through_the_scheduler_process() {
    let lab = Lab::from_fixture("cases");
    let run = lab.run(&["cases", "rounds"]);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(run.stdout.contains("rounds, end to end      2      1    0\n"), "{}", run.stdout);
    let moved = "failed: rounds#1, end to end nobody takes back anything\n  \
                 mine: got mine-0 Running on node_a, expected Pending\n";
    assert!(run.stdout.contains(moved), "{}", run.stdout);
    assert!(run.stdout.ends_with("\n4 passed, 2 failed, 0 not applicable\n"), "{}", run.stdout);
    let pending = "\"id\": \"lost-0\",\n       \"state\": \"Pending\"";
    let text = lab.read("rounds/rounds.json");
    assert!(text.contains(pending));
    lab.write(
        "rounds/rounds.json",
        &text.replace(pending, &pending.replace("Pending", "Succeeded")),
    );
    let run = lab.run(&["cases", "rounds"]);
    let why = "rounds, end to end      1      1    1  1 cannot run end to end: a task ended";
    assert!(run.stdout.contains(why), "{}", run.stdout);
}

#[test]
fn cases_of_fractions_sub_groups_and_pods_that_no_eviction_helps_pass() {
    let lab = Lab::from_fixture("cases");
    let run = lab.run(&["cases", "scheduling"]);
    assert_eq!(run.code, 0, "{}", run.all());
    assert!(run.stdout.ends_with("\n14 passed, 0 failed, 0 not applicable\n"), "{}", run.stdout);
}

#[test]
fn a_malformed_case_is_reported_with_its_file_and_field() {
    let lab = Lab::from_fixture("cases");
    let text = lab.read("recorded/packing.json").replace("\"allocate\"", "\"advertise\"");
    lab.write("recorded/packing.json", &text);
    let run = lab.run(&["cases", "recorded"]);
    assert_eq!(run.code, 1, "{}", run.all());
    let message =
        "recorded/packing.json: cases[0] (packing#0): actions[0]: unknown variant `advertise`";
    assert!(run.stdout.contains(message), "{}", run.stdout);
    let totals = "\n1 passed, 2 failed, 0 not applicable\n";
    assert!(run.stdout.ends_with(totals), "the other cases still run: {}", run.stdout);
    assert_eq!(lab.run(&["cases", "nowhere"]).code, 3);
}

/// Runs a command, interrupts it after its first line of output, and waits until it ends.
fn interrupt_after_first_line(mut command: Command) -> CommandOutput {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the command runs");
    let mut out = BufReader::new(child.stdout.take().expect("standard output is piped"));
    let mut text = Vec::new();
    out.read_until(b'\n', &mut text).expect("the command prints a line");
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success());
    out.read_to_end(&mut text).expect("standard output is readable");
    let mut output = child.wait_with_output().expect("the command ends");
    output.stdout = text;
    CommandOutput::from_output(output)
}
