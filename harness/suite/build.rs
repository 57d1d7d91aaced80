//! Writes the table of the suite's files as Rust source, and their digest.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

/// The folders of the suite, at the top level of the repository.
const FOLDERS: [&str; 3] = ["features", "fixtures", "snapshots"];

fn main() -> anyhow::Result<()> {
    let here = std::env::var("CARGO_MANIFEST_DIR").context("cargo sets CARGO_MANIFEST_DIR")?;
    let root = PathBuf::from(here).join("../..").canonicalize()?;
    let mut files = Vec::new();
    for folder in FOLDERS {
        // Cargo watches a folder with everything in it, so that a new file is noticed.
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
        collect_files(&root, Path::new(folder), &mut files)?;
    }
    files.sort();
    let mut table = String::from("[\n");
    let mut sums = String::new();
    for file in &files {
        let on_disk = root.join(file);
        let literal = on_disk.to_str().context("the repository's path is UTF-8")?;
        let _ = writeln!(table, "    ({file:?}, include_str!({literal:?})),");
        let content = std::fs::read(&on_disk).with_context(|| format!("cannot read {file}"))?;
        let _ = writeln!(sums, "{:x}  {file}", Sha256::digest(content));
    }
    table.push_str("]\n");
    let out = std::env::var("OUT_DIR").context("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&out).join("files.rs"), table).context("cannot write files.rs")?;
    println!("cargo::rustc-env=SCHEDLAB_SUITE_DIGEST=sha256:{:x}", Sha256::digest(sums));
    Ok(())
}

/// Adds the paths of all files below a folder, relative to the root and with `/`. Pending snapshots
/// and hidden files are left out.
fn collect_files(root: &Path, folder: &Path, files: &mut Vec<String>) -> anyhow::Result<()> {
    let on_disk = root.join(folder);
    let entries = std::fs::read_dir(&on_disk)
        .with_context(|| format!("cannot read the folder {}", on_disk.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| {
            let (folder, name) = (on_disk.display(), name.display());
            anyhow::anyhow!("{folder}: got {name}, expected a name in UTF-8")
        })?;
        let path = folder.join(&name);
        if entry.file_type()?.is_dir() {
            collect_files(root, &path, files)?;
        } else if !name.starts_with('.') && !name.ends_with(".snap.new") {
            files.push(path.to_str().context("its parts are UTF-8")?.replace('\\', "/"));
        }
    }
    Ok(())
}
