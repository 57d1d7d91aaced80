//! The program as scripts see it: what it prints, what it writes and how it ends.

#[path = "cli/container.rs"]
mod container;
#[path = "cli/diff.rs"]
mod diff;
#[path = "cli/docker_test.rs"]
mod docker_test;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/kind.rs"]
mod kind;
#[path = "cli/kubeconfig.rs"]
mod kubeconfig;
#[path = "cli/kwok.rs"]
mod kwok;
#[path = "cli/lab.rs"]
mod lab;
#[path = "cli/options.rs"]
mod options;
#[path = "cli/upgrade.rs"]
mod upgrade;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use lab::{Ended, Lab};

#[test]
fn a_run_that_passes_ends_with_0_and_leaves_its_results() {
    let lab = Lab::of("passes");
    let run = lab.run(&["run"]);
    assert_eq!(run.code, 0, "{}", run.all());
    assert!(run.out.contains("3 scenarios: 3 passed"), "{}", run.out);
    for file in ["report.json", "junit.xml"] {
        assert!(lab.exists(&format!("results/latest/{file}")), "{file}");
    }
}

#[test]
fn from_inside_the_features_folder_a_run_is_the_same() {
    let lab = Lab::of("snapshot");
    let whole = lab.run(&["run"]);
    let mut inside = lab.command(&["run", "."]);
    let inside = Ended::of(inside.current_dir(lab.path("features")).output().unwrap());
    let summary =
        |run: &Ended| run.out.lines().find(|line| line.contains("scenarios:")).map(str::to_owned);
    assert_eq!((inside.code, summary(&inside)), (whole.code, summary(&whole)), "{}", inside.all());
    assert!(!lab.exists("features/snapshots"));
}

#[test]
fn a_failure_ends_with_1_and_with_the_line_that_reproduces_it() {
    let lab = Lab::of("fails");
    let run = lab.run(&["run", "--seed", "7"]);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(run.out.contains("expected 15 free GPUs, found 16"), "{}", run.out);
    let again = "schedlab run features/fleet.feature:3 --seed 7";
    assert!(run.out.contains(again), "{}", run.out);
    let words: Vec<&str> = again.split(' ').skip(1).collect();
    let second = lab.run(&words);
    assert_eq!(second.code, 1);
    assert!(second.out.contains("1 scenarios: 0 passed, 1 failed"), "{}", second.out);
}

#[test]
fn a_step_that_takes_too_long_tells_what_it_waited_for_and_how_long_it_may_take() {
    let lab = Lab::empty();
    let steps = "Given a fleet of 1 node with 8 GPUs each\n    And a queue \"a\" with a quota of 8\n    \
                 When 2 pods \"x\" with 1 GPU each are submitted to queue \"a\"\n    \
                 Then eventually within 1 hour queue \"a\" has 3 running pods\n";
    lab.write("features/f.feature", &format!("Feature: f\n  Scenario: s\n    {steps}"));
    let run = lab.run(&["run", "--timeout", "90s"]);
    assert_eq!(run.code, 1, "{}", run.all());
    let words = "more than 90 s of the cluster's time (--timeout)";
    assert!(run.out.contains(words), "{}", run.all());
    assert!(
        run.out.contains("last found: expected 3 running pods of queue \"a\", found 2"),
        "{}",
        run.all()
    );
    let again = "reproduce: schedlab run features/f.feature:2 --seed 1 --timeout 90s";
    assert!(run.out.contains(again), "{}", run.all());
}

#[test]
fn the_last_failures_alone_can_be_run_again() {
    let lab = Lab::of("fails");
    lab.run(&["run"]);
    let again = lab.run(&["list", "--last-failed"]);
    assert_eq!(again.out, "features/fleet.feature:3: A claim is wrong\n");
}

#[test]
fn no_last_run_and_a_last_run_without_failures_are_told_apart() {
    let lab = Lab::of("passes");
    let none = lab.run(&["run", "--last-failed"]);
    assert_eq!(none.code, 2, "{}", none.all());
    assert!(none.err.contains("no last run: results/latest/report.json"), "{}", none.err);
    lab.run(&["run"]);
    let passed = lab.run(&["run", "--last-failed"]);
    let words = "nothing selected: nothing failed in the last run\n";
    assert_eq!((passed.code, &*passed.err), (4, words));
}

#[test]
fn ctrl_c_ends_a_run_with_130_and_what_there_is() {
    let lab = Lab::of("interrupted");
    let run = interrupted_after_a_line(lab.command(&["run", "-j", "1"]));
    assert_eq!(run.code, 130, "{}", run.all());
    assert!(run.out.contains("2 scenarios: 1 passed, 1 not run"), "{}", run.out);
    let report = lab.read("results/latest/report.json");
    assert!(report.contains("\"outcome\": \"not-run\""), "{report}");
    assert!(lab.read("results/latest/junit.xml").contains("skipped=\"1\""));
}

#[test]
fn an_empty_cluster_comes_up_and_goes_with_ctrl_c() {
    let lab = Lab::empty();
    let up = interrupted_after_a_line(lab.command(&["up", "--empty", "--kubeconfig", "-"]));
    assert_eq!(up.code, 0, "{}", up.all());
    assert!(up.out.contains("current-context"), "{}", up.out);
    assert!(up.err.contains("0 nodes and scheduler"), "{}", up.err);
}

#[test]
fn fail_fast_begins_nothing_after_a_failure() {
    let lab = Lab::of("fails");
    let run = lab.run(&["run", "--fail-fast", "-j", "1"]);
    assert!(run.out.contains("0 passed, 1 failed, 1 not run"), "{}", run.out);
    assert!(!run.out.contains("A claim is right"), "what was not run is not listed: {}", run.out);
}

#[test]
fn an_undefined_step_fails_with_the_nearest_known_one_and_a_snippet() {
    let lab = Lab::of("undefined");
    let run = lab.run(&["run"]);
    assert_eq!(run.code, 1);
    for words in [
        "no step of the vocabulary says `Given a flet of 2 nodes with 8 GPUs each`",
        "nearest: Given a fleet of {int} node(s) with {int} GPU(s) each",
        "#[given(expr = ",
    ] {
        assert!(run.out.contains(words), "{words}: {}", run.out);
    }
    let check = lab.run(&["check"]);
    assert_eq!(check.code, 1);
    assert!(check.err.contains("features/fleet.feature:4: no step"), "{}", check.err);
}

#[test]
fn a_short_row_is_told_with_file_line_and_what_is_allowed() {
    let run = Lab::of("short-row").run(&["run"]);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.err.trim(),
        "features/queues.feature:6: this row has 2 cells, but line 5 gives the table 3: queue, \
         quota, weight"
    );
}

#[test]
fn a_bad_cell_is_told_with_its_own_line() {
    let run = Lab::of("bad-cell").run(&["run"]);
    assert_eq!(run.code, 1);
    let words = "features/queues.feature:8: column `quota`: got eight, expected a number";
    assert!(run.out.contains(words), "{}", run.out);
}

#[test]
fn an_empty_selection_ends_with_4() {
    let lab = Lab::of("passes");
    for selection in [["--tags", "@none"], ["--name", "nobody"]] {
        let run = lab.run(&[&["run"][..], &selection].concat());
        assert_eq!(run.code, 4, "{}", run.all());
        assert!(run.err.contains("nothing selected"), "{}", run.err);
    }
}

#[test]
fn a_path_that_is_not_there_and_a_wrong_flag_are_told() {
    let lab = Lab::empty();
    let missing = lab.run(&["run", "featurs"]);
    assert_eq!(
        (missing.code, missing.err.trim()),
        (2, "schedlab: featurs: no such file or folder")
    );
    assert_eq!(lab.run(&["run", "--shard", "5/4"]).code, 2);
    assert_eq!(lab.run(&["run", "--reporter", "html=x"]).code, 2);
    assert_eq!(lab.run(&["run", "--tags", "gang and"]).code, 2);
}

#[test]
fn selections_mean_tags_names_and_lines() {
    let lab = Lab::of("passes");
    let list = |args: &[&str]| lab.run(&[&["list"], args].concat()).out;
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
fn twenty_runs_are_equal_to_the_byte() {
    let lab = Lab::of("passes");
    let run = lab.run(&["run", "--repeat", "20", "--shuffle", "--seed", "3"]);
    assert_eq!(run.code, 0, "{}", run.all());
    let first = lab.read("results/latest/report.json");
    lab.run(&["run", "-j", "1", "--seed", "3"]);
    assert_eq!(lab.read("results/latest/report.json"), first);
}

#[test]
fn a_new_snapshot_waits_is_accepted_and_then_guards() {
    let lab = Lab::of("snapshot");
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
    assert!(changed.out.contains(&format!("{snapshot} differs")), "{}", changed.out);
    let failed = "✘ Then the placement matches its snapshot";
    assert!(changed.out.contains(failed), "{}", changed.out);
    assert_eq!(lab.run(&["snapshot", "reject"]).code, 0);
    assert!(!lab.exists(&format!("{snapshot}.new")));
}

#[test]
fn of_two_snapshot_steps_the_one_that_differs_did_not_hold() {
    let lab = Lab::of("passes");
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
    for (title, marks) in [("placement", ["✘", "✔"]), ("events", ["✔", "✘"])] {
        lab.write(
            snapshot,
            &reviewed.replace(&format!("## {title}\n"), &format!("## {title}\nmore")),
        );
        let run = run();
        let [placement, events] = marks;
        let steps = [
            format!("{placement} Then the placement matches its snapshot"),
            format!("{events} And the events match their snapshot"),
        ];
        assert_eq!(run.code, 1, "{}", run.all());
        assert!(steps.iter().all(|step| run.out.contains(step)), "{}", run.all());
    }
}

#[test]
fn with_another_seed_a_snapshot_holds_up_to_names_and_ties() {
    let lab = Lab::of("passes");
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
    assert!(other.out.contains("differs, even up to symmetry"), "{}", other.out);
    assert!(!lab.exists("snapshots/seeds__pods-are-placed.snap.new"));
}

#[test]
fn ci_writes_no_snapshot_and_takes_none_that_waits() {
    let lab = Lab::of("snapshot");
    let run = lab.run_with(&["run"], &[("CI", "true"), ("INSTA_UPDATE", "always")]);
    assert_eq!(run.code, 5, "{}", run.all());
    assert!(!lab.exists("snapshots"));
    lab.run(&["run"]);
    let run = lab.run_with(&["run"], &[("CI", "true")]);
    assert_eq!(run.code, 5, "{}", run.all());
    assert!(run.err.contains("waits for review"), "{}", run.err);
}

#[test]
fn an_orphan_snapshot_fails_the_run() {
    let run = Lab::of("orphan").run(&["run"]);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(run.err.contains("snapshots/fleet__renamed.snap: orphan snapshot"), "{}", run.err);
}

#[test]
fn reports_go_where_they_are_asked_for() {
    let lab = Lab::of("fails");
    lab.run(&["run", "--reporter", "junit=out.xml,json=out.json"]);
    assert!(lab.read("out.xml").contains("failures=\"1\""));
    assert!(lab.read("out.json").contains("\"outcome\": \"failed\""));
    let github = lab.run_with(&["run"], &[("GITHUB_ACTIONS", "true")]);
    let annotation = "::error file=features/fleet.feature,line=5,title=A claim is wrong::";
    assert!(github.out.contains(annotation), "{}", github.out);
}

#[test]
fn a_run_that_cannot_begin_is_an_error_in_the_reports_that_are_asked_for() {
    let lab = Lab::of("short-row");
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
    let orphan = Lab::of("orphan");
    orphan.run(&["run"]);
    assert!(orphan.read("results/latest/junit.xml").contains("errors=\"1\""));
}

#[test]
fn deaths_of_which_there_were_none_show_nothing() {
    let run = Lab::of("passes").run(&["run", "--crash-before", "9999"]);
    assert_eq!(run.code, 1, "{}", run.all());
    let words = "--crash-before: no scheduler wrote so often in the scenarios that passed, so that \
                 none died: 3 scenarios";
    assert!(run.err.contains(words), "{}", run.err);
}

#[test]
fn recorded_cases_are_counted_by_file_and_a_difference_is_a_failure() {
    let lab = Lab::of("cases");
    let run = lab.run(&["cases", "recorded"]);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(run.out.contains("wrong.json                 0      1    0"), "{}", run.out);
    assert!(run.out.contains("a: Binding on n2 expected; a-0 Binding on n1"), "{}", run.out);
    assert!(run.out.ends_with("\n2 passed, 1 failed, 0 not applicable\n"), "{}", run.out);
    let packing = lab.run(&["cases", "recorded", "--filter", "packing"]);
    assert_eq!(packing.code, 0, "{}", packing.all());
    assert!(packing.out.ends_with("\n1 passed, 0 failed, 0 not applicable\n"), "{}", packing.out);
    assert_eq!(lab.run(&["cases", "recorded", "--filter", "nothing"]).code, 4);
    let json = lab.run(&["cases", "recorded", "--format", "json"]);
    assert!(json.out.contains("\"verdict\": \"failed\""), "{}", json.out);
}

#[test]
fn cases_that_go_on_for_rounds_are_run_by_the_whole_scheduler_too() {
    let lab = Lab::of("cases");
    let run = lab.run(&["cases", "rounds"]);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(run.out.contains("rounds, through the shell      2      1    0\n"), "{}", run.out);
    let moved = "failed: rounds#1, through the shell nobody takes back anything\n  \
                 mine: Pending expected; mine-0 Running on node_a\n";
    assert!(run.out.contains(moved), "{}", run.out);
    assert!(run.out.ends_with("\n4 passed, 2 failed, 0 not applicable\n"), "{}", run.out);
    let pending = "\"id\": \"lost-0\",\n       \"state\": \"Pending\"";
    let text = lab.read("rounds/rounds.json");
    assert!(text.contains(pending));
    lab.write(
        "rounds/rounds.json",
        &text.replace(pending, &pending.replace("Pending", "Succeeded")),
    );
    let run = lab.run(&["cases", "rounds"]);
    let why = "rounds, through the shell      1      1    1  1 through the shell: tasks that ended";
    assert!(run.out.contains(why), "{}", run.out);
}

#[test]
fn a_case_of_another_form_is_named_with_its_file_and_field() {
    let lab = Lab::of("cases");
    let text = lab.read("recorded/packing.json").replace("\"allocate\"", "\"advertise\"");
    lab.write("recorded/packing.json", &text);
    let run = lab.run(&["cases", "recorded"]);
    assert_eq!(run.code, 1, "{}", run.all());
    let place =
        "recorded/packing.json: cases[0] (packing#0): actions[0]: unknown variant `advertise`";
    assert!(run.out.contains(place), "{}", run.out);
    let sum = "\n1 passed, 2 failed, 0 not applicable\n";
    assert!(run.out.ends_with(sum), "the others run: {}", run.out);
    assert_eq!(lab.run(&["cases", "nowhere"]).code, 3);
}

/// Runs a program, presses Ctrl-C when it has printed its first line, and waits for its end.
fn interrupted_after_a_line(mut command: Command) -> Ended {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the program runs");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut text = Vec::new();
    out.read_until(b'\n', &mut text).expect("it prints a line");
    let pressed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(pressed.expect("there is a kill").success());
    out.read_to_end(&mut text).expect("it prints the rest");
    let mut output = child.wait_with_output().expect("it ends");
    output.stdout = text;
    Ended::of(output)
}
