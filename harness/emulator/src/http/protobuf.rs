//! Bodies in protobuf, which Go clients send for built-in kinds: into the JSON that they mean.
//! Answers are never protobuf; clients that ask for it take JSON as well.

mod types;
mod wire;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use schedlab_json::{Map, Value};

use types::{FieldType, Message, Place, Type};
use wire::{Field, Fields};

/// What every protobuf body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// The object in a body: an envelope with API version and kind around the object's own message.
pub(super) fn object(body: &[u8]) -> Result<Value, String> {
    let envelope = body.strip_prefix(MAGIC).ok_or_else(|| {
        format!("provided data does not appear to be a protobuf message, expected prefix {MAGIC:?}")
    })?;
    let (mut type_meta, mut raw): (&[u8], &[u8]) = (&[], &[]);
    for field in Fields::of(envelope) {
        match field? {
            (1, Field::Bytes(bytes)) => type_meta = bytes,
            (2, Field::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (mut api_version, mut kind) = ("", "");
    for field in Fields::of(type_meta) {
        match field? {
            (1, Field::Bytes(bytes)) => api_version = text(bytes)?,
            (2, Field::Bytes(bytes)) => kind = text(bytes)?,
            _ => {}
        }
    }
    let name = types::name_of(api_version, kind)
        .ok_or_else(|| format!("no kind \"{kind}\" is registered for version \"{api_version}\""))?;
    let mut object = message(raw, name)?;
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion", api_version.into());
        fields.insert("kind", kind.into());
    }
    Ok(object)
}

fn message(bytes: &[u8], name: &str) -> Result<Value, String> {
    let known = types::message(name).ok_or_else(|| format!("{name} is not known"))?;
    let mut json = Map::new();
    let mut whole = None;
    for field in Fields::of(bytes) {
        let (number, field) = field?;
        let Some(of) = known.get(&number) else { continue };
        let value = |held: Option<Value>| value(field, &of.of, held);
        match of.place {
            Place::Named(name) => {
                let value = value(json.remove(name)).map_err(|why| format!("{name}: {why}"))?;
                if of.keeps_zero || !is_zero(&value) {
                    json.insert(name.to_owned(), value);
                }
            }
            Place::Inline => {
                if let Value::Object(fields) = value(None)? {
                    json.extend(fields);
                }
            }
            Place::Whole => whole = Some(value(whole.take())?),
        }
    }
    Ok(whole.unwrap_or_else(|| empty(known, json)))
}

/// A message that stands for a list is a list also when it is empty.
fn empty(known: &Message, json: Map) -> Value {
    let stands_for_a_list =
        |field: &FieldType| field.place == Place::Whole && matches!(field.of, Type::List(_));
    if known.values().any(stands_for_a_list) { Value::Array(Vec::new()) } else { json.into() }
}

/// What JSON leaves out of a field that may be left out.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// One occurrence of a field; `held` is what earlier ones of a list or map gave.
fn value(field: Field<'_>, of: &Type, held: Option<Value>) -> Result<Value, String> {
    Ok(match (of, field) {
        (Type::List(of), field) => {
            let mut items = match held {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            };
            items.push(value(field, of, None)?);
            items.into()
        }
        (Type::Map(of), Field::Bytes(entry)) => {
            let mut entries = match held {
                Some(Value::Object(entries)) => entries,
                _ => Map::new(),
            };
            let (key, value) = map_entry(entry, of)?;
            entries.insert(key, value);
            entries.into()
        }
        (Type::String, Field::Bytes(bytes)) => text(bytes)?.into(),
        (Type::Bool, Field::Number(number)) => (number != 0).into(),
        (Type::Integer, Field::Number(number)) => number.cast_signed().into(),
        (Type::Double, Field::Double(number)) => number.into(),
        (Type::Bytes, Field::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Type::Time, Field::Bytes(bytes)) => time(bytes)?,
        (Type::Quantity, Field::Bytes(bytes)) => text(member(bytes, 1)?)?.into(),
        (Type::IntOrString, Field::Bytes(bytes)) => int_or_string(bytes)?,
        (Type::Raw, Field::Bytes(bytes)) => match member(bytes, 1)? {
            [] => Value::Null,
            json => serde_json::from_slice(json).map_err(|error| error.to_string())?,
        },
        (Type::Message(name), Field::Bytes(bytes)) => message(bytes, name)?,
        (of, field) => return Err(format!("{field:?} is no {of:?}")),
    })
}

fn map_entry(entry: &[u8], of: &Type) -> Result<(String, Value), String> {
    let (mut key, mut held) = ("", None);
    for field in Fields::of(entry) {
        match field? {
            (1, Field::Bytes(bytes)) => key = text(bytes)?,
            (2, field) => held = Some(value(field, of, None)?),
            _ => {}
        }
    }
    // Values that are zero need not be written.
    let value = held.map_or_else(|| value(Field::Bytes(&[]), of, None), Ok)?;
    Ok((key.to_owned(), value))
}

/// The bytes in one field of a message; none when it is absent.
fn member(message: &[u8], wanted: u64) -> Result<&[u8], String> {
    let mut found: &[u8] = &[];
    for field in Fields::of(message) {
        if let (number, Field::Bytes(bytes)) = field?
            && number == wanted
        {
            found = bytes;
        }
    }
    Ok(found)
}

/// Seconds and nanoseconds; a message without any is no time.
fn time(message: &[u8]) -> Result<Value, String> {
    let (mut seconds, mut nanos) = (None, 0);
    for field in Fields::of(message) {
        match field? {
            (1, Field::Number(number)) => seconds = Some(number.cast_signed()),
            (2, Field::Number(number)) => nanos = i32::try_from(number).unwrap_or(0),
            _ => {}
        }
    }
    let Some(seconds) = seconds else { return Ok(Value::Null) };
    let time = Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    Ok(time.to_string().into())
}

fn int_or_string(message: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut words) = (false, 0, "");
    for field in Fields::of(message) {
        match field? {
            (1, Field::Number(kind)) => is_text = kind == 1,
            (2, Field::Number(value)) => number = value.cast_signed(),
            (3, Field::Bytes(bytes)) => words = text(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { words.into() } else { number.into() })
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;
    use crate::kinds::Kinds;

    /// Field `number` with bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).unwrap();
        assert!(length < 128 && number < 16, "one byte each");
        [&[number << 3 | 2, length], bytes].concat()
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &type_meta), field(2, raw)].concat()
    }

    #[test]
    fn a_pod_is_what_its_json_says() {
        let entry = |key: &str, value: &[u8]| [field(1, key.as_bytes()), field(2, value)].concat();
        let metadata = [
            field(1, b"p"),
            field(2, b""),
            field(8, b""),
            field(11, &entry("team", b"red")),
            field(11, &entry("zone", b"a")),
        ];
        let request = entry("cpu", &field(1, b"500m"));
        let container = [field(1, b"c"), field(2, b"i"), field(8, &field(2, &request))].concat();
        // terminationGracePeriodSeconds: 0, hostNetwork: false.
        let spec = [field(2, &container), vec![4 << 3, 0], vec![11 << 3, 0]].concat();
        let raw = [field(1, &metadata.concat()), field(2, &spec)].concat();
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "p", "labels": { "team": "red", "zone": "a" } },
            "spec": {
                "containers": [
                    { "name": "c", "image": "i", "resources": { "requests": { "cpu": "500m" } } }
                ],
                "terminationGracePeriodSeconds": 0,
            },
        });
        assert_eq!(object(&body("v1", "Pod", &raw)), Ok(expected));
    }

    #[test]
    fn values_of_their_own_form_are_read() {
        let data = field(2, &[field(1, b"key"), field(2, &[0, 255])].concat());
        let secret = object(&body("v1", "Secret", &data)).unwrap();
        assert_eq!(secret["data"], json!({ "key": "AP8=" }));
        let selector = field(3, &field(1, &[field(1, b"a"), field(2, b"b")].concat()));
        let half = field(1, &[vec![1 << 3, 1], field(3, b"50%")].concat());
        let spec = field(2, &[half, field(2, &selector)].concat());
        let budget = object(&body("policy/v1", "PodDisruptionBudget", &spec)).unwrap();
        assert_eq!(budget["spec"]["minAvailable"], "50%");
        let renewed = field(4, &[1 << 3, 100, 2 << 3, 0xc0, 0x84, 0x3d]);
        let lease = object(&body("coordination.k8s.io/v1", "Lease", &field(2, &renewed))).unwrap();
        assert_eq!(lease["spec"]["renewTime"], "1970-01-01T00:01:40.001Z");
    }

    #[test]
    fn what_stands_inline_in_json_stands_there() {
        let volume = [field(1, b"v"), field(2, &field(2, &[]))].concat();
        let raw = field(2, &field(1, &volume));
        let pod = object(&body("v1", "Pod", &raw)).unwrap();
        assert_eq!(pod["spec"]["volumes"], json!([{ "name": "v", "emptyDir": {} }]));
    }

    #[test]
    fn what_is_no_such_body_is_refused_in_words() {
        let not = |body: &[u8]| object(body).unwrap_err();
        assert!(not(b"{}").contains("does not appear to be a protobuf message"));
        let refused = not(&body("example.com/v1", "Thing", b""));
        assert_eq!(refused, "no kind \"Thing\" is registered for version \"example.com/v1\"");
        assert_eq!(not(&body("v1", "Pod", &[0x0a, 9])), "unexpected EOF");
        assert!(not(&body("v1", "Pod", &[0x08, 1])).starts_with("metadata: "));
    }

    #[test]
    fn every_built_in_kind_has_its_message() {
        for kind in Kinds::built_in().iter() {
            let api_version = kind.api_version(&kind.storage);
            let name = types::name_of(&api_version, &kind.kind);
            assert!(name.is_some(), "{api_version} {}", kind.kind);
        }
    }
}
