//! Locations of fields in YAML documents.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// The location of a field in a document of `text` (counted from 0), or of its closest ancestor
/// that exists; `None` if there is no such document. Paths are those of API messages:
/// `spec.containers[0].name`, `limits[nvidia.com/gpu]`.
pub fn locate(text: &str, document: usize, field: &str) -> Option<Location> {
    // The API server reports node taints at `metadata.taints`.
    let field = &field.replacen("metadata.taints", "spec.taints", 1);
    let documents: Vec<Spanned<LocatedTree>> = serde_saphyr::from_multiple(text).ok()?;
    let tree = documents.get(document)?;
    Some(find_location(tree, field).unwrap_or(tree.referenced))
}

/// A YAML document as a tree with the locations of keys and values, without the texts of scalars.
enum LocatedTree {
    Map(Vec<(Spanned<String>, Spanned<LocatedTree>)>),
    List(Vec<Spanned<LocatedTree>>),
    Leaf,
}

/// The location of the value at `path` below `at`, or of the closest ancestor that exists; `None`
/// if not even the first step of the path exists.
fn find_location(at: &Spanned<LocatedTree>, path: &str) -> Option<Location> {
    let path = path.strip_prefix('.').unwrap_or(path);
    match &at.value {
        _ if path.is_empty() => None,
        LocatedTree::Leaf => None,
        LocatedTree::Map(entries) => {
            let fitting =
                entries.iter().filter_map(|entry| Some((entry, path_after_key(path, &entry.0)?)));
            // Keys may contain dots: the longest matching key is meant.
            let ((key, value), rest) = fitting.max_by_key(|((key, _), _)| key.value.len())?;
            let here = match value.value {
                LocatedTree::Leaf => value.referenced,
                LocatedTree::Map(_) | LocatedTree::List(_) => key.referenced,
            };
            Some(find_location(value, rest).unwrap_or(here))
        }
        LocatedTree::List(items) => {
            let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
            let item = items.get(index.parse::<usize>().ok()?)?;
            Some(find_location(item, rest).unwrap_or(item.referenced))
        }
    }
}

/// The rest of a path after the key `key`, which may be written as in `spec.a[0]` or as in
/// `limits[nvidia.com/gpu]`; `None` if the path begins with another key.
fn path_after_key<'p>(path: &'p str, key: &Spanned<String>) -> Option<&'p str> {
    let bracketed = path.strip_prefix('[').and_then(|path| path.strip_prefix(&*key.value));
    if let Some(rest) = bracketed.and_then(|rest| rest.strip_prefix(']')) {
        return Some(rest);
    }
    let rest = path.strip_prefix(&*key.value)?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

impl<'de> Deserialize<'de> for LocatedTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = LocatedTree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LocatedTree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(LocatedTree::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<LocatedTree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(LocatedTree::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<LocatedTree, E> {
        Ok(LocatedTree::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<LocatedTree, E> {
        Ok(LocatedTree::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<LocatedTree, E> {
        Ok(LocatedTree::Leaf)
    }

    fn visit_i128<E>(self, _: i128) -> Result<LocatedTree, E> {
        Ok(LocatedTree::Leaf)
    }

    fn visit_u128<E>(self, _: u128) -> Result<LocatedTree, E> {
        Ok(LocatedTree::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<LocatedTree, E> {
        Ok(LocatedTree::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<LocatedTree, E> {
        Ok(LocatedTree::Leaf)
    }

    fn visit_unit<E>(self) -> Result<LocatedTree, E> {
        Ok(LocatedTree::Leaf)
    }
}
