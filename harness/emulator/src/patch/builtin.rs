//! Merge keys of the built-in kinds. Published schemas lack them for strategic merge, so they
//! stand here as a table; a field that is not in it merges as a map or is replaced as a list.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::shape::{ListShape, Shape};
use schedlab_json::Value;

/// One type a paragraph: its name, then a field a line. `kind/group` makes it a kind, which has
/// `metadata` without saying so. Words after a field: its type, `keyed=` (list keys for apply,
/// `key:value` where an absent key stands for that value, else for nothing: "" or 0), `set`, `atomic` (a map that is one value), `map`
/// (free keys), `patch=` (strategic merge key), `union` (strategic merge of plain values),
/// `replace` (strategic merge replaces).
const TABLE: &str = include_str!("builtin.txt");

static KINDS: LazyLock<BTreeMap<(&str, &str), Arc<Shape>>> = LazyLock::new(kinds);
static METADATA: LazyLock<Arc<Shape>> = LazyLock::new(|| of_type("ObjectMeta", &paragraphs()));

/// The shape of a built-in kind; of one that the table does not name, only its metadata.
pub fn builtin(group: &str, kind: &str) -> Arc<Shape> {
    static OTHERS: LazyLock<Arc<Shape>> =
        LazyLock::new(|| Arc::new(with_metadata(Shape::default())));
    KINDS.get(&(group, kind)).unwrap_or(&OTHERS).clone()
}

/// Adds `metadata` to a kind's shape.
pub(super) fn with_metadata(mut shape: Shape) -> Shape {
    shape.fields.insert("metadata".into(), METADATA.clone());
    shape
}

type Paragraphs = BTreeMap<&'static str, Vec<&'static str>>;

fn paragraphs() -> Paragraphs {
    let mut paragraphs = Paragraphs::new();
    for paragraph in TABLE.split("\n\n") {
        let mut lines = paragraph.lines().filter(|line| !line.trim().is_empty());
        if let Some(head) = lines.next() {
            paragraphs.insert(head, lines.collect());
        }
    }
    paragraphs
}

fn kinds() -> BTreeMap<(&'static str, &'static str), Arc<Shape>> {
    let paragraphs = paragraphs();
    paragraphs
        .keys()
        .filter_map(|head| {
            let (kind, group) = head.split_once('/')?;
            let shape = with_metadata((*of_type(head, &paragraphs)).clone());
            Some(((group, kind), Arc::new(shape)))
        })
        .collect()
}

fn of_type(name: &str, paragraphs: &Paragraphs) -> Arc<Shape> {
    let lines = paragraphs.get(name).expect("the table defines each type that it names");
    let mut shape = Shape::default();
    for line in lines {
        let mut words = line.split_whitespace();
        let field = words.next().expect("blank lines were left out");
        shape.fields.insert(field.into(), Arc::new(of_field(words, paragraphs)));
    }
    Arc::new(shape)
}

fn of_field<'t>(words: impl Iterator<Item = &'t str>, paragraphs: &Paragraphs) -> Shape {
    let mut shape = Shape::default();
    let mut of = None;
    for word in words {
        match word.split_once('=') {
            Some(("keyed", keys)) => {
                shape.list = ListShape::Keyed(keys.split(',').map(key).collect());
            }
            Some(("patch", key)) => shape.strategy.merge_key = Some(key.into()),
            Some(_) => unreachable!("the table has no other pairs: {word}"),
            None => match word {
                "set" => shape.list = ListShape::Set,
                "atomic" => shape.atomic = true,
                "map" => shape.entries = Some(Arc::default()),
                "union" => shape.strategy.merge_values = true,
                "replace" => shape.strategy.replace = true,
                name => of = Some(of_type(name, paragraphs)),
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

fn key(text: &str) -> (Box<str>, Option<Value>) {
    match text.split_once(':') {
        Some((key, default)) => (key.into(), Some(Value::from(default))),
        // What Go holds of a field that nobody has set.
        None if text.to_lowercase().ends_with("port") => (text.into(), Some(0.into())),
        None => (text.into(), Some("".into())),
    }
}
