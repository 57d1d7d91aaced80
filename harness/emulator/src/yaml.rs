//! Where the fields of an object stand in its YAML.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// The place of a field in a document of `text`, counted from 0, or of the last thing on the way
/// that is there; `None` where there is no such document. Paths are those of the API's messages:
/// `spec.containers[0].name`, `limits[nvidia.com/gpu]`.
pub fn locate(text: &str, document: usize, field: &str) -> Option<Location> {
    // The API's own messages look for the taints of a node in its metadata.
    let field = &field.replacen("metadata.taints", "spec.taints", 1);
    let documents: Vec<Spanned<Tree>> = serde_saphyr::from_multiple(text).ok()?;
    let tree = documents.get(document)?;
    Some(find(tree, field).unwrap_or(tree.referenced))
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
