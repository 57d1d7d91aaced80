//! Projects of one's own: `init`, `schedlab.toml`, and what an installation adds.

use super::lab::Lab;

#[test]
fn a_new_project_is_green_and_its_profile_for_ci_writes_a_report() {
    let lab = Lab::empty();
    let init = lab.run(&["init"]);
    assert_eq!((init.code, &*init.stdout), (0, ""), "{}", init.all());
    assert!(init.stderr.ends_with("next: schedlab run\n"), "{}", init.stderr);
    assert_eq!(lab.run(&["check"]).code, 0);
    let run = lab.run(&["run"]);
    assert_eq!(run.code, 0, "{}", run.all());
    assert!(run.stdout.contains("2 scenarios: 2 passed"), "{}", run.stdout);
    let ci = lab.run(&["run", "--profile", "ci"]);
    assert_eq!(ci.code, 0, "{}", ci.all());
    assert!(lab.read("junit.xml").contains("failures=\"0\""));
    assert!(lab.read(".gitignore").contains("/results/\n"));
    assert!(lab.read(".github/workflows/schedlab.yml").contains("schedlab run --profile ci"));
}

#[test]
fn init_writes_a_scheduler_to_start_from() {
    let lab = Lab::empty();
    let init = lab.run(&["init", "--with-scheduler"]);
    assert_eq!(init.code, 0, "{}", init.all());
    assert!(
        init.stderr.ends_with("next: schedlab conform --target target.yaml\n"),
        "{}",
        init.stderr
    );
    let conform = ["conform", "--target", "target.yaml", "--only", "gang.waits-whole"];
    let conform = lab.run(&conform);
    assert_eq!(conform.code, 0, "{}", conform.all());
    assert!(conform.stdout.contains("gang  1 of 1"), "{}", conform.all());
}

#[test]
fn init_overwrites_nothing() {
    let lab = Lab::empty();
    lab.write("mine/features/first.feature", "mine");
    let taken = lab.run(&["init", "mine"]);
    assert_eq!((taken.code, &*taken.stdout), (2, ""), "{}", taken.all());
    let message = "schedlab: mine/features/first.feature exists: `schedlab init` overwrites nothing; \
                   remove it, or name another folder\n";
    assert_eq!(taken.stderr, message);
    assert!(!lab.exists("mine/schedlab.toml"));
    lab.write("other/.gitignore", "mine");
    let kept = lab.run(&["init", "other"]);
    assert_eq!(kept.code, 0, "{}", kept.all());
    assert!(kept.stderr.contains("kept .gitignore; lines for it: /results/ and *.snap.new\n"));
    assert!(kept.stderr.ends_with("next: cd other && schedlab run\n"), "{}", kept.stderr);
    assert_eq!(lab.read("other/.gitignore"), "mine");
}

#[test]
fn settings_apply_and_a_wrong_key_is_an_error_with_its_line() {
    let lab = Lab::from_fixture("passes");
    lab.write("schedlab.toml", "[run]\ntags = \"@fast\"\n[profile.all]\ntags = \"not @none\"\n");
    let count = |words: &[&str], environment: &[(&str, &str)]| {
        lab.run_with(&[&["list"][..], words].concat(), environment).stdout.lines().count()
    };
    assert_eq!(count(&[], &[]), 1);
    assert_eq!(count(&["--profile", "all"], &[]), 3);
    assert_eq!(count(&[], &[("SCHEDLAB_PROFILE", "all")]), 3);
    assert_eq!(count(&["--profile", "all"], &[("SCHEDLAB_TAGS", "@fast")]), 1);
    assert_eq!(count(&["--tags", "not @none"], &[]), 3);
    lab.write("schedlab.toml", "[run]\n\nretrys = 2\n");
    let wrong = lab.run(&["run"]);
    assert_eq!((wrong.code, &*wrong.stdout), (2, ""), "{}", wrong.all());
    let message = "schedlab: schedlab.toml:3: run: got the key `retrys`, expected an option of \
                   `schedlab run` without its dashes; did you mean `retries`?\n";
    assert_eq!(wrong.stderr, message);
    assert_eq!(lab.run(&["--help"]).code, 0, "help is printed whatever the file has");
}

#[test]
fn a_quiet_run_prints_failures_once_and_the_summary() {
    let lab = Lab::from_fixture("fails");
    let quiet = lab.run(&["run", "-q"]);
    assert_eq!((quiet.code, &*quiet.stderr), (1, ""), "{}", quiet.all());
    assert_eq!(quiet.stdout.matches("A claim is wrong").count(), 1, "{}", quiet.stdout);
    assert!(!quiet.stdout.contains("A claim is right"), "{}", quiet.stdout);
    assert!(quiet.stdout.contains("1 passed, 1 failed"), "{}", quiet.stdout);
}

#[test]
fn color_is_chosen_whatever_the_terminal_is() {
    let lab = Lab::from_fixture("passes");
    let is_colored = |words: &[&str], environment: &[(&str, &str)]| {
        let run = lab.run_with(&[&["run"][..], words].concat(), environment);
        run.stdout.contains('\u{1b}')
    };
    assert!(!is_colored(&[], &[]));
    assert!(is_colored(&["--color", "always"], &[("NO_COLOR", "1")]));
    assert!(is_colored(&[], &[("SCHEDLAB_COLOR", "always")]));
    assert!(!is_colored(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
}

#[test]
fn the_verbs_of_the_scheduler_are_in_the_program() {
    let lab = Lab::empty();
    let crds = lab.run(&["scheduler", "crds"]);
    assert_eq!((crds.code, &*crds.stderr), (0, ""), "{}", crds.all());
    assert!(crds.stdout.contains("name: queues.scheduling.run.ai\n"), "{}", crds.stdout);
    let help = lab.run(&["scheduler", "explain", "--help"]);
    assert!(help.stdout.contains("schedlab scheduler explain team-a/training"), "{}", help.stdout);
    let none = lab.run(&["scheduler", "explain", "a/b", "--kubeconfig", "none"]);
    assert_eq!(none.code, 1, "{}", none.all());
    let message = "schedlab scheduler: cannot read kubeconfig none";
    assert!(none.stderr.starts_with(message), "{}", none.stderr);
}

#[test]
fn completions_and_manual_pages_have_every_subcommand() {
    let lab = Lab::empty();
    for shell in ["bash", "zsh", "fish"] {
        let script = lab.run(&["completions", shell]).stdout;
        assert!(["init", "crash-before"].iter().all(|word| script.contains(word)), "{shell}");
    }
    assert_eq!(lab.run(&["man", "pages"]).code, 0);
    for page in ["schedlab", "schedlab-run", "schedlab-snapshot-review", "schedlab-scheduler-run"] {
        let text = lab.read(&format!("pages/{page}.1"));
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    assert!(!lab.exists("pages/schedlab-keep.1"), "a hidden subcommand has no page");
}
