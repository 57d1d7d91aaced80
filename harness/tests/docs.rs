//! Runs the examples of README.md and docs/: every `sh` and `console` block, in the order of its
//! page, in one shell. A `console` block also claims the output, where `…` is anything. A block
//! that cannot run here says what it needs (`needs=docker`); each need is listed in `page.rs`.
//!
//! A page runs in a folder with the repository's features, fixtures and snapshots, with the files
//! of `tests/docs/<page>/` (what its reader has already), after that folder's `setup.sh`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "docs/links.rs"]
mod links;
#[path = "docs/options.rs"]
mod options;
#[path = "docs/page.rs"]
mod page;
#[path = "docs/session.rs"]
mod session;

use std::path::{Path, PathBuf};
use std::thread;

use page::Page;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// README.md and all pages of the book.
fn pages() -> Vec<Page> {
    let mut paths = vec![PathBuf::from("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    paths.sort();
    paths.into_iter().map(|path| Page::read(&root(), path)).collect()
}

fn assert_none(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n\n{}\n", found.join("\n\n"));
}

#[test]
fn every_block_names_its_language_and_what_it_needs() {
    let found: Vec<String> = pages().iter().flat_map(Page::problems).collect();
    assert_none(&found, "a block is run, or says what keeps it from being run");
}

#[test]
fn every_example_works_as_its_page_says() {
    let programs = session::programs();
    let pages = pages();
    let found: Vec<String> = thread::scope(|scope| {
        let runs: Vec<_> = pages
            .iter()
            .filter(|page| page.has_examples())
            .map(|page| scope.spawn(|| session::run(page, &root(), &programs)))
            .collect();
        runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
    });
    assert_none(&found, "these examples do not do what their page says");
}

#[test]
fn every_option_in_a_command_exists() {
    let programs = session::programs();
    let mut help = options::Help::new(&programs);
    let found: Vec<String> = pages().iter().flat_map(|page| help.unknown_options(page)).collect();
    assert_none(&found, "these options are not in the `--help` of their command");
}

/// The documentation test of the crate compiles and runs it.
#[test]
fn the_example_in_rust_is_that_of_the_emulator_crate() {
    let code = std::fs::read_to_string(root().join("harness/emulator/src/lib.rs")).unwrap();
    let lines = code.lines().filter_map(|line| line.strip_prefix("//!"));
    let documentation: Vec<&str> =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let documentation = documentation.join("\n");
    let examples = pages().into_iter().flat_map(|page| page.blocks);
    let unknown: Vec<String> = examples
        .filter_map(|block| block.rust_code())
        .filter(|code| !documentation.contains(code))
        .collect();
    assert_none(&unknown, "copy these examples into the documentation of schedlab-emulator");
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let found: Vec<String> =
        pages().iter().flat_map(|page| links::dead_links(page, &root())).collect();
    assert_none(&found, "these links are dead");
}

#[test]
fn every_page_is_in_the_summary_of_the_book() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let found: Vec<String> = pages()
        .iter()
        .filter_map(|page| page.path.strip_prefix("docs").ok())
        .filter(|path| *path != Path::new("SUMMARY.md"))
        .filter(|path| !summary.contains(&format!("]({})", path.display())))
        .map(|path| path.display().to_string())
        .collect();
    assert_none(&found, "add these pages to docs/SUMMARY.md");
}
