//! Parses plain Kubernetes YAML with one or more documents; errors have a source location.

use std::collections::BTreeMap;
use std::sync::Arc;

use schedlab_api::{Value, pointer as fields};
use serde_saphyr::{SnippetMode, UserMessageFormatter};

use super::source_location::{SourceLocation, SourceText};

/// An object of a manifest, and where it is in the source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ManifestDocument {
    /// Where the object is in the source.
    pub(crate) location: SourceLocation,
    /// The object itself.
    pub(crate) object: Value,
}

/// Parses the objects in a YAML text. Items of a `List` become objects of their own.
pub(crate) fn parse_documents(whole: &SourceText) -> Result<Vec<ManifestDocument>, String> {
    let mut found = Vec::new();
    for part in split_documents(whole) {
        let Some(object) = parse_yaml_object(&part)? else { continue };
        match object["items"].as_array() {
            None => found.push(new_document(&part, String::new(), object)?),
            Some(items) => {
                for (index, item) in items.iter().enumerate() {
                    found.push(new_document(&part, format!("items[{index}]."), item.clone())?);
                }
            }
        }
    }
    if found.is_empty() {
        return Err(format!(
            "{}: got no object, expected one or more",
            whole.format_location(None)
        ));
    }
    check_no_duplicates(&found)?;
    Ok(found)
}

/// Parses a patch in a YAML text: fields of an existing object.
pub(crate) fn parse_patch_document(whole: SourceText) -> Result<ManifestDocument, String> {
    let location = whole.format_location(None);
    let found = parse_yaml_object(&whole)?.filter(Value::is_object);
    let object = found.ok_or_else(|| format!("{location}: got no fields, expected one or more"))?;
    Ok(ManifestDocument {
        location: SourceLocation::Document(Arc::new(whole), String::new()),
        object,
    })
}

/// Parses one YAML document; `None` if it is empty.
fn parse_yaml_object(part: &SourceText) -> Result<Option<Value>, String> {
    let parsed: Result<Option<Value>, _> = serde_saphyr::from_str(&part.content);
    let parsed = parsed.map_err(|error| {
        let options = serde_saphyr::render_options! {
            formatter: &UserMessageFormatter,
            snippets: SnippetMode::Off,
        };
        let words = error.render_with_options(options);
        let words = words.rsplit_once(" at line ").map_or(&*words, |(words, _)| words);
        format!("{}: invalid YAML: {words}", part.format_location(error.location().as_ref()))
    })?;
    Ok(parsed.filter(|object| !object.is_null()))
}

fn new_document(
    part: &Arc<SourceText>,
    prefix: String,
    object: Value,
) -> Result<ManifestDocument, String> {
    let origin = SourceLocation::Document(Arc::clone(part), prefix);
    for field in ["apiVersion", "kind"] {
        let found = object.get(field).unwrap_or(&Value::Null);
        if found.as_str().is_none_or(str::is_empty) {
            let location = origin.location_of_field(field);
            let found = if found.is_null() { "nothing".to_owned() } else { found.to_string() };
            return Err(format!("{location}: {field}: got {found}, expected a value"));
        }
    }
    Ok(ManifestDocument { location: origin, object })
}

/// Rejects duplicate objects, because the later one would overwrite the earlier one. Equal priority
/// classes are permitted, since several table rows may need the same one.
pub(crate) fn check_no_duplicates(documents: &[ManifestDocument]) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for ManifestDocument { location: origin, object } in documents {
        let text = |at: &str| fields::text(object, at).unwrap_or_default();
        let is_class =
            matches!(origin, SourceLocation::Line(_)) && text("/kind") == "PriorityClass";
        if text("/metadata/name").is_empty() || is_class {
            continue;
        }
        let key = [
            text("/apiVersion"),
            text("/kind"),
            text("/metadata/namespace"),
            text("/metadata/name"),
        ];
        if let Some(first) = seen.insert(key, origin) {
            return Err(format!(
                "{}: duplicate object {}, first defined at {}",
                origin.location_of_field("metadata.name"),
                schedlab_clusters::api::object_title(object),
                first.location_of_field("metadata.name")
            ));
        }
    }
    Ok(())
}

/// Splits a YAML text into its documents, at `---` lines.
fn split_documents(whole: &SourceText) -> Vec<Arc<SourceText>> {
    let part = |line: usize| SourceText {
        first_line: line,
        content: String::new(),
        ..SourceText::clone(whole)
    };
    let mut parts = vec![part(whole.first_line)];
    for (line, number) in whole.content.lines().zip(whole.first_line..) {
        if line.trim_end() == "---" {
            parts.push(part(number + 1));
        } else if let Some(part) = parts.last_mut() {
            part.content.push_str(line);
            part.content.push('\n');
        }
    }
    let has_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    parts.retain(|part| part.content.lines().any(has_content));
    parts.into_iter().map(Arc::new).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::source_location::ColumnAlignment;
    use super::*;

    fn read(text: &str) -> Result<Vec<ManifestDocument>, String> {
        parse_documents(&SourceText {
            file: "f.yaml".to_owned(),
            first_line: 1,
            columns: ColumnAlignment::AsInFile,
            content: text.to_owned(),
        })
    }

    #[test]
    fn documents_and_lists_become_objects() {
        let objects = read("# two\napiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node}\n").unwrap();
        let kinds: Vec<_> = objects.iter().map(|d| d.object["kind"].clone()).collect();
        assert_eq!(kinds, ["Pod", "Node"]);
        assert_eq!(objects[1].location.location_of_field("kind"), "f.yaml:8:26");
    }

    #[test]
    fn an_invalid_document_is_rejected_with_its_location() {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
        let errors = [
            read("apiVersion: v1\nkind: Pod\n---\nkind: x\n"),
            read("apiVersion: v1\nkind: [\n"),
            read("apiVersion: v1\nkind: Pod\nkind: Pod\n"),
            read("apiVersion: v1\nmetadata:\n\tname: a\n"),
            read(&format!("{pod}---\n{pod}")),
            read("# nothing\n"),
        ]
        .map(|error| error.unwrap_err());
        assert_snapshot!(errors.join("\n"), @r"
        f.yaml:4:1: apiVersion: got nothing, expected a value
        f.yaml:2:7: invalid YAML: unclosed bracket '['
        f.yaml:3:1: invalid YAML: duplicate mapping key: kind not allowed here
        f.yaml:3:2: invalid YAML: tabs disallowed within this context (block indentation)
        f.yaml:7:18: duplicate object Pod a, first defined at f.yaml:3:18
        f.yaml:1: got no object, expected one or more
        ");
    }
}
