//! Plain Kubernetes YAML, one or more documents, with the place of what is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use schedlab_json::Value;
use serde_saphyr::{SnippetMode, UserMessageFormatter};

use super::origin::{Origin, Text};
use crate::fields;

/// An object and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    /// Where.
    pub(crate) origin: Origin,
    /// The object.
    pub(crate) object: Value,
}

/// The objects of a text.
pub(crate) fn documents(whole: &Text) -> Result<Vec<Document>, String> {
    let mut found = Vec::new();
    for part in parts(whole) {
        let Some(object) = read(&part)? else { continue };
        match object["items"].as_array() {
            None => found.push(document(&part, String::new(), object)?),
            Some(items) => {
                for (index, item) in items.iter().enumerate() {
                    found.push(document(&part, format!("items[{index}]."), item.clone())?);
                }
            }
        }
    }
    if found.is_empty() {
        return Err(format!("{}: found no object, allowed are one or more", whole.place(None)));
    }
    distinct(&found)?;
    Ok(found)
}

/// Fields of an object that is there, which a text changes.
pub(crate) fn change(whole: Text) -> Result<Document, String> {
    let place = whole.place(None);
    let found = read(&whole)?.filter(Value::is_object);
    let object =
        found.ok_or_else(|| format!("{place}: found no fields, allowed are one or more"))?;
    Ok(Document { origin: Origin::Document(Arc::new(whole), String::new()), object })
}

/// The YAML of a part; nothing when it holds nothing.
fn read(part: &Text) -> Result<Option<Value>, String> {
    let parsed: Result<Option<Value>, _> = serde_saphyr::from_str(&part.content);
    let parsed = parsed.map_err(|error| {
        let options = serde_saphyr::render_options! {
            formatter: &UserMessageFormatter,
            snippets: SnippetMode::Off,
        };
        let words = error.render_with_options(options);
        let words = words.rsplit_once(" at line ").map_or(&*words, |(words, _)| words);
        format!("{}: not YAML that can be read: {words}", part.place(error.location().as_ref()))
    })?;
    Ok(parsed.filter(|object| !object.is_null()))
}

fn document(part: &Arc<Text>, prefix: String, object: Value) -> Result<Document, String> {
    let origin = Origin::Document(Arc::clone(part), prefix);
    for field in ["apiVersion", "kind"] {
        let found = object.get(field).unwrap_or(&Value::Null);
        if found.as_str().is_none_or(str::is_empty) {
            let place = origin.of(field);
            let found = if found.is_null() { "nothing".to_owned() } else { found.to_string() };
            return Err(format!("{place}: {field}: found {found}, an object needs one"));
        }
    }
    Ok(Document { origin, object })
}

/// Each object once: of two with one name the later would change the earlier. Rows may call for
/// one priority class again and again.
pub(crate) fn distinct(documents: &[Document]) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for Document { origin, object } in documents {
        let text = |at: &str| fields::text(object, at).unwrap_or_default();
        let is_class = matches!(origin, Origin::Line(_)) && text("/kind") == "PriorityClass";
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
                "{}: found {} again, which {} has already; allowed is each object once",
                origin.of("metadata.name"),
                crate::api::title(object),
                first.of("metadata.name")
            ));
        }
    }
    Ok(())
}

/// The documents between `---` lines.
fn parts(whole: &Text) -> Vec<Arc<Text>> {
    let part =
        |line: usize| Text { first_line: line, content: String::new(), ..Text::clone(whole) };
    let mut parts = vec![part(whole.first_line)];
    for (line, number) in whole.content.lines().zip(whole.first_line..) {
        if line.trim_end() == "---" {
            parts.push(part(number + 1));
        } else if let Some(part) = parts.last_mut() {
            part.content.push_str(line);
            part.content.push('\n');
        }
    }
    let speaks = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    parts.retain(|part| part.content.lines().any(speaks));
    parts.into_iter().map(Arc::new).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::origin::Columns;
    use super::*;

    fn read(text: &str) -> Result<Vec<Document>, String> {
        documents(&Text {
            file: "f.yaml".to_owned(),
            first_line: 1,
            columns: Columns::Kept,
            content: text.to_owned(),
        })
    }

    #[test]
    fn documents_and_lists_become_objects() {
        let objects = read("# two\napiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node}\n").unwrap();
        let kinds: Vec<_> = objects.iter().map(|d| d.object["kind"].clone()).collect();
        assert_eq!(kinds, ["Pod", "Node"]);
        assert_eq!(objects[1].origin.of("kind"), "f.yaml:8:26");
    }

    #[test]
    fn what_is_no_object_is_told_with_its_place() {
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
        f.yaml:4:1: apiVersion: found nothing, an object needs one
        f.yaml:2:7: not YAML that can be read: unclosed bracket '['
        f.yaml:3:1: not YAML that can be read: duplicate mapping key: kind not allowed here
        f.yaml:3:2: not YAML that can be read: tabs disallowed within this context (block indentation)
        f.yaml:7:18: found Pod a again, which f.yaml:3:18 has already; allowed is each object once
        f.yaml:1: found no object, allowed are one or more
        ");
    }
}
