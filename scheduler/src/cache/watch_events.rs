//! Watch events. Pods change often, and most changes affect no decision: a pod is decoded when it
//! is needed, from its last event.

use super::{ClusterCache, ObjectKey};
use crate::watch::{Kind, RawObject};

impl ClusterCache {
    /// Applies a watch event. Pods are stored for [`decode_pods`](Self::decode_pods).
    pub(crate) fn on_event(&mut self, kind: Kind, object: RawObject) {
        let key = ObjectKey::of_raw(&object);
        if kind != Kind::Pod {
            self.decode(kind, &key, &object);
        } else if !self.has_version(kind, &key, object.version) {
            self.undecoded_pods.insert(key, object);
        }
    }

    fn decode(&mut self, kind: Kind, key: &ObjectKey, object: &RawObject) {
        if !self.has_version(kind, key, object.version)
            && let Some(object) = object.decode()
        {
            self.upsert(kind, &object);
        }
    }

    /// Whether there are pod events that were not decoded yet.
    pub(crate) fn has_undecoded_pods(&self) -> bool {
        !self.undecoded_pods.is_empty()
    }

    /// Decodes the pods of all watch events since the last call, each from its last event.
    pub(crate) fn decode_pods(&mut self) {
        for (key, object) in std::mem::take(&mut self.undecoded_pods) {
            self.decode(Kind::Pod, &key, &object);
        }
    }
}
