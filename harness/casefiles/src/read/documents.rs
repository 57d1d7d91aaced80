//! Splits a text into documents: JSON values one after another, as `kubectl cluster-info dump`
//! prints them between logs, or YAML documents.

use std::io::{BufRead, BufReader, Read};

use schedlab_api::Value;
use serde::Deserialize as _;

/// First words of the lines around the log of a container in `kubectl cluster-info dump`.
const LOG_START: &str = "==== START";
const LOG_END: &str = "==== END";

/// Passes all documents of a text to `take`.
pub(super) fn read_documents(
    reader: impl Read,
    take: &mut dyn FnMut(Value) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = BufReader::new(reader);
    let start = reader.fill_buf().map_err(|error| error.to_string())?;
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace()).copied();
    match first {
        None => Ok(()),
        Some(b'{' | b'[') => read_json(reader, take),
        Some(_) => read_yaml(reader, take),
    }
}

fn read_json(
    mut reader: impl BufRead,
    take: &mut dyn FnMut(Value) -> Result<(), String>,
) -> Result<(), String> {
    loop {
        if skip_to_value(&mut reader)? {
            let mut json = serde_json::Deserializer::from_reader(&mut reader);
            let value = Value::deserialize(&mut json)
                .map_err(|error| format!("it is not complete JSON: {error}"))?;
            take(value)?;
        } else {
            return Ok(());
        }
    }
}

/// Skips white space and logs; whether a JSON value follows.
fn skip_to_value(reader: &mut impl BufRead) -> Result<bool, String> {
    let mut is_log = false;
    loop {
        let buffer = reader.fill_buf().map_err(|error| error.to_string())?;
        let Some(first) = buffer.first().copied() else { return Ok(false) };
        if !is_log && (first.is_ascii_whitespace() || buffer.starts_with(b"\xef\xbb\xbf")) {
            reader.consume(1);
            continue;
        }
        if !is_log && matches!(first, b'{' | b'[') {
            return Ok(true);
        }
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        let line = String::from_utf8_lossy(&line);
        if line.starts_with(LOG_START) {
            is_log = true;
        } else if line.starts_with(LOG_END) {
            is_log = false;
        } else if !is_log {
            return Err(format!(
                "got {} between two JSON values, expected a JSON value",
                super::shortened(line.trim_end())
            ));
        }
    }
}

fn read_yaml(
    mut reader: impl Read,
    take: &mut dyn FnMut(Value) -> Result<(), String>,
) -> Result<(), String> {
    let mut text = String::new();
    reader.read_to_string(&mut text).map_err(|error| {
        if error.kind() == std::io::ErrorKind::InvalidData {
            return "got a binary file, expected a zip, gzip, JSON or YAML".to_owned();
        }
        error.to_string()
    })?;
    for document in serde_yaml::Deserializer::from_str(&text) {
        let value = Value::deserialize(document)
            .map_err(|error| format!("it is neither JSON nor YAML: {error}"))?;
        take(value)?;
    }
    Ok(())
}
