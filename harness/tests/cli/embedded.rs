//! The suite in the program, in folders that have no `features/` of their own.

use super::lab::{CommandOutput, Lab};

fn last_count(run: &CommandOutput) -> &str {
    run.stdout.lines().rfind(|line| line.contains("scenario")).unwrap_or_default()
}

#[test]
fn in_an_empty_folder_the_suite_of_the_program_runs_and_is_green() {
    let lab = Lab::empty();
    // `make test` runs all features; a part of them shows that they are found here.
    let part = ["--shard", "1/8"];
    let run = lab.run(&[&["run"][..], &part].concat());
    assert_eq!(run.code, 0, "{}", run.all());
    let note =
        format!("no features/ here: running the suite of schedlab {} (", env!("CARGO_PKG_VERSION"));
    assert!(run.stderr.starts_with(&note), "{}", run.stderr);
    let listed = lab.run(&[&["list"][..], &part].concat()).stdout.lines().count();
    assert!(listed > 20, "{listed}");
    assert!(last_count(&run).contains(&format!("{listed} scenarios: ")), "{}", last_count(&run));
    assert!(lab.exists("results/latest/report.json"));
    assert!(!lab.exists("features") && !lab.exists("snapshots") && !lab.exists("fixtures"));
}

#[test]
fn a_path_of_the_suite_selects_in_it_and_a_line_reproduces_one_scenario() {
    let lab = Lab::empty();
    let listed = lab.run(&["list", "features/gang"]);
    assert_eq!(listed.code, 0, "{}", listed.all());
    assert!(listed.stdout.lines().all(|line| line.starts_with("features/gang/")));
    assert!(listed.stderr.starts_with("no features/ here: listing"), "{}", listed.stderr);
    let first = listed.stdout.lines().next().expect("the suite has gangs");
    let place = first.split(": ").next().expect("a line begins with its place");
    let run = lab.run(&["run", place]);
    assert_eq!(run.code, 0, "{}", run.all());
    assert!(last_count(&run).contains("1 scenario: 1 passed"), "{}", run.all());
}

#[test]
fn check_and_snapshot_know_the_suite_of_the_program() {
    let lab = Lab::empty();
    let check = lab.run(&["check", "features/lab"]);
    assert_eq!(check.code, 0, "{}", check.all());
    assert!(check.stderr.starts_with("no features/ here: checking"), "{}", check.stderr);
    assert!(check.stdout.ends_with(": 0 problems\n"), "{}", check.stdout);
    let review = lab.run(&["snapshot", "review"]);
    let expected = "no snapshots/ here: those of the suite of schedlab";
    assert_eq!(review.code, 0, "{}", review.all());
    assert!(review.stderr.starts_with(expected), "{}", review.stderr);
}

#[test]
fn the_snapshots_of_the_suite_are_compared_and_never_written() {
    let lab = Lab::empty();
    let path = "features/lab";
    let forced = lab.run_with(&["run", path], &[("INSTA_UPDATE", "force")]);
    assert_eq!(forced.code, 0, "{}", forced.all());
    assert!(!lab.exists("snapshots"));
    // Another seed gives a placement that is compared up to symmetry, with the same snapshot.
    let seed = lab.run(&["run", path, "--seed", "2"]);
    assert_eq!(seed.code, 0, "{}", seed.all());
}

#[test]
fn features_of_ones_own_hide_the_suite() {
    let lab = Lab::from_fixture("passes");
    let run = lab.run(&["run"]);
    assert!(run.stdout.contains("3 scenarios: 3 passed"), "{}", run.stdout);
    let other = lab.run(&["run", "features/gang"]);
    let message = "schedlab: features/gang: no such file or folder\n";
    assert_eq!((other.code, &*other.stderr), (2, message));
}

#[test]
fn a_path_that_the_suite_lacks_is_an_error_with_the_nearest_one() {
    let run = Lab::empty().run(&["run", "features/gnag"]);
    assert_eq!(run.code, 2, "{}", run.all());
    let begin = "schedlab: features/gnag: no such file or folder; the suite of schedlab";
    assert!(run.stderr.starts_with(begin), "{}", run.stderr);
    assert!(run.stderr.ends_with("; did you mean features/gang?\n"), "{}", run.stderr);
}

#[test]
fn a_fleet_of_the_suite_is_served_by_its_path_or_its_name() {
    let lab = Lab::empty();
    for fleet in ["fixtures/fleets/mig.yaml", "mig"] {
        let args = ["up", "--no-scheduler", "--kubeconfig", "-", "--fleet", fleet];
        let up = super::interrupt_after_first_line(lab.command(&args));
        assert_eq!(up.code, 0, "{fleet}: {}", up.all());
    }
    let unknown = lab.run(&["up", "--fleet", "lob"]);
    assert_eq!(unknown.code, 2, "{}", unknown.all());
    let expected = "schedlab: lob: No such file or directory (os error 2); expected a file, or a \
                    fleet of schedlab: claims, lab, mig, mixed-claims\n";
    assert_eq!(unknown.stderr, expected);
}
