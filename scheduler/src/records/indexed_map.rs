//! A map of records that knows which of them have a mark, so that what concerns few records need
//! not look at all.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map},
    ops::{Deref, DerefMut},
};

use super::ObjectKey;

/// A record that may have marks, which follow from the record alone.
pub(crate) trait Marked {
    /// A mark that a record may have.
    type Mark: Copy + Ord + 'static;

    /// All marks.
    const MARKS: &'static [Self::Mark];

    /// Whether the record has this mark.
    fn has_mark(&self, mark: Self::Mark) -> bool;
}

/// Records by key, with the keys of those that have a mark. Reads like a `BTreeMap`.
#[derive(Debug)]
pub(crate) struct IndexedMap<V: Marked> {
    records: BTreeMap<ObjectKey, V>,
    marked: BTreeMap<V::Mark, BTreeSet<ObjectKey>>,
}

impl<V: Marked> IndexedMap<V> {
    /// Keys of the records that have the mark.
    pub(crate) fn marked(&self, mark: V::Mark) -> impl Iterator<Item = &ObjectKey> {
        self.marked.get(&mark).into_iter().flatten()
    }

    /// The records that have the mark.
    pub(crate) fn marked_records(&self, mark: V::Mark) -> impl Iterator<Item = (&ObjectKey, &V)> {
        self.marked(mark).filter_map(|key| self.records.get_key_value(key))
    }

    pub(crate) fn insert(&mut self, key: ObjectKey, record: V) -> Option<V> {
        for mark in V::MARKS {
            self.set_mark(*mark, &key, record.has_mark(*mark));
        }
        self.records.insert(key, record)
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<V> {
        let previous = self.records.remove(key);
        self.update_marks(key);
        previous
    }

    pub(crate) fn clear(&mut self) {
        self.records.clear();
        self.marked.clear();
    }

    /// The record, to be changed: marks are updated when the reference is dropped.
    pub(crate) fn get_mut(&mut self, key: &ObjectKey) -> Option<RecordMut<'_, V>> {
        self.records.contains_key(key).then(|| RecordMut { key: key.clone(), map: self })
    }

    fn update_marks(&mut self, key: &ObjectKey) {
        for mark in V::MARKS {
            let has_mark = self.records.get(key).is_some_and(|record| record.has_mark(*mark));
            self.set_mark(*mark, key, has_mark);
        }
    }

    fn set_mark(&mut self, mark: V::Mark, key: &ObjectKey, has_mark: bool) {
        if has_mark {
            self.marked.entry(mark).or_default().insert(key.clone());
        } else if let Some(keys) = self.marked.get_mut(&mark) {
            keys.remove(key);
        }
    }
}

impl<V: Marked> Default for IndexedMap<V> {
    fn default() -> Self {
        Self { records: BTreeMap::new(), marked: BTreeMap::new() }
    }
}

impl<V: Marked> Deref for IndexedMap<V> {
    type Target = BTreeMap<ObjectKey, V>;

    fn deref(&self) -> &Self::Target {
        &self.records
    }
}

impl<'m, V: Marked> IntoIterator for &'m IndexedMap<V> {
    type Item = (&'m ObjectKey, &'m V);
    type IntoIter = btree_map::Iter<'m, ObjectKey, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.records.iter()
    }
}

/// A record that may be changed.
pub(crate) struct RecordMut<'m, V: Marked> {
    key: ObjectKey,
    map: &'m mut IndexedMap<V>,
}

impl<V: Marked> Deref for RecordMut<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.map.records[&self.key]
    }
}

impl<V: Marked> DerefMut for RecordMut<'_, V> {
    fn deref_mut(&mut self) -> &mut V {
        self.map.records.get_mut(&self.key).expect("the record existed and was not removed")
    }
}

impl<V: Marked> Drop for RecordMut<'_, V> {
    fn drop(&mut self) {
        self.map.update_marks(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Number(u32);

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum NumberMark {
        Even,
        Large,
    }

    impl Marked for Number {
        type Mark = NumberMark;
        const MARKS: &'static [NumberMark] = &[NumberMark::Even, NumberMark::Large];

        fn has_mark(&self, mark: NumberMark) -> bool {
            match mark {
                NumberMark::Even => self.0.is_multiple_of(2),
                NumberMark::Large => self.0 > 9,
            }
        }
    }

    #[test]
    fn marks_follow_every_change() {
        let key = |name: &str| ObjectKey { namespace: "ns".into(), name: name.into() };
        let mut map: IndexedMap<Number> = IndexedMap::default();
        let names = |map: &IndexedMap<Number>, mark| {
            map.marked(mark).map(|key| key.name.to_string()).collect::<Vec<_>>().join(" ")
        };
        map.insert(key("a"), Number(1));
        map.insert(key("b"), Number(10));
        assert_eq!(
            (names(&map, NumberMark::Even), names(&map, NumberMark::Large)),
            ("b".into(), "b".into())
        );
        if let Some(mut number) = map.get_mut(&key("a")) {
            number.0 = 12;
        }
        assert_eq!(names(&map, NumberMark::Large), "a b");
        assert_eq!(map.remove(&key("b")), Some(Number(10)));
        assert_eq!(names(&map, NumberMark::Even), "a");
        map.clear();
        assert_eq!(names(&map, NumberMark::Even), "");
    }
}
