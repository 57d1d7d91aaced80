//! List and map types of the built-in kinds, for strategic merge and apply. The published schemas
//! lack the merge keys of strategic merge, so a table holds them; fields without an entry are
//! merged (maps) or replaced (lists).

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::shape::{ListShape, MergeShape};
use schedlab_api::Value;

/// The merge rules of built-in types. A paragraph defines a type: its name, then one field per
/// line. A name `kind/group` defines a kind, which has `metadata` implicitly. The words after a
/// field are: its type; `keyed=` (list keys for apply; `key:value` gives the default of an absent
/// key, otherwise "" or 0); `set`; `atomic` (the map changes as a whole); `map` (free keys);
/// `patch=` (strategic merge key); `union` (strategic merge unites scalars); `replace` (strategic
/// merge replaces).
const TYPE_TABLE: &str = include_str!("builtin.txt");

static KINDS: LazyLock<BTreeMap<(&str, &str), Arc<MergeShape>>> = LazyLock::new(kind_shapes);
static METADATA: LazyLock<Arc<MergeShape>> =
    LazyLock::new(|| parse_type("ObjectMeta", &type_paragraphs()));

/// The merge rules of a built-in kind; for a kind that is not in the table, only those of its
/// metadata.
pub(crate) fn builtin_shape(group: &str, kind: &str) -> Arc<MergeShape> {
    static OTHERS: LazyLock<Arc<MergeShape>> =
        LazyLock::new(|| Arc::new(with_metadata(MergeShape::default())));
    KINDS.get(&(group, kind)).unwrap_or(&OTHERS).clone()
}

/// Adds the merge rules of `metadata` to those of a kind.
pub(super) fn with_metadata(mut shape: MergeShape) -> MergeShape {
    shape.fields.insert("metadata".into(), METADATA.clone());
    shape
}

type TypeParagraphs = BTreeMap<&'static str, Vec<&'static str>>;

fn type_paragraphs() -> TypeParagraphs {
    let mut paragraphs = TypeParagraphs::new();
    for paragraph in TYPE_TABLE.split("\n\n") {
        let mut lines = paragraph.lines().filter(|line| !line.trim().is_empty());
        if let Some(head) = lines.next() {
            paragraphs.insert(head, lines.collect());
        }
    }
    paragraphs
}

fn kind_shapes() -> BTreeMap<(&'static str, &'static str), Arc<MergeShape>> {
    let paragraphs = type_paragraphs();
    paragraphs
        .keys()
        .filter_map(|head| {
            let (kind, group) = head.split_once('/')?;
            let shape = with_metadata((*parse_type(head, &paragraphs)).clone());
            Some(((group, kind), Arc::new(shape)))
        })
        .collect()
}

fn parse_type(name: &str, paragraphs: &TypeParagraphs) -> Arc<MergeShape> {
    let lines = paragraphs.get(name).expect("builtin.txt defines every type that it names");
    let mut shape = MergeShape::default();
    for line in lines {
        let mut words = line.split_whitespace();
        let field = words
            .next()
            .expect("every line of builtin.txt has a word: blank lines were filtered out");
        shape.fields.insert(field.into(), Arc::new(parse_field(words, paragraphs)));
    }
    Arc::new(shape)
}

fn parse_field<'t>(
    words: impl Iterator<Item = &'t str>,
    paragraphs: &TypeParagraphs,
) -> MergeShape {
    let mut shape = MergeShape::default();
    let mut of = None;
    for word in words {
        match word.split_once('=') {
            Some(("keyed", keys)) => {
                shape.list = ListShape::Keyed(keys.split(',').map(parse_list_key).collect());
            }
            Some(("patch", key)) => shape.strategy.merge_key = Some(key.into()),
            Some(_) => unreachable!("unknown key=value in the table of built-in types: {word}"),
            None => match word {
                "set" => shape.list = ListShape::Set,
                "atomic" => shape.atomic = true,
                "map" => shape.entries = Some(Arc::default()),
                "union" => shape.strategy.merge_values = true,
                "replace" => shape.strategy.replace = true,
                name => of = Some(parse_type(name, paragraphs)),
            },
        }
    }
    let is_list = shape.list != ListShape::Atomic || shape.strategy.merge_key.is_some();
    match of {
        Some(of) if is_list => shape.item = Some(of),
        Some(of) => shape.fields.clone_from(&of.fields),
        None => {}
    }
    shape
}

fn parse_list_key(text: &str) -> (Box<str>, Option<Value>) {
    match text.split_once(':') {
        Some((key, default)) => (key.into(), Some(Value::from(default))),
        // The Go zero value of an unset key.
        None if text.to_lowercase().ends_with("port") => (text.into(), Some(0.into())),
        None => (text.into(), Some("".into())),
    }
}
