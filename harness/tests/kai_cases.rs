//! Replays cases and single decisions recorded from KAI-Scheduler v0.17.0 on the core. The
//! recordings are in a folder beside the repository; without it the test is skipped.
//! `SCHEDLAB_KAI_CASES` is another folder, `SCHEDLAB_KAI_CASE` selects the cases whose id contains
//! it.
#![expect(clippy::print_stdout, reason = "prints how many cases of each file passed")]

use std::path::PathBuf;

use schedlab_apps::cases::run_folder;

const DEFAULT_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/kai-cases");

#[test]
fn recorded_cases_have_the_recorded_outcome() {
    let folder = std::env::var_os("SCHEDLAB_KAI_CASES")
        .map_or_else(|| PathBuf::from(DEFAULT_FOLDER), PathBuf::from);
    let only = std::env::var("SCHEDLAB_KAI_CASE").unwrap_or_default();
    if !folder.is_dir() {
        println!("skipped: no recordings in {}", folder.display());
        return;
    }
    let report = run_folder(&folder, &only).unwrap();
    let text = report.to_terse_text();
    println!("{text}");
    let counts = report.verdict_counts();
    assert!(counts.total() > 0, "no case in {} has an id with {only}", folder.display());
    assert_eq!(counts.failed, 0, "{text}");
    let is_complete = only.is_empty() && std::env::var_os("SCHEDLAB_KAI_CASES").is_none();
    if is_complete {
        assert!(
            counts.passed * 100 >= counts.total() * 97,
            "at least 97 % of all cases must pass, including those not applicable: {text}"
        );
    }
}
