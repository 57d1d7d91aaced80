//! Where an object was written: a row, or YAML, and then down to the line of each of its fields.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// Where an object was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A row or a sentence: `file:line`.
    Line(String),
    /// A document of YAML; the text before its fields' paths when it is an item of a list.
    Document(Arc<Text>, String),
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// The file.
    pub(crate) file: String,
    /// The line at which the part begins, from 1.
    pub(crate) first_line: usize,
    /// Whether its lines stand in the file as they stand here.
    pub(crate) columns: Columns,
    /// The part.
    pub(crate) content: String,
}

/// Whether columns of a text are those of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// They are.
    Kept,
    /// The text was moved to the left.
    Moved,
}

impl Origin {
    /// The place of a field, as near as it can be told; an empty path means the object.
    pub(crate) fn of(&self, field: &str) -> String {
        match self {
            Self::Line(place) => place.clone(),
            Self::Document(text, prefix) => {
                text.place(text.locate(&format!("{prefix}{field}")).as_ref())
            }
        }
    }

    /// The word that stands at a field, if it was written as YAML.
    pub(crate) fn written(&self, field: &str) -> Option<String> {
        let Self::Document(text, prefix) = self else { return None };
        let at = text.locate(&format!("{prefix}{field}"))?;
        let place = |at: u64| usize::try_from(at).ok()?.checked_sub(1);
        let line = text.content.lines().nth(place(at.line())?)?;
        let rest: String = line.chars().skip(place(at.column())?).collect();
        let word = rest.split([' ', ',', '}', ']', '#']).next()?;
        (!word.is_empty()).then(|| word.to_owned())
    }
}

impl Text {
    /// `file:line:column` of a location in this part.
    pub(crate) fn place(&self, at: Option<&Location>) -> String {
        let Self { file, first_line, .. } = self;
        let number = |number: u64| usize::try_from(number).unwrap_or(0);
        match at.filter(|at| at.line() > 0) {
            None => format!("{file}:{first_line}"),
            Some(at) => {
                let line = first_line + number(at.line()) - 1;
                match self.columns {
                    Columns::Kept => format!("{file}:{line}:{}", at.column()),
                    Columns::Moved => format!("{file}:{line}"),
                }
            }
        }
    }

    fn locate(&self, field: &str) -> Option<Location> {
        let tree: Spanned<Tree> = serde_saphyr::from_str(&self.content).ok()?;
        Some(find(&tree, field).unwrap_or(tree.referenced))
    }
}

/// YAML as its shape and places.
enum Tree {
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
    List(Vec<Spanned<Tree>>),
    Leaf,
}

/// The place of what a path leads to, or of the last thing on the way that is there.
fn find(at: &Spanned<Tree>, path: &str) -> Option<Location> {
    let path = path.strip_prefix('.').unwrap_or(path);
    match &at.value {
        _ if path.is_empty() => None,
        Tree::Leaf => None,
        Tree::Map(entries) => {
            let fitting = entries.iter().filter_map(|entry| Some((entry, after(path, &entry.0)?)));
            // Keys may hold dots: of two that fit the longer is meant.
            let ((key, value), rest) = fitting.max_by_key(|((key, _), _)| key.value.len())?;
            let here = match value.value {
                Tree::Leaf => value.referenced,
                Tree::Map(_) | Tree::List(_) => key.referenced,
            };
            Some(find(value, rest).unwrap_or(here))
        }
        Tree::List(items) => {
            let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
            let item = items.get(index.parse::<usize>().ok()?)?;
            Some(find(item, rest).unwrap_or(item.referenced))
        }
    }
}

/// What follows a key in a path: `spec.a[0]` and `limits[nvidia.com/gpu]` are both used.
fn after<'p>(path: &'p str, key: &Spanned<String>) -> Option<&'p str> {
    let bracketed = path.strip_prefix('[').and_then(|path| path.strip_prefix(&*key.value));
    if let Some(rest) = bracketed.and_then(|rest| rest.strip_prefix(']')) {
        return Some(rest);
    }
    let rest = path.strip_prefix(&*key.value)?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Shape)
    }
}

struct Shape;

impl<'de> Visitor<'de> for Shape {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "\
kind: Pod
metadata:
  labels:
    a.b/c: x
spec:
  containers:
  - name: a
    resources:
      limits: {nvidia.com/gpu: -1}
";

    fn place(field: &str) -> String {
        let text = Text {
            file: "f.yaml".to_owned(),
            first_line: 11,
            columns: Columns::Kept,
            content: POD.to_owned(),
        };
        Origin::Document(Arc::new(text), String::new()).of(field)
    }

    #[test]
    fn a_fields_path_leads_to_its_line_and_column() {
        assert_eq!(place("spec.containers[0].name"), "f.yaml:17:11");
        assert_eq!(place("spec.containers[0].resources.limits[nvidia.com/gpu]"), "f.yaml:19:32");
        assert_eq!(place("spec.containers[0].resources.limits.nvidia.com/gpu"), "f.yaml:19:32");
        assert_eq!(place("metadata.labels.a.b/c"), "f.yaml:14:12");
    }

    #[test]
    fn what_is_not_there_is_placed_where_it_would_be() {
        assert_eq!(place("spec.containers[0].image"), "f.yaml:17:5");
        assert_eq!(place("status.phase"), "f.yaml:11:1");
        assert_eq!(place(""), "f.yaml:11:1");
    }
}
