//! Plain Kubernetes YAML, one or more documents, with the line of what is wrong.

use serde_json::Value;

/// An object and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    /// `file:line`.
    pub(crate) place: String,
    /// The object.
    pub(crate) object: Value,
}

/// The objects of a text. `file` and `first_line` place its messages.
pub(crate) fn documents(
    file: &str,
    first_line: usize,
    text: &str,
) -> Result<Vec<Document>, String> {
    let mut objects = Vec::new();
    for (line, part) in parts(text) {
        let line = first_line + line;
        let parsed: Option<Value> = serde_saphyr::from_str(&part).map_err(|error| {
            let at = error.location().map_or(0, |location| location.line().saturating_sub(1));
            let at = line + usize::try_from(at).unwrap_or(0);
            let words = error.to_string();
            let words = words.lines().next().unwrap_or_default();
            format!("{file}:{at}: not YAML that can be read: {words}")
        })?;
        let Some(object) = parsed.filter(|object| !object.is_null()) else { continue };
        for field in ["/apiVersion", "/kind"] {
            if object.pointer(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                let name = field.trim_start_matches('/');
                return Err(format!(
                    "{file}:{line}: an object needs {name}; found {}",
                    object.pointer(field).unwrap_or(&Value::Null)
                ));
            }
        }
        let place = format!("{file}:{line}");
        match object["items"].as_array() {
            Some(items) => objects
                .extend(items.iter().map(|o| Document { place: place.clone(), object: o.clone() })),
            None => objects.push(Document { place, object }),
        }
    }
    if objects.is_empty() {
        return Err(format!("{file}:{first_line}: there is no object in it"));
    }
    Ok(objects)
}

/// The documents between `---` lines, with the line each begins at (counted from 0).
fn parts(text: &str) -> Vec<(usize, String)> {
    let mut parts = vec![(0, String::new())];
    for (number, line) in text.lines().enumerate() {
        if line.trim_end() == "---" {
            parts.push((number + 1, String::new()));
        } else if let Some((_, part)) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts.retain(|(_, part)| {
        part.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    });
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_become_objects() {
        let text = "# two\napiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node}\n";
        let objects = documents("f.yaml", 1, text).unwrap();
        let kinds: Vec<_> = objects.iter().map(|d| d.object["kind"].clone()).collect();
        assert_eq!(kinds, ["Pod", "Node"]);
    }

    #[test]
    fn a_broken_or_kindless_document_is_told_with_its_line() {
        let error =
            documents("f.yaml", 1, "apiVersion: v1\nkind: Pod\n---\nkind: x\n").unwrap_err();
        assert_eq!(error, "f.yaml:4: an object needs apiVersion; found null");
        let error = documents("f.yaml", 1, "apiVersion: v1\nkind: [\n").unwrap_err();
        assert!(error.starts_with("f.yaml:"), "{error}");
        assert!(documents("f.yaml", 1, "# nothing\n").is_err());
    }
}
