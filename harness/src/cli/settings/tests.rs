use insta::assert_snapshot;

use super::*;
use crate::cli::{Cli, Command as Subcommand, Run};

/// What the command line means in a folder with this settings file and this environment.
fn parsed(file: &str, variables: &[(&str, &str)], words: &[&str]) -> Result<Cli, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(SETTINGS_FILE);
    std::fs::write(&path, file).unwrap();
    let command = crate::cli::command();
    let words: Vec<&str> = ["schedlab"].iter().chain(words).copied().collect();
    let matches = command.clone().try_get_matches_from(&words).map_err(|e| e.to_string())?;
    let value = |name: &str| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let settings = settings_of(&command, &matches, &path, &value).map_err(|e| e.to_string())?;
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    parse_with_settings(&command, &matches, settings, &words).map_err(|e| e.to_string())
}

fn run(file: &str, variables: &[(&str, &str)], words: &[&str]) -> Run {
    let words: Vec<&str> = ["run"].iter().chain(words).copied().collect();
    let command = parsed(file, variables, &words).unwrap().command;
    let Subcommand::Run(run) = command else { panic!("it is a run: {command:?}") };
    *run
}

fn error(file: &str, words: &[&str]) -> String {
    parsed(file, &[], words).unwrap_err()
}

const FILE: &str = "[run]\nretries = 1\n\n[profile.ci]\nretries = 2\nfail-fast = true\n";

#[test]
fn a_flag_comes_before_the_environment_that_before_the_profile_and_that_before_the_file() {
    let retries =
        |variables: &[(&str, &str)], words: &[&str]| run(FILE, variables, words).execution.retries;
    let variable = [("SCHEDLAB_RETRIES", "3")];
    assert_eq!(run("", &[], &[]).execution.retries, 0);
    assert_eq!(retries(&[], &[]), 1);
    assert_eq!(retries(&[], &["--profile", "ci"]), 2);
    assert_eq!(retries(&variable, &["--profile", "ci"]), 3);
    assert_eq!(retries(&variable, &["--profile", "ci", "--retries", "4"]), 4);
    assert!(!run(FILE, &[], &[]).execution.fail_fast);
    assert!(run(FILE, &[], &["--profile", "ci"]).execution.fail_fast);
    let off = [("SCHEDLAB_PROFILE", "ci"), ("SCHEDLAB_FAIL_FAST", "false")];
    let off = run(FILE, &off, &[]);
    assert_eq!((off.execution.retries, off.execution.fail_fast), (2, false));
}

#[test]
fn lists_paths_and_optional_values_are_set() {
    let file = "[run]\npaths = [\"features/a\", \"b\"]\nreporter = [\"pretty\", \"junit=out.xml\"]\n\
                jobs = 3\ncluster = \"kind\"\ntime-scale = 0.5\ncolor = \"never\"\n";
    let set = run(file, &[], &[]);
    assert_eq!(set.selection.paths, ["features/a", "b"]);
    assert_eq!(set.reporter.len(), 2);
    assert_eq!(set.execution.jobs.map(std::num::NonZero::get), Some(3));
    assert_eq!(set.environment.cluster, ClusterChoice::Kind);
    assert_eq!(set.environment.time_scale, Some(0.5));
    assert_eq!(run(file, &[], &["c"]).selection.paths, ["c"]);
    let comma = [("SCHEDLAB_REPORTER", "pretty,json=a.json")];
    assert_eq!(run("", &comma, &[]).reporter.len(), 2);
    assert_eq!(parsed(file, &[], &["run"]).unwrap().color, crate::cli::ColorChoice::Never);
}

#[test]
fn a_setting_of_another_cluster_is_left_out() {
    let file = "[run]\nimage = \"mine\"\ncrash-before = \"3\"\n";
    let emulator = run(file, &[("SCHEDLAB_NODE_IMAGE", "node")], &[]);
    assert_eq!((emulator.environment.image, emulator.environment.node_image), (None, None));
    assert!(emulator.execution.crash_before.is_some());
    let container = run(file, &[], &["--cluster", "container"]);
    assert_eq!(container.environment.image.as_deref(), Some("mine"));
    assert!(container.execution.crash_before.is_none());
}

#[test]
fn other_commands_take_the_options_that_they_have() {
    let file = "[run]\npaths = [\"mine\"]\nretries = 1\nresults = \"out\"\n";
    let Subcommand::List(list) = parsed(file, &[], &["list"]).unwrap().command else { panic!() };
    assert_eq!((list.selection.paths, list.results), (vec!["mine".to_owned()], "out".into()));
    let Subcommand::Check(check) = parsed(file, &[], &["check"]).unwrap().command else { panic!() };
    assert_eq!(check.paths, ["mine"]);
    let diff = parsed(file, &[], &["diff", "a", "b"]).unwrap().command;
    let Subcommand::Diff(diff) = diff else { panic!() };
    assert_eq!(diff.results, std::path::PathBuf::from("out"));
    // `up` has a `--profile` of another meaning.
    assert!(parsed("[run", &[("SCHEDLAB_PROFILE", "ci")], &["up"]).is_ok());
}

#[test]
fn an_error_names_file_line_key_and_the_nearest_valid_one() {
    let run = ["run"];
    assert_snapshot!(error("[run]\n\njbos = 3\n", &run), @"schedlab.toml:3: run: got the key `jbos`, expected an option of `schedlab run` without its dashes; did you mean `jobs`?");
    assert_snapshot!(error("[rum]\n", &run), @"schedlab.toml:1: got the key `rum`, expected [run] or [profile.NAME]; did you mean `run`?");
    assert_snapshot!(error("run = 3\n", &run), @"schedlab.toml:1: run: got the type integer, expected a table");
    assert_snapshot!(error("[run]\njobs = 0\n", &run), @r#"schedlab.toml:2: run.jobs: got "0": number would be zero for non-zero type"#);
    assert_snapshot!(error("[run]\ncluster = \"kindd\"\n", &run), @r#"schedlab.toml:2: run.cluster: got "kindd", expected emulator, control-plane, kubeconfig, container, kind; did you mean "kind"?"#);
    assert_snapshot!(error("[run]\nfail-fast = \"yes\"\n", &run), @r#"schedlab.toml:2: run.fail-fast: got "yes", expected true or false"#);
    assert_snapshot!(error("[run]\njobs = [1, 2]\n", &run), @"schedlab.toml:2: run.jobs: got a list of 2 values, expected one value");
    assert_snapshot!(error("[run]\nshard = \"5/4\"\n", &run), @"schedlab.toml:2: run.shard: got `5/4`, expected M/N with 1 ≤ M ≤ N, such as 1/4");
    assert_snapshot!(error("[run]\njobs = \n", &run), @"schedlab.toml:2: string values must be quoted, expected literal string");
    assert_snapshot!(error("[run]\nprofile = \"ci\"\n", &run), @"schedlab.toml:2: run: got the key `profile`, expected an option of `schedlab run` without its dashes");
    assert_snapshot!(error("[run]\ncontext = \"mine\"\n", &run), @"schedlab.toml:2: run.context: got a context without confirmation, expected `confirm` set to true in the same place");
}

#[test]
fn an_unknown_profile_is_an_error_with_those_there_are() {
    let words = ["run", "--profile", "cii"];
    assert_snapshot!(error(FILE, &words), @"--profile cii: no such profile; schedlab.toml has ci; did you mean ci?");
    assert_snapshot!(error("", &words), @"--profile cii: no such profile; schedlab.toml has no profiles");
}

#[test]
fn a_variable_with_an_invalid_value_is_an_error_with_its_name() {
    let message = parsed("", &[("SCHEDLAB_RETRIES", "many")], &["run"]).unwrap_err();
    assert_snapshot!(message, @r#"SCHEDLAB_RETRIES: got "many": invalid digit found in string"#);
}

#[test]
fn the_reference_page_lists_every_key() {
    let page = include_str!("../../../../docs/reference/settings.md");
    let missing: Vec<String> = settings_keys()
        .into_iter()
        .map(|(key, _)| key)
        .filter(|key| !page.contains(&format!("| `{key}` |")))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_published_schema_is_that_of_the_options() {
    let published = include_str!("../../../../docs/reference/settings.schema.json");
    let published: serde_json::Value = serde_json::from_str(published).unwrap();
    let again = "write it anew: schedlab init --schema > docs/reference/settings.schema.json";
    assert_eq!(published, settings_schema(), "{again}");
}

#[test]
fn conform_reads_the_file_and_the_environment_but_its_profile_is_another() {
    let file =
        "[run]\nseed = 7\ncluster = \"emulator\"\npaths = [\"x\"]\n\n[profile.ci]\nretries = 3\n";
    let conform = |file: &str, words: &[&str]| {
        let words: Vec<&str> = ["conform"].iter().chain(words).copied().collect();
        let variables = [("SCHEDLAB_MAX_SKIPPED", "2")];
        let command = parsed(file, &variables, &words).unwrap().command;
        let Subcommand::Conform(conform) = command else { panic!("it is {command:?}") };
        *conform
    };
    let set = conform(file, &["--settings-profile", "ci"]);
    assert_eq!((set.execution.seed, set.execution.retries, set.max_skipped), (7, 3, Some(2)));
    assert_eq!(set.profile, "gpu-core-v1");
}
