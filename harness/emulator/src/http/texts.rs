//! Texts of objects, as answers and watches send them: most objects are sent several times while
//! they stand, to who wrote them and to everyone who watches them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Bytes;

use super::encode;
use crate::store::Object;

/// So many texts are kept, of which none is longer than this.
const SLOTS: usize = 64;
const KEPT_BYTES_MAX: usize = 16 << 10;

/// An object that was sent, with its text.
type Kept = Option<(Object, Bytes)>;

/// Objects that were sent lately. Clones share them.
#[derive(Clone)]
pub(super) struct Texts(Arc<Mutex<Vec<Kept>>>);

impl Default for Texts {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(vec![None; SLOTS])))
    }
}

impl Texts {
    /// An object as JSON.
    pub(super) fn of(&self, object: &Object) -> Bytes {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut kept[place(object)];
        match slot {
            // What is kept is alive: no other object can be where it is.
            Some((known, text)) if Arc::ptr_eq(known, object) => text.clone(),
            _ => {
                let mut text = Vec::with_capacity(2048);
                encode::tree(&mut text, object);
                let text = Bytes::from(text);
                *slot = (text.len() <= KEPT_BYTES_MAX).then(|| (Arc::clone(object), text.clone()));
                text
            }
        }
    }
}

/// Where an object's text is kept, if it is: by where the object is in memory.
fn place(object: &Object) -> usize {
    let address = Arc::as_ptr(object).addr();
    ((address / 16) ^ (address / 4096)) % SLOTS
}

impl fmt::Debug for Texts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Texts")
    }
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;

    #[test]
    fn an_object_is_written_once_while_it_stands_and_another_has_its_own_text() {
        let texts = Texts::default();
        let object = Arc::new(json!({"kind": "Pod", "n": 1}));
        let text = texts.of(&object);
        assert_eq!(text, r#"{"kind":"Pod","n":1}"#);
        assert_eq!(texts.of(&object).as_ptr(), text.as_ptr());
        for n in 0..4 * SLOTS {
            let other = Arc::new(json!({ "n": n }));
            assert_eq!(texts.of(&other), format!(r#"{{"n":{n}}}"#));
        }
        assert_eq!(texts.of(&object), text);
    }
}
