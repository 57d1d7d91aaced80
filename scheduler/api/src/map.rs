//! JSON objects as vectors sorted by key. Most have few fields; a linear search is fastest for
//! these, since keys of other lengths are skipped at once.

use std::cmp::Ordering;
use std::fmt;
use std::slice;
use std::vec;

use super::{Text, Value};

/// A map with up to this many fields is searched linearly; a larger map by binary search.
const LINEAR_SEARCH_MAX: usize = 16;

/// A JSON object, ordered by key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Map(Vec<(Text, Value)>);

impl Map {
    /// An empty map.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.position(key).map(|place| &self.0[place].1)
    }

    /// The mutable value of a key.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.position(key).map(|place| &mut self.0[place].1)
    }

    /// Whether the key exists.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Sets the value of a key; returns the previous one.
    pub fn insert(&mut self, key: impl Into<Text> + AsRef<str>, value: Value) -> Option<Value> {
        if self.is_after_last_key(key.as_ref()) {
            self.0.push((key.into(), value));
            return None;
        }
        match self.search_key(key.as_ref()) {
            Ok(place) => Some(std::mem::replace(&mut self.0[place].1, value)),
            Err(place) => {
                self.0.insert(place, (key.into(), value));
                None
            }
        }
    }

    /// Removes a key; returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.position(key).map(|place| self.0.remove(place).1)
    }

    /// Removes all fields.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The entry of a key, to insert a missing value.
    pub fn entry(&mut self, key: impl Into<Text> + AsRef<str>) -> Entry<'_> {
        let found = self.search_key(key.as_ref());
        Entry { fields: &mut self.0, key: key.into(), found }
    }

    /// Iterates over keys and values.
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.0.iter())
    }

    /// Iterates over keys and mutable values.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&Text, &mut Value)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Iterates over keys.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Text> + ExactSizeIterator {
        self.0.iter().map(|(key, _)| key)
    }

    /// Iterates over values, in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        self.0.iter().map(|(_, value)| value)
    }

    /// Iterates over mutable values.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Value> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Iterates over owned values.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = Value> {
        self.0.into_iter().map(|(_, value)| value)
    }

    /// Keeps the fields for which `keeps` returns true.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Text, &mut Value) -> bool) {
        self.0.retain_mut(|(key, value)| keeps(key, value));
    }

    fn position(&self, key: &str) -> Option<usize> {
        if self.0.len() > LINEAR_SEARCH_MAX {
            return self.search_key(key).ok();
        }
        self.0.iter().position(|(field, _)| is_same_key(field.as_bytes(), key.as_bytes()))
    }

    /// The position of a key, or in `Err` the position at which to insert it.
    fn search_key(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(field, _)| compare_keys(field.as_bytes(), key.as_bytes()))
    }

    /// Whether the key is greater than all keys of the map.
    fn is_after_last_key(&self, key: &str) -> bool {
        let last = self.0.last().map(|(last, _)| compare_keys(last.as_bytes(), key.as_bytes()));
        last.is_none_or(Ordering::is_lt)
    }
}

/// Whether two keys are equal. Most keys have up to 16 bytes, so two possibly overlapping words are
/// compared.
fn is_same_key(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && match one.len() {
            8..=16 => first_and_last_bytes::<8>(one) == first_and_last_bytes::<8>(other),
            4..=7 => first_and_last_bytes::<4>(one) == first_and_last_bytes::<4>(other),
            _ => one == other,
        }
}

fn first_and_last_bytes<const N: usize>(key: &[u8]) -> (Option<&[u8; N]>, Option<&[u8; N]>) {
    (key.first_chunk(), key.last_chunk())
}

/// Compares two keys bytewise. Most keys differ in their first eight bytes, so these are compared
/// first.
fn compare_keys(one: &[u8], other: &[u8]) -> Ordering {
    let words = one.first_chunk().copied().zip(other.first_chunk().copied());
    match words.map(|(one, other)| (u64::from_be_bytes(one), u64::from_be_bytes(other))) {
        Some((one, other)) if one != other => one.cmp(&other),
        _ => one.cmp(other),
    }
}

/// The entry of a key in a map.
pub struct Entry<'m> {
    fields: &'m mut Vec<(Text, Value)>,
    key: Text,
    found: Result<usize, usize>,
}

impl<'m> Entry<'m> {
    /// The value, inserted if missing.
    pub fn or_insert(self, value: Value) -> &'m mut Value {
        self.or_insert_with(|| value)
    }

    /// The value, created and inserted if missing.
    pub fn or_insert_with(self, value: impl FnOnce() -> Value) -> &'m mut Value {
        let place = match self.found {
            Ok(place) => place,
            Err(place) => {
                self.fields.insert(place, (self.key, value()));
                place
            }
        };
        &mut self.fields[place].1
    }
}

/// Builds a map from fields. Of duplicate keys the last value is kept.
impl<K: Into<Text> + AsRef<str>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(fields: I) -> Self {
        let mut map = Self::new();
        map.extend(fields);
        map
    }
}

impl<K: Into<Text> + AsRef<str>, V: Into<Value>> Extend<(K, V)> for Map {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, fields: I) {
        let fields = fields.into_iter();
        self.0.reserve(fields.size_hint().0);
        for (key, value) in fields {
            self.insert(key, value.into());
        }
    }
}

/// Iterator over the fields of a map.
#[derive(Clone)]
pub struct Iter<'m>(slice::Iter<'m, (Text, Value)>);

impl<'m> Iterator for Iter<'m> {
    type Item = (&'m Text, &'m Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(key, value)| (key, value))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Iterator over the owned fields of a map.
pub type IntoIter = vec::IntoIter<(Text, Value)>;

impl<'m> IntoIterator for &'m Map {
    type Item = (&'m Text, &'m Value);
    type IntoIter = Iter<'m>;

    fn into_iter(self) -> Iter<'m> {
        self.iter()
    }
}

impl<'m> IntoIterator for &'m mut Map {
    type Item = (&'m Text, &'m mut Value);
    type IntoIter = std::iter::Map<
        slice::IterMut<'m, (Text, Value)>,
        fn(&'m mut (Text, Value)) -> (&'m Text, &'m mut Value),
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        self.0.into_iter()
    }
}

impl std::ops::Index<&str> for Map {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.get(key).expect("the map has this key")
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self).finish()
    }
}
