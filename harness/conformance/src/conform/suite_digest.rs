//! The digest of a suite: which features and fixtures a run read.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The digest of files by path and content, as `sha256:HEX`: the SHA-256 of the lines `HEX  PATH`
/// that `sha256sum` prints for the files in the order of their paths.
pub fn suite_digest<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> String {
    let mut files: Vec<(&str, &[u8])> = files.into_iter().collect();
    files.sort_unstable();
    let mut sums = String::new();
    for (path, content) in files {
        let _ = writeln!(sums, "{:x}  {path}", Sha256::digest(content));
    }
    format!("sha256:{:x}", Sha256::digest(sums))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_lines_of_sha256sum() {
        // printf a >a; printf b >b; sha256sum a b | sha256sum
        let files: [(&str, &[u8]); 2] = [("b", b"b"), ("a", b"a")];
        let digest = suite_digest(files);
        assert_eq!(digest, suite_digest(files.into_iter().rev()));
        assert_eq!(
            digest,
            "sha256:cb13f400dcb618e400d0f7d54f7cdb330d37a07272cb99a1016cda5830a10556"
        );
    }
}
