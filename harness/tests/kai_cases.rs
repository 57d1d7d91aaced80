//! Cases and single decisions recorded from KAI-Scheduler v0.17.0, run on the core. The
//! recordings lie beside the repository; where they are absent the test says `skipped` on
//! standard output. `SCHEDLAB_KAI_CASES` names another folder, `SCHEDLAB_KAI_CASE` a part of the
//! ids to run.
#![expect(clippy::print_stdout, reason = "says how many cases passed, file by file")]

use std::path::PathBuf;

use schedlab::cases::run_folder;

const BESIDE_THE_REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/kai-cases");

#[test]
fn recorded_cases_end_as_they_did() {
    let folder = std::env::var_os("SCHEDLAB_KAI_CASES")
        .map_or_else(|| PathBuf::from(BESIDE_THE_REPOSITORY), PathBuf::from);
    let only = std::env::var("SCHEDLAB_KAI_CASE").unwrap_or_default();
    if !folder.is_dir() {
        println!("skipped: no recordings in {}", folder.display());
        return;
    }
    let report = run_folder(&folder, &only).unwrap();
    let text = report.terse();
    println!("{text}");
    let counts = report.counts();
    assert!(counts.all() > 0, "nothing in {} is called {only}", folder.display());
    assert_eq!(counts.failed, 0, "{text}");
    let is_whole = only.is_empty() && std::env::var_os("SCHEDLAB_KAI_CASES").is_none();
    if is_whole {
        assert!(counts.passed * 100 >= counts.all() * 97, "what is not applicable counts: {text}");
    }
}
