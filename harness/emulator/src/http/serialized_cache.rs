//! A cache of serialized objects. Most states of an object are sent several times: to its writer
//! and to every watcher.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Bytes;

use super::json_writer;
use crate::store::Object;

/// The number of slots for cached texts.
const SLOT_COUNT: usize = 64;
const ENTRY_BYTES_MAX: usize = 16 << 10;

/// An object and its JSON text.
type CacheSlot = Option<(Object, Bytes)>;

/// A cache of the JSON texts of recently sent objects. Clones share the cache.
#[derive(Clone)]
pub(super) struct SerializedCache(Arc<Mutex<Vec<CacheSlot>>>);

impl Default for SerializedCache {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(vec![None; SLOT_COUNT])))
    }
}

impl SerializedCache {
    /// The JSON text of an object, from the cache or serialized anew.
    pub(super) fn json_text(&self, object: &Object) -> Bytes {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut slots[slot_index(object)];
        match slot {
            // The cache keeps the object alive, so an equal address means the same object.
            Some((known, text)) if Arc::ptr_eq(known, object) => text.clone(),
            _ => {
                let mut text = Vec::with_capacity(2048);
                json_writer::write_value(&mut text, object);
                let text = Bytes::from(text);
                *slot = (text.len() <= ENTRY_BYTES_MAX).then(|| (Arc::clone(object), text.clone()));
                text
            }
        }
    }
}

/// The index of an object's slot, derived from the object's memory address.
fn slot_index(object: &Object) -> usize {
    let address = Arc::as_ptr(object).addr();
    ((address / 16) ^ (address / 4096)) % SLOT_COUNT
}

impl fmt::Debug for SerializedCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Texts")
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn a_cached_object_is_serialized_once_and_others_separately() {
        let texts = SerializedCache::default();
        let object = Arc::new(json!({"kind": "Pod", "n": 1}));
        let text = texts.json_text(&object);
        assert_eq!(text, r#"{"kind":"Pod","n":1}"#);
        assert_eq!(texts.json_text(&object).as_ptr(), text.as_ptr());
        for n in 0..4 * SLOT_COUNT {
            let other = Arc::new(json!({ "n": n }));
            assert_eq!(texts.json_text(&other), format!(r#"{{"n":{n}}}"#));
        }
        assert_eq!(texts.json_text(&object), text);
    }
}
