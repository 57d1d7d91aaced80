//! Cases recorded from KAI-Scheduler v0.17.0, run on the core. The recordings lie beside the
//! repository; where they are absent the test says `skipped` on standard output.
//! `SCHEDLAB_KAI_CASES` names another folder, `SCHEDLAB_KAI_CASE` a part of the ids to run.
#![expect(clippy::unwrap_used, reason = "a recording of another shape should fail the test")]
#![expect(clippy::print_stdout, reason = "says how many cases passed, file by file")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use schedlab::cases::{Case, CaseFile, differences};

const BESIDE_THE_REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/kai-cases");

#[test]
fn recorded_cases_end_as_they_did() {
    let folder = std::env::var_os("SCHEDLAB_KAI_CASES")
        .map_or_else(|| PathBuf::from(BESIDE_THE_REPOSITORY), PathBuf::from);
    let only = std::env::var("SCHEDLAB_KAI_CASE").unwrap_or_default();
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!("skipped: no recordings in {}", folder.display());
        return;
    };
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let mut score = Score::default();
    for path in paths.iter().filter(|path| holds_cases(path)) {
        let file: CaseFile = serde_json::from_str(&std::fs::read_to_string(path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for case in file.cases.iter().filter(|case| case.id.contains(&only)) {
            score.count(case);
        }
    }
    println!("{} of {} pass; not run: {:?}", score.passed, score.run, score.not_run);
    assert!(score.failures.is_empty(), "{}", score.failures.join("\n"));
}

#[derive(Default)]
struct Score {
    passed: usize,
    run: usize,
    /// How many need what the core does not know yet.
    not_run: BTreeMap<&'static str, usize>,
    failures: Vec<String>,
}

impl Score {
    fn count(&mut self, case: &Case) {
        if let Some(why) = case.unsupported() {
            *self.not_run.entry(why).or_default() += 1;
            return;
        }
        self.run += 1;
        let found = differences(case);
        if found.is_empty() {
            self.passed += 1;
        } else {
            self.failures.push(format!("{}\n  {}", case.id, found.join("\n  ")));
        }
    }
}

fn holds_cases(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_string_lossy();
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let other = ["oracle__", "extra__", "titles__"].iter().any(|start| name.starts_with(start));
    is_json && name.contains("__") && !other
}
