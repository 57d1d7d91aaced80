//! The house is tidy: modules import downwards only, files and functions stay small, the top of
//! the repository holds nothing new, and no fixture or snapshot is left over.

#[path = "tidy/edges.rs"]
mod edges;
#[path = "tidy/parameters.rs"]
mod parameters;
#[path = "tidy/source.rs"]
mod source;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use schedlab::features::{Case, FeaturePath, load};
use source::{Source, files, sources};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 80;

/// Crates by folder.
const CRATES: [&str; 6] = [
    "scheduler/core",
    "scheduler/json",
    "scheduler",
    "harness/control-plane",
    "harness/emulator",
    "harness",
];

/// What stands at the top of the repository, dotfiles aside.
const TOP: [&str; 12] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "Makefile",
    "README.md",
    "docs",
    "features",
    "fixtures",
    "harness",
    "kind-configs",
    "rust-toolchain.toml",
    "scheduler",
];

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the harness is a folder of the repository").to_owned()
}

/// Sources of a crate, without those of crates inside it.
fn crate_sources(folder: &str, part: &str) -> Vec<Source> {
    sources(&root(), &format!("{folder}/{part}"))
}

fn all_sources() -> Vec<Source> {
    let parts = ["src", "tests", "benches"];
    let folders = CRATES.iter().flat_map(|folder| parts.map(|part| (*folder, part)));
    folders.flat_map(|(folder, part)| crate_sources(folder, part)).collect()
}

fn assert_none(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

#[test]
fn files_and_functions_stay_small() {
    let mut found = Vec::new();
    for source in all_sources() {
        let path = source.path.display();
        if source.lines > FILE_LINES_MAX {
            found.push(format!("{path} has {} lines", source.lines));
        }
        let long = source.functions().into_iter().filter(|one| one.lines > FUNCTION_LINES_MAX);
        found.extend(
            long.map(|one| format!("{path}:{} {} has {} lines", one.line, one.name, one.lines)),
        );
    }
    let rule = format!(
        "a file has at most {FILE_LINES_MAX} lines, a function {FUNCTION_LINES_MAX}: split by idea"
    );
    assert_none(&found, &rule);
}

#[test]
fn no_function_takes_a_tuple() {
    let mut found = Vec::new();
    for source in all_sources() {
        let path = source.path.display();
        let tuples = parameters::tuple_parameters(&source).into_iter();
        found.extend(tuples.map(|one| format!("{path}:{} {}", one.line, one.function)));
    }
    assert_none(&found, "name the pair as a struct, or take two parameters");
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let mut found = Vec::new();
    for (folder, table) in edges::EDGES {
        let mut actual = edges::Edges::new();
        let allowed = edges::parsed(table);
        let sources = crate_sources(folder, "src");
        let tests: BTreeSet<String> = sources.iter().flat_map(Source::test_modules).collect();
        let homes = edges::homes(&sources);
        for source in &sources {
            let Some(module) = edges::module_of(source, folder, &tests) else { continue };
            let none = BTreeSet::new();
            let may = allowed.get(&module).unwrap_or(&none);
            let named = source.modules_named().into_iter();
            let named: BTreeSet<String> =
                named.map(|name| homes.get(&name).cloned().unwrap_or(name)).collect();
            let others = named.iter().filter(|name| **name != module).cloned();
            actual.entry(module.clone()).or_default().extend(others);
            let bad = named.iter().filter(|name| **name != module && !may.contains(*name));
            found.extend(
                bad.map(|name| format!("{}: {module} imports {name}", source.path.display())),
            );
        }
        if let Some(circle) = edges::circle(&actual) {
            found.push(format!("{folder}: circle {}", circle.join(" -> ")));
        }
    }
    assert_none(&found, "who may import whom is decided in harness/tests/tidy/edges.rs");
}

#[test]
fn a_circle_among_modules_is_found() {
    let edges = |pairs: &[(&str, &str)]| {
        let mut all = edges::Edges::new();
        for (from, to) in pairs {
            all.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        all
    };
    assert_eq!(edges::circle(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let circle = edges::circle(&edges(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(circle, Some(vec!["b".to_owned(), "c".to_owned(), "b".to_owned()]));
}

#[test]
fn every_test_runs_and_none_sleeps() {
    let mut found = Vec::new();
    for source in all_sources() {
        for banned in ["#[ignore", "thread::sleep"] {
            if source.code.contains(banned) {
                found.push(format!("{} has {banned}", source.path.display()));
            }
        }
    }
    assert_none(&found, "tests are run, and wait for events or on virtual time");
}

/// A scenario of `kueue#6757` is tagged `@bug-kueue-6757`.
#[test]
fn bugs_and_the_tags_of_their_scenarios_are_the_same() {
    let table =
        fs::read_to_string(root().join("docs/reference/bugs.md")).expect("the table can be read");
    let first = |row: &str| row.strip_prefix("| ")?.split_once(" |").map(|(bug, _)| bug.to_owned());
    let bugs = table.lines().filter_map(first).filter(|bug| bug.contains('#'));
    let rows: BTreeSet<String> = bugs.map(|bug| format!("bug-{}", bug.replace('#', "-"))).collect();
    let asked = FeaturePath { path: root().join("features"), line: None };
    let suite = load(&[asked]).expect("the features can be read");
    let tags = suite.cases.iter().flat_map(|case| &case.tags);
    let tags: BTreeSet<String> = tags.filter(|tag| tag.starts_with("bug-")).cloned().collect();
    let found: Vec<String> = rows.symmetric_difference(&tags).cloned().collect();
    assert_none(&found, "a bug is a row of docs/reference/bugs.md and the tag of a scenario");
}

#[test]
fn the_top_of_the_repository_holds_nothing_new() {
    let mut found = Vec::new();
    for entry in fs::read_dir(root()).expect("the repository can be read") {
        let name = entry.expect("an entry can be read").file_name();
        let name = name.to_string_lossy().into_owned();
        let made = ["target", "results", "snapshots"].contains(&name.as_str());
        if !made && !name.starts_with('.') && !TOP.contains(&name.as_str()) {
            found.push(name);
        }
    }
    assert_none(&found, "the top of the repository is laid out by the README's code map");
}

#[test]
fn every_fixture_is_named_somewhere() {
    let root = root();
    let readers = ["features", "docs", "harness/src", "harness/tests", "harness/benches"];
    let texts: Vec<String> = readers
        .iter()
        .flat_map(|folder| files(&root.join(folder)))
        .chain([root.join("README.md"), root.join("Makefile")])
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect();
    let orphan = |path: &PathBuf| {
        let inside = path.strip_prefix(root.join("fixtures")).expect("below fixtures");
        let full = inside.to_string_lossy().into_owned();
        let bare = inside.with_extension("").to_string_lossy().into_owned();
        !texts.iter().any(|text| text.contains(&full) || names(text, &bare))
    };
    let orphans: Vec<String> = files(&root.join("fixtures"))
        .iter()
        .filter(|path| !path.ends_with("README.md") && orphan(path))
        .map(|path| path.display().to_string())
        .collect();
    assert_none(&orphans, "a fixture that nothing names goes");
}

#[test]
fn every_snapshot_belongs_to_a_scenario_and_none_waits_for_review() {
    let root = root();
    let asked = FeaturePath { path: root.join("features"), line: None };
    let suite = load(&[asked]).expect("the features can be read");
    let needed: BTreeSet<PathBuf> = suite.cases.iter().map(Case::snapshot_path).collect();
    let found: Vec<String> = files(&root.join("snapshots"))
        .iter()
        .filter(|path| !needed.contains(*path))
        .map(|path| path.display().to_string())
        .collect();
    assert_none(&found, "a snapshot is named after its scenario, and reviewed or dropped");
}

/// `"lab/fleet"` names the fixture `lab/fleet.yaml`.
fn names(text: &str, bare: &str) -> bool {
    text.contains(&format!("\"{bare}\""))
}
