//! What watches tell. Pods go through several changes in a row, most of which no decision depends
//! on: they are read when somebody wants to know, as each was told of last.

use super::{Key, Mirror};
use crate::watch::{Kind, Unread};

impl Mirror {
    /// Takes an object as a watch tells of it; a pod is kept [to be read](Self::read_pods).
    pub(crate) fn hear(&mut self, kind: Kind, object: Unread) {
        let key = Key::of_unread(&object);
        if kind != Kind::Pod {
            self.read(kind, &key, &object);
        } else if !self.is_known(kind, &key, object.version) {
            self.unread.insert(key, object);
        }
    }

    fn read(&mut self, kind: Kind, key: &Key, object: &Unread) {
        if !self.is_known(kind, key, object.version)
            && let Some(object) = object.object()
        {
            self.upsert(kind, &object);
        }
    }

    /// Watches told of pods that were not read yet.
    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Reads the pods that watches told of, as each was told of last.
    pub(crate) fn read_pods(&mut self) {
        for (key, object) in std::mem::take(&mut self.unread) {
            self.read(Kind::Pod, &key, &object);
        }
    }
}
