//! The results of a shard as lines of a log: the files of a pod cannot be read after the pod has
//! ended, its log can.
//!
//! The files are one JSON object, compressed, in base64. Each line has a mark and its number, so
//! that other output may stand between them; the last one has the number of lines and a digest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// The mark at the beginning of each line.
const MARK: &str = "schedlab-results";

/// The word in place of a number on the last line.
const END: &str = "end";

/// Length of the base64 text in a line. Container runtimes split lines of more than 16 KiB.
const LINE_LENGTH: usize = 4096;

/// Maximum size of the files in bytes, against a log that was made to fill the memory.
const FILES_BYTES_MAX: u64 = 1 << 30;

/// The files as lines of a log. Files are texts by name.
///
/// # Errors
/// The texts cannot be compressed.
pub fn archive_lines(files: &BTreeMap<String, String>) -> anyhow::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&serde_json::to_vec(files)?)?;
    let compressed = encoder.finish()?;
    let text = STANDARD.encode(&compressed);
    let mut out = String::new();
    let mut count = 0;
    for (number, chunk) in text.as_bytes().chunks(LINE_LENGTH).enumerate() {
        let chunk = std::str::from_utf8(chunk)?;
        let _ = writeln!(out, "{MARK} {number} {chunk}");
        count = number + 1;
    }
    let _ = writeln!(out, "{MARK} {END} {count} {}", digest_text(&compressed));
    Ok(out)
}

/// The files in a log.
///
/// # Errors
/// The log has no complete archive; the text says what is missing.
pub fn read_archive(log: &str) -> Result<BTreeMap<String, String>, String> {
    let lines = log.lines().filter_map(|line| line.strip_prefix(MARK)?.strip_prefix(' '));
    let mut text = String::new();
    let mut found = 0_usize;
    for line in lines {
        let Some((number, rest)) = line.split_once(' ') else { continue };
        if number != END {
            // Lines that a rotated log has lost show in the count.
            text.push_str(rest.trim_end());
            found += 1;
            continue;
        }
        let (count, digest) = rest.trim_end().split_once(' ').unwrap_or_default();
        if count != found.to_string() {
            return Err(format!("got {found} of {count} lines of results: was the log rotated?"));
        }
        return decode(&text, digest);
    }
    Err(format!("got {found} lines of results without an end, expected a complete archive"))
}

fn decode(text: &str, digest: &str) -> Result<BTreeMap<String, String>, String> {
    let compressed = STANDARD.decode(text).map_err(|error| format!("invalid base64: {error}"))?;
    let found = digest_text(&compressed);
    if found != digest {
        return Err(format!("results with digest {found}, expected {digest}"));
    }
    let mut json = String::new();
    let mut decoder = GzDecoder::new(&*compressed).take(FILES_BYTES_MAX);
    decoder.read_to_string(&mut json).map_err(|error| format!("invalid gzip: {error}"))?;
    serde_json::from_str(&json).map_err(|error| format!("invalid JSON: {error}"))
}

fn digest_text(bytes: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> BTreeMap<String, String> {
        // Random enough to need several lines.
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_string()
        };
        let large: String = (0..2000).map(|_| next()).collect();
        BTreeMap::from([("report.json".to_owned(), large), ("run.json".to_owned(), "é".to_owned())])
    }

    #[test]
    fn an_archive_survives_other_lines_in_the_log() {
        let lines = archive_lines(&files()).unwrap();
        assert!(lines.lines().count() > 3, "{}", lines.lines().count());
        let log = format!("✔ a scenario\n{}", lines.replace('\n', "\r\n✔ a scenario\n"));
        assert_eq!(read_archive(&log), Ok(files()));
    }

    #[test]
    fn a_log_that_lost_lines_or_letters_is_rejected() {
        let lines = archive_lines(&files()).unwrap();
        let error = |log: &str| read_archive(log).unwrap_err();
        let (_, without_first) = lines.split_once('\n').unwrap();
        let count = lines.lines().count() - 1;
        let expected =
            format!("got {} of {count} lines of results: was the log rotated?", count - 1);
        assert_eq!(error(without_first), expected);
        let (without_end, _) = lines.rsplit_once(MARK).unwrap();
        assert!(error(without_end).contains("without an end"), "{}", error(without_end));
        let letter = lines.find(" 0 ").unwrap() + 100;
        let other = if lines.as_bytes()[letter] == b'A' { "B" } else { "A" };
        let mut changed = lines.clone();
        changed.replace_range(letter..=letter, other);
        assert!(error(&changed).starts_with("results with digest sha256:"), "{}", error(&changed));
        assert!(error("").contains("got 0 lines"), "{}", error(""));
    }
}
