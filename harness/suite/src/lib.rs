//! The suite of this version: its features, fixtures and snapshots, compiled into the program, so
//! that the program runs them without its repository.

/// The files of the suite, sorted by path: the path, such as `features/gang/gangs.feature`, and the
/// content.
pub static FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The digest of the suite, `sha256:…`. In a checkout, the same digest is that of the lines of
/// `sha256sum`:
///
/// ```sh
/// find features fixtures snapshots -type f | LC_ALL=C sort | xargs sha256sum | sha256sum
/// ```
pub const DIGEST: &str = env!("SCHEDLAB_SUITE_DIGEST");

/// The version of schedlab to which the suite belongs.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_is_sorted_and_has_features_fixtures_fleets_and_snapshots() {
        assert!(FILES.is_sorted_by_key(|(path, _)| *path));
        for (folder, extension) in [
            ("features/", ".feature"),
            ("fixtures/fleets/", ".yaml"),
            ("fixtures/lab/", ".yaml"),
            ("snapshots/", ".snap"),
        ] {
            let is_such = |path: &str| path.starts_with(folder) && path.ends_with(extension);
            assert!(FILES.iter().any(|(path, _)| is_such(path)), "{folder}*{extension}");
        }
    }

    #[test]
    fn the_digest_is_that_of_the_lines_of_sha256sum() {
        let command = "find features fixtures snapshots -type f ! -name '.*' ! -name '*.snap.new' \
                       | LC_ALL=C sort | xargs sha256sum | sha256sum";
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", command]).current_dir(root).output().unwrap();
        let sum = String::from_utf8(output.stdout).unwrap();
        assert_eq!(DIGEST, format!("sha256:{}", sum.trim_end_matches("  -\n")));
    }
}
