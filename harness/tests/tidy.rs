//! Checks of the source tree: modules import only lower layers, files and functions stay small, the
//! top level of the repository has no unexpected entries, and no fixture or snapshot is unused.

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

use schedlab_conformance::features::{Case, FeaturePath, load_suite};
use source::{Source, files, sources};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 80;

/// Folders of the crates.
const CRATES: [&str; 21] = [
    "scheduler/core",
    "scheduler/explain",
    "scheduler/testkit",
    "scheduler/api",
    "scheduler/model",
    "scheduler/audit",
    "scheduler",
    "harness/control-plane",
    "harness/emulator",
    "harness/protobuf",
    "harness/tenancy",
    "harness/clusters",
    "harness/conformance",
    "harness/apps",
    "harness/suite",
    "harness/traces",
    "harness/ui",
    "harness/view",
    "harness/casefiles",
    "harness/lab",
    "harness",
];

/// Entries at the top level of the repository, without dotfiles.
const TOP_LEVEL_ENTRIES: [&str; 12] = [
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
    here.parent().expect("the harness folder has a parent").to_owned()
}

/// Source files in one part (`src`, `tests`, ...) of a crate.
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
        let tuples = parameters::tuple_parameters(&source);
        found.extend(tuples.map(|one| format!("{path}:{} {}", one.line, one.name)));
    }
    assert_none(&found, "name the pair as a struct, or take two parameters");
}

#[test]
fn a_tuple_parameter_is_found_and_a_type_in_parentheses_is_not() {
    let code = "
        fn pair(a: u8, (b, c): (u8, u8)) {}
        fn behind_a_reference<T: Fn(u8) -> u8>(a: &'static mut (T, u8)) {}
        fn none(a: &(dyn Error + 'static), b: Result<(u8, u8), ()>, c: ()) -> (u8, u8) {}
    ";
    let source = Source { path: PathBuf::new(), lines: 0, code: code.to_owned() };
    let found: Vec<String> = parameters::tuple_parameters(&source).map(|one| one.name).collect();
    assert_eq!(found, ["pair", "behind_a_reference"]);
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let mut found = Vec::new();
    for (folder, table) in edges::EDGES {
        let mut actual = edges::Edges::new();
        let allowed = edges::parse_table(table);
        let sources = crate_sources(folder, "src");
        let tests: BTreeSet<String> = sources.iter().flat_map(Source::test_modules).collect();
        let reexports = edges::reexports(&sources);
        for source in &sources {
            let Some(module) = edges::module_of(source, folder, &tests) else { continue };
            let none = BTreeSet::new();
            let allowed_imports = allowed.get(&module).unwrap_or(&none);
            let named = source.imported_modules().into_iter();
            let named: BTreeSet<String> =
                named.map(|name| reexports.get(&name).cloned().unwrap_or(name)).collect();
            let others = named.iter().filter(|name| **name != module).cloned();
            actual.entry(module.clone()).or_default().extend(others);
            let bad =
                named.iter().filter(|name| **name != module && !allowed_imports.contains(*name));
            found.extend(
                bad.map(|name| format!("{}: {module} imports {name}", source.path.display())),
            );
        }
        if let Some(cycle) = edges::cycle(&actual) {
            found.push(format!("{folder}: import cycle {}", cycle.join(" -> ")));
        }
    }
    assert_none(&found, "allowed imports are listed in harness/tests/tidy/edges.rs");
}

#[test]
fn every_crate_is_checked() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest can be read");
    let (_, after) = manifest.split_once("members = [").expect("the workspace has members");
    let (members, _) = after.split_once(']').expect("the list of members ends");
    let members: BTreeSet<&str> = members.split('"').skip(1).step_by(2).collect();
    assert_eq!(members, CRATES.into_iter().collect());
    assert_eq!(members, edges::EDGES.iter().map(|(folder, _)| *folder).collect());
}

#[test]
fn an_import_cycle_among_modules_is_found() {
    let edges = |pairs: &[(&str, &str)]| {
        let mut all = edges::Edges::new();
        for (from, to) in pairs {
            all.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        all
    };
    assert_eq!(edges::cycle(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let cycle = edges::cycle(&edges(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(cycle, Some(vec!["b".to_owned(), "c".to_owned(), "b".to_owned()]));
}

#[test]
fn no_test_is_ignored_or_sleeps() {
    let mut found = Vec::new();
    for source in all_sources() {
        for banned in ["#[ignore", "thread::sleep"] {
            if source.code.contains(banned) {
                found.push(format!("{} has {banned}", source.path.display()));
            }
        }
    }
    assert_none(&found, "no test is ignored or sleeps: wait for an event, or use virtual time");
}

/// The tag of the bug `kueue#6757` is `@bug-kueue-6757`.
#[test]
fn every_bug_has_a_row_and_a_tagged_scenario() {
    let table =
        fs::read_to_string(root().join("docs/reference/bugs.md")).expect("the table can be read");
    let first = |row: &str| row.strip_prefix("| ")?.split_once(" |").map(|(bug, _)| bug.to_owned());
    let bugs = table.lines().filter_map(first).filter(|bug| bug.contains('#'));
    let rows: BTreeSet<String> = bugs.map(|bug| format!("bug-{}", bug.replace('#', "-"))).collect();
    let path = FeaturePath::on_disk(root().join("features"));
    let suite = load_suite(&[path], schedlab_conformance::steps::catalogue::is_step)
        .expect("the features can be read");
    let tags = suite.cases.iter().flat_map(|case| &case.tags);
    let tags: BTreeSet<String> = tags.filter(|tag| tag.starts_with("bug-")).cloned().collect();
    let found: Vec<String> = rows.symmetric_difference(&tags).cloned().collect();
    assert_none(
        &found,
        "each bug needs a row in docs/reference/bugs.md and a scenario with its tag",
    );
}

#[test]
fn the_top_level_of_the_repository_has_only_listed_entries() {
    let mut found = Vec::new();
    for entry in fs::read_dir(root()).expect("the repository can be read") {
        let name = entry.expect("an entry can be read").file_name();
        let name = name.to_string_lossy().into_owned();
        let is_generated = ["target", "results", "snapshots"].contains(&name.as_str());
        if !is_generated && !name.starts_with('.') && !TOP_LEVEL_ENTRIES.contains(&name.as_str()) {
            found.push(name);
        }
    }
    assert_none(&found, "the README's code map lists the top level of the repository");
}

#[test]
fn every_fixture_is_referenced() {
    let root = root();
    let readers = [
        "features",
        "docs",
        "harness/src",
        "harness/clusters",
        "harness/conformance",
        "harness/apps",
        "harness/tests",
        "harness/benches",
    ];
    let texts: Vec<String> = readers
        .iter()
        .flat_map(|folder| files(&root.join(folder)))
        .chain([root.join("README.md"), root.join("Makefile")])
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect();
    let orphan = |path: &PathBuf| {
        let inside = path.strip_prefix(root.join("fixtures")).expect("the path is below fixtures");
        let full = inside.to_string_lossy().into_owned();
        let bare = inside.with_extension("").to_string_lossy().into_owned();
        !texts.iter().any(|text| text.contains(&full) || names_fixture(text, &bare))
    };
    let orphans: Vec<String> = files(&root.join("fixtures"))
        .iter()
        .filter(|path| !path.ends_with("README.md") && orphan(path))
        .map(|path| path.display().to_string())
        .collect();
    assert_none(&orphans, "remove fixtures that nothing refers to");
}

#[test]
fn every_snapshot_belongs_to_a_scenario_and_is_reviewed() {
    let root = root();
    let path = FeaturePath::on_disk(root.join("features"));
    let suite = load_suite(&[path], schedlab_conformance::steps::catalogue::is_step)
        .expect("the features can be read");
    let expected: BTreeSet<PathBuf> = suite.cases.iter().map(Case::snapshot_path).collect();
    let found: Vec<String> = files(&root.join("snapshots"))
        .iter()
        .filter(|path| !expected.contains(*path))
        .map(|path| path.display().to_string())
        .collect();
    assert_none(&found, "a snapshot is named after its scenario and reviewed; remove all others");
}

/// Whether a text names a fixture without its extension: `"lab/fleet"` for `lab/fleet.yaml`.
fn names_fixture(text: &str, bare: &str) -> bool {
    text.contains(&format!("\"{bare}\""))
}
